use std::sync::atomic::Ordering;
use std::time::Duration;

use runtime::{Cursor, Fleet, FleetError, InProcessFleet, Leases, Terms};
use serde_json::json;
use store::StoreError;

use super::fixture::{Fixture, owner};

#[tokio::test(flavor = "multi_thread")]
async fn idle_control_planes_cost_no_wakeups() {
    let mut f = Fixture::stopped().await;
    for index in 0..1_000 {
        f.create(&format!("tenant-{index}")).await;
    }
    f.start();
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
    let handle = f.handle().clone();
    let quiet = async || {
        loop {
            let before = handle.metrics().wakeups.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
            if handle.metrics().wakeups.load(Ordering::Relaxed) == before {
                return before;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), quiet()).await;
    let before = waited.expect("it comes to rest");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(handle.metrics().wakeups.load(Ordering::Relaxed), before);
    let depth = handle.depth();
    assert_eq!((depth.ready, depth.running, depth.parked), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_control_plane_needs_nobody() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("first").await;
    a.there("serviceaccounts", "first", "default").await;
    a.there("configmaps", "first", "kube-root-ca.crt").await;
    a.settle().await;
    let reconciles = || {
        let all = f.handle().metrics().controllers.iter();
        all.map(|one| one.reconciles.load(Ordering::Relaxed)).sum::<u64>()
    };
    let before = reconciles();
    f.create("b").await;
    a.settle().await;
    assert_eq!(reconciles(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_continues_where_it_ended() {
    let mut f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
    f.stop().await;
    // Done while nobody looks.
    let parent = a.map("n", "owner", json!([]), &[]).await;
    a.map("n", "child", json!([owner(&parent, false)]), &[]).await;
    a.delete("configmaps", "n", "owner", None).await;
    a.namespace("late").await;
    drop(a);
    let mut f = f.reopen().await;
    f.start();
    let a = f.plane("a").await;
    a.gone("configmaps", "n", "child").await;
    a.there("serviceaccounts", "late", "default").await;
    assert_eq!(f.handle().metrics().sweeps.load(Ordering::Relaxed), 0, "it went on from the cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_undone_is_done() {
    let mut f = Fixture::new().await;
    let a = f.plane("a").await;
    for round in 0..5 {
        let name = format!("n{round}");
        a.namespace(&name).await;
        a.delete("namespaces", "", &name, None).await;
        f.kill().await;
        f.start();
    }
    for round in 0..5 {
        a.gone("namespaces", "", &format!("n{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cursor_everything_is_looked_at() {
    let mut f = Fixture::stopped().await;
    f.create("b").await;
    let (a, b) = (f.plane("a").await, f.plane("b").await);
    a.namespace("n").await;
    let parent = b.map("default", "owner", json!([]), &[]).await;
    b.map("default", "child", json!([owner(&parent, false)]), &[]).await;
    b.delete("configmaps", "default", "owner", None).await;
    f.start();
    a.there("serviceaccounts", "n", "default").await;
    b.gone("configmaps", "default", "child").await;
    assert_eq!(f.handle().metrics().sweeps.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_are_kept_apart() {
    let f = Fixture::new().await;
    f.create("b").await;
    let (a, b) = (f.plane("a").await, f.plane("b").await);
    for plane in [&a, &b] {
        plane.namespace("n").await;
        plane.map("n", "map", json!([]), &[]).await;
    }
    a.delete("namespaces", "", "n", None).await;
    a.gone("namespaces", "", "n").await;
    b.settle().await;
    assert!(b.get("configmaps", "n", "map").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_later_survives_a_restart() {
    let mut f = Fixture::new().await;
    let a = f.plane("a").await;
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let data =
        json!({"token-id": "passes", "token-secret": "0123456789abcdef", "expiration": end.to_string()});
    a.create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": data,
        "metadata": {"name": "bootstrap-token-passes", "namespace": "kube-system"},
    }))
    .await;
    a.settle().await;
    assert_eq!(f.handle().depth().parked, 1);
    f.stop().await;
    drop(a);
    let mut f = f.reopen().await;
    f.start();
    let a = f.plane("a").await;
    a.gone("secrets", "kube-system", "bootstrap-token-passes").await;
    assert_eq!(f.handle().metrics().sweeps.load(Ordering::Relaxed), 0);
}

/// The same controllers on a control plane that is only known by its client: discovery, lists and watches.
#[tokio::test(flavor = "multi_thread")]
async fn a_remote_control_plane_is_a_fleet_too() {
    let f = Fixture::stopped().await;
    let a = f.plane("a").await;
    a.namespace("before").await;
    let fleet = std::sync::Arc::new(runtime::RemoteFleet::new("somewhere", a.client.clone()));
    let stop = tokio_util::sync::CancellationToken::new();
    let controllers: Vec<Box<dyn runtime::Controller>> =
        vec![Box::new(crate::ServiceAccounts), Box::new(crate::RoleAggregation)];
    let running = tokio::spawn(runtime::run(fleet, controllers, stop.clone()));
    a.there("serviceaccounts", "before", "default").await;
    a.namespace("after").await;
    a.there("serviceaccounts", "after", "default").await;
    a.delete("serviceaccounts", "after", "default", None).await;
    a.there("serviceaccounts", "after", "default").await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_by_whoever_lost_the_lease() {
    let f = Fixture::stopped().await;
    let holder = |name: &str| Leases::new(f.store.clone(), name.to_owned(), Terms::default());
    let old = holder("old").acquire("controllers", None).await;
    let engine = f.engine.fenced(old.fence.clone());
    let fleet = InProcessFleet::new(engine.clone());
    let held = f.plane_of(&engine, "a").await;
    held.namespace("before").await;
    fleet.save(&Cursor::default()).await.unwrap();
    // Given back and taken by another, while somebody still has the engine of the old term.
    drop(old);
    let new = holder("new").acquire("controllers", None).await;

    let namespaces = held.resource("", "namespaces");
    let late = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    let refused = namespaces.create(&late).await.unwrap_err().to_string();
    assert!(refused.contains("has been taken by another"), "{refused}");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert!(namespaces.patch("before", "", &labelled).await.is_err());
    assert!(namespaces.delete("before", &Default::default()).await.is_err());
    assert!(matches!(fleet.save(&Cursor::default()).await, Err(FleetError::Failed(_))));
    let made = engine.create_control_plane("late").await.map_err(|failure| failure.0.message);
    assert_eq!(made.unwrap_err(), StoreError::Fenced.to_string());
    assert!(engine.delete_control_plane("a").await.is_err());

    let a = f.plane("a").await;
    assert!(a.get("namespaces", "", "late").await.is_none());
    assert_eq!(a.get("namespaces", "", "before").await.unwrap()["metadata"]["labels"]["a"], json!(null));
    assert!(f.engine.planes.find("late").await.unwrap().is_none());
    // Those who serve, and the next holder, write on.
    a.namespace("by-a-client").await;
    f.plane_of(&f.engine.fenced(new.fence.clone()), "a").await.namespace("by-the-next").await;
}
