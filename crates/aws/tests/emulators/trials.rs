//! Kinds that no story is told of: each is made, read until it is synced, left at rest and deleted by the engine.
//!
//! What is made of them is in `trials.yaml`; where an emulator falls short is in `data/emulators.txt`.

use std::collections::{BTreeMap, BTreeSet};

use aws::kinds::{self, KindFacts, Level};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::story::Story;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    needs: BTreeMap<String, Need>,
    trials: BTreeMap<String, Trial>,
}

/// Something that is made before; as in the trial of its kind if nothing else is said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Need {
    kind: String,
    made: Option<Trial>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Trial {
    #[serde(default)]
    needs: Vec<String>,
    spec: Value,
}

fn table() -> Table {
    serde_saphyr::from_str(include_str!("trials.yaml")).unwrap()
}

/// The kinds that are tried, with what is made of them.
pub fn all() -> Vec<Story> {
    let table = table();
    for name in table.trials.keys() {
        assert!(is_tried(find(name)), "{name} has a story");
    }
    let tried = kinds::all().iter().filter(|kind| is_tried(kind));
    tried.map(|kind| table.story(kind)).collect()
}

fn is_tried(kind: &KindFacts) -> bool {
    matches!(kind.level(), Level::Basic | Level::Tried)
}

fn find(name: &str) -> &'static KindFacts {
    let (service, kind) = name.split_once('/').unwrap();
    kinds::find(service, kind).unwrap_or_else(|| panic!("there is no {name}"))
}

impl Table {
    fn story(&self, kind: &'static KindFacts) -> Story {
        let told = self.trials.get(&format!("{kind:?}")).cloned();
        let told = told.unwrap_or_else(|| Trial { needs: Vec::new(), spec: required(kind) });
        let mut names = Vec::new();
        self.collect(&told.needs, &mut names);
        let made =
            |kind: &KindFacts, spec: &Value| Story::new(kind.service, kind.kind, numbered(spec, &names));
        let needs = names.iter().map(|name| {
            let need = &self.needs[name];
            made(find(&need.kind), &self.made(need).spec)
        });
        needs.fold(made(kind, &told.spec), Story::after)
    }

    fn made<'a>(&'a self, need: &'a Need) -> &'a Trial {
        let told = need.made.as_ref().or_else(|| self.trials.get(&need.kind));
        told.unwrap_or_else(|| panic!("how is a {} made?", need.kind))
    }

    /// All that is needed, what others need first.
    fn collect(&self, wanted: &[String], names: &mut Vec<String>) {
        for name in wanted {
            let need = self.needs.get(name).unwrap_or_else(|| panic!("what is {name}?"));
            self.collect(&self.made(need).needs, names);
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
}

/// A spec whose needs are named by their numbers, as stories do.
fn numbered(value: &Value, names: &[String]) -> Value {
    match value {
        Value::String(text) => {
            let named = text.strip_prefix('$').and_then(|text| text.split_once('.'));
            let at = named.and_then(|(name, _)| names.iter().position(|one| one == name));
            match (named, at) {
                (Some((_, path)), Some(at)) => format!("$needs.{at}.{path}").into(),
                _ => text.as_str().into(),
            }
        }
        Value::Array(items) => items.iter().map(|item| numbered(item, names)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), numbered(value, names)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

/// Nothing but what the definition of a kind requires.
fn required(kind: &KindFacts) -> Value {
    let definition = aws::crd::definition(kind).unwrap();
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    let mut spec = of_schema(schema, "");
    // One of a field and its reference must be given, and no schema says so.
    let references = kind.references();
    for reference in references.iter().filter(|reference| reference.required) {
        let name = reference.field.trim_start_matches("spec.");
        spec[name] = of_schema(&schema["properties"][name], name);
    }
    spec
}

fn of_schema(schema: &Value, name: &str) -> Value {
    let lower = name.to_lowercase();
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let names: BTreeSet<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let members = names.into_iter().map(|name| {
                let member = of_schema(&schema["properties"][name], name);
                (name.to_owned(), member)
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        "array" => json!([of_schema(&schema["items"], name)]),
        "integer" => 1.into(),
        "number" => json!(1.5),
        "boolean" => true.into(),
        _ if lower.ends_with("arn") => "arn:aws:iam::123456789012:role/r".into(),
        _ => "$name".into(),
    }
}
