//! Whether a custom resource is what its schema says, in the sentences that users of Kubernetes know.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/validation` and the part of `kube-openapi/pkg/validation` that
//! it stands on: which checks apply to which value, in what order, and which errors of a junctor are shown.
//!
//! An update does not fail for what it did not change (KEP-4008): see [`Correlation`].

mod correlation;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod outcome;

use std::sync::LazyLock;

use objects::ErrorList;
use objects::field::{Error, ErrorType, Path};
use serde_json::{Map, Value};

use crate::pattern;
use crate::schema::{Additional, Constraints, Cursor, Node, Type};
use correlation::Correlation;
use outcome::{Outcome, Place, Problem};

/// Checks a value against a schema: types, limits, formats, junctors, embedded resources, and the uniqueness
/// that list types promise. `old` is the value that an update replaces. Field paths start at `path`.
#[must_use]
pub fn validate(cursor: Cursor<'_>, value: &Value, old: Option<&Value>, path: &Path) -> ErrorList {
    let correlation = old.map(|old| Correlation { old, structure: cursor });
    let outcome = check_ratcheted(cursor, value, correlation, &Place::Root);
    let mut errors: ErrorList = outcome.problems.into_iter().map(|problem| problem.at(path)).collect();
    embedded::check(cursor, value, path, &mut errors);
    // Duplicates that were there before may stay, whatever else changes.
    if old.is_none_or(|old| lists::check(cursor, old, path).is_empty()) {
        errors.extend(lists::check(cursor, value, path));
    }
    errors
}

/// Checks the default of a schema against it. Embedded resources come first: a default that is no resource is
/// not looked at any further.
pub(crate) fn validate_default(cursor: Cursor<'_>, default: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    embedded::check(cursor, default, path, &mut errors);
    if errors.is_empty() {
        let outcome = check(cursor, default, None, &Place::Root);
        errors.extend(outcome.problems.into_iter().map(|problem| problem.at(path)));
    }
    errors
}

/// Whether a format means anything for a type, both as a schema names them.
pub(crate) fn is_known_format(kind: &str, format: &str) -> bool {
    let kind = match kind {
        "" => Type::Any,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        _ => return false,
    };
    formats::is_known(&Node { kind, ..Node::default() }, format)
}

/// Whether errors are of a kind that makes evaluating rules pointless or dangerous, and the error that says so.
#[must_use]
pub fn blocks_rules(errors: &[Error]) -> Option<Error> {
    let blocking = [
        ErrorType::NotSupported,
        ErrorType::Required,
        ErrorType::TooLong,
        ErrorType::TooMany,
        ErrorType::TypeInvalid,
    ];
    let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                  errors to complete validation";
    let found = errors.iter().any(|error| blocking.contains(&error.kind));
    found.then(|| Error::invalid(&Path::root(), Value::Null, detail))
}

/// Checks a field, an item or the whole: what equals its old self is not held against an update.
fn check_ratcheted(
    cursor: Cursor<'_>,
    value: &Value,
    correlation: Option<Correlation<'_>>,
    place: &Place<'_>,
) -> Outcome {
    let mut outcome = check(cursor, value, correlation, place);
    if !outcome.is_valid() && correlation.is_some_and(|old| old.equals(value)) {
        outcome.problems.clear();
    }
    outcome
}

/// Checks one value against one schema, or against one clause of it.
fn check(
    cursor: Cursor<'_>,
    value: &Value,
    correlation: Option<Correlation<'_>>,
    place: &Place<'_>,
) -> Outcome {
    let node = cursor.node();
    let limits = node.constraints.as_deref().unwrap_or(&NO_LIMITS);
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(check_type(node, limits, value, place));
        outcome.merge(check_enum(limits, value, place));
        return outcome;
    }
    let format = limits.format.as_deref().filter(|format| formats::is_known(node, format));
    let is_typed = node.kind != Type::Any || node.int_or_string || format.is_some();
    if is_typed {
        outcome.merge(check_type(node, limits, value, place)).passed();
    }
    outcome.merge(check_junctors(cursor, limits, value, correlation, place)).passed();
    match value {
        Value::String(text) => {
            outcome.merge(check_text(limits, text, place)).passed();
            if let Some(format) = format.filter(|format| formats::is_of_text(format)) {
                outcome.merge(check_format(format, text, place)).passed();
            }
        }
        Value::Number(number) => {
            outcome.merge(numbers::check(node, limits, number, place)).passed();
        }
        Value::Array(items) => {
            outcome.merge(check_items(cursor, limits, items, correlation, place)).passed();
        }
        _ => {}
    }
    outcome.merge(check_enum(limits, value, place)).passed();
    if let Value::Object(fields) = value {
        outcome.merge(check_fields(cursor, limits, fields, correlation, place)).passed();
    }
    outcome.passed();
    outcome
}

/// What most nodes say beyond their type.
static NO_LIMITS: LazyLock<Constraints> = LazyLock::new(Constraints::default);

/// The types a node allows, as messages list them; none where it allows all.
fn type_names(node: &Node) -> &'static str {
    match node.kind {
        _ if node.int_or_string => "integer,string",
        Type::Any => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

fn check_type(node: &Node, limits: &Constraints, value: &Value, place: &Place<'_>) -> Outcome {
    let wanted = type_names(node);
    let allows = |name: &str| wanted.split(',').any(|one| one == name);
    // What is found, with the format that Go's type of it would have.
    let (found, found_format) = match value {
        Value::Null if wanted.is_empty() || node.nullable => return Outcome::success(),
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let is_whole = matches!(value, Value::Number(number) if numbers::is_whole(number));
    let fits = allows(found)
        || (found == "number" && is_whole && allows("integer"))
        || (found == "integer" && allows("number"));
    if fits || (wanted.is_empty() && value.is_string()) {
        return Outcome::success();
    }
    let format = limits.format.as_deref().filter(|format| formats::is_known(node, format));
    let (wanted, found) = match format {
        // Named by format where a scalar that is no text stands where a formatted one should.
        Some(format) if !matches!(value, Value::Null | Value::String(_) | Value::Array(_)) => {
            (format, found_format)
        }
        _ => (wanted, found),
    };
    if wanted.is_empty() {
        return Outcome::success();
    }
    Outcome::failure(Problem::wrong_type(place, wanted, found))
}

fn check_enum(limits: &Constraints, value: &Value, place: &Place<'_>) -> Outcome {
    let Some(allowed) = &limits.enumeration else { return Outcome::default() };
    if allowed.iter().any(|one| !value.is_null() && numbers::equal(one, value)) {
        return Outcome::default();
    }
    Outcome::failure(Problem::not_supported(place, value, allowed))
}

/// Only the first thing wrong with a text is told.
fn check_text(limits: &Constraints, text: &str, place: &Place<'_>) -> Outcome {
    let length = || text.chars().count() as u64;
    if let Some(max) = limits.max_length
        && length() > max
    {
        return Outcome::failure(Problem::too_long(place, max));
    }
    if let Some(min) = limits.min_length
        && length() < min
    {
        let sentence = format!("should be at least {min} chars long");
        return Outcome::failure(Problem::invalid(place, text, sentence));
    }
    if let Some(pattern) = &limits.pattern {
        let sentence = match pattern::matches(pattern, text) {
            Some(true) => return Outcome::default(),
            Some(false) => format!("should match '{pattern}'"),
            None => {
                let why = pattern::check(pattern).err().unwrap_or_default();
                format!("should match '{pattern}, but pattern is invalid: {why}'")
            }
        };
        return Outcome::failure(Problem::invalid(place, text, sentence));
    }
    Outcome::default()
}

fn check_format(format: &str, text: &str, place: &Place<'_>) -> Outcome {
    if formats::holds(format, text) {
        return Outcome::default();
    }
    Outcome::failure(Problem::wrong_type(place, format, text))
}

fn check_items(
    cursor: Cursor<'_>,
    limits: &Constraints,
    items: &[Value],
    correlation: Option<Correlation<'_>>,
    place: &Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(schema) = cursor.items() {
        for (i, item) in items.iter().enumerate() {
            let old = correlation.and_then(|old| old.item(item));
            outcome.merge(check_ratcheted(schema, item, old, &Place::Item(place, i)));
        }
    }
    let count = items.len() as u64;
    if let Some(min) = limits.min_items
        && count < min
    {
        outcome.add(Problem::invalid(place, count, format!("should have at least {min} items")));
    }
    if let Some(max) = limits.max_items
        && count > max
    {
        outcome.add(Problem::too_many(place, count, max));
    }
    if limits.unique_items && lists::has_duplicates(items) {
        outcome.add(Problem::invalid(place, "", "shouldn't contain duplicates"));
    }
    outcome.passed();
    outcome
}

fn check_fields(
    cursor: Cursor<'_>,
    limits: &Constraints,
    fields: &Map<String, Value>,
    correlation: Option<Correlation<'_>>,
    place: &Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let node = cursor.node();
    let count = fields.len() as u64;
    if let Some(min) = limits.min_properties
        && count < min
    {
        outcome.add(Problem::invalid(place, count, format!("should have at least {min} properties")));
    }
    if let Some(max) = limits.max_properties
        && count > max
    {
        outcome.add(Problem::too_many(place, count, max));
    }
    for (name, field) in fields {
        let schema = match (cursor.property(name), &node.additional) {
            (Some(property), _) => property,
            (None, Additional::Schema(id)) => cursor.to(*id),
            _ => continue,
        };
        // A version or kind that differs does so by conversion; it is no change that could be left alone.
        let ratchets = !(matches!(place, Place::Root) && matches!(name.as_str(), "apiVersion" | "kind"));
        let old = correlation.filter(|_| ratchets).and_then(|old| old.field(name));
        outcome.merge(check_ratcheted(schema, field, old, &Place::Field(place, name)));
    }
    for name in &node.required {
        if !fields.contains_key(name.as_str()) {
            outcome.add(Problem::required(&Place::Field(place, name)));
        }
    }
    outcome
}

fn check_junctors(
    cursor: Cursor<'_>,
    limits: &Constraints,
    value: &Value,
    correlation: Option<Correlation<'_>>,
    place: &Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let clause = |id| check(cursor.to(id), value, correlation, place);
    if !limits.any_of.is_empty() {
        outcome.merge(any_of(limits, clause, place));
    }
    if !limits.one_of.is_empty() {
        outcome.merge(one_of(limits, clause, place));
    }
    if !limits.all_of.is_empty() {
        let mut valid = 0;
        for id in &limits.all_of {
            let result = clause(*id);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid != limits.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(Problem::composite(place, format!("must validate all the schemas (allOf){none}")));
        }
    }
    if let Some(id) = limits.not
        && clause(id).is_valid()
    {
        outcome.add(Problem::composite(place, "must not validate the schema (not)"));
    }
    outcome.passed();
    outcome
}

/// At least one clause; if none, the errors of the one that came nearest.
fn any_of(
    limits: &Constraints,
    clause: impl Fn(crate::schema::NodeId) -> Outcome,
    place: &Place<'_>,
) -> Outcome {
    let mut nearest: Option<Outcome> = None;
    for id in &limits.any_of {
        let result = clause(*id);
        if result.is_valid() {
            return result;
        }
        if nearest.as_ref().is_none_or(|best| result.passed > best.passed) {
            nearest = Some(result);
        }
    }
    let mut outcome = Outcome::default();
    outcome.add(Problem::composite(place, "must validate at least one schema (anyOf)"));
    outcome.merge(nearest.unwrap_or_default());
    outcome
}

/// Exactly one clause; if none, the errors of the one that came nearest.
fn one_of(
    limits: &Constraints,
    clause: impl Fn(crate::schema::NodeId) -> Outcome,
    place: &Place<'_>,
) -> Outcome {
    let (mut valid, mut first) = (0, None);
    let mut nearest: Option<Outcome> = None;
    for id in &limits.one_of {
        let result = clause(*id);
        if result.is_valid() {
            valid += 1;
            nearest = None;
            first.get_or_insert(result);
        } else if valid == 0 && nearest.as_ref().is_none_or(|best| result.passed > best.passed) {
            nearest = Some(result);
        }
    }
    let found = match valid {
        1 => return first.unwrap_or_default(),
        0 => "Found none valid".to_owned(),
        several => format!("Found {several} valid alternatives"),
    };
    let mut outcome = Outcome::default();
    outcome.add(Problem::composite(place, format!("must validate one and only one schema (oneOf). {found}")));
    outcome.merge(nearest.unwrap_or_default());
    outcome
}

#[cfg(test)]
pub(crate) mod tests;
