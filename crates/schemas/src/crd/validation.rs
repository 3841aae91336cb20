//! Whether a definition may be written.
//!
//! Mirrors `apiextensions-apiserver/pkg/apis/apiextensions/validation`. What all versions share is told at the
//! top of the spec (`spec.validation`, `spec.subresources`, ...), because that is where upstream's internal
//! version keeps it and what its users read.
//!
//! Upstream lets definitions that predate a rule go on breaking it; here no definition predates any.

use objects::field::{Error, Path};
use objects::{ErrorList, meta, metadata, names};
use serde_json::Value;

use super::status::{check_stored_versions, is_condition_true};
use super::{
    approval, conversion, defaults, flag, json_path, list, present, schema_rules, text, versions_of,
};
use crate::schema::Schema;
use crate::structural;
use crate::validate::is_known_format;

const MAX_SELECTABLE_FIELDS: usize = 8;

/// Of a definition that is to be created, with its defaults and its status filled in.
#[must_use]
pub fn validate(definition: &Value) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = metadata::validate(definition, false, names::dns1123_subdomain, &path);
    let nothing = Value::Null;
    let spec = definition.get("spec").unwrap_or(&nothing);
    let plural = text(spec.get("names").unwrap_or(&nothing), "plural");
    let name = meta::name(definition);
    if !name.is_empty() && name != format!("{plural}.{}", text(spec, "group")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Error::invalid(&path.child("name"), name, detail));
    }
    errors.extend(validate_rest(definition, None));
    errors
}

/// Of a definition that is to take another's place.
#[must_use]
pub fn validate_update(definition: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata::validate_update(definition, old, &Path::new("metadata"));
    errors.extend(validate_rest(definition, Some(old)));
    // What objects are stored under cannot change once there may be objects; what the definition is named after
    // can never change.
    let established = is_condition_true(old, "Established");
    for (pointer, path, always) in [
        ("/spec/scope", Path::new("spec").child("scope"), false),
        ("/spec/names/kind", Path::new("spec").child("names").child("kind"), false),
        ("/spec/group", Path::new("spec").child("group"), true),
        ("/spec/names/plural", Path::new("spec").child("names").child("plural"), true),
    ] {
        let (new, old) = (definition.pointer(pointer), old.pointer(pointer));
        if (always || established) && new != old {
            errors.push(Error::invalid(&path, new.cloned().unwrap_or(Value::Null), "field is immutable"));
        }
    }
    errors
}

/// Of a status that is to take another's place, by whoever may write it.
#[must_use]
pub fn validate_status_update(definition: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata::validate_update(definition, old, &Path::new("metadata"));
    if let Some(accepted) = definition.pointer("/status/acceptedNames") {
        check_names(accepted, &Path::new("status").child("acceptedNames"), &mut errors);
    }
    errors
}

fn validate_rest(definition: &Value, old: Option<&Value>) -> ErrorList {
    let nothing = Value::Null;
    let spec = definition.get("spec").unwrap_or(&nothing);
    let mut errors =
        check_spec(definition, spec, old.is_some_and(|old| is_condition_true(old, "Established")));
    errors.extend(check_stored_versions(definition));
    errors.extend(approval::check(definition, old));
    let kept = old.is_some_and(|old| old.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)));
    if flag(spec, "preserveUnknownFields") && !kept {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(Error::invalid(&Path::new("spec").child("preserveUnknownFields"), true, detail));
    }
    errors
}

fn check_spec(definition: &Value, spec: &Value, established: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let (at, group) = (path.child("group"), text(spec, "group"));
    if group.is_empty() {
        errors.push(Error::required(&at, ""));
    } else {
        let wrong = names::dns1123_subdomain(group);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&at, group, wrong.join(",")));
        } else if !group.contains('.') {
            errors.push(Error::invalid(&at, group, "should be a domain with at least one dot"));
        }
    }
    match text(spec, "scope") {
        "" => errors.push(Error::required(&path.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(Error::not_supported(&path.child("scope"), other, &["Cluster", "Namespaced"])),
    }
    check_versions(definition, &path, &mut errors);

    let nothing = Value::Null;
    let names = spec.get("names").unwrap_or(&nothing);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.push(Error::required(&path.child("names").child(field), ""));
        }
    }
    check_names(names, &path.child("names"), &mut errors);
    errors.extend(conversion::check(spec, established));
    errors
}

fn check_versions(definition: &Value, path: &Path, errors: &mut ErrorList) {
    let versions = versions_of(definition);
    let at = path.child("versions");
    let schemas = Shared::of(versions, "schema");
    let subresources = Shared::of(versions, "subresources");
    let columns = Shared::of(versions, "additionalPrinterColumns");
    let selectable = Shared::of(versions, "selectableFields");

    for (i, version) in versions.iter().enumerate() {
        if schema_of(version).is_none() {
            errors.push(Error::required(&at.index(i).child("schema").child("openAPIV3Schema"), ""));
        }
    }
    for (i, version) in versions.iter().enumerate() {
        let at = at.index(i);
        let name = text(version, "name");
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&at.child("name"), name, wrong.join(",")));
        }
        check_deprecation(version, &at, errors);
        if schemas == Shared::No {
            let has_status = version.pointer("/subresources/status").is_some_and(|status| !status.is_null());
            check_schema(version, has_status, &at.child("schema"), errors);
        }
        if subresources == Shared::No {
            check_subresources(version, &at.child("subresources"), errors);
        }
        if columns == Shared::No {
            check_columns(version, &at.child("additionalPrinterColumns"), errors);
        }
        if selectable == Shared::No {
            check_selectable(version, &at.child("selectableFields"), errors);
        }
    }
    let storage = versions.iter().filter(|version| flag(version, "storage")).count();
    let repeated = versions
        .iter()
        .enumerate()
        .any(|(i, version)| versions[..i].iter().any(|other| text(other, "name") == text(version, "name")));
    if repeated {
        errors.push(Error::invalid(&at, Value::from(versions), "must contain unique version names"));
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at, Value::from(versions), detail));
    }
    let Some(first) = versions.first() else { return };
    if schemas == Shared::Yes {
        let has_status = versions
            .iter()
            .any(|version| version.pointer("/subresources/status").is_some_and(|status| !status.is_null()));
        check_schema(first, has_status, &path.child("validation"), errors);
    }
    if subresources == Shared::Yes {
        check_subresources(first, &path.child("subresources"), errors);
    }
    if columns == Shared::Yes {
        check_columns(first, &path.child("additionalPrinterColumns"), errors);
    }
    if selectable == Shared::Yes {
        check_selectable(first, &path.child("selectableFields"), errors);
    }
}

/// Whether all versions say the same of something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    Yes,
    No,
}

impl Shared {
    fn of(versions: &[Value], field: &str) -> Self {
        let mut said = versions.iter().map(|version| present(version, field));
        let Some(first) = said.next() else { return Shared::No };
        if said.all(|other| other == first) { Shared::Yes } else { Shared::No }
    }
}

fn schema_of(version: &Value) -> Option<&Value> {
    version.pointer("/schema/openAPIV3Schema").filter(|schema| !schema.is_null())
}

/// Words that may stand at the root of a schema beside a status subresource, as Go calls them.
const ROOT_WORDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum \
     MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
     Example XPreserveUnknownFields XValidations]";
const NOT_AT_ROOT: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "default",
    "maxProperties",
    "minProperties",
    "enum",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// `path` is that of `schema`, which holds the schema proper.
fn check_schema(version: &Value, has_status: bool, path: &Path, errors: &mut ErrorList) {
    let Some(json) = schema_of(version) else { return };
    let path = path.child("openAPIV3Schema");
    if has_status {
        let kind = text(json, "type");
        let is_said = |word: &&str| {
            json.get(*word).is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
        };
        if !kind.is_empty() && kind != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(Error::invalid(&path.child("type"), kind, detail));
        } else if NOT_AT_ROOT.iter().any(is_said) {
            let detail = format!(
                "only {ROOT_WORDS} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(Error::invalid(&path, json.clone(), detail));
        }
    }
    if flag(json, "nullable") {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    // Words that no schema may use are told by `schema_rules` below.
    if let Ok(schema) = Schema::from_crd(json) {
        let violations = structural::check(json, &path);
        if violations.is_empty() {
            errors.extend(defaults::check(json, &schema, &path));
        }
        errors.extend(violations);
    }
    errors.extend(schema_rules::check(json, &path));
}

fn check_deprecation(version: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(warning) = present(version, "deprecationWarning").and_then(Value::as_str) else { return };
    let mut wrong = Vec::new();
    if !flag(version, "deprecated") {
        wrong.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            wrong.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            wrong.push("must not be an empty string".to_owned());
        }
        if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
            wrong.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    }
    let path = path.child("deprecationWarning");
    errors.extend(wrong.into_iter().map(|why| Error::invalid(&path, warning, why)));
}

fn check_subresources(version: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(scale) = version.pointer("/subresources/scale").filter(|scale| !scale.is_null()) else { return };
    for (field, roots, required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let (path, given) = (path.child("scale").child(field), text(scale, field));
        if given.is_empty() {
            if required {
                errors.push(Error::required(&path, ""));
            }
        } else if !given.starts_with('.') {
            errors.push(Error::invalid(&path, given, "must be a simple json path starting with ."));
        } else if !roots.iter().any(|root| given.starts_with(root)) {
            let detail = match roots {
                [".spec."] => "should be a json path under .spec",
                [".status."] => "should be a json path under .status",
                _ => "should be a json path under either .spec or .status",
            };
            errors.push(Error::invalid(&path, given, detail));
        }
    }
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn check_columns(version: &Value, path: &Path, errors: &mut ErrorList) {
    for (i, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let path = path.index(i);
        if text(column, "name").is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let (kind, detail) = (text(column, "type"), format!("must be one of {}", COLUMN_TYPES.join(",")));
        if kind.is_empty() {
            errors.push(Error::required(&path.child("type"), detail));
        } else if !COLUMN_TYPES.contains(&kind) {
            errors.push(Error::invalid(&path.child("type"), kind, detail));
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(&path.child("format"), format, detail));
        }
        let (path, given) = (path.child("JSONPath"), text(column, "jsonPath"));
        if given.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !given.starts_with('.') {
            errors.push(Error::invalid(&path, given, "must be a simple json path starting with ."));
        }
    }
}

fn check_selectable(version: &Value, path: &Path, errors: &mut ErrorList) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema_of(version) else {
        errors.push(Error::invalid(path, "", "may only be set when validations.schema is included"));
        return;
    };
    let mut seen: Vec<Path> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let (at, given) = (path.index(i).child("jsonPath"), text(field, "jsonPath"));
        if given.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let (found, schema) = match json_path::resolve(given, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid(&at, given, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.as_str() == "metadata" || found.as_str().starts_with("metadata.") {
            errors.push(Error::invalid(&at, given, "must not point to fields in metadata"));
        }
        let kind = schema.map(|schema| text(schema, "type")).unwrap_or("");
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                          strings with formats are allowed.";
            errors.push(Error::invalid(&at, given, detail));
        }
        if seen.contains(&found) {
            errors.push(Error::duplicate(&at, given));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// Of the names asked for, or of those accepted.
fn check_names(given: &Value, path: &Path, errors: &mut ErrorList) {
    for (field, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = text(given, field);
        let wrong = match mixed_case {
            _ if name.is_empty() => continue,
            true => names::dns1035_label(&name.to_lowercase()),
            false => names::dns1035_label(name),
        };
        if !wrong.is_empty() {
            let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(Error::invalid(&path.child(field), name, format!("{prefix}{}", wrong.join(","))));
        }
    }
    let mut check_list = |field: &str| {
        for (i, name) in list(given, field).iter().enumerate() {
            let name = name.as_str().unwrap_or("");
            let wrong = names::dns1035_label(name);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&path.child(field).index(i), name, wrong.join(",")));
            }
        }
    };
    check_list("shortNames");
    check_list("categories");
    let (kind, list_kind) = (text(given, "kind"), text(given, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), list_kind, detail));
    }
}

/// What a definition may say, but should not: told as warnings, once for what an update brings in.
#[must_use]
pub fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    for version in versions_of(definition) {
        schema_of(version).into_iter().for_each(|schema| collect_warnings(schema, &mut found));
    }
    let known = old.map(|old| warnings(old, None)).unwrap_or_default();
    let mut unique: Vec<String> = Vec::new();
    for warning in found {
        if !known.contains(&warning) && !unique.contains(&warning) {
            unique.push(warning);
        }
    }
    unique
}

fn collect_warnings(schema: &Value, found: &mut Vec<String>) {
    let format = text(schema, "format");
    if !format.is_empty() && !is_known_format(text(schema, "type"), format) {
        found.push(format!("unrecognized format {format:?}"));
    }
    let item_kind = schema.get("items").map(|items| text(items, "type")).unwrap_or("");
    if text(schema, "x-kubernetes-list-type") == "set" && matches!(item_kind, "object" | "array") {
        found.push(format!(
            "x-kubernetes-list-type: set for items of type {item_kind:?} is not supported by server-side apply or \
             CEL validation rules"
        ));
    }
    let parts = ["items", "additionalProperties", "not"].into_iter().filter_map(|word| schema.get(word));
    let clauses = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|word| list(schema, word));
    let properties =
        schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
    for part in parts.chain(clauses).chain(properties).filter(|part| part.is_object()) {
        collect_warnings(part, found);
    }
}
