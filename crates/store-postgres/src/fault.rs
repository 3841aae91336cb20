//! What went wrong at the database, said in the words of the interface.

use std::error::Error as _;

use store::StoreError;
use tokio_postgres::error::SqlState;

/// Why a call to the database did not do what it should.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Said by us before or after asking: nothing is wrong with the database.
    Refused(StoreError),
    /// There is no connection to be had; nothing was asked.
    Away(String),
    /// The database did not answer for longer than we wait.
    Silent,
    /// The database, or the way to it, failed.
    Database(tokio_postgres::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Refused(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::Database(error)
    }
}

impl Fault {
    /// Whether the connection is gone, so that nobody heard how what was asked ended.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Fault::Refused(_) | Fault::Away(_) => false,
            Fault::Silent => true,
            Fault::Database(error) => loses_connection(error),
        }
    }

    /// Whether the connection should not be used again: it is gone, or leads to a server that is no primary any more.
    pub(crate) fn spoils_connection(&self) -> bool {
        self.is_lost() || self.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Whether the database has undone the transaction because of others: it may well succeed when done again.
    pub(crate) fn is_collision(&self) -> bool {
        let collisions = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        self.code().is_some_and(|code| collisions.contains(code))
    }

    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Fault::Database(error) => error.code(),
            _ => None,
        }
    }

    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Fault::Refused(error) => matches!(error, StoreError::Unavailable(_)),
            Fault::Away(_) | Fault::Silent => true,
            Fault::Database(error) => self.is_lost() || unavailable(error).is_some(),
        }
    }
}

fn loses_connection(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        // Class 08 is the connection's own; class 57P is the server's going down; the last are for whoever stood still
        // in the middle of a transaction, or took too long for it.
        Some(code) => {
            let code = code.code();
            code.starts_with("08") || code.starts_with("57P") || ["25P03", "25P04"].contains(&code)
        }
        // Neither the database's own words nor ours about a row: the way there.
        None => error.is_closed() || caused_by_io(error),
    }
}

fn caused_by_io(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What passes by itself or by the care of whoever runs the database.
fn unavailable(error: &tokio_postgres::Error) -> Option<&'static str> {
    // By classes of SQLSTATE, most precise first.
    const REASONS: [(&str, &str); 15] = [
        ("53100", "the database's disk is full"),
        ("53200", "the database is out of memory"),
        ("53300", "the database takes no more connections"),
        ("53", "the database is out of resources"),
        ("25006", "the database is read-only"),
        ("42501", "the database refuses us the right to do this"),
        ("28", "the database does not let us in"),
        ("3D000", "the database does not exist"),
        ("55P03", "what is to be written is locked by somebody else"),
        ("25P03", "the database gave up on a transaction that stood still"),
        ("25P04", "the database gave up on a transaction that took too long"),
        ("57014", "the database gave up on a statement that took too long"),
        ("57P", "the database is going down or coming up"),
        ("58", "the database's disk failed"),
        ("40", "the database undid a transaction because of others"),
    ];
    let code = error.code()?.code();
    REASONS.iter().find(|(class, _)| code.starts_with(class)).map(|(_, reason)| *reason)
}

/// The database's own words, or the last cause of what kept us from hearing any.
pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Refused(error) => error,
            Fault::Away(why) => StoreError::Unavailable(why),
            Fault::Silent => StoreError::Unavailable("the database does not answer".into()),
            Fault::Database(error) => match unavailable(&error) {
                Some(reason) => StoreError::Unavailable(format!("{reason}: {}", words(&error))),
                None if loses_connection(&error) => StoreError::Unavailable(format!(
                    "the connection to the database was lost: {}",
                    words(&error)
                )),
                None => StoreError::Failed(words(&error)),
            },
        }
    }
}
