//! References and secrets: waited for, woken by, noticed when they change.

use objects::meta;
use serde_json::{Value, json};

use super::driver::{MARKS, NAMES, TOKENS};
use super::fixture::Fixture;
use crate::policies;

fn parent(name: &str) -> Value {
    json!({"from": {"name": name}})
}

#[tokio::test(flavor = "multi_thread")]
async fn dependants_are_woken_by_what_they_wait_for() {
    let f = Fixture::new().await;
    for name in ["one", "two", "three"] {
        f.make(MARKS, name, json!({}), json!({"parentRef": parent("mother")})).await;
        f.told(MARKS, name, "ACK.ReferencesResolved", "Unknown", "does not exist").await;
    }
    // Long enough for the waits to have grown.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    f.make(TOKENS, "mother", json!({policies::PAUSED: "true"}), json!({})).await;
    f.told(MARKS, "one", "ACK.ReferencesResolved", "Unknown", "is not synced yet").await;
    f.annotate(TOKENS, "mother", json!({policies::PAUSED: null})).await;
    for name in ["one", "two", "three"] {
        f.synced(MARKS, name).await;
        let object = f.get(MARKS, name).await.unwrap();
        let id = f.get(TOKENS, "mother").await.unwrap()["status"]["id"].clone();
        assert_eq!(f.cloud.only(name).fields["parentID"], id);
        assert_eq!(object["spec"].get("parentID"), None, "the object keeps the reference");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn references_that_cannot_be() {
    let f = Fixture::new().await;
    f.make(TOKENS, "broken", json!({}), json!({"size": -1})).await;
    f.told(TOKENS, "broken", "ACK.Terminal", "True", "").await;
    f.make(MARKS, "child", json!({}), json!({"parentRef": parent("broken")})).await;
    f.told(MARKS, "child", "ACK.ReferencesResolved", "False", "terminal condition").await;
    f.told(MARKS, "child", "ACK.Terminal", "True", "").await;
    f.make(MARKS, "both", json!({}), json!({"parentRef": parent("broken"), "parentID": "x"})).await;
    f.told(MARKS, "both", "ACK.Terminal", "True", "must not both be given").await;
    // Cured, it cures its dependant.
    f.edit(TOKENS, "broken", json!({"size": 1})).await;
    f.synced(MARKS, "child").await;
    // What goes does not wait for what it refers to.
    f.annotate(TOKENS, "broken", json!({policies::DELETION_ORDER: "any"})).await;
    f.delete(TOKENS, "broken").await;
    f.gone(TOKENS, "broken").await;
    f.delete(MARKS, "child").await;
    f.gone(MARKS, "child").await;
    assert!(f.cloud.of("child").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_refer_to_goes_after_them() {
    let f = Fixture::new().await;
    f.make(TOKENS, "mother", json!({}), json!({})).await;
    for name in ["one", "two"] {
        f.make(MARKS, name, json!({}), json!({"parentRef": parent("mother")})).await;
        f.synced(MARKS, name).await;
    }
    f.delete(TOKENS, "mother").await;
    f.told(TOKENS, "mother", "ACK.ResourceSynced", "False", "default/one, ").await;
    assert_eq!(f.cloud.of("mother").len(), 1);
    f.delete(MARKS, "one").await;
    f.gone(MARKS, "one").await;
    f.told(TOKENS, "mother", "ACK.ResourceSynced", "False", "default/two still refers to it").await;
    // One that refers to something else now does not count.
    f.edit(MARKS, "two", json!({"parentRef": null, "parentID": "other"})).await;
    f.gone(TOKENS, "mother").await;
    assert!(f.cloud.of("mother").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_youngest_reference_counts() {
    let f = Fixture::new().await;
    for name in ["other", "mother"] {
        f.make(TOKENS, name, json!({}), json!({})).await;
        f.synced(TOKENS, name).await;
    }
    // Whoever refers to what has just been looked for.
    f.delete(TOKENS, "other").await;
    f.gone(TOKENS, "other").await;
    f.make(MARKS, "child", json!({}), json!({"parentRef": parent("mother")})).await;
    f.synced(MARKS, "child").await;
    f.delete(TOKENS, "mother").await;
    f.told(TOKENS, "mother", "ACK.ResourceSynced", "False", "default/child still refers to it").await;
    assert_eq!(f.cloud.of("mother").len(), 1);
    // And nobody takes a value from what goes.
    f.make(MARKS, "late", json!({}), json!({"parentRef": parent("mother")})).await;
    f.told(MARKS, "late", "ACK.ReferencesResolved", "Unknown", "is being deleted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_is_no_deadlock() {
    let f = Fixture::new().await;
    f.make(TOKENS, "egg", json!({}), json!({})).await;
    f.synced(TOKENS, "egg").await;
    f.make(TOKENS, "hen", json!({}), json!({"parentRef": parent("egg")})).await;
    f.synced(TOKENS, "hen").await;
    f.edit(TOKENS, "egg", json!({"parentRef": parent("hen")})).await;
    f.synced(TOKENS, "egg").await;
    for name in ["egg", "hen"] {
        f.delete(TOKENS, name).await;
    }
    for name in ["egg", "hen"] {
        f.gone(TOKENS, name).await;
        assert!(f.cloud.of(name).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_waited_for_and_their_changes_noticed() {
    let f = Fixture::new().await;
    let password = json!({"password": {"name": "s", "key": "password"}});
    // Whoever edits a Secret wants its value, whatever is done about drift.
    f.make(NAMES, "guarded", json!({policies::DRIFT_POLICY: "report"}), password).await;
    f.told(NAMES, "guarded", "ACK.Terminal", "True", "Secret default/s does not exist").await;
    f.secret("s", "first-password").await;
    f.synced(NAMES, "guarded").await;
    assert_eq!(f.cloud.only("guarded").password, "first-password");
    f.cloud.calls();
    // The Secret changes, the value does not.
    f.patch("secrets", "s", json!({"metadata": {"labels": {"a": "b"}}})).await;
    f.nudge(NAMES, "guarded").await;
    f.until("it was looked at", async |f| !f.cloud.calls().is_empty()).await;
    f.settle().await;
    assert!(f.cloud.calls().iter().all(|call| call == "Get"));
    f.patch("secrets", "s", json!({"stringData": {"password": "second-password"}})).await;
    f.until("it is changed", async |f| f.cloud.only("guarded").password == "second-password").await;
    f.synced(NAMES, "guarded").await;
    f.settle().await;
    assert_eq!(f.cloud.calls().iter().filter(|call| *call == "Set password").count(), 1);
    let everything = [f.list(NAMES).await, f.list("events").await].concat();
    for object in everything {
        assert_ne!(object["reason"], "DriftDetected", "{object}");
        assert!(!object.to_string().contains("-password"), "{object}");
    }
    f.patch("secrets", "s", json!({"data": {"password": null}})).await;
    f.told(NAMES, "guarded", "ACK.Terminal", "True", "has no key password").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_told() {
    let f = Fixture::new().await;
    f.secret("s", "refused").await;
    f.make(NAMES, "weak", json!({}), json!({"password": {"name": "s", "key": "password"}})).await;
    f.told(NAMES, "weak", "ACK.Terminal", "True", "password [secret] is too weak").await;
    let object = f.get(NAMES, "weak").await.unwrap();
    assert!(!object.to_string().contains("refused") && meta::finalizers(&object).next().is_none());
}
