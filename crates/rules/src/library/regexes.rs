//! RE2 patterns: `matches`, `find`, `findAll`.

use regex::Regex;

use super::{Cost, Overload, T, function, member, take};
use crate::budget::Meter;
use crate::error::EvalError;
use crate::value::{Text, Val};

type Outcome<'a> = Result<Val<'a>, EvalError>;

/// Compiled patterns are bounded: a short pattern can ask for a large automaton.
const MAX_PROGRAM_BYTES: usize = 1 << 20;

pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_PROGRAM_BYTES)
        .nest_limit(100)
        .build()
        .map_err(|_| EvalError::function(format!("error parsing regexp: `{pattern}`")))
}

pub(super) const OVERLOADS: &[Overload] = &[
    member("matches", &[T::Str, T::Str], T::Bool, matches).cost(Cost::Regex),
    function("matches", &[T::Str, T::Str], T::Bool, matches).cost(Cost::Regex),
    member("find", &[T::Str, T::Str], T::Str, |v, _| {
        take!(v, [Val::Str(text), Val::Str(pattern)] => {
            let found = compile(pattern)?.find(text).map_or("", |m| m.as_str()).to_owned();
            Ok(Val::Str(Text::Owned(found.into())))
        })
    })
    .cost(Cost::Regex),
    member("findAll", &[T::Str, T::Str], T::List(&T::Str), find_all).cost(Cost::Regex),
    member("findAll", &[T::Str, T::Str, T::Int], T::List(&T::Str), find_all).cost(Cost::Regex),
];

fn matches<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::Str(text), Val::Str(pattern)] => Ok(compile(pattern)?.is_match(text).into()))
}

fn find_all<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let (text, pattern, limit) = match v {
        [Val::Str(text), Val::Str(pattern)] => (text, pattern, usize::MAX),
        [Val::Str(text), Val::Str(pattern), Val::Int(limit)] => {
            (text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        _ => return Err(EvalError::NoSuchOverload),
    };
    let pattern = compile(pattern)?;
    Ok(pattern
        .find_iter(text)
        .take(limit)
        .map(|m| Val::from(m.as_str().to_owned()))
        .collect::<Vec<_>>()
        .into())
}
