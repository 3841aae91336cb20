//! What went wrong below, said in the words of the interface.

use rusqlite::ErrorCode;

use super::codec;
use crate::{Key, StoreError};

/// Why a step of a batch did not happen.
#[derive(Debug)]
pub(super) enum Fault {
    /// The step was refused before it changed anything; the others of its batch go on.
    Refused(StoreError),
    /// The database failed in the middle: nothing of the batch may stay.
    Broken(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Broken(error)
    }
}

/// A record that does not fit its checksum, or that is missing where another says that it is there. Travels as an error
/// of the database up to [`store_error`].
#[derive(thiserror::Error, Debug)]
#[error("{why}")]
struct Damage {
    key: Option<Key>,
    why: String,
}

/// Damage of a record that belongs to no entry.
pub(super) fn damaged(why: &str) -> rusqlite::Error {
    damage(Damage { key: None, why: why.into() })
}

/// Damage of an entry, by the bytes of its key.
pub(super) fn damaged_entry(key: &[u8], why: &str) -> rusqlite::Error {
    damage(match codec::decode(key) {
        Some(key) => Damage { key: Some(key), why: why.into() },
        None => Damage { key: None, why: format!("the key {:?}: {why}", String::from_utf8_lossy(key)) },
    })
}

fn damage(damage: Damage) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(damage))
}

/// Whether an error means that what is stored is not what was written.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    ) || matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The same error, of an entry if it named none and is one of damage.
pub(super) fn of_entry(error: rusqlite::Error, key: &[u8]) -> rusqlite::Error {
    match &error {
        rusqlite::Error::FromSqlConversionFailure(_, _, source)
            if source.downcast_ref::<Damage>().is_some_and(|damage| damage.key.is_some()) =>
        {
            error
        }
        error if is_damage(error) => damaged_entry(key, &error.to_string()),
        _ => error,
    }
}

/// What errors begin with when there is no room.
pub(super) const FULL: &str = "the disk is full";

/// Trouble of the disk may pass; a damaged file does not.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    if let rusqlite::Error::FromSqlConversionFailure(_, _, source) = &error
        && let Some(Damage { key, why }) = source.downcast_ref::<Damage>()
    {
        return StoreError::Damaged { key: key.clone().map(Box::new), why: why.clone() };
    }
    if is_damage(&error) {
        return StoreError::Damaged { key: None, why: error.to_string() };
    }
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => FULL,
        Some(ErrorCode::ReadOnly) => "the data directory cannot be written",
        Some(ErrorCode::SystemIoFailure) => "the disk failed",
        Some(ErrorCode::CannotOpen) => "the database cannot be opened",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process holds the database",
        Some(ErrorCode::OutOfMemory) => "out of memory",
        _ => return StoreError::Failed(error.to_string()),
    };
    StoreError::Unavailable(format!("{what}: {error}"))
}

/// `StoreError` is not `Clone` (an entry in it may be large); those that a whole batch gets are.
pub(super) fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::Failed(why) => StoreError::Failed(why.clone()),
        StoreError::Damaged { key, why } => StoreError::Damaged { key: key.clone(), why: why.clone() },
        other => StoreError::Unavailable(match other {
            StoreError::Unavailable(why) => why.clone(),
            other => other.to_string(),
        }),
    }
}
