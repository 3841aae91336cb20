//! Which version of a group is preferred, and what is said about those that are going.

use std::cmp::Ordering;

use objects::Value;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// The parts of `v1`, `v2beta3`; `None` for names of another kind.
fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let (stability, minor) = if rest.is_empty() {
        (Stability::Stable, "0")
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (Stability::Beta, minor)
    } else {
        (Stability::Alpha, rest.strip_prefix("alpha")?)
    };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((stability, number(major)?, number(minor)?))
}

/// The preferred version first: stable before beta before alpha, higher numbers before lower; names of another
/// kind last, in alphabetical order.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// What whoever uses a deprecated version is told, by the definition's own words or by naming a better one.
pub fn deprecation(crd: &Value, version: &str) -> Option<String> {
    let spec = crd.get("spec")?;
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |value: &Value, field: &str| value.get(field).and_then(Value::as_bool).unwrap_or(false);
    let versions = spec.get("versions")?.as_array()?;
    let row = versions.iter().find(|row| text(row, "name") == version)?;
    if !is(row, "deprecated") {
        return None;
    }
    if let Some(warning) = row.get("deprecationWarning").and_then(Value::as_str) {
        return Some(warning.to_owned());
    }
    let (group, kind) = (text(spec, "group"), text(spec.get("names")?, "kind"));
    let better = versions
        .iter()
        .filter(|row| is(row, "served") && !is(row, "deprecated"))
        .map(|row| text(row, "name"));
    let better = better.filter(|name| compare(name, version) == Ordering::Less).min_by(|a, b| compare(a, b));
    let mut message = format!("{group}/{version} {kind} is deprecated");
    if let Some(better) = better {
        message.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deprecated_versions_name_a_better_one() {
        let row =
            |name: &str, deprecated: bool| json!({"name": name, "served": true, "deprecated": deprecated});
        let check = |versions: Vec<Value>, version: &str, expected: Option<&str>| {
            let crd = json!({"spec": {"group": "e.com", "names": {"kind": "W"}, "versions": versions}});
            assert_eq!(deprecation(&crd, version).as_deref(), expected);
        };
        check(vec![row("v1", false)], "v1", None);
        check(vec![row("v1", true)], "v1", Some("e.com/v1 W is deprecated"));
        check(vec![row("v1", true)], "v2", None);
        let three = || vec![row("v1beta1", true), row("v1", false), row("v2", false)];
        check(three(), "v1beta1", Some("e.com/v1beta1 W is deprecated; use e.com/v2 W"));
        check(vec![row("v2", true), row("v1", false)], "v2", Some("e.com/v2 W is deprecated"));
        let mut own = row("v1", true);
        own["deprecationWarning"] = json!("go away");
        check(vec![own], "v1", Some("go away"));
    }

    #[test]
    fn preferred_first() {
        let mut versions = [
            "foo1",
            "v1alpha1",
            "v11beta2",
            "v10",
            "v2",
            "v10beta3",
            "v12alpha1",
            "foo10",
            "v3beta1",
            "v1x",
            "v",
        ];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v1alpha1",
                "foo1",
                "foo10",
                "v",
                "v1x"
            ]
        );
    }
}
