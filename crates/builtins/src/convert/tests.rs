use objects::{GroupVersionKind, Value};
use serde_json::json;

use super::*;

/// `there` is `here` in the other version, and converting back gives `here` again.
#[track_caller]
fn check(here: Value, there: Value) {
    let kind_of = |object: &Value| {
        let version = GroupVersion::parse(object["apiVersion"].as_str().unwrap()).unwrap();
        version.with_kind(object["kind"].as_str().unwrap())
    };
    assert_eq!(convert(&here, &kind_of(&there)), Some(there.clone()));
    assert_eq!(convert(&there, &kind_of(&here)), Some(here));
}

fn v1(annotations: Option<Value>, spec: Value) -> Value {
    let metadata = annotations.map_or(json!({"name": "a"}), |all| json!({"name": "a", "annotations": all}));
    json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
}

fn v2(spec: Value) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec})
}

fn cpu(utilization: u32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}}})
}

/// One metric that v1 cannot say, and how it is written in the annotation.
#[track_caller]
fn check_metric(in_v2: Value, in_v1: &str) {
    let annotation = json!({"autoscaling.alpha.kubernetes.io/metrics": format!("[{in_v1}]")});
    check(v2(json!({"maxReplicas": 3, "metrics": [in_v2]})), v1(Some(annotation), json!({"maxReplicas": 3})));
}

#[test]
fn cpu_utilization_is_a_field() {
    check(
        v2(json!({"maxReplicas": 3, "metrics": [cpu(80)], "unknown": 1})),
        v1(None, json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 80, "unknown": 1})),
    );
}

#[test]
fn other_metrics_are_an_annotation() {
    check_metric(
        json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1k"}}}),
        r#"{"pods":{"metricName":"m","targetAverageValue":"1k"},"type":"Pods"}"#,
    );
    check_metric(
        json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "10"}}}),
        r#"{"object":{"metricName":"m","target":{"kind":"Ingress","name":"i"},"targetValue":"10"},"type":"Object"}"#,
    );
    check_metric(
        json!({"type": "External", "external": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "2"}}}),
        r#"{"external":{"metricName":"m","metricSelector":{"matchLabels":{"a":"b"}},"targetAverageValue":"2"},"type":"External"}"#,
    );
    check_metric(
        json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}),
        r#"{"resource":{"name":"memory","targetAverageValue":"1Gi"},"type":"Resource"}"#,
    );
    check_metric(
        json!({"type": "ContainerResource", "containerResource": {"container": "c", "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}),
        r#"{"containerResource":{"container":"c","name":"cpu","targetAverageUtilization":5},"type":"ContainerResource"}"#,
    );
}

/// Upstream keeps one and loses the other.
#[test]
fn a_second_cpu_metric_is_not_lost() {
    let both = v2(json!({"metrics": [cpu(80), cpu(90)]}));
    let there = convert(&both, &GroupVersionKind::new("autoscaling", "v1", HPA)).unwrap();
    let back = convert(&there, &GroupVersionKind::new("autoscaling", "v2", HPA)).unwrap();
    assert_eq!(back["spec"]["metrics"], json!([cpu(90), cpu(80)]));
}

#[test]
fn behavior_and_status_are_annotations() {
    let behavior = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}], "selectPolicy": "Max"}});
    let annotation =
        r#"{"ScaleDown":{"Policies":[{"PeriodSeconds":60,"Type":"Pods","Value":4}],"SelectPolicy":"Max"}}"#;
    check(
        v2(json!({"maxReplicas": 3, "behavior": behavior})),
        v1(Some(json!({"autoscaling.alpha.kubernetes.io/behavior": annotation})), json!({"maxReplicas": 3})),
    );
    let mut here = v2(json!({}));
    here["status"] = json!({
        "currentReplicas": 1,
        "conditions": [{"type": "AbleToScale", "status": "True"}],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "1"}}}],
    });
    let mut there = v1(
        Some(json!({
            "autoscaling.alpha.kubernetes.io/conditions": r#"[{"status":"True","type":"AbleToScale"}]"#,
            "autoscaling.alpha.kubernetes.io/current-metrics": r#"[{"resource":{"currentAverageUtilization":7,"currentAverageValue":"1","name":"cpu"},"type":"Resource"}]"#,
        })),
        json!({}),
    );
    there["status"] = json!({"currentReplicas": 1, "currentCPUUtilizationPercentage": 7});
    check(here, there);
}

#[test]
fn annotations_that_are_not_ours_to_read_do_no_harm() {
    for annotation in
        ["", "[", "{}", "[1]", "[{\"pods\":3}]", "null", r#"[{"pods":{"metric":3,"metricName":"m"}}]"#]
    {
        let all = json!({"autoscaling.alpha.kubernetes.io/metrics": annotation, "autoscaling.alpha.kubernetes.io/behavior": annotation, "mine": "kept"});
        let there =
            convert(&v1(Some(all), json!({})), &GroupVersionKind::new("autoscaling", "v2", HPA)).unwrap();
        assert_eq!(there["metadata"]["annotations"], json!({"mine": "kept"}), "{annotation}");
    }
}

#[test]
fn events() {
    check(
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
            "source": {"component": "kubelet"}, "message": "hello", "firstTimestamp": "1", "lastTimestamp": "2",
            "count": 3, "reportingComponent": "kubelet", "reportingInstance": "n", "reason": "R", "eventTime": null,
        }),
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": {"kind": "Pod"},
            "deprecatedSource": {"component": "kubelet"}, "note": "hello", "deprecatedFirstTimestamp": "1",
            "deprecatedLastTimestamp": "2", "deprecatedCount": 3, "reportingController": "kubelet",
            "reportingInstance": "n", "reason": "R", "eventTime": null,
        }),
    );
}

#[test]
fn what_has_no_way() {
    #[track_caller]
    fn check(object: Value, to: (&str, &str, &str), expected: Option<Value>) {
        assert_eq!(convert(&object, &GroupVersionKind::new(to.0, to.1, to.2)), expected);
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    check(pod.clone(), ("", "v1", "Pod"), Some(pod.clone()));
    check(pod.clone(), ("", "v2", "Pod"), None);
    check(pod, ("", "v1", "Event"), None);
    check(json!({"kind": "Pod"}), ("", "v1", "Pod"), None);
    check(json!(3), ("", "v1", "Pod"), None);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn quantity() -> impl Strategy<Value = Value> {
        "[1-9][0-9]{0,3}(m|k|Mi)?".prop_map(Value::from)
    }

    fn name() -> impl Strategy<Value = String> {
        "[a-z]{1,5}"
    }

    /// Targets whose fields fit their type, as validation asks for.
    fn target(averages_only: bool) -> impl Strategy<Value = Value> {
        (quantity(), any::<bool>()).prop_map(move |(value, average)| match average || averages_only {
            true => json!({"type": "AverageValue", "averageValue": value}),
            false => json!({"type": "Value", "value": value}),
        })
    }

    fn utilization() -> impl Strategy<Value = Value> {
        (1..100u32).prop_map(|percent| json!({"type": "Utilization", "averageUtilization": percent}))
    }

    /// Metrics that v1 has no field for.
    fn metric() -> impl Strategy<Value = Value> {
        let selector = proptest::option::of(name().prop_map(|label| json!({"matchLabels": {label: "x"}})));
        let identifier = (name(), selector).prop_map(|(name, selector)| match selector {
            Some(selector) => json!({"name": name, "selector": selector}),
            None => json!({"name": name}),
        });
        let identifier = identifier.boxed();
        prop_oneof![
            (identifier.clone(), target(false), name()).prop_map(|(metric, target, name)| {
                let described = json!({"kind": "Service", "name": name, "apiVersion": "v1"});
                json!({"type": "Object", "object": {"describedObject": described, "metric": metric, "target": target}})
            }),
            (identifier.clone(), target(true))
                .prop_map(|(metric, target)| json!({"type": "Pods", "pods": {"metric": metric, "target": target}})),
            (identifier, target(false)).prop_map(
                |(metric, target)| json!({"type": "External", "external": {"metric": metric, "target": target}})
            ),
            prop_oneof![utilization(), target(true)]
                .prop_map(|target| json!({"type": "Resource", "resource": {"name": "memory", "target": target}})),
            (prop_oneof![utilization(), target(true)], name()).prop_map(|(target, name)| {
                let source = json!({"container": name, "name": "cpu", "target": target});
                json!({"type": "ContainerResource", "containerResource": source})
            }),
        ]
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from),
        ];
        // Words that the conversion looks for, so that it finds them in the wrong places.
        let word = proptest::sample::select(vec![
            "metadata",
            "annotations",
            "spec",
            "status",
            "metrics",
            "currentMetrics",
            "conditions",
            "behavior",
            "resource",
            "object",
            "pods",
            "external",
            "target",
            "metric",
            "current",
            "name",
            "metricName",
            "targetCPUUtilizationPercentage",
            "currentCPUUtilizationPercentage",
            "averageUtilization",
            "type",
        ]);
        leaf.prop_recursive(5, 48, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way_there_and_back(
            mut metrics in proptest::collection::vec(metric(), 0..4),
            cpu_percent in proptest::option::of(1..100u32),
            window in proptest::option::of(0..3600u32),
        ) {
            metrics.extend(cpu_percent.map(cpu));
            let mut spec = json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}});
            if !metrics.is_empty() {
                spec["metrics"] = metrics.into();
            }
            if let Some(seconds) = window {
                spec["behavior"] = json!({"scaleUp": {"stabilizationWindowSeconds": seconds}});
            }
            let here = v2(spec);
            let there = convert(&here, &GroupVersionKind::new("autoscaling", "v1", HPA)).unwrap();
            prop_assert_eq!(convert(&there, &GroupVersionKind::new("autoscaling", "v2", HPA)).unwrap(), here);
        }

        #[test]
        fn nothing_panics(mut object in any_json(), version in "(autoscaling/v1|autoscaling/v2)", annotation in any_json()) {
            if let Some(map) = object.as_object_mut() {
                map.insert("apiVersion".into(), version.into());
                map.insert("kind".into(), HPA.into());
                let text = annotation.to_string();
                let annotations = json!({
                    "autoscaling.alpha.kubernetes.io/metrics": text,
                    "autoscaling.alpha.kubernetes.io/current-metrics": text,
                    "autoscaling.alpha.kubernetes.io/behavior": text,
                    "autoscaling.alpha.kubernetes.io/conditions": text,
                });
                map.insert("metadata".into(), json!({"annotations": annotations}));
            }
            for version in ["v1", "v2"] {
                let _ = convert(&object, &GroupVersionKind::new("autoscaling", version, HPA));
            }
        }
    }
}
