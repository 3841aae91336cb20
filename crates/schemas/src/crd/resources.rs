//! The rows of the table of types that a definition makes.

use objects::{CompactString, GroupVersionKind, ResourceType, Scope, Subresource, Verb, Verbs};
use serde_json::Value;

use super::status::is_condition_true;
use super::{flag, list, present, text, versions, versions_of};

/// What is left of the verbs while a definition goes away: nothing new.
const WHILE_TERMINATING: Verbs =
    Verbs::of(&[Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch]);
const OF_SUBRESOURCE: Verbs = Verbs::of(&[Verb::Get, Verb::Patch, Verb::Update]);

/// One type per served version, the preferred version first, under the names that were accepted (or, before
/// that, asked for).
pub fn resource_types(definition: &Value) -> Vec<ResourceType> {
    let Some(spec) = definition.get("spec") else { return Vec::new() };
    let accepted =
        definition.pointer("/status/acceptedNames").filter(|names| !text(names, "plural").is_empty());
    let Some(names) = accepted.or_else(|| spec.get("names")) else { return Vec::new() };
    let word = |field: &str| CompactString::from(text(names, field));
    let words =
        |field: &str| list(names, field).iter().filter_map(Value::as_str).map(CompactString::from).collect();
    let group = CompactString::from(text(spec, "group"));
    let scope = if text(spec, "scope") == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
    let verbs = if is_condition_true(definition, "Terminating") { WHILE_TERMINATING } else { Verbs::ALL };

    let mut served: Vec<&Value> =
        versions_of(definition).iter().filter(|version| flag(version, "served")).collect();
    served.sort_by(|a, b| versions::compare(text(a, "name"), text(b, "name")));
    let row = |version: &&Value| {
        let name = CompactString::from(text(version, "name"));
        let own = GroupVersionKind { group: group.clone(), version: name.clone(), kind: word("kind") };
        ResourceType {
            group: group.clone(),
            version: name,
            kind: word("kind"),
            list_kind: word("listKind"),
            plural: word("plural"),
            singular: word("singular"),
            short_names: words("shortNames"),
            categories: words("categories"),
            scope,
            verbs,
            subresources: subresources(version, own),
        }
    };
    served.iter().map(row).collect()
}

fn subresources(version: &Value, own: GroupVersionKind) -> Vec<Subresource> {
    let Some(given) = version.get("subresources") else { return Vec::new() };
    let scale = GroupVersionKind { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into() };
    [("status", own), ("scale", scale)]
        .into_iter()
        .filter(|(name, _)| present(given, name).is_some())
        .map(|(name, kind)| Subresource { name: name.into(), kind, verbs: OF_SUBRESOURCE })
        .collect()
}
