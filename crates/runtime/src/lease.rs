//! One process at a time: who runs the controllers of a store that several processes share.
//!
//! A lease is a key that its holder writes again and again. Who wants it waits until it has not been written for
//! [`Terms::expiry`] by their own clock: no two clocks are ever compared. A holder that could not renew for a shorter
//! time gives up by itself, so that terms do not overlap while clocks run at about the same pace; for a process that
//! was paused and does not know it, each term has a number that only taking the lease changes, and whose key writes
//! can be made to depend on ([`Term::fence`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use store::{Delivery, Expect, Fence, Key, Operation, Revision, Scope, Store, StoreError, TenantId};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What rows of the directory that are leases begin with. Each has its own, so that writes behind its fence wait for
/// nobody but whoever takes it.
const TENANT: &str = "_lease-";
const RENEWED: &str = "_renewed";
const TERMS: &str = "_terms";

/// How long things take. The holder gives up well before others take over.
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
    holder: String,
    /// Counted by the holder, so that every renewal is a change.
    renewals: u64,
}

/// Leases of one store, asked for by one process.
#[derive(Clone)]
pub struct Leases {
    store: Arc<dyn Store>,
    holder: String,
    terms: Terms,
}

/// A lease while it is held. Dropping it gives it back, as does losing touch with the store.
pub struct Term {
    /// Cancelled when the lease may be somebody else's.
    pub ended: CancellationToken,
    pub fence: Fence,
    /// Tells the renewal to give the lease back.
    _renewing: DropGuard,
}

/// How a lease was written last.
struct Renewal {
    tenant: TenantId,
    key: Key,
    modified: Revision,
    /// It was ours then.
    sure: Instant,
}

impl Leases {
    /// `holder` names this process among the others.
    pub fn new(store: Arc<dyn Store>, holder: String, terms: Terms) -> Leases {
        Leases { store, holder, terms }
    }

    /// Waits for a lease for as long as it takes; errors of the store are waited out as well.
    pub async fn acquire(&self, name: &str) -> Term {
        loop {
            match self.wait_and_take(name).await {
                Ok(Some(term)) => return term,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(lease = name, %error, "a lease cannot be asked for");
                    tokio::time::sleep(self.terms.renewal).await;
                }
            }
        }
    }

    /// Takes the lease if it is free, or becomes so; none when somebody else was quicker.
    async fn wait_and_take(&self, name: &str) -> Result<Option<Term>, StoreError> {
        let tenant = store::own_tenant(&*self.store, &format!("{TENANT}{name}")).await?;
        let renewed = Key::new(RENEWED, "", name);
        let expect = match self.store.get(tenant, &renewed).await? {
            None => Expect::Absent,
            Some(entry) => match self.wait_for_end(tenant, &renewed, entry.modified).await? {
                Some(expect) => expect,
                None => return Ok(None),
            },
        };
        let term = Key::new(TERMS, "", name);
        let began = Instant::now();
        let operations = vec![
            Operation::Put { key: renewed.clone(), expect, value: self.held(0) },
            Operation::Put {
                key: term.clone(),
                expect: Expect::Any,
                value: Bytes::from(self.holder.clone()),
            },
        ];
        let modified = match self.store.write(tenant, operations).await {
            Ok(revision) => revision,
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        tracing::info!(lease = name, holder = %self.holder, "a lease was taken");
        let (ended, renewing) = (CancellationToken::new(), CancellationToken::new());
        let fence = Fence { tenant, key: term, modified };
        let last = Renewal { tenant, key: renewed, modified, sure: began };
        tokio::spawn(self.clone().renew(last, ended.clone(), renewing.clone()));
        Ok(Some(Term { ended, fence, _renewing: renewing.drop_guard() }))
    }

    /// Until the lease was given back or has not been renewed for long enough: what it must be then to be taken.
    /// None when it was renewed.
    async fn wait_for_end(
        &self,
        tenant: TenantId,
        renewed: &Key,
        seen: Revision,
    ) -> Result<Option<Expect>, StoreError> {
        let watching = self.store.watch(tenant, Scope::One(renewed.clone()), seen).await;
        let mut changes = match watching {
            Ok(changes) => changes,
            // The log has moved on: so has the lease.
            Err(StoreError::Compacted { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let change = async {
            loop {
                match changes.next().await {
                    Some(Ok(Delivery::Event(event))) => return Some(event),
                    Some(Ok(Delivery::Progress(_))) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        };
        match tokio::time::timeout(self.terms.expiry, change).await {
            Err(_) => Ok(Some(Expect::Modified(seen))),
            Ok(Some(event)) if event.change == store::Change::Deleted => Ok(Some(Expect::Absent)),
            Ok(Some(_)) => Ok(None),
            Ok(None) => {
                tokio::time::sleep(self.terms.renewal).await;
                Ok(None)
            }
        }
    }

    async fn renew(self, last: Renewal, ended: CancellationToken, renewing: CancellationToken) {
        let Renewal { tenant, key, mut modified, mut sure } = last;
        let _ended = ended.drop_guard();
        for renewals in 1.. {
            tokio::select! {
                () = tokio::time::sleep(self.terms.renewal) => {}
                () = renewing.cancelled() => {
                    let give_back = Operation::Delete { key, expect: Expect::Modified(modified) };
                    // If it cannot be given back it runs out.
                    let _ = self.store.write(tenant, vec![give_back]).await;
                    return;
                }
            }
            let asked = Instant::now();
            let expect = Expect::Modified(modified);
            let renewal = Operation::Put { key: key.clone(), expect, value: self.held(renewals) };
            let written = self.store.write(tenant, vec![renewal]);
            match tokio::time::timeout_at(sure + self.terms.giving_up, written).await {
                Ok(Ok(revision)) => (modified, sure) = (revision, asked),
                Ok(Err(StoreError::Conflict { current: Some(entry), .. })) if self.is_own(&entry.value) => {
                    // An earlier renewal was written though its answer was lost.
                    (modified, sure) = (entry.modified, asked);
                }
                Ok(Err(StoreError::Conflict { .. })) => {
                    tracing::warn!(lease = %key.name, "the lease is somebody else's");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(lease = %key.name, %error, "the lease could not be renewed"),
                Err(_) => {}
            }
            if sure.elapsed() >= self.terms.giving_up {
                tracing::warn!(lease = %key.name, "the lease could not be renewed in time and is given up");
                return;
            }
        }
    }

    fn held(&self, renewals: u64) -> Bytes {
        let held = Held { holder: self.holder.clone(), renewals };
        Bytes::from(serde_json::to_vec(&held).unwrap_or_default())
    }

    fn is_own(&self, value: &[u8]) -> bool {
        serde_json::from_slice::<Held>(value).is_ok_and(|held| held.holder == self.holder)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use store::Embedded;

    use super::*;

    const QUICK: Terms = Terms {
        renewal: Duration::from_millis(20),
        giving_up: Duration::from_millis(150),
        expiry: Duration::from_millis(400),
    };

    fn leases(store: &Arc<dyn Store>, holder: &str) -> Leases {
        Leases::new(store.clone(), holder.to_owned(), QUICK)
    }

    fn embedded() -> (tempfile::TempDir, Arc<dyn Store>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Default::default()).unwrap();
        (directory, Arc::new(store))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_holds_it_at_a_time() {
        let (_directory, store) = embedded();
        let holding = Arc::new(AtomicUsize::new(0));
        let all = (0..5).map(async |i| {
            let leases = leases(&store, &format!("p{i}"));
            for _ in 0..3 {
                let term = leases.acquire("l").await;
                assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0);
                tokio::time::sleep(Duration::from_millis(30)).await;
                assert!(!term.ended.is_cancelled());
                holding.fetch_sub(1, Ordering::SeqCst);
            }
        });
        futures::future::join_all(all).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_runs_out_when_its_holder_is_gone() {
        let (_directory, store) = embedded();
        let term = leases(&store, "first").acquire("l").await;
        // A process that is gone renews nothing and gives nothing back.
        let renewed = Key::new(RENEWED, "", "l");
        let seized = Operation::Put { key: renewed, expect: Expect::Any, value: Bytes::from_static(b"{}") };
        store.write(term.fence.tenant, vec![seized]).await.unwrap();
        term.ended.cancelled().await;
        let next = leases(&store, "second").acquire("l").await;
        // The fence of the first stands no more, and that of the second stands while it is renewed.
        let somewhere = store::own_tenant(&*store, "t").await.unwrap();
        let write = async |fence: &Fence| {
            let key = Key::new("things", "", "x");
            let put = Operation::Put { key, expect: Expect::Any, value: Bytes::new() };
            store.fenced(fence.clone()).write(somewhere, vec![put]).await
        };
        assert!(matches!(write(&term.fence).await, Err(StoreError::Fenced)));
        tokio::time::sleep(QUICK.renewal * 3).await;
        write(&next.fence).await.unwrap();
        drop(term);
        tokio::time::sleep(QUICK.expiry).await;
        assert!(!next.ended.is_cancelled(), "giving back an old term ended the next");
    }
}
