//! Who there is. Small, and written only when a tenant comes, goes, or has its record changed.
//!
//! Before the first tenant comes there is no file, nor anything else in the directory.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use tokio::sync::watch;

use super::rooms::opening;
use crate::codec::{integer, number};
use crate::embedded::{OpenError, corrupt_or_unreadable, lock, row_limit, store_error};
use crate::{Position, StoreError, Tenant, TenantId};

const FILE: &str = "ledger.db";
const VERSION: i64 = 1;

/// Ids are not used again, so that nobody takes a new tenant for an old one.
const TABLES: &str = "
CREATE TABLE room (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    record BLOB NOT NULL,
    state INTEGER NOT NULL
);
CREATE UNIQUE INDEX room_name ON room (name) WHERE state IN (1, 2);
CREATE INDEX room_unfinished ON room (id) WHERE state IN (0, 3);
-- Where the trail ended, and whether it was closed there.
CREATE TABLE trail (position INTEGER NOT NULL, closed INTEGER NOT NULL);
INSERT INTO trail VALUES (0, 1);
";

/// How far a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its directory is being filled; nobody knows it yet.
    Making = 0,
    /// It has no directory yet, and nothing in it.
    Bare = 1,
    /// It lives in its directory.
    Housed = 2,
    /// It is gone; its directory goes too.
    Going = 3,
}

/// Positions of one run of the store lie between two multiples of this.
const RUN: u64 = 1 << 40;

pub(super) struct Ledger {
    directory: PathBuf,
    /// Of its own, so that no reader waits for the disk. Whoever has locked both has locked the other one first.
    reading: Mutex<Book<Connection>>,
    writing: Mutex<Book<(Connection, lock::DirectoryLock)>>,
    /// Whether there is a file.
    begun: watch::Sender<bool>,
}

/// The file, for one of those who use it.
enum Book<T> {
    /// Nobody has come yet.
    Unwritten,
    Open(T),
    Closed,
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -256)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

/// Both connections, with the position that the trail goes on from: where it was closed, or beyond all that were used before it
/// was not.
fn open(directory: &Path) -> Result<(Connection, Connection, Position), OpenError> {
    let file = directory.join(FILE);
    let open = || -> rusqlite::Result<(Connection, Connection, i64, Position)> {
        let writing = connect(&file)?;
        let version = writing.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
        if version == 0 {
            writing.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"))?;
        } else if version != VERSION {
            return Ok((connect(&file)?, writing, version, Position(0)));
        }
        let trail = |row: &Row<'_>| Ok((number(row.get(0)?), row.get::<_, bool>(1)?));
        let (position, closed) = writing.query_row("SELECT position, closed FROM trail", [], trail)?;
        let begin = if closed { position } else { (position / RUN + 1) * RUN };
        writing.execute("UPDATE trail SET position = ?1, closed = 0", [integer(begin)])?;
        Ok((connect(&file)?, writing, VERSION, Position(begin)))
    };
    let (reading, writing, found, begin) =
        open().map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
    if found != VERSION {
        return Err(OpenError::Version { file, found, known: VERSION });
    }
    Ok((reading, writing, begin))
}

/// The first page, and a directory for it that is as durable as what will be in it.
fn begin(directory: &Path) -> Result<(Connection, Connection, lock::DirectoryLock), OpenError> {
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    }
    let lock = lock::take(directory)?;
    if directory.join(FILE).exists() {
        // Whoever made it since we looked was here alone, and so are we.
        return Err(OpenError::InUse { directory: directory.to_owned(), pid: None });
    }
    let (reading, writing, _) = open(directory)?;
    Ok((reading, writing, lock))
}

impl Ledger {
    /// With the position that the trail goes on from.
    pub(super) fn open(directory: &Path) -> Result<(Ledger, Position), OpenError> {
        let (reading, writing, position) = match directory.join(FILE).exists() {
            true => {
                let lock = lock::take(directory)?;
                let (reading, writing, position) = open(directory)?;
                (Book::Open(reading), Book::Open((writing, lock)), position)
            }
            false => (Book::Unwritten, Book::Unwritten, Position(0)),
        };
        let begun = watch::Sender::new(matches!(reading, Book::Open(_)));
        let (directory, reading, writing) = (directory.to_owned(), Mutex::new(reading), Mutex::new(writing));
        Ok((Ledger { directory, reading, writing, begun }, position))
    }

    /// Whether anybody has ever come.
    pub(super) fn begun(&self) -> watch::Receiver<bool> {
        self.begun.subscribe()
    }

    fn read<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match &*self.reading.lock() {
            Book::Unwritten => Ok(T::default()),
            Book::Open(connection) => work(connection).map_err(store_error),
            Book::Closed => Err(StoreError::closed()),
        }
    }

    /// Waits for the disk.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut writing = self.writing.lock();
        if matches!(*writing, Book::Unwritten) {
            let (reader, writer, lock) = begin(&self.directory).map_err(opening)?;
            *writing = Book::Open((writer, lock));
            *self.reading.lock() = Book::Open(reader);
            self.begun.send_replace(true);
        }
        match &*writing {
            Book::Open((connection, _)) => work(connection).map_err(store_error),
            Book::Unwritten | Book::Closed => Err(StoreError::closed()),
        }
    }

    /// A change that makes a name known.
    fn naming(
        &self,
        name: &str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
    ) -> Result<TenantId, StoreError> {
        let done = self.write(|connection| match work(connection) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(None),
            done => done.map(|_| Some(TenantId(number(connection.last_insert_rowid())))),
        })?;
        done.ok_or_else(|| StoreError::TenantExists { name: name.into() })
    }

    pub(super) fn named(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT id, name, record FROM room WHERE name = ?1 AND state IN (1, 2)")?
                .query_row([name], tenant)
                .optional()
        })
    }

    pub(super) fn by_id(&self, id: TenantId) -> Result<Option<(Tenant, State)>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT id, name, record, state FROM room WHERE id = ?1 AND state IN (1, 2)")?
                .query_row([integer(id.0)], |row| {
                    let bare = row.get::<_, i64>(3)? == State::Bare as i64;
                    Ok((tenant(row)?, if bare { State::Bare } else { State::Housed }))
                })
                .optional()
        })
    }

    /// In the order of names.
    pub(super) fn page(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT id, name, record FROM room WHERE state IN (1, 2) AND name > ?1 ORDER BY name LIMIT ?2",
                )?
                .query_map(params![after.unwrap_or_default(), row_limit(limit)], tenant)?
                .collect()
        })
    }

    /// What was being made or removed when the store ended.
    pub(super) fn unfinished(&self) -> Result<Vec<TenantId>, StoreError> {
        self.read(|connection| {
            connection
                .prepare("SELECT id FROM room WHERE state IN (0, 3)")?
                .query_map([], |row| Ok(TenantId(number(row.get(0)?))))?
                .collect()
        })
    }

    /// A tenant with nothing in it.
    pub(super) fn enter(&self, name: &str, record: &Bytes) -> Result<TenantId, StoreError> {
        self.naming(name, |connection| {
            let row = params![name, record.as_ref(), State::Bare as i64];
            connection.execute("INSERT INTO room (name, record, state) VALUES (?1, ?2, ?3)", row)
        })
    }

    /// A tenant that nobody knows before it is published.
    pub(super) fn begin(&self, name: &str) -> Result<TenantId, StoreError> {
        self.naming(name, |connection| {
            let row = params![name, State::Making as i64];
            connection.execute("INSERT INTO room (name, record, state) VALUES (?1, x'', ?2)", row)
        })
    }

    pub(super) fn publish(&self, id: TenantId, name: &str, record: &Bytes) -> Result<(), StoreError> {
        let published = self.naming(name, |connection| {
            let row = params![integer(id.0), record.as_ref(), State::Housed as i64];
            connection.execute("UPDATE room SET record = ?2, state = ?3 WHERE id = ?1", row)
        });
        published.map(drop)
    }

    /// One that had no directory has one.
    pub(super) fn housed(&self, id: TenantId) -> Result<(), StoreError> {
        self.change("UPDATE room SET state = ?2 WHERE id = ?1 AND state = 1", id, State::Housed).map(drop)
    }

    pub(super) fn update(&self, id: TenantId, record: &Bytes) -> Result<(), StoreError> {
        let changed = self.write(|connection| {
            let row = params![integer(id.0), record.as_ref()];
            connection.execute("UPDATE room SET record = ?2 WHERE id = ?1 AND state IN (1, 2)", row)
        })?;
        if changed == 0 { Err(StoreError::NoTenant) } else { Ok(()) }
    }

    /// The same if the record is the one that is known.
    pub(super) fn replace(&self, id: TenantId, known: &Bytes, record: &Bytes) -> Result<bool, StoreError> {
        let changed = self.write(|connection| {
            let row = params![integer(id.0), record.as_ref(), known.as_ref()];
            let sql = "UPDATE room SET record = ?2 WHERE id = ?1 AND record = ?3 AND state IN (1, 2)";
            connection.execute(sql, row)
        })?;
        if changed == 0 && self.by_id(id)?.is_none() {
            return Err(StoreError::NoTenant);
        }
        Ok(changed > 0)
    }

    /// From now on it is nobody's.
    pub(super) fn leave(&self, id: TenantId) -> Result<(), StoreError> {
        let sql = "UPDATE room SET state = ?2 WHERE id = ?1 AND state IN (1, 2)";
        match self.change(sql, id, State::Going)? {
            0 => Err(StoreError::NoTenant),
            _ => Ok(()),
        }
    }

    /// Its directory is gone.
    pub(super) fn forget(&self, id: TenantId) -> Result<(), StoreError> {
        let sql = "DELETE FROM room WHERE id = ?1 AND state IN (0, 3)";
        self.write(|connection| connection.execute(sql, [integer(id.0)])).map(drop)
    }

    fn change(&self, sql: &str, id: TenantId, to: State) -> Result<usize, StoreError> {
        self.write(|connection| connection.execute(sql, [integer(id.0), to as i64]))
    }

    /// Ends it, with where the trail is: whoever has followed to there has missed nothing. Others may have the directory then.
    pub(super) fn close(&self, trail: Position) {
        let mut writing = self.writing.lock();
        *self.reading.lock() = Book::Closed;
        if let Book::Open((connection, _lock)) = std::mem::replace(&mut *writing, Book::Closed)
            && let Err(error) =
                connection.execute("UPDATE trail SET position = ?1, closed = 1", [integer(trail.0)])
        {
            tracing::warn!(%error, "where changes ended could not be noted; all will be looked at");
        }
    }
}

fn tenant(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    let name: String = row.get(1)?;
    Ok(Tenant {
        id: TenantId(number(row.get(0)?)),
        name: name.into(),
        record: row.get::<_, Vec<u8>>(2)?.into(),
    })
}
