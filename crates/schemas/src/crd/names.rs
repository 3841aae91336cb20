//! Who may be called what: names are accepted if nobody in the group has them.
//!
//! Mirrors `apiextensions-apiserver/pkg/controller/status`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::status::Condition;
use super::{list, text};

/// The names that the definitions of a group hold. Resources (plural, singular, short) and kinds are apart.
#[derive(Clone, Debug, Default)]
pub struct TakenNames {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl TakenNames {
    /// Those that were accepted for the definitions of `group` among these.
    pub fn of<'a>(group: &str, definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut taken = TakenNames::default();
        for definition in definitions {
            let is_same_group = definition.pointer("/spec/group").and_then(Value::as_str) == Some(group);
            let Some(names) = definition.pointer("/status/acceptedNames").filter(|_| is_same_group) else {
                continue;
            };
            let short = list(names, "shortNames").iter().filter_map(Value::as_str);
            let resources = [text(names, "plural"), text(names, "singular")].into_iter().chain(short);
            taken.resources.extend(resources.filter(|name| !name.is_empty()).map(str::to_owned));
            let kinds = [text(names, "kind"), text(names, "listKind")].into_iter();
            taken.kinds.extend(kinds.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        taken
    }
}

/// The outcome for one definition.
#[derive(Clone, Debug)]
pub struct Names {
    /// `status.acceptedNames`: what was asked for, save where it is in use
    pub accepted: Value,
    /// `NamesAccepted`
    pub condition: Condition,
}

/// Which of the names in the spec are accepted, given those of the others. What was accepted before stays.
pub fn names_accepted(definition: &Value, taken: &TakenNames) -> Names {
    let nothing = Value::Null;
    let asked = definition.pointer("/spec/names").unwrap_or(&nothing);
    let before = definition.pointer("/status/acceptedNames").unwrap_or(&nothing);
    let mut accepted: Map<String, Value> = before.as_object().cloned().unwrap_or_default();
    // Every name is decided by itself, so that as many as possible are accepted; the last conflict is told.
    let mut conflicts: Vec<(&str, String)> = Vec::new();
    for (field, used, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        match in_use(asked, before, field, used) {
            None => copy(asked, &mut accepted, field),
            Some(message) => conflicts.push((reason, message)),
        }
    }
    copy(asked, &mut accepted, "categories");

    let condition = match conflicts.pop() {
        None => Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => Condition::new("NamesAccepted", false, reason, message),
    };
    Names { accepted: Value::Object(accepted), condition }
}

/// Who has the name, or one of the names, that this definition asks for and has not had before.
fn in_use(asked: &Value, before: &Value, field: &str, used: &HashSet<String>) -> Option<String> {
    let own = names(before, field);
    let conflicts: Vec<String> = names(asked, field)
        .into_iter()
        .filter(|name| !own.contains(name) && used.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    match conflicts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// One name or several.
fn names<'a>(of: &'a Value, field: &str) -> Vec<&'a str> {
    match of.get(field) {
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    }
}

fn copy(from: &Value, to: &mut Map<String, Value>, field: &str) {
    match from.get(field).filter(|_| names(from, field).iter().any(|name| !name.is_empty())) {
        Some(given) => to.insert(field.to_owned(), given.clone()),
        None => to.remove(field),
    };
}
