//! Horizontal pod autoscalers in v1 and v2.
//!
//! v1 knows one metric, the CPU utilization. What else v2 says travels in v1 objects as annotations, in the
//! form that upstream gives them, so that a client which reads and writes v1 loses nothing.

use objects::Value;
use serde_json::{Map, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// The fields of a metric in v1 (one level) and where they are in v2 (two levels at most).
type Fields = &'static [(&'static str, &'static [&'static str])];

/// By the source of the metric: the fields of its specification, and of its status.
const SOURCES: &[(&str, Fields, Fields)] = &[
    (
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("averageValue", &["target", "averageValue"]),
        ],
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    ("resource", TARGET_AVERAGES, CURRENT_AVERAGES),
    ("containerResource", TARGET_AVERAGES, CURRENT_AVERAGES),
    (
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

const TARGET_AVERAGES: Fields = &[
    ("targetAverageUtilization", &["target", "averageUtilization"]),
    ("targetAverageValue", &["target", "averageValue"]),
];
const CURRENT_AVERAGES: Fields = &[
    ("currentAverageUtilization", &["current", "averageUtilization"]),
    ("currentAverageValue", &["current", "averageValue"]),
];

pub(super) fn to_v1(hpa: &mut Map<String, Value>) {
    drop_annotations(hpa);
    let mut carried: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = object(hpa, "spec") {
        let mut metrics = take_array(spec, "metrics");
        if let Some(at) = metrics.iter().position(is_cpu_utilization) {
            let cpu = metrics.remove(at);
            if let Some(utilization) = cpu.pointer("/resource/target/averageUtilization") {
                spec.insert("targetCPUUtilizationPercentage".into(), utilization.clone());
            }
        }
        metrics
            .iter_mut()
            .for_each(|metric| each_source(metric, |fields, _, source| flatten(source, fields)));
        carried.push((METRICS, Value::Array(metrics)));
        // Upstream writes its internal type, whose field names are capitalized.
        carried.extend(spec.remove("behavior").map(|behavior| (BEHAVIOR, recased(behavior, upper_first))));
    }
    if let Some(status) = object(hpa, "status") {
        let mut metrics = take_array(status, "currentMetrics");
        let cpu = metrics.iter().find_map(|metric| {
            let is_cpu = metric.get("type")? == "Resource" && metric.pointer("/resource/name")? == "cpu";
            is_cpu.then(|| metric.pointer("/resource/current/averageUtilization")).flatten()
        });
        if let Some(utilization) = cpu.cloned() {
            status.insert("currentCPUUtilizationPercentage".into(), utilization);
        }
        metrics
            .iter_mut()
            .for_each(|metric| each_source(metric, |_, fields, source| flatten(source, fields)));
        carried.push((CURRENT_METRICS, Value::Array(metrics)));
        carried.push((CONDITIONS, Value::Array(take_array(status, "conditions"))));
    }
    for (name, value) in carried {
        let is_empty = value.as_array().is_some_and(Vec::is_empty) || value.is_null();
        if !is_empty {
            annotate(hpa, name, value.to_string());
        }
    }
}

pub(super) fn to_v2(hpa: &mut Map<String, Value>) {
    let carried = |name: &str| -> Option<Value> {
        let annotations = hpa.get("metadata")?.get("annotations")?;
        serde_json::from_str(annotations.get(name)?.as_str()?).ok()
    };
    let carried_array = |name: &str| match carried(name) {
        Some(Value::Array(values)) => Some(values),
        _ => None,
    };
    let metrics = carried_array(METRICS);
    let current_metrics = carried_array(CURRENT_METRICS);
    let conditions = carried_array(CONDITIONS);
    let behavior = carried(BEHAVIOR).filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    drop_annotations(hpa);

    if let Some(spec) = object(hpa, "spec") {
        let mut all = metrics.unwrap_or_default();
        for metric in &mut all {
            each_source(metric, |fields, _, source| {
                nest(source, fields);
            });
            add_target_type(metric);
        }
        if let Some(utilization) = spec.remove("targetCPUUtilizationPercentage") {
            let target = json!({"type": "Utilization", "averageUtilization": utilization});
            all.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        if !all.is_empty() {
            spec.insert("metrics".into(), Value::Array(all));
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), recased(behavior, lower_first));
        }
    } else if let Some(behavior) = behavior {
        hpa.insert("spec".into(), json!({"behavior": recased(behavior, lower_first)}));
    }
    restore_status(hpa, current_metrics, conditions);
}

fn restore_status(hpa: &mut Map<String, Value>, metrics: Option<Vec<Value>>, conditions: Option<Vec<Value>>) {
    if hpa.get("status").is_none_or(Value::is_null) && metrics.is_none() && conditions.is_none() {
        return;
    }
    let status = hpa.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let cpu = status.remove("currentCPUUtilizationPercentage");
    let metrics = match (metrics, cpu) {
        (Some(mut metrics), _) => {
            metrics
                .iter_mut()
                .for_each(|metric| each_source(metric, |_, fields, source| nest(source, fields)));
            metrics
        }
        (None, Some(utilization)) => {
            let current = json!({"averageUtilization": utilization});
            vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})]
        }
        (None, None) => Vec::new(),
    };
    for (name, values) in [("currentMetrics", Some(metrics)), ("conditions", conditions)] {
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            status.insert(name.into(), Value::Array(values));
        }
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric.get("type").is_some_and(|kind| kind == "Resource")
        && metric.pointer("/resource/name").is_some_and(|name| name == "cpu")
        && metric.pointer("/resource/target/averageUtilization").is_some_and(Value::is_number)
}

/// v1 does not say of which type a target is; it follows from the fields that are there.
fn add_target_type(metric: &mut Value) {
    each_source(metric, |_, _, source| {
        let Some(Value::Object(target)) = source.get_mut("target") else { return };
        let kind = if target.contains_key("averageUtilization") {
            "Utilization"
        } else if target.contains_key("averageValue") {
            "AverageValue"
        } else {
            "Value"
        };
        target.insert("type".into(), kind.into());
    });
}

fn each_source(metric: &mut Value, mut change: impl FnMut(Fields, Fields, &mut Map<String, Value>)) {
    for (name, spec, status) in SOURCES {
        if let Some(Value::Object(source)) = metric.get_mut(*name) {
            change(spec, status, source);
        }
    }
}

/// From v2's nested fields to v1's flat ones.
fn flatten(source: &mut Map<String, Value>, fields: Fields) {
    let mut flat = Vec::new();
    for (name, place) in fields {
        let value = match place {
            [outer, inner] => {
                source.get_mut(*outer).and_then(Value::as_object_mut).and_then(|map| map.remove(*inner))
            }
            [outer] => source.remove(*outer),
            _ => None,
        };
        flat.extend(value.map(|value| (*name, value)));
    }
    for outer in ["metric", "current", "target"] {
        source.remove(outer);
    }
    source.extend(flat.into_iter().map(|(name, value)| (name.to_owned(), value)));
}

/// From v1's flat fields to v2's nested ones.
fn nest(source: &mut Map<String, Value>, fields: Fields) {
    let mut taken = Vec::new();
    for (name, place) in fields {
        taken.extend(source.remove(*name).map(|value| (*place, value)));
    }
    for (place, value) in taken {
        match place {
            [outer, inner] => {
                let nested = source.entry(*outer).or_insert_with(|| json!({}));
                if let Some(nested) = nested.as_object_mut() {
                    nested.insert((*inner).to_owned(), value);
                }
            }
            [outer] => {
                source.insert((*outer).to_owned(), value);
            }
            _ => {}
        }
    }
}

fn object<'a>(map: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(name)?.as_object_mut()
}

fn take_array(map: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match map.remove(name) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    }
}

fn drop_annotations(hpa: &mut Map<String, Value>) {
    let Some(metadata) = object(hpa, "metadata") else { return };
    let Some(annotations) = object(metadata, "annotations") else { return };
    for name in [METRICS, CURRENT_METRICS, BEHAVIOR, CONDITIONS] {
        annotations.remove(name);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn annotate(hpa: &mut Map<String, Value>, name: &str, value: String) {
    let metadata = hpa.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(name.to_owned(), value.into());
    }
}

/// Renames every field of an object and of the objects in it.
fn recased(value: Value, rename_field: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().map(|(name, value)| (rename_field(&name), recased(value, rename_field))).collect()
        }
        Value::Array(values) => values.into_iter().map(|value| recased(value, rename_field)).collect(),
        other => other,
    }
}

fn upper_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
}
