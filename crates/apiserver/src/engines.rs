//! The stores of one process: each has its engine, and a control plane is in one of them.
//!
//! Where a control plane is, is where it is found; nothing else says so. Its name is unique over all of them.

use std::sync::Arc;

use objects::CompactString;
use store::StoreError;

use crate::control_plane::{ControlPlane, Found};
use crate::engine::Engine;
use crate::moving;
use crate::service::Failure;

/// The engine of the default store, which has the hosting control plane, and those of further ones.
#[derive(Clone)]
pub struct Engines(Arc<Vec<Arc<Engine>>>);

impl Engines {
    pub fn new(default: Arc<Engine>, others: Vec<Arc<Engine>>) -> Self {
        Engines(Arc::new(std::iter::once(default).chain(others).collect()))
    }

    /// The same with another engine on the default store: that of whoever holds a lease there.
    #[must_use]
    pub fn with_default(&self, default: Arc<Engine>) -> Self {
        Engines::new(default, self.iter().skip(1).cloned().collect())
    }

    pub fn default_store(&self) -> &Arc<Engine> {
        &self.0[0]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.0.iter()
    }

    /// By the name of its store; no name is the default's.
    pub fn named(&self, name: &str) -> Option<&Arc<Engine>> {
        match name {
            "" => Some(self.default_store()),
            name => self.iter().find(|engine| engine.name == name),
        }
    }

    pub fn names(&self) -> Vec<CompactString> {
        self.iter().map(|engine| engine.name.clone()).collect()
    }

    /// Where a control plane is, and what is held of it there.
    pub async fn find(&self, name: &str) -> Result<Option<(&Arc<Engine>, Arc<ControlPlane>)>, Failure> {
        // One that is in use costs no question to the stores that it is not in.
        if let Some(held) = self.iter().find_map(|engine| Some((engine, engine.planes.held(name)?))) {
            return Ok(Some(held));
        }
        let (mut failed, mut sealed) = (None, false);
        for engine in self.iter() {
            match engine.planes.locate(name).await {
                Ok(Found::Open(plane)) => return Ok(Some((engine, plane))),
                Ok(Found::Sealed) => sealed = true,
                Ok(Found::Nothing) => {}
                // It may be in another one all the same.
                Err(error) => failed = Some(Failure::from(error)),
            }
        }
        match failed {
            Some(failure) => Err(failure),
            None if sealed => Err(moving::underway().into()),
            None => Ok(None),
        }
    }

    /// Takes away all that is kept for an owner under a name, in every store. Returns whether there was anything.
    pub async fn remove(&self, name: &str, owner: &str) -> Result<bool, Failure> {
        let mut removed = false;
        for engine in self.iter() {
            let Some(tenant) = engine.store.tenant(name).await? else { continue };
            if engine.planes.charter(&tenant)?.owner.as_deref() != Some(owner) {
                continue;
            }
            match engine.store.delete_tenant(tenant.id).await {
                Ok(()) => removed = true,
                Err(StoreError::NoTenant) => {}
                Err(error) => return Err(error.into()),
            }
            engine.planes.forget(name);
            engine.announce(name).await?;
        }
        Ok(removed)
    }
}

impl From<Arc<Engine>> for Engines {
    fn from(engine: Arc<Engine>) -> Self {
        Engines::new(engine, Vec::new())
    }
}
