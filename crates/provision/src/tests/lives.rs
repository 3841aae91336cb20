//! The life of a resource: made, changed, drifted, paused, approved, replaced, deleted; and left alone in between.

use std::sync::atomic::Ordering;

use objects::{Value, meta};
use serde_json::json;

use super::cloud::Resource;
use super::driver::{KINDS, MARKS, NAMES, TOKENS};
use super::fixture::{Fixture, condition};
use crate::intent;
use crate::plan::Verb;
use crate::policies;

#[tokio::test(flavor = "multi_thread")]
async fn made_changed_and_deleted() {
    let f = Fixture::new().await;
    for (kind, _) in KINDS {
        f.make(kind, "one", json!({}), json!({"size": 3})).await;
        f.synced(kind, "one").await;
        let object = f.get(kind, "one").await.unwrap();
        assert_eq!(f.cloud.only("one").fields, *json!({"size": 3, "zone": "zone-a"}).as_object().unwrap());
        assert_eq!(object["spec"]["zone"], "zone-a", "what the cloud chose is filled in");
        let id = object["status"]["id"].as_str().unwrap();
        let place = json!({"arn": format!("arn:{id}"), "ownerAccountID": "1", "region": "here"});
        assert_eq!(object["status"]["ackResourceMetadata"], place);
        assert_eq!(meta::finalizers(&object).count(), 1);
        assert_eq!(meta::annotation(&object, intent::ANNOTATION), None, "the intent is closed");
        assert_eq!(condition(&object, "ACK.LateInitialized").unwrap()["status"], "True");
        assert_eq!(condition(&object, "Ready").unwrap()["status"], "True");

        f.edit(kind, "one", json!({"size": 4, "color": "red"})).await;
        f.synced(kind, "one").await;
        let fields = f.cloud.only("one").fields;
        assert_eq!((&fields["size"], &fields["color"]), (&json!(4), &json!("red")));

        f.delete(kind, "one").await;
        f.gone(kind, "one").await;
        assert!(f.cloud.of("one").is_empty());
    }
    let events = f.list("events").await;
    for reason in ["Created", "Updated", "Deleted"] {
        assert_eq!(events.iter().filter(|event| event["reason"] == reason).count(), KINDS.len(), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_again_is_counted() {
    let f = Fixture::new().await;
    f.make(TOKENS, "one", json!({}), json!({"size": 1})).await;
    for size in 2..5 {
        f.synced(TOKENS, "one").await;
        f.edit(TOKENS, "one", json!({"size": size})).await;
    }
    f.synced(TOKENS, "one").await;
    let mut events = f.list("events").await;
    events.retain(|event| event["reason"] == "Updated");
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["count"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_is_left_alone() {
    let f = Fixture::new().await;
    f.make(TOKENS, "calm", json!({}), json!({"size": 3})).await;
    f.synced(TOKENS, "calm").await;
    f.settle().await;
    let before = f.get(TOKENS, "calm").await.unwrap();
    let made: Vec<String> = f.cloud.calls();
    assert_eq!(made, ["Create", "Get"], "no call too many on the way there");
    f.settle().await;
    assert!(f.cloud.calls().is_empty(), "and none before the interval is over");
    // A look by its own: one read, no write, not even of the object.
    for _ in 0..3 {
        f.nudge(TOKENS, "calm").await;
        f.until("it was looked at", async |f| !f.cloud.calls().is_empty()).await;
    }
    f.settle().await;
    assert!(f.cloud.calls().iter().all(|call| call == "Get"));
    let after = f.get(TOKENS, "calm").await.unwrap();
    assert_eq!(before["status"], after["status"], "times stay as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn drift() {
    let f = Fixture::new().await;
    f.make(NAMES, "corrected", json!({}), json!({"size": 3})).await;
    f.make(NAMES, "reported", json!({policies::DRIFT_POLICY: "report"}), json!({"size": 3})).await;
    f.make(NAMES, "ignored", json!({policies::DRIFT_POLICY: "ignore"}), json!({"size": 3})).await;
    for name in ["corrected", "reported", "ignored"] {
        f.synced(NAMES, name).await;
        f.cloud.change(name, |one| drop(one.fields.insert("size".to_owned(), json!(9))));
        f.nudge(NAMES, name).await;
    }
    f.until("it is corrected", async |f| f.cloud.only("corrected").fields["size"] == 3).await;
    f.told(NAMES, "reported", "ACK.Advisory", "True", "spec.size: wanted 3, found 9").await;
    f.told(NAMES, "reported", "ACK.ResourceSynced", "False", "drifted").await;
    f.settle().await;
    assert_eq!(f.cloud.only("reported").fields["size"], 9);
    assert_eq!(f.cloud.only("ignored").fields["size"], 9);
    // An edit is no drift.
    f.edit(NAMES, "reported", json!({"size": 5})).await;
    f.synced(NAMES, "reported").await;
    assert_eq!(f.cloud.only("reported").fields["size"], 5);
    // Gone is drift too.
    for name in ["corrected", "reported"] {
        f.cloud.lose(name);
        f.nudge(NAMES, name).await;
    }
    f.told(NAMES, "reported", "ACK.Advisory", "True", "gone").await;
    f.until("it is made again", async |f| f.cloud.of("corrected").len() == 1).await;
    assert!(f.cloud.of("reported").is_empty());
}

/// What the object shows of the resource follows it, without being taken for an edit.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_state_is_shown() {
    let f = Fixture::new().await;
    f.make(MARKS, "shown", json!({policies::DRIFT_POLICY: "ignore"}), json!({"size": 3})).await;
    f.synced(MARKS, "shown").await;
    assert_eq!(f.get(MARKS, "shown").await.unwrap()["spec"]["state"], json!({"size": 3}));
    f.settle().await;
    assert_eq!(f.cloud.calls(), ["Create", "Get"], "its own writes do not wake it");
    f.cloud.change("shown", |one| drop(one.fields.insert("size".to_owned(), json!(9))));
    f.nudge(MARKS, "shown").await;
    f.until("it follows", async |f| f.get(MARKS, "shown").await.unwrap()["spec"]["state"]["size"] == 9).await;
    f.settle().await;
    assert_eq!(f.cloud.calls(), ["Get"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused() {
    let f = Fixture::new().await;
    f.make(NAMES, "held", json!({policies::PAUSED: "true"}), json!({"size": 3})).await;
    f.told(NAMES, "held", "ACK.Advisory", "True", "Paused").await;
    assert!(f.cloud.calls().is_empty());
    f.annotate(NAMES, "held", json!({policies::PAUSED: null})).await;
    f.synced(NAMES, "held").await;
    f.annotate(NAMES, "held", json!({policies::PAUSED: "true"})).await;
    f.told(NAMES, "held", "ACK.Advisory", "True", "Paused").await;
    let object = f.get(NAMES, "held").await.unwrap();
    assert_eq!(condition(&object, "ACK.ResourceSynced").unwrap()["status"], "True", "what was true stays");
    f.edit(NAMES, "held", json!({"size": 4})).await;
    f.delete(NAMES, "held").await;
    f.settle().await;
    assert_eq!(f.cloud.only("held").fields["size"], 3);
    f.annotate(NAMES, "held", json!({policies::PAUSED: null})).await;
    f.gone(NAMES, "held").await;
    assert!(f.cloud.of("held").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn approval() {
    let f = Fixture::new().await;
    let required = json!({policies::APPROVAL: "required"});
    f.make(MARKS, "asked", required, json!({"size": 3})).await;
    let approve = async || {
        f.told(MARKS, "asked", "ACK.Advisory", "True", "ApprovalRequired").await;
        let object = f.get(MARKS, "asked").await.unwrap();
        let message = condition(&object, "ACK.Advisory").unwrap()["message"].as_str().unwrap().to_owned();
        let fingerprint =
            message.split(" to ").find_map(|part| part.split(' ').next().filter(|word| word.len() == 16));
        f.annotate(MARKS, "asked", json!({policies::APPROVED: fingerprint.unwrap()})).await;
    };
    approve().await;
    f.synced(MARKS, "asked").await;
    f.edit(MARKS, "asked", json!({"size": 4, "color": "Red"})).await;
    f.told(MARKS, "asked", "ACK.Advisory", "True", "Red").await;
    assert_eq!(f.cloud.only("asked").fields["size"], 3);
    approve().await;
    f.synced(MARKS, "asked").await;
    assert_eq!(f.cloud.only("asked").fields["size"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_does_not_converge() {
    let f = Fixture::new().await;
    f.make(TOKENS, "stuck", json!({}), json!({"size": 3})).await;
    f.synced(TOKENS, "stuck").await;
    f.cloud.calls();
    f.edit(TOKENS, "stuck", json!({"grumpy": "yes", "size": 4})).await;
    f.told(TOKENS, "stuck", "ACK.Advisory", "True", "spec.grumpy").await;
    f.synced(TOKENS, "stuck").await;
    assert_eq!(f.cloud.calls().iter().filter(|call| *call == "Set grumpy").count(), 2);
    for _ in 0..3 {
        f.nudge(TOKENS, "stuck").await;
        f.until("it was looked at", async |f| f.metrics.calls(crate::OperationType::ReadOne) > 3).await;
    }
    f.settle().await;
    assert!(!f.cloud.calls().contains(&"Set grumpy".to_owned()), "not written in a loop");
    assert_eq!(f.cloud.only("stuck").fields["size"], 4, "the others are");
    f.edit(TOKENS, "stuck", json!({"grumpy": null})).await;
    f.until("it is forgotten", async |f| {
        let object = f.get(TOKENS, "stuck").await.unwrap();
        condition(&object, "ACK.Advisory").is_none()
            && meta::annotation(&object, crate::plan::guard::ANNOTATION).is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacing() {
    for (kind, policy) in [(TOKENS, "delete-first"), (TOKENS, "create-first"), (MARKS, "delete-first")] {
        let f = Fixture::new().await;
        f.make(kind, "new", json!({}), json!({"fixed": 1})).await;
        f.synced(kind, "new").await;
        let old = f.get(kind, "new").await.unwrap()["status"]["id"].clone();
        f.cloud.calls();
        f.edit(kind, "new", json!({"fixed": 2})).await;
        f.told(kind, "new", "ACK.Terminal", "True", "spec.fixed cannot be changed in place").await;
        f.annotate(kind, "new", json!({policies::REPLACE_POLICY: policy})).await;
        f.synced(kind, "new").await;
        assert_eq!(f.cloud.only("new").fields["fixed"], 2);
        let object = f.get(kind, "new").await.unwrap();
        assert_ne!(object["status"]["id"], old);
        assert_eq!(meta::annotation(&object, intent::ANNOTATION), None);
        let calls = f.cloud.calls();
        let place = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
        assert_eq!(place("Create") < place("Delete"), policy == "create-first", "{calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_policies() {
    let f = Fixture::new().await;
    let retain = json!({"services.k8s.aws/deletion-policy": "retain"});
    f.make(TOKENS, "kept", retain, json!({})).await;
    f.make(TOKENS, "kept-by-namespace", json!({}), json!({})).await;
    let delete = json!({"services.k8s.aws/deletion-policy": "delete"});
    f.make(TOKENS, "deleted-all-the-same", delete, json!({})).await;
    for name in ["kept", "kept-by-namespace", "deleted-all-the-same"] {
        f.synced(TOKENS, name).await;
    }
    let namespace =
        json!({"metadata": {"annotations": {"cloud.services.k8s.aws/deletion-policy": "retain"}}});
    f.patch_namespace(namespace).await;
    for (name, left) in [("kept", 1), ("kept-by-namespace", 1), ("deleted-all-the-same", 0)] {
        f.delete(TOKENS, name).await;
        f.gone(TOKENS, name).await;
        assert_eq!(f.cloud.of(name).len(), left, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_take_their_time_and_need_preparation() {
    let f = Fixture::new().await;
    f.make(TOKENS, "slow", json!({}), json!({"protected": true})).await;
    f.synced(TOKENS, "slow").await;
    f.cloud.slow.store(true, Ordering::SeqCst);
    f.delete(TOKENS, "slow").await;
    f.told(TOKENS, "slow", "ACK.Recoverable", "True", "deletion protection").await;
    f.edit(TOKENS, "slow", json!({"protected": false, "size": 5})).await;
    f.gone(TOKENS, "slow").await;
    assert!(f.cloud.of("slow").is_empty());
    let calls = f.cloud.calls();
    assert!(calls.contains(&"Set protected".to_owned()), "{calls:?}");
    assert!(!calls.contains(&"Set size".to_owned()), "nothing else is changed on the way out: {calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_change_nothing() {
    let f = Fixture::new().await;
    let object = |spec: Value| {
        json!({"apiVersion": "cloud.test/v1", "kind": "Name",
            "metadata": {"name": "planned", "namespace": "default"}, "spec": spec})
    };
    let preview = f.engine.plan(&*f.fleet, "a", &object(json!({"size": 3}))).await.unwrap();
    assert_eq!((preview.verb, preview.calls), (Verb::Create, vec!["cloud:Create".to_owned()]));
    assert_eq!(preview.place, "1/here");
    f.make(NAMES, "planned", json!({}), json!({"size": 3})).await;
    f.synced(NAMES, "planned").await;
    f.settle().await;
    f.cloud.calls();
    let mut stored = f.get(NAMES, "planned").await.unwrap();
    assert_eq!(f.engine.plan(&*f.fleet, "a", &stored).await.unwrap().verb, Verb::Nothing);
    stored["spec"]["size"] = json!(4);
    let preview = f.engine.plan(&*f.fleet, "a", &stored).await.unwrap();
    assert_eq!((preview.verb, preview.changes.len()), (Verb::Update, 1));
    assert_eq!(preview.changes[0].path, "spec.size");
    stored["spec"]["fixed"] = json!(4);
    let preview = f.engine.plan(&*f.fleet, "a", &stored).await.unwrap();
    assert_eq!((preview.verb, preview.remarks.len()), (Verb::Replace, 1));
    let taken = Resource { name: "planned-2".to_owned(), ..Resource::default() };
    f.cloud.put("x", taken);
    let mut other = object(json!({}));
    other["metadata"]["name"] = "planned-2".into();
    assert!(
        f.engine.plan(&*f.fleet, "a", &other).await.is_err_and(|failure| failure.message.contains("exists"))
    );
    assert!(f.cloud.calls().iter().all(|call| call == "Get"));
    assert_eq!(f.get(NAMES, "planned").await.unwrap()["spec"]["size"], 3);
}
