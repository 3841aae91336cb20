//! One rule of a role, and what it allows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::authorize::{Attributes, Target};

const ALL: &str = "*";

/// A `PolicyRule`: verbs on resources, or verbs on paths outside the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Go writes an empty list as null, and people do too.
fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Rule {
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.target {
            Target::Resource { group, resource, subresource, name, .. } => {
                has_or_all(&self.api_groups, group)
                    && self.resources.iter().any(|rule| resource_matches(rule, resource, subresource))
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
            Target::Path(path) => self.non_resource_urls.iter().any(|rule| url_covers(rule, path)),
        }
    }

    /// Whether everything that `part` allows is allowed by this rule. `part` has at most one entry in
    /// each list (see [`Rule::parts`]), so that it is covered by one rule or by none.
    pub(super) fn covers(&self, part: &Rule) -> bool {
        let names = if part.resource_names.is_empty() {
            self.resource_names.is_empty()
        } else {
            self.resource_names.is_empty()
                || part.resource_names.iter().all(|one| has(&self.resource_names, one))
        };
        names
            && part.verbs.iter().all(|one| has_or_all(&self.verbs, one))
            && part.api_groups.iter().all(|one| has_or_all(&self.api_groups, one))
            && part.resources.iter().all(|one| self.covers_resource(one))
            && part
                .non_resource_urls
                .iter()
                .all(|one| self.non_resource_urls.iter().any(|url| url_covers(url, one)))
    }

    fn covers_resource(&self, wanted: &str) -> bool {
        let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
        self.resources.iter().any(|rule| resource_matches(rule, resource, subresource))
    }

    /// The rule taken apart into rules with one group, one resource, one verb and one name each.
    pub(super) fn parts(&self) -> Vec<Rule> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    let named = |name| Rule { resource_names: one(name), ..part.clone() };
                    parts.extend(self.resource_names.iter().map(named));
                }
            }
        }
        for url in &self.non_resource_urls {
            let of_verb = |verb| Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() };
            parts.extend(self.verbs.iter().map(of_verb));
        }
        parts
    }
}

/// As in messages about escalation: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        let shown = lists.iter().filter(|(_, list)| !list.is_empty());
        for (i, (name, list)) in shown.enumerate() {
            write!(f, "{}{name}:{}", if i == 0 { "" } else { ", " }, quoted(list))?;
        }
        f.write_str("}")
    }
}

/// A list as Go's `%q` prints it: `["a" "b"]`.
pub(super) fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn has(list: &[String], item: &str) -> bool {
    list.iter().any(|one| one == item)
}

fn has_or_all(list: &[String], item: &str) -> bool {
    list.iter().any(|one| one == ALL || one == item)
}

/// `*` is everything, `pods` is pods without subresources, `pods/log` is one of them, `*/scale` is the
/// scale of everything.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some((of, part)) => !subresource.is_empty() && part == subresource && (of == ALL || of == resource),
    }
}

fn url_covers(rule: &str, path: &str) -> bool {
    rule == path || rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rules over a few words, so that they often meet.
    pub(in super::super) fn any_rule() -> impl Strategy<Value = Rule> {
        let some = |words: &'static str| proptest::collection::vec(words, 0..3);
        let resources = some("\\*|pods|jobs|pods/log|\\*/scale|jobs/scale");
        (some("\\*|get|list"), some("\\*||apps"), resources, some("a|b")).prop_map(
            |(verbs, api_groups, resources, resource_names)| Rule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls: Vec::new(),
            },
        )
    }

    fn rule(json: &str) -> Rule {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn resources() {
        fn check(rule_resource: &str, resource: &str, subresource: &str, expected: bool) {
            let got = resource_matches(rule_resource, resource, subresource);
            assert_eq!(got, expected, "{rule_resource} {resource} {subresource}");
        }
        check("*", "pods", "", true);
        check("*", "pods", "log", true);
        check("pods", "pods", "", true);
        check("pods", "pods", "log", false);
        check("pods/log", "pods", "log", true);
        check("pods/log", "pods", "", false);
        check("pods/*", "pods", "log", false);
        check("*/scale", "deployments", "scale", true);
        check("*/scale", "deployments", "status", false);
        check("*/scale", "deployments", "", false);
        check("*/", "deployments", "", false);
    }

    #[test]
    fn urls() {
        fn check(rule: &str, path: &str, expected: bool) {
            assert_eq!(url_covers(rule, path), expected, "{rule} {path}");
        }
        check("*", "/anything", true);
        check("/healthz", "/healthz", true);
        check("/healthz", "/healthz/etcd", false);
        check("/healthz/*", "/healthz/etcd", true);
        check("/healthz/*", "/healthz", false);
        check("/api*", "/apis", true);
        check("/a*/b", "/ax/b", false);
    }

    #[test]
    fn requests() {
        fn check(json: &str, attributes: Attributes<'_>, expected: bool) {
            assert_eq!(rule(json).allows(&attributes), expected, "{json} {attributes:?}");
        }
        let pods = r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","pods/log"]}"#;
        check(pods, Attributes::resource("get", "", "pods").namespace("n").name("p"), true);
        check(pods, Attributes::resource("get", "", "pods").subresource("log"), true);
        check(pods, Attributes::resource("get", "", "pods").subresource("exec"), false);
        check(pods, Attributes::resource("delete", "", "pods"), false);
        check(pods, Attributes::resource("get", "apps", "pods"), false);
        check(pods, Attributes::path("get", "/pods"), false);
        let named = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"resourceNames":["a","b"]}"#;
        check(named, Attributes::resource("get", "x", "y").name("a"), true);
        check(named, Attributes::resource("get", "x", "y").name("c"), false);
        check(named, Attributes::resource("list", "x", "y"), false);
        let urls = r#"{"verbs":["get"],"nonResourceURLs":["/logs/*"]}"#;
        check(urls, Attributes::path("get", "/logs/a"), true);
        check(urls, Attributes::path("post", "/logs/a"), false);
        check(urls, Attributes::resource("get", "", "logs"), false);
        check(r#"{"verbs":null}"#, Attributes::path("get", "/"), false);
    }

    #[test]
    fn shown_as_upstream() {
        let text = rule(r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["a"]}"#);
        assert_eq!(
            text.to_string(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#
        );
    }
}
