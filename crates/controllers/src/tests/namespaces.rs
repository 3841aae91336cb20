use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::catalog::Offer;
use serde_json::json;

use super::fixture::{Fixture, condition};
use crate::resource::Resource;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_namespace_is_furnished() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
    a.there("configmaps", "n", "kube-root-ca.crt").await;
    // And again when something is taken away or changed.
    a.delete("serviceaccounts", "n", "default", None).await;
    a.there("serviceaccounts", "n", "default").await;
    a.delete("configmaps", "n", "kube-root-ca.crt", None).await;
    a.there("configmaps", "n", "kube-root-ca.crt").await;
    let patch = json!({"data": {"ca.crt": "mine"}});
    a.resource("n", "configmaps").patch("kube-root-ca.crt", "", &patch).await.unwrap();
    a.until("the certificate is restored", async |a| {
        a.get("configmaps", "n", "kube-root-ca.crt").await.is_some_and(|map| map["data"]["ca.crt"] != "mine")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_with_its_content() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
    for index in 0..20 {
        a.map("n", &format!("m{index}"), json!([]), &[]).await;
    }
    a.delete("namespaces", "", "n", None).await;
    a.gone("namespaces", "", "n").await;
    assert!(a.list("configmaps", "n").await.is_empty());
    assert!(a.list("serviceaccounts", "n").await.is_empty());
    // The name is free again, and what comes under it is furnished like any other.
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_the_content_hold_a_namespace() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    a.there("serviceaccounts", "n", "default").await;
    for name in ["one", "two"] {
        a.map("n", name, json!([]), &["example.com/wait"]).await;
    }
    a.delete("namespaces", "", "n", None).await;
    a.until("the conditions say why it waits", async |a| {
        let Some(namespace) = a.get("namespaces", "", "n").await else { panic!("gone too early") };
        condition(&namespace, "NamespaceFinalizersRemaining").is_some_and(|found| {
            found["message"]
                == "Some content in the namespace has finalizers remaining: example.com/wait in 2 resource instances"
        })
    })
    .await;
    let namespace = a.get("namespaces", "", "n").await.unwrap();
    let remaining = condition(&namespace, "NamespaceContentRemaining").unwrap();
    assert_eq!(remaining["message"], "Some resources are remaining: configmaps. has 2 resource instances");
    assert_eq!(condition(&namespace, "NamespaceDeletionContentFailure").unwrap()["status"], "False");
    a.settle().await;
    a.unfinalize("configmaps", "n", "one").await;
    a.settle().await;
    // The last of it is noticed when it happens.
    let began = Instant::now();
    a.unfinalize("configmaps", "n", "two").await;
    a.gone("namespaces", "", "n").await;
    assert!(began.elapsed() < Duration::from_secs(8), "took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clouds_are_asked_with_goes_after_their_resources() {
    let f = Fixture::new().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "buckets.s3.example.com"},
        "spec": {
            "group": "s3.example.com", "scope": "Namespaced", "names": {"plural": "buckets", "kind": "Bucket"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
    });
    let schema = Arc::new(|_: &str| json!({"type": "object"}));
    f.engine.planes.catalogs.offer("test", vec![Offer { definition, schema, fingerprint: [1; 32] }]);
    let a = f.plane("a").await;
    for name in ["n", "plain"] {
        a.namespace(name).await;
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": name}});
        a.create(secret).await;
        a.map(name, "m", json!([]), &[]).await;
    }
    let metadata = json!({"name": "b", "namespace": "n", "finalizers": ["example.com/wait"]});
    a.create(json!({"apiVersion": "s3.example.com/v1", "kind": "Bucket", "metadata": metadata})).await;
    for name in ["n", "plain"] {
        a.delete("namespaces", "", name, None).await;
    }
    a.gone("namespaces", "", "plain").await;
    a.until("the conditions say what is left", async |a| {
        let namespace = a.get("namespaces", "", "n").await.unwrap();
        condition(&namespace, "NamespaceFinalizersRemaining").is_some()
    })
    .await;
    assert!(a.get("secrets", "n", "s").await.is_some() && a.get("configmaps", "n", "m").await.is_some());
    let buckets = Resource::new(&a.client, "s3.example.com/v1", "n", "buckets");
    buckets.patch("b", "", &json!({"metadata": {"finalizers": null}})).await.unwrap();
    a.gone("namespaces", "", "n").await;
    assert!(a.list("secrets", "n").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespaces_own_finalizers_hold_it_empty() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let metadata = json!({"name": "n", "finalizers": ["example.com/wait"]});
    a.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
    a.there("serviceaccounts", "n", "default").await;
    a.delete("namespaces", "", "n", None).await;
    a.until("our part is done", async |a| {
        let namespace = a.get("namespaces", "", "n").await.unwrap();
        namespace["spec"].get("finalizers").is_none_or(|list| list == &json!([]))
    })
    .await;
    let namespace = a.get("namespaces", "", "n").await.unwrap();
    assert_eq!(condition(&namespace, "NamespaceContentRemaining").unwrap()["reason"], "ContentRemoved");
    a.unfinalize("namespaces", "", "n").await;
    a.gone("namespaces", "", "n").await;
}
