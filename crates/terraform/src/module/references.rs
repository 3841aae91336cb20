//! What an expression refers to, without its value.

use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, ForExpr, FuncCall, Traversal, TraversalOperator};
use hcl_edit::structure::{Block, Body};
use hcl_edit::template::ForDirective;
use hcl_edit::visit::{self, Visit};

/// Something that stands outside of the expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Variable(String),
    Local(String),
    /// By its address: `type.name`, `data.type.name`, or `ephemeral.type.name`.
    Resource(String),
    /// A called module, and one of its outputs if only that is meant.
    Call(String, Option<String>),
    /// `each`, `count`, `self`.
    Repeated(String),
    /// Known to Terraform, and not here; or to nobody.
    Other(String),
    Function(String),
    /// A provider, as the module knows it, and one of its functions.
    ProviderFunction(String, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub name: Name,
    pub span: Option<Range<usize>>,
}

/// The leading names of a traversal; `["key"]` is as good as `.key` where a name is wanted.
pub fn names<'a>(operators: &[&'a TraversalOperator]) -> Vec<&'a str> {
    let name = |operator: &&'a TraversalOperator| match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str()),
        _ => None,
    };
    operators.iter().map_while(name).take(2).collect()
}

/// The output of a called module that a traversal leads to, if it says which; the first step is the module's name.
pub fn output<'a>(operators: &[&'a TraversalOperator]) -> Option<&'a str> {
    let mut rest = operators.iter().skip(1);
    let named = match rest.next()? {
        named @ TraversalOperator::GetAttr(_) => named,
        _ => rest.next()?,
    };
    match named {
        TraversalOperator::GetAttr(name) => Some(name.as_str()),
        _ => None,
    }
}

/// What a call of a function names, with the spaces that it is in.
pub fn function(call: &FuncCall) -> String {
    let spaces = call.name.namespace.iter().map(|space| format!("{}::", space.as_str()));
    spaces.collect::<String>() + call.name.name.as_str()
}

/// The provider and the function, of `provider::NAME::FUNCTION`.
pub fn provider_function(call: &FuncCall) -> Option<(&str, &str)> {
    match call.name.namespace.as_slice() {
        [space, provider] if space.as_str() == "provider" => {
            Some((provider.as_str(), call.name.name.as_str()))
        }
        _ => None,
    }
}

pub fn of_expression(expression: &Expression) -> Vec<Reference> {
    let mut found = Collector::default();
    found.visit_expr(expression);
    found.found
}

/// Of everything in a body.
pub fn of_body(body: &Body) -> Vec<Reference> {
    let mut found = Collector::default();
    found.visit_body(body);
    found.found
}

#[derive(Default)]
struct Collector {
    bound: Vec<String>,
    found: Vec<Reference>,
}

impl Collector {
    fn is_bound(&self, name: &str) -> bool {
        self.bound.iter().any(|bound| bound == name)
    }

    fn note(&mut self, name: Name, span: Option<Range<usize>>) {
        self.found.push(Reference { name, span });
    }

    fn root(&mut self, root: &str, operators: &[&TraversalOperator], span: Option<Range<usize>>) {
        let names = names(operators);
        let name = match (root, names.as_slice()) {
            ("var", [name, ..]) => Name::Variable((*name).to_owned()),
            ("local", [name, ..]) => Name::Local((*name).to_owned()),
            ("each" | "count" | "self", _) => Name::Repeated(root.to_owned()),
            ("path", _) => return,
            ("terraform", ["workspace", ..]) => return,
            ("data" | "ephemeral", [type_name, name, ..]) => {
                Name::Resource(format!("{root}.{type_name}.{name}"))
            }
            ("module", [call, ..]) => Name::Call((*call).to_owned(), output(operators).map(str::to_owned)),
            ("data" | "module" | "ephemeral" | "terraform", _) => Name::Other(root.to_owned()),
            (type_name, [name, ..]) => Name::Resource(format!("{type_name}.{name}")),
            (root, []) => Name::Other(root.to_owned()),
        };
        self.note(name, span);
    }
}

/// What the elements of a dynamic block are called in it.
pub fn iterator(block: &Block) -> Option<String> {
    let named = block.body.get_attribute("iterator").map(|one| one.value.as_variable());
    match named {
        Some(name) => name.map(|name| name.as_str().to_owned()),
        None => block.labels.first().map(|label| label.as_str().to_owned()),
    }
}

impl Visit for Collector {
    fn visit_block(&mut self, node: &Block) {
        if node.ident.as_str() != "dynamic" {
            return visit::visit_block(self, node);
        }
        node.body.get_attribute("for_each").into_iter().for_each(|one| self.visit_expr(&one.value));
        let outer = self.bound.len();
        self.bound.extend(iterator(node));
        node.body.get_blocks("content").for_each(|content| self.visit_body(&content.body));
        self.bound.truncate(outer);
    }

    fn visit_expr(&mut self, node: &Expression) {
        match node {
            Expression::Variable(name) => {
                if !self.is_bound(name) {
                    self.root(name, &[], node.span());
                }
            }
            other => visit::visit_expr(self, other),
        }
    }

    fn visit_traversal(&mut self, node: &Traversal) {
        match &node.expr {
            Expression::Variable(name) => {
                if !self.is_bound(name) {
                    let operators: Vec<_> = node.operators.iter().map(|one| one.value()).collect();
                    self.root(name, &operators, node.expr.span());
                }
            }
            other => self.visit_expr(other),
        }
        node.operators.iter().for_each(|operator| self.visit_traversal_operator(operator));
    }

    fn visit_func_call(&mut self, node: &FuncCall) {
        let name = match provider_function(node) {
            Some((provider, name)) => Name::ProviderFunction(provider.to_owned(), name.to_owned()),
            None => Name::Function(function(node)),
        };
        self.note(name, node.span());
        visit::visit_func_call(self, node);
    }

    fn visit_for_expr(&mut self, node: &ForExpr) {
        self.visit_expr(&node.intro.collection_expr);
        let outer = self.bound.len();
        self.bound.extend(node.intro.key_var.iter().map(|name| name.as_str().to_owned()));
        self.bound.push(node.intro.value_var.as_str().to_owned());
        node.key_expr.iter().for_each(|expression| self.visit_expr(expression));
        self.visit_expr(&node.value_expr);
        node.cond.iter().for_each(|condition| self.visit_expr(&condition.expr));
        self.bound.truncate(outer);
    }

    fn visit_for_directive(&mut self, node: &ForDirective) {
        let repeated = &node.for_expr;
        self.visit_expr(&repeated.collection_expr);
        let outer = self.bound.len();
        self.bound.extend(repeated.key_var.iter().map(|name| name.as_str().to_owned()));
        self.bound.push(repeated.value_var.as_str().to_owned());
        self.visit_template(&repeated.template);
        self.bound.truncate(outer);
    }
}
