//! Functions of lists, sets and maps.

use std::collections::BTreeSet;

use unicode_segmentation::UnicodeSegmentation as _;

use super::{ANY, Arguments, Made, Row, bounded, wrong};
use crate::module::arithmetic;
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};
use crate::module::types::{self, Constraint};
use crate::module::unify::alike;
use crate::value::{Number, Type};

/// As Terraform has it.
const LONGEST_RANGE: usize = 1_024;

pub(super) const TABLE: &[Row] = &[
    ("length", 1, 1, |mut arguments| {
        let length = match arguments.take(0) {
            Term::String(text) => text.graphemes(true).count(),
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => elements.len(),
            Term::Object(entries) | Term::Map(entries) => entries.len(),
            other => return wrong(format!("{} has no length", other.kind())),
        };
        Ok(Term::Number(Number::from(length as u64)))
    }),
    ("concat", 1, ANY, |mut arguments| {
        let lists = arguments.0.iter().all(|list| matches!(list, Term::List(_)));
        let mut all = Vec::new();
        for at in 0..arguments.len() {
            all.extend(arguments.ordered(at)?);
        }
        if lists { alike(all).map(Term::List) } else { Ok(Term::Tuple(all)) }
    }),
    ("flatten", 1, 1, |mut arguments| {
        let mut flat = Vec::new();
        flatten(Term::List(arguments.list(0)?), false, &mut flat);
        Ok(Term::Tuple(flat))
    }),
    ("distinct", 1, 1, |mut arguments| {
        let mut seen = BTreeSet::new();
        let elements = alike(arguments.list(0)?)?;
        Ok(Term::List(elements.into_iter().filter(|one| seen.insert(one.clone())).collect()))
    }),
    ("compact", 1, 1, |mut arguments| {
        let strings = Constraint::List(Box::new(Constraint::String));
        let Term::List(texts) = types::convert(Term::Tuple(arguments.list(0)?), &strings)? else {
            return Ok(Term::Null);
        };
        let kept = |one: &Term| !matches!(one, Term::Null) && *one != Term::text("");
        Ok(Term::List(texts.into_iter().filter(kept).collect()))
    }),
    ("reverse", 1, 1, |mut arguments| {
        let tuple = matches!(arguments.0[0], Term::Tuple(_));
        let turned = arguments.list(0)?.into_iter().rev().collect();
        Ok(if tuple { Term::Tuple(turned) } else { Term::List(turned) })
    }),
    ("sort", 1, 1, |mut arguments| {
        let mut texts = arguments.texts(0)?;
        texts.sort();
        Ok(Term::List(texts.into_iter().map(Term::String).collect()))
    }),
    ("contains", 2, 2, |mut arguments| {
        let (all, one) = (arguments.list(0)?, arguments.take(1));
        if one == Term::Null {
            return wrong("null is looked for");
        }
        Ok(Term::Bool(all.contains(&one)))
    }),
    ("index", 2, 2, |mut arguments| {
        let (all, one) = (arguments.ordered(0)?, arguments.take(1));
        match all.iter().position(|other| *other == one) {
            Some(at) => Ok(Term::Number(Number::from(at as u64))),
            None => wrong("the list has no such element"),
        }
    }),
    ("element", 2, 2, |mut arguments| {
        let at = arguments.count(1)?;
        let mut all = arguments.ordered(0)?;
        if all.is_empty() {
            return wrong("the list is empty");
        }
        let at = at % all.len();
        Ok(all.swap_remove(at))
    }),
    ("slice", 3, 3, |mut arguments| {
        let (start, end) = (arguments.count(1)?, arguments.count(2)?);
        let tuple = matches!(arguments.0[0], Term::Tuple(_));
        match arguments.ordered(0)?.get(start..end) {
            Some(part) if tuple => Ok(Term::Tuple(part.to_vec())),
            Some(part) => Ok(Term::List(part.to_vec())),
            None => wrong("the list has no such part"),
        }
    }),
    ("chunklist", 2, 2, |mut arguments| {
        let size = match arguments.count(1)? {
            // All in one.
            0 => usize::MAX,
            size => size,
        };
        Ok(Term::List(
            alike(arguments.list(0)?)?.chunks(size).map(|part| Term::List(part.to_vec())).collect(),
        ))
    }),
    ("range", 1, 3, range),
    ("one", 1, 1, |mut arguments| {
        let mut all = arguments.list(0)?;
        if all.len() > 1 { wrong("there is more than one") } else { Ok(all.pop().unwrap_or(Term::Null)) }
    }),
    ("coalesce", 1, ANY, |arguments| {
        let given = |term: &Term| *term != Term::Null && *term != Term::text("");
        match alike(arguments.0)?.into_iter().find(given) {
            Some(term) => Ok(term),
            None => wrong("all arguments are null or empty"),
        }
    }),
    ("coalescelist", 1, ANY, |mut arguments| {
        for at in 0..arguments.len() {
            let list = arguments.take(at);
            match &list {
                Term::Tuple(elements) | Term::List(elements) if elements.is_empty() => {}
                Term::Tuple(_) | Term::List(_) => return Ok(list),
                other => return wrong(format!("a list is required, and this is {}", other.kind())),
            }
        }
        wrong("all lists are empty")
    }),
    ("alltrue", 1, 1, |mut arguments| Ok(Term::Bool(arguments.booleans(0)?.into_iter().all(|one| one)))),
    ("anytrue", 1, 1, |mut arguments| Ok(Term::Bool(arguments.booleans(0)?.into_iter().any(|one| one)))),
    ("keys", 1, 1, |mut arguments| {
        let object = matches!(arguments.0[0], Term::Object(_));
        let keys = arguments.map(0)?.into_keys().map(Term::String).collect();
        Ok(if object { Term::Tuple(keys) } else { Term::List(keys) })
    }),
    ("values", 1, 1, |mut arguments| {
        let object = matches!(arguments.0[0], Term::Object(_));
        let values = arguments.map(0)?.into_values().collect();
        Ok(if object { Term::Tuple(values) } else { Term::List(values) })
    }),
    ("lookup", 2, 3, |mut arguments| {
        let key = arguments.text(1)?;
        let values = match arguments.0[0].own_type() {
            Type::Map(value) => Constraint::of_type(&value),
            _ => Constraint::Any,
        };
        let otherwise = types::convert(arguments.take(2), &values)?;
        match arguments.map(0)?.remove(&key) {
            Some(found) => Ok(found),
            None if arguments.len() == 3 => Ok(otherwise),
            None => wrong("the map has no such key"),
        }
    }),
    ("merge", 0, ANY, |mut arguments| {
        let mut all = Entries::new();
        let given = arguments.0.iter().filter(|one| **one != Term::Null);
        let types: BTreeSet<Type> = given.map(Term::own_type).collect();
        let maps = types.len() == 1 && types.iter().all(|ty| matches!(ty, Type::Map(_)));
        for at in 0..arguments.len() {
            match arguments.take(at) {
                Term::Null => {}
                Term::Object(entries) | Term::Map(entries) => all.extend(entries),
                other => return wrong(format!("a map is required, and this is {}", other.kind())),
            }
        }
        Ok(if maps { Term::Map(all) } else { Term::Object(all) })
    }),
    ("zipmap", 2, 2, |mut arguments| {
        let tuple = matches!(arguments.0[1], Term::Tuple(_));
        let (keys, values) = (arguments.texts(0)?, arguments.list(1)?);
        if keys.len() != values.len() {
            return wrong("there are not as many keys as values");
        }
        let entries = keys.into_iter().zip(values).collect();
        Ok(if tuple { Term::Object(entries) } else { Term::Map(entries) })
    }),
    ("matchkeys", 3, 3, |mut arguments| {
        let (values, keys) = (alike(arguments.list(0)?)?, arguments.list(1)?);
        if keys.len() != values.len() {
            return wrong("there are not as many keys as values");
        }
        // Looked for and found are of one type.
        let mut keys = [keys, arguments.list(2)?].concat();
        let wanted = alike(std::mem::take(&mut keys))?;
        let (keys, wanted) = wanted.split_at(values.len());
        let chosen = values.into_iter().zip(keys).filter(|(_, key)| wanted.contains(key));
        Ok(Term::List(chosen.map(|(value, _)| value).collect()))
    }),
    ("transpose", 1, 1, |mut arguments| {
        let mut turned: std::collections::BTreeMap<String, Vec<Term>> = Default::default();
        for (key, list) in arguments.map(0)? {
            for text in Arguments(vec![list]).texts(0)? {
                turned.entry(text).or_default().push(Term::text(&key));
            }
        }
        Ok(Term::Map(turned.into_iter().map(|(key, list)| (key, Term::List(list))).collect()))
    }),
    ("setunion", 1, ANY, |arguments| sets(arguments, |a, b| &a | &b)),
    ("setintersection", 1, ANY, |arguments| sets(arguments, |a, b| &a & &b)),
    ("setsubtract", 2, 2, |arguments| sets(arguments, |a, b| &a - &b)),
    ("setproduct", 2, ANY, |mut arguments| {
        let sets = arguments.0.iter().all(|one| matches!(one, Term::Set(_)));
        let mut rows = vec![Vec::new()];
        for at in 0..arguments.len() {
            let next = alike(arguments.list(at)?)?;
            bounded(rows.len().saturating_mul(next.len()).saturating_mul(arguments.len()))?;
            let with = |row: &Vec<Term>| {
                let row = row.clone();
                next.iter().map(move |one| row.iter().cloned().chain([one.clone()]).collect())
            };
            rows = rows.iter().flat_map(with).collect();
        }
        let rows = rows.into_iter().map(Term::Tuple).collect();
        Ok(if sets { Term::set(rows) } else { Term::List(rows) })
    }),
];

fn flatten(term: Term, secret: bool, flat: &mut Vec<Term>) {
    match term {
        Term::Secret(inner) => flatten(*inner, true, flat),
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => {
            elements.into_iter().for_each(|one| flatten(one, secret, flat));
        }
        other => flat.push(other.secret_if(secret)),
    }
}

fn sets(mut arguments: Arguments, merge: fn(BTreeSet<Term>, BTreeSet<Term>) -> BTreeSet<Term>) -> Made {
    let mut sets = Vec::with_capacity(arguments.len());
    for at in 0..arguments.len() {
        sets.push(Term::set(alike(arguments.list(at)?)?));
    }
    let each = alike(sets)?.into_iter().filter_map(|set| match set {
        Term::Set(elements) => Some(elements.into_iter().collect::<BTreeSet<Term>>()),
        _ => None,
    });
    Ok(Term::set(each.reduce(merge).unwrap_or_default().into_iter().collect()))
}

fn range(arguments: Arguments) -> Made {
    let zero = Number::from(0_i64);
    let (start, limit) = match arguments.len() {
        1 => (zero.clone(), arguments.number(0)?),
        _ => (arguments.number(0)?, arguments.number(1)?),
    };
    let down = limit < start;
    let step = match arguments.len() {
        3 => arguments.number(2)?,
        _ if down => Number::from(-1_i64),
        _ => Number::from(1_i64),
    };
    if step == zero || (step < zero) != down && limit != start {
        return wrong("the step does not lead from the start to the end");
    }
    let mut numbers = Vec::new();
    let mut next = start;
    while (down && next > limit) || (!down && next < limit) {
        if numbers.len() == LONGEST_RANGE {
            return wrong(format!("there would be more than {LONGEST_RANGE} numbers"));
        }
        let following =
            arithmetic::add(&next, &step).ok_or_else(|| Problem::new("the numbers are too large"))?;
        numbers.push(Term::Number(std::mem::replace(&mut next, following)));
    }
    Ok(Term::List(numbers))
}
