//! What the server offers, as clients discover it: the legacy documents and the aggregated one.
//!
//! Every function takes the rows of a surface, built in and custom alike, in any order; the documents are
//! equal for equal sets of rows.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use objects::{GroupVersion, GroupVersionKind, ResourceType, Scope, Subresource, Verbs};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::priority::{compare_groups, compare_versions, is_builtin_group};
use crate::storage::storage_type;

/// In which version of `apidiscovery.k8s.io` the aggregated document is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatedVersion {
    V2,
    V2Beta1,
}

impl AggregatedVersion {
    pub fn as_str(self) -> &'static str {
        match self {
            AggregatedVersion::V2 => "v2",
            AggregatedVersion::V2Beta1 => "v2beta1",
        }
    }
}

/// `/api`: the versions of the core group. `address` is the host and port that clients reach the server at.
pub fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all groups but core.
pub fn group_list<'a>(rows: impl IntoIterator<Item = &'a ResourceType>) -> Value {
    let surface = Surface::of(rows);
    let groups: Vec<Value> =
        surface.named_groups().map(|(name, versions)| group_value(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`, if any row is of the group.
pub fn group<'a>(rows: impl IntoIterator<Item = &'a ResourceType>, name: &str) -> Option<Value> {
    let surface = Surface::of(rows.into_iter().filter(|row| row.group == name));
    let (_, versions) = surface.named_groups().next()?;
    let mut value = group_value(name, versions);
    let map = value.as_object_mut()?;
    map.insert("kind".into(), "APIGroup".into());
    map.insert("apiVersion".into(), "v1".into());
    Some(value)
}

fn group_value(name: &str, versions: &[VersionRows<'_>]) -> Value {
    let entry =
        |v: &VersionRows<'_>| json!({"groupVersion": format!("{name}/{}", v.version), "version": v.version});
    let mut value = json!({"name": name, "versions": versions.iter().map(entry).collect::<Vec<_>>()});
    if let Some(preferred) = versions.first() {
        value["preferredVersion"] = entry(preferred);
    }
    value
}

/// `/api/v1` and `/apis/GROUP/VERSION`, if any row is of that version.
pub fn resource_list<'a>(
    rows: impl IntoIterator<Item = &'a ResourceType>,
    version: &GroupVersion,
) -> Option<Value> {
    let of_version = |row: &&ResourceType| row.group == version.group && row.version == version.version;
    let mut rows: Vec<&ResourceType> = rows.into_iter().filter(of_version).collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| a.plural.cmp(&b.plural));
    let mut resources = Vec::new();
    for row in rows {
        resources.push(resource_value(row));
        resources.extend(sorted(&row.subresources).into_iter().map(|sub| subresource_value(row, sub)));
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version.to_string(),
        "resources": resources,
    }))
}

fn resource_value(row: &ResourceType) -> Value {
    let mut value = json!({
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.is_namespaced(),
        "kind": row.kind,
        "verbs": verbs_value(row.verbs),
    });
    if let Value::Object(map) = &mut value {
        insert_names(map, row);
        if let Some(hash) = storage_version_hash(row) {
            map.insert("storageVersionHash".into(), hash.into());
        }
    }
    value
}

fn subresource_value(row: &ResourceType, sub: &Subresource) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", row.plural, sub.name),
        "singularName": "",
        "namespaced": row.is_namespaced(),
        "kind": sub.kind.kind,
        "verbs": verbs_value(sub.verbs),
    });
    if sub.kind.group_version() != row.group_version() {
        value["group"] = sub.kind.group.as_str().into();
        value["version"] = sub.kind.version.as_str().into();
    }
    value
}

/// `/api` for clients that ask for the aggregated form: the core group.
pub fn aggregated_core<'a>(
    rows: impl IntoIterator<Item = &'a ResourceType>,
    version: AggregatedVersion,
) -> Value {
    aggregated_list(&Surface::of(rows.into_iter().filter(|row| row.group.is_empty())), version)
}

/// `/apis` for clients that ask for the aggregated form: all other groups.
pub fn aggregated<'a>(rows: impl IntoIterator<Item = &'a ResourceType>, version: AggregatedVersion) -> Value {
    aggregated_list(&Surface::of(rows.into_iter().filter(|row| !row.group.is_empty())), version)
}

fn aggregated_list(surface: &Surface<'_>, version: AggregatedVersion) -> Value {
    let group = |(name, versions): &(&str, Vec<VersionRows<'_>>)| {
        let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        json!({"metadata": metadata, "versions": versions.iter().map(aggregated_version).collect::<Vec<_>>()})
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{}", version.as_str()),
        "metadata": {},
        "items": surface.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn aggregated_version(version: &VersionRows<'_>) -> Value {
    let resources: Vec<Value> = version.rows.iter().map(|row| aggregated_resource(row)).collect();
    json!({"version": version.version, "freshness": "Current", "resources": resources})
}

fn aggregated_resource(row: &ResourceType) -> Value {
    let scope = match row.scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    };
    let mut value = json!({
        "resource": row.plural,
        "responseKind": response_kind(row, &row.gvk()),
        "scope": scope,
        "singularResource": row.singular,
        "verbs": verbs_value(row.verbs),
    });
    if let Value::Object(map) = &mut value {
        insert_names(map, row);
        if !row.subresources.is_empty() {
            let subresources = sorted(&row.subresources).into_iter().map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": response_kind(row, &sub.kind),
                    "verbs": verbs_value(sub.verbs),
                })
            });
            map.insert("subresources".into(), subresources.collect());
        }
    }
    value
}

/// Upstream leaves the group and version of a built-in kind empty where they are those of the list,
/// and spells them out for custom resources. Clients take both; comparisons with upstream do not.
fn response_kind(row: &ResourceType, kind: &GroupVersionKind) -> Value {
    if is_builtin_group(&row.group) && kind.group_version() == row.group_version() {
        return json!({"group": "", "version": "", "kind": kind.kind});
    }
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn insert_names(map: &mut Map<String, Value>, row: &ResourceType) {
    if !row.short_names.is_empty() {
        map.insert("shortNames".into(), json!(row.short_names));
    }
    if !row.categories.is_empty() {
        map.insert("categories".into(), json!(row.categories));
    }
}

fn verbs_value(verbs: Verbs) -> Value {
    verbs.iter().map(|verb| Value::from(verb.as_str())).collect()
}

fn sorted(subresources: &[Subresource]) -> Vec<&Subresource> {
    let mut sorted: Vec<&Subresource> = subresources.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}

/// Names the version in which a resource is stored; only for what is stored, and only for built-in kinds
/// (a row of a custom resource does not say which of its versions is the stored one).
fn storage_version_hash(row: &ResourceType) -> Option<String> {
    if !row.verbs.has(objects::Verb::Create) || !row.verbs.has(objects::Verb::Get) {
        return None;
    }
    let (resource, version) = storage_type(&row.group_resource())?;
    let digest = Sha256::digest(format!("{}/{version}/{}", resource.group, row.kind));
    Some(BASE64.encode(digest.get(..8)?))
}

/// The rows of one version of a group, sorted by plural.
struct VersionRows<'a> {
    version: &'a str,
    rows: Vec<&'a ResourceType>,
}

/// Rows put in order: groups by priority, versions by preference, resources by name.
struct Surface<'a> {
    groups: Vec<(&'a str, Vec<VersionRows<'a>>)>,
}

impl<'a> Surface<'a> {
    fn of(rows: impl IntoIterator<Item = &'a ResourceType>) -> Surface<'a> {
        let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<&ResourceType>>> = BTreeMap::new();
        for row in rows {
            groups.entry(&row.group).or_default().entry(&row.version).or_default().push(row);
        }
        let mut groups: Vec<_> =
            groups.into_iter().map(|(name, versions)| (name, in_order(versions))).collect();
        groups.sort_by(|(a, _), (b, _)| compare_groups(a, b));
        Surface { groups }
    }

    fn named_groups(&self) -> impl Iterator<Item = (&'a str, &[VersionRows<'a>])> {
        self.groups
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, versions)| (*name, versions.as_slice()))
    }
}

fn in_order<'a>(versions: BTreeMap<&'a str, Vec<&'a ResourceType>>) -> Vec<VersionRows<'a>> {
    let mut versions: Vec<_> =
        versions.into_iter().map(|(version, rows)| VersionRows { version, rows }).collect();
    versions.sort_by(|a, b| compare_versions(a.version, b.version));
    for version in &mut versions {
        version.rows.sort_by(|a, b| a.plural.cmp(&b.plural));
    }
    versions
}

#[cfg(test)]
mod tests;
