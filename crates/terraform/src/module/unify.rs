//! The one type that values of several types can be brought to: what a list, the two sides of a condition, and
//! functions that choose one of their arguments need.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::Problem;
use super::term::Term;
use super::types::{Constraint, convert};
use crate::value::Type;

/// Nothing if there is no such type. What is of any type (null) goes along with every other.
pub fn unify(types: &[Type]) -> Option<Type> {
    let mut known = types.iter().filter(|ty| **ty != Type::Dynamic);
    let Some(first) = known.next() else { return Some(Type::Dynamic) };
    if known.clone().all(|ty| ty == first) {
        return Some(first.clone());
    }
    let all: Vec<&Type> = [first].into_iter().chain(known).collect();
    let every = |test: fn(&Type) -> bool| all.iter().all(|ty| test(ty));
    if every(|ty| matches!(ty, Type::String | Type::Number | Type::Bool)) {
        return all.contains(&&Type::String).then_some(Type::String);
    }
    if every(|ty| matches!(ty, Type::Object { .. } | Type::Map(_))) {
        return keyed(&all);
    }
    if every(|ty| matches!(ty, Type::Tuple(_) | Type::List(_) | Type::Set(_))) {
        return sequences(&all);
    }
    None
}

fn keyed(all: &[&Type]) -> Option<Type> {
    let objects: Vec<&BTreeMap<String, Type>> = all.iter().filter_map(|ty| attributes(ty)).collect();
    let names: BTreeSet<&String> = objects.iter().flat_map(|object| object.keys()).collect();
    if objects.len() == all.len() && objects.iter().all(|object| object.len() == names.len()) {
        let each = names.into_iter().map(|name| {
            let types: Vec<Type> = objects.iter().filter_map(|object| object.get(name)).cloned().collect();
            Some((name.clone(), unify(&types)?))
        });
        return Some(Type::object(each.collect::<Option<Vec<_>>>()?));
    }
    let values = all.iter().flat_map(|ty| match ty {
        Type::Object { attributes, .. } => attributes.values().cloned().collect(),
        Type::Map(value) => vec![(**value).clone()],
        _ => Vec::new(),
    });
    Some(Type::Map(Box::new(unify(&values.collect::<Vec<_>>())?)))
}

fn attributes(ty: &Type) -> Option<&BTreeMap<String, Type>> {
    match ty {
        Type::Object { attributes, .. } => Some(attributes),
        _ => None,
    }
}

fn sequences(all: &[&Type]) -> Option<Type> {
    let tuple = |ty: &&&Type| match ty {
        Type::Tuple(elements) => Some(elements.clone()),
        _ => None,
    };
    let tuples: Vec<Vec<Type>> = all.iter().filter_map(|ty| tuple(&ty)).collect();
    let length = tuples.first().map_or(0, Vec::len);
    if tuples.len() == all.len() && tuples.iter().all(|tuple| tuple.len() == length) {
        let each =
            (0..length).map(|at| unify(&tuples.iter().map(|tuple| tuple[at].clone()).collect::<Vec<_>>()));
        return Some(Type::Tuple(each.collect::<Option<_>>()?));
    }
    let elements = all.iter().flat_map(|ty| match ty {
        Type::Tuple(elements) => elements.clone(),
        Type::List(element) | Type::Set(element) => vec![(**element).clone()],
        _ => Vec::new(),
    });
    let element = Box::new(unify(&elements.collect::<Vec<_>>())?);
    let set = all.iter().any(|ty| matches!(ty, Type::Set(_)));
    Some(if set { Type::Set(element) } else { Type::List(element) })
}

/// All of them of one type.
pub fn alike(terms: Vec<Term>) -> Result<Vec<Term>, Problem> {
    let types: Vec<Type> = terms.iter().map(Term::own_type).collect();
    let Some(common) = unify(&types) else {
        return Err(Problem::new("these are of different types, and there is none that all can become"));
    };
    if types.iter().all(|ty| *ty == common) {
        return Ok(terms);
    }
    let constraint = Constraint::of_type(&common);
    terms.into_iter().map(|term| convert(term, &constraint)).collect()
}
