//! Which objects of a type a list or watch is about.

use std::borrow::Cow;

use bytes::Bytes;
use objects::selector::{fields, labels};
use objects::{CompactString, Status, Value, meta};
use serde::Deserialize;
use store::{Key, Scope};
use wire::options::ListOptions;

use crate::call::Call;
use crate::read;
use crate::service::Failure;
use crate::surface::Row;

/// The keys to look at, and the selectors to look with.
pub struct Selection {
    pub scope: Scope,
    labels: labels::Selector,
    fields: fields::Selector,
    /// Whether the fields selected by are all in the key.
    key_only: bool,
}

/// A stored object, read no further than labels.
#[derive(Deserialize)]
struct Labelled {
    #[serde(default)]
    metadata: Labels,
}

#[derive(Deserialize, Default)]
struct Labels {
    #[serde(default)]
    labels: Option<serde_json::Map<String, Value>>,
}

/// The value that a part of the key must have. One that no key has narrows nothing: the selector itself then finds
/// nothing.
fn narrowing<'a>(fields: &'a fields::Selector, field: &str) -> Option<&'a str> {
    fields.exact(field).filter(|value| !value.contains('\0'))
}

impl Selection {
    pub fn of(call: &Call, options: &ListOptions) -> Result<Selection, Failure> {
        let (labels, fields) = (options.label_selector.clone(), options.field_selector.clone());
        let mut key_only = true;
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            if matches!(field, "metadata.name" | "metadata.namespace") {
                continue;
            }
            key_only = false;
            if !is_selectable(&call.row, field) {
                return Err(Status::bad_request(not_selectable(&call.row, field)).into());
            }
        }
        let kind = call.row.storage_kind.clone();
        let namespace = match call.target.namespace.as_str() {
            "" => narrowing(&fields, "metadata.namespace").map(CompactString::from).unwrap_or_default(),
            namespace => namespace.into(),
        };
        let name = match call.target.name.as_str() {
            // The old `/watch/` paths name the object in the path.
            "" => narrowing(&fields, "metadata.name").unwrap_or_default(),
            name => name,
        };
        let one_place = !namespace.is_empty() || !call.row.ty.is_namespaced();
        let scope = match (namespace.is_empty(), name.is_empty()) {
            (_, false) if one_place => Scope::One(Key::new(kind, namespace, name)),
            (false, _) => Scope::Namespace(kind, namespace),
            _ => Scope::Kind(kind),
        };
        Ok(Selection { scope, labels, fields, key_only })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether a stored object is selected. `json` is the object as stored; its version must be the row's own
    /// for fields other than those of the key.
    pub async fn matches(&self, call: &Call, key: &Key, value: &Bytes) -> Result<bool, Failure> {
        if self.is_everything() {
            return Ok(true);
        }
        if self.key_only && !self.fields.matches(|field| key_field(key, field)) {
            return Ok(false);
        }
        if self.key_only && self.labels.is_empty() {
            return Ok(true);
        }
        let stored = call.plane.codec.decode(key, value, store::Revision(0))?;
        if self.key_only {
            let object: Labelled = serde_json::from_slice(stored.raw()).map_err(read::unreadable)?;
            return Ok(self.labels.matches(object.metadata.labels.as_ref()));
        }
        let object = read::in_version(call, &call.row, &stored).await?;
        Ok(self.labels.matches(meta::labels(&object))
            && self.fields.matches(|field| object_field(&call.row, &object, key, field)))
    }
}

fn key_field<'a>(key: &'a Key, field: &str) -> Option<Cow<'a, str>> {
    match field {
        "metadata.name" => Some(Cow::Borrowed(&key.name)),
        "metadata.namespace" => Some(Cow::Borrowed(&key.namespace)),
        _ => None,
    }
}

fn object_field<'a>(row: &Row, object: &'a Value, key: &'a Key, field: &str) -> Option<Cow<'a, str>> {
    if let Some(found) = key_field(key, field) {
        return Some(found);
    }
    if row.is_custom() {
        return Some(custom_field(object, field));
    }
    row.behaviour.selectable(field).map(|selectable| selectable.of(object))
}

fn custom_field<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    let found = field.split('.').try_fold(object, |value, part| value.get(part));
    match found {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}

/// The kinds without fields of their own say which there are.
fn not_selectable(row: &Row, field: &str) -> String {
    if row.is_custom() || !row.behaviour.selectable.is_empty() {
        return format!("field label not supported: {field}");
    }
    format!(r#""{field}" is not a known field selector: only "metadata.name", "metadata.namespace""#)
}

fn is_selectable(row: &Row, field: &str) -> bool {
    match row.custom() {
        None => row.behaviour.selectable(field).is_some(),
        Some(custom) => {
            let fields = custom.version.get("selectableFields").and_then(Value::as_array);
            fields.is_some_and(|fields| {
                let paths = fields.iter().filter_map(|f| f.get("jsonPath")).filter_map(Value::as_str);
                paths.map(|path| path.trim_start_matches('.')).any(|path| path == field)
            })
        }
    }
}
