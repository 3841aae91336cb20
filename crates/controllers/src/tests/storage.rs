use std::time::Duration;

use objects::{Value, meta};
use runtime::{Fleet as _, InProcessFleet};
use serde_json::{Value as Json, json};

use super::fixture::{Fixture, Plane};

async fn claim(a: &Plane, name: &str) -> Value {
    a.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))
    .await
}

async fn pod(a: &Plane, name: &str, node: &str, volumes: Json) -> Value {
    a.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0, "volumes": volumes,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
        },
    }))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_stay_while_pods_use_them() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    for name in ["used", "unused", "planned"] {
        claim(&a, name).await;
    }
    let volume = |claim: &str| json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    pod(&a, "user", "n1", volume("used")).await;
    pod(&a, "waits", "", volume("planned")).await;
    for name in ["used", "unused", "planned"] {
        a.delete("persistentvolumeclaims", "default", name, None).await;
    }
    a.gone("persistentvolumeclaims", "default", "unused").await;
    a.gone("persistentvolumeclaims", "default", "planned").await;
    a.settle().await;
    let used = a.get("persistentvolumeclaims", "default", "used").await.unwrap();
    assert!(meta::finalizers(&used).any(|one| one == "kubernetes.io/pvc-protection"));
    a.delete("pods", "default", "user", None).await;
    a.gone("persistentvolumeclaims", "default", "used").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_stay_while_they_are_bound() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    for name in ["free", "bound"] {
        a.create(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}},
        }))
        .await;
    }
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    a.resource("", "persistentvolumes").patch("bound", "status", &phase("Bound")).await.unwrap();
    for name in ["free", "bound"] {
        a.delete("persistentvolumes", "", name, None).await;
    }
    a.gone("persistentvolumes", "", "free").await;
    a.settle().await;
    assert!(a.get("persistentvolumes", "", "bound").await.is_some());
    a.resource("", "persistentvolumes").patch("bound", "status", &phase("Released")).await.unwrap();
    a.gone("persistentvolumes", "", "bound").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_count_what_is_there() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("configmaps", "n", "kube-root-ca.crt").await;
    a.map("n", "before", json!([]), &[]).await;
    a.create(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "n"},
        "spec": {"hard": {"configmaps": "3", "count/secrets": "5", "pods": "4"}},
    }))
    .await;
    let used = async |expected: &str| {
        a.until(expected, async |a| {
            let quota = a.get("resourcequotas", "n", "q").await.unwrap();
            quota.pointer("/status/used/configmaps") == Some(&json!(expected))
        })
        .await;
    };
    used("2").await;
    let quota = a.get("resourcequotas", "n", "q").await.unwrap();
    assert_eq!(quota["status"]["hard"], json!({"configmaps": "3", "count/secrets": "5", "pods": "4"}));
    assert_eq!(quota["status"]["used"], json!({"configmaps": "2", "count/secrets": "0", "pods": "0"}));
    a.map("n", "third", json!([]), &[]).await;
    used("3").await;
    a.delete("configmaps", "n", "third", None).await;
    used("2").await;
    let patch = json!({"spec": {"hard": {"configmaps": "9"}}});
    a.resource("n", "resourcequotas").patch("q", "", &patch).await.unwrap();
    a.until("the new limit is taken over", async |a| {
        let quota = a.get("resourcequotas", "n", "q").await.unwrap();
        quota["status"]["hard"]["configmaps"] == "9"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_expire() {
    let f = Fixture::stopped().await;
    let a = f.plane("a").await;
    let event = |name: &str, at: jiff::Timestamp| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Test", "message": "m", "type": "Normal", "lastTimestamp": at.to_string(),
        })
    };
    let now = jiff::Timestamp::now();
    a.create(event("old", now)).await;
    a.create(event("young", now + jiff::SignedDuration::from_secs(3_600))).await;
    let fleet = std::sync::Arc::new(InProcessFleet::new(f.engine.clone()));
    assert_eq!(fleet.list("a", "events", "default").await.unwrap().len(), 2);
    let stop = tokio_util::sync::CancellationToken::new();
    let controllers: Vec<Box<dyn runtime::Controller>> =
        vec![Box::new(crate::EventExpiry::after(Duration::from_secs(2)))];
    let running = tokio::spawn(runtime::run(fleet, controllers, stop.clone()));
    a.gone("events", "default", "old").await;
    assert!(a.get("events", "default", "young").await.is_some());
    stop.cancel();
    running.await.unwrap().unwrap();
}
