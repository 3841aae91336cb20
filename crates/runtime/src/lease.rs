//! One process at a time: who does what on a store that several processes share.
//!
//! A lease is a key that names its holder, a member of the store (`members`). It is free when it has been given back, or
//! when its holder is gone. So a process says only once that it is there, however many leases it holds, and a lease at
//! rest costs nothing. For a process that was paused and does not know it, each term has a number that only taking the
//! lease changes, and whose key writes can be made to depend on ([`Term::fence`]).
//!
//! Of leases that are for a [`Shard`], each is for one member, by the list of those that are there; it moves when that
//! list changes, once what was begun under it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use objects::CompactString;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use store::{Delivery, Entry, Expect, Fence, Key, Operation, Revision, Scope, Store, StoreError, TenantId};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::members::{Keeper, Session};
use crate::shard::Shard;

/// What rows of the directory that are leases begin with. Each has its own, so that writes behind its fence wait for
/// nobody but whoever takes it.
const TENANT: &str = "_lease-";
const HELD: &str = "_held";
const TERMS: &str = "_terms";

/// How long things take. Who cannot say that it is there gives up well before others take over.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub renewal: Duration,
    pub giving_up: Duration,
    pub expiry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            renewal: Duration::from_secs(2),
            giving_up: Duration::from_secs(7),
            expiry: Duration::from_secs(10),
        }
    }
}

/// What the key of a lease holds.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    holder: CompactString,
}

/// Leases of one store, asked for by one process, which is a member of it until the last of these and the last term are
/// dropped.
#[derive(Clone)]
pub struct Leases {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    terms: Terms,
    sessions: watch::Receiver<Option<Session>>,
    /// By their names, with the revision that each was taken at.
    held: Mutex<BTreeMap<String, Revision>>,
    leaving: CancellationToken,
    _leaving: DropGuard,
}

/// A lease while it is held. Dropping it gives it back.
pub struct Term {
    /// Cancelled when the lease may be somebody else's, or is to be.
    pub ended: CancellationToken,
    pub fence: Fence,
    _dropped: DropGuard,
}

/// How a lease was taken.
struct Taken {
    name: String,
    tenant: TenantId,
    key: Key,
    modified: Revision,
}

impl Leases {
    /// `process` names this process among the others. To be called within a runtime.
    pub fn new(store: Arc<dyn Store>, process: String, terms: Terms) -> Leases {
        let (sender, sessions) = watch::channel(None);
        let leaving = CancellationToken::new();
        let keeper =
            Keeper { store: store.clone(), process, terms, sessions: sender, leaving: leaving.clone() };
        tokio::spawn(keeper.keep());
        let _leaving = leaving.clone().drop_guard();
        Leases {
            inner: Arc::new(Inner { store, terms, sessions, held: Mutex::default(), leaving, _leaving }),
        }
    }

    /// The names of those that are held now.
    pub fn held(&self) -> Vec<String> {
        self.inner.held.lock().keys().cloned().collect()
    }

    /// Gives all leases back at once, and returns when that is done: for when nothing is done under them any more.
    pub async fn leave(&self) {
        self.inner.leaving.cancel();
        let mut sessions = self.inner.sessions.clone();
        // Ends when whoever keeps them has.
        while sessions.changed().await.is_ok() {}
    }

    /// Waits for a lease for as long as it takes; errors of the store are waited out as well. One that is for a shard is
    /// waited for until it is this process's turn. To be asked for again only when the term before was dropped.
    pub async fn acquire(&self, name: &str, shard: Option<Shard>) -> Term {
        loop {
            match self.take(name, shard).await {
                Ok(Some(term)) => return term,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(lease = name, %error, "a lease cannot be asked for");
                    tokio::time::sleep(self.inner.terms.renewal).await;
                }
            }
        }
    }

    /// Takes the lease if it can be; none when it cannot and something has changed since.
    async fn take(&self, name: &str, shard: Option<Shard>) -> Result<Option<Term>, StoreError> {
        let Some(mut session) = self.session().await else { return std::future::pending().await };
        let is_ours = {
            let roster = session.roster.borrow_and_update();
            shard.is_none_or(|shard| shard.is_of(&session.member, &roster))
        };
        if !is_ours {
            session.changed().await;
            return Ok(None);
        }
        let store = &self.inner.store;
        let tenant = store::own_tenant(&**store, &format!("{TENANT}{name}")).await?;
        let key = Key::new(HELD, "", name);
        let expect = match store.get(tenant, &key).await? {
            None => Expect::Absent,
            Some(entry) if self.is_free(&entry, &session).await? => Expect::Modified(entry.modified),
            Some(entry) => {
                tokio::select! {
                    waited = self.wait_for_change(tenant, &key, entry.modified) => waited?,
                    () = session.changed() => {}
                }
                return Ok(None);
            }
        };
        let term = Key::new(TERMS, "", name);
        let held = Held { holder: session.member.clone() };
        let held = Bytes::from(serde_json::to_vec(&held).unwrap_or_default());
        let mark = Bytes::copy_from_slice(session.member.as_bytes());
        let operations = vec![
            Operation::Put { key: key.clone(), expect, value: held },
            Operation::Put { key: term.clone(), expect: Expect::Any, value: mark },
        ];
        let modified = match store.write(tenant, operations).await {
            Ok(revision) => revision,
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        tracing::info!(lease = name, holder = %session.member, "a lease was taken");
        let (ended, dropped) = (CancellationToken::new(), CancellationToken::new());
        let fence = Fence { tenant, key: term, modified };
        let taken = Taken { name: name.to_owned(), tenant, key, modified };
        self.inner.held.lock().insert(taken.name.clone(), modified);
        tokio::spawn(self.clone().hold(taken, shard, session, ended.clone(), dropped.clone()));
        Ok(Some(Term { ended, fence, _dropped: dropped.drop_guard() }))
    }

    /// This process as a member, as soon as it is one; none if it has left.
    async fn session(&self) -> Option<Session> {
        let mut sessions = self.inner.sessions.clone();
        let session = sessions.wait_for(Option::is_some).await.ok()?;
        session.clone()
    }

    async fn is_free(&self, entry: &Entry, session: &Session) -> Result<bool, StoreError> {
        match serde_json::from_slice::<Held>(&entry.value) {
            // Its own from before, which could not be given back.
            Ok(held) if held.holder == session.member => Ok(true),
            Ok(held) => session.is_gone(&*self.inner.store, &held.holder).await,
            Err(_) => Ok(true),
        }
    }

    async fn wait_for_change(&self, tenant: TenantId, key: &Key, seen: Revision) -> Result<(), StoreError> {
        let mut changes = match self.inner.store.watch(tenant, Scope::One(key.clone()), seen).await {
            // The log has moved on: so has the lease.
            Err(StoreError::Compacted { .. }) => return Ok(()),
            watched => watched?,
        };
        loop {
            match changes.next().await {
                Some(Ok(Delivery::Event(_))) => return Ok(()),
                Some(Ok(Delivery::Progress(_))) => {}
                Some(Err(_)) | None => {
                    tokio::time::sleep(self.inner.terms.renewal).await;
                    return Ok(());
                }
            }
        }
    }

    /// Ends the term when it has to end, and gives the lease back when it has been dropped.
    async fn hold(
        self,
        taken: Taken,
        shard: Option<Shard>,
        session: Session,
        ended: CancellationToken,
        dropped: CancellationToken,
    ) {
        tokio::select! {
            () = session.ended.cancelled() => {}
            () = dropped.cancelled() => {}
            () = other_turn(shard, &session) => {}
        }
        ended.cancel();
        // The next holder begins when what was begun has ended.
        dropped.cancelled().await;
        let give_back = async {
            let expect = Expect::Modified(taken.modified);
            loop {
                let delete = Operation::Delete { key: taken.key.clone(), expect };
                match self.inner.store.write(taken.tenant, vec![delete]).await {
                    Ok(_) | Err(StoreError::Conflict { .. } | StoreError::NoTenant) => return,
                    Err(_) => tokio::time::sleep(self.inner.terms.renewal).await,
                }
            }
        };
        // What is left of a member that is gone is free.
        session.ended.run_until_cancelled(give_back).await;
        let mut held = self.inner.held.lock();
        // It may have been taken again since.
        if held.get(&taken.name) == Some(&taken.modified) {
            held.remove(&taken.name);
        }
    }
}

/// When a shard is for another member.
async fn other_turn(shard: Option<Shard>, session: &Session) {
    let Some(shard) = shard else { return std::future::pending().await };
    let mut roster = session.roster.clone();
    // An error is the end of the session.
    let _ = roster.wait_for(|roster| !shard.is_of(&session.member, roster)).await;
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
