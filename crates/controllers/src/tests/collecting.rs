use objects::meta;
use serde_json::{Value, json};

use super::fixture::{Fixture, Plane, owner};
use crate::resource::Propagation;

/// An owner in `default`, called `owner`, and dependants of it as told: name and whether it blocks.
async fn family(a: &Plane, finalizers: &[&str], dependants: &[(&str, bool)]) -> Value {
    let parent = a.map("default", "owner", json!([]), finalizers).await;
    for (name, block) in dependants {
        a.map("default", name, json!([owner(&parent, *block)]), &[]).await;
    }
    parent
}

async fn names(a: &Plane) -> Vec<String> {
    let maps = a.list("configmaps", "default").await;
    maps.iter().map(|map| meta::name(map).to_owned()).filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dependants_follow_their_owner() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    family(&a, &[], &[("child", false), ("other", true)]).await;
    let child = a.get("configmaps", "default", "child").await.unwrap();
    a.map("default", "grandchild", json!([owner(&child, false)]), &[]).await;
    a.settle().await;
    assert_eq!(names(&a).await, ["child", "grandchild", "other", "owner"]);
    a.delete("configmaps", "default", "owner", Some(Propagation::Background)).await;
    a.until("all of them are gone", async |a| names(a).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_stay() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    family(&a, &[], &[("child", false), ("other", true)]).await;
    a.delete("configmaps", "default", "owner", Some(Propagation::Orphan)).await;
    a.gone("configmaps", "default", "owner").await;
    a.settle().await;
    assert_eq!(names(&a).await, ["child", "other"]);
    let child = a.get("configmaps", "default", "child").await.unwrap();
    assert!(meta::owner_references(&child).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_foreground_the_owner_goes_last() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let parent = family(&a, &[], &[("child", true), ("free", false)]).await;
    a.map("default", "slow", json!([owner(&parent, true)]), &["example.com/wait"]).await;
    a.map("default", "lazy", json!([owner(&parent, false)]), &["example.com/wait"]).await;
    a.delete("configmaps", "default", "owner", Some(Propagation::Foreground)).await;
    a.gone("configmaps", "default", "child").await;
    a.gone("configmaps", "default", "free").await;
    a.settle().await;
    assert_eq!(names(&a).await, ["lazy", "owner", "slow"]);
    // The one that blocks holds it; the one that does not is not waited for.
    a.unfinalize("configmaps", "default", "slow").await;
    a.gone("configmaps", "default", "owner").await;
    assert_eq!(names(&a).await, ["lazy"]);
    a.unfinalize("configmaps", "default", "lazy").await;
    a.until("all of them are gone", async |a| names(a).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_owner_decides() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let one = a.map("default", "one", json!([]), &[]).await;
    let two = a.map("default", "two", json!([]), &[]).await;
    a.map("default", "child", json!([owner(&one, true), owner(&two, true)]), &[]).await;
    a.delete("configmaps", "default", "one", Some(Propagation::Foreground)).await;
    a.gone("configmaps", "default", "one").await;
    a.until("the owner that went is forgotten", async |a| {
        let child = a.get("configmaps", "default", "child").await.unwrap();
        meta::owner_references(&child) == [owner(&two, true)]
    })
    .await;
    a.delete("configmaps", "default", "two", None).await;
    a.gone("configmaps", "default", "child").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_that_never_were() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    let real = a.map("default", "real", json!([]), &[]).await;
    let mut other = owner(&real, false);
    other["uid"] = "11111111-2222-3333-4444-555555555555".into();
    a.map("default", "wrong-uid", json!([other]), &[]).await;
    a.gone("configmaps", "default", "wrong-uid").await;
    // An object may also come to have such an owner later.
    a.map("default", "later", json!([]), &[]).await;
    let patch = json!({"metadata": {"ownerReferences": [other]}});
    a.resource("default", "configmaps").patch("later", "", &patch).await.unwrap();
    a.gone("configmaps", "default", "later").await;
    // A kind that nobody knows may come yet.
    let unknown = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}]);
    a.map("default", "patient", unknown, &[]).await;
    a.settle().await;
    assert_eq!(names(&a).await, ["patient", "real"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_in_other_namespaces_are_none() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    let elsewhere = a.map("n", "elsewhere", json!([]), &[]).await;
    a.map("default", "child", json!([owner(&elsewhere, false)]), &[]).await;
    a.gone("configmaps", "default", "child").await;
    let told = async |a: &Plane, name: &str| {
        a.list("events", "default").await.iter().any(|event| {
            event["reason"] == "OwnerRefInvalidNamespace" && event["involvedObject"]["name"] == name
        })
    };
    assert!(told(&a, "child").await);
    // What is in no namespace cannot be owned from one, and is left alone.
    let metadata = json!({"name": "big", "ownerReferences": [owner(&elsewhere, false)]});
    a.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [],
    }))
    .await;
    a.until("it is told", async |a| told(a, "big").await).await;
    assert!(a.get("clusterroles.rbac.authorization.k8s.io", "", "big").await.is_some());
}

/// Whoever may write in one namespace must not hold up deletions in another.
#[tokio::test(flavor = "multi_thread")]
async fn dependants_in_other_namespaces_hold_nobody() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
    a.namespace("n").await;
    let victim = a.map("default", "victim", json!([]), &[]).await;
    a.map("n", "leech", json!([owner(&victim, true)]), &["example.com/stay"]).await;
    a.until("the reference is found to be invalid", async |a| {
        let leech = a.get("configmaps", "n", "leech").await;
        leech.is_some_and(|leech| meta::is_deleting(&leech))
    })
    .await;
    let told = a.list("events", "n").await;
    assert!(told.iter().any(|event| event["reason"] == "OwnerRefInvalidNamespace"), "{told:?}");
    a.map("default", "child", json!([owner(&victim, true)]), &["example.com/stay"]).await;
    a.delete("configmaps", "default", "victim", Some(Propagation::Foreground)).await;
    a.until("the child in its own namespace is waited for", async |a| {
        a.get("configmaps", "default", "child").await.is_some_and(|child| meta::is_deleting(&child))
    })
    .await;
    assert!(a.get("configmaps", "default", "victim").await.is_some());
    a.unfinalize("configmaps", "default", "child").await;
    a.gone("configmaps", "default", "victim").await;
    assert!(a.get("configmaps", "n", "leech").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn circles_do_not_hold() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let f = Fixture::new().await;
        let a = f.plane("a").await;
        let one = a.map("default", "one", json!([]), &[]).await;
        let two = a.map("default", "two", json!([owner(&one, true)]), &[]).await;
        let three = a.map("default", "three", json!([owner(&two, true)]), &[]).await;
        let patch = json!({"metadata": {"ownerReferences": [owner(&three, true)]}});
        a.resource("default", "configmaps").patch("one", "", &patch).await.unwrap();
        a.delete("configmaps", "default", "two", Some(propagation)).await;
        a.until("the circle is gone", async |a| names(a).await.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_own_and_are_owned() {
    let f = Fixture::new().await;
    let a = f.plane("a").await;
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
    .await;
    let thing = |name: &str, owners: Value| {
        let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata})
    };
    let parent = a.create(thing("parent", json!([]))).await;
    a.create(thing("child", json!([owner(&parent, true)]))).await;
    a.map("default", "map", json!([owner(&parent, true)]), &[]).await;
    let things = crate::resource::Resource::new(&a.client, "example.com/v1", "default", "things");
    let options =
        crate::resource::Delete { propagation: Some(Propagation::Foreground), ..Default::default() };
    assert!(things.delete("parent", &options).await.unwrap());
    for (kind, name) in
        [("things.example.com", "child"), ("configmaps", "map"), ("things.example.com", "parent")]
    {
        a.gone(kind, "default", name).await;
    }
}
