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
