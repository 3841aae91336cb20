//! A process that is paused in the middle of a commit while another takes what it held.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use store::{Expect, Fence, Store, StoreError};
use store_postgres::{Options, Postgres};

use crate::proxy::Proxy;
use crate::replicas::{key, put};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_on_its_way_does_not_land() {
    let server = Server::new(&[]);
    let proxy = Proxy::to(server.port()).await;
    let paused = Arc::new(Postgres::open(&server.url_by(proxy.port), Options::default()).await.unwrap());
    let other = Postgres::open(&server.url(), Options::default()).await.unwrap();
    let tenant = other.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let lease = other.create_tenant("lease", Bytes::new(), vec![]).await.unwrap().id;
    let take = async |store: &Postgres| {
        let modified = store.write(lease, vec![put("holder", Expect::Any, "x")]).await.unwrap();
        Fence { tenant: lease, key: key("holder"), modified }
    };
    let held = paused.fenced(take(&paused).await);
    held.write(tenant, vec![put("before", Expect::Any, "x")]).await.unwrap();

    proxy.hold.wanted.store(true, Ordering::SeqCst);
    let writing = {
        let held = held.clone();
        tokio::spawn(async move { held.write(tenant, vec![put("late", Expect::Any, "x")]).await })
    };
    proxy.hold.held.notified().await;
    // The database lets nobody in before it has given up on the one that stands still.
    let fence = take(&other).await;
    proxy.hold.release.notify_one();
    let answer = writing.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Fenced | StoreError::Unavailable(_))), "{answer:?}");
    let answer = held.write(tenant, vec![put("later", Expect::Any, "x")]).await;
    assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
    assert_eq!(other.get(tenant, &key("late")).await.unwrap(), None);
    other.fenced(fence).write(tenant, vec![put("after", Expect::Any, "x")]).await.unwrap();
}
