//! The stores of one process: each has its engine, and a control plane is in one of them.
//!
//! Where a control plane is, is where it is found; nothing else says so. Its name is unique over all of them.

use std::sync::Arc;

use async_trait::async_trait;
use objects::CompactString;
use store::{Fence, StoreError};

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

    /// The same for whoever holds a lease of the default store: nothing is written through them once another has taken it
    /// and has looked at the store in question. To be called within a runtime.
    #[must_use]
    pub fn fenced(&self, fence: &Fence) -> Self {
        let home = self.default_store();
        let others = self.others().map(|engine| {
            let fenced = engine.claimed(home, fence.clone());
            // That is at once, where it is there; else when it is first used.
            let store = fenced.store.clone();
            tokio::spawn(async move { store.position().await });
            fenced
        });
        Engines::new(home.fenced(fence.clone()), others.collect())
    }

    pub fn default_store(&self) -> &Arc<Engine> {
        &self.0[0]
    }

    pub fn others(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.iter().skip(1)
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
        let (mut removed, mut failed) = (false, None);
        for engine in self.iter() {
            match remove(engine, name, owner).await {
                Ok(found) => removed |= found,
                // It goes from the others all the same.
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or(Ok(removed), Err)
    }
}

async fn remove(engine: &Engine, name: &str, owner: &str) -> Result<bool, Failure> {
    let Some(tenant) = engine.store.tenant(name).await? else { return Ok(false) };
    if engine.planes.charter(&tenant)?.owner.as_deref() != Some(owner) {
        return Ok(false);
    }
    let removed = match engine.store.delete_tenant(tenant.id).await {
        Ok(()) => true,
        Err(StoreError::NoTenant) => false,
        Err(error) => return Err(error.into()),
    };
    engine.planes.forget(name);
    engine.announce(name).await?;
    Ok(removed)
}

#[async_trait]
impl egress::Policies for Engines {
    async fn of(&self, control_plane: &str) -> egress::Policy {
        match self.find(control_plane).await {
            Ok(Some((engine, plane))) => engine.egress_policy(&plane),
            // Nobody has allowed it more than all others.
            Ok(None) | Err(_) => self.default_store().config.egress.clone(),
        }
    }
}

impl From<Arc<Engine>> for Engines {
    fn from(engine: Arc<Engine>) -> Self {
        Engines::new(engine, Vec::new())
    }
}
