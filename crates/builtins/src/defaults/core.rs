//! Namespaces, configuration, quotas, nodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value, meta};
use serde_json::{Map, json};

use super::empty;
use crate::dotted::Dotted;
use crate::resources;

/// Every namespace can be selected by its own name.
pub(crate) fn namespace(namespace: &mut Value) {
    empty(namespace, &["spec", "status"]);
    namespace.default("status.phase", "Active");
    let name = meta::name(namespace).to_owned();
    if name.is_empty() {
        return;
    }
    let labels =
        meta::metadata_mut(namespace).map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

/// `stringData` is a way to write `data`, and is gone once it is written.
pub(crate) fn secret(secret: &mut Value) {
    secret.default("type", "Opaque");
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = json!({});
    }
    if let Some(data) = data.as_object_mut() {
        for (key, value) in plain {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or("")).into());
        }
    }
}

pub(crate) fn limit_range(range: &mut Value) {
    const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    for limit in range.items_mut("spec.limits") {
        resources::canonical(limit, &LISTS);
        if limit.text("type") == "Container" {
            // The default limit is the maximum; the default request is the default limit, else the minimum.
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                fill_from(limit, from, to);
            }
        }
    }
}

fn fill_from(holder: &mut Value, from: &str, to: &str) {
    let source = holder.at(from).as_object().cloned().unwrap_or_default();
    if source.is_empty() {
        return;
    }
    empty(holder, &[to]);
    if let Some(target) = holder.at_mut(to).and_then(Value::as_object_mut) {
        for (name, amount) in source {
            target.entry(name).or_insert(amount);
        }
    }
}

pub(crate) fn resource_quota(quota: &mut Value) {
    empty(quota, &["spec", "status"]);
    resources::canonical(quota, &["spec.hard", "status.hard", "status.used"]);
}

pub(crate) fn node(node: &mut Value) {
    empty(node, &["spec", "status"]);
    resources::canonical(node, &["status.capacity", "status.allocatable"]);
    if !node.has("status.allocatable") && node.has("status.capacity") {
        let capacity = node.at("status.capacity").clone();
        node.put("status.allocatable", capacity);
    }
    let (one, first) = (
        node.text("spec.podCIDR").to_owned(),
        node.texts("spec.podCIDRs").first().map_or("", |cidr| cidr).to_owned(),
    );
    if one.is_empty() && !first.is_empty() {
        node.put("spec.podCIDR", first);
    } else if one != first {
        node.put("spec.podCIDRs", json!([one]));
    }
}
