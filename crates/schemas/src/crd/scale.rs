//! The fields of an object that its scale subresource reads and writes.

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::Value;

use super::text;

/// Checks an object of a version with this `subresources.scale`: counts must be counts that a `Scale` can hold,
/// the selector must be text. A write to the status alone leaves `spec` unchecked.
#[must_use]
pub fn validate_scale(scale: &Value, object: &Value, status_only: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let counts = ["specReplicasPath", "statusReplicasPath"];
    for field in counts.into_iter().skip(usize::from(status_only)) {
        let path = text(scale, field);
        let found = at(object, path);
        let error = |value: Value, detail: String| Error::invalid(&Path::new(path), value, detail);
        match found.map(|value| value.as_i64().ok_or(value)) {
            None => {}
            Some(Err(odd)) => errors.push(error(0.into(), wrong_type(path, odd, "int64"))),
            Some(Ok(count)) if count < 0 => {
                errors.push(error(count.into(), "should be a non-negative integer".to_owned()));
            }
            Some(Ok(count)) if count > i64::from(i32::MAX) => {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(error(count.into(), detail));
            }
            Some(Ok(_)) => {}
        }
    }
    let path = text(scale, "labelSelectorPath");
    if let Some(odd) = at(object, path).filter(|value| !value.is_string()) {
        errors.push(Error::invalid(&Path::new(path), "", wrong_type(path, odd, "string")));
    }
    errors
}

/// The value at a path such as `.spec.replicas`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.strip_prefix('.')?;
    path.split('.').try_fold(object, |value, name| value.get(name))
}

fn wrong_type(path: &str, found: &Value, wanted: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: Value, status_only: bool, expected: &[&str]) {
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"});
        let told: Vec<String> =
            validate_scale(&scale, &object, status_only).iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{object}");
    }

    #[test]
    fn counts_and_selectors() {
        check(json!({}), false, &[]);
        check(json!({"spec": {"replicas": 3}, "status": {"replicas": 1, "selector": "a=b"}}), false, &[]);
        let below = ".spec.replicas: Invalid value: -1: should be a non-negative integer";
        check(json!({"spec": {"replicas": -1}}), false, &[below]);
        check(json!({"spec": {"replicas": -1}}), true, &[]);
        let above = ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647";
        check(json!({"status": {"replicas": 2147483648_u32}}), true, &[above]);
        let text = r#".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64"#;
        check(json!({"spec": {"replicas": "x"}}), false, &[text]);
    }
}
