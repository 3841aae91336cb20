//! Whatever JSON comes in, no plugin panics: validation, which runs after them, is to complain.

use jiff::Timestamp;
use objects::GroupResource;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::*;

/// Words that plugins look for, so that random objects get far into them.
const WORDS: &[&str] = &[
    "spec",
    "metadata",
    "status",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "name",
    "volumes",
    "volumeMounts",
    "securityContext",
    "annotations",
    "labels",
    "hard",
    "used",
    "pods",
    "scopes",
    "limits",
    "type",
    "Container",
    "Pod",
    "max",
    "min",
    "default",
    "overhead",
    "podFixed",
    "tolerations",
    "1Gi",
    "-5",
    "kubernetes.io/config.mirror",
    "capabilities",
    "add",
    "projected",
    "sources",
    "kind",
    "env",
    "valueFrom",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![9 => proptest::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((word(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn no_plugin_panics(spec in any_json(), other in any_json(), bare in any_json()) {
        let now = Timestamp::UNIX_EPOCH;
        for object in [bare, json!({"kind": "Pod", "metadata": {"name": "x"}, "spec": spec})] {
            let resource = GroupResource::new("", "pods");
            let quota = json!({"spec": other, "status": other});
            let request = quota::Request {
                resource: &resource, subresource: "", operation: Operation::Create, object: &object, old: Some(&other),
            };
            let _ = quota::check(&request, &[quota.clone(), other.clone()], now);
            let _ = quota::recompute(&quota, [(&resource, &object)], now);
            let _ = limit_ranger::validate(&object, [&json!({"spec": other}), &other]);
            let policy = pod_security::Policy::of(&other);
            let strict = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
            let _ = pod_security::check_pod(&policy, &object);
            let _ = pod_security::check_pod(&pod_security::Policy::of(&strict), &object);
            let _ = storage::check_resize(&object, &other, Some(&other));
            let _ = runtime_class::validate_pod(&object, Some(&other));
            let mut changed = object.clone();
            limit_ranger::default_pod(&mut changed, [&json!({"spec": other}), &other]);
            let _ = service_account::admit_pod(&mut changed, "ns", Some(&other), [1, 2, 3, 4, 5]);
            let _ = priority::admit_pod(&mut changed, Some(&other));
            priority::keep_on_update(&mut changed, &other);
            let _ = runtime_class::admit_pod(&mut changed, Some(&other));
            tolerations::default_pod(&mut changed);
            storage::default_class(&mut changed, [&other]);
            nodes::taint_new(&mut changed);
        }
    }

    /// What was admitted once is admitted again without a change: plugins run on every retry.
    #[test]
    fn admission_settles(spec in any_json()) {
        let account = json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "p"}]});
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"memory": "1Mi"}}]}});
        let admit = |pod: &mut Value| {
            limit_ranger::default_pod(pod, [&range]);
            tolerations::default_pod(pod);
            priority::admit_pod(pod, None).and_then(|()| service_account::admit_pod(pod, "ns", Some(&account), [0; 5]))
        };
        let mut once = json!({"kind": "Pod", "metadata": {}, "spec": spec});
        if admit(&mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert!(admit(&mut twice).is_ok());
            prop_assert_eq!(once, twice);
        }
    }
}
