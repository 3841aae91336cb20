//! Lost answers, throttling, errors, stale reads, missing rights: everything converges, and says what it waits for.

use objects::meta;
use serde_json::json;

use super::cloud::{FAULTS, Fault, Resource};
use super::driver::{KINDS, MARKS, NAMES, TOKENS};
use super::fixture::{Fixture, condition};
use crate::intent;

#[tokio::test(flavor = "multi_thread")]
async fn faults_at_every_call() {
    for (kind, _) in KINDS {
        let f = Fixture::new().await;
        for fault in FAULTS {
            for calls in 0..9 {
                let name = format!("{fault:?}-{calls}").to_lowercase();
                f.cloud.tripwire.arm(calls, fault);
                f.make(kind, &name, json!({}), json!({"size": 3})).await;
                f.synced(kind, &name).await;
                f.cloud.tripwire.disarm();
                f.cloud.only(&name);
                f.cloud.tripwire.arm(calls / 3, fault);
                f.edit(kind, &name, json!({"size": 4})).await;
                f.synced(kind, &name).await;
                assert_eq!(f.cloud.only(&name).fields["size"], 4);
                f.cloud.tripwire.arm(calls / 3, fault);
                f.delete(kind, &name).await;
                f.gone(kind, &name).await;
                f.cloud.tripwire.disarm();
                assert!(f.cloud.of(&name).is_empty(), "{kind} {name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_lag_behind() {
    for (kind, _) in KINDS {
        let f = Fixture::new().await;
        f.cloud.lag(2);
        f.make(kind, "late", json!({}), json!({"size": 3})).await;
        f.synced(kind, "late").await;
        f.cloud.only("late");
        f.edit(kind, "late", json!({"size": 4})).await;
        f.synced(kind, "late").await;
        assert_eq!(f.cloud.only("late").fields["size"], 4);
        f.delete(kind, "late").await;
        f.gone(kind, "late").await;
        assert!(f.cloud.of("late").is_empty());
    }
}

/// However long it is not seen, it is not made a second time, and it goes with its object.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_seen_is_made_once() {
    for (kind, _) in KINDS {
        let f = Fixture::new().await;
        f.cloud.hide(true);
        f.make(kind, "unseen", json!({}), json!({"size": 3})).await;
        f.told(kind, "unseen", "ACK.ResourceSynced", "False", "cannot be seen yet").await;
        let object = f.get(kind, "unseen").await.unwrap();
        let open = intent::Intent::of(&object).unwrap().unwrap();
        let long_ago = open.made.map(|made| made - jiff::SignedDuration::from_hours(1));
        let open = intent::Intent { made: long_ago, ..open };
        f.annotate(kind, "unseen", json!({intent::ANNOTATION: open.to_annotation()})).await;
        f.told(kind, "unseen", "ACK.Recoverable", "True", "was made as arn:id-1 and no read shows it").await;
        f.nudge(kind, "unseen").await;
        f.settle().await;
        f.cloud.only("unseen");
        f.delete(kind, "unseen").await;
        f.gone(kind, "unseen").await;
        assert!(f.cloud.of("unseen").is_empty(), "no orphan of {kind}");
    }
}

/// The answer is lost, and the first looks do not show what was made.
#[tokio::test(flavor = "multi_thread")]
async fn lost_and_stale_at_once() {
    for kind in [TOKENS, NAMES] {
        let f = Fixture::new().await;
        f.cloud.lag(1);
        // By name: a look, the intent, the call. By token: the intent, the call.
        f.cloud.tripwire.arm(if kind == NAMES { 2 } else { 1 }, Fault::Lost);
        f.make(kind, "both", json!({}), json!({})).await;
        f.synced(kind, "both").await;
        assert!(f.cloud.tripwire.is_sprung());
        f.cloud.only("both");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_nothing_behind() {
    let f = Fixture::new().await;
    f.make(TOKENS, "bad", json!({}), json!({"size": -1})).await;
    f.told(TOKENS, "bad", "ACK.Terminal", "True", "InvalidSize: size must not be negative").await;
    f.told(TOKENS, "bad", "ACK.ResourceSynced", "False", "Resource not synced").await;
    f.told(TOKENS, "bad", "Ready", "False", "ACK.Terminal").await;
    let object = f.get(TOKENS, "bad").await.unwrap();
    assert_eq!(meta::finalizers(&object).count(), 0, "it can go freely");
    assert_eq!(meta::annotation(&object, intent::ANNOTATION), None);
    let since = condition(&object, "ACK.Terminal").unwrap()["lastTransitionTime"].clone();
    f.nudge(TOKENS, "bad").await;
    f.settle().await;
    let object = f.get(TOKENS, "bad").await.unwrap();
    assert_eq!(condition(&object, "ACK.Terminal").unwrap()["lastTransitionTime"], since);
    f.edit(TOKENS, "bad", json!({"size": 1})).await;
    f.synced(TOKENS, "bad").await;
    assert!(condition(&f.get(TOKENS, "bad").await.unwrap(), "ACK.Terminal").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_recover_by_themselves() {
    let f = Fixture::new().await;
    f.make(MARKS, "stranger", json!({"cloud.test/account": "wrong"}), json!({})).await;
    f.told(MARKS, "stranger", "ACK.Recoverable", "True", "InvalidClientTokenId").await;
    f.told(MARKS, "stranger", "ACK.ResourceSynced", "Unknown", "Unable to determine").await;
    f.settle().await;
    let events = f.list("events").await;
    let told = events.iter().filter(|event| event["reason"] == "InvalidClientTokenId").count();
    assert_eq!(told, 1, "once, not with every try");
    f.annotate(MARKS, "stranger", json!({"cloud.test/account": "2"})).await;
    f.synced(MARKS, "stranger").await;
    // Rights that are taken away in the middle.
    f.cloud.tripwire.arm(0, Fault::Denied);
    f.edit(MARKS, "stranger", json!({"size": 2})).await;
    f.synced(MARKS, "stranger").await;
    assert_eq!(f.cloud.only("stranger").fields["size"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken() {
    let f = Fixture::new().await;
    f.cloud.put("theirs", Resource { name: "taken".to_owned(), ..Resource::default() });
    f.make(NAMES, "taken", json!({}), json!({"size": 3})).await;
    f.told(NAMES, "taken", "ACK.Terminal", "True", "Resource already exists").await;
    f.delete(NAMES, "taken").await;
    f.gone(NAMES, "taken").await;
    assert_eq!(f.cloud.only("taken").fields.get("size"), None, "it is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_control_plane_refuses_is_told() {
    let f = Fixture::new().await;
    f.make(TOKENS, "spec", json!({}), json!({"color": "odd"})).await;
    f.told(TOKENS, "spec", "ACK.Advisory", "True", "the spec cannot be written").await;
    let object = f.get(TOKENS, "spec").await.unwrap();
    assert_eq!(meta::annotation(&object, intent::ANNOTATION), None, "nothing is lost over it");
    f.cloud.only("spec");
    let long = "a colour that nobody has a name for";
    f.make(TOKENS, "status", json!({}), json!({"color": long})).await;
    f.told(TOKENS, "status", "ACK.Terminal", "True", "the status of the resource cannot be written").await;
    f.edit(TOKENS, "status", json!({"color": "red"})).await;
    f.synced(TOKENS, "status").await;
    f.cloud.only("status");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_cannot_be_read() {
    let f = Fixture::new().await;
    f.make(TOKENS, "odd", json!({intent::ANNOTATION: "{\"action\":\"dance\"}"}), json!({})).await;
    f.told(TOKENS, "odd", "ACK.Terminal", "True", "cannot be read").await;
    assert!(f.cloud.calls().is_empty());
    f.annotate(TOKENS, "odd", json!({intent::ANNOTATION: null})).await;
    f.nudge(TOKENS, "odd").await;
    f.synced(TOKENS, "odd").await;
}

/// What the cloud spells otherwise when it makes something cannot be put right by making it again; an edit could.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_otherwise_is_told_and_left() {
    let f = Fixture::new().await;
    f.make(TOKENS, "spelled", json!({}), json!({"fixed": "Up"})).await;
    f.synced(TOKENS, "spelled").await;
    f.told(TOKENS, "spelled", "ACK.Advisory", "True", "spec.fixed").await;
    f.nudge(TOKENS, "spelled").await;
    f.settle().await;
    f.told(TOKENS, "spelled", "ACK.ResourceSynced", "True", "").await;
    f.edit(TOKENS, "spelled", json!({"fixed": "Down"})).await;
    f.told(TOKENS, "spelled", "ACK.Terminal", "True", "spec.fixed cannot be changed in place").await;
    assert_eq!(f.cloud.only("spelled").fields["fixed"], "up");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_failed_for_good_is_terminal() {
    let f = Fixture::new().await;
    f.make(TOKENS, "failed", json!({}), json!({"color": "broken"})).await;
    f.told(TOKENS, "failed", "ACK.Terminal", "True", "color is broken").await;
    f.told(TOKENS, "failed", "ACK.ResourceSynced", "False", "color is broken").await;
    f.edit(TOKENS, "failed", json!({"color": "red"})).await;
    f.synced(TOKENS, "failed").await;
}
