//! What went wrong below, said in the words of the interface.

use rusqlite::ErrorCode;

use crate::StoreError;

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

/// Trouble of the disk may pass; a damaged file does not.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::ReadOnly) => "the data directory cannot be written",
        Some(ErrorCode::SystemIoFailure) => "the disk failed",
        Some(ErrorCode::CannotOpen) => "the database cannot be opened",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process holds the database",
        Some(ErrorCode::OutOfMemory) => "out of memory",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Failed(format!("the database is damaged: {error}"));
        }
        _ => return StoreError::Failed(error.to_string()),
    };
    StoreError::Unavailable(format!("{what}: {error}"))
}

/// `StoreError` is not `Clone` (an entry in it may be large); those that a whole batch gets are.
pub(super) fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::Failed(why) => StoreError::Failed(why.clone()),
        other => StoreError::Unavailable(match other {
            StoreError::Unavailable(why) => why.clone(),
            other => other.to_string(),
        }),
    }
}
