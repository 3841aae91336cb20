//! What depends on what in a module, and the order that follows from it.

use std::collections::{BTreeMap, BTreeSet};

use super::config::{Check, Module, Repetition, Resource};
use super::functions;
use super::problem::{File, Problem};
use super::references::{self, Name, Reference};

/// A local or a resource (by its address).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Local(String),
    Resource(String),
}

#[derive(Debug, Default)]
pub struct Graph {
    /// Everything after what it refers to.
    pub order: Vec<Node>,
    /// The resources that a resource refers to, by itself or through locals and other resources.
    pub behind: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Checks every name in the module, and finds the order.
    pub fn of(module: &Module) -> Result<Graph, Problem> {
        let mut direct: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
        for (name, local) in &module.locals {
            let found = references::of_expression(&local.value);
            direct.insert(Node::Local(name.clone()), checked(module, &local.file, &found, &[])?);
        }
        for (address, resource) in &module.resources {
            direct.insert(Node::Resource(address.clone()), of_resource(module, resource)?);
        }
        for output in module.outputs.values() {
            checked(module, &output.file, &references::of_expression(&output.value), &[])?;
        }
        for (name, variable) in &module.variables {
            for check in &variable.checks {
                let own = [Name::Variable(name.clone())];
                for reference in of_check(check) {
                    let fits = own.contains(&reference.name) || matches!(reference.name, Name::Function(_));
                    if !fits {
                        let message = "a validation refers to its own variable only";
                        return Err(Problem::at(&check.file, reference.span, message));
                    }
                    checked(module, &check.file, &[reference], &[])?;
                }
            }
        }
        let order = sorted(&direct)?;
        let behind = behind(&order, &direct);
        Ok(Graph { order, behind })
    }
}

fn of_check(check: &Check) -> Vec<Reference> {
    let mut found = references::of_expression(&check.condition);
    found.extend(references::of_expression(&check.message));
    found
}

fn of_resource(module: &Module, resource: &Resource) -> Result<BTreeSet<Node>, Problem> {
    let (repeats, bound) = match &resource.repetition {
        Repetition::One => (None, None),
        Repetition::Count(expression) => (Some(expression), Some("count")),
        Repetition::ForEach(expression) => (Some(expression), Some("each")),
    };
    let mut found = references::of_body(&resource.body);
    resource.checks.iter().for_each(|check| found.extend(of_check(check)));
    let bound: Vec<&str> = bound.into_iter().collect();
    let mut nodes = checked(module, &resource.file, &found, &bound)?;
    if let Some(expression) = repeats {
        let found = references::of_expression(expression);
        nodes.extend(checked(module, &resource.file, &found, &[])?);
    }
    for address in &resource.depends_on {
        if !module.resources.contains_key(address) {
            let message = format!("depends_on names {address}, which is not declared");
            return Err(Problem::Wrong { place: Some(resource.place.clone()), message });
        }
        nodes.insert(Node::Resource(address.clone()));
    }
    Ok(nodes)
}

/// The nodes that references lead to; one that leads nowhere is an error.
fn checked(
    module: &Module,
    file: &File,
    found: &[Reference],
    repeated: &[&str],
) -> Result<BTreeSet<Node>, Problem> {
    let mut nodes = BTreeSet::new();
    for reference in found {
        let wrong = |message: String| Err(Problem::at(file, reference.span.clone(), message));
        match &reference.name {
            Name::Variable(name) if module.variables.contains_key(name) => {}
            Name::Variable(name) => return wrong(format!("there is no variable {name:?}")),
            Name::Local(name) if module.locals.contains_key(name) => {
                nodes.insert(Node::Local(name.clone()));
            }
            Name::Local(name) => return wrong(format!("there is no local {name:?}")),
            Name::Resource(type_name, name) => {
                let address = format!("{type_name}.{name}");
                if !module.resources.contains_key(&address) {
                    return wrong(format!("there is no resource {address}"));
                }
                nodes.insert(Node::Resource(address));
            }
            Name::Repeated(root) if repeated.contains(&root.as_str()) => {}
            Name::Repeated(root) => {
                return wrong(format!("{root} is only there in a resource that has its argument"));
            }
            Name::Function(name) if functions::exists(name) => {}
            Name::Function(name) => return wrong(format!("the function {name:?} is not supported")),
            Name::Other(root) if ["data", "module", "self", "ephemeral", "terraform"].contains(&&**root) => {
                return wrong(format!("references to {root} are not supported"));
            }
            Name::Other(root) => return wrong(format!("there is nothing called {root:?}")),
        }
    }
    Ok(nodes)
}

/// Kahn's way, always in the same order.
fn sorted(direct: &BTreeMap<Node, BTreeSet<Node>>) -> Result<Vec<Node>, Problem> {
    let mut order: Vec<Node> = Vec::with_capacity(direct.len());
    let mut done: BTreeSet<&Node> = BTreeSet::new();
    while order.len() < direct.len() {
        let ready = |(node, needs): &(&Node, &BTreeSet<Node>)| {
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
    match node {
        Node::Local(name) => format!("local.{name}"),
        Node::Resource(address) => address.clone(),
    }
}

fn behind(order: &[Node], direct: &BTreeMap<Node, BTreeSet<Node>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<&Node, BTreeSet<String>> = BTreeMap::new();
    for node in order {
        let mut reached = BTreeSet::new();
        for need in direct.get(node).into_iter().flatten() {
            reached.extend(all.get(need).cloned().unwrap_or_default());
            if let Node::Resource(address) = need {
                reached.insert(address.clone());
            }
        }
        all.insert(node, reached);
    }
    let resources = all.into_iter().filter_map(|(node, reached)| match node {
        Node::Resource(address) => Some((address.clone(), reached)),
        Node::Local(_) => None,
    });
    resources.collect()
}
