//! Merging lists: maps by their merge key, scalars as sets, and the order of what comes out.
//!
//! The order: what the patch names (or `$setElementOrder`, where it is given) comes as named there; what only the
//! document has stays in its place among the rest, as far as that is possible.
//! Everything is found by hash, so that two long lists cost their length and not its square.

use std::collections::{HashMap, HashSet};

use serde_json::{Number, Value};

use super::{DIRECTIVE, PatchSchema, has_strategy, merge_map, plain, plain_map, unknown_directive};
use crate::patch::PatchError;

/// What makes two elements the same: the value of the merge key, or the scalar itself.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    Text(String),
    Number(String),
    Bool(bool),
}

impl Identity {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Identity::Text(text.clone())),
            Value::Bool(truth) => Some(Identity::Bool(*truth)),
            Value::Number(number) => Some(Identity::Number(canonical(number))),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// `80` and `80.0` are one port.
fn canonical(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

fn does_not_apply(text: impl Into<String>) -> PatchError {
    PatchError::DoesNotApply(text.into())
}

fn no_merge_key(element: &Value, key: &str) -> PatchError {
    does_not_apply(format!("map: {element} does not contain declared merge key: {key}"))
}

/// What the elements of a list are, all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elements<'k> {
    Maps { merge_key: &'k str },
    Scalars,
}

impl<'k> Elements<'k> {
    fn of(lists: [&[Value]; 2], merge_key: Option<&'k str>) -> Result<Option<Self>, PatchError> {
        let mut all = lists.into_iter().flatten();
        let Some(first) = all.next() else { return Ok(None) };
        if first.is_array() {
            return Err(does_not_apply("lists of lists are not supported"));
        }
        let kind = std::mem::discriminant(first);
        if first.is_null() || all.any(|element| std::mem::discriminant(element) != kind) {
            return Err(does_not_apply("list element types are not identical"));
        }
        match (first.is_object(), merge_key) {
            (true, Some(merge_key)) => Ok(Some(Elements::Maps { merge_key })),
            (true, None) => Err(does_not_apply("cannot merge lists without merge key for type map")),
            (false, _) => Ok(Some(Elements::Scalars)),
        }
    }

    fn identity(self, element: &Value) -> Result<Identity, PatchError> {
        match self {
            Elements::Scalars => {
                Identity::of(element).ok_or_else(|| does_not_apply("list element types are not identical"))
            }
            Elements::Maps { merge_key } => {
                element.get(merge_key).and_then(Identity::of).ok_or_else(|| no_merge_key(element, merge_key))
            }
        }
    }

    /// Where each identity first stands.
    fn places(self, list: &[Value]) -> Result<HashMap<Identity, usize>, PatchError> {
        let mut places = HashMap::with_capacity(list.len());
        for (place, element) in list.iter().enumerate() {
            places.entry(self.identity(element)?).or_insert(place);
        }
        Ok(places)
    }
}

/// Merges a list of the patch into one of the document.
pub(super) fn merge<S: PatchSchema>(
    original: Vec<Value>,
    patch: &[Value],
    schema: Option<S>,
) -> Result<Vec<Value>, PatchError> {
    let merge_key = schema.as_ref().and_then(PatchSchema::merge_key);
    let Some(elements) = Elements::of([&original, patch], merge_key)? else { return Ok(original) };
    let (merged, server, named) = merge_elements(original, patch, elements, schema)?;
    in_order(merged, &elements.places(&named)?, &server, elements)
}

/// The same, with the order of what comes out given beside the patch.
pub(super) fn merge_in_order<S: PatchSchema>(
    original: Vec<Value>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    schema: Option<S>,
) -> Result<Vec<Value>, PatchError> {
    let merge_key = schema.as_ref().and_then(PatchSchema::merge_key);
    let patch = patch.unwrap_or_default();
    let Some(elements) = Elements::of([&original, &patch], merge_key)? else { return Ok(original) };
    follows(&patch, order, elements)?;
    let named = elements.places(order)?;
    if !has_strategy(schema, "merge") {
        let replaced: Vec<Value> =
            if patch.is_empty() { original } else { patch.iter().map(plain).collect() };
        let server = elements.places(&replaced)?;
        return in_order(replaced, &named, &server, elements);
    }
    let (merged, server, _) = merge_elements(original, &patch, elements, schema)?;
    in_order(merged, &named, &server, elements)
}

/// The elements of the patch must come in the order that is given beside it.
fn follows(patch: &[Value], order: &[Value], elements: Elements<'_>) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in patch.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        let wanted = elements.identity(element)?;
        loop {
            let Some(next) = rest.next() else {
                let (patch, order) = (Value::from(patch), Value::from(order));
                return Err(does_not_apply(format!(
                    "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
                )));
            };
            if elements.identity(next)? == wanted {
                break;
            }
        }
    }
    Ok(())
}

/// The merged elements in no particular order, the places they had in the document, and those the patch names.
type Merged = (Vec<Value>, HashMap<Identity, usize>, Vec<Value>);

fn merge_elements<S: PatchSchema>(
    original: Vec<Value>,
    patch: &[Value],
    elements: Elements<'_>,
    schema: Option<S>,
) -> Result<Merged, PatchError> {
    let Elements::Maps { merge_key } = elements else {
        let server = elements.places(&original)?;
        let mut seen = HashSet::new();
        let mut merged = Vec::with_capacity(original.len() + patch.len());
        for element in original.into_iter().chain(patch.iter().cloned()) {
            if seen.insert(elements.identity(&element)?) {
                merged.push(element);
            }
        }
        return Ok((merged, server, patch.to_vec()));
    };
    let (mut merged, changes) = directives(original, patch, merge_key)?;
    let server = elements.places(&merged)?;
    let mut places = server.clone();
    let items = schema.and_then(PatchSchema::items);
    for change in &changes {
        let (identity, Value::Object(fields)) = (elements.identity(change)?, change) else { continue };
        match places.get(&identity).and_then(|place| merged.get_mut(*place)) {
            Some(Value::Object(old)) => *old = merge_map(std::mem::take(old), fields, items)?,
            _ => {
                places.insert(identity, merged.len());
                merged.push(Value::Object(plain_map(fields)));
            }
        }
    }
    Ok((merged, server, changes))
}

/// Obeys the elements of a patch that are directives (`$patch: delete` and `replace`); the others are what remains.
fn directives(
    mut original: Vec<Value>,
    patch: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut changes = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for element in patch {
        let Some(directive) = element.get(DIRECTIVE) else {
            changes.push(element.clone());
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let identity = element.get(merge_key).and_then(Identity::of);
                gone.insert(identity.ok_or_else(|| no_merge_key(element, merge_key))?);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(does_not_apply("merging lists cannot yet be specified in the patch"));
            }
            _ => {
                return Err(unknown_directive(directive, element.as_object().unwrap_or(&Default::default())));
            }
        }
    }
    if replace {
        return Ok((changes.iter().map(plain).collect(), Vec::new()));
    }
    if !gone.is_empty() {
        original.retain(|element| {
            element.get(merge_key).and_then(Identity::of).is_none_or(|identity| !gone.contains(&identity))
        });
    }
    Ok((original, changes))
}

/// Takes scalars out of a list.
pub(super) fn delete_scalars(items: &mut Vec<Value>, gone: &[Value]) -> Result<(), PatchError> {
    let gone: HashSet<Identity> =
        gone.iter().map(|scalar| Elements::Scalars.identity(scalar)).collect::<Result<_, _>>()?;
    items.retain(|item| Identity::of(item).is_none_or(|identity| !gone.contains(&identity)));
    Ok(())
}

/// Puts named elements in the order they are named in, and weaves the others in by the place they had.
fn in_order(
    merged: Vec<Value>,
    named: &HashMap<Identity, usize>,
    server: &HashMap<Identity, usize>,
    elements: Elements<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for element in merged {
        let identity = elements.identity(&element)?;
        let place = server.get(&identity).copied();
        match named.get(&identity) {
            Some(wanted) => ours.push((*wanted, place, element)),
            None => theirs.push((place.unwrap_or(usize::MAX), element)),
        }
    }
    ours.sort_by_key(|(wanted, ..)| *wanted);
    theirs.sort_by_key(|(place, _)| *place);
    let mut all = Vec::with_capacity(ours.len() + theirs.len());
    let mut theirs = theirs.into_iter().peekable();
    for (_, place, element) in ours {
        // Before an element that the document had, whatever stood in front of it there.
        if let Some(place) = place {
            while let Some((_, other)) = theirs.next_if(|(theirs, _)| *theirs < place) {
                all.push(other);
            }
        }
        all.push(element);
    }
    all.extend(theirs.map(|(_, element)| element));
    Ok(all)
}
