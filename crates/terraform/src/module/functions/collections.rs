//! Functions of lists, sets and maps.

use std::collections::BTreeSet;

use super::{ANY, Arguments, Made, Row, bounded, wrong};
use crate::module::term::{Entries, Term};
use crate::module::types;
use crate::value::Number;

/// As Terraform has it.
const LONGEST_RANGE: usize = 1_024;

pub(super) const TABLE: &[Row] = &[
    ("length", 1, 1, |mut arguments| {
        let length = match arguments.take(0) {
            Term::String(text) => text.chars().count(),
            Term::List(elements) | Term::Set(elements) => elements.len(),
            Term::Map(entries) => entries.len(),
            other => return wrong(format!("{} has no length", other.kind())),
        };
        Ok(Term::Number(Number::from(length as u64)))
    }),
    ("concat", 0, ANY, |mut arguments| {
        let mut all = Vec::new();
        for at in 0..arguments.len() {
            all.extend(arguments.list(at)?);
        }
        Ok(Term::List(all))
    }),
    ("flatten", 1, 1, |mut arguments| {
        let mut flat = Vec::new();
        flatten(Term::List(arguments.list(0)?), false, &mut flat);
        Ok(Term::List(flat))
    }),
    ("distinct", 1, 1, |mut arguments| {
        let mut seen = BTreeSet::new();
        let elements = arguments.list(0)?;
        Ok(Term::List(elements.into_iter().filter(|one| seen.insert(one.clone())).collect()))
    }),
    ("compact", 1, 1, |mut arguments| {
        let kept = |one: &Term| !matches!(one, Term::Null) && *one != Term::text("");
        Ok(Term::List(arguments.list(0)?.into_iter().filter(kept).collect()))
    }),
    ("reverse", 1, 1, |mut arguments| Ok(Term::List(arguments.list(0)?.into_iter().rev().collect()))),
    ("sort", 1, 1, |mut arguments| {
        let mut texts = arguments.texts(0)?;
        texts.sort();
        Ok(Term::List(texts.into_iter().map(Term::String).collect()))
    }),
    ("contains", 2, 2, |mut arguments| {
        let (all, one) = (arguments.list(0)?, arguments.take(1));
        Ok(Term::Bool(all.contains(&one)))
    }),
    ("index", 2, 2, |mut arguments| {
        let (all, one) = (arguments.list(0)?, arguments.take(1));
        match all.iter().position(|other| *other == one) {
            Some(at) => Ok(Term::Number(Number::from(at as u64))),
            None => wrong("the list has no such element"),
        }
    }),
    ("element", 2, 2, |mut arguments| {
        let at = arguments.count(1)?;
        let mut all = arguments.list(0)?;
        if all.is_empty() {
            return wrong("the list is empty");
        }
        let at = at % all.len();
        Ok(all.swap_remove(at))
    }),
    ("slice", 3, 3, |mut arguments| {
        let (start, end) = (arguments.count(1)?, arguments.count(2)?);
        match arguments.list(0)?.get(start..end) {
            Some(part) => Ok(Term::List(part.to_vec())),
            None => wrong("the list has no such part"),
        }
    }),
    ("chunklist", 2, 2, |mut arguments| {
        let size = arguments.count(1)?.max(1);
        Ok(Term::List(arguments.list(0)?.chunks(size).map(|part| Term::List(part.to_vec())).collect()))
    }),
    ("range", 1, 3, range),
    ("one", 1, 1, |mut arguments| {
        let mut all = arguments.list(0)?;
        if all.len() > 1 { wrong("there is more than one") } else { Ok(all.pop().unwrap_or(Term::Null)) }
    }),
    ("coalesce", 1, ANY, |arguments| {
        let given = |term: &Term| *term != Term::Null && *term != Term::text("");
        match arguments.0.into_iter().find(given) {
            Some(term) => Ok(term),
            None => wrong("all arguments are null or empty"),
        }
    }),
    ("coalescelist", 1, ANY, |mut arguments| {
        for at in 0..arguments.len() {
            let list = arguments.list(at)?;
            if !list.is_empty() {
                return Ok(Term::List(list));
            }
        }
        wrong("all lists are empty")
    }),
    ("alltrue", 1, 1, |mut arguments| {
        let all: Result<Vec<bool>, _> = arguments.list(0)?.iter().map(types::boolean).collect();
        Ok(Term::Bool(all?.into_iter().all(|one| one)))
    }),
    ("anytrue", 1, 1, |mut arguments| {
        let all: Result<Vec<bool>, _> = arguments.list(0)?.iter().map(types::boolean).collect();
        Ok(Term::Bool(all?.into_iter().any(|one| one)))
    }),
    ("keys", 1, 1, |mut arguments| Ok(Term::List(arguments.map(0)?.into_keys().map(Term::String).collect()))),
    ("values", 1, 1, |mut arguments| Ok(Term::List(arguments.map(0)?.into_values().collect()))),
    ("lookup", 2, 3, |mut arguments| {
        let key = arguments.text(1)?;
        match arguments.map(0)?.remove(&key) {
            Some(found) => Ok(found),
            None if arguments.len() == 3 => Ok(arguments.take(2)),
            None => wrong("the map has no such key"),
        }
    }),
    ("merge", 0, ANY, |mut arguments| {
        let mut all = Entries::new();
        for at in 0..arguments.len() {
            match arguments.take(at) {
                Term::Null => {}
                Term::Map(entries) => all.extend(entries),
                other => return wrong(format!("a map is required, and this is {}", other.kind())),
            }
        }
        Ok(Term::Map(all))
    }),
    ("zipmap", 2, 2, |mut arguments| {
        let (keys, values) = (arguments.texts(0)?, arguments.list(1)?);
        if keys.len() != values.len() {
            return wrong("there are not as many keys as values");
        }
        Ok(Term::Map(keys.into_iter().zip(values).collect()))
    }),
    ("matchkeys", 3, 3, |mut arguments| {
        let (values, keys, wanted) = (arguments.list(0)?, arguments.list(1)?, arguments.list(2)?);
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
    ("setproduct", 1, ANY, |mut arguments| {
        let mut rows = vec![Vec::new()];
        for at in 0..arguments.len() {
            let next = arguments.list(at)?;
            bounded(rows.len().saturating_mul(next.len()).saturating_mul(arguments.len()))?;
            let with = |row: &Vec<Term>| {
                let row = row.clone();
                next.iter().map(move |one| row.iter().cloned().chain([one.clone()]).collect())
            };
            rows = rows.iter().flat_map(with).collect();
        }
        Ok(Term::List(rows.into_iter().map(Term::List).collect()))
    }),
];

fn flatten(term: Term, secret: bool, flat: &mut Vec<Term>) {
    match term {
        Term::Secret(inner) => flatten(*inner, true, flat),
        Term::List(elements) | Term::Set(elements) => {
            elements.into_iter().for_each(|one| flatten(one, secret, flat));
        }
        other => flat.push(other.secret_if(secret)),
    }
}

fn sets(mut arguments: Arguments, merge: fn(BTreeSet<Term>, BTreeSet<Term>) -> BTreeSet<Term>) -> Made {
    let mut all: BTreeSet<Term> = arguments.list(0)?.into_iter().collect();
    for at in 1..arguments.len() {
        all = merge(all, arguments.list(at)?.into_iter().collect());
    }
    Ok(Term::Set(all.into_iter().collect()))
}

fn range(arguments: Arguments) -> Made {
    let (start, limit) = match arguments.len() {
        1 => (0, arguments.whole(0)?),
        _ => (arguments.whole(0)?, arguments.whole(1)?),
    };
    let down = limit < start;
    let step = if arguments.len() == 3 {
        arguments.whole(2)?
    } else if down {
        -1
    } else {
        1
    };
    if step == 0 || (step < 0) != down && limit != start {
        return wrong("the step does not lead from the start to the end");
    }
    let mut numbers = Vec::new();
    let mut next = start;
    while (down && next > limit) || (!down && next < limit) {
        if numbers.len() == LONGEST_RANGE {
            return wrong(format!("there would be more than {LONGEST_RANGE} numbers"));
        }
        numbers.push(Term::Number(next.into()));
        next = next.saturating_add(step);
    }
    Ok(Term::List(numbers))
}
