//! A database whose log ends before what was acknowledged: noticed when it is opened, and accepted only on request.

use std::path::Path;

use rusqlite::Connection;

use super::batch::{Batch, Counters};
use super::fault::{Fault, store_error};
use super::head::{self, Head, Known};
use super::snapshot::{self, TenantRow};
use super::{OpenError, lock, schema};
use crate::codec::number;
use crate::{Revision, TenantId};

fn unusable(directory: &Path, why: String) -> OpenError {
    OpenError::Database { file: directory.join(schema::FILE), why }
}

/// Refuses a database that ends before its head. With the head, to be written from now on.
pub(super) fn check(directory: &Path, connection: &Connection) -> Result<Head, OpenError> {
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    let (mut head, known) = Head::open(directory).map_err(failed)?;
    let counters = Counters::load(connection)
        .map_err(|error| schema::corrupt_or_unreadable(directory.join(schema::FILE), error))?;
    match missing(&counters, known) {
        None => head.write(counters.known()).map_err(failed)?,
        Some((lost, _)) => return Err(OpenError::Lost { file: directory.join(schema::FILE), lost }),
    }
    Ok(head)
}

/// The same where nothing can be written.
pub(super) fn check_unwritable(directory: &Path, connection: &Connection) -> Result<Head, OpenError> {
    match lost(directory, connection)? {
        None => Ok(Head::unwritable()),
        Some(lost) => Err(OpenError::Lost { file: directory.join(schema::FILE), lost }),
    }
}

/// How many changes are missing, without touching anything.
pub(super) fn lost(directory: &Path, connection: &Connection) -> Result<Option<u64>, OpenError> {
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    let known = head::known(directory).map_err(failed)?;
    let counters = Counters::load(connection)
        .map_err(|error| schema::corrupt_or_unreadable(directory.join(schema::FILE), error))?;
    Ok(missing(&counters, known).map(|(lost, _)| lost))
}

/// How many changes are missing.
fn missing(counters: &Counters, known: Option<Known>) -> Option<(u64, Known)> {
    let known = known?;
    let lost = known.position.saturating_sub(counters.position);
    // Making a tenant is no change of the log.
    let lost = lost.max(known.tenant.saturating_sub(counters.tenant));
    (lost > 0).then_some((lost, known))
}

/// Goes on without the changes that are missing, and returns how many they were. No revision that may have been given out
/// for one of them is given out again: every tenant goes on beyond them, and watches and pages from before get to know
/// that their history is gone.
pub fn accept_loss(directory: &Path) -> Result<u64, OpenError> {
    let _lock = lock::take(directory)?;
    let connection = schema::open_writer(directory, 8 << 20)?;
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    let (mut head, known) = Head::open(directory).map_err(failed)?;
    let file = directory.join(schema::FILE);
    let counters =
        Counters::load(&connection).map_err(|error| schema::corrupt_or_unreadable(file.clone(), error))?;
    let Some((lost, known)) = missing(&counters, known) else { return Ok(0) };
    let skipped = skip(&connection, counters, known, lost).map_err(|fault| {
        let error = match fault {
            Fault::Refused(error) => error,
            Fault::Broken(error) => store_error(error),
        };
        unusable(directory, error.to_string())
    })?;
    head.write(skipped.known()).map_err(failed)?;
    Ok(lost)
}

fn skip(connection: &Connection, counters: Counters, known: Known, lost: u64) -> Result<Counters, Fault> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut batch = Batch::new(connection, counters, 0);
    let ids: Vec<i64> = connection
        .prepare("SELECT id FROM tenant ORDER BY id")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    // Forks read the past of others, which ends here.
    for id in &ids {
        while !batch.copy_step(TenantId(number(*id)), 1000)? {}
    }
    for id in ids {
        let Some(row) = snapshot::tenant_row(connection, TenantId(number(id)))? else { continue };
        let revision = Revision(row.revision.0 + lost);
        batch.store_tenant(&TenantRow { revision, oldest: revision, ..row })?;
    }
    connection.execute_batch("DELETE FROM log; DELETE FROM history;")?;
    batch.counters.position = batch.counters.position.max(known.position);
    batch.counters.tenant = batch.counters.tenant.max(known.tenant);
    batch.counters.history_bytes = 0;
    snapshot::set_counter(connection, "compacted", batch.counters.position)?;
    let (counters, _) = batch.finish()?;
    connection.execute_batch("COMMIT")?;
    Ok(counters)
}
