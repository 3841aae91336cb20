use std::collections::BTreeSet;

use objects::{GroupVersionKind, Scope, Subresource, Verb, Verbs};

use super::*;

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.bytes).unwrap()
}

fn crontab(with: &[&str]) -> ResourceType {
    let own = GroupVersionKind::new("stable.example.com", "v1", "CronTab");
    let verbs = Verbs::of(&[Verb::Get, Verb::Patch, Verb::Update]);
    let subresource = |name: &&str| Subresource {
        name: (*name).into(),
        kind: if *name == "scale" {
            GroupVersionKind::new("autoscaling", "v1", "Scale")
        } else {
            own.clone()
        },
        verbs,
    };
    ResourceType {
        group: "stable.example.com".into(),
        version: "v1".into(),
        kind: "CronTab".into(),
        list_kind: "CronTabList".into(),
        plural: "crontabs".into(),
        singular: "crontab".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: Verbs::ALL,
        subresources: with.iter().map(subresource).collect(),
    }
}

/// Every reference in the document leads to one of its schemas.
#[track_caller]
fn check_references(document: &Value, schemas: &str, prefix: &str) {
    fn walk<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(words) => words.iter().for_each(|(word, value)| match value.as_str() {
                Some(reference) if word == "$ref" => drop(found.insert(reference)),
                _ => walk(value, found),
            }),
            Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk(document, &mut found);
    assert!(!found.is_empty());
    let schemas = document.pointer(schemas).unwrap();
    for reference in found {
        let name =
            reference.strip_prefix(prefix).unwrap_or_else(|| panic!("{reference} is not below {prefix}"));
        assert!(schemas.get(name).is_some(), "{reference} is not defined");
    }
}

#[test]
fn references_resolve() {
    assert!(v3_builtin().len() > 40);
    for document in v3_builtin().values() {
        check_references(&parsed(document), "/components/schemas", "#/components/schemas/");
    }
    for with in [&[][..], &["scale"], &["status", "scale"]] {
        let v3 = custom_fragment(Dialect::V3, &crontab(with), None);
        let document = v3_document(&GroupVersion::new("stable.example.com", "v1"), [&v3]);
        check_references(&parsed(&document), "/components/schemas", "#/components/schemas/");
        let v2 = custom_fragment(Dialect::V2, &crontab(with), None);
        check_references(&parsed(&v2_document([&v2])), "/definitions", "#/definitions/");
    }
}

#[test]
fn operation_ids_are_unique() {
    let document = parsed(&v2_document([&custom_fragment(Dialect::V2, &crontab(&["status"]), None)]));
    let mut seen = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (_, operation) in item.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters") {
            let id = operation["operationId"].as_str().unwrap();
            assert!(seen.insert(id), "{id} at {path}");
        }
    }
    assert!(seen.len() > 600, "{}", seen.len());
}

/// Names and marks as a stock server has them.
#[test]
fn operations_are_named_as_upstream_names_them() {
    #[track_caller]
    fn check(path: &str, method: &str, id: &str, action: &str, kind: &str) {
        let version = path.trim_start_matches('/').split('/');
        let depth = if path.starts_with("/apis/") { 3 } else { 2 };
        let document = version.take(depth).collect::<Vec<_>>().join("/");
        let operation = &parsed(&v3_builtin()[&document])["paths"][path][method];
        let found = (&operation["operationId"], &operation["x-kubernetes-action"]);
        assert_eq!(found, (&json!(id), &json!(action)), "{method} {path}");
        assert_eq!(operation["x-kubernetes-group-version-kind"]["kind"], kind);
    }
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    const PODS: &str = "/api/v1/namespaces/{namespace}/pods";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    check("/apis/apps/v1/deployments", "get", "listAppsV1DeploymentForAllNamespaces", "list", "Deployment");
    check(DEPLOYMENT, "get", "readAppsV1NamespacedDeployment", "get", "Deployment");
    check(DEPLOYMENT, "put", "replaceAppsV1NamespacedDeployment", "put", "Deployment");
    check(DEPLOYMENT, "patch", "patchAppsV1NamespacedDeployment", "patch", "Deployment");
    check(&format!("{DEPLOYMENT}/scale"), "get", "readAppsV1NamespacedDeploymentScale", "get", "Scale");
    check(PODS, "get", "listCoreV1NamespacedPod", "list", "Pod");
    check(PODS, "post", "createCoreV1NamespacedPod", "post", "Pod");
    check(PODS, "delete", "deleteCoreV1CollectionNamespacedPod", "deletecollection", "Pod");
    check(
        &format!("{PODS}/{{name}}/exec"),
        "post",
        "connectCoreV1PostNamespacedPodExec",
        "connect",
        "PodExecOptions",
    );
    check(
        &format!("{PODS}/{{name}}/eviction"),
        "post",
        "createCoreV1NamespacedPodEviction",
        "post",
        "Eviction",
    );
    check("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize", "put", "Namespace");
    check(
        ROLES,
        "delete",
        "deleteRbacAuthorizationV1CollectionClusterRole",
        "deletecollection",
        "ClusterRole",
    );
}

#[test]
fn patch_says_that_it_can_be_dry() {
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let v3 = &parsed(&v3_builtin()["apis/apps/v1"]);
    for document in [v3, &parsed(&v2_document([]))] {
        let patch = &document["paths"][path]["patch"];
        let parameters = patch["parameters"].as_array().unwrap();
        let names: Vec<&str> = parameters.iter().filter_map(|one| one["name"].as_str()).collect();
        for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(names.contains(&name), "{name}");
        }
    }
    let body = &v3["paths"][path]["patch"]["requestBody"]["content"];
    assert!(body.get("application/strategic-merge-patch+json").is_some());
    let custom = custom_fragment(Dialect::V3, &crontab(&[]), None);
    let custom = parsed(&v3_document(&GroupVersion::new("stable.example.com", "v1"), [&custom]));
    let path = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}";
    let patch = &custom["paths"][path]["patch"];
    assert_eq!(patch["operationId"], "patchStableExampleComV1NamespacedCronTab");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}

#[test]
fn what_only_one_dialect_can_say() {
    let v3 = parsed(&v3_builtin()["apis/apps/v1"]);
    let v2 = parsed(&v2_document([]));
    let v3 = &v3["components"]["schemas"];
    let v2 = &v2["definitions"];
    let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    assert_eq!(v3[quantity], json!({"oneOf": [{"type": "string"}, {"type": "number"}]}));
    assert_eq!(v2[quantity], json!({"type": "string"}));
    let port = "io.k8s.api.core.v1.ContainerPort";
    assert_eq!(v3[port]["properties"]["protocol"], json!({"type": "string", "default": "TCP"}));
    assert_eq!(v2[port]["properties"]["protocol"], json!({"type": "string"}));
    let spec = "io.k8s.api.apps.v1.DeploymentSpec";
    let strategy = "io.k8s.api.apps.v1.DeploymentStrategy";
    let retain = "x-kubernetes-patch-strategy";
    assert_eq!(
        v3[spec]["properties"]["strategy"],
        json!({"allOf": [{"$ref": format!("#/components/schemas/{strategy}")}], retain: "retainKeys"})
    );
    assert_eq!(
        v2[spec]["properties"]["strategy"],
        json!({"$ref": format!("#/definitions/{strategy}"), retain: "retainKeys"})
    );
}

/// A custom schema as each dialect publishes it, without what every kind gets.
#[track_caller]
fn check_custom(dialect: Dialect, schema: Value, expected: Value) {
    let mut published = custom::schemas(dialect, &crontab(&[]), Some(&schema));
    let own = published.remove("com.example.stable.v1.CronTab").unwrap();
    let Value::Object(mut own) = own else { panic!("not an object") };
    assert_eq!(
        own.remove("x-kubernetes-group-version-kind"),
        Some(json!([{"group": "stable.example.com", "version": "v1", "kind": "CronTab"}]))
    );
    if let Some(Value::Object(properties)) = own.get_mut("properties") {
        assert_eq!(
            properties.remove("metadata"),
            Some(dialect.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"))
        );
        properties.remove("apiVersion");
        properties.remove("kind");
    }
    assert_eq!(Value::Object(own), expected);
}

#[test]
fn custom_schemas_in_version_3_are_as_written() {
    let schema = json!({
        "type": "object", "description": "a tab", "required": ["spec"],
        "properties": {"spec": {
            "type": "object", "nullable": true, "description": "what",
            "properties": {"port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}},
            "x-kubernetes-validations": [{"rule": "self.port > 1"}],
        }},
    });
    check_custom(Dialect::V3, schema.clone(), schema);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut expected = open.clone();
    expected["properties"] = json!({});
    check_custom(Dialect::V3, open, expected);
}

#[test]
fn custom_schemas_in_version_2_lose_what_clients_misread() {
    #[track_caller]
    fn check(property: Value, expected: Value) {
        let whole = |property: Value| json!({"type": "object", "properties": {"a": property}});
        check_custom(Dialect::V2, whole(property), whole(expected));
    }
    let open = "x-kubernetes-preserve-unknown-fields";
    check(json!({"type": "string", "pattern": "^a$"}), json!({"type": "string", "pattern": "^a$"}));
    check(
        json!({"type": "string", "oneOf": [{}], "anyOf": [{}], "allOf": [{}], "not": {}}),
        json!({"type": "string"}),
    );
    check(
        json!({"x-kubernetes-int-or-string": true, "anyOf": []}),
        json!({"x-kubernetes-int-or-string": true}),
    );
    check(json!({"type": "string", "nullable": true}), json!({}));
    check(json!({"type": "array", "nullable": true, "items": {"type": "string"}}), json!({}));
    check(json!({"type": "object", open: true, "properties": {"b": {}}}), json!({open: true}));
    check(json!({"type": "array", open: true, "items": {}}), json!({open: true}));
    check(
        json!({"type": "object", "required": ["b", "c"], "properties": {"b": {"type": "string", "nullable": true}, "c": {}}}),
        json!({"type": "object", "required": ["c"], "properties": {"b": {}, "c": {}}}),
    );
    check(
        json!({"type": "array", "items": {"type": "object", "nullable": false, "properties": {"x": {"type": "string", "not": {}}}}}),
        json!({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}),
    );
    check_custom(
        Dialect::V2,
        json!({"type": "object", open: true, "properties": {"a": {}}}),
        json!({"type": "object"}),
    );
}

#[test]
fn embedded_resources_get_metadata() {
    let embedded = json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"]}}});
    for dialect in [Dialect::V2, Dialect::V3] {
        let metadata = dialect.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        let properties =
            json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata});
        let expected = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind", "apiVersion"], "properties": properties});
        check_custom(dialect, embedded.clone(), json!({"type": "object", "properties": {"a": expected}}));
    }
}

#[test]
fn without_a_schema_nothing_is_refused() {
    let mut published = custom::schemas(Dialect::V2, &crontab(&[]), None);
    let own = published.remove("com.example.stable.v1.CronTab").unwrap();
    assert_eq!((own.get("type"), own.get("properties")), (Some(&json!("object")), None));
    assert_eq!(published["com.example.stable.v1.CronTabList"]["required"], json!(["items"]));
}

#[test]
fn index_carries_prefix_and_hash() {
    let index = v3_index("/control-planes/a", [("apis/apps/v1", "AB")]);
    let url = "/control-planes/a/openapi/v3/apis/apps/v1?hash=AB";
    assert_eq!(index, json!({"paths": {"apis/apps/v1": {"serverRelativeURL": url}}}));
    assert_eq!(v3_path(&GroupVersion::new("", "v1")), "api/v1");
    assert_eq!(v3_path(&GroupVersion::new("apps", "v1")), "apis/apps/v1");
}

/// Reads the wire format back: (number, content) of the length-delimited fields, numbers skipped.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => drop(varint(&mut bytes)),
            1 => bytes = &bytes[8..],
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                found.push((key >> 3, content));
                bytes = rest;
            }
            kind => panic!("wire type {kind}"),
        }
    }
    found
}

/// The content of the first field of each number on the way.
fn at<'a>(bytes: &'a [u8], way: &[u64]) -> &'a [u8] {
    way.iter().fold(bytes, |bytes, number| {
        fields(bytes)
            .into_iter()
            .find(|(found, _)| found == number)
            .unwrap_or_else(|| panic!("no {number}"))
            .1
    })
}

#[test]
fn protobuf_says_what_json_says() {
    let schema = json!({"type": "object", "description": "a tab", "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let document = v2_document([&custom_fragment(Dialect::V2, &crontab(&[]), Some(&schema))]);
    let json = parsed(&document);
    let encoded = v2_protobuf(&document);
    assert_eq!(at(&encoded, &[1]), b"2.0");
    assert_eq!(at(&encoded, &[2, 1]), b"Kubernetes");
    assert_eq!(at(&encoded, &[13, 1, 1]), b"BearerToken");

    let definitions = fields(at(&encoded, &[9]));
    assert_eq!(definitions.len(), json["definitions"].as_object().unwrap().len());
    let named = |entries: &[(u64, &'_ [u8])], name: &str| {
        entries.iter().find(|(_, entry)| at(entry, &[1]) == name.as_bytes()).unwrap().1.to_vec()
    };
    let own = named(&definitions, "com.example.stable.v1.CronTab");
    assert_eq!(at(&own, &[2, 4]), b"a tab");
    assert_eq!(at(&own, &[2, 22, 1]), b"object");
    assert_eq!(at(&own, &[2, 31, 1]), b"x-kubernetes-group-version-kind");
    let properties = fields(at(&own, &[2, 25]));
    assert_eq!(at(&named(&properties, "spec"), &[2, 21, 1, 22, 1]), b"string");

    let paths = fields(at(&encoded, &[8]));
    assert_eq!(paths.len(), json["paths"].as_object().unwrap().len());
    let one = named(&paths, "/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let patch = at(&one, &[2, 8]);
    assert_eq!(at(patch, &[5]), b"patchAppsV1NamespacedDeployment");
    let queries =
        fields(patch).into_iter().filter(|(number, _)| *number == 8).filter_map(|(_, parameter)| {
            let choice = at(parameter, &[1]);
            let in_query = fields(choice).iter().any(|(number, _)| *number == 2);
            in_query.then(|| String::from_utf8(at(choice, &[2, 3, 4]).to_vec()).unwrap())
        });
    assert_eq!(queries.collect::<Vec<_>>(), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let ok = at(patch, &[9, 1, 2, 1, 2, 1, 1]);
    assert_eq!(ok, b"#/definitions/io.k8s.api.apps.v1.Deployment");
}
