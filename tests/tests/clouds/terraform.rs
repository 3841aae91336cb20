//! The steps of Kubeform's users, with kubectl, on a provider built with a published framework.

use end_to_end::{ControlPlane, Server, tools_dir};
use serde_json::json;

use super::{eventually, good, object};

#[test]
fn a_resource_from_beginning_to_end() {
    let program = tools_dir().join("providers/debug/terraform-provider-memo");
    assert!(program.exists(), "the provider is not built: cargo xtask test --tools-only does that");
    let server = Server::start_with(|dir| {
        let plugins = dir.join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::copy(&program, plugins.join("terraform-provider-memo")).unwrap();
        vec!["--terraform-plugin-dir".to_owned(), plugins.display().to_string()]
    });
    let plane = ControlPlane::create(&server, "team");
    let notes = server.dir().join("notes");
    std::fs::create_dir(&notes).unwrap();

    let kind = "notes.note.memo.kubeform.com";
    let client = server.client_as(plane.credentials());
    let list = plane.path("/apis/note.memo.kubeform.com/v1alpha1/namespaces/default/notes");
    eventually("its kind", || (client.get(&list).code == 200).then_some(()));
    let phases = client.watch(&format!("{list}?watch=true"));

    let provider = json!({"directory": notes}).to_string();
    good(
        &plane,
        &["create", "secret", "generic", "memo", &format!("--from-literal=provider={provider}")],
        "",
    );
    let note = json!({
        "apiVersion": "note.memo.kubeform.com/v1alpha1", "kind": "Note", "metadata": {"name": "first"},
        "spec": {"resource": {"title": "hello", "text": "world"}, "providerRef": {"name": "memo"}},
    });
    good(&plane, &["create", "-f", "-"], &note.to_string());
    let current = || Some(object(&plane, kind, "first")).filter(|now| now["status"]["phase"] == "Current");
    let made = eventually("the phase Current", current);
    assert_eq!(made["spec"]["state"]["length"], 5);
    assert_eq!(made["spec"]["state"]["id"], made["spec"]["resource"]["id"]);
    let text = || std::fs::read_to_string(notes.join("note-hello")).unwrap_or_default();
    assert_eq!(text(), "world");

    let edit = r#"{"spec": {"resource": {"text": "there"}}}"#;
    good(&plane, &["patch", kind, "first", "--type=merge", "-p", edit], "");
    eventually("the edit", || (text() == "there").then_some(()));
    eventually("the phase Current again", current);

    good(&plane, &["delete", kind, "first"], "");
    assert!(!notes.join("note-hello").exists(), "gone before it was destroyed");
    let mut seen: Vec<String> = Vec::new();
    loop {
        let event = phases.next();
        let phase = event["object"]["status"]["phase"].as_str().unwrap_or("").to_owned();
        if event["type"] == "DELETED" {
            break;
        }
        if !phase.is_empty() && seen.last() != Some(&phase) {
            seen.push(phase);
        }
    }
    assert_eq!(seen, ["InProgress", "Current", "InProgress", "Current", "Terminating"]);
}
