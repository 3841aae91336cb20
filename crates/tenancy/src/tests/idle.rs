//! Work is proportional to what changed: no write that changes nothing, and no look at what did not change.

use std::sync::atomic::Ordering;

use objects::meta;
use runtime::Options;
use serde_json::json;

use super::fixture::Fixture;
use super::types::bootstrap;
use crate::names;

/// Requests that write, in all control planes, answered so far: as `/metrics` has them.
async fn writes(f: &Fixture) -> Vec<String> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = f.client.request_text(request).await.unwrap();
    let is_write = |line: &&str| {
        let verbs = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
        line.starts_with("apiserver_request_total{")
            && verbs.iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    text.lines().filter(is_write).map(str::to_owned).collect()
}

impl Fixture {
    /// How often the operator has looked at something.
    fn looks(&self) -> u64 {
        let metrics = self.handle().metrics();
        metrics.controller(names::COMPONENT).unwrap().reconciles.load(Ordering::Relaxed)
    }

    /// Waits until the controllers have nothing left to do now or soon.
    async fn until_idle(&self) {
        self.until("the controllers are idle", async |f| {
            let before = f.looks();
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
            let depth = f.handle().depth();
            (depth.ready == 0 && depth.running == 0 && f.looks() == before).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_look_at_any_type_writes_nothing() {
    let f = Fixture::new().await;
    f.hook(
        "labels",
        json!({"templates": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "b"}},
        ]}),
    )
    .await;
    for kind in ["k8s", "vcluster", "k3s", "ocm", "host"] {
        f.create_plane(&format!("a-{kind}"), json!({"type": kind, "postCreateHook": "labels"})).await;
        f.until_ready(&format!("a-{kind}")).await;
    }
    bootstrap(&f, "a-k8s", "a-external", "kubeconfig-incluster").await;
    let secret = json!({"name": "a-external-bootstrap", "namespace": "kubeflex-system", "inClusterKey": ""});
    f.create_plane("a-external", json!({"type": "external", "bootstrapSecretRef": secret})).await;
    f.until_ready("a-external").await;
    f.until_idle().await;

    let (before, looked) = (writes(&f).await, f.looks());
    let revision = async || {
        let tenant = f.engine.planes.find("host").await.unwrap().unwrap();
        f.engine.store.revision(tenant.id).await.unwrap()
    };
    let at = revision().await;
    f.handle().sweep("host").await;
    f.until("everything was looked at again", async |f| (f.looks() >= looked + 6).then_some(())).await;
    f.until_idle().await;
    // Adopted clusters are probed from time to time, which is no write.
    assert_eq!(writes(&f).await, before);
    assert_eq!(revision().await, at);
    f.close().await;
}

/// With a queue that holds far fewer keys than a burst has, and after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn looks_are_as_many_as_changes() {
    const PLANES: u64 = 120;
    let few = Options { line: 40, swept_keys: 20, ..Options::default() };
    let mut f = Fixture::with(few).await;
    for index in 0..PLANES {
        f.create_plane(&format!("p{index}"), json!({"type": "k8s"})).await;
    }
    for index in 0..PLANES {
        f.until_ready(&format!("p{index}")).await;
    }
    f.until_idle().await;
    let looks = f.looks();
    assert!(looks <= 6 * PLANES, "{looks} looks at {PLANES} control planes");
    assert_eq!(f.handle().metrics().sweeps.load(Ordering::Relaxed), 1, "that of the first start");
    let all = |f: &Fixture| -> u64 {
        f.handle().metrics().controllers.iter().map(|one| one.reconciles.load(Ordering::Relaxed)).sum()
    };
    let (before, wakeups) = (all(&f), f.handle().metrics().wakeups.load(Ordering::Relaxed));
    f.settle().await;
    assert_eq!(all(&f), before, "idle control planes are not looked at");
    let woken = f.handle().metrics().wakeups.load(Ordering::Relaxed) - wakeups;
    assert!(woken <= 2, "{woken}: the cursor may be saved once more");

    f.restart().await;
    f.until_idle().await;
    assert!(all(&f) <= 5, "{} reconciles after a restart in which nothing changed", all(&f));
    let plane = f.plane("p7").await.unwrap();
    f.delete("v1", "services", "p7-system", "p7").await;
    f.until("the Service is back", async |f| f.get("v1", "services", "p7-system", "p7").await).await;
    assert_eq!(meta::uid(&f.plane("p7").await.unwrap()), meta::uid(&plane));
    f.close().await;
}
