//! Which objects of a type a list or watch is about.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use objects::raw::{self, Malformed};
use objects::selector::fields::Requirement;
use objects::selector::{fields, labels};
use objects::{CompactString, Status, Value, meta};
use store::{Key, Scope};
use wire::options::ListOptions;

use crate::call::Call;
use crate::service::Failure;
use crate::surface::Row;
use crate::{codec, read};

/// The keys to look at, and the selectors to look with.
pub struct Selection {
    pub scope: Scope,
    labels: labels::Selector,
    fields: fields::Selector,
    /// Whether the fields selected by are all in the key.
    key_only: bool,
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
            if is_in_key(field) {
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

    /// Whether an object is selected, as far as its key tells.
    pub fn by_key(&self, key: &Key) -> Option<bool> {
        let in_key = self.fields.requirements().iter().filter(|requirement| is_in_key(&requirement.field));
        let mut asked = in_key.map(|requirement| (requirement, key_field(key, &requirement.field)));
        if !asked.all(|(requirement, value)| is_as_required(requirement, value.as_deref())) {
            return Some(false);
        }
        (self.key_only && self.labels.is_empty()).then_some(true)
    }

    /// Whether the fields that are selected by depend on the version of the object.
    pub fn needs_version(&self) -> bool {
        !self.key_only
    }

    /// Whether the JSON of an object is selected, its key left aside. It must be of the row's own version if
    /// [that matters](Self::needs_version).
    pub fn matches(&self, row: &Row, json: &[u8]) -> Result<bool, Malformed> {
        if !self.labels.is_empty() {
            let labels = raw::member(json, &["metadata", "labels"])?;
            if !self.labels.matches_raw(labels)? {
                return Ok(false);
            }
        }
        for requirement in self.fields.requirements().iter().filter(|asked| !is_in_key(&asked.field)) {
            let field = requirement.field.as_str();
            let object = raw::project(json, field_paths(row, field))?;
            if !is_as_required(requirement, object_field(row, &object, field).as_deref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says of stored values whether they can be selected, without taking them out of the store. None where that takes
    /// more than the stored bytes.
    pub fn filter(self: Arc<Self>, row: &Arc<Row>) -> Option<store::Filter> {
        if (self.key_only && self.labels.is_empty()) || codec::must_be_encrypted(&row.storage_kind) {
            return None;
        }
        let row = row.clone();
        Some(Arc::new(move |value: &[u8]| {
            let Some((tag, json)) = codec::plain_json(value) else { return true };
            let readable = !self.needs_version() || read::is_current_json(&row, tag, json);
            // Whoever reads the object says what is wrong with it.
            !readable || self.matches(&row, json).unwrap_or(true)
        }))
    }

    /// The same for an object that is at hand as a value, in the row's version.
    pub fn matches_value(&self, row: &Row, object: &Value) -> bool {
        let fields = self.fields.requirements().iter().filter(|asked| !is_in_key(&asked.field));
        let mut asked =
            fields.map(|requirement| (requirement, object_field(row, object, &requirement.field)));
        self.labels.matches(meta::labels(object))
            && asked.all(|(requirement, value)| is_as_required(requirement, value.as_deref()))
    }

    /// Whether a value of a key is selected, in whatever version it is stored.
    pub async fn selects(&self, call: &Call, key: &Key, value: &Bytes) -> Result<bool, Failure> {
        if let Some(decided) = self.by_key(key) {
            return Ok(decided);
        }
        let stored = call.plane.codec.decode(key, value, store::Revision(0))?;
        if self.needs_version() && !read::is_current(&call.row, &stored) {
            return Ok(self.matches_value(&call.row, &read::in_version(call, &call.row, &stored).await?));
        }
        self.matches(&call.row, stored.raw()).map_err(read::no_json)
    }
}

fn is_in_key(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// An absent field is the empty text.
fn is_as_required(requirement: &Requirement, value: Option<&str>) -> bool {
    (value.unwrap_or_default() == requirement.value) == requirement.equals
}

fn key_field<'a>(key: &'a Key, field: &str) -> Option<Cow<'a, str>> {
    match field {
        "metadata.name" => Some(Cow::Borrowed(&key.name)),
        "metadata.namespace" => Some(Cow::Borrowed(&key.namespace)),
        _ => None,
    }
}

fn object_field<'a>(row: &Row, object: &'a Value, field: &str) -> Option<Cow<'a, str>> {
    if row.is_custom() {
        return Some(custom_field(object, field));
    }
    row.behaviour.selectable(field).map(|selectable| selectable.of(object))
}

/// Where a field that is not in the key is found.
fn field_paths<'f>(row: &Row, field: &'f str) -> Vec<&'f str> {
    match row.behaviour.selectable(field) {
        _ if row.is_custom() => vec![field],
        Some(selectable) => selectable.paths.to_vec(),
        None => Vec::new(),
    }
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
