//! A database made anew of all that can be read of a damaged one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::batch::{Batch, Counters};
use super::check::Report;
use super::codec::{self, integer};
use super::fault::{Fault, of_entry, store_error};
use super::head::Head;
use super::snapshot::{self, LIVES, Stored, current_columns, current_row};
use super::{OpenError, check, lock, loss, schema};
use crate::{Revision, TenantId};

/// Where the new database is made, below the directory of the store.
const WORKPLACE: &str = "repair";

/// Replaces the database in a directory, which no process may have open, by one with every entry that can be read, and
/// returns what could not. The old file stays beside it. The history is not taken along, and every tenant goes on at a new
/// revision, so that watches and pages from before list again.
pub fn repair(directory: &Path) -> Result<(Report, PathBuf), OpenError> {
    let _lock = lock::take(directory)?;
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    let file = directory.join(schema::FILE);
    let unusable = |error: Fault| {
        let why = match error {
            Fault::Refused(error) => error.to_string(),
            Fault::Broken(error) => store_error(error).to_string(),
        };
        OpenError::Database { file: file.clone(), why }
    };
    let old = schema::open_writer(directory, 64 << 20)?;
    let (mut head, known) = Head::open(directory).map_err(failed)?;
    let lost = loss::lost(directory, &old)?.unwrap_or(0);
    let place = directory.join(WORKPLACE);
    if place.exists() {
        // One that was interrupted.
        std::fs::remove_dir_all(&place).map_err(failed)?;
    }
    std::fs::create_dir(&place).map_err(failed)?;
    let new = schema::open_writer(&place, 64 << 20)?;
    let mut report = Report::default();
    let mut counters = Counters::load(&new).map_err(|error| unusable(error.into()))?;
    finish_copies(&old).map_err(unusable)?;
    for id in check::ids(&old).map_err(|error| unusable(error.into()))? {
        counters = tenant(&old, &new, counters, id, lost, &mut report).map_err(unusable)?;
    }
    let before = Counters::load(&old).unwrap_or(counters);
    let known = known.unwrap_or_default();
    counters.position = before.position.max(known.position);
    let tenants = before.tenant.max(known.tenant).max(counters.tenant);
    for (name, value) in
        [("position", counters.position), ("compacted", counters.position), ("tenant", tenants)]
    {
        snapshot::set_counter(&new, name, value).map_err(|error| unusable(error.into()))?;
    }
    for connection in [&old, &new] {
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.map_err(|error| unusable(error.into()))?;
    }
    drop((old, new));
    let kept = free_name(&file);
    std::fs::rename(&file, &kept).map_err(failed)?;
    for beside in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(directory.join(format!("{}{beside}", schema::FILE)));
    }
    std::fs::rename(place.join(schema::FILE), &file).map_err(failed)?;
    std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    std::fs::remove_dir_all(&place).map_err(failed)?;
    counters.tenant = tenants;
    head.write(counters.known()).map_err(failed)?;
    Ok((report, kept))
}

fn free_name(file: &Path) -> PathBuf {
    let named = |number: u32| file.with_extension(format!("db.damaged-{number}"));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}

/// Forks read the past of others, which ends here. One whose base is damaged keeps what it has.
fn finish_copies(old: &Connection) -> Result<(), Fault> {
    for id in check::ids(old)? {
        let copy = || -> Result<(), Fault> {
            let mut batch = Batch::new(old, Counters::load(old)?, 0);
            while !batch.copy_step(id, 1000)? {}
            batch.finish().map(drop)
        };
        old.execute_batch("BEGIN IMMEDIATE")?;
        let ended = if copy().is_ok() { "COMMIT" } else { "ROLLBACK" };
        old.execute_batch(ended)?;
    }
    Ok(())
}

fn tenant(
    old: &Connection,
    new: &Connection,
    counters: Counters,
    id: TenantId,
    lost: u64,
    report: &mut Report,
) -> Result<Counters, Fault> {
    let row = match snapshot::tenant_row(old, id) {
        Ok(Some(row)) if row.state == LIVES => row,
        Ok(_) => return Ok(counters),
        Err(error) => {
            report.found(None, error);
            return Ok(counters);
        }
    };
    let entered = match snapshot::tenant_by_id(old, id) {
        Ok(Some(entered)) => entered,
        Ok(None) => return Ok(counters),
        Err(error) => {
            report.found(None, error);
            return Ok(counters);
        }
    };
    report.tenants += 1;
    new.execute_batch("BEGIN IMMEDIATE")?;
    let mut batch = Batch::new(new, counters, 0);
    // Beyond all that may have been given out, also for what is missing now.
    let revision = Revision(row.revision.0 + lost + 1);
    batch.counters.tenant = id.0 - 1;
    let made = batch.insert_tenant(LIVES, revision, revision)?;
    batch.enter(made, &entered.name, entered.record.clone())?;
    let (mut done, mut damaged) = (HashSet::new(), Vec::new());
    let mut put = |key: &[u8], stored: Stored| -> Result<(), Fault> {
        let Some(decoded) = codec::decode(key) else { return Ok(()) };
        if done.insert(key.to_vec()) {
            batch.count(made, &decoded.kind, 1, (key.len() + stored.value.len()) as i64)?;
            batch.put_common(made, key, &stored, true)?;
        }
        Ok(())
    };
    // In the order of the table first: a damaged key hides others from whoever looks for them by theirs.
    let ended = scan(old, id, |key, stored| put(key, stored));
    if let Err(Fault::Broken(error)) = ended {
        report.found(Some(&entered.name), error);
    }
    for key in listed(old, id)? {
        match snapshot::own(old, id, &key) {
            Ok(Some(stored)) => put(&key, stored)?,
            Ok(None) => {}
            Err(error) => damaged.push((key, error)),
        }
    }
    report.entries += done.len() as u64;
    for (key, error) in damaged {
        if !done.contains(&key) {
            report.found(Some(&entered.name), of_entry(error, &key));
        }
    }
    let (counters, _) = batch.finish()?;
    new.execute_batch("COMMIT")?;
    Ok(counters)
}

/// The rows of a tenant that fit their checksums, as they lie in the table.
fn scan(
    old: &Connection,
    id: TenantId,
    mut put: impl FnMut(&[u8], Stored) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = old.prepare(concat!(
        "SELECT ",
        current_columns!(),
        ", key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 ORDER BY key"
    ))?;
    let mut rows = statement.query(params![integer(id.0)])?;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
        if let Ok(stored) = current_row(row, id, key) {
            put(key, stored)?;
        }
    }
    Ok(())
}

fn listed(old: &Connection, id: TenantId) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    let mut statement =
        old.prepare("SELECT key FROM current INDEXED BY current_keys WHERE tenant = ?1 ORDER BY key")?;
    let mut rows = statement.query(params![integer(id.0)])?;
    // As many as can be read.
    while let Ok(Some(row)) = rows.next() {
        if let Ok(key) = row.get(0) {
            keys.push(key);
        }
    }
    Ok(keys)
}
