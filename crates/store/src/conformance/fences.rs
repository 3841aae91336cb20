//! Handles whose changes depend on a key of another tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt;

use super::copies::bytes_of;
use super::{Fixture, Harness, key, put, tenant};
use crate::{Expect, Export, Fence, Operation, Store, StoreError, Tenant, TenantId};

/// What a lease looks like to a store: a key of a tenant of its own.
struct Lease {
    store: Arc<dyn Store>,
    tenant: TenantId,
}

impl Lease {
    async fn new(store: &Arc<dyn Store>) -> Lease {
        Lease { store: store.clone(), tenant: tenant(store, "lease").await }
    }

    /// Taken from whoever had it.
    async fn take(&self) -> Fence {
        let modified = self.store.write(self.tenant, vec![put("holder", "x")]).await.unwrap();
        Fence { tenant: self.tenant, key: key("holder"), modified }
    }
}

/// Everything that changes something, through one handle: what each came to.
async fn all_changes(
    store: &dyn Store,
    of: TenantId,
    export: &Bytes,
) -> Vec<(&'static str, Option<StoreError>)> {
    let record = Bytes::from("r");
    let import: Export = futures::stream::iter([Ok(export.clone())]).boxed();
    let doomed = store.tenant("doomed").await.unwrap().unwrap().id;
    // Replaced after it was updated, to the same.
    let known = Tenant { record: record.clone(), ..store.tenant_by_id(of).await.unwrap().unwrap() };
    vec![
        ("write", store.write(of, vec![put("a", "fenced")]).await.err()),
        ("many writes", store.write(of, (0..300).map(|i| put(&format!("m{i}"), "x")).collect()).await.err()),
        (
            "delete",
            store.write(of, vec![Operation::Delete { key: key("b"), expect: Expect::Present }]).await.err(),
        ),
        ("create", store.create_tenant("made", record.clone(), vec![(key("a"), Bytes::new())]).await.err()),
        ("update", store.update_tenant(of, record.clone()).await.err()),
        ("replace", store.replace_record(&known, record.clone()).await.err()),
        ("fork", store.fork_tenant(of, None, "forked", record.clone()).await.err()),
        ("import", store.import_tenant("imported", record, import).await.err()),
        ("remove", store.delete_tenant(doomed).await.err()),
    ]
}

async fn prepared(harness: &impl Harness) -> (Fixture, Lease, Bytes) {
    let f = Fixture::new(harness).await;
    f.write(vec![put("a", "1"), put("b", "1")]).await;
    tenant(&f.store, "doomed").await;
    let export = bytes_of(f.store.export_tenant(f.tenant, None).await.unwrap()).await;
    let lease = Lease::new(&f.store).await;
    (f, lease, export)
}

pub async fn a_fence_that_stands_stops_nothing(harness: Arc<impl Harness>) {
    let (f, lease, export) = prepared(&*harness).await;
    let held = f.store.fenced(lease.take().await);
    // Other keys of its tenant are not the fence.
    f.store.write(lease.tenant, vec![put("renewed", "1")]).await.unwrap();
    for (change, refused) in all_changes(&*held, f.tenant, &export).await {
        assert!(refused.is_none(), "{change}: {refused:?}");
    }
    assert_eq!(f.things().await.len(), 301);
    for made in ["made", "forked", "imported"] {
        assert!(f.store.tenant(made).await.unwrap().is_some(), "{made}");
    }
    assert!(f.store.tenant("doomed").await.unwrap().is_none());
    // What a transaction expects is judged as ever.
    let wrong = held.write(f.tenant, vec![super::put_if("a", Expect::Absent, "2")]).await;
    assert!(matches!(wrong, Err(StoreError::Conflict { .. })), "{wrong:?}");
}

pub async fn a_fence_that_fell_stops_everything(harness: Arc<impl Harness>) {
    let (f, lease, export) = prepared(&*harness).await;
    let old = f.store.fenced(lease.take().await);
    let new = f.store.fenced(lease.take().await);
    let before = (f.things().await, f.revision().await);
    let stopped = async |held: &Arc<dyn Store>| {
        for (change, refused) in all_changes(&**held, f.tenant, &export).await {
            assert!(matches!(refused, Some(StoreError::Fenced)), "{change}: {refused:?}");
        }
        assert_eq!((f.things().await, f.revision().await), before);
        for made in ["made", "forked", "imported"] {
            assert_eq!(f.store.tenant(made).await.unwrap(), None);
        }
        assert_eq!(f.store.tenant("first").await.unwrap().unwrap().record, Bytes::new());
        assert!(f.store.tenant("doomed").await.unwrap().is_some());
        assert!(held.get(f.tenant, &key("a")).await.unwrap().is_some(), "reading is for everyone");
    };
    stopped(&old).await;
    // A key that is gone, and a tenant that is.
    let delete = Operation::Delete { key: key("holder"), expect: Expect::Any };
    f.store.write(lease.tenant, vec![delete]).await.unwrap();
    stopped(&new).await;
    let last = f.store.fenced(lease.take().await);
    f.store.delete_tenant(lease.tenant).await.unwrap();
    stopped(&last).await;
    f.put("a", "by others").await;
}

/// The one promise that matters: when a lease has been taken, nothing of its old holder comes any more.
pub async fn nothing_lands_once_a_fence_was_taken(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    // Through another process, where the engine allows for one.
    let other = harness.second().await.unwrap_or_else(|| f.store.clone());
    let lease = Lease::new(&f.store).await;
    let rival = Lease { store: other.clone(), tenant: lease.tenant };
    for round in 0..8 {
        let held = f.store.fenced(lease.take().await);
        let (done, acknowledged) = (AtomicBool::new(false), AtomicBool::new(false));
        let write = async |writer: usize| {
            for index in 0.. {
                match held.write(f.tenant, vec![put(&format!("{round}-{writer}-{index}"), "x")]).await {
                    Ok(_) => acknowledged.store(true, Ordering::Release),
                    Err(StoreError::Fenced) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let write_directory = async {
            while !done.load(Ordering::Acquire) {
                match held.update_tenant(f.tenant, Bytes::from("held")).await {
                    Ok(()) | Err(StoreError::Fenced) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let take = async {
            while !acknowledged.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            rival.take().await;
            let taken = other.revision(f.tenant).await.unwrap();
            other.update_tenant(f.tenant, Bytes::from("taken")).await.unwrap();
            taken
        };
        let writers = futures::future::join_all((0..4).map(write));
        let ending = async {
            let (taken, _) = futures::join!(take, writers);
            done.store(true, Ordering::Release);
            taken
        };
        let (taken, ()) = futures::join!(ending, write_directory);
        assert_eq!(f.revision().await, taken, "something was written behind the fence");
        let row = f.store.tenant("first").await.unwrap().unwrap();
        assert_eq!(row.record, Bytes::from("taken"), "the directory was changed behind the fence");
    }
    if !Arc::ptr_eq(&other, &f.store) {
        other.close().await;
    }
}

pub async fn what_takes_long_is_judged_when_it_would_be_seen(harness: Arc<impl Harness>) {
    let (f, lease, export) = prepared(&*harness).await;
    let held = f.store.fenced(lease.take().await);
    let (half, rest) = (export.slice(..export.len() / 2), export.slice(export.len() / 2..));
    let taking = Lease { store: f.store.clone(), tenant: lease.tenant };
    let import: Export = futures::stream::once(async { Ok(half) })
        .chain(futures::stream::once(async move {
            taking.take().await;
            Ok(rest)
        }))
        .boxed();
    let refused = held.import_tenant("imported", Bytes::new(), import).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    assert_eq!(f.store.tenant("imported").await.unwrap(), None);
}
