//! What the server does to objects on their way in.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{StatusSplit, behaviour, custom, kinds};

#[test]
fn every_kind_is_in_the_table_once() {
    let mut all: Vec<_> = kinds().collect();
    let rows = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), rows);
}

#[test]
fn rows_are_of_types_there_are() {
    // A scale is a part of others, and is shown in columns of its own.
    let types = crate::types();
    for (group, kind) in kinds().filter(|(_, kind)| *kind != "Scale") {
        assert!(types.iter().any(|ty| ty.group == group && ty.kind == kind), "{group} {kind}");
    }
}

#[test]
fn status_is_split_where_discovery_says_so() {
    for ty in crate::types() {
        let split = behaviour(&ty.group, &ty.kind).has_status();
        assert_eq!(split, ty.subresource("status").is_some(), "{} {}", ty.group, ty.kind);
    }
}

#[test]
fn hooks_take_any_value() {
    for (group, kind) in kinds() {
        let behaviour = behaviour(group, kind);
        for value in [json!(null), json!([]), json!({"spec": 3, "status": "x", "metadata": []})] {
            let mut object = value.clone();
            behaviour.defaults(&mut object);
            behaviour.prepare_create(&mut object);
            behaviour.prepare_update(&mut object, &value);
            behaviour.prepare_status_update(&mut object, &value);
            behaviour.validate(&value);
            behaviour.validate_update(&value, &object);
            behaviour.validate_status_update(&value, &object);
        }
    }
}

#[test]
fn create() {
    let marks = json!({
        "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u", "job-name": "j",
    });
    let check = |group: &str, kind: &str, mut object: Value, expected: Value| {
        behaviour(group, kind).prepare_create(&mut object);
        assert_eq!(object, expected, "{kind}");
    };
    check(
        "",
        "Namespace",
        json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}),
        json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    );
    check(
        "",
        "Namespace",
        json!({"spec": {"finalizers": ["mine"]}}),
        json!({"spec": {"finalizers": ["mine", "kubernetes"]}, "status": {"phase": "Active"}}),
    );
    check(
        "",
        "Pod",
        json!({"metadata": {}, "spec": {"containers": [{}]}, "status": {"phase": "Running", "podIP": "1.1.1.1"}}),
        json!({"metadata": {"generation": 1}, "spec": {"containers": [{}]}, "status": {"phase": "Pending", "qosClass": "BestEffort"}}),
    );
    check(
        "apps",
        "Deployment",
        json!({"status": {"replicas": 4}}),
        json!({"metadata": {"generation": 1}, "status": {}}),
    );
    check(
        "",
        "Service",
        json!({"spec": {"clusterIP": "None"}}),
        json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}, "status": {"loadBalancer": {}}}),
    );
    check("", "ConfigMap", json!({"data": {}}), json!({"data": {}}));
    check("", "Node", json!({"status": {"phase": "x"}}), json!({"status": {"phase": "x"}}));
    check(
        "",
        "ServiceAccount",
        json!({"secrets": [{"name": "a", "namespace": "b"}]}),
        json!({"secrets": [{"name": "a"}]}),
    );
    check(
        "batch",
        "Job",
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}}),
        json!({
            "metadata": {"name": "j", "uid": "u", "generation": 1, "labels": marks},
            "spec": {
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {"spec": {}, "metadata": {"labels": marks}},
            },
            "status": {},
        }),
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({"spec": {"request": "r", "username": "forged"}, "status": {"certificate": "forged"}}),
        json!({"spec": {"request": "r"}, "status": {}}),
    );
    check(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}}),
        json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a"}}, "status": {"phase": "Pending"}}),
    );
}

#[test]
fn generations() {
    let check = |group: &str, kind: &str, old: Value, new: Value, expected: Option<i64>| {
        let (mut old, mut new) = (old, new);
        old["metadata"]["generation"] = 4.into();
        behaviour(group, kind).prepare_update(&mut new, &old);
        let generation = new["metadata"]["generation"].as_i64();
        assert_eq!(generation, expected, "{kind} {old} {new}");
    };
    let spec = |n: i64| json!({"metadata": {}, "spec": {"replicas": n}});
    check("apps", "ReplicaSet", spec(1), spec(1), Some(4));
    check("apps", "ReplicaSet", spec(1), spec(2), Some(5));
    check("apps", "ReplicaSet", spec(1), json!({"spec": {"replicas": 1, "template": {}}}), Some(4));
    check(
        "apps",
        "ReplicaSet",
        spec(1),
        json!({"spec": {"replicas": 1}, "status": {"replicas": 1}}),
        Some(4),
    );
    check(
        "apps",
        "ReplicaSet",
        spec(1),
        json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1}}),
        Some(4),
    );
    check(
        "apps",
        "Deployment",
        spec(1),
        json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1}}),
        Some(5),
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        Some(5),
    );
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1}),
        json!({"value": 1, "description": "x"}),
        Some(4),
    );
    check("", "ConfigMap", json!({"data": {"a": "1"}}), json!({"metadata": {}, "data": {"a": "2"}}), None);
}

#[test]
fn custom_resources() {
    let old =
        json!({"metadata": {"generation": 2, "labels": {"a": "b"}}, "spec": 1, "status": 1, "extra": 1});
    let new = json!({"metadata": {"managedFields": []}, "spec": 2, "status": 2});
    let mut updated = new.clone();
    custom(true).prepare_update(&mut updated, &old);
    assert_eq!(updated, json!({"metadata": {"generation": 3, "managedFields": []}, "spec": 2, "status": 1}));
    let mut updated = new.clone();
    custom(false).prepare_update(&mut updated, &old);
    assert_eq!(updated, json!({"metadata": {"generation": 3, "managedFields": []}, "spec": 2, "status": 2}));
    for (with_status, expected) in [
        (true, json!({"metadata": {"managedFields": [], "generation": 1}, "spec": 2})),
        (false, json!({"metadata": {"managedFields": [], "generation": 1}, "spec": 2, "status": 2})),
    ] {
        let mut created = new.clone();
        custom(with_status).prepare_create(&mut created);
        assert_eq!(created, expected);
    }
    let mut status = new;
    custom(true).prepare_status_update(&mut status, &old);
    assert_eq!(
        status,
        json!({"metadata": {"generation": 2, "labels": {"a": "b"}, "managedFields": []}, "spec": 1, "status": 2, "extra": 1})
    );
    assert_eq!(custom(false).status, StatusSplit::None);
}

#[test]
fn status_updates() {
    let check = |group: &str, kind: &str, old: Value, new: Value, expected: Value| {
        let mut updated = new;
        behaviour(group, kind).prepare_status_update(&mut updated, &old);
        assert_eq!(updated, expected, "{kind}");
    };
    check(
        "apps",
        "Deployment",
        json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1}}),
        json!({"metadata": {"labels": {"a": "2"}, "annotations": {"x": "y"}}, "spec": {"replicas": 9}, "status": {"replicas": 1}}),
        json!({"metadata": {"labels": {"a": "1"}, "annotations": {"x": "y"}}, "spec": {"replicas": 1}, "status": {"replicas": 1}}),
    );
    check(
        "",
        "Pod",
        json!({"metadata": {"ownerReferences": [1]}, "spec": {"nodeName": "a"}, "status": {"qosClass": "Burstable"}}),
        json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}}),
        json!({"metadata": {"ownerReferences": [1], "labels": {"a": "1"}}, "spec": {"nodeName": "a"}, "status": {"phase": "Running", "qosClass": "Burstable"}}),
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({"metadata": {}, "status": {"conditions": [{"type": "Approved", "reason": "a"}]}}),
        json!({"metadata": {}, "status": {"certificate": "c", "conditions": [{"type": "Approved", "reason": "b"}]}}),
        json!({"metadata": {}, "status": {"certificate": "c", "conditions": [{"type": "Approved", "reason": "a"}]}}),
    );
}

#[test]
fn service_updates() {
    let check = |old: Value, new: Value, expected: Value| {
        let mut updated = json!({"spec": new});
        behaviour("", "Service").prepare_update(&mut updated, &json!({"spec": old}));
        assert_eq!(updated["spec"], expected);
    };
    let one = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]});
    check(one.clone(), json!({"type": "ClusterIP"}), one.clone());
    let familiar = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
    check(familiar.clone(), json!({"type": "ClusterIP"}), familiar);
    check(
        one.clone(),
        json!({"type": "ClusterIP", "clusterIP": "10.0.0.2"}),
        json!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"]}),
    );
    check(
        one.clone(),
        json!({"type": "ExternalName", "externalName": "a", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
        json!({"type": "ExternalName", "externalName": "a"}),
    );
    let node = json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": 30001}]});
    check(
        node.clone(),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}]}),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 2, "nodePort": 30001}]}),
    );
    check(
        node.clone(),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 3, "nodePort": 30001}]}),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 3, "nodePort": 30001}]}),
    );
    check(
        node,
        json!({"type": "ClusterIP", "ports": [{"name": "a", "port": 1, "nodePort": 30001}]}),
        json!({"type": "ClusterIP", "ports": [{"name": "a", "port": 1}]}),
    );
}

#[test]
fn selectable_fields() {
    let check = |group: &str, kind: &str, field: &str, object: Value, expected: Option<&str>| {
        let found =
            behaviour(group, kind).selectable(field).map(|selectable| selectable.of(&object).into_owned());
        assert_eq!(found.as_deref(), expected, "{kind} {field}");
    };
    check("", "Pod", "spec.nodeName", json!({"spec": {"nodeName": "a"}}), Some("a"));
    check("", "Pod", "spec.nodeName", json!({}), Some(""));
    check("", "Pod", "spec.hostNetwork", json!({}), Some("false"));
    check("", "Pod", "status.podIP", json!({"status": {"podIPs": [{"ip": "1.1.1.1"}]}}), Some("1.1.1.1"));
    check("", "Pod", "spec.color", json!({}), None);
    check("", "Node", "spec.unschedulable", json!({}), Some("false"));
    check("", "Node", "spec.unschedulable", json!({"spec": {"unschedulable": true}}), Some("true"));
    check("", "Secret", "type", json!({"type": "Opaque"}), Some("Opaque"));
    check("batch", "Job", "status.successful", json!({"status": {"succeeded": 2}}), Some("2"));
    check("apps", "ReplicaSet", "status.replicas", json!({}), Some("0"));
    check("", "Event", "source", json!({"reportingComponent": "c"}), Some("c"));
    check("events.k8s.io", "Event", "regarding.name", json!({"regarding": {"name": "p"}}), Some("p"));
    check("", "ConfigMap", "data", json!({}), None);
}

/// Field names that rules look for, so that nonsense reaches deep into them.
const FIELDS: [&str; 48] = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "status",
    "template",
    "containers",
    "initContainers",
    "ports",
    "port",
    "env",
    "valueFrom",
    "fieldRef",
    "volumes",
    "volumeMounts",
    "projected",
    "sources",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "storage",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "strategy",
    "rollingUpdate",
    "rules",
    "subjects",
    "webhooks",
    "clientConfig",
    "url",
    "schedule",
    "conditions",
    "type",
    "containerStatuses",
    "restartCount",
    "state",
    "terminated",
    "clusterIPs",
    "ingress",
    "data",
];

fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["[ -~]{0,12}", "\\PC{0,6}", "[0-9.]{1,30}[A-Za-z]{0,2}", "[*/0-9,-]{1,5} .{0,6}"]
            .prop_map(Value::from),
        prop::sample::select(vec!["In", "Always", "ClusterIP", "Localhost", "Queue", "Indexed", "10.0.0.1"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 96, 6, |inner| {
        let field =
            prop_oneof![prop::sample::select(FIELDS.to_vec()).prop_map(str::to_owned), "[a-z./]{0,8}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field, inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_borne(spec in nonsense(), status in nonsense(), metadata in nonsense(), now: i64) {
        let object = json!({"metadata": metadata, "spec": spec, "status": status, "webhooks": spec, "rules": spec, "data": spec});
        for (group, kind) in kinds() {
            let behaviour = behaviour(group, kind);
            let mut once = object.clone();
            behaviour.defaults(&mut once);
            let mut twice = once.clone();
            behaviour.defaults(&mut twice);
            prop_assert_eq!(&once, &twice, "defaults of {} are not stable", kind);
            behaviour.prepare_create(&mut once);
            behaviour.prepare_update(&mut twice, &object);
            behaviour.prepare_status_update(&mut twice, &object);
            behaviour.validate(&object);
            behaviour.validate(&once);
            behaviour.validate_update(&once, &object);
            behaviour.validate_status_update(&once, &object);
            behaviour.warnings(&object);
            for part in ["ephemeralcontainers", "resize", "approval", "finalize"] {
                behaviour.validate_part(part, &once, &object);
            }
            for column in behaviour.columns {
                column.cell(&object, now);
            }
            for selectable in behaviour.selectable {
                // What is read is what the paths name.
                let paths = selectable.paths.iter().copied();
                let projected = objects::raw::project(object.to_string().as_bytes(), paths).unwrap();
                assert_eq!(selectable.of(&projected), selectable.of(&object), "{}", selectable.field);
            }
        }
    }
}
