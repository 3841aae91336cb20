//! The process dies before and after every call, of the cloud and of the control plane, of a create, an update, a
//! replacement and a delete. Afterwards there is exactly one resource, or none.

use objects::meta;
use serde_json::json;

use super::cloud::Fault;
use super::driver::{KINDS, MARKS, TOKENS};
use super::fixture::Fixture;
use crate::{intent, policies};

/// More calls than any of these ever makes.
const MANY: usize = 40;

/// Does something with a fresh object, dying at one call after the other, until it is through without dying.
async fn at_every_call(
    f: &mut Fixture,
    kind: &str,
    what: &str,
    prepare: impl AsyncFn(&Fixture, &str),
    act: impl AsyncFn(&Fixture, &str),
    check: impl AsyncFn(&Fixture, &str),
) {
    let mut points = 0;
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for calls in 0..MANY {
            let name =
                format!("{what}-{}-{calls}", if fault == Fault::CrashBefore { "before" } else { "after" });
            prepare(f, &name).await;
            f.settle_writes().await;
            f.cloud.tripwire.arm(calls, fault);
            act(f, &name).await;
            let finished = async {
                check(f, &name).await;
            };
            let through = tokio::select! {
                () = f.cloud.tripwire.death() => false,
                () = finished => true,
            };
            if through {
                // What came after all that is looked for may have sprung it: then somebody hangs.
                let sprung = f.cloud.tripwire.is_sprung();
                f.cloud.tripwire.disarm();
                if sprung {
                    f.restart().await;
                }
                points += calls;
                break;
            }
            f.restart().await;
            check(f, &name).await;
            assert!(calls + 1 < MANY, "{what} of {kind} never ends");
        }
    }
    assert!(points > 0, "{what} of {kind} was never interrupted");
}

async fn made(f: &Fixture, kind: &str, name: &str) {
    f.synced(kind, name).await;
    f.until("the intent is closed", async |f| {
        let object = f.get(kind, name).await.unwrap();
        meta::annotation(&object, intent::ANNOTATION).is_none()
    })
    .await;
    f.cloud.only(name);
}

#[tokio::test(flavor = "multi_thread")]
async fn creating() {
    for (kind, _) in KINDS {
        let mut f = Fixture::new().await;
        let act =
            async |f: &Fixture, name: &str| drop(f.make(kind, name, json!({}), json!({"size": 3})).await);
        let check = async |f: &Fixture, name: &str| made(f, kind, name).await;
        at_every_call(&mut f, kind, "create", async |_, _| {}, act, check).await;
    }
}

/// Somebody else deleted it, and it is made again: the record still names the one that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn making_again() {
    for (kind, _) in KINDS {
        let mut f = Fixture::new().await;
        let prepare = async |f: &Fixture, name: &str| {
            f.make(kind, name, json!({}), json!({"size": 3})).await;
            f.synced(kind, name).await;
            f.cloud.lose(name);
        };
        let act = async |f: &Fixture, name: &str| f.nudge(kind, name).await;
        let check = async |f: &Fixture, name: &str| {
            f.until("it is there again", async |f| !f.cloud.of(name).is_empty()).await;
            made(f, kind, name).await;
        };
        at_every_call(&mut f, kind, "again", prepare, act, check).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updating() {
    for (kind, _) in KINDS {
        let mut f = Fixture::new().await;
        let prepare = async |f: &Fixture, name: &str| {
            f.make(kind, name, json!({}), json!({"size": 3})).await;
            f.synced(kind, name).await;
        };
        let act = async |f: &Fixture, name: &str| {
            drop(f.edit(kind, name, json!({"size": 4, "color": "red"})).await)
        };
        let check = async |f: &Fixture, name: &str| {
            made(f, kind, name).await;
            let fields = f.cloud.only(name).fields;
            assert_eq!((&fields["size"], &fields["color"]), (&json!(4), &json!("red")));
        };
        at_every_call(&mut f, kind, "update", prepare, act, check).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting() {
    for (kind, _) in KINDS {
        let mut f = Fixture::new().await;
        let prepare = async |f: &Fixture, name: &str| {
            f.make(kind, name, json!({}), json!({"size": 3})).await;
            f.synced(kind, name).await;
        };
        let act = async |f: &Fixture, name: &str| f.delete(kind, name).await;
        let check = async |f: &Fixture, name: &str| {
            f.gone(kind, name).await;
            assert!(f.cloud.of(name).is_empty());
        };
        at_every_call(&mut f, kind, "delete", prepare, act, check).await;
    }
}

/// The object is deleted while nobody knows yet whether its resource was made.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_what_may_have_been_made() {
    for (kind, _) in KINDS {
        let mut f = Fixture::new().await;
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            for calls in 0..MANY {
                let name = format!(
                    "doomed-{}-{calls}",
                    if fault == Fault::CrashBefore { "before" } else { "after" }
                );
                f.settle_writes().await;
                f.cloud.tripwire.arm(calls, fault);
                f.make(kind, &name, json!({}), json!({})).await;
                tokio::select! {
                    () = f.cloud.tripwire.death() => {}
                    () = f.synced(kind, &name) => {
                        f.cloud.tripwire.disarm();
                        break;
                    }
                }
                f.kill().await;
                f.delete(kind, &name).await;
                f.start();
                f.gone(kind, &name).await;
                assert!(f.cloud.of(&name).is_empty(), "no orphan of {kind} {name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replacing() {
    for (kind, policy) in [(TOKENS, "delete-first"), (TOKENS, "create-first"), (MARKS, "delete-first")] {
        let mut f = Fixture::new().await;
        let prepare = async |f: &Fixture, name: &str| {
            f.make(kind, name, json!({policies::REPLACE_POLICY: policy}), json!({"fixed": 1})).await;
            f.synced(kind, name).await;
        };
        let act = async |f: &Fixture, name: &str| drop(f.edit(kind, name, json!({"fixed": 2})).await);
        let check = async |f: &Fixture, name: &str| {
            made(f, kind, name).await;
            assert_eq!(f.cloud.only(name).fields["fixed"], 2);
        };
        at_every_call(&mut f, kind, policy, prepare, act, check).await;
    }
}
