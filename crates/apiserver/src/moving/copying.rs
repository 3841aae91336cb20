//! The copy of a control plane that goes on being written: what was there at a revision, and what happened since.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use objects::{Reason, Status};
use store::{
    Change, Delivery, Event, Expect, Key, Operation, Revision, Scope, StoreError, Tenant, TenantId, Watch,
};

use super::{FROZEN, MOVE, elsewhere, key};
use crate::control_plane::Seal;
use crate::engine::Engine;
use crate::service::Failure;

/// Keys and bytes that are written at once: as many as every engine takes in one transaction.
const KEYS: usize = 100;
const BYTES: usize = 512 << 10;
/// Whoever writes faster than the other store does for so long has to be stopped before it can be caught up with.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Copying<'a> {
    to: &'a Engine,
    pub copy: TenantId,
    changes: Watch,
    /// Read and not yet written: what keys are now, or that they are gone.
    pending: BTreeMap<Key, Option<Bytes>>,
    bytes: usize,
}

impl<'a> Copying<'a> {
    /// Copies what is there now, under seal.
    pub async fn begin(from: &Engine, to: &'a Engine, tenant: &Tenant) -> Result<Self, Failure> {
        let at = from.store.revision(tenant.id).await?;
        let export = from.store.export_tenant(tenant.id, Some(at)).await?;
        let record = from.planes.record_with_seal(tenant, Some(Seal { from: from.name.clone() }))?;
        let copied = match to.store.import_tenant(&tenant.name, record, export).await {
            Err(StoreError::TenantExists { name }) => {
                let message = format!("the store {:?} has a control plane {name:?} of its own", to.name);
                return Err(Status::new(Reason::AlreadyExists, message).into());
            }
            copied => copied?,
        };
        let changes = from.store.watch(tenant.id, Scope::All, at).await?;
        // That it is about to move is true of the original only.
        let pending = BTreeMap::from([(key(MOVE), None)]);
        Ok(Copying { to, copy: copied.id, changes, pending, bytes: 0 })
    }

    /// Writes what has happened since, until there is hardly anything left.
    pub async fn catch_up(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.next().await? {
                Delivery::Progress(_) => break,
                Delivery::Event(event) => self.take(&event).await?,
            }
        }
        self.flush().await
    }

    /// Writes what has happened up to a revision that nothing comes after.
    pub async fn catch_up_to(&mut self, last: Revision) -> Result<(), Failure> {
        loop {
            match self.next().await? {
                Delivery::Event(event) => {
                    self.take(&event).await?;
                    if event.revision >= last {
                        break;
                    }
                }
                Delivery::Progress(reached) if reached >= last => break,
                Delivery::Progress(_) => {}
            }
        }
        self.flush().await
    }

    async fn next(&mut self) -> Result<Delivery, Failure> {
        let Some(delivery) = self.changes.next().await else { return Err(elsewhere().into()) };
        Ok(delivery.map_err(|error| StoreError::Unavailable(error.to_string()))?)
    }

    async fn take(&mut self, event: &Event) -> Result<(), Failure> {
        if event.key.kind == FROZEN || event.key.kind == MOVE {
            return Ok(());
        }
        let value = (event.change != Change::Deleted).then(|| event.value.clone());
        let size = value.as_ref().map_or(0, Bytes::len);
        if self.pending.len() >= KEYS || self.bytes + size > BYTES {
            self.flush().await?;
        }
        self.bytes += size;
        self.pending.insert(event.key.clone(), value);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        if pending.is_empty() {
            return Ok(());
        }
        let operation = |(key, value)| match value {
            Some(value) => Operation::Put { key, expect: Expect::Any, value },
            None => Operation::Delete { key, expect: Expect::Any },
        };
        self.to.store.write(self.copy, pending.into_iter().map(operation).collect()).await?;
        Ok(())
    }
}
