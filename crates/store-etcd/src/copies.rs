//! Tenants that are made from more than a transaction holds: forks, imports, and large beginnings.
//!
//! Entries are written below the new id while nobody sees it, then one transaction puts the tenant into the directory.
//! Each step also writes the row in `making`, and commits only while that is there: a replica that finds a row that
//! nobody has written for long turns it into one of `removing`, and whoever was only slow fails at its next step.
//!
//! etcd has no cheap copies: a fork takes time by the size of its source, and its entries are new to etcd. They count
//! as written by the revision that published them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::export::{self, Decoder, Encoder, Header};
use store::{Export, Fence, Key, Revision, Scope, StoreError, Tenant, TenantId};

use crate::about::Row;
use crate::directory::{Keyed, directory_row};
use crate::engine::Engine;
use crate::keys::Place;
use crate::past::written_now;
use crate::reads::PAGE;
use crate::transaction::{absent, delete, exists, get, put};
use crate::wire::{Step, Txn};

/// What one step writes at most, but for a single entry that is larger.
const STEP_ENTRIES: usize = 500;
const STEP_BYTES: usize = 1_000_000;
/// How often somebody who waits for the next piece of an import shows that it still does.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A tenant that nobody sees yet. Dropped before it is published, it leaves nothing behind.
pub(crate) struct Making<'e> {
    engine: &'e Engine,
    id: TenantId,
    steps: Vec<Step>,
    bytes: usize,
    /// Of what has been gathered, the largest value and its key.
    largest: (usize, Bytes),
    published: bool,
}

impl Engine {
    pub(crate) async fn begin(&self, name: &str) -> Result<Making<'_>, StoreError> {
        let id = self.allocate(None, name, |id| Ok(vec![put(&self.keys.making(id), Bytes::new())])).await?;
        let largest = (0, Bytes::new());
        Ok(Making { engine: self, id, steps: Vec::new(), bytes: 0, largest, published: false })
    }

    pub(crate) async fn fork(
        &self,
        fence: Option<&Fence>,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        let about = self.about(source).await?;
        let span = self.keys.scope(source, &Scope::All)?;
        let first = self.first_page(&about, &span, at, PAGE).await?;
        let mut making = self.begin(name).await?;
        let target = self.keys.scope(making.id(), &Scope::All)?.from;
        let mut page = first.kvs;
        while let Some(last) = page.last().map(|kv| kv.key.clone()) {
            for kv in page {
                let key = [&target[..], &kv.key[span.from.len()..]].concat();
                making.put(key.into(), kv.value).await?;
            }
            page = self.next_page(&about, &span, &last, first.pinned, PAGE).await?;
        }
        making.publish(fence, name, record, about.offset()).await
    }

    pub(crate) async fn export(
        self: &Arc<Self>,
        tenant: TenantId,
        at: Option<Revision>,
    ) -> Result<Export, StoreError> {
        let about = self.about(tenant).await?;
        let span = self.keys.scope(tenant, &Scope::All)?;
        let first = self.first_page(&about, &span, at, PAGE).await?;
        let (engine, pinned) = (self.clone(), first.pinned);
        let mut encoder = Encoder::new();
        encoder.header(&Header { revision: first.revision, latest: first.current });
        // Page by page, all as of one revision: an export of any size takes the memory of a page. If compaction
        // overtakes it, it ends with that error.
        Ok(futures::stream::try_unfold(Some((encoder, first.kvs)), move |state| {
            let (engine, about, span) = (engine.clone(), about.clone(), span.clone());
            async move {
                let Some((mut encoder, page)) = state else { return Ok(None) };
                let Some(last) = page.last().map(|kv| kv.key.clone()) else {
                    return Ok(Some((encoder.finish(), None)));
                };
                for entry in page.into_iter().filter_map(|kv| engine.entry(&about, kv)) {
                    encoder.entry(&entry)?;
                }
                let chunk = encoder.take();
                // Deleted meanwhile: what is read would be going.
                engine.read_head(&about).await?;
                let page = engine.next_page(&about, &span, &last, pinned, PAGE).await?;
                Ok(Some((chunk, Some((encoder, page)))))
            }
        })
        .boxed())
    }

    pub(crate) async fn import(
        &self,
        fence: Option<&Fence>,
        name: &str,
        record: Bytes,
        mut export: Export,
    ) -> Result<Tenant, StoreError> {
        let mut making = self.begin(name).await?;
        let mut decoder = Decoder::new();
        loop {
            let Ok(chunk) = tokio::time::timeout(HEARTBEAT, export.next()).await else {
                making.step().await?;
                continue;
            };
            let Some(chunk) = chunk else { break };
            decoder.push(&chunk?);
            while let Some(entry) = decoder.next_entry()? {
                let key = self.keys.object(making.id(), &entry.key)?;
                making.put(key, entry.value).await?;
            }
        }
        let beyond = export::revision_after_import(&decoder.finish()?);
        // etcd's revision only grows until the tenant is published, so with this it begins beyond.
        let now = self.now().await?;
        making.publish(fence, name, record, beyond.0.saturating_sub(now)).await
    }
}

impl Making<'_> {
    pub(crate) fn id(&self) -> TenantId {
        self.id
    }

    pub(crate) async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), StoreError> {
        let bytes = key.len() + value.len();
        if self.steps.len() >= STEP_ENTRIES || (self.bytes + bytes > STEP_BYTES && !self.steps.is_empty()) {
            self.step().await?;
        }
        self.bytes += bytes;
        if value.len() > self.largest.0 {
            self.largest = (value.len(), key.clone());
        }
        self.steps.push(put(&key, value));
        Ok(())
    }

    /// Writes what has been gathered; with nothing gathered, shows that somebody is still at it.
    async fn step(&mut self) -> Result<(), StoreError> {
        let row = self.engine.keys.making(self.id);
        let mut steps = std::mem::take(&mut self.steps);
        self.bytes = 0;
        let largest = std::mem::take(&mut self.largest);
        steps.push(put(&row, Bytes::new()));
        let txn = Txn::new(vec![exists(&row)], steps, vec![]);
        let txn = txn.ok_or_else(|| StoreError::Failed("a step of a copy is too large".into()))?;
        let answer = self.engine.commit(None, txn).await.map_err(|error| match error {
            StoreError::TooLarge(why) => StoreError::TooLarge(self.naming(&largest, &why)),
            error => error,
        })?;
        if answer.succeeded { Ok(()) } else { Err(given_up()) }
    }

    /// Which entry it was that etcd did not take: whoever copies a tenant has named none.
    fn naming(&self, (bytes, key): &(usize, Bytes), why: &str) -> String {
        match self.engine.keys.place(key) {
            Some(Place::Object(_, Key { kind, namespace, name })) => {
                let slash = if namespace.is_empty() { "" } else { "/" };
                format!("{kind} {namespace}{slash}{name} has {bytes} bytes: {why}")
            }
            _ => why.to_owned(),
        }
    }

    pub(crate) async fn publish(
        mut self,
        fence: Option<&Fence>,
        name: &str,
        record: Bytes,
        offset: u64,
    ) -> Result<Tenant, StoreError> {
        self.step().await?;
        let engine = self.engine;
        let row = Row { name: name.into(), offset, copied: true };
        let making = engine.keys.making(self.id);
        let keyed = Keyed::new(&engine.keys, name, self.id);
        let txn = Txn {
            compare: vec![absent(&keyed.name), exists(&making)],
            success: vec![
                put(&keyed.name, directory_row(self.id, &record)),
                put(&keyed.about, row.encode()),
                delete(&making),
                put(&keyed.head, written_now()),
            ],
            failure: vec![get(&keyed.name)],
        };
        let mut answer = engine.commit(fence, txn).await?;
        if !answer.succeeded {
            let taken = answer.get()?.is_some();
            return Err(if taken { StoreError::TenantExists { name: name.into() } } else { given_up() });
        }
        self.published = true;
        Ok(Tenant { id: self.id, name: name.into(), record })
    }
}

fn given_up() -> StoreError {
    StoreError::Unavailable("the copy took so long that another replica gave it up; try again".into())
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if !self.published {
            // In the background, and by whoever comes later if this process does not live to do it.
            self.engine.abandon(self.id);
        }
    }
}
