//! The annotation of client-side apply.

use serde_json::{Value, json};

use super::fixture::thing;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that `kubectl apply` made on the client's side, and the configuration it was made of.
fn applied_by_client(body: &str) -> super::fixture::Play {
    let mut config: Value = serde_json::from_str(body).unwrap();
    config["apiVersion"] = json!("v1");
    config["kind"] = json!("Thing");
    config["metadata"] = json!({"name": "x"});
    let mut object = config.clone();
    object["metadata"]["annotations"] = json!({ANNOTATION: config.to_string()});
    thing().update("kubectl-client-side-apply", &object.to_string())
}

#[test]
fn kubectl_takes_what_its_annotation_says() {
    let play = applied_by_client(r#"{"text": "a", "number": 1}"#).apply("kubectl", r#"{"text": "b"}"#);
    let play = play.holds(r#"{"text": "b", "number": 1}"#).owned(&[
        concat!(
            "kubectl-client-side-apply Update v1: .metadata.annotations ",
            ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .number"
        ),
        "kubectl Apply v1: .text",
    ]);
    let annotation = play.live()["metadata"]["annotations"][ANNOTATION].as_str();
    assert_eq!(
        annotation,
        Some("{\"apiVersion\":\"v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"x\"},\"text\":\"b\"}\n")
    );
}

#[test]
fn what_others_changed_since_is_still_a_conflict() {
    let mut play = applied_by_client(r#"{"text": "a", "number": 1}"#);
    let mut object = play.live().clone();
    object["number"] = json!(2);
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    play = play.update("controller", &object.to_string());
    play.conflicts("kubectl", r#"{"text": "b", "number": 3}"#, &[r#""controller" using v1 .number"#]);
}

#[test]
fn other_managers_have_no_such_excuse() {
    let play = applied_by_client(r#"{"text": "a"}"#);
    let before = play.live()["metadata"]["annotations"].clone();
    let play = play
        .conflicts("other", r#"{"text": "b"}"#, &[r#""kubectl-client-side-apply" using v1 .text"#])
        .force("other", r#"{"text": "b"}"#);
    assert_eq!(play.live()["metadata"]["annotations"], before);
}

#[test]
fn no_annotation_is_made_where_there_is_none() {
    let play = thing().update("kubectl-create", r#"{"text": "a"}"#);
    let play = play.conflicts("kubectl", r#"{"text": "b"}"#, &[r#""kubectl-create" using v1 .text"#]);
    let play = play.apply("kubectl", r#"{"number": 1}"#);
    assert_eq!(play.live()["metadata"].get("annotations"), None);
}

#[test]
fn an_annotation_that_grows_too_large_goes() {
    let play = applied_by_client(r#"{"text": "a"}"#);
    let body = json!({"text": "x".repeat(256 << 10)}).to_string();
    let play = play.apply("kubectl", &body);
    assert_eq!(play.live()["metadata"]["annotations"].get(ANNOTATION), None);
}
