//! The tables, and how a connection to them is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{OpenError, upgrade};

pub(super) const FILE: &str = "hangar.db";

/// Marks the file as ours (`hngr`), and the layout as this one.
const APPLICATION: i64 = 0x686e_6772;
const VERSION: i64 = 3;

/// What makes a database of version 1 one of this version.
const FROM_1: &str = "
ALTER TABLE current ADD COLUMN template INTEGER;
CREATE TABLE template (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL);
CREATE INDEX template_by_key ON template (key);
";

/// The same for version 2, except for the checksums themselves (`upgrade`).
const FROM_2: &str = "
ALTER TABLE counter ADD COLUMN sum INTEGER;
ALTER TABLE tenant ADD COLUMN sum INTEGER;
ALTER TABLE directory ADD COLUMN sum INTEGER;
ALTER TABLE tally ADD COLUMN sum INTEGER;
ALTER TABLE current ADD COLUMN sum INTEGER;
ALTER TABLE history ADD COLUMN sum INTEGER;
ALTER TABLE log ADD COLUMN line INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN lines INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN sum INTEGER;
ALTER TABLE log ADD COLUMN value_sum INTEGER;
CREATE INDEX current_keys ON current (tenant, key);
CREATE INDEX directory_names ON directory (name);
INSERT INTO counter (name, value) VALUES ('without_sum', 1);
";

/// A database of an earlier version whose pages cannot be given back is written anew when it is opened, if it is not larger.
const REWRITTEN_BYTES: i64 = 256 << 20;

/// Objects are one to a few kilobytes. A row is kept whole in its page up to about a quarter of the page, and 8 kB
/// keeps that true for most objects without writing much for small ones.
const PAGE: i64 = 8192;

/// What is (`current`), what happened (`log`), and where in it the past of a key is found (`history`). A value stands in
/// exactly one place: in `current` until a change supersedes it, then in the log line of that change. The log is
/// written at its end only, so that a superseded value costs its own bytes and not a page. All that a tenant has now
/// lies together, so that whatever is done to it is done to a range.
///
/// `sum` is the record's checksum (`crate::checksum`). Whether a record is missing is told by a second table that lists it:
/// an index beside `current` and `directory` (queries name the one they mean; a table's own tree has the name
/// `sqlite_autoindex_TABLE_1`), the log beside `history`, and the numbering of revisions and lines in
/// the log itself. Why so: docs/decisions/0010-integrity.md.
const TABLES: &str = "
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL, sum INTEGER) WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES
    ('position', 0), ('compacted', 0), ('tenant', 0), ('history_bytes', 0), ('without_sum', 1);

-- Rewritten with every write of a tenant: small on purpose.
-- state: 0 lives, 1 is being imported, 2 is being removed.
-- A fork begins as a reference: what it has not copied yet (keys after base_after) is read from its base.
CREATE TABLE tenant (
    id INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    base_tenant INTEGER,
    base_revision INTEGER,
    base_after BLOB,
    sum INTEGER
);
-- What is left to do is found after a restart without looking at every tenant.
CREATE INDEX tenant_unfinished ON tenant (id) WHERE state <> 0 OR base_tenant IS NOT NULL;

CREATE TABLE directory (
    name TEXT PRIMARY KEY,
    id INTEGER NOT NULL UNIQUE,
    sum INTEGER,
    record BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX directory_names ON directory (name);

CREATE TABLE tally (
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sum INTEGER,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;

CREATE TABLE current (
    tenant INTEGER NOT NULL,
    key BLOB NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    -- Of the whole value.
    sum INTEGER,
    -- The value is what differs from this one.
    template INTEGER,
    value BLOB NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
-- Which keys there are, once more.
CREATE INDEX current_keys ON current (tenant, key);

-- Values that are nearly the same in every tenant.
CREATE TABLE template (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL);
CREATE INDEX template_by_key ON template (key);

-- One row for every value that was superseded, while the log line that did it is kept.
CREATE TABLE history (
    tenant INTEGER NOT NULL,
    key BLOB NOT NULL,
    modified INTEGER NOT NULL,
    superseded INTEGER NOT NULL,
    created INTEGER NOT NULL,
    position INTEGER NOT NULL,
    sum INTEGER,
    PRIMARY KEY (tenant, key, modified)
) WITHOUT ROWID;

-- change: 0 created, 1 updated, 2 deleted. previous, value: the value this change superseded, and the revision that
-- wrote it. line, lines: which of how many changes of its revision it is, from 1; 0 where that was not written.
CREATE TABLE log (
    position INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    key BLOB NOT NULL,
    change INTEGER NOT NULL,
    created INTEGER NOT NULL,
    previous INTEGER,
    time INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    line INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    -- Of all but the value, so that lines are judged without reading values; and of the value.
    sum INTEGER,
    value_sum INTEGER,
    value BLOB
);
CREATE INDEX log_by_tenant ON log (tenant, revision);
";

pub(crate) fn corrupt_or_unreadable(file: PathBuf, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            OpenError::Corrupt { file, why: error.to_string() }
        }
        _ => OpenError::Database { file, why: error.to_string() },
    }
}

/// What can be done with the files of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    /// They are on a read-only file system, and the log has something that the database has not.
    Read,
    /// The same, and the database is all there is.
    ReadFile,
}

impl Access {
    pub(super) fn of(directory: &Path) -> Access {
        let opened = std::fs::OpenOptions::new().write(true).open(directory.join(FILE));
        match opened {
            Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
                let log = std::fs::metadata(directory.join(format!("{FILE}-wal")));
                if log.map_or(0, |log| log.len()) == 0 { Access::ReadFile } else { Access::Read }
            }
            _ => Access::Write,
        }
    }
}

/// Opens a database that nothing can be written to. Whatever is tried all the same fails with SQLite's error for that.
pub(super) fn open_unwritable(
    directory: &Path,
    access: Access,
    cache_bytes: u64,
) -> Result<Connection, OpenError> {
    let file = directory.join(FILE);
    let open = || -> rusqlite::Result<(Connection, i64, bool)> {
        let connection = open_reader(directory, access, cache_bytes)?;
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let ready = version == VERSION
            && connection.query_row(
                "SELECT value = 0 FROM counter WHERE name = 'without_sum'",
                [],
                |row| row.get(0),
            )?;
        Ok((connection, version, ready))
    };
    let (connection, found, ready) = open().map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
    if found != VERSION {
        return Err(OpenError::Version { file, found, known: VERSION });
    }
    if !ready {
        let why = "its checksums are not complete, and it cannot be written".into();
        return Err(OpenError::Database { file, why });
    }
    Ok(connection)
}

/// Opens the database for writing, and makes it when there is none.
pub(super) fn open_writer(directory: &Path, cache_bytes: u64) -> Result<Connection, OpenError> {
    let file = directory.join(FILE);
    let open = || -> rusqlite::Result<(Connection, i64, i64)> {
        let connection = Connection::open(&file)?;
        // Before the first page is written, or it is without effect.
        connection.pragma_update(None, "page_size", PAGE)?;
        // Pages that are free are given back in steps (`chores`).
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // In WAL mode `full` is one fsync per commit, before the commit returns.
        connection.pragma_update(None, "synchronous", "full")?;
        // A thread of its own does it (`checkpoint`), so that no commit waits for it.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        tune(&connection, cache_bytes)?;
        let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let found = (number("application_id")?, number("user_version")?);
        if found == (0, 0) {
            connection.execute_batch(&format!(
                "BEGIN; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
            ))?;
            return Ok((connection, APPLICATION, VERSION));
        }
        for (version, upgrade) in [(1, FROM_1), (2, FROM_2)] {
            if found.0 == APPLICATION && number("user_version")? == version {
                let next = version + 1;
                connection
                    .execute_batch(&format!("BEGIN; {upgrade} PRAGMA user_version = {next}; COMMIT;"))?;
            }
        }
        let found = (found.0, number("user_version")?);
        Ok((connection, found.0, found.1))
    };
    let (mut connection, application, version) =
        open().map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
    if application != APPLICATION {
        return Err(OpenError::Corrupt { file, why: "it is a database of another program".into() });
    }
    if version != VERSION {
        return Err(OpenError::Version { file, found: version, known: VERSION });
    }
    let ready = upgrade::add_checksums(&mut connection).and_then(|()| make_shrinkable(&connection));
    ready.map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
    Ok(connection)
}

/// Databases of before could not shrink. The small ones are written anew, which takes a second or two and as much room on
/// the disk as they have; the others stay as they are until somebody does it (docs/stores.md).
fn make_shrinkable(connection: &Connection) -> rusqlite::Result<()> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("auto_vacuum")? != 0 {
        return Ok(());
    }
    let bytes = (number("page_count")? - number("freelist_count")?) * number("page_size")?;
    if bytes > REWRITTEN_BYTES {
        tracing::info!(
            bytes,
            "the database does not shrink when something is deleted until it has been vacuumed"
        );
        return Ok(());
    }
    // Without room for it, it stays as it is.
    if let Err(error) = connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;") {
        tracing::info!(%error, "the database cannot be vacuumed now");
    }
    Ok(())
}

/// Opens one more connection to a database that [`open_writer`] has opened before.
pub(super) fn open_reader(
    directory: &Path,
    access: Access,
    cache_bytes: u64,
) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = directory.join(FILE);
    let connection = match access {
        Access::ReadFile => {
            // Without the files beside it, which cannot be made.
            let path = file.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let address = format!("file:{path}?immutable=1");
            Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
        Access::Write | Access::Read => Connection::open_with_flags(file, flags)?,
    };
    tune(&connection, cache_bytes)?;
    Ok(connection)
}

/// A connection that only moves pages from the write-ahead log to the database.
pub(super) fn open_checkpointer(directory: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(directory.join(FILE), flags)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "synchronous", "full")?;
    Ok(connection)
}

fn tune(connection: &Connection, cache_bytes: u64) -> rusqlite::Result<()> {
    let kibibytes = i64::try_from(cache_bytes >> 10).unwrap_or(i64::MAX).max(256);
    connection.pragma_update(None, "cache_size", -kibibytes)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // Pages of no sense are found when they are read.
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // Plans do not depend on what is bound; else every new limit would have its statement prepared anew.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Every statement of the engine, prepared once per connection.
    connection.set_prepared_statement_cache_capacity(96);
    Ok(())
}
