//! A fence of one store that holds in another.
//!
//! Whoever holds a lease in the first store writes a key of the second, the **claim**, and is fenced by that there. What
//! makes it certain is the order: the claim is looked at, then the fence in the first store is found to stand, then the
//! claim is written if it is still as it was when it was looked at. Suppose that an old holder's claim came after that of
//! a later one. Then it had seen the later one's claim, and found its own fence standing after that, when it had fallen.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::stand_in::{StandIn, StandsFor};
use crate::{Expect, Fence, Key, Operation, Store, StoreError, own_tenant};

/// What rows of the directory that hold a claim begin with: one each, as for leases.
const TENANT: &str = "_claim-";
const KIND: &str = "_claims";

/// `store` for whoever holds what a fence of the store `home` stands for. The claim is made when it is first used, so that
/// what is read there is not changed by an earlier holder afterwards; until then it may be away.
pub fn claimed(home: Arc<dyn Store>, fence: Fence, store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(StandIn(Claimed { home, fence, store, fenced: OnceCell::new() }))
}

struct Claimed {
    home: Arc<dyn Store>,
    fence: Fence,
    store: Arc<dyn Store>,
    /// Behind the fence that the claim is.
    fenced: OnceCell<Arc<dyn Store>>,
}

impl Claimed {
    async fn claim(&self) -> Result<Arc<dyn Store>, StoreError> {
        let name = &self.fence.key.name;
        let tenant = own_tenant(&*self.store, &format!("{TENANT}{name}")).await?;
        let key = Key::new(KIND, "", name.clone());
        loop {
            let before = self.store.get(tenant, &key).await?;
            if !self.stands().await? {
                return Err(StoreError::Fenced);
            }
            let expect = before.map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
            let put = Operation::Put { key: key.clone(), expect, value: Bytes::new() };
            match self.store.write(tenant, vec![put]).await {
                Ok(modified) => return Ok(self.store.fenced(Fence { tenant, key, modified })),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn stands(&self) -> Result<bool, StoreError> {
        match self.home.get(self.fence.tenant, &self.fence.key).await {
            Ok(found) => Ok(found.is_some_and(|entry| entry.modified == self.fence.modified)),
            Err(StoreError::NoTenant) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl StandsFor for Claimed {
    async fn to_read(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.to_change().await {
            // Reading is for everyone.
            Err(StoreError::Fenced) => Ok(self.store.clone()),
            found => found,
        }
    }

    async fn to_change(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.fenced.get_or_try_init(|| self.claim()).await.cloned()
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        self.store.fenced(fence)
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, TenantId};

    fn embedded() -> (tempfile::TempDir, Arc<dyn Store>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Default::default()).unwrap();
        (directory, Arc::new(store))
    }

    fn put(name: &str) -> Vec<Operation> {
        let key = Key::new("things", "", name);
        vec![Operation::Put { key, expect: Expect::Any, value: Bytes::new() }]
    }

    struct Two {
        _directories: [tempfile::TempDir; 2],
        home: Arc<dyn Store>,
        other: Arc<dyn Store>,
        lease: TenantId,
        things: TenantId,
    }

    impl Two {
        async fn new() -> Two {
            let ((one, home), (two, other)) = (embedded(), embedded());
            let lease = own_tenant(&*home, "_lease-l").await.unwrap();
            let things = own_tenant(&*other, "t").await.unwrap();
            Two { _directories: [one, two], home, other, lease, things }
        }

        /// The other store for whoever has just taken the lease.
        async fn take(&self) -> Arc<dyn Store> {
            let key = Key::new("_terms", "", "l");
            let put = Operation::Put { key: key.clone(), expect: Expect::Any, value: Bytes::new() };
            let modified = self.home.write(self.lease, vec![put]).await.unwrap();
            claimed(self.home.clone(), Fence { tenant: self.lease, key, modified }, self.other.clone())
        }
    }

    #[tokio::test]
    async fn who_claimed_last_writes() {
        let two = Two::new().await;
        let old = two.take().await;
        old.write(two.things, put("a")).await.unwrap();
        let new = two.take().await;
        // Nobody has looked at this store with the new one.
        old.write(two.things, put("b")).await.unwrap();
        assert!(new.get(two.things, &Key::new("things", "", "b")).await.unwrap().is_some());
        let late = old.write(two.things, put("d")).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
        assert!(matches!(old.create_tenant("x", Bytes::new(), Vec::new()).await, Err(StoreError::Fenced)));
        assert!(matches!(old.delete_tenant(two.things).await, Err(StoreError::Fenced)));
        assert!(old.get(two.things, &Key::new("things", "", "d")).await.unwrap().is_none());
        new.write(two.things, put("e")).await.unwrap();
        two.other.write(two.things, put("by a client")).await.unwrap();
    }

    #[tokio::test]
    async fn a_claim_of_a_lost_lease_comes_too_late() {
        let two = Two::new().await;
        let old = two.take().await;
        let new = two.take().await;
        new.write(two.things, put("a")).await.unwrap();
        let late = old.write(two.things, put("b")).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
        new.write(two.things, put("c")).await.unwrap();
        two.home.delete_tenant(two.lease).await.unwrap();
        assert!(matches!(old.write(two.things, put("d")).await, Err(StoreError::Fenced)));
    }

    /// Many that take the lease one after the other, and write as they like: each writes only until the next has claimed.
    #[tokio::test(flavor = "multi_thread")]
    async fn writes_come_in_the_order_of_terms() {
        let two = Two::new().await;
        let mut writing = Vec::new();
        for term in 0..20 {
            let (held, things) = (two.take().await, two.things);
            writing.push(tokio::spawn(async move {
                for number in 0..20 {
                    let name = format!("{term:02}-{number:02}");
                    match held.write(things, put(&name)).await {
                        Ok(_) => tokio::task::yield_now().await,
                        Err(StoreError::Fenced) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
            tokio::task::yield_now().await;
        }
        for one in writing {
            one.await.unwrap();
        }
        let page = two.other.range(two.things, &crate::Scope::All, None, None, 0).await.unwrap();
        let mut written: Vec<_> =
            page.entries.iter().map(|entry| (entry.created, entry.key.name.clone())).collect();
        written.sort();
        assert!(written.is_sorted_by_key(|(_, name)| name.clone()), "{written:?}");
        assert!(written.last().unwrap().1.starts_with("19-"), "{written:?}");
    }
}
