//! What expressions come to: values with as much type as expressions need, and with a mark on what is secret.
//!
//! Nothing here is unknown: an expression that needs what is not there yet has no value at all
//! ([`super::problem::Problem::Pending`]). So has one that needs something ephemeral while that is not open; but a list or
//! an object may hold such a value, since the rest of it can be used.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use super::unify::unify;
use crate::schema::{Block, Shape};
use crate::value::{Fields, Number, Type, Value};

pub type Entries = BTreeMap<String, Term>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    /// Each element of its own type, as they are written.
    Tuple(Vec<Term>),
    /// All elements of one type.
    List(Vec<Term>),
    /// Sorted, each element once; all of one type.
    Set(Vec<Term>),
    /// Each attribute of its own type, as they are written.
    Object(Entries),
    /// All values of one type.
    Map(Entries),
    /// Not to be shown to anybody.
    Secret(Box<Term>),
    /// Open only for a while, and not now: an element that has no value.
    Ephemeral,
}

/// Only the shape: values may be secret.
impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Term {
    /// In the one form that letters have in Terraform: how an accent was typed makes no difference.
    pub fn text(text: impl Into<String>) -> Term {
        let text = text.into();
        match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => Term::String(text),
            _ => Term::String(text.nfc().collect()),
        }
    }

    pub fn set(mut elements: Vec<Term>) -> Term {
        let secret = elements.iter().any(Term::has_secret);
        if secret {
            elements = elements.into_iter().map(Term::revealed).collect();
        }
        elements.sort_by(|a, b| (*a == Term::Null, a).cmp(&(*b == Term::Null, b)));
        elements.dedup();
        let set = Term::Set(elements);
        if secret { set.secret() } else { set }
    }

    /// Marked, once.
    #[must_use]
    pub fn secret(self) -> Term {
        match self {
            Term::Secret(_) => self,
            other => Term::Secret(Box::new(other)),
        }
    }

    #[must_use]
    pub fn secret_if(self, secret: bool) -> Term {
        if secret { self.secret() } else { self }
    }

    pub fn has_secret(&self) -> bool {
        match self {
            Term::Secret(_) => true,
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
                elements.iter().any(Term::has_secret)
            }
            Term::Object(entries) | Term::Map(entries) => entries.values().any(Term::has_secret),
            _ => false,
        }
    }

    /// Whether something in it has no value now.
    pub fn has_ephemeral(&self) -> bool {
        match self {
            Term::Ephemeral => true,
            Term::Secret(inner) => inner.has_ephemeral(),
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
                elements.iter().any(Term::has_ephemeral)
            }
            Term::Object(entries) | Term::Map(entries) => entries.values().any(Term::has_ephemeral),
            _ => false,
        }
    }

    /// The same with null for what has no value now.
    #[must_use]
    pub fn without_ephemeral(self) -> Term {
        match self {
            Term::Ephemeral => Term::Null,
            Term::Secret(inner) => inner.without_ephemeral().secret(),
            other => other.map(Term::without_ephemeral),
        }
    }

    /// The same with null for what is secret.
    #[must_use]
    pub fn without_secret(self) -> Term {
        match self {
            Term::Secret(_) => Term::Null,
            other => other.map(Term::without_secret),
        }
    }

    /// The same without any mark in it.
    #[must_use]
    pub fn revealed(self) -> Term {
        match self {
            Term::Secret(inner) => inner.revealed(),
            other => other.map(Term::revealed),
        }
    }

    /// The same with other elements.
    #[must_use]
    pub fn map(self, change: impl Fn(Term) -> Term) -> Term {
        let entries = |entries: Entries| entries.into_iter().map(|(key, term)| (key, change(term))).collect();
        match self {
            Term::Tuple(elements) => Term::Tuple(elements.into_iter().map(change).collect()),
            Term::List(elements) => Term::List(elements.into_iter().map(change).collect()),
            Term::Set(elements) => Term::Set(elements.into_iter().map(change).collect()),
            Term::Object(inner) => Term::Object(entries(inner)),
            Term::Map(inner) => Term::Map(entries(inner)),
            other => other,
        }
    }

    /// The outermost mark taken off, and whether there was one.
    pub fn opened(self) -> (Term, bool) {
        match self {
            Term::Secret(inner) => (*inner, true),
            other => (other, false),
        }
    }

    /// In the words of errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Term::Null => "null",
            Term::Bool(_) => "a boolean",
            Term::Number(_) => "a number",
            Term::String(_) => "a string",
            Term::Tuple(_) | Term::List(_) => "a list",
            Term::Set(_) => "a set",
            Term::Object(_) | Term::Map(_) => "an object",
            Term::Secret(_) => "a sensitive value",
            Term::Ephemeral => "an ephemeral value",
        }
    }

    /// How much there is of it, about: elements, and what texts take.
    pub fn weight(&self) -> usize {
        match self {
            Term::String(text) => 1 + text.len() / 16,
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
                1 + elements.iter().map(Term::weight).sum::<usize>()
            }
            Term::Object(entries) | Term::Map(entries) => {
                1 + entries.iter().map(|(key, term)| key.len() / 16 + term.weight()).sum::<usize>()
            }
            Term::Secret(inner) => inner.weight(),
            Term::Null | Term::Bool(_) | Term::Number(_) | Term::Ephemeral => 1,
        }
    }

    pub fn from_json(json: &Json) -> Term {
        match json {
            Json::Null => Term::Null,
            Json::Bool(bool) => Term::Bool(*bool),
            Json::Number(number) => Number::parse(&number.to_string()).map_or(Term::Null, Term::Number),
            Json::String(text) => Term::text(text),
            Json::Array(elements) => Term::Tuple(elements.iter().map(Term::from_json).collect()),
            Json::Object(fields) => {
                Term::Object(fields.iter().map(|(key, json)| (key.clone(), Term::from_json(json))).collect())
            }
        }
    }

    /// Marks and all: whoever asks has to know what they do with it.
    pub fn to_json(&self) -> Json {
        match self {
            Term::Null | Term::Ephemeral => Json::Null,
            Term::Bool(bool) => Json::Bool(*bool),
            Term::Number(number) => match number.as_i64() {
                Some(small) => small.into(),
                None => serde_json::Number::from_f64(number.nearest_f64()).map_or(Json::Null, Json::Number),
            },
            Term::String(text) => Json::String(text.clone()),
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
                elements.iter().map(Term::to_json).collect()
            }
            Term::Object(entries) | Term::Map(entries) => Json::Object(
                entries.iter().map(|(key, term)| (key.clone(), term.to_json())).collect::<Map<_, _>>(),
            ),
            Term::Secret(inner) => inner.to_json(),
        }
    }

    /// A provider's value of a type.
    pub fn of_value(value: &Value, ty: &Type) -> Term {
        match (value, ty) {
            (Value::Null | Value::Unknown(_), _) => Term::Null,
            (Value::Bool(bool), _) => Term::Bool(*bool),
            (Value::Number(number), _) => Term::Number(number.clone()),
            (Value::String(text), _) => Term::text(text),
            (Value::Typed(typed), _) => Term::of_value(&typed.1, &typed.0),
            (Value::Sequence(elements), Type::Set(element)) => {
                Term::set(elements.iter().map(|value| Term::of_value(value, element)).collect())
            }
            (Value::Sequence(elements), Type::Tuple(types)) => {
                Term::Tuple(elements.iter().zip(types).map(|(value, ty)| Term::of_value(value, ty)).collect())
            }
            (Value::Sequence(elements), _) => {
                let element = if let Type::List(element) = ty { element } else { &Type::Dynamic };
                Term::List(elements.iter().map(|value| Term::of_value(value, element)).collect())
            }
            (Value::Fields(fields), _) => {
                let of = |(key, value): (&String, &Value)| {
                    let ty = match ty {
                        Type::Map(element) => element,
                        Type::Object { attributes, .. } => attributes.get(key).unwrap_or(&Type::Dynamic),
                        _ => &Type::Dynamic,
                    };
                    (key.clone(), Term::of_value(value, ty))
                };
                let entries = fields.iter().map(of).collect();
                if let Type::Map(_) = ty { Term::Map(entries) } else { Term::Object(entries) }
            }
        }
    }

    /// A state, with what the schema says is sensitive marked.
    pub fn of_state(block: &Block, value: &Value) -> Term {
        let Some(fields) = value.as_fields() else { return Term::Null };
        let of = |(name, member): (&String, &crate::schema::Member)| {
            let value = fields.get(name).unwrap_or(&Value::Null);
            let term = match &member.shape {
                Shape::Plain(ty) => Term::of_value(value, ty),
                Shape::Nested(nested) => match value {
                    Value::Sequence(elements) => {
                        let elements =
                            elements.iter().map(|one| Term::of_state(&nested.block, one)).collect();
                        if nested.nesting == crate::schema::Nesting::Set {
                            Term::set(elements)
                        } else {
                            Term::List(elements)
                        }
                    }
                    Value::Fields(entries) if nested.nesting == crate::schema::Nesting::Map => Term::Map(
                        entries
                            .iter()
                            .map(|(key, one)| (key.clone(), Term::of_state(&nested.block, one)))
                            .collect(),
                    ),
                    value => Term::of_state(&nested.block, value),
                },
            };
            (name.clone(), term.secret_if(member.is_secret()))
        };
        Term::Object(block.members.iter().map(of).collect())
    }

    /// As a provider takes it, for a type that the term was converted to.
    pub fn to_value(&self, ty: &Type) -> Value {
        match (self, ty) {
            (Term::Null | Term::Ephemeral, _) => Value::Null,
            (Term::Secret(inner), _) => inner.to_value(ty),
            (term, Type::Dynamic) => {
                let own = term.own_type();
                let value = term.to_value(&own);
                Value::Typed(Box::new((own, value)))
            }
            (Term::Bool(bool), _) => Value::Bool(*bool),
            (Term::Number(number), _) => Value::Number(number.clone()),
            (Term::String(text), _) => Value::string(text),
            (Term::Tuple(elements) | Term::List(elements) | Term::Set(elements), Type::Set(element)) => {
                Value::set(elements.iter().map(|term| term.to_value(element)).collect())
            }
            (Term::Tuple(elements) | Term::List(elements) | Term::Set(elements), Type::Tuple(types)) => {
                Value::Sequence(elements.iter().zip(types).map(|(term, ty)| term.to_value(ty)).collect())
            }
            (Term::Tuple(elements) | Term::List(elements) | Term::Set(elements), _) => {
                let element = if let Type::List(element) = ty { element } else { &Type::Dynamic };
                Value::Sequence(elements.iter().map(|term| term.to_value(element)).collect())
            }
            (Term::Object(entries) | Term::Map(entries), Type::Object { attributes, .. }) => {
                let fields = attributes
                    .iter()
                    .map(|(name, ty)| (name.clone(), entries.get(name).unwrap_or(&Term::Null).to_value(ty)));
                Value::Fields(fields.collect::<Fields>())
            }
            (Term::Object(entries) | Term::Map(entries), _) => {
                let element = if let Type::Map(element) = ty { element } else { &Type::Dynamic };
                let fields = entries.iter().map(|(key, term)| (key.clone(), term.to_value(element)));
                Value::Fields(fields.collect::<Fields>())
            }
        }
    }

    /// The type it has, as far as it shows: the elements of what is empty or null may be of any.
    pub fn own_type(&self) -> Type {
        let common = |elements: &mut dyn Iterator<Item = &Term>| {
            let types: Vec<Type> = elements.map(Term::own_type).collect();
            Box::new(unify(&types).unwrap_or(Type::Dynamic))
        };
        match self {
            Term::Null | Term::Ephemeral => Type::Dynamic,
            Term::Bool(_) => Type::Bool,
            Term::Number(_) => Type::Number,
            Term::String(_) => Type::String,
            Term::Tuple(elements) => Type::Tuple(elements.iter().map(Term::own_type).collect()),
            Term::List(elements) => Type::List(common(&mut elements.iter())),
            Term::Set(elements) => Type::Set(common(&mut elements.iter())),
            Term::Object(entries) => {
                Type::object(entries.iter().map(|(key, term)| (key.clone(), term.own_type())))
            }
            Term::Map(entries) => Type::Map(common(&mut entries.values())),
            Term::Secret(inner) => inner.own_type(),
        }
    }
}
