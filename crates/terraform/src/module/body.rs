//! The arguments of a resource, as its provider takes them.

use std::collections::BTreeSet;

use hcl_edit::Span as _;
use hcl_edit::structure::{Block as HclBlock, Body, Structure};

use super::expression::{Scope, pairs};
use super::problem::Problem;
use super::references;
use super::term::{Entries, Term};
use super::types::{Constraint, convert};
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Value};

/// Who sees the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// They are fields of an object, apart from what the provider calls sensitive.
    Everybody,
    /// Nobody but the provider.
    Provider,
    /// The same where a Secret tells it more: what is required may be there.
    ProviderBesideSecret,
    /// Nobody but the provider, and only for a while.
    Passing,
}

impl Audience {
    /// Whether something ephemeral may be among what it sees in an argument.
    fn may_pass(self, member: &Member) -> bool {
        match self {
            Audience::Everybody => member.write_only,
            Audience::Provider => false,
            Audience::ProviderBesideSecret | Audience::Passing => true,
        }
    }

    /// Whether something secret may.
    fn may_hide(self, member: &Member) -> bool {
        self != Audience::Everybody || member.is_secret()
    }
}

/// What was read of a body.
pub struct Arguments {
    pub value: Value,
    /// The members that hold something secret.
    pub secret: BTreeSet<String>,
    /// Whether there is more to it that is ephemeral and has no value now.
    pub opens: bool,
}

/// The value of a body; what is not given is left out.
pub fn value(
    scope: &Scope<'_>,
    body: &Body,
    schema: &Block,
    audience: Audience,
) -> Result<Arguments, Problem> {
    // What is pending does not end it: the rest may be wrong, or have something to be asked.
    let mut pending = None;
    let mut reading =
        Reading { fields: Fields::new(), given: Vec::new(), secret: BTreeSet::new(), opens: false, audience };
    for structure in body.iter() {
        match structure {
            Structure::Attribute(attribute) => {
                let name = attribute.key.as_str();
                let wrong = |message: String| Err(Problem::at(scope.file, attribute.span(), message));
                let Some(member) = schema.members.get(name).filter(|member| !is_block(member)) else {
                    return wrong(format!("there is no argument {name:?}"));
                };
                if member.read_only() {
                    return wrong(format!("{name:?} is the provider's to say"));
                }
                let term = match scope.evaluate_part(&attribute.value) {
                    Err(problem) if problem.is_pending() => {
                        reading.given.push(name.to_owned());
                        pending.get_or_insert(problem);
                        continue;
                    }
                    found => found?,
                };
                if term.has_secret() {
                    reading.secret.insert(name.to_owned());
                }
                let opens = term.has_ephemeral();
                reading.opens |= opens;
                let value = fitted(term, member, audience)
                    .map_err(|problem| problem.within(scope.file, attribute.value.span()))?;
                if opens && value.is_null() {
                    reading.given.push(name.to_owned());
                } else if !value.is_null() {
                    reading.given.push(name.to_owned());
                    reading.fields.insert(name.to_owned(), value);
                }
            }
            Structure::Block(block) => match reading.block(scope, block, schema) {
                Err(problem) if problem.is_pending() => {
                    pending.get_or_insert(problem);
                }
                read => read?,
            },
        }
    }
    let needed = audience != Audience::ProviderBesideSecret;
    let missing =
        |(name, member): &(&String, &Member)| needed && member.required && !reading.given.contains(name);
    if let Some((name, _)) = schema.members.iter().find(missing) {
        return Err(Problem::new(format!("the argument {name:?} is required")));
    }
    if let Some(problem) = pending {
        return Err(problem);
    }
    Ok(Arguments { value: Value::Fields(reading.fields), secret: reading.secret, opens: reading.opens })
}

fn is_block(member: &Member) -> bool {
    matches!(&member.shape, Shape::Nested(nested) if nested.is_block)
}

struct Reading {
    fields: Fields,
    given: Vec<String>,
    secret: BTreeSet<String>,
    opens: bool,
    audience: Audience,
}

impl Reading {
    fn block(&mut self, scope: &Scope<'_>, block: &HclBlock, schema: &Block) -> Result<(), Problem> {
        let ident = block.ident.as_str();
        let wrong = |message: String| Problem::at(scope.file, block.span(), message);
        let dynamic = ident == "dynamic";
        let name = match (dynamic, block.labels.first()) {
            (true, Some(label)) => label.as_str(),
            _ => ident,
        };
        let nested = match schema.members.get(name).map(|member| &member.shape) {
            Some(Shape::Nested(nested)) if nested.is_block => nested,
            _ => return Err(wrong(format!("there is no block {name:?}"))),
        };
        self.given.push(name.to_owned());
        if !dynamic {
            let key = block.labels.first().map(|label| label.as_str().to_owned());
            return self
                .add(scope, &block.body, name, nested, key)
                .map_err(|p| p.within(scope.file, block.span()));
        }
        let content = block.body.get_blocks("content").next();
        let each = block.body.get_attribute("for_each");
        let (Some(content), Some(each)) = (content, each) else {
            return Err(wrong("a dynamic block has for_each and content".into()));
        };
        let iterator = references::iterator(block).ok_or_else(|| wrong("iterator is a name".into()))?;
        let collection = scope.evaluate_part(&each.value)?;
        if matches!(collection, Term::Secret(_) | Term::Ephemeral) {
            return Err(wrong(format!("for_each of a dynamic block must not be {}", collection.kind())));
        }
        for (key, one) in
            pairs(collection).map_err(|problem| problem.within(scope.file, each.value.span()))?
        {
            let bound = Term::Object(Entries::from([("key".to_owned(), key), ("value".to_owned(), one)]));
            let scope = scope.with([(iterator.clone(), bound)]);
            self.add(&scope, &content.body, name, nested, None)
                .map_err(|problem| problem.within(scope.file, block.span()))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        scope: &Scope<'_>,
        body: &Body,
        name: &str,
        nested: &Nested,
        key: Option<String>,
    ) -> Result<(), Problem> {
        let Arguments { value: one, secret, opens } = value(scope, body, &nested.block, self.audience)?;
        self.opens |= opens;
        if !secret.is_empty() {
            self.secret.insert(name.to_owned());
        }
        match (nested.nesting, key) {
            (Nesting::Map, Some(key)) => {
                let entries =
                    self.fields.entry(name.to_owned()).or_insert_with(|| Value::Fields(Fields::new()));
                if let Value::Fields(entries) = entries {
                    entries.insert(key, one);
                }
            }
            (Nesting::Map, None) => return Err(Problem::new(format!("the block {name:?} needs a label"))),
            (Nesting::Single | Nesting::Group, _) => {
                if self.fields.insert(name.to_owned(), one).is_some() {
                    return Err(Problem::new(format!("the block {name:?} is there twice")));
                }
            }
            (Nesting::List | Nesting::Set, _) => {
                let all = self.fields.entry(name.to_owned()).or_insert_with(|| Value::Sequence(Vec::new()));
                if let Value::Sequence(all) = all {
                    all.push(one);
                    if nested.max_items > 0 && all.len() as i64 > nested.max_items {
                        return Err(Problem::new(format!("there are too many blocks {name:?}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A value of an argument's type. What is secret only goes where the provider keeps it secret, if everything else is
/// shown in objects; and what is ephemeral where nobody keeps it.
fn fitted(term: Term, member: &Member, audience: Audience) -> Result<Value, Problem> {
    if misplaced(&term, member, &Term::has_ephemeral, &|member| audience.may_pass(member)) {
        return Err(Problem::new("an ephemeral value is given to an argument that is not write-only"));
    }
    if misplaced(&term, member, &Term::has_secret, &|member| audience.may_hide(member)) {
        return Err(Problem::new(
            "a sensitive value is given to an argument that the provider does not keep secret",
        ));
    }
    let ty = member.ty();
    match convert(term, &Constraint::of_type(&ty)) {
        // It may stand here, and has no value now.
        Err(Problem::Ephemeral) => Ok(Value::Null),
        converted => Ok(converted?.to_value(&ty)),
    }
}

/// Whether something is anywhere in an argument but where it may be.
fn misplaced(
    term: &Term,
    member: &Member,
    is_it: &dyn Fn(&Term) -> bool,
    may: &dyn Fn(&Member) -> bool,
) -> bool {
    match &member.shape {
        _ if may(member) => false,
        Shape::Plain(_) => is_it(term),
        Shape::Nested(nested) => exposes(term, nested, is_it, may),
    }
}

/// The same of a nested attribute.
fn exposes(
    term: &Term,
    nested: &Nested,
    is_it: &dyn Fn(&Term) -> bool,
    may: &dyn Fn(&Member) -> bool,
) -> bool {
    let one = |term: &Term| match term {
        Term::Object(entries) | Term::Map(entries) => {
            entries.iter().any(|(name, term)| match nested.block.members.get(name) {
                Some(member) => misplaced(term, member, is_it, may),
                None => is_it(term),
            })
        }
        other => is_it(other),
    };
    match (nested.nesting, term) {
        (
            Nesting::List | Nesting::Set,
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements),
        ) => elements.iter().any(one),
        (Nesting::Map, Term::Object(entries) | Term::Map(entries)) => entries.values().any(one),
        (_, term) => one(term),
    }
}
