//! The end of a move, by whoever carried it out or found it broken off.

use std::sync::Arc;

use objects::{Reason, Status};
use store::{Expect, Key, Operation, Revision, StoreError, Tenant, TenantId};

use super::{ARRIVAL, COPIED, FROZEN, Intent, MOVE, elsewhere, key};
use crate::codec::{Codec, SchemaTag};
use crate::control_plane::Seal;
use crate::engine::Engine;
use crate::engines::Engines;
use crate::service::Failure;

/// A store that is not there now, and without which nothing can be decided.
fn missing(name: &str, what: &str, store: &str) -> Failure {
    let message =
        format!("control plane {name:?} {what} the store {store:?}, which this server does not have");
    Status::new(Reason::Conflict, message).into()
}

impl Engines {
    /// Calls off or finishes a move that broke off. Nothing happens if there was none. A copy that was made for another
    /// owner, who is gone, goes too.
    pub async fn settle(&self, name: &str, owner: Option<&str>) -> Result<(), Failure> {
        let (mut copies, mut failed, mut original) = (Vec::new(), None, false);
        for engine in self.iter() {
            match engine.store.tenant(name).await {
                Ok(Some(tenant)) => match engine.planes.seal(&tenant)? {
                    Some(seal) => copies.push((engine, tenant, seal)),
                    None => {
                        self.settle_original(engine, &tenant).await?;
                        original = true;
                    }
                },
                Ok(None) => {}
                // The others are settled all the same: what was frozen is written again.
                Err(error) => failed = Some(error),
            }
        }
        // One that is served waits for no other store: what was begun there is taken away when it is back.
        if let Some(error) = failed.filter(|_| !original) {
            return Err(error.into());
        }
        for (engine, copy, seal) in copies {
            self.settle_copy(engine, &copy, &seal, owner).await?;
        }
        Ok(())
    }

    async fn settle_original(&self, engine: &Engine, tenant: &Tenant) -> Result<(), Failure> {
        if engine.store.get(tenant.id, &key(ARRIVAL)).await?.is_some() {
            take_mark(engine, tenant.id, key(ARRIVAL)).await?;
        }
        if engine.planes.is_untold(tenant)? {
            engine.tell_of_copy(tenant).await?;
        }
        let Some((intent, at)) = intent(engine, tenant.id).await? else { return Ok(()) };
        if !intent.decided {
            return call_off(engine, tenant.id, at).await.map(drop);
        }
        let Some(to) = self.named(&intent.to) else {
            return Err(missing(&tenant.name, "was moved to", &intent.to));
        };
        // The copy, if it is there, is settled with it.
        match to.store.tenant(&tenant.name).await? {
            Some(_) => Ok(()),
            None => call_off(engine, tenant.id, at).await.map(drop),
        }
    }

    async fn settle_copy(
        &self,
        engine: &Arc<Engine>,
        copy: &Tenant,
        seal: &Seal,
        owner: Option<&str>,
    ) -> Result<(), Failure> {
        let Some(from) = self.named(&seal.from) else {
            return Err(missing(&copy.name, "is being moved from", &seal.from));
        };
        let Some(original) = from.store.tenant(&copy.name).await? else {
            // The original goes only when the copy is whole.
            return match engine.planes.charter(copy)?.owner.as_deref() == owner {
                true => open(engine, copy).await,
                false => discard(engine, copy.id).await,
            };
        };
        match intent(from, original.id).await? {
            Some((intent, _)) if intent.decided && intent.to == engine.name => {
                finish(from, engine, &original).await
            }
            Some((_, at)) if !call_off(from, original.id, at).await? => Err(elsewhere().into()),
            _ => discard(engine, copy.id).await,
        }
    }
}

/// What a control plane is about to do, and the revision that says so.
async fn intent(engine: &Engine, tenant: TenantId) -> Result<Option<(Intent, Revision)>, Failure> {
    let Some(entry) = engine.store.get(tenant, &key(MOVE)).await? else { return Ok(None) };
    let intent = serde_json::from_slice(&entry.value).map_err(Status::internal)?;
    Ok(Some((intent, entry.modified)))
}

/// Takes back an intent, and whatever it froze. False if it is not that one any more: somebody else went on with it.
pub(super) async fn call_off(engine: &Engine, tenant: TenantId, intent: Revision) -> Result<bool, Failure> {
    let delete = |kind: &str, expect| Operation::Delete { key: key(kind), expect };
    let operations = vec![delete(MOVE, Expect::Modified(intent)), delete(FROZEN, Expect::Any)];
    match engine.store.write(tenant, operations).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. } | StoreError::NoTenant) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What remains to be done once it is decided.
pub(super) async fn finish(from: &Engine, to: &Engine, original: &Tenant) -> Result<(), Failure> {
    let copy = to.store.tenant(&original.name).await?;
    let is_copy = |copy: &Tenant| to.planes.seal(copy).is_ok_and(|seal| seal.is_some());
    let Some(copy) = copy.filter(is_copy) else {
        let message = format!("there is no copy of control plane {:?} in {:?}", original.name, to.name);
        return Err(Status::internal(message).into());
    };
    discard(from, original.id).await?;
    from.planes.forget(&original.name);
    from.announce(&original.name).await?;
    open(to, &copy).await
}

async fn discard(engine: &Engine, tenant: TenantId) -> Result<(), Failure> {
    match engine.store.delete_tenant(tenant).await {
        Ok(()) | Err(StoreError::NoTenant) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// From now on it is served from here.
async fn open(engine: &Engine, copy: &Tenant) -> Result<(), Failure> {
    // Before it is open, so that whoever finds it broken off here knows that nobody has been told.
    mark(engine, copy.id, key(ARRIVAL)).await?;
    engine.change_record(copy, |copy| engine.planes.record_with_seal(copy, None).map(Some)).await?;
    engine.planes.forget(&copy.name);
    engine.renewals.add(&copy.name);
    engine.announce(&copy.name).await?;
    take_mark(engine, copy.id, key(ARRIVAL)).await
}

impl Engine {
    /// Has controllers look at all that a copy has, which they have not seen come about. Any number of times.
    pub(crate) async fn tell_of_copy(&self, tenant: &Tenant) -> Result<(), Failure> {
        let copied = Key::new(ARRIVAL, "", COPIED);
        mark(self, tenant.id, copied.clone()).await?;
        take_mark(self, tenant.id, copied).await?;
        self.change_record(tenant, |tenant| self.planes.record_of_told(tenant).map(Some)).await?;
        Ok(())
    }
}

async fn mark(engine: &Engine, tenant: TenantId, key: Key) -> Result<(), Failure> {
    // Something that reads like an object, since it lies where objects do.
    let value = Codec::open(&serde_json::json!({"metadata": {}}), SchemaTag::default())?;
    engine.store.write(tenant, vec![Operation::Put { key, expect: Expect::Any, value }]).await?;
    Ok(())
}

/// What controllers see.
async fn take_mark(engine: &Engine, tenant: TenantId, key: Key) -> Result<(), Failure> {
    let delete = Operation::Delete { key, expect: Expect::Any };
    engine.store.write(tenant, vec![delete]).await?;
    Ok(())
}
