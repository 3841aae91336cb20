//! What depends on what in a module and those that it calls, and the order that follows from it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hcl_edit::Span as _;

use super::address::{self, Path};
use super::config::{Check, Resource, Sort};
use super::functions;
use super::problem::{File, Problem};
use super::references::{self, Name, Reference};
use super::tree::{Tree, plain};

/// Something with a value, in the module that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub path: Path,
    pub item: Item,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// How often the module is called.
    Instances,
    /// Of a called module; those of the root are given.
    Variable(String),
    Local(String),
    /// A configuration of a provider, in the root.
    Provider(String),
    /// By its address in the module.
    Resource(String),
    /// Of a called module; those of the root come when all is done.
    Output(String),
}

#[derive(Debug, Default)]
pub struct Graph {
    /// Everything after what it refers to.
    pub order: Vec<Node>,
    /// The resources that a resource refers to, by itself or through others; all by the addresses of declarations.
    pub behind: BTreeMap<String, BTreeSet<String>>,
    /// Those that have to be settled before a resource because it, or a call around it, says so.
    pub before: BTreeMap<String, BTreeSet<String>>,
    /// Functions of providers that are called, and where. Providers are as the root knows them, without an alias.
    pub functions: Functions,
}

type Functions = BTreeMap<(String, String), String>;

impl Graph {
    /// Checks every name in the modules, and finds the order.
    pub fn of(root: &Tree) -> Result<Graph, Problem> {
        let mut gathering = Gathering { root, direct: BTreeMap::new(), before: BTreeMap::new() };
        let functions = RefCell::new(Functions::new());
        for (path, tree) in root.all() {
            Around { path: &path, tree, root, functions: &functions }.gather(&mut gathering)?;
        }
        let order = sorted(&gathering.direct)?;
        let behind = behind(&order, &gathering.direct);
        Ok(Graph { order, behind, before: gathering.before, functions: functions.into_inner() })
    }
}

type Nodes = BTreeSet<Node>;

struct Gathering<'a> {
    root: &'a Tree,
    direct: BTreeMap<Node, Nodes>,
    before: BTreeMap<String, BTreeSet<String>>,
}

/// A module, and where it is.
struct Around<'a> {
    path: &'a Path,
    tree: &'a Tree,
    root: &'a Tree,
    /// Noted wherever one is met.
    functions: &'a RefCell<Functions>,
}

fn of_checks(checks: &[Check]) -> Vec<Reference> {
    let of = |check: &Check| {
        let mut found = references::of_expression(&check.condition);
        found.extend(references::of_expression(&check.message));
        found
    };
    checks.iter().flat_map(of).collect()
}

impl Around<'_> {
    fn node(&self, item: Item) -> Node {
        Node { path: self.path.clone(), item }
    }

    fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// Whatever is in a called module needs to know how often it is.
    fn inside(&self) -> Nodes {
        if self.is_root() { Nodes::new() } else { [self.node(Item::Instances)].into() }
    }

    fn gather(&self, gathering: &mut Gathering<'_>) -> Result<(), Problem> {
        let module = &self.tree.module;
        for (name, local) in &module.locals {
            let mut nodes = self.checked(&local.file, &references::of_expression(&local.value), &[])?;
            nodes.extend(self.inside());
            gathering.direct.insert(self.node(Item::Local(name.clone())), nodes);
        }
        for (name, output) in &module.outputs {
            let mut found = references::of_expression(&output.value);
            found.extend(of_checks(&output.preconditions));
            let mut nodes = self.checked(&output.file, &found, &[])?;
            nodes.extend(self.inside());
            if !self.is_root() {
                gathering.direct.insert(self.node(Item::Output(name.clone())), nodes);
            } else if output.ephemeral {
                let message =
                    format!("the output {name:?} is kept; only those of called modules are ephemeral");
                return Err(Problem::at(&output.file, output.value.span(), message));
            }
        }
        self.providers(gathering)?;
        self.variables()?;
        module.moves.iter().try_for_each(|one| one.check(module))?;
        for (address, resource) in &module.resources {
            let nodes = self.resource(gathering, address, resource)?;
            gathering.direct.insert(self.node(Item::Resource(address.clone())), nodes);
        }
        self.calls(gathering)
    }

    fn providers(&self, gathering: &mut Gathering<'_>) -> Result<(), Problem> {
        for (name, provider) in &self.tree.module.providers {
            if !self.is_root() {
                let message = "only the outermost module configures providers; pass one with providers";
                return Err(Problem::Wrong { place: Some(provider.place.clone()), message: message.into() });
            }
            let nodes = self.checked(&provider.file, &references::of_body(&provider.body), &[])?;
            gathering.direct.insert(self.node(Item::Provider(name.clone())), nodes);
        }
        Ok(())
    }

    fn variables(&self) -> Result<(), Problem> {
        for (name, variable) in &self.tree.module.variables {
            for check in &variable.checks {
                for reference in of_checks(std::slice::from_ref(check)) {
                    let own = matches!(&reference.name, Name::Variable(other) if other == name);
                    let function = matches!(reference.name, Name::Function(_) | Name::ProviderFunction(..));
                    if !own && !function {
                        let message = "a validation refers to its own variable only";
                        return Err(Problem::at(&check.file, reference.span, message));
                    }
                    self.checked(&check.file, &[reference], &[])?;
                }
            }
        }
        Ok(())
    }

    fn resource(
        &self,
        gathering: &mut Gathering<'_>,
        address: &str,
        resource: &Resource,
    ) -> Result<Nodes, Problem> {
        let (repeats, bound) = resource.repetition.parts();
        let mut found = references::of_body(&resource.body);
        found.extend(of_checks(&resource.preconditions));
        let mut nodes = self.checked(&resource.file, &found, bound)?;
        let known: Vec<&str> = bound.iter().copied().chain(["self"]).collect();
        nodes.extend(self.checked(&resource.file, &of_checks(&resource.postconditions), &known)?);
        if let Some(expression) = repeats {
            nodes.extend(self.checked(&resource.file, &references::of_expression(expression), &[])?);
        }
        nodes.extend(self.inside());
        let wrong = |message: String| Problem::Wrong { place: Some(resource.place.clone()), message };
        let provider = gathering.root.root_provider(self.path, &resource.provider).ok_or_else(|| {
            wrong(format!("the provider {} is not passed to this module", resource.provider))
        })?;
        if gathering.root.module.providers.contains_key(&provider) {
            nodes.insert(Node { path: Path::new(), item: Item::Provider(provider) });
        }
        let own = format!("{}{address}", address::prefix(self.path));
        let before = self.before(gathering.root, resource)?;
        let named = |node: &Node| match &node.item {
            Item::Resource(address) => Some(format!("{}{address}", address::prefix(&node.path))),
            _ => None,
        };
        gathering.before.insert(own, before.iter().filter_map(named).collect());
        nodes.extend(before);
        Ok(nodes)
    }

    /// What `depends_on` says, of the resource and of every call around it.
    fn before(&self, root: &Tree, resource: &Resource) -> Result<Nodes, Problem> {
        let mut nodes = Nodes::new();
        let mut add = |around: &[String], found: Vec<(Path, String)>| {
            nodes.extend(found.into_iter().map(|(below, address)| Node {
                path: around.iter().cloned().chain(below).collect(),
                item: Item::Resource(address),
            }));
        };
        add(self.path, self.tree.meant(&resource.depends_on, &resource.place)?);
        for length in 1..=self.path.len() {
            let (around, call) = (&self.path[..length - 1], root.call(&self.path[..length]));
            if let (Some(tree), Some(call)) = (root.at(around), call) {
                add(around, tree.meant(&call.depends_on, &call.place)?);
            }
        }
        Ok(nodes)
    }

    fn calls(&self, gathering: &mut Gathering<'_>) -> Result<(), Problem> {
        for (name, call) in &self.tree.module.calls {
            let Some(called) = self.tree.calls.get(name) else { continue };
            let path: Path = self.path.iter().cloned().chain([name.clone()]).collect();
            let node = |item: Item| Node { path: path.clone(), item };
            let (repeats, bound) = call.repetition.parts();
            let mut nodes = self.inside();
            if let Some(expression) = repeats {
                nodes.extend(self.checked(&call.file, &references::of_expression(expression), &[])?);
            }
            gathering.direct.insert(node(Item::Instances), nodes);
            let variables = &called.module.variables;
            let wrong = |message: String| Problem::Wrong { place: Some(call.place.clone()), message };
            if let Some(other) = call.arguments.keys().find(|name| !variables.contains_key(*name)) {
                return Err(wrong(format!("the module {name:?} has no variable {other:?}")));
            }
            for (variable, declared) in variables {
                let mut nodes = Nodes::from([node(Item::Instances)]);
                match call.arguments.get(variable) {
                    Some(given) => {
                        nodes.extend(self.checked(&call.file, &references::of_expression(given), bound)?);
                    }
                    None if declared.default.is_none() => {
                        return Err(wrong(format!("the variable {variable:?} of the module is required")));
                    }
                    None => {}
                }
                gathering.direct.insert(node(Item::Variable(variable.clone())), nodes);
            }
        }
        Ok(())
    }

    /// The nodes that references lead to; one that leads nowhere is an error.
    fn checked(&self, file: &File, found: &[Reference], known: &[&str]) -> Result<Nodes, Problem> {
        let module = &self.tree.module;
        let mut nodes = Nodes::new();
        for reference in found {
            let wrong = |message: String| Err(Problem::at(file, reference.span.clone(), message));
            match &reference.name {
                Name::Variable(name) if module.variables.contains_key(name) => {
                    if !self.is_root() {
                        nodes.insert(self.node(Item::Variable(name.clone())));
                    }
                }
                Name::Variable(name) => return wrong(format!("there is no variable {name:?}")),
                Name::Local(name) if module.locals.contains_key(name) => {
                    nodes.insert(self.node(Item::Local(name.clone())));
                }
                Name::Local(name) => return wrong(format!("there is no local {name:?}")),
                Name::Resource(address) if module.resources.contains_key(address) => {
                    nodes.insert(self.node(Item::Resource(address.clone())));
                }
                Name::Resource(address) => return wrong(format!("there is no resource {address}")),
                Name::Call(call, output) => {
                    let Some(called) = self.tree.calls.get(call) else {
                        return wrong(format!("there is no module {call:?}"));
                    };
                    nodes.extend(self.outputs(call, output.as_deref(), called).or_else(wrong)?);
                }
                Name::Repeated(root) if known.contains(&root.as_str()) => {}
                Name::Repeated(root) if root == "self" => {
                    return wrong("self is only there in a postcondition".into());
                }
                Name::Repeated(root) => {
                    return wrong(format!("{root} is only there in a resource that has its argument"));
                }
                Name::Function(name) if functions::exists(name) => {}
                Name::Function(name) => return wrong(functions::missing(name)),
                Name::ProviderFunction(provider, name) => {
                    let Some(known) = self.root.root_provider(self.path, provider) else {
                        return wrong(format!("the provider {provider} is not passed to this module"));
                    };
                    let place = file.place(reference.span.clone());
                    let called = (plain(&known).to_owned(), name.clone());
                    self.functions.borrow_mut().entry(called).or_insert(place);
                }
                Name::Other(root) if ["data", "module", "ephemeral", "terraform"].contains(&&**root) => {
                    return wrong(format!("references to {root} are not supported"));
                }
                Name::Other(root) => return wrong(format!("there is nothing called {root:?}")),
            }
        }
        Ok(nodes)
    }

    fn outputs(&self, call: &str, output: Option<&str>, called: &Tree) -> Result<Nodes, String> {
        let path: Path = self.path.iter().cloned().chain([call.to_owned()]).collect();
        let all = &called.module.outputs;
        if let Some(output) = output.filter(|output| !all.contains_key(*output)) {
            return Err(format!("the module {call:?} has no output {output:?}"));
        }
        let meant = all.keys().filter(|name| output.is_none_or(|output| output == *name));
        let items = meant.map(|name| Item::Output(name.clone())).chain([Item::Instances]);
        Ok(items.map(|item| Node { path: path.clone(), item }).collect())
    }
}

/// Kahn's way, always in the same order.
fn sorted(direct: &BTreeMap<Node, Nodes>) -> Result<Vec<Node>, Problem> {
    let mut order: Vec<Node> = Vec::with_capacity(direct.len());
    let mut done: BTreeSet<&Node> = BTreeSet::new();
    while order.len() < direct.len() {
        let ready = |(node, needs): &(&Node, &Nodes)| {
            !done.contains(node) && needs.iter().all(|need| done.contains(need))
        };
        let next: Vec<&Node> = direct.iter().filter(ready).map(|(node, _)| node).collect();
        if next.is_empty() {
            let names: Vec<String> = direct.keys().filter(|node| !done.contains(node)).map(name).collect();
            return Err(Problem::new(format!(
                "these depend on each other in a circle: {}",
                names.join(", ")
            )));
        }
        order.extend(next.iter().map(|node| (*node).clone()));
        done.extend(next);
    }
    Ok(order)
}

fn name(node: &Node) -> String {
    let prefix = address::prefix(&node.path);
    match &node.item {
        Item::Instances => prefix.trim_end_matches('.').to_owned(),
        Item::Variable(name) => format!("{prefix}var.{name}"),
        Item::Local(name) => format!("{prefix}local.{name}"),
        Item::Provider(name) => format!("provider {name}"),
        Item::Resource(address) => format!("{prefix}{address}"),
        Item::Output(name) => format!("{prefix}output.{name}"),
    }
}

/// Whether what is declared there stands for itself, rather than being looked at or opened.
fn stands(address: &str) -> bool {
    let prefixes = [Sort::Data, Sort::Ephemeral].map(Sort::prefix);
    !prefixes.iter().any(|prefix| address.starts_with(prefix))
}

fn behind(order: &[Node], direct: &BTreeMap<Node, Nodes>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<&Node, BTreeSet<String>> = BTreeMap::new();
    for node in order {
        let mut reached = BTreeSet::new();
        for need in direct.get(node).into_iter().flatten() {
            reached.extend(all.get(need).cloned().unwrap_or_default());
            // What is only read is nothing that stands there.
            if matches!(&need.item, Item::Resource(address) if stands(address)) {
                reached.insert(name(need));
            }
        }
        all.insert(node, reached);
    }
    let resources = all.into_iter().filter(|(node, _)| matches!(node.item, Item::Resource(_)));
    resources.map(|(node, reached)| (name(node), reached)).collect()
}
