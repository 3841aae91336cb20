//! What is to be done about a module now: pure, from what it declares and what is there.
//!
//! Everything is taken in the order of what it refers to, in every instance of its module. A resource whose arguments
//! are all known is wanted as they say; one that refers to something that is not there, or not yet as wanted, is left
//! as it is until that is settled. Data that has to be read, and functions of providers that have to be called, are asked
//! for, and the course found again with the answers. What is ephemeral has no value, so that nothing of it is kept
//! anywhere, unless the course is found for one who needs it while it is open.
//! What is no longer wanted goes when nothing that stood on it is left or on its way.

mod calling;
mod instances;
mod known;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hcl_edit::Span as _;
use serde_json::{Map, Value as Json};

use super::address::{self, Path, Which};
use super::body::{self, Audience};
use super::config::{Ignored, Resource, Sort};
use super::expression::{Budget, Scope};
use super::graph::{Graph, Item, Node};
use super::inputs::{Inputs, chosen, holds};
use super::problem::Problem;
use super::term::Term;
use super::tree::Tree;
use crate::driver::telling;
use crate::names::FieldNames;
use crate::plugin::Function;
use crate::schema::Schema;
use crate::value::Value;
use calling::Functions;
pub use calling::{Calling, Returned};
use instances::{Declared, Found};
use known::{Bound, Called, Form, Instance, keys};

/// Resource objects that one module may have, and instances that one declaration may.
const MOST: usize = 1_000;

/// A resource object of the module, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct There {
    /// Its declaration: the address without keys of instances.
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
    /// As the root knows the provider.
    pub provider: String,
    /// Fields of the object.
    pub shown: Json,
    /// What goes into its Secret; with what is ephemeral, if that is open.
    pub secret: Option<Json>,
    pub opens: Opens,
    pub behind: BTreeSet<String>,
    pub create_before_destroy: bool,
    pub prevent_destroy: bool,
    pub ignored: Ignored,
}

/// What of an instance is ephemeral, and not known unless it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opens {
    /// Some of its arguments.
    pub arguments: bool,
    /// Some of the configuration of its provider.
    pub provider: bool,
}

/// A data source to be read, or something to be opened.
#[derive(Clone, Debug)]
pub struct Asked {
    pub sort: Sort,
    pub address: String,
    pub type_name: String,
    pub provider: String,
    pub config: Value,
}

/// What a provider said of it, or why it did not.
#[derive(Clone)]
pub struct Answer {
    pub config: Value,
    pub said: Result<Value, String>,
}

#[derive(Debug, Default)]
pub struct Course {
    pub wanted: Vec<Wanted>,
    /// Addresses of those that are there and should not be.
    pub leaving: BTreeSet<String>,
    /// Of those, the ones to delete now.
    pub going: BTreeSet<String>,
    /// What has to be read before more can be said.
    pub asked: Vec<Asked>,
    /// And what has to be called.
    pub calls: BTreeSet<Calling>,
    /// Configurations of providers that the module makes itself, in the provider's names.
    pub providers: BTreeMap<String, Json>,
    /// Of those, the ones that something ephemeral belongs to.
    pub opening: BTreeSet<String>,
    /// Addresses of those that are there and as they should be.
    pub settled: BTreeSet<String>,
    /// What is still waited for; nothing if all is as it should be.
    pub waiting: Vec<String>,
    /// Of that, what will not come by itself.
    pub failed: Option<String>,
    /// By Kubeform's names; only when nothing is waited for.
    pub outputs: Map<String, Json>,
    pub secret_outputs: Map<String, Json>,
}

impl Course {
    /// What keeps it from its end.
    pub fn why(&self) -> String {
        self.failed.as_ref().or(self.waiting.first()).cloned().unwrap_or_default()
    }
}

/// How things look that a module names.
pub trait Schemas {
    /// A type, of a provider as the root knows it.
    fn resource(&self, sort: Sort, provider: &str, type_name: &str) -> Result<Arc<Schema>, Problem>;
    /// The configuration of a provider.
    fn provider(&self, name: &str) -> Result<Arc<Schema>, Problem>;
    fn function(&self, provider: &str, name: &str) -> Result<Arc<Function>, Problem>;
}

pub struct Situation<'a> {
    pub tree: &'a Tree,
    pub graph: &'a Graph,
    pub inputs: &'a Inputs,
    pub schemas: &'a dyn Schemas,
    pub there: &'a BTreeMap<String, There>,
    /// What data sources, and what was opened, came to, by address.
    pub answers: &'a BTreeMap<String, Answer>,
    /// What functions of providers made of their arguments.
    pub returned: &'a Returned,
    /// Whether the object of an instance is as it should be.
    pub fits: &'a dyn Fn(&Wanted) -> bool,
    /// Whether what is ephemeral is opened for this.
    pub open: bool,
    pub budget: &'a Budget,
}

/// Finds out what to do. An error means that nothing is done.
pub fn course(situation: &Situation<'_>) -> Result<Course, Problem> {
    let calls = RefCell::new(BTreeSet::new());
    let variables = &situation.tree.module.variables;
    let given = |(name, term): (&String, &Term)| {
        let ephemeral = variables.get(name).is_some_and(|variable| variable.ephemeral);
        (name.clone(), passing(Ok(term.clone()), ephemeral, situation.open))
    };
    let root = Instance {
        variables: situation.inputs.iter().map(given).collect(),
        open: situation.open,
        functions: Some(Functions { situation, path: &[], calls: &calls }),
        ..Instance::default()
    };
    let only = Placed { prefix: String::new(), caller: String::new(), at: 0, bound: Bound::new() };
    let mut walk = Walk {
        situation,
        calls: &calls,
        known: BTreeMap::from([(String::new(), root)]),
        places: BTreeMap::from([(Path::new(), Ok(Arc::from([only])))]),
        pending: BTreeMap::new(),
        staying: BTreeSet::new(),
        settled: BTreeSet::new(),
        course: Course::default(),
    };
    for node in &situation.graph.order {
        walk.step(node)?;
    }
    let course = walk.finish()?;
    let calls = calls.into_inner();
    if situation.returned.len() + calls.len() > MOST {
        return Err(Problem::new(format!("functions of providers are called more than {MOST} times")));
    }
    Ok(Course { calls, ..course })
}

/// The same for a module that is being deleted: everything goes.
pub fn departure(there: &BTreeMap<String, There>) -> BTreeSet<String> {
    may_go(there, &there.keys().collect(), &BTreeSet::new())
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

/// An instance of a module.
struct Placed {
    /// What addresses in it begin with.
    prefix: String,
    /// The same of the instance that calls it.
    caller: String,
    /// Which of those that this one calls.
    at: usize,
    /// What is known where its arguments stand.
    bound: Bound,
}

/// The instances of a module, or why it is not known which there are.
type Places = Result<Arc<[Placed]>, String>;

struct Walk<'a> {
    situation: &'a Situation<'a>,
    calls: &'a RefCell<BTreeSet<Calling>>,
    /// By the prefixes of instances.
    known: BTreeMap<String, Instance<'a>>,
    places: BTreeMap<Path, Places>,
    /// Declarations, and providers, that something of is not there yet; and why.
    pending: BTreeMap<String, String>,
    staying: BTreeSet<String>,
    settled: BTreeSet<String>,
    course: Course,
}

/// A value that is kept nowhere: there is none now, or it is secret.
fn passing(value: Result<Term, Problem>, ephemeral: bool, open: bool) -> Result<Term, Problem> {
    match (ephemeral, open) {
        (false, _) => value,
        (true, false) => value.and(Err(Problem::Ephemeral)),
        (true, true) => value.map(Term::secret),
    }
}

/// Whether something ephemeral is in a value.
fn is_ephemeral(value: &Result<Term, Problem>) -> bool {
    match value {
        Ok(term) => term.has_ephemeral(),
        Err(problem) => *problem == Problem::Ephemeral,
    }
}

/// What is wrong ends everything; what is pending is a value like another.
fn kept(value: Result<Term, Problem>) -> Result<Result<Term, Problem>, Problem> {
    match value {
        Err(problem @ Problem::Wrong { .. }) => Err(problem),
        other => Ok(other),
    }
}

impl<'a> Walk<'a> {
    fn step(&mut self, node: &'a Node) -> Result<(), Problem> {
        let Some(tree) = self.situation.tree.at(&node.path) else { return Ok(()) };
        if node.item == Item::Instances {
            return self.call(&node.path);
        }
        let places = match self.places.get(&node.path) {
            Some(Ok(places)) => places.clone(),
            Some(Err(why)) => {
                // What is in a module of which nobody knows how often it is there, is not there yet.
                if let Item::Resource(address) = &node.item {
                    let declaration = format!("{}{address}", address::prefix(&node.path));
                    self.pending.insert(declaration, why.clone());
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        for place in places.iter() {
            match &node.item {
                Item::Instances => {}
                Item::Variable(name) => self.variable(&node.path, place, name)?,
                Item::Local(name) => self.local(tree, place, name)?,
                Item::Provider(name) => self.provider(tree, name)?,
                Item::Resource(address) => {
                    if let Some(resource) = tree.module.resources.get(address) {
                        self.resource(&node.path, place, address, resource)?;
                    }
                }
                Item::Output(name) => self.output(&node.path, tree, place, name)?,
            }
        }
        Ok(())
    }

    fn instance(&mut self, prefix: &str) -> &mut Instance<'a> {
        self.known.entry(prefix.to_owned()).or_default()
    }

    /// How often a module is called, by each instance of its caller.
    fn call(&mut self, path: &'a Path) -> Result<(), Problem> {
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        let Some(call) = self.situation.tree.call(path) else { return Ok(()) };
        let callers = match self.places.get(above) {
            Some(Ok(callers)) => callers.clone(),
            Some(Err(why)) => {
                let why = why.clone();
                self.places.insert(path.clone(), Err(why));
                return Ok(());
            }
            None => return Ok(()),
        };
        let form = Form::of(&call.repetition);
        let mut found: Places = Ok(Arc::from([]));
        let mut all: Vec<Placed> = Vec::new();
        for caller in callers.iter() {
            let budget = self.situation.budget;
            let known = self.instance(&caller.prefix);
            let keyed = keys(&Scope::new(&call.file, known, budget), &call.repetition);
            let keys = match keyed {
                Ok(keyed) => {
                    let keys: Vec<Which> = keyed.iter().map(|(which, _)| which.clone()).collect();
                    all.extend(keyed.into_iter().enumerate().map(|(at, (which, bound))| Placed {
                        prefix: format!("{}module.{name}{which}.", caller.prefix),
                        caller: caller.prefix.clone(),
                        at,
                        bound,
                    }));
                    Ok(keys)
                }
                Err(Problem::Pending(why)) => {
                    found = Err(why.clone());
                    Err(Problem::Pending(why))
                }
                Err(problem) => return Err(problem),
            };
            let called = Called { form, keys, outputs: BTreeMap::new() };
            self.instance(&caller.prefix).calls.insert(name.clone(), called);
        }
        if all.len() > MOST {
            let message = format!("the module {name:?} has more than {MOST} instances");
            return Err(Problem::Wrong { place: Some(call.place.clone()), message });
        }
        if let Err(why) = &found {
            // Which there should be is not known: those that are there stay.
            let inside = address::prefix(path);
            let there = self.situation.there.iter().filter(|(_, one)| one.resource.starts_with(&inside));
            self.staying.extend(there.map(|(address, _)| address.clone()));
            self.course.waiting.push(format!("{} waits: {why}", inside.trim_end_matches('.')));
        } else {
            let functions = Some(Functions { situation: self.situation, path, calls: self.calls });
            let new = || Instance { functions, open: self.situation.open, ..Instance::default() };
            self.known.extend(all.iter().map(|place| (place.prefix.clone(), new())));
            found = Ok(all.into());
        }
        self.places.insert(path.clone(), found);
        Ok(())
    }

    /// What the caller says, as the called module wants it.
    fn variable(&mut self, path: &Path, place: &Placed, name: &str) -> Result<(), Problem> {
        let (situation, tree) = (self.situation, self.situation.tree);
        let (Some(call), Some(called)) = (tree.call(path), tree.at(path)) else { return Ok(()) };
        let Some(variable) = called.module.variables.get(name) else { return Ok(()) };
        let given = call.arguments.get(name).map(|expression| {
            let caller = self.instance(&place.caller);
            Scope::new(&call.file, caller, situation.budget).with(place.bound.clone()).evaluate(expression)
        });
        let value = given.transpose().and_then(|given| chosen(name, variable, given));
        if is_ephemeral(&value) && !variable.ephemeral {
            let message = format!("the variable {name:?} is given something ephemeral, and does not say so");
            return Err(Problem::Wrong { place: Some(call.place.clone()), message });
        }
        let value = passing(value, variable.ephemeral, situation.open);
        let value = kept(value.map(|term| term.secret_if(variable.sensitive)))?;
        let known = value.is_ok();
        let instance = self.instance(&place.prefix);
        instance.variables.insert(name.to_owned(), value);
        let mut checks = variable.checks.iter().filter(|_| known);
        checks.try_for_each(|check| holds(check, &Scope::new(&check.file, &*instance, situation.budget)))
    }

    fn local(&mut self, tree: &Tree, place: &Placed, name: &str) -> Result<(), Problem> {
        let Some(local) = tree.module.locals.get(name) else { return Ok(()) };
        let budget = self.situation.budget;
        let instance = self.instance(&place.prefix);
        let value = kept(Scope::new(&local.file, &*instance, budget).evaluate(&local.value))?;
        instance.locals.insert(name.to_owned(), value);
        Ok(())
    }

    /// A configuration that the root makes of what it knows.
    fn provider(&mut self, tree: &Tree, name: &str) -> Result<(), Problem> {
        let Some(provider) = tree.module.providers.get(name) else { return Ok(()) };
        let schema = self.situation.schemas.provider(name)?;
        let budget = self.situation.budget;
        let scope = Scope::new(&provider.file, &*self.instance(""), budget);
        match body::value(&scope, &provider.body, &schema.block, Audience::ProviderBesideSecret) {
            Ok(arguments) => {
                self.course.providers.insert(name.to_owned(), telling::json(&arguments.value));
                if arguments.opens {
                    self.course.opening.insert(name.to_owned());
                }
            }
            Err(Problem::Pending(why)) => {
                self.course.waiting.push(format!("the provider {name} waits: {why}"));
                self.pending.insert(provider_key(name), why);
            }
            Err(Problem::Wrong { place: None, message }) => {
                return Err(Problem::Wrong { place: Some(provider.place.clone()), message });
            }
            Err(problem) => return Err(problem),
        }
        Ok(())
    }

    fn resource(
        &mut self,
        path: &Path,
        place: &Placed,
        address: &str,
        resource: &Resource,
    ) -> Result<(), Problem> {
        let situation = self.situation;
        let declaration = format!("{}{address}", address::prefix(path));
        let provider = situation.tree.root_provider(path, &resource.provider).unwrap_or_default();
        let first = situation.graph.before.get(&declaration).into_iter().flatten();
        let before = first.chain([&provider_key(&provider)]).find_map(|one| self.pending.get(one)).cloned();
        let provider_opens = self.course.opening.contains(&provider);
        let declared = Declared {
            prefix: &place.prefix,
            address,
            declaration: &declaration,
            resource,
            provider,
            provider_opens,
        };
        let found: Found = declared.find(situation, self.instance(&place.prefix), before)?;
        match found.staying {
            Some(staying) => self.staying.extend(staying),
            // How many there should be is not known: those that are there stay.
            None => {
                let own = |(address, one): &(&String, &There)| {
                    one.resource == declaration && address.starts_with(&place.prefix)
                };
                self.staying.extend(situation.there.iter().filter(own).map(|(address, _)| address.clone()));
            }
        }
        if let Err(problem) = &found.value {
            self.pending.insert(declaration, problem.to_string());
        }
        self.settled.extend(found.settled);
        let course = &mut self.course;
        course.waiting.extend(found.waiting);
        course.wanted.extend(found.wanted);
        course.asked.extend(found.asked);
        course.failed = course.failed.take().or(found.failed);
        if course.wanted.len() + course.asked.len() > MOST {
            return Err(Problem::new(format!("the module has more than {MOST} resources")));
        }
        self.instance(&place.prefix).resources.insert(address.to_owned(), found.value);
        Ok(())
    }

    /// What a called module tells its caller.
    fn output(&mut self, path: &Path, tree: &Tree, place: &Placed, name: &str) -> Result<(), Problem> {
        let (Some(call), Some(output)) = (path.last(), tree.module.outputs.get(name)) else { return Ok(()) };
        let budget = self.situation.budget;
        let scope = Scope::new(&output.file, &*self.instance(&place.prefix), budget);
        let value = output.preconditions.iter().try_for_each(|check| holds(check, &scope));
        let value = kept(value.and_then(|()| scope.evaluate(&output.value)))?;
        if is_ephemeral(&value) && !output.ephemeral {
            let message = format!("the output {name:?} holds something ephemeral, and does not say so");
            return Err(Problem::at(&output.file, output.value.span(), message));
        }
        let value = passing(value, output.ephemeral, self.situation.open);
        let value = value.map(|term| term.secret_if(output.sensitive));
        if let Some(called) = self.instance(&place.caller).calls.get_mut(call) {
            let values = called.outputs.entry(name.to_owned()).or_default();
            debug_assert_eq!(values.len(), place.at, "instances come in the order of their keys");
            values.push(value);
        }
        Ok(())
    }

    fn finish(self) -> Result<Course, Problem> {
        let Walk { situation, known, staying, settled, mut course, .. } = self;
        let leaving: BTreeSet<&String> =
            situation.there.keys().filter(|address| !staying.contains(*address)).collect();
        course.going = may_go(situation.there, &leaving, &settled);
        course.waiting.extend(leaving.iter().map(|address| not_gone(address)));
        course.leaving = leaving.into_iter().cloned().collect();
        course.settled = settled;
        if let (true, Some(root)) = (course.waiting.is_empty(), known.get("")) {
            match outputs(situation, root, &mut course) {
                Err(Problem::Pending(why)) => course.waiting.push(why),
                told => told?,
            }
        }
        Ok(course)
    }
}

/// What is waited for, in words.
pub fn not_there(address: &str) -> String {
    format!("{address} is not there yet")
}

pub fn not_gone(address: &str) -> String {
    format!("{address} is not gone yet")
}

/// By what a configuration is among what is pending.
fn provider_key(name: &str) -> String {
    format!("provider {name}")
}

fn outputs(situation: &Situation<'_>, known: &Instance<'_>, course: &mut Course) -> Result<(), Problem> {
    let module = &situation.tree.module;
    let names = FieldNames::new(module.outputs.keys(), true);
    for (name, output) in &module.outputs {
        let scope = Scope::new(&output.file, known, situation.budget);
        output.preconditions.iter().try_for_each(|check| holds(check, &scope))?;
        let term = scope.evaluate_part(&output.value)?;
        if term.has_ephemeral() {
            let message = format!("the output {name:?} holds something ephemeral, and is kept");
            return Err(Problem::at(&output.file, output.value.span(), message));
        }
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
