//! `semver('1.2.3-rc.1')`

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Cost, Opaque, OpaqueKind, Overload, Size, T, function, member, take};
use crate::error::EvalError;
use crate::value::Val;

#[derive(Clone, Debug)]
pub(crate) struct Semver {
    major: u64,
    minor: u64,
    patch: u64,
    pre: Vec<Identifier>,
}

/// A part of what follows the hyphen. Numbers are smaller than words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

const SEMVER: T = T::Opaque(OpaqueKind::Semver);

pub(super) const OVERLOADS: &[Overload] = &[
    function("semver", &[T::Str], SEMVER, |v, _| {
        take!(v, [Val::Str(text)] => parse(text).map(value).map_err(EvalError::function))
    })
    .cost(Cost::Scan(0)),
    function("semver", &[T::Str, T::Bool], SEMVER, |v, _| {
        take!(v, [Val::Str(text), Val::Bool(normalize)] => {
            parse(&normalized(text, *normalize)).map(value).map_err(EvalError::function)
        })
    })
    .cost(Cost::Scan(0)),
    function("isSemver", &[T::Str], T::Bool, |v, _| take!(v, [Val::Str(text)] => Ok(parse(text).is_ok().into())))
        .cost(Cost::Scan(0)),
    function("isSemver", &[T::Str, T::Bool], T::Bool, |v, _| {
        take!(v, [Val::Str(text), Val::Bool(normalize)] => Ok(parse(&normalized(text, *normalize)).is_ok().into()))
    })
    .cost(Cost::Scan(0)),
    member("major", &[SEMVER], T::Int, |v, _| number(v, |s| s.major)).size(Size::AtMost(1)),
    member("minor", &[SEMVER], T::Int, |v, _| number(v, |s| s.minor)).size(Size::AtMost(1)),
    member("patch", &[SEMVER], T::Int, |v, _| number(v, |s| s.patch)).size(Size::AtMost(1)),
    member("compareTo", &[SEMVER, SEMVER], T::Int, |v, _| Ok(Val::Int(compare(v)? as i64))),
    member("isLessThan", &[SEMVER, SEMVER], T::Bool, |v, _| Ok(compare(v)?.is_lt().into())),
    member("isGreaterThan", &[SEMVER, SEMVER], T::Bool, |v, _| Ok(compare(v)?.is_gt().into())),
];

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Semver {
    fn order(&self, other: &Self) -> Ordering {
        let numbers = |s: &Self| (s.major, s.minor, s.patch);
        // A release comes after all that lead up to it.
        numbers(self)
            .cmp(&numbers(other))
            .then(self.pre.is_empty().cmp(&other.pre.is_empty()))
            .then(self.pre.cmp(&other.pre))
    }
}

fn value<'a>(semver: Semver) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Semver(semver)))
}

fn read<'v>(value: &'v Val<'_>) -> Result<&'v Semver, EvalError> {
    match value {
        Val::Opaque(opaque) => match &**opaque {
            Opaque::Semver(semver) => Ok(semver),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn number<'a>(v: &[Val<'a>], part: fn(&Semver) -> u64) -> Result<Val<'a>, EvalError> {
    take!(v, [value] => {
        i64::try_from(part(read(value)?)).map(Val::Int).map_err(|_| EvalError::Overflow("integer"))
    })
}

fn compare(v: &[Val<'_>]) -> Result<Ordering, EvalError> {
    take!(v, [a, b] => Ok(read(a)?.order(read(b)?)))
}

/// `v1.02` as `1.2.0`, where that is asked for.
fn normalized(text: &str, wanted: bool) -> String {
    if !wanted {
        return text.to_owned();
    }
    let text = text.trim().trim_start_matches('v');
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts: Vec<&str> = numbers.splitn(3, '.').collect();
    for part in &mut parts {
        let trimmed = part.trim_start_matches('0');
        *part = if trimmed.is_empty() && !part.is_empty() { "0" } else { trimmed };
    }
    while parts.len() < 3 {
        parts.push("0");
    }
    format!("{}{rest}", parts.join("."))
}

fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let mut numbers = core.split('.');
    let mut next = |name: &str| {
        let part = numbers.next().ok_or("No Major.Minor.Patch elements found")?;
        plain_number(part).ok_or_else(|| format!("Invalid character(s) found in {name} number \"{part}\""))
    };
    let (major, minor, patch) = (next("major")?, next("minor")?, next("patch")?);
    if numbers.next().is_some() {
        return Err("Invalid character(s) found in patch number".to_owned());
    }
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if build.is_some_and(|build| !build.split('.').all(word)) {
        return Err("Invalid character(s) found in build meta data".to_owned());
    }
    let pre =
        pre.map(|pre| pre.split('.').map(|part| identifier(part, word(part))).collect::<Option<Vec<_>>>());
    match pre {
        None => Ok(Semver { major, minor, patch, pre: Vec::new() }),
        Some(Some(pre)) => Ok(Semver { major, minor, patch, pre }),
        Some(None) => Err("Invalid character(s) found in prerelease".to_owned()),
    }
}

fn plain_number(part: &str) -> Option<u64> {
    let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits || (part.len() > 1 && part.starts_with('0')) { None } else { part.parse().ok() }
}

fn identifier(part: &str, word: bool) -> Option<Identifier> {
    if !word {
        None
    } else if part.bytes().all(|b| b.is_ascii_digit()) {
        plain_number(part).map(Identifier::Number)
    } else {
        Some(Identifier::Word(part.to_owned()))
    }
}
