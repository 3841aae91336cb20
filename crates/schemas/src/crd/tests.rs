use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

fn crontab() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "cron": {"type": "string", "default": "* * * * *"},
                        "replicas": {"type": "integer"},
                    }},
                    "status": {"type": "object"},
                }}},
            }],
        },
    })
}

/// The definition with a change, as it would be about to be created.
fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut definition = crontab();
    change(&mut definition);
    default(&mut definition);
    establish(&mut definition, None, &[], NOW);
    definition
}

fn at<'a>(definition: &'a mut Value, pointer: &str) -> &'a mut Value {
    definition.pointer_mut(pointer).unwrap()
}

fn told(errors: Vec<objects::field::Error>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
    assert_eq!(told(validate(&with(change))), expected);
}

/// Replaces the first version's schema.
fn check_schema(schema: Value, expected: &[&str]) {
    check(|crd| *at(crd, "/spec/versions/0/schema/openAPIV3Schema") = schema, expected);
}

#[test]
fn defaults() {
    let mut crd = crontab();
    default(&mut crd);
    assert_eq!(crd["spec"]["names"]["singular"], "crontab");
    assert_eq!(crd["spec"]["names"]["listKind"], "CronTabList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    let once = crd.clone();
    default(&mut crd);
    assert_eq!(crd, once);
    let mut webhook = crontab();
    webhook["spec"]["conversion"] =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}}});
    default(&mut webhook);
    assert_eq!(webhook.pointer("/spec/conversion/webhook/clientConfig/service/port"), Some(&json!(443)));
    default(&mut json!("not a definition"));
}

#[test]
fn a_good_definition() {
    check(|_| {}, &[]);
}

#[test]
fn names_and_group() {
    check(
        |crd| crd["metadata"]["name"] = json!("others.stable.example.com"),
        &[
            r#"metadata.name: Invalid value: "others.stable.example.com": must be spec.names.plural+"."+spec.group"#,
        ],
    );
    check(
        |crd| {
            crd["spec"]["group"] = json!("example");
            crd["metadata"]["name"] = json!("crontabs.example");
        },
        &[r#"spec.group: Invalid value: "example": should be a domain with at least one dot"#],
    );
    check(
        |crd| crd["spec"]["names"]["listKind"] = json!("CronTab"),
        &[r#"spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same"#],
    );
    check(
        |crd| crd["spec"]["scope"] = json!("Global"),
        &[r#"spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced""#],
    );
    check(|crd| crd["spec"]["scope"] = json!(""), &["spec.scope: Required value"]);
    check(
        |crd| crd["spec"]["preserveUnknownFields"] = json!(true),
        &["spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
           x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"],
    );
    let odd = told(validate(&with(|crd| {
        crd["spec"]["names"] =
            json!({"plural": "crontabs", "singular": "one", "kind": "9Lives", "listKind": "L"});
    })));
    assert_eq!(odd.len(), 1);
    let start = r#"spec.names.kind: Invalid value: "9Lives": may have mixed case, but should otherwise match: a DNS-1035 label"#;
    assert!(odd[0].starts_with(start), "{odd:?}");
}

#[test]
fn approval_of_protected_groups() {
    let in_group = |group: &'static str, annotation: Option<&'static str>| {
        move |crd: &mut Value| {
            crd["spec"]["group"] = json!(group);
            crd["metadata"]["name"] = json!(format!("crontabs.{group}"));
            if let Some(annotation) = annotation {
                crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
            }
        }
    };
    check(
        in_group("x.k8s.io", None),
        &[
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
        ],
    );
    check(in_group("x.k8s.io", Some("https://github.com/x/pull/1")), &[]);
    check(in_group("x.kubernetes.io", Some("unapproved, testing")), &[]);
    check(
        in_group("x.k8s.io", Some("yes")),
        &[
            r#"metadata.annotations[api-approved.kubernetes.io]: Invalid value: "yes": protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111"#,
        ],
    );
    check(in_group("notk8s.io", None), &[]);
    let approved = with(in_group("x.k8s.io", Some("https://github.com/x/pull/1")));
    assert!(is_condition_true(&approved, "KubernetesAPIApprovalPolicyConformant"));
}

#[test]
fn versions() {
    let second = |storage: bool, name: &str| {
        let mut version = crontab()["spec"]["versions"][0].clone();
        version["name"] = json!(name);
        version["storage"] = json!(storage);
        version
    };
    let add = |version: Value| {
        move |crd: &mut Value| at(crd, "/spec/versions").as_array_mut().unwrap().push(version)
    };
    check(add(second(false, "v2")), &[]);
    let fields = |change: Box<dyn FnOnce(&mut Value)>| -> Vec<String> {
        let errors = validate(&with(change));
        errors.iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
    };
    assert_eq!(
        fields(Box::new(add(second(true, "v2")))),
        ["spec.versions: must have exactly one version marked as storage version"]
    );
    assert_eq!(
        fields(Box::new(add(second(false, "v1")))),
        ["spec.versions: must contain unique version names"]
    );
    check(
        |crd| {
            at(crd, "/spec/versions/0").as_object_mut().unwrap().remove("schema");
        },
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
    check(
        |crd| crd["spec"]["versions"][0]["deprecationWarning"] = json!("old"),
        &[
            r#"spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions"#,
        ],
    );
}

#[test]
fn schemas_are_structural_and_told_where_upstream_tells_them() {
    check_schema(
        json!({"type": "object", "properties": {"a": {}}}),
        &[
            "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        ],
    );
    // Versions that differ are told one by one.
    check(
        |crd| {
            let mut version = crd["spec"]["versions"][0].clone();
            version["name"] = json!("v2");
            version["storage"] = json!(false);
            version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"a": {}}});
            at(crd, "/spec/versions").as_array_mut().unwrap().push(version);
        },
        &[
            "spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        ],
    );
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "x"}}}),
        &["spec.validation.openAPIV3Schema.properties[a].$ref: Forbidden: $ref is not supported"],
    );
    check_schema(
        json!({"type": "object", "nullable": true}),
        &["spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"],
    );
}

#[test]
fn what_schemas_may_say() {
    let s = "spec.validation.openAPIV3Schema";
    let check_field = |field: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|text| format!("{s}.properties[a]{text}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_schema(json!({"type": "object", "properties": {"a": field}}), &expected);
    };
    check_field(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        &[
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check_field(
        json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        &[".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    );
    check_field(
        json!({"type": "text"}),
        &[
            r#".type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check_field(
        json!({"type": "string", "x-kubernetes-list-type": "set"}),
        &[r#".type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#],
    );
    check_field(
        json!({"type": "object", "x-kubernetes-map-type": "loose"}),
        &[r#".x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular""#],
    );
    let keyed = |keys: Value, item: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": item});
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}});
    check_field(keyed(json!(["k"]), item.clone()), &[]);
    check_field(
        keyed(json!([]), item.clone()),
        &[".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
    );
    check_field(
        keyed(json!(["z"]), item.clone()),
        &[
            r#".x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties"#,
        ],
    );
    check_field(
        keyed(json!(["v"]), item),
        &[
            ".items.properties[v].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    check_field(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        &[".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    );
    check_field(
        json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}, {"rule": "a\nb"}, {"rule": "true", "reason": "Nope"}, {"rule": "true", "fieldPath": ".x"}]}),
        &[
            ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
            ".x-kubernetes-validations[1].message: Required value: message must be specified if rule contains line breaks",
            r#".x-kubernetes-validations[2].reason: Unsupported value: "Nope": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            r#".x-kubernetes-validations[3].fieldPath: Invalid value: ".x": must be a valid path"#,
        ],
    );
    check_schema(
        json!({"type": "object", "properties": {"kind": {"type": "string", "default": "X"}}}),
        &[
            "spec.validation.openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind",
        ],
    );
}

#[test]
fn defaults_fit_their_schema() {
    let s = "spec.validation.openAPIV3Schema.properties[a].default";
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
        &[&format!(r#"{s}: Invalid value: "string":  in body must be of type integer: "string""#)],
    );
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}}}),
        &[&format!(r#"{s}: Invalid value: {{"c":1}}: must not have unknown fields"#)],
    );
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "default": {}}}}),
        &[&format!("{s}.b: Required value")],
    );
}

#[test]
fn subresources_columns_and_selectable_fields() {
    let version =
        |word: &'static str, value: Value| move |crd: &mut Value| crd["spec"]["versions"][0][word] = value;
    check(
        version(
            "subresources",
            json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}),
        ),
        &[],
    );
    check(
        version(
            "subresources",
            json!({"scale": {"specReplicasPath": ".status.x", "labelSelectorPath": "x"}}),
        ),
        &[
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec"#,
            "spec.subresources.scale.statusReplicasPath: Required value",
            r#"spec.subresources.scale.labelSelectorPath: Invalid value: "x": must be a simple json path starting with ."#,
        ],
    );
    check(
        version("additionalPrinterColumns", json!([{"name": "A", "type": "text", "jsonPath": "spec"}, {}])),
        &[
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with ."#,
            "spec.additionalPrinterColumns[1].name: Required value",
            "spec.additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[1].JSONPath: Required value",
        ],
    );
    check(
        version("selectableFields", json!([{"jsonPath": ".spec.cron"}, {"jsonPath": ".spec.replicas"}])),
        &[],
    );
    check(
        version(
            "selectableFields",
            json!([{"jsonPath": ".spec"}, {"jsonPath": ".spec.cron"}, {"jsonPath": ".spec.cron"}, {"jsonPath": ".nope"}]),
        ),
        &[
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
            r#"spec.selectableFields[2].jsonPath: Duplicate value: ".spec.cron""#,
            r#"spec.selectableFields[3].jsonPath: Invalid value: ".nope": is an invalid path: does not refer to a valid field"#,
        ],
    );
    let errors = validate(&with(|crd| {
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["maxProperties"] = json!(3);
    }));
    assert!(errors[0].detail.starts_with("only [Description Type Format"), "{errors:?}");
}

#[test]
fn conversions() {
    let convert = |conversion: Value| move |crd: &mut Value| crd["spec"]["conversion"] = conversion;
    let c = "spec.conversion";
    check(
        convert(json!({"strategy": "Magic"})),
        &[&format!(r#"{c}.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#)],
    );
    check(
        convert(json!({"strategy": "Webhook"})),
        &[
            &format!("{c}.webhookClientConfig: Required value: required when strategy is set to Webhook"),
            &format!("{c}.conversionReviewVersions: Required value"),
        ],
    );
    let hook = |client: Value, reviews: Value| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": reviews}});
    check(convert(hook(json!({"url": "https://a/b"}), json!(["v1"]))), &[]);
    check(
        convert(hook(json!({"service": {"name": "a", "namespace": "b", "path": "/c"}}), json!(["v1", "v2"]))),
        &[],
    );
    check(
        convert(hook(json!({}), json!(["v2"]))),
        &[
            &format!("{c}.webhookClientConfig: Required value: exactly one of url or service is required"),
            &format!(
                r#"{c}.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1"#
            ),
        ],
    );
    check(
        convert(hook(json!({"url": "http://u@a/b?c#d"}), json!(["v1"]))),
        &[
            &format!(
                r#"{c}.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
            ),
            &format!(
                r#"{c}.webhookClientConfig.url: Invalid value: "u": user information is not permitted in the URL"#
            ),
            &format!(
                r#"{c}.webhookClientConfig.url: Invalid value: "d": fragments are not permitted in the URL"#
            ),
            &format!(
                r#"{c}.webhookClientConfig.url: Invalid value: "c": query parameters are not permitted in the URL"#
            ),
        ],
    );
    let mut unset = hook(json!({"url": "https://a"}), json!(["v1"]));
    unset["strategy"] = json!("None");
    check(
        convert(unset),
        &[
            &format!(
                "{c}.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook"
            ),
            &format!(
                "{c}.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook"
            ),
        ],
    );
}

#[test]
fn updates() {
    let old = with(|crd| crd["metadata"]["resourceVersion"] = json!("1"));
    let update = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        default(&mut new);
        establish(&mut new, Some(&old), &[], NOW);
        told(validate_update(&new, &old))
    };
    assert_eq!(update(|_| {}), Vec::<String>::new());
    assert_eq!(
        update(|crd| crd["spec"]["scope"] = json!("Cluster")),
        [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]
    );
    assert_eq!(
        update(|crd| crd["spec"]["names"]["kind"] = json!("Other")),
        [r#"spec.names.kind: Invalid value: "Other": field is immutable"#]
    );
    assert_eq!(
        update(|crd| crd["spec"]["versions"][0]["name"] = json!("v2")),
        [
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]
    );
}

#[test]
fn establishing() {
    let crd = with(|_| {});
    assert!(is_condition_true(&crd, "NamesAccepted") && is_condition_true(&crd, "Established"));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"], crd["spec"]["names"]);
    assert_eq!(
        crd["status"]["conditions"][0],
        json!({"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": NOW})
    );
    assert_eq!(crd["status"]["conditions"][1]["reason"], "InitialNamesAccepted");
    assert_eq!(crd["status"]["conditions"].as_array().unwrap().len(), 2);

    // What a client puts into the status does not count.
    let claimed = with(|crd| {
        crd["status"] =
            json!({"storedVersions": ["v9"], "conditions": [{"type": "Established", "status": "True"}]})
    });
    assert_eq!(claimed["status"], crd["status"]);

    // Time passes, nothing changes.
    let mut again = crd.clone();
    establish(&mut again, Some(&crd), &[], "2030-01-01T00:00:00Z");
    assert_eq!(again, crd);
}

#[test]
fn names_in_use() {
    let holder = with(|_| {});
    let rival = |change: fn(&mut Value)| {
        let mut crd = crontab();
        crd["metadata"]["name"] = json!("rivals.stable.example.com");
        crd["spec"]["names"] = json!({"plural": "rivals", "kind": "Rival"});
        change(&mut crd);
        default(&mut crd);
        establish(&mut crd, None, std::slice::from_ref(&holder), NOW);
        crd
    };
    assert!(is_condition_true(&rival(|_| {}), "Established"));
    let check = |change: fn(&mut Value), reason: &str, message: &str| {
        let crd = rival(change);
        let condition = &crd["status"]["conditions"][0];
        assert_eq!(
            (condition["status"].as_str(), condition["reason"].as_str(), condition["message"].as_str()),
            (Some("False"), Some(reason), Some(message))
        );
        let established = &crd["status"]["conditions"][1];
        assert_eq!(
            (established["status"].as_str(), established["reason"].as_str()),
            (Some("False"), Some("NotAccepted"))
        );
        crd
    };
    let crd = check(
        |crd| crd["spec"]["names"]["kind"] = json!("CronTab"),
        "ListKindConflict",
        r#""CronTabList" is already in use"#,
    );
    assert_eq!(crd["status"]["acceptedNames"]["plural"], "rivals");
    assert_eq!(crd["status"]["acceptedNames"].get("kind"), None);
    check(
        |crd| crd["spec"]["names"]["shortNames"] = json!(["r", "ct"]),
        "ShortNamesConflict",
        r#""ct" is already in use"#,
    );
    check(
        |crd| crd["spec"]["names"]["singular"] = json!("crontab"),
        "SingularConflict",
        r#""crontab" is already in use"#,
    );
    // Another group does not matter.
    let other = rival(|crd| {
        crd["spec"]["group"] = json!("other.example.com");
        crd["spec"]["names"]["kind"] = json!("CronTab");
    });
    assert!(is_condition_true(&other, "Established"));
}

#[test]
fn types_made() {
    let mut crd = with(|crd| {
        let mut beta = crd["spec"]["versions"][0].clone();
        beta["name"] = json!("v2beta1");
        beta["storage"] = json!(false);
        let mut hidden = beta.clone();
        hidden["name"] = json!("v3");
        hidden["served"] = json!(false);
        let versions = at(crd, "/spec/versions").as_array_mut().unwrap();
        versions.insert(0, beta);
        versions.push(hidden);
        versions[1]["subresources"] = json!({"status": {}, "scale": {}});
    });
    let types = resource_types(&crd);
    let versions: Vec<&str> = types.iter().map(|ty| ty.version.as_str()).collect();
    assert_eq!(versions, ["v1", "v2beta1"]);
    let first = &types[0];
    assert_eq!(
        (first.kind.as_str(), first.list_kind.as_str(), first.singular.as_str()),
        ("CronTab", "CronTabList", "crontab")
    );
    assert!(first.is_namespaced() && first.verbs == objects::Verbs::ALL);
    assert_eq!(first.short_names, ["ct"]);
    assert_eq!(first.subresource("status").unwrap().kind.kind, "CronTab");
    assert_eq!(first.subresource("scale").unwrap().kind.group, "autoscaling");
    assert!(types[1].subresources.is_empty());

    terminate(&mut crd, NOW);
    assert!(is_condition_true(&crd, "Terminating"));
    assert!(!resource_types(&crd)[0].verbs.has(objects::Verb::Create));
    terminate_with(&mut crd, &Termination::Completed, NOW);
    assert!(!is_condition_true(&crd, "Terminating"));
}

#[test]
fn warned_of() {
    let odd = with(|crd| {
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["x"] =
            json!({"type": "string", "format": "shape"});
    });
    assert_eq!(warnings(&odd, None), [r#"unrecognized format "shape""#]);
    assert!(warnings(&odd, Some(&odd)).is_empty());
    assert!(warnings(&crontab(), None).is_empty());
}

proptest::proptest! {
    #[test]
    fn nothing_in_a_definition_panics(
        schema in crate::validate::tests::any_schema(),
        names in crate::validate::tests::any_json(),
        version in crate::validate::tests::any_json(),
        spec in crate::validate::tests::any_json(),
    ) {
        let mut crd = crontab();
        crd["spec"]["names"] = names;
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        at(&mut crd, "/spec/versions").as_array_mut().unwrap().push(version);
        let whole = serde_json::json!({"spec": spec, "metadata": {"name": "x"}});
        for mut crd in [crd, whole, Value::Null] {
            default(&mut crd);
            establish(&mut crd, None, &[], NOW);
            let _ = validate(&crd);
            let _ = validate_update(&crd, &crontab());
            let _ = warnings(&crd, None);
            let _ = resource_types(&crd);
            terminate(&mut crd, NOW);
        }
    }
}
