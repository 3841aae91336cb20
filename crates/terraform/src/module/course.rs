//! What is to be done about a module now: pure, from what it declares and what is there.
//!
//! Resources are taken in the order of what they refer to. One whose arguments are all known is wanted as they say; one
//! that refers to something that is not there, or not yet as wanted, is left as it is until that is settled. What is
//! no longer wanted goes when nothing that stood on it is left or on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::body;
use super::config::{Module, Repetition, Resource};
use super::expression::{Budget, Names, Scope};
use super::graph::{Graph, Node};
use super::inputs::{Inputs, holds};
use super::problem::Problem;
use super::term::{Entries, Term};
use super::types;
use crate::names::FieldNames;
use crate::schema::Schema;
use crate::shape;
use crate::value::Number;

/// Resource objects that one module may have.
const MOST: usize = 1_000;

/// A resource object of the module, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct There {
    /// `type.name`, without what tells one of several from another.
    pub resource: String,
    /// What it stood on when it was last written.
    pub behind: BTreeSet<String>,
    /// Being deleted already.
    pub going: bool,
    /// What it came to, if the object is settled.
    pub state: Option<Term>,
    /// Why it is not settled, if that is known.
    pub failure: Option<String>,
}

/// An instance as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub address: String,
    pub resource: String,
    pub type_name: String,
    /// Fields of the object.
    pub shown: Json,
    /// What goes into its Secret.
    pub secret: Option<Json>,
    pub behind: BTreeSet<String>,
    pub create_before_destroy: bool,
    pub prevent_destroy: bool,
}

#[derive(Debug, Default)]
pub struct Course {
    pub wanted: Vec<Wanted>,
    /// Addresses of those to delete now.
    pub going: BTreeSet<String>,
    /// What is still waited for; nothing if all is as it should be.
    pub waiting: Vec<String>,
    /// By Kubeform's names; only when nothing is waited for.
    pub outputs: Map<String, Json>,
    pub secret_outputs: Map<String, Json>,
}

pub struct Situation<'a> {
    pub module: &'a Module,
    pub graph: &'a Graph,
    pub inputs: &'a Inputs,
    /// The schema of a resource type.
    pub schema: &'a dyn Fn(&str) -> Result<Arc<Schema>, Problem>,
    pub there: &'a BTreeMap<String, There>,
    /// Whether the object of an instance is as it should be.
    pub fits: &'a dyn Fn(&Wanted) -> bool,
    pub budget: &'a Budget,
}

#[derive(Default)]
struct Known {
    inputs: Inputs,
    locals: BTreeMap<String, Result<Term, Problem>>,
    resources: BTreeMap<String, Result<Term, Problem>>,
}

impl Names for Known {
    fn variable(&self, name: &str) -> Result<Term, Problem> {
        self.inputs.get(name).cloned().ok_or_else(|| Problem::new(format!("there is no variable {name:?}")))
    }

    fn local(&self, name: &str) -> Result<Term, Problem> {
        let missing = || Err(Problem::new(format!("there is no local {name:?}")));
        self.locals.get(name).cloned().unwrap_or_else(missing)
    }

    fn resource(&self, type_name: &str, name: &str) -> Result<Term, Problem> {
        let address = format!("{type_name}.{name}");
        let missing = || Err(Problem::new(format!("there is no resource {address}")));
        self.resources.get(&address).cloned().unwrap_or_else(missing)
    }
}

/// How an instance is told from its brothers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Only,
    Number(usize),
    Key(String),
}

impl Which {
    fn address(&self, resource: &str) -> String {
        match self {
            Which::Only => resource.to_owned(),
            Which::Number(at) => format!("{resource}[{at}]"),
            Which::Key(key) => format!("{resource}[{}]", Json::String(key.clone())),
        }
    }
}

/// Finds out what to do. An error means that nothing is done.
pub fn course(situation: &Situation<'_>) -> Result<Course, Problem> {
    let mut known = Known { inputs: situation.inputs.clone(), ..Known::default() };
    let mut course = Course::default();
    let mut staying: BTreeSet<String> = BTreeSet::new();
    let mut settled: BTreeSet<String> = BTreeSet::new();
    for node in &situation.graph.order {
        match node {
            Node::Local(name) => {
                let Some(local) = situation.module.locals.get(name) else { continue };
                let scope = Scope::new(&local.file, &known, situation.budget);
                let value = scope.evaluate(&local.value);
                if let Err(problem @ Problem::Wrong { .. }) = value {
                    return Err(problem);
                }
                known.locals.insert(name.clone(), value);
            }
            Node::Resource(address) => {
                let Some(resource) = situation.module.resources.get(address) else { continue };
                let found = Instances::find(situation, &known, address, resource)?;
                match &found.keys {
                    // How many there should be is not known: those that are there stay.
                    None => staying.extend(of_resource(situation.there, address)),
                    Some(keys) => staying.extend(keys.iter().map(|which| which.address(address))),
                }
                settled.extend(found.settled);
                course.waiting.extend(found.waiting.iter().cloned());
                course.wanted.extend(found.wanted);
                known.resources.insert(address.clone(), found.value);
                if course.wanted.len() > MOST {
                    return Err(Problem::new(format!("the module has more than {MOST} resources")));
                }
            }
        }
    }
    let leaving: BTreeSet<&String> =
        situation.there.keys().filter(|address| !staying.contains(*address)).collect();
    course.going = may_go(situation.there, &leaving, &settled);
    course.waiting.extend(leaving.iter().map(|address| format!("{address} is not gone yet")));
    if course.waiting.is_empty() {
        outputs(situation, &known, &mut course)?;
    }
    Ok(course)
}

/// The same for a module that is being deleted: everything goes.
pub fn departure(there: &BTreeMap<String, There>) -> BTreeSet<String> {
    may_go(there, &there.keys().collect(), &BTreeSet::new())
}

fn of_resource<'a>(
    there: &'a BTreeMap<String, There>,
    resource: &'a str,
) -> impl Iterator<Item = String> + 'a {
    there.iter().filter(move |(_, one)| one.resource == resource).map(|(address, _)| address.clone())
}

/// Those that leave and on which nothing stands that leaves too, or that is still being changed.
fn may_go(
    there: &BTreeMap<String, There>,
    leaving: &BTreeSet<&String>,
    settled: &BTreeSet<String>,
) -> BTreeSet<String> {
    let free = |address: &&&String| {
        let Some(one) = there.get(**address) else { return false };
        let stands_on_it = |(other, above): (&String, &There)| {
            above.behind.contains(&one.resource) && (leaving.contains(other) || !settled.contains(other))
        };
        !one.going && !there.iter().any(stands_on_it)
    };
    leaving.iter().filter(free).map(|address| (*address).clone()).collect()
}

/// What became of one resource of the module.
struct Instances {
    /// None while it is not known which there should be.
    keys: Option<Vec<Which>>,
    wanted: Vec<Wanted>,
    settled: Vec<String>,
    waiting: Vec<String>,
    value: Result<Term, Problem>,
}

impl Instances {
    fn pending(keys: Option<Vec<Which>>, why: String) -> Instances {
        let value = Err(Problem::Pending(why.clone()));
        Instances { keys, wanted: Vec::new(), settled: Vec::new(), waiting: vec![why], value }
    }

    fn find(
        situation: &Situation<'_>,
        known: &Known,
        address: &str,
        resource: &Resource,
    ) -> Result<Instances, Problem> {
        let scope = Scope::new(&resource.file, known, situation.budget);
        let placed = |problem: Problem| match problem {
            Problem::Wrong { place: None, message } => {
                Problem::Wrong { place: Some(resource.place.clone()), message }
            }
            other => other,
        };
        let keyed = match keys(&scope, &resource.repetition).map_err(placed) {
            Err(Problem::Pending(why)) => return Ok(Instances::pending(None, waits(address, &why))),
            found => found?,
        };
        let keys: Vec<Which> = keyed.iter().map(|(which, _)| which.clone()).collect();
        let before =
            resource.depends_on.iter().filter_map(|other| known.resources.get(other)?.as_ref().err());
        if let Some(problem) = before.into_iter().next() {
            return Ok(Instances::pending(Some(keys), waits(address, &problem.to_string())));
        }
        let schema = (situation.schema)(&resource.type_name).map_err(placed)?;
        let mut found = Instances {
            keys: Some(keys),
            wanted: Vec::new(),
            settled: Vec::new(),
            waiting: Vec::new(),
            value: Err(Problem::Pending(String::new())),
        };
        let mut values = Vec::new();
        for (which, bound) in keyed {
            let own = which.address(address);
            let scope = scope.with(bound);
            let arguments = resource
                .checks
                .iter()
                .try_for_each(|check| holds(check, &scope))
                .and_then(|()| body::value(&scope, &resource.body, &schema.block))
                .map_err(placed);
            let arguments = match arguments {
                Err(Problem::Pending(why)) => {
                    found.waiting.push(waits(&own, &why));
                    continue;
                }
                arguments => arguments?,
            };
            let wanted = Wanted {
                address: own.clone(),
                resource: address.to_owned(),
                type_name: resource.type_name.clone(),
                shown: without_nulls(shape::shown(&schema.block, &arguments)),
                secret: shape::secrets(&schema.block, &arguments),
                behind: situation.graph.behind.get(address).cloned().unwrap_or_default(),
                create_before_destroy: resource.create_before_destroy,
                prevent_destroy: resource.prevent_destroy,
            };
            let there = situation.there.get(&own).filter(|there| !there.going);
            match there.filter(|_| (situation.fits)(&wanted)) {
                Some(There { state: Some(state), .. }) => {
                    values.push((which, state.clone()));
                    found.settled.push(own);
                }
                Some(There { failure: Some(why), .. }) => found.waiting.push(format!("{own}: {why}")),
                _ => found.waiting.push(format!("{own} is not there yet")),
            }
            found.wanted.push(wanted);
        }
        found.value = match found.waiting.first() {
            Some(why) => Err(Problem::Pending(why.clone())),
            None => Ok(together(&resource.repetition, values)),
        };
        Ok(found)
    }
}

/// Objects hold no nulls: what is null is not there.
fn without_nulls(json: Json) -> Json {
    match json {
        Json::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, json)| !json.is_null());
            Json::Object(kept.map(|(name, json)| (name, without_nulls(json))).collect())
        }
        Json::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn waits(address: &str, why: &str) -> String {
    format!("{address} waits: {why}")
}

/// The value by which the rest of the module knows a resource.
fn together(repetition: &Repetition, values: Vec<(Which, Term)>) -> Term {
    let mut values = values.into_iter();
    match repetition {
        Repetition::One => values.next().map_or(Term::Null, |(_, term)| term),
        Repetition::Count(_) => Term::List(values.map(|(_, term)| term).collect()),
        Repetition::ForEach(_) => {
            let keyed = values.filter_map(|(which, term)| match which {
                Which::Key(key) => Some((key, term)),
                _ => None,
            });
            Term::Map(keyed.collect())
        }
    }
}

type Bound = Vec<(String, Term)>;

/// Which instances there should be, and what is bound in each.
fn keys(scope: &Scope<'_>, repetition: &Repetition) -> Result<Vec<(Which, Bound)>, Problem> {
    use hcl_edit::Span as _;
    let open = |expression| match scope.evaluate(expression)? {
        Term::Secret(_) => Err(Problem::at(scope.file, expression.span(), "this must not be sensitive")),
        term => Ok(term),
    };
    match repetition {
        Repetition::One => Ok(vec![(Which::Only, Vec::new())]),
        Repetition::Count(expression) => {
            let count = types::number(&open(expression)?).ok().and_then(|number| number.as_u64());
            let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= MOST);
            let Some(count) = count else {
                let message = format!("count is a whole number from 0 to {MOST}");
                return Err(Problem::at(scope.file, expression.span(), message));
            };
            let bound = |at: usize| {
                let index = Term::Number(Number::from(at as u64));
                vec![("count".to_owned(), Term::Map(Entries::from([("index".to_owned(), index)])))]
            };
            Ok((0..count).map(|at| (Which::Number(at), bound(at))).collect())
        }
        Repetition::ForEach(expression) => {
            let wrong = |message: &str| Err(Problem::at(scope.file, expression.span(), message));
            let pairs: Vec<(String, Term)> = match open(expression)? {
                Term::Map(entries) => entries.into_iter().collect(),
                Term::Set(elements) => {
                    let mut pairs = Vec::new();
                    for element in elements {
                        let Term::String(text) = &element else {
                            return wrong("for_each takes a set of strings");
                        };
                        pairs.push((text.clone(), element));
                    }
                    pairs
                }
                _ => return wrong("for_each takes a map, or a set of strings"),
            };
            let bound = |key: &str, value: Term| {
                let each = Entries::from([("key".to_owned(), Term::text(key)), ("value".to_owned(), value)]);
                vec![("each".to_owned(), Term::Map(each))]
            };
            let instances = pairs.into_iter().map(|(key, value)| {
                let bound = bound(&key, value);
                (Which::Key(key), bound)
            });
            Ok(instances.collect())
        }
    }
}

fn outputs(situation: &Situation<'_>, known: &Known, course: &mut Course) -> Result<(), Problem> {
    use hcl_edit::Span as _;
    let names = FieldNames::new(situation.module.outputs.keys(), true);
    for (name, output) in &situation.module.outputs {
        let term = Scope::new(&output.file, known, situation.budget).evaluate(&output.value)?;
        let field = names.field(name).unwrap_or(name).to_owned();
        if output.sensitive {
            course.secret_outputs.insert(name.clone(), term.to_json());
        } else if term.has_secret() {
            let message = format!("the output {name:?} holds something sensitive and does not say so");
            return Err(Problem::at(&output.file, output.value.span(), message));
        } else {
            course.outputs.insert(field, term.to_json());
        }
    }
    Ok(())
}
