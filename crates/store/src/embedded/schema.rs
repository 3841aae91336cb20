//! The tables, and how a connection to them is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::OpenError;

pub(super) const FILE: &str = "hangar.db";

/// Marks the file as ours (`hngr`), and the layout as this one.
const APPLICATION: i64 = 0x686e_6772;
const VERSION: i64 = 2;

/// What makes a database of version 1 one of this version.
const FROM_1: &str = "
ALTER TABLE current ADD COLUMN template INTEGER;
CREATE TABLE template (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL);
CREATE INDEX template_by_key ON template (key);
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
const TABLES: &str = "
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('position', 0), ('compacted', 0), ('tenant', 0), ('history_bytes', 0);

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
    base_after BLOB
);
-- What is left to do is found after a restart without looking at every tenant.
CREATE INDEX tenant_unfinished ON tenant (id) WHERE state <> 0 OR base_tenant IS NOT NULL;

CREATE TABLE directory (
    name TEXT PRIMARY KEY,
    id INTEGER NOT NULL UNIQUE,
    record BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE tally (
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;

CREATE TABLE current (
    tenant INTEGER NOT NULL,
    key BLOB NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    value BLOB NOT NULL,
    -- The value is what differs from this one.
    template INTEGER,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;

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
    PRIMARY KEY (tenant, key, modified)
) WITHOUT ROWID;

-- change: 0 created, 1 updated, 2 deleted. previous, value: the value this change superseded, and the revision that
-- wrote it.
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
        if found == (APPLICATION, 1) {
            connection.execute_batch(&format!("BEGIN; {FROM_1} PRAGMA user_version = {VERSION}; COMMIT;"))?;
            return Ok((connection, APPLICATION, VERSION));
        }
        Ok((connection, found.0, found.1))
    };
    let (connection, application, version) =
        open().map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
    if application != APPLICATION {
        return Err(OpenError::Corrupt { file, why: "it is a database of another program".into() });
    }
    if version != VERSION {
        return Err(OpenError::Version { file, found: version, known: VERSION });
    }
    let rewritten = make_shrinkable(&connection);
    rewritten.map_err(|error| corrupt_or_unreadable(file.clone(), error))?;
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
pub(super) fn open_reader(directory: &Path, cache_bytes: u64) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(directory.join(FILE), flags)?;
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
    connection.busy_timeout(Duration::from_secs(5))?;
    // Plans do not depend on what is bound; else every new limit would have its statement prepared anew.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Every statement of the engine, prepared once per connection.
    connection.set_prepared_statement_cache_capacity(96);
    Ok(())
}
