//! What is to happen to the dependants of an object that is going or gone.

use futures::future::join_all;
use objects::{Value, meta};
use runtime::{Error, Key, Next};
use serde_json::json;

use super::references::{Owner, blocks, is_waiting};
use super::{FOREGROUND, ORPHAN, Scene};
use apiserver::surface::Row;

/// Dependants read from the index at once.
const PAGE: usize = 256;
/// Written at once: the store commits them together.
const AT_ONCE: usize = 32;

/// A walk over the places of an owner's dependants, in pages.
struct Walk<'a> {
    scene: &'a Scene<'a>,
    uid: &'a str,
    after: Option<Key>,
    ended: bool,
}

impl Walk<'_> {
    async fn page(&mut self) -> Result<Option<Vec<Key>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let scene = self.scene;
        let page = scene.engine.dependants(&scene.plane, self.uid, self.after.as_ref(), PAGE).await?;
        self.ended = page.next.is_none();
        self.after = page.next;
        Ok(Some(page.keys))
    }
}

/// Whether an object of this namespace (or, empty, of none) can own the dependant. References from other namespaces
/// are invalid: what they belong to is looked at, but nothing waits for it.
fn may_own(namespace: &str, dependant: &Key) -> bool {
    namespace.is_empty() || dependant.namespace == namespace
}

impl Scene<'_> {
    fn dependants<'a>(&'a self, uid: &'a str) -> Walk<'a> {
        Walk { scene: self, uid, after: None, ended: false }
    }

    /// An object is gone: each of its dependants is to be looked at.
    pub(super) async fn owner_is_gone(&self, uid: &str) -> Result<Next, Error> {
        let mut walk = self.dependants(uid);
        while let Some(page) = walk.page().await? {
            page.into_iter().for_each(|dependant| self.context.enqueue(dependant));
        }
        Ok(Next::Done)
    }

    pub(super) async fn has_dependants(&self, object: &Value) -> Result<bool, Error> {
        let mut walk = self.dependants(meta::uid(object));
        while let Some(page) = walk.page().await? {
            if page.iter().any(|dependant| may_own(meta::namespace(object), dependant)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a dependant of this object waits in the foreground itself: then each may wait for the other.
    pub(super) async fn is_held_in_a_cycle(&self, object: &Value) -> Result<bool, Error> {
        let mut walk = self.dependants(meta::uid(object));
        while let Some(page) = walk.page().await? {
            for key in page.iter().filter(|key| may_own(meta::namespace(object), key)) {
                if self.get(key).await?.is_some_and(|dependant| is_waiting(&dependant)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A dependant is gone, or lets go: its owner may have waited for just that.
    pub(super) async fn owner_may_go(&self, key: &Key) -> Result<Next, Error> {
        let mut parts = key.name.splitn(3, '|');
        let (Some(api_version), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(Next::Done);
        };
        let Some((at, _)) = self.owner_key(api_version, kind, name, &key.namespace) else {
            return Ok(Next::Done);
        };
        let Some(row) = self.row(&at.kind) else { return Ok(Next::Done) };
        match self.get(&at).await? {
            Some(owner) if is_waiting(&owner) => self.foreground(&row, &at, &owner, false).await,
            _ => Ok(Next::Done),
        }
    }

    /// An owner that waits for its dependants: they are deleted, and it goes when none holds it back. `first` is
    /// when they are to be looked at; later only whether one is left.
    pub(super) async fn foreground(
        &self,
        row: &Row,
        key: &Key,
        owner: &Value,
        first: bool,
    ) -> Result<Next, Error> {
        let uid = meta::uid(owner);
        let (mut walk, mut held) = (self.dependants(uid), false);
        while let Some(page) = walk.page().await? {
            for dependant in page {
                let valid = may_own(&key.namespace, &dependant);
                if !held
                    && valid
                    && let Some(found) = self.get(&dependant).await?
                {
                    held = Owner::all(&found).iter().any(|one| one.uid == uid && blocks(one.reference));
                }
                if first {
                    self.context.enqueue(dependant);
                } else if held {
                    return Ok(Next::Done);
                }
            }
        }
        if !held {
            self.remove_finalizer(row, key, owner, FOREGROUND).await?;
        }
        Ok(Next::Done)
    }

    /// An owner whose dependants are to outlive it: they forget it, and it goes.
    pub(super) async fn orphan(&self, row: &Row, key: &Key, owner: &Value) -> Result<Next, Error> {
        let uid = meta::uid(owner);
        // All of them first: forgetting changes what the index lists.
        let (mut walk, mut all) = (self.dependants(uid), Vec::new());
        while let Some(page) = walk.page().await? {
            all.extend(page);
        }
        for some in all.chunks(AT_ONCE) {
            let outcomes = join_all(some.iter().map(|dependant| self.forget(dependant, uid))).await;
            outcomes.into_iter().collect::<Result<(), Error>>()?;
        }
        self.remove_finalizer(row, key, owner, ORPHAN).await?;
        Ok(Next::Done)
    }

    /// A dependant forgets one of its owners.
    async fn forget(&self, at: &Key, uid: &str) -> Result<(), Error> {
        let Some(dependant) = self.get(at).await? else { return Ok(()) };
        let Some(row) = self.row(&at.kind) else { return Ok(()) };
        let kept = Owner::all(&dependant).into_iter().filter(|one| one.uid != uid);
        let kept: Vec<Value> = kept.map(|one| one.reference.clone()).collect();
        match self.rewrite_owners(&self.resource(&row, &at.namespace), at, &dependant, kept).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    async fn remove_finalizer(
        &self,
        row: &Row,
        key: &Key,
        object: &Value,
        finalizer: &str,
    ) -> Result<(), Error> {
        let kept: Vec<&str> = meta::finalizers(object).filter(|one| *one != finalizer).collect();
        let patch = json!({"metadata": {
            "uid": meta::uid(object), "resourceVersion": meta::resource_version(object), "finalizers": kept,
        }});
        match self.resource(row, &key.namespace).patch(&key.name, "", &patch).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }
}
