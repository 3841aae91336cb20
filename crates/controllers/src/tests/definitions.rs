use objects::Value;
use serde_json::json;

use super::fixture::{Fixture, Plane, condition};
use crate::resource::Resource;

const KIND: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn definitions(a: &Plane) -> Resource<'_> {
    Resource::new(&a.client, "apiextensions.k8s.io/v1", "", "customresourcedefinitions")
}

fn things<'a>(a: &'a Plane, namespace: &str) -> Resource<'a> {
    Resource::new(&a.client, "example.com/v1", namespace, "things")
}

async fn define(a: &Plane) -> Value {
    a.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .await
}

async fn thing(a: &Plane, namespace: &str, name: &str, finalizers: &[&str]) {
    let metadata = json!({"name": name, "namespace": namespace, "finalizers": finalizers});
    a.create(json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_goes_after_its_objects() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    define(&a).await;
    thing(&a, "default", "one", &[]).await;
    thing(&a, "kube-system", "two", &[]).await;
    thing(&a, "default", "slow", &["example.com/wait"]).await;
    assert!(definitions(&a).delete("things.example.com", &Default::default()).await.unwrap());
    a.until("only what waits is left", async |a| a.list("things.example.com", "").await.len() == 1).await;
    a.settle().await;
    let definition = a.get(KIND, "", "things.example.com").await.unwrap();
    assert_eq!(condition(&definition, "Terminating").unwrap()["status"], "True", "{definition}");
    let patch = json!({"metadata": {"finalizers": null}});
    things(&a, "default").patch("slow", "", &patch).await.unwrap();
    a.gone(KIND, "", "things.example.com").await;
    assert!(a.list("things.example.com", "").await.is_empty());
    // And may come again.
    define(&a).await;
    thing(&a, "default", "again", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_takes_custom_resources_with_it() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    define(&a).await;
    a.namespace("n").await;
    thing(&a, "n", "one", &[]).await;
    thing(&a, "default", "other", &[]).await;
    a.delete("namespaces", "", "n", None).await;
    a.gone("namespaces", "", "n").await;
    assert_eq!(a.list("things.example.com", "").await.len(), 1);
}

/// Makes objects in two stored versions. A webhook would know the way from one to the other, but nobody answers there.
async fn inconvertible(a: &Plane) {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    define(a).await;
    a.namespace("n").await;
    thing(a, "n", "old", &[]).await;
    thing(a, "n", "held", &["example.com/wait"]).await;
    let conversion = json!({"strategy": "Webhook", "webhook": {
        // Refused by the egress policy, so nothing is dialled.
        "clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"],
    }});
    let patch =
        json!({"spec": {"versions": [version("v1", false), version("v2", true)], "conversion": conversion}});
    definitions(a).patch("things.example.com", "", &patch).await.unwrap();
    let new = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "new"}});
    let things = Resource::new(&a.client, "example.com/v2", "n", "things");
    things.create(&new).await.unwrap();
    things.delete("old", &Default::default()).await.expect_err("a client needs the webhook");
}

/// Only what a finalizer holds is left, as it was stored, and is being deleted.
async fn only_held_is_left(a: &Plane) {
    a.until("all but one are gone", async |a| a.list("things.example.com", "").await.len() == 1).await;
    let held = a.get("things.example.com", "n", "held").await.unwrap();
    assert_eq!(held["apiVersion"], "example.com/v1");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_a_definition_go_without_its_webhook() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    inconvertible(&a).await;
    assert!(definitions(&a).delete("things.example.com", &Default::default()).await.unwrap());
    only_held_is_left(&a).await;
    let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    definitions(&a).patch("things.example.com", "", &patch).await.unwrap();
    things(&a, "n").patch("held", "", &json!({"metadata": {"finalizers": null}})).await.unwrap();
    a.gone(KIND, "", "things.example.com").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_a_namespace_go_without_a_webhook() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    inconvertible(&a).await;
    a.delete("namespaces", "", "n", None).await;
    only_held_is_left(&a).await;
}
