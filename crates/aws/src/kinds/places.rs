//! Where fields stand that name objects, hold secrets or matter before a deletion: `data/places.txt`.
//!
//! The engine asks for them of every kind when it starts. They follow from rules and models; the table saves a server from
//! unpacking the models of all services for the few that it has objects of.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use super::fields::{Home, Type};
use super::sites::{Literal, Site};
use super::{KindFacts, KindsError, Plan};
use crate::crd::names;
use crate::model::Kind as ShapeKind;
use crate::rules::vocabulary::Field as FieldRule;

/// A path of the rules, in published names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where the value stands: `spec.vpcConfig.subnetIDs`, `spec.rules[].groupID`.
    pub field: String,
    /// Where the name of an object stands that has the value: `spec.vpcConfig.subnetRefs`.
    pub reference: String,
    /// One of the two must be given.
    pub required: bool,
}

/// Service, kind and path.
type Key = (&'static str, &'static str, &'static str);

/// The place of a path that the rules of a kind tell something of; none where the model has no such field.
pub(super) fn place(kind: &KindFacts, path: &str) -> Option<Place> {
    static ROWS: LazyLock<BTreeMap<Key, [&str; 3]>> = LazyLock::new(|| {
        include_str!("../../data/places.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(row)
            .collect()
    });
    let [field, reference, required] = ROWS.get(&(kind.service, kind.kind, path))?;
    Some(Place {
        field: (*field).to_owned(),
        reference: (*reference).to_owned(),
        required: *required == REQUIRED,
    })
}

/// The last word of a row.
const REQUIRED: &str = "required";

fn row(line: &'static str) -> Option<(Key, [&'static str; 3])> {
    let mut words = line.split(' ');
    let (service, kind) = words.next()?.split_once('/')?;
    let (path, field, reference) = (words.next()?, words.next()?, words.next()?);
    Some(((service, kind, path), [field, reference, words.next().unwrap_or_default()]))
}

/// Whether the engine must know where a field stands.
fn matters(rule: &FieldRule) -> bool {
    rule.reference.is_some() || rule.secret || rule.hidden || rule.before_delete
}

/// The whole table, from models and rules. A test holds it against the file.
pub fn table() -> Result<String, KindsError> {
    let mut table = String::from(
        "# Where fields stand that the engine must know of before it reads any model: kind, path in the rules, the field, its\n\
         # reference, and whether one of the two is required. Made of rules and models by `cargo run -p aws --example kinds`;\n\
         # a test fails when it is stale.\n",
    );
    for kind in super::all() {
        let plan = kind.plan()?;
        for (path, _) in kind.rules.fields.iter().filter(|(_, rule)| matters(&rule.value)) {
            let Some(Place { field, reference, required }) = derived(kind, plan, path) else { continue };
            let required = if required { " required" } else { "" };
            let _ = writeln!(table, "{kind:?} {path} {field} {reference}{required}");
        }
    }
    Ok(table)
}

/// A path of words as it is published; `[]` where it goes through a list.
fn derived(kind: &KindFacts, plan: &Plan, path: &str) -> Option<Place> {
    let mut words = path.split('.');
    let field = plan.field(words.next()?)?;
    let home = match field.home {
        Home::Spec => "spec",
        Home::Status => "status",
    };
    let mut parent = home.to_owned();
    let mut word = field.word.clone();
    let mut name = field.name.clone();
    let (mut site, mut of_list) = match &field.kind {
        Type::Model(site) => (Some(*site), site.shape.kind() == ShapeKind::List),
        Type::ListOf(site) => (Some(*site), true),
        Type::MapOf(site) => (Some(*site), false),
        Type::Literal(literal) => (None, matches!(literal, Literal::List(_))),
        Type::Reference { .. } => return None,
    };
    for next in words {
        parent = format!("{parent}.{name}{}", if of_list { "[]" } else { "" });
        let inside = site?.content();
        let member = inside.shape.member(next)?;
        name = plan.overlay().name_in(inside.place, member.name()).to_string();
        word = next.to_owned();
        site = Some(Site::of(member.shape()));
        of_list = member.shape().kind() == ShapeKind::List;
    }
    let reference = names::published(&names::reference(&word, of_list));
    Some(Place {
        field: format!("{parent}.{name}"),
        reference: format!("{parent}.{reference}"),
        required: !path.contains('.') && needs(kind, plan, path),
    })
}

/// Whether the creating call, or the rules, want a field.
fn needs(kind: &KindFacts, plan: &Plan, word: &str) -> bool {
    if let Some(required) = kind.rules.fields.get(word).and_then(|rule| rule.value.required) {
        return required;
    }
    let create = &kind.rules.operations.create.value;
    let renames = kind.rules.renames.get(create);
    let member = renames
        .and_then(|renames| renames.value.iter().find(|(_, field)| *field == word))
        .map_or(word, |(member, _)| member.as_str());
    let input = Site::input(plan.model(), create);
    input.and_then(|input| input.shape.member(member)).is_some_and(|member| member.is_required())
}
