//! Rows of the directory and values that are encrypted with an older key than the one that encrypts now, and how they are
//! brought up to date while everything is served.
//!
//! A control plane has more than one data key after it was copied, and after a version that bound values less. Its values
//! are rewritten with the first one, a page at a time. The other keys stay for as long as history has values that were
//! encrypted with them, and are then taken out of the record: from there on such a value is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use objects::{CompactString, Reason, Status};
use store::{Expect, Key, Operation, Revision, Scope, StoreError, Tenant, TenantId};
use tokio::sync::Notify;

use crate::codec::{self, Codec};
use crate::control_plane::ControlPlaneError;
use crate::engine::Engine;
use crate::moving;
use crate::service::Failure;

/// Rows of the directory, and values, that are read at once.
const ROWS: usize = 200;
const VALUES: usize = 100;
/// How often another process may be first with a row of the directory.
const TRIES: usize = 100;
/// History goes after some minutes.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Control planes that are remembered by name; when there are more, the directory is read again.
const REMEMBERED: usize = 4_096;

/// Control planes whose values or data keys are still to be brought up to date.
#[derive(Default)]
pub(crate) struct Pending {
    names: parking_lot::Mutex<BTreeSet<CompactString>>,
    more: Notify,
}

impl Pending {
    /// Has a control plane looked at soon.
    pub(crate) fn add(&self, name: &str) {
        let mut names = self.names.lock();
        if names.len() < REMEMBERED {
            names.insert(name.into());
        }
        self.more.notify_one();
    }

    fn is_full(&self) -> bool {
        self.names.lock().len() >= REMEMBERED
    }

    fn all(&self) -> Vec<CompactString> {
        self.names.lock().iter().cloned().collect()
    }

    fn done(&self, name: &str) {
        self.names.lock().remove(name);
    }
}

impl Engine {
    /// Changes a row of the directory; `change` is none if there is nothing to change. What another process changes at the
    /// same time is kept. Returns whether it was changed.
    pub(crate) async fn change_record(
        &self,
        tenant: &Tenant,
        change: impl Fn(&Tenant) -> Result<Option<Bytes>, ControlPlaneError>,
    ) -> Result<bool, Failure> {
        let _held = self.config.keys.hold();
        let mut tenant = tenant.clone();
        for _ in 0..TRIES {
            let Some(record) = change(&tenant)? else { return Ok(false) };
            if self.store.replace_record(&tenant, record).await? {
                return Ok(true);
            }
            tenant = self.store.tenant_by_id(tenant.id).await?.ok_or(StoreError::NoTenant)?;
        }
        let message = format!("change control plane {:?}: too many others change it", tenant.name);
        Err(Status::new(Reason::ServiceUnavailable, message).retry_after(1).into())
    }

    /// Encrypts all rows of the directory with the installation's first key. Returns how many were encrypted with another.
    pub async fn rewrap_records(&self) -> Result<u64, Failure> {
        let (mut after, mut changed): (Option<CompactString>, u64) = (None, 0);
        loop {
            let page = self.store.tenants(after.as_deref(), ROWS).await?;
            let Some(last) = page.last() else { return Ok(changed) };
            after = Some(last.name.clone());
            for tenant in page.iter().filter(|tenant| !tenant.name.starts_with('_')) {
                if let Err(error) = self.planes.rewrapped(tenant) {
                    // No key opens it, neither the ones that are known nor the next one.
                    tracing::error!(control_plane = %tenant.name, %error, "a row cannot be encrypted anew");
                    continue;
                }
                match self.change_record(tenant, |tenant| self.planes.rewrapped(tenant)).await {
                    Ok(true) => changed += 1,
                    Ok(false) => {}
                    Err(_) if self.store.tenant_by_id(tenant.id).await?.is_none() => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
    }

    /// Brings values up to date for as long as it is polled: first all that the directory tells of, then those of new
    /// copies. Any number of processes may do so at once.
    pub async fn renew_values(self: Arc<Self>) {
        let mut read = false;
        while !self.is_stopping() {
            if !read || self.renewals.is_full() {
                read = match self.find_renewals().await {
                    Ok(()) => true,
                    Err(failure) => {
                        tracing::debug!(store = %self.name, error = %failure.0.message, "the directory cannot be read yet");
                        false
                    }
                };
            }
            for name in self.renewals.all() {
                match self.renew(&name).await {
                    Ok(true) => self.renewals.done(&name),
                    Ok(false) => {}
                    Err(failure) => {
                        tracing::warn!(control_plane = %name, error = %failure.0.message, "values cannot be encrypted anew; trying again");
                        break;
                    }
                }
            }
            let waiting = read && self.renewals.all().is_empty();
            tokio::select! {
                () = self.renewals.more.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if !waiting => {}
                () = self.stopped() => {}
            }
        }
    }

    async fn find_renewals(&self) -> Result<(), Failure> {
        let mut after: Option<CompactString> = None;
        loop {
            let page = self.store.tenants(after.as_deref(), ROWS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for tenant in &page {
                if self.planes.data_keys_if_open(tenant).is_some_and(|keys| !keys.is_single()) {
                    self.renewals.add(&tenant.name);
                }
            }
        }
    }

    /// Brings the values of one control plane up to date. True when nothing is left to do: it has one data key.
    pub(crate) async fn renew(&self, name: &str) -> Result<bool, Failure> {
        let Some(tenant) = self.store.tenant(name).await? else { return Ok(true) };
        if self.planes.codec_if_open(&tenant).is_none() {
            return Ok(true);
        }
        let keys = self.planes.data_keys_of(&tenant)?;
        if keys.is_single() {
            return Ok(true);
        }
        if !keys.are_retired() {
            let codec = Codec::new(keys);
            // One that is written in between is found by the next pass.
            while self.rewrite(tenant.id, &codec).await? > 0 {}
            let until = self.store.revision(tenant.id).await?;
            self.change_record(&tenant, |tenant| self.planes.record_with_retired_keys(tenant, until)).await?;
        }
        self.forget_keys(name, &tenant).await
    }

    /// Takes out the data keys that nothing is encrypted with any more, not even in history.
    async fn forget_keys(&self, name: &str, tenant: &Tenant) -> Result<bool, Failure> {
        let Some(tenant) = self.store.tenant_by_id(tenant.id).await? else { return Ok(true) };
        let Some(until) = self.planes.data_keys_of(&tenant)?.retired() else { return Ok(false) };
        let before = Revision(until.0.saturating_sub(1));
        let probe = Scope::One(Key::new("secrets", "default", "none"));
        match self.store.range(tenant.id, &probe, None, Some(before), 1).await {
            Err(StoreError::Compacted { .. }) => {}
            Err(StoreError::NoTenant) => return Ok(true),
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(false),
        }
        self.change_record(&tenant, |tenant| self.planes.record_without_retired_keys(tenant)).await?;
        self.planes.forget(name);
        self.announce(name).await?;
        tracing::info!(control_plane = %name, "everything is encrypted with the control plane's own data key");
        Ok(true)
    }

    /// Encrypts values with the first data key; how many were encrypted with another.
    async fn rewrite(&self, tenant: TenantId, codec: &Codec) -> Result<u64, Failure> {
        let mut found = 0;
        for kind in codec::ENCRYPTED_KINDS {
            let scope = Scope::Kind(kind.into());
            let mut after: Option<Key> = None;
            loop {
                let page = self.store.range(tenant, &scope, after.as_ref(), None, VALUES).await?;
                after = page.entries.last().map(|last| last.key.clone());
                for entry in page.entries.iter().filter(|entry| !codec.is_current(&entry.value)) {
                    found += 1;
                    let value = match codec.encrypted_anew(&entry.key, &entry.value) {
                        Ok(value) => value,
                        Err(error) => {
                            // It cannot be read by anybody, with these keys or without.
                            tracing::error!(%error, "a value cannot be encrypted anew");
                            found -= 1;
                            continue;
                        }
                    };
                    let (key, expect) = (entry.key.clone(), Expect::Modified(entry.modified));
                    let operations = vec![Operation::Put { key, expect, value }, moving::check()];
                    match self.store.write(tenant, operations).await {
                        Err(StoreError::Conflict { key, .. }) if key.kind != "secrets" => {
                            return Err(moving::underway().into());
                        }
                        Ok(_) | Err(StoreError::Conflict { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                if !page.more {
                    break;
                }
            }
        }
        Ok(found)
    }
}
