//! Types that variables are declared with, and how values become of them.

use std::collections::BTreeMap;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, FuncCall, Object, ObjectKey};

use super::problem::{File, Problem};
use super::term::{Entries, Term};
use super::unify::alike;
use crate::value::{Number, Type};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    Any,
    String,
    Number,
    Bool,
    List(Box<Constraint>),
    Set(Box<Constraint>),
    Map(Box<Constraint>),
    Tuple(Vec<Constraint>),
    Object(BTreeMap<String, Attribute>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub constraint: Constraint,
    pub optional: bool,
    /// What an optional attribute is if it is left out.
    pub default: Term,
}

/// The value of an expression that may not refer to anything.
pub type Constant<'a> = &'a dyn Fn(&Expression) -> Result<Term, Problem>;

impl Constraint {
    /// Of `type = map(object({…}))`.
    pub fn parse(
        expression: &Expression,
        file: &File,
        constant: Constant<'_>,
    ) -> Result<Constraint, Problem> {
        let wrong = || Problem::at(file, expression.span(), "this is not a type");
        match expression {
            Expression::Variable(name) => match name.as_str() {
                "string" => Ok(Constraint::String),
                "number" => Ok(Constraint::Number),
                "bool" => Ok(Constraint::Bool),
                "any" => Ok(Constraint::Any),
                "list" => Ok(Constraint::List(Box::new(Constraint::Any))),
                "set" => Ok(Constraint::Set(Box::new(Constraint::Any))),
                "map" => Ok(Constraint::Map(Box::new(Constraint::Any))),
                _ => Err(wrong()),
            },
            Expression::FuncCall(call) => {
                let Some(argument) = call.args.get(0).filter(|_| call.args.len() == 1) else {
                    return Err(wrong());
                };
                let inner = || Constraint::parse(argument, file, constant).map(Box::new);
                match (call.name.name.as_str(), argument) {
                    ("list", _) => Ok(Constraint::List(inner()?)),
                    ("set", _) => Ok(Constraint::Set(inner()?)),
                    ("map", _) => Ok(Constraint::Map(inner()?)),
                    ("tuple", Expression::Array(elements)) => {
                        let elements = elements.iter().map(|one| Constraint::parse(one, file, constant));
                        Ok(Constraint::Tuple(elements.collect::<Result<_, _>>()?))
                    }
                    ("object", Expression::Object(object)) => {
                        Ok(Constraint::Object(attributes(object, file, constant)?))
                    }
                    _ => Err(wrong()),
                }
            }
            // What Terraform 0.11 wrote.
            Expression::String(text) if text.as_str() == "string" => Ok(Constraint::String),
            _ => Err(wrong()),
        }
    }

    /// What a provider declares: attributes of objects may all be left out.
    pub fn of_type(ty: &Type) -> Constraint {
        let inner = |ty: &Type| Box::new(Constraint::of_type(ty));
        match ty {
            Type::String => Constraint::String,
            Type::Bool => Constraint::Bool,
            Type::Number => Constraint::Number,
            Type::Dynamic => Constraint::Any,
            Type::List(element) => Constraint::List(inner(element)),
            Type::Set(element) => Constraint::Set(inner(element)),
            Type::Map(element) => Constraint::Map(inner(element)),
            Type::Tuple(elements) => Constraint::Tuple(elements.iter().map(Constraint::of_type).collect()),
            Type::Object { attributes, .. } => {
                let attribute = |(name, ty): (&String, &Type)| {
                    let constraint = Constraint::of_type(ty);
                    (name.clone(), Attribute { constraint, optional: true, default: Term::Null })
                };
                Constraint::Object(attributes.iter().map(attribute).collect())
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Constraint::Any => "anything",
            Constraint::String => "a string",
            Constraint::Number => "a number",
            Constraint::Bool => "a boolean",
            Constraint::List(_) | Constraint::Tuple(_) => "a list",
            Constraint::Set(_) => "a set",
            Constraint::Map(_) => "a map",
            Constraint::Object(_) => "an object",
        }
    }
}

fn attributes(
    object: &Object,
    file: &File,
    constant: Constant<'_>,
) -> Result<BTreeMap<String, Attribute>, Problem> {
    let mut found = BTreeMap::new();
    for (key, value) in object.iter() {
        let name = match key {
            ObjectKey::Ident(name) => name.as_str().to_owned(),
            ObjectKey::Expression(expression) => match expression.as_str() {
                Some(name) => name.to_owned(),
                None => {
                    return Err(Problem::at(file, expression.span(), "this is not the name of an attribute"));
                }
            },
        };
        let optional = match value.expr() {
            Expression::FuncCall(call) if call.name.name.as_str() == "optional" => Some(call),
            _ => None,
        };
        let attribute = match optional {
            None => Attribute {
                constraint: Constraint::parse(value.expr(), file, constant)?,
                optional: false,
                default: Term::Null,
            },
            Some(call) => optional_attribute(call, file, constant)?,
        };
        found.insert(name, attribute);
    }
    Ok(found)
}

fn optional_attribute(call: &FuncCall, file: &File, constant: Constant<'_>) -> Result<Attribute, Problem> {
    let wrong = || Problem::at(file, call.span(), "optional takes a type and a default");
    let ty = call.args.get(0).filter(|_| call.args.len() <= 2).ok_or_else(wrong)?;
    let constraint = Constraint::parse(ty, file, constant)?;
    let default = match call.args.get(1) {
        None => Term::Null,
        Some(default) => {
            let default = constant(default)?;
            convert(default, &constraint).map_err(|problem| problem.within(file, call.span()))?
        }
    };
    Ok(Attribute { constraint, optional: true, default })
}

fn mismatch(constraint: &Constraint, term: &Term) -> Problem {
    Problem::new(format!("{} is required, and this is {}", constraint.name(), term.kind()))
}

/// Makes a value one of a type, as far as Terraform does so by itself. Null is of every type.
pub fn convert(term: Term, constraint: &Constraint) -> Result<Term, Problem> {
    let all = |elements: Vec<Term>, inner: &Constraint| -> Result<Vec<Term>, Problem> {
        alike(elements.into_iter().map(|element| convert(element, inner)).collect::<Result<_, _>>()?)
    };
    match (constraint, term) {
        (_, Term::Null) => Ok(Term::Null),
        (_, Term::Ephemeral) => Ok(Term::Ephemeral),
        (constraint, Term::Secret(inner)) => Ok(convert(*inner, constraint)?.secret()),
        (Constraint::Any, term) => Ok(term),
        (Constraint::String, term) => string(&term).map(Term::String),
        (Constraint::Number, term) => number(&term).map(Term::Number),
        (Constraint::Bool, term) => boolean(&term).map(Term::Bool),
        (Constraint::List(inner), Term::Tuple(elements) | Term::List(elements) | Term::Set(elements)) => {
            Ok(Term::List(all(elements, inner)?))
        }
        (Constraint::Set(inner), Term::Tuple(elements) | Term::List(elements) | Term::Set(elements)) => {
            // Which elements of a set are the same is not known of them.
            if elements.iter().any(Term::has_ephemeral) {
                return Err(Problem::Ephemeral);
            }
            Ok(Term::set(all(elements, inner)?))
        }
        (Constraint::Tuple(types), Term::Tuple(elements) | Term::List(elements)) => {
            if elements.len() != types.len() {
                let message =
                    format!("{} elements are required, and there are {}", types.len(), elements.len());
                return Err(Problem::new(message));
            }
            let elements = elements.into_iter().zip(types).map(|(element, ty)| convert(element, ty));
            Ok(Term::Tuple(elements.collect::<Result<_, _>>()?))
        }
        (Constraint::Map(inner), Term::Object(entries) | Term::Map(entries)) => {
            let (keys, values): (Vec<String>, Vec<Term>) = entries.into_iter().unzip();
            Ok(Term::Map(keys.into_iter().zip(all(values, inner)?).collect()))
        }
        (Constraint::Object(attributes), Term::Object(mut entries) | Term::Map(mut entries)) => {
            let mut made = Entries::new();
            for (name, attribute) in attributes {
                let term =
                    match entries.remove(name).filter(|term| *term != Term::Null || !attribute.optional) {
                        Some(term) => {
                            convert(term, &attribute.constraint).map_err(|problem| below(problem, name))?
                        }
                        None if attribute.optional => attribute.default.clone(),
                        None => return Err(Problem::new(format!("the attribute {name:?} is required"))),
                    };
                made.insert(name.clone(), term);
            }
            Ok(Term::Object(made))
        }
        (constraint, term) => Err(mismatch(constraint, &term)),
    }
}

fn below(problem: Problem, name: &str) -> Problem {
    match problem {
        Problem::Wrong { place, message } => Problem::Wrong { place, message: format!("{name}: {message}") },
        passing => passing,
    }
}

pub fn string(term: &Term) -> Result<String, Problem> {
    match term {
        Term::String(text) => Ok(text.clone()),
        Term::Number(number) => Ok(number.plain()),
        Term::Bool(bool) => Ok(bool.to_string()),
        other => Err(mismatch(&Constraint::String, other)),
    }
}

pub fn number(term: &Term) -> Result<Number, Problem> {
    match term {
        Term::Number(number) => Ok(number.clone()),
        Term::String(text) => Number::parse(text).ok_or_else(|| mismatch(&Constraint::Number, term)),
        other => Err(mismatch(&Constraint::Number, other)),
    }
}

pub fn boolean(term: &Term) -> Result<bool, Problem> {
    match term {
        Term::Bool(bool) => Ok(*bool),
        Term::String(text) if text == "true" || text == "1" => Ok(true),
        Term::String(text) if text == "false" || text == "0" => Ok(false),
        other => Err(mismatch(&Constraint::Bool, other)),
    }
}
