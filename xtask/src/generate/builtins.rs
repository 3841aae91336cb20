//! The definitions of the built-in kinds, from the schemas that the Python package `kubernetes-validate` carries.
//!
//! The package made them from the published OpenAPI v2 document for the use of JSON Schema validators. What it
//! changed for them is changed back here, prose is left behind, and only what the served kinds reach is kept.
//! One definition per line, sorted, so that a new version of Kubernetes shows as a readable difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use objects::GroupVersionKind;
use serde_json::{Map, Value, json};

const PACKAGE: &str = "kubernetes-validate==1.37.0";
const MEMBER: &str = "kubernetes_validate/kubernetes-json-schema/v1.36.0-local/_definitions.json";

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Definitions that no served kind refers to, but the documents and the server's own bodies do.
const ALSO: &[(&str, &[&str])] = &[
    (META, &["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "LabelSelector"]),
    (META, &["ListMeta", "ObjectMeta", "Patch", "Status", "WatchEvent"]),
    ("io.k8s.apimachinery.pkg.version", &["Info"]),
];

/// Defaults that upstream publishes in OpenAPI v3 alone. Keys of lists are among them, so they matter to
/// server-side apply.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("AzureDiskVolumeSource", "cachingMode", "\"ReadWrite\""),
    ("AzureDiskVolumeSource", "fsType", "\"ext4\""),
    ("AzureDiskVolumeSource", "kind", "\"Shared\""),
    ("ContainerPort", "protocol", "\"TCP\""),
    ("DeviceToleration", "operator", "\"Equal\""),
    ("ISCSIPersistentVolumeSource", "iscsiInterface", "\"default\""),
    ("ISCSIVolumeSource", "iscsiInterface", "\"default\""),
    ("RBDPersistentVolumeSource", "keyring", "\"/etc/ceph/keyring\""),
    ("RBDPersistentVolumeSource", "pool", "\"rbd\""),
    ("RBDPersistentVolumeSource", "user", "\"admin\""),
    ("RBDVolumeSource", "keyring", "\"/etc/ceph/keyring\""),
    ("RBDVolumeSource", "pool", "\"rbd\""),
    ("RBDVolumeSource", "user", "\"admin\""),
    ("ReplicationControllerSpec", "replicas", "1"),
    ("ScaleIOPersistentVolumeSource", "fsType", "\"xfs\""),
    ("ScaleIOPersistentVolumeSource", "storageMode", "\"ThinProvisioned\""),
    ("ScaleIOVolumeSource", "fsType", "\"xfs\""),
    ("ScaleIOVolumeSource", "storageMode", "\"ThinProvisioned\""),
    ("ServicePort", "protocol", "\"TCP\""),
];

type Definitions = BTreeMap<String, Value>;

/// The content of `definitions.jsonl`.
pub fn definitions() -> anyhow::Result<String> {
    let published = published()?;
    let mut all = Definitions::new();
    for (name, schema) in &published {
        all.insert(name.clone(), restored(name, schema));
    }
    add_defaults(&mut all)?;
    let kept = reachable(&all, roots(&all)?)?;
    let mut content = String::new();
    for name in kept {
        let schema = all.get(&name).context("a reachable definition is defined")?;
        content.push_str(&serde_json::to_string(&json!({ name: schema }))?);
        content.push('\n');
    }
    Ok(content)
}

/// The definitions as the package has them.
fn published() -> anyhow::Result<Map<String, Value>> {
    let folder = tempfile::tempdir()?;
    let download =
        ["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", PACKAGE, "--dest"];
    python(&download, folder.path())?;
    let wheel = only_file(folder.path())?;
    // A wheel is a zip archive, and whoever has pip has Python's reader of them.
    let wheel = wheel.to_str().context("the temporary folder has a printable name")?;
    python(&["-m", "zipfile", "-e", wheel], folder.path())?;
    let text = std::fs::read_to_string(folder.path().join(MEMBER)).with_context(|| format!("no {MEMBER}"))?;
    let Value::Object(mut document) = serde_json::from_str(&text)? else { bail!("{MEMBER} is no object") };
    match document.remove("$defs") {
        Some(Value::Object(definitions)) => Ok(definitions),
        _ => bail!("{MEMBER} has no $defs"),
    }
}

fn python(arguments: &[&str], folder: &Path) -> anyhow::Result<()> {
    let status =
        Command::new("python3").args(arguments).arg(folder).status().context("cannot run python3")?;
    ensure!(status.success(), "python3 {} ended with {status}", arguments.join(" "));
    Ok(())
}

fn only_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    match files.as_slice() {
        [file] => Ok(file.path()),
        _ => bail!("expected one downloaded file, found {}", files.len()),
    }
}

/// A definition as Kubernetes published it, without prose.
fn restored(name: &str, schema: &Value) -> Value {
    match name {
        INT_OR_STRING => return json!({"type": "string", "format": "int-or-string"}),
        QUANTITY => return json!({"type": "string"}),
        _ => {}
    }
    let mut restored = structure(schema);
    let is_kind = restored.get(GROUP_VERSION_KIND).is_some();
    if let (true, Some(Value::Object(properties))) = (is_kind, restored.get_mut("properties")) {
        // The package pins these to the kind's own; upstream leaves them open.
        for pinned in ["apiVersion", "kind"] {
            if let Some(Value::Object(property)) = properties.get_mut(pinned) {
                property.remove("enum");
            }
        }
    }
    if let Some(Value::Array(kinds)) = restored.get_mut(GROUP_VERSION_KIND) {
        kinds.retain(is_served);
    }
    restored
}

/// Kinds like `DeleteOptions` belong to every version that ever was; only those served matter.
fn is_served(kind: &Value) -> bool {
    let text = |word: &str| kind.get(word).and_then(Value::as_str).unwrap_or_default();
    builtins::types().iter().any(|row| row.group == text("group") && row.version == text("version"))
}

fn structure(schema: &Value) -> Value {
    let Value::Object(words) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (word, value) in words {
        let value = match word.as_str() {
            "description" => continue,
            "$ref" => value.as_str().map_or(Value::Null, |r| r.replace("#/$defs/", "#/definitions/").into()),
            // Absence is allowed as null by the package; by Kubernetes without saying so.
            "type" => first_type(value),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                Value::Object(properties.map(|(name, schema)| (name.clone(), structure(schema))).collect())
            }
            "items" | "additionalProperties" => structure(value),
            _ => value.clone(),
        };
        kept.insert(word.clone(), value);
    }
    // Sorted whatever map serde_json was built with.
    let sorted: BTreeMap<String, Value> = kept.into_iter().collect();
    Value::Object(sorted.into_iter().collect())
}

fn first_type(value: &Value) -> Value {
    value.as_array().and_then(|types| types.first()).unwrap_or(value).clone()
}

fn add_defaults(all: &mut Definitions) -> anyhow::Result<()> {
    for (definition, property, default) in DEFAULTS {
        let mut found = false;
        for (name, schema) in all.iter_mut() {
            if name.rsplit('.').next() != Some(definition) {
                continue;
            }
            if let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/{property}")) {
                property.insert("default".to_owned(), serde_json::from_str(default)?);
                found = true;
            }
        }
        ensure!(found, "no definition has {definition}.{property}: is its default still published?");
    }
    Ok(())
}

/// Where the search starts: the served kinds with their lists and subresources, and [`ALSO`].
fn roots(all: &Definitions) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for (package, kinds) in ALSO {
        names.extend(kinds.iter().map(|kind| format!("{package}.{kind}")));
    }
    let by_kind = by_kind(all);
    for row in builtins::types() {
        let own = row.gvk();
        names.push(by_kind.get(&own).cloned().with_context(|| format!("no definition of {own}"))?);
        let list = row.group_version().with_kind(row.list_kind.clone());
        let subresources = row.subresources.iter().map(|sub| sub.kind.clone());
        // Neither a review's list nor the options of a stream are published.
        names.extend(subresources.chain([list]).filter_map(|kind| by_kind.get(&kind).cloned()));
    }
    Ok(names)
}

fn by_kind(all: &Definitions) -> BTreeMap<GroupVersionKind, String> {
    let mut found = BTreeMap::new();
    for (name, schema) in all {
        for kind in schema.get(GROUP_VERSION_KIND).and_then(Value::as_array).into_iter().flatten() {
            let text = |word: &str| kind.get(word).and_then(Value::as_str).unwrap_or_default().to_owned();
            found.insert(GroupVersionKind::new(text("group"), text("version"), text("kind")), name.clone());
        }
    }
    found
}

fn reachable(all: &Definitions, roots: Vec<String>) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut next = roots;
    while let Some(name) = next.pop() {
        if found.contains(&name) {
            continue;
        }
        let schema = all.get(&name).with_context(|| format!("{name} is not defined"))?;
        references(schema, &mut next);
        found.insert(name);
    }
    Ok(found)
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(words) => {
            for (word, value) in words {
                match value.as_str().and_then(|text| text.strip_prefix("#/definitions/")) {
                    Some(name) if word == "$ref" => into.push(name.to_owned()),
                    _ => references(value, into),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, packaged: Value, expected: Value) {
        assert_eq!(restored(name, &packaged), expected);
    }

    #[test]
    fn what_the_package_changed_is_changed_back() {
        let kind = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
        check(
            "io.k8s.api.core.v1.Pod",
            json!({"description": "prose", "type": ["object", "null"], GROUP_VERSION_KIND: kind, "properties": {
                "kind": {"type": ["string", "null"], "enum": ["Pod"]},
                "description": {"type": "string", "description": "a field that is called so"},
                "spec": {"$ref": "#/$defs/io.k8s.api.core.v1.PodSpec"},
            }}),
            json!({"type": "object", GROUP_VERSION_KIND: kind, "properties": {
                "kind": {"type": "string"},
                "description": {"type": "string"},
                "spec": {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"},
            }}),
        );
        check(QUANTITY, json!({"oneOf": []}), json!({"type": "string"}));
        check(INT_OR_STRING, json!({"oneOf": []}), json!({"type": "string", "format": "int-or-string"}));
    }

    #[test]
    fn versions_that_are_not_served_are_no_kinds() {
        let kinds = json!([
            {"group": "apps", "version": "v1", "kind": "DeleteOptions"},
            {"group": "apps", "version": "v1beta1", "kind": "DeleteOptions"},
        ]);
        let served = json!([{"group": "apps", "version": "v1", "kind": "DeleteOptions"}]);
        check("x.DeleteOptions", json!({ GROUP_VERSION_KIND: kinds }), json!({ GROUP_VERSION_KIND: served }));
    }

    #[test]
    fn only_what_is_reached_is_kept() {
        let reference = |name: &str| json!({"items": {"$ref": format!("#/definitions/{name}")}});
        let all: Definitions = [("a", reference("b")), ("b", reference("a")), ("c", json!({}))]
            .map(|(n, s)| (n.to_owned(), s))
            .into();
        let kept = reachable(&all, vec!["a".to_owned()]).unwrap();
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(reachable(&all, vec!["d".to_owned()]).is_err());
    }
}
