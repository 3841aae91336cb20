use serde_json::json;

use super::*;

#[track_caller]
fn check(metadata: Value, expected: &[&str]) {
    let errors =
        validate(&json!({"metadata": metadata}), true, names::dns1123_subdomain, &Path::new("metadata"));
    compare(&errors, expected);
}

#[track_caller]
fn compare(errors: &[Error], expected: &[&str]) {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, part) in errors.iter().zip(expected) {
        assert!(error.starts_with(part), "{error} is not {part}");
    }
}

/// Good metadata with one field more.
fn with(field: &str, value: Value) -> Value {
    let mut metadata = json!({"name": "a", "namespace": "b"});
    metadata[field] = value;
    metadata
}

#[test]
fn names_and_namespaces() {
    check(json!({"name": "a", "namespace": "b"}), &[]);
    check(json!({"namespace": "b"}), &["metadata.name: Required value: name or generateName is required"]);
    check(json!({"name": "a"}), &["metadata.namespace: Required value"]);
    check(
        json!({"name": "A", "namespace": "b"}),
        &["metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must"],
    );
    check(
        with("namespace", json!("x.y")),
        &["metadata.namespace: Invalid value: \"x.y\": must not contain dots"],
    );
    check(with("generateName", json!("web-")), &[]);
    check(with("generateName", json!("Web-")), &["metadata.generateName: Invalid value: \"Web-\""]);
    check(
        with("generation", json!(-1)),
        &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    );
    let cluster = json!({"metadata": {"name": "a", "namespace": "b"}});
    let errors = validate(&cluster, false, names::dns1123_subdomain, &Path::new("metadata"));
    compare(&errors, &["metadata.namespace: Forbidden: not allowed on this type"]);
}

#[test]
fn maps() {
    check(with("labels", json!({"a.io/b": "c", "d": ""})), &[]);
    check(
        with("labels", json!({"a b": "c d"})),
        &[
            "metadata.labels: Invalid value: \"a b\": name part must consist of",
            "metadata.labels: Invalid value: \"c d\": a valid label must be",
        ],
    );
    check(with("annotations", json!({"A.io/B": "any thing\n"})), &[]);
    check(
        with("annotations", json!({"a": "x".repeat(ANNOTATIONS_MAX)})),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
}

#[test]
fn owners() {
    let owner = |name: &str, controller: bool| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "u", "controller": controller});
    check(with("ownerReferences", json!([owner("a", true), owner("b", false)])), &[]);
    check(
        with("ownerReferences", json!([{}])),
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ],
    );
    let twice = validate(
        &json!({"metadata": with("ownerReferences", json!([owner("a", true), owner("b", true)]))}),
        true,
        names::dns1123_subdomain,
        &Path::new("metadata"),
    );
    assert!(twice[0].detail.ends_with("Found \"true\" in references for ReplicaSet/a and ReplicaSet/b"));
}

#[test]
fn finalizers_and_managed_fields() {
    check(with("finalizers", json!(["a.io/b", "orphan"])), &[]);
    check(with("finalizers", json!(["a b"])), &["metadata.finalizers: Invalid value: \"a b\": name part"]);
    check(
        with("finalizers", json!(["orphan", "foregroundDeletion"])),
        &["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]"],
    );
    check(
        with("managedFields", json!([{"manager": "a", "operation": "Apply", "fieldsType": "FieldsV1"}])),
        &[],
    );
    check(
        with("managedFields", json!([{"manager": "a\n", "fieldsType": "V2"}])),
        &[
            "metadata.managedFields[0].operation: Invalid value: \"\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
        ],
    );
}

#[track_caller]
fn update(new: Value, old: Value, expected: &[&str]) {
    let whole = |metadata: Value| json!({"metadata": metadata});
    compare(&validate_update(&whole(new), &whole(old), &Path::new("metadata")), expected);
}

#[test]
fn updates() {
    let old = json!({"name": "a", "uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": "2024-01-01T00:00:00Z"});
    let changed = |field: &str, value: Value| {
        let mut new = old.clone();
        new[field] = value;
        new
    };
    update(old.clone(), old.clone(), &[]);
    update(changed("namespace", json!("")), old.clone(), &[]);
    update(
        changed("uid", json!("v")),
        old.clone(),
        &["metadata.uid: Invalid value: \"v\": field is immutable"],
    );
    update(
        changed("name", json!("b")),
        old.clone(),
        &["metadata.name: Invalid value: \"b\": field is immutable"],
    );
    update(
        changed("creationTimestamp", Value::Null),
        old.clone(),
        &["metadata.creationTimestamp: Invalid value: null: field is immutable"],
    );
    update(
        changed("deletionTimestamp", json!("x")),
        old.clone(),
        &["metadata.deletionTimestamp: Invalid value"],
    );
    update(
        changed("resourceVersion", Value::Null),
        old.clone(),
        &["metadata.resourceVersion: Invalid value: \"\": must be specified for an update"],
    );
    update(
        changed("generation", json!(1)),
        old.clone(),
        &["metadata.generation: Invalid value: 1: must not be decremented"],
    );
    let dying = |finalizers: Value| json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "x", "finalizers": finalizers});
    update(dying(json!(["a.io/x"])), dying(json!(["a.io/x", "a.io/y"])), &[]);
    update(
        dying(json!(["a.io/z", "a.io/x"])),
        dying(json!(["a.io/x"])),
        &[
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.io/z\"}",
        ],
    );
}

#[test]
fn types_in_gos_words() {
    let check = |metadata: Value, expected: Option<&str>| {
        assert_eq!(type_error(&json!({"metadata": metadata})).as_deref(), expected);
    };
    check(json!({"name": "a", "labels": {"a": null}, "finalizers": null}), None);
    check(json!(null), None);
    check(
        json!("x"),
        Some("json: cannot unmarshal string into Go struct field .metadata of type v1.ObjectMeta"),
    );
    check(
        json!({"labels": {"a": 1}}),
        Some("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
    );
    check(
        json!({"labels": []}),
        Some(
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
    );
    check(
        json!({"generation": 1.5}),
        Some(
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
    );
    check(
        json!({"ownerReferences": {}}),
        Some(
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
        ),
    );
}
