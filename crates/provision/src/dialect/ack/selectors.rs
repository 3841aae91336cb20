//! `IAMRoleSelector`: which role an object's calls are made with.
//!
//! Between the parts of a selector stands "and", inside of a list "or"; a part that is not given matches anything.

use objects::{Value, meta};

use crate::driver::RoleSelected;
use crate::facts::Facts;
use crate::failure::Failure;

/// As it is stored.
pub const KIND: &str = "iamroleselectors.services.k8s.aws";

fn labels_match(wanted: Option<&Value>, object: Option<&Value>) -> bool {
    let Some(wanted) = wanted.and_then(|selector| selector.get("matchLabels")).and_then(Value::as_object)
    else {
        return true;
    };
    let labels = object.and_then(meta::labels);
    wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter()
}

fn matches(selector: &Value, facts: &Facts, object: &Value, namespace: Option<&Value>) -> bool {
    let spec = &selector["spec"];
    let by_namespace = spec.get("namespaceSelector").is_none_or(|wanted| {
        let names = wanted.get("names");
        let named =
            texts(names).next().is_none() || texts(names).any(|name| *name == meta::namespace(object));
        named && labels_match(wanted.get("labelSelector"), namespace)
    });
    let version = meta::api_version(object).rsplit('/').next().unwrap_or("");
    let of_type = |wanted: &Value| {
        let is =
            |field: &str, value: &str| wanted.get(field).is_none_or(|text| *text == "" || *text == value);
        is("group", facts.group()) && is("version", version) && is("kind", &facts.kind)
    };
    let types = spec.get("resourceTypeSelector");
    let by_type = texts(types).next().is_none() || texts(types).any(of_type);
    by_namespace && by_type && labels_match(spec.get("resourceLabelSelector"), Some(object))
}

/// The one selector that matches, if any. More than one is an error: nobody can tell which was meant.
pub fn select(
    selectors: &[Value],
    facts: &Facts,
    object: &Value,
    namespace: Option<&Value>,
) -> Result<Option<RoleSelected>, Failure> {
    let mut found = selectors.iter().filter(|one| matches(one, facts, object, namespace));
    let Some(selector) = found.next() else { return Ok(None) };
    let others: Vec<&str> = found.map(meta::name).collect();
    if !others.is_empty() {
        let names = [&[meta::name(selector)], others.as_slice()].concat().join(", ");
        return Err(Failure::recoverable(format!("more than one IAMRoleSelector matches: {names}")));
    }
    Ok(Some(RoleSelected {
        arn: selector["spec"]["arn"].as_str().unwrap_or("").to_owned(),
        selector: meta::name(selector).to_owned(),
        resource_version: meta::resource_version(selector).to_owned(),
    }))
}
