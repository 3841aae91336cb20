//! What a tenant is for as long as it lives: its name, and how its revisions follow from etcd's.
//!
//! A tenant's revision is etcd's plus an offset. The offset is 0 unless the tenant came from elsewhere with revisions
//! beyond etcd's, which must not go back. What was copied into a tenant before it was seen counts as written by the
//! revision that made it visible: its birth.

use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use store::{Entry, Revision, StoreError, TenantId};

use crate::engine::Engine;
use crate::keys::Place;
use crate::transaction::get;
use crate::wire::{KeyValue, Txn};

/// As it lies in etcd.
#[derive(Serialize, Deserialize)]
pub(crate) struct Row {
    pub name: String,
    #[serde(default)]
    pub offset: u64,
    /// Its first entries are a copy: nobody can have followed how they came to be.
    #[serde(default)]
    pub copied: bool,
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // A struct of a string and two numbers has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub id: TenantId,
    pub name: CompactString,
    pub copied: bool,
    offset: u64,
    /// etcd's revision of the transaction that made the tenant.
    pub birth: u64,
}

impl About {
    pub(crate) fn decode(id: TenantId, kv: &KeyValue) -> Result<About, StoreError> {
        let row: Row = serde_json::from_slice(&kv.value).map_err(|error| {
            StoreError::Failed(format!("what is kept about tenant {id} is damaged: {error}"))
        })?;
        Ok(About { id, name: row.name.into(), copied: row.copied, offset: row.offset, birth: kv.modified() })
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The tenant's revision at a revision of etcd's.
    pub(crate) fn revision(&self, etcds: u64) -> Revision {
        Revision(etcds.max(self.birth).saturating_add(self.offset))
    }

    pub(crate) fn first(&self) -> Revision {
        self.revision(self.birth)
    }

    /// etcd's revision behind one of the tenant's; none for what is not of this tenant's life.
    pub(crate) fn etcds(&self, revision: Revision) -> Option<u64> {
        let etcds = revision.0.checked_sub(self.offset)?;
        (etcds >= self.birth && i64::try_from(etcds).is_ok()).then_some(etcds)
    }
}

impl Engine {
    /// From memory, where it may outlive the tenant: whoever uses it looks at the tenant's head as well.
    pub(crate) async fn about(&self, tenant: TenantId) -> Result<Arc<About>, StoreError> {
        match self.known.get(&tenant) {
            Some(about) => Ok(about),
            None => self.look_up(tenant).await?.ok_or(StoreError::NoTenant),
        }
    }

    pub(crate) async fn look_up(&self, tenant: TenantId) -> Result<Option<Arc<About>>, StoreError> {
        let mut answer = self.link.read(Txn::read(vec![get(&self.keys.about(tenant))])).await?;
        let Some(kv) = answer.get()? else { return Ok(None) };
        let about = Arc::new(About::decode(tenant, &kv)?);
        self.known.insert(tenant, about.clone());
        Ok(Some(about))
    }

    /// `None` for what is no object of ours.
    pub(crate) fn entry(&self, about: &About, kv: KeyValue) -> Option<Entry> {
        let Some(Place::Object(_, key)) = self.keys.place(&kv.key) else { return None };
        let (created, modified) = (about.revision(kv.created()), about.revision(kv.modified()));
        Some(Entry { key, created, modified, value: kv.value })
    }
}
