//! The log on disk, as watches read it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;

use super::codec::Bounds;
use super::fault::store_error;
use super::lines::{self, LogRow};
use super::readers::Readers;
use super::snapshot;
use super::tenants::readable;
use crate::fanout::{Chunk, Cursor, Kinds, Log};
use crate::{Position, Revision, Scope, StoreError, TenantId};

/// Lines looked at for one chunk, and bytes of values taken into it.
const LINES: usize = 512;
const BYTES: usize = 1 << 20;

pub(super) struct DiskLog(Arc<Readers>);

impl DiskLog {
    pub(super) fn new(readers: Arc<Readers>) -> Self {
        DiskLog(readers)
    }
}

/// The events of the first of `rows` that `wanted` accepts, until a chunk is full; with how many rows that used.
fn events(
    connection: &rusqlite::Connection,
    rows: &[LogRow],
    wanted: impl Fn(&LogRow) -> bool,
) -> Result<(Vec<Arc<crate::Event>>, usize), StoreError> {
    let mut events = Vec::new();
    let mut bytes = 0;
    for (index, row) in rows.iter().enumerate() {
        if bytes >= BYTES {
            return Ok((events, index));
        }
        if wanted(row) {
            let event = lines::event(connection, row).map_err(store_error)?;
            bytes += event.value.len() + event.previous.as_ref().map_or(0, |previous| previous.len());
            events.push(event);
        }
    }
    Ok((events, rows.len()))
}

#[async_trait]
impl Log for DiskLog {
    async fn tenant_events(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Cursor,
    ) -> Result<Chunk, StoreError> {
        let bounds = Bounds::of(scope)?;
        self.0
            .long(move |connection| {
                let tenant =
                    snapshot::tenant(connection, tenant).map_err(store_error)?.ok_or(StoreError::NoTenant)?;
                readable(&tenant, after.revision)?;
                let from = (after.revision, after.position);
                let rows = lines::tenant_log(connection, &tenant, from, LINES).map_err(store_error)?;
                let wanted = |row: &LogRow| bounds.from <= row.key && row.key < bounds.to;
                let (events, used) = events(connection, &rows, wanted)?;
                let caught_up = used == rows.len() && rows.len() < LINES;
                let read = match rows.get(used.wrapping_sub(1)) {
                    Some(last) if !caught_up => Cursor { revision: last.revision, position: last.position },
                    _ => Cursor {
                        revision: tenant.revision,
                        position: Position(snapshot::counter(connection, "position").map_err(store_error)?),
                    },
                };
                Ok(Chunk { events, read, caught_up })
            })
            .await
    }

    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError> {
        let kinds = kinds.clone();
        self.0
            .long(move |connection| {
                let compacted = snapshot::counter(connection, "compacted").map_err(store_error)?;
                if after.0 < compacted {
                    let (asked, oldest) = (Revision(after.0), Revision(compacted));
                    return Err(StoreError::Compacted { asked, oldest });
                }
                let rows = lines::log_after(connection, after, LINES).map_err(store_error)?;
                let mut living = HashMap::new();
                for row in &rows {
                    if let Entry::Vacant(place) = living.entry(row.tenant) {
                        place
                            .insert(snapshot::tenant(connection, row.tenant).map_err(store_error)?.is_some());
                    }
                }
                let wanted = |row: &LogRow| {
                    let kind = row.key.split(|byte| *byte == 0).next().unwrap_or_default();
                    living.get(&row.tenant) == Some(&true)
                        && std::str::from_utf8(kind).is_ok_and(|kind| kinds.contains(kind))
                };
                let (events, used) = events(connection, &rows, wanted)?;
                let caught_up = used == rows.len() && rows.len() < LINES;
                let position = match rows.get(used.wrapping_sub(1)) {
                    Some(last) if !caught_up => last.position,
                    _ => Position(snapshot::counter(connection, "position").map_err(store_error)?),
                };
                Ok(Chunk { events, read: Cursor { revision: Revision(0), position }, caught_up })
            })
            .await
    }
}
