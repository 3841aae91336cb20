//! What must hold of every object's `metadata`, when it is made and when it is changed.
//!
//! Mirrors `ValidateObjectMeta` and `ValidateObjectMetaUpdate` of `k8s.io/apimachinery/pkg/api/validation`. The system's
//! own fields (uid, creationTimestamp, ...) are expected to be filled in already.

use serde_json::{Map, Value};

use crate::field::{self, Error, ErrorList, Path};
use crate::{GroupVersion, equal, meta, names};

/// All keys and values of the annotations of an object together.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;

const FIELD_MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Of a whole object, at `path` (usually `metadata`). `name_rule` says what is wrong with a name of its kind.
pub fn validate(
    object: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str) -> Vec<String>,
    path: &Path,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let base = meta::text(object, "generateName");
    if !base.is_empty() {
        let wrong = name_rule(&names::as_prefix(base));
        let at = path.child("generateName");
        errors.extend(wrong.into_iter().map(|sentence| Error::invalid(&at, base, sentence)));
    }
    let (name, at) = (meta::name(object), path.child("name"));
    if name.is_empty() {
        errors.push(Error::required(&at, "name or generateName is required"));
    } else {
        errors.extend(name_rule(name).into_iter().map(|sentence| Error::invalid(&at, name, sentence)));
    }
    let (namespace, at) = (meta::namespace(object), path.child("namespace"));
    match (namespaced, namespace) {
        (true, "") => errors.push(Error::required(&at, "")),
        (true, _) => {
            let wrong = names::dns1123_label(namespace);
            errors.extend(wrong.into_iter().map(|sentence| Error::invalid(&at, namespace, sentence)));
        }
        (false, "") => {}
        (false, _) => errors.push(Error::forbidden(&at, "not allowed on this type")),
    }
    let generation = meta::generation(object);
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.child("generation"), generation, detail));
    }
    errors.extend(common(object, path));
    errors
}

/// Of an object that is to take the place of another.
pub fn validate_update(new: &Value, old: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if meta::is_deleting(old) {
        let mut added: Vec<&str> =
            meta::finalizers(new).filter(|name| meta::finalizers(old).all(|kept| kept != *name)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(Error::forbidden(&path.child("finalizers"), detail));
        }
    }
    if meta::resource_version(new).is_empty() {
        errors.push(Error::invalid(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = meta::generation(new);
    if generation < meta::generation(old) {
        errors.push(Error::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let [now, before] = [new, old].map(|object| object.get("metadata").and_then(|all| all.get(field)));
        let [now, before] =
            [now, before].map(|value| value.filter(|v| !v.is_null() && v.as_str() != Some("")));
        let same = match (now, before) {
            (Some(now), Some(before)) => equal::semantic(now, before),
            (now, before) => now.is_none() && before.is_none(),
        };
        if !same {
            errors.push(Error::invalid(&path.child(field), now.cloned().unwrap_or(Value::Null), IMMUTABLE));
        }
    }
    errors.extend(common(new, path));
    errors
}

fn common(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(all) = meta::labels(object) {
        errors.extend(labels(all, &path.child("labels")));
    }
    if let Some(all) = meta::map(object, "annotations") {
        errors.extend(annotations(all, &path.child("annotations")));
    }
    errors.extend(owner_references(meta::owner_references(object), &path.child("ownerReferences")));
    errors.extend(finalizers(object, &path.child("finalizers")));
    errors.extend(managed_fields(meta::list(object, "managedFields"), &path.child("managedFields")));
    errors
}

/// A map of labels, wherever it stands (pod templates and selectors have them too).
pub fn labels(labels: &Map<String, Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        errors.extend(
            names::qualified_name(key)
                .into_iter()
                .map(|sentence| Error::invalid(path, key.as_str(), sentence)),
        );
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            names::label_value(value).into_iter().map(|sentence| Error::invalid(path, value, sentence)),
        );
    }
    errors
}

/// A map of annotations, wherever it stands.
pub fn annotations(annotations: &Map<String, Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Case does not matter here, not even in the prefix.
        let wrong = names::qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|sentence| Error::invalid(path, key.as_str(), sentence)));
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Error::too_long(path, ANNOTATIONS_MAX));
    }
    errors
}

fn owner_references(references: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut controller: Option<String> = None;
    for reference in references {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let version = GroupVersion::parse(text("apiVersion"));
        if version.is_none() {
            let detail = "version must not be empty";
            errors.push(Error::invalid(&path.child("apiVersion"), text("apiVersion"), detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(Error::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(Error::invalid(path, reference.clone(), detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(Error::invalid(path, references.to_vec(), detail));
                }
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn finalizers(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for name in meta::finalizers(object) {
        errors.extend(
            names::qualified_name(name).into_iter().map(|sentence| Error::invalid(path, name, sentence)),
        );
    }
    let has = |wanted: &str| meta::finalizers(object).any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(path, meta::list(object, "finalizers").to_vec(), detail));
    }
    errors
}

fn managed_fields(entries: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = path.index(index);
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            errors.push(Error::invalid(
                &at.child("operation"),
                text("operation"),
                "must be `Apply` or `Update`",
            ));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(Error::invalid(&at.child("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        errors.extend(field_manager(text("manager"), &at.child("manager")));
        if text("subresource").len() > SUBRESOURCE_MAX {
            errors.push(Error::too_long(&at.child("subresource"), SUBRESOURCE_MAX));
        }
    }
    errors
}

/// The name under which somebody owns fields: short and printable.
pub fn field_manager(manager: &str, path: &Path) -> field::ErrorList {
    let mut errors = ErrorList::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(Error::too_long(path, FIELD_MANAGER_MAX));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' '))
    {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(Error::invalid(path, manager, detail));
    }
    errors
}

/// The Go type of each field of `ObjectMeta`, for [`type_error`].
#[derive(Clone, Copy)]
enum GoType {
    Text,
    Integer,
    TextMap,
    TextList,
    Objects(&'static str),
}

const FIELDS: &[(&str, GoType)] = &[
    ("name", GoType::Text),
    ("generateName", GoType::Text),
    ("namespace", GoType::Text),
    ("selfLink", GoType::Text),
    ("uid", GoType::Text),
    ("resourceVersion", GoType::Text),
    ("generation", GoType::Integer),
    ("creationTimestamp", GoType::Text),
    ("deletionTimestamp", GoType::Text),
    ("deletionGracePeriodSeconds", GoType::Integer),
    ("labels", GoType::TextMap),
    ("annotations", GoType::TextMap),
    ("ownerReferences", GoType::Objects("OwnerReference")),
    ("finalizers", GoType::TextList),
    ("managedFields", GoType::Objects("ManagedFieldsEntry")),
];

/// Why Go could not read `metadata` into its struct, in Go's words; `None` where it could. Null is always the zero value.
pub fn type_error(object: &Value) -> Option<String> {
    let metadata = match object.get("metadata")? {
        Value::Null => return None,
        Value::Object(metadata) => metadata,
        other => {
            let found = go_kind(other);
            return Some(format!(
                "json: cannot unmarshal {found} into Go struct field .metadata of type v1.ObjectMeta"
            ));
        }
    };
    FIELDS.iter().find_map(|(name, wanted)| {
        let value = metadata.get(*name).filter(|value| !value.is_null())?;
        let (found, wanted) = mismatch(value, *wanted)?;
        Some(format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{name} of type {wanted}"
        ))
    })
}

fn mismatch(value: &Value, wanted: GoType) -> Option<(&'static str, String)> {
    let no_text = |value: &Value| {
        (!value.is_string() && !value.is_null()).then(|| (go_kind(value), "string".to_owned()))
    };
    match (wanted, value) {
        (GoType::Text, value) => no_text(value),
        (GoType::Integer, value) if value.is_i64() => None,
        (GoType::Integer, value) => Some((go_kind(value), "int64".to_owned())),
        (GoType::TextMap, Value::Object(fields)) => fields.values().find_map(no_text),
        (GoType::TextMap, value) => Some((go_kind(value), "map[string]string".to_owned())),
        (GoType::TextList, Value::Array(items)) => items.iter().find_map(no_text),
        (GoType::TextList, value) => Some((go_kind(value), "[]string".to_owned())),
        (GoType::Objects(name), Value::Array(items)) => {
            let odd = items.iter().find(|item| !item.is_object() && !item.is_null())?;
            Some((go_kind(odd), format!("v1.{name}")))
        }
        (GoType::Objects(name), value) => Some((go_kind(value), format!("[]v1.{name}"))),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
