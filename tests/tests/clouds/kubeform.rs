//! The ten steps of Kubeform's architecture page, one after the other, as its users take them: with kubectl in a control
//! plane, on a provider built with a published framework.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{ControlPlane, Watch};
use serde_json::{Value, json};

use super::terraform::with_notes;
use super::{eventually, exists, good, object};

const SAFES: &str = "safes.safe.memo.kubeform.com";

fn safe(name: &str, secret: Option<&str>) -> String {
    let mut safe = json!({
        "apiVersion": "safe.memo.kubeform.com/v1alpha1", "kind": "Safe", "metadata": {"name": name},
        "spec": {"resource": {"label": name}, "providerRef": {"name": "memo-provider-secret"}},
    });
    if let Some(secret) = secret {
        safe["spec"]["secretRef"] = json!({"name": secret});
    }
    safe.to_string()
}

/// Current, and of the latest generation.
fn current(plane: &ControlPlane, name: &str) -> Value {
    let settled = |now: &Value| {
        now["status"]["phase"] == "Current"
            && now["status"]["observedGeneration"] == now["metadata"]["generation"]
    };
    eventually("the phase Current", || Some(object(plane, SAFES, name)).filter(settled))
}

/// What a Secret holds under a key; null if it has no such key.
fn held(plane: &ControlPlane, name: &str, key: &str) -> Value {
    let secret = object(plane, "secret", name);
    let text = secret["data"][key].as_str().unwrap_or_default();
    serde_json::from_slice(&STANDARD.decode(text).unwrap()).unwrap_or_default()
}

/// The phases of each object in their order, until so many are gone; with what `at_the_end` says of each.
fn phases(watch: &Watch, gone: usize, at_the_end: impl Fn(&str)) -> BTreeMap<String, Vec<String>> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left = gone;
    while left > 0 {
        let event = watch.next();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        if event["type"] == "DELETED" {
            at_the_end(name);
            left -= 1;
            continue;
        }
        let phase = event["object"]["status"]["phase"].as_str().unwrap_or_default();
        let seen = seen.entry(name.to_owned()).or_default();
        if !phase.is_empty() && seen.last().is_none_or(|last| last != phase) {
            seen.push(phase.to_owned());
        }
    }
    seen
}

#[test]
fn the_ten_steps() {
    // 1: the Secret with the provider's configuration.
    let (server, plane, files) = with_notes();
    assert!(exists(&plane, "secret", "memo-provider-secret"));
    let client = server.client_as(plane.credentials());
    let list = plane.path("/apis/safe.memo.kubeform.com/v1alpha1/namespaces/default/safes");
    let watch = client.watch(&format!("{list}?watch=true"));
    let content = |name: &str| std::fs::read_to_string(files.join(name)).unwrap_or_default();

    // 2: the Secret with what is sensitive; of the second safe there is none.
    let pin = |pin: &str| format!("--from-literal=resource={}", json!({"pin": pin}));
    good(&plane, &["create", "secret", "generic", "pins", &pin("pin-of-the-first")], "");

    // 3: the resources.
    good(&plane, &["create", "-f", "-"], &safe("first", Some("pins")));
    good(&plane, &["create", "-f", "-"], &safe("second", None));

    // 4 and 5: the provider makes them, and what it knows of them is written: to `spec.state` what anybody may see, ...
    for name in ["first", "second"] {
        let made = current(&plane, name);
        let id = format!("safe-{name}");
        assert_eq!(made["spec"]["resource"]["id"], json!(id));
        assert_eq!(made["spec"]["state"], json!({"id": id, "label": name}));
        assert_eq!(made["metadata"]["finalizers"], json!(["memo.kubeform.com/finalizer"]));
    }
    assert_eq!(content("safe-first"), "first\npin-of-the-first\nkey-of-safe-first\n");
    assert_eq!(content("safe-second"), "second\n\nkey-of-safe-second\n");

    // 6: ... and the rest to the Secret that was given, or to one that is made, and is the object's.
    assert_eq!(held(&plane, "pins", "state"), json!({"pin": "pin-of-the-first", "key": "key-of-safe-first"}));
    let made = "second-memo-sensitive";
    assert_eq!(held(&plane, made, "state"), json!({"key": "key-of-safe-second"}));
    let owner = &object(&plane, "secret", made)["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Safe"), &json!("second")));
    assert_eq!(owner["controller"], json!(true));

    // 7: an edit of the resource.
    let edit = r#"{"spec": {"resource": {"label": "edited"}}}"#;
    good(&plane, &["patch", SAFES, "first", "--type=merge", "-p", edit], "");
    eventually("the edit", || content("safe-first").starts_with("edited\n").then_some(()));
    assert_eq!(current(&plane, "first")["spec"]["state"]["label"], "edited");

    // 8: an edit of its Secret, which is one of the resource.
    let data = json!({"stringData": {"resource": json!({"pin": "pin-that-changed"}).to_string()}});
    good(&plane, &["patch", "secret", "pins", "--type=merge", "-p", &data.to_string()], "");
    let changed = "edited\npin-that-changed\nkey-of-safe-first\n";
    eventually("the edit of the Secret", || (content("safe-first") == changed).then_some(()));
    current(&plane, "first");
    assert_eq!(held(&plane, "pins", "state")["pin"], "pin-that-changed");

    // 9: the deletion. As long as there is a resource, there is its object.
    let lock = files.join("safe-second.locked");
    std::fs::write(&lock, "").unwrap();
    good(&plane, &["delete", SAFES, "second", "--wait=false"], "");
    eventually("why it stays", || {
        object(&plane, SAFES, "second")["status"].to_string().contains("the safe is locked").then_some(())
    });
    assert!(exists(&plane, SAFES, "second") && files.join("safe-second").exists());
    std::fs::remove_file(&lock).unwrap();
    good(&plane, &["delete", SAFES, "first"], "");

    // 10: gone, and each only after its resource. Of the Secret that was given stays what its user wrote.
    let seen = phases(&watch, 2, |name| {
        assert!(!files.join(format!("safe-{name}")).exists(), "{name} went before its resource");
    });
    assert_eq!(
        seen["first"],
        ["InProgress", "Current", "InProgress", "Current", "InProgress", "Current", "Terminating"]
    );
    assert_eq!(seen["second"][..3], ["InProgress", "Current", "Terminating"]);
    assert_eq!(held(&plane, "pins", "resource"), json!({"pin": "pin-that-changed"}));
    assert_eq!(held(&plane, "pins", "state"), Value::Null);
    eventually("the end of the Secret that was made", || (!exists(&plane, "secret", made)).then_some(()));
}
