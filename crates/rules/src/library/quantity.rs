//! `quantity('1.5Gi')`: exact to a billionth, as upstream's are.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Cost, Opaque, OpaqueKind, Overload, Size, T, function, member, take};
use crate::error::EvalError;
use crate::value::Val;

/// In billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

const ONE: i128 = 1_000_000_000;
const QUANTITY: T = T::Opaque(OpaqueKind::Quantity);

/// Multiples and powers of two; parts of one are below.
const SUFFIXES: [(&str, i128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("", 1),
];
const PARTS: [(&str, i128); 3] = [("m", 1_000), ("u", 1_000_000), ("n", 1_000_000_000)];

pub(super) const OVERLOADS: &[Overload] = &[
    function("quantity", &[T::Str], QUANTITY, |v, _| {
        take!(v, [Val::Str(text)] => {
            parse(text).map(value).ok_or_else(|| EvalError::function(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ))
        })
    })
    .cost(Cost::Scan(0)),
    function(
        "isQuantity",
        &[T::Str],
        T::Bool,
        |v, _| take!(v, [Val::Str(text)] => Ok(parse(text).is_some().into())),
    )
    .cost(Cost::Scan(0)),
    member("sign", &[QUANTITY], T::Int, |v, _| Ok(Val::Int(i64::try_from(one(v)?.0.signum()).unwrap_or(0)))),
    member("isInteger", &[QUANTITY], T::Bool, |v, _| Ok(integer(one(v)?).is_some().into())),
    member("asInteger", &[QUANTITY], T::Int, |v, _| {
        integer(one(v)?).map(Val::Int).ok_or_else(|| EvalError::function("cannot convert value to integer"))
    })
    .size(Size::AtMost(1)),
    member("asApproximateFloat", &[QUANTITY], T::Double, |v, _| {
        Ok(Val::Double(one(v)?.0 as f64 / ONE as f64))
    }),
    member("add", &[QUANTITY, QUANTITY], QUANTITY, |v, _| sum(v, i128::checked_add)),
    member("add", &[QUANTITY, T::Int], QUANTITY, |v, _| sum(v, i128::checked_add)),
    member("sub", &[QUANTITY, QUANTITY], QUANTITY, |v, _| sum(v, i128::checked_sub)),
    member("sub", &[QUANTITY, T::Int], QUANTITY, |v, _| sum(v, i128::checked_sub)),
    member("compareTo", &[QUANTITY, QUANTITY], T::Int, |v, _| Ok(Val::Int(compare(v)? as i64))),
    member("isGreaterThan", &[QUANTITY, QUANTITY], T::Bool, |v, _| Ok(compare(v)?.is_gt().into())),
    member("isLessThan", &[QUANTITY, QUANTITY], T::Bool, |v, _| Ok(compare(v)?.is_lt().into())),
];

fn value<'a>(quantity: Quantity) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Quantity(quantity)))
}

fn read(value: &Val<'_>) -> Result<Quantity, EvalError> {
    match value {
        Val::Opaque(opaque) => match &**opaque {
            Opaque::Quantity(quantity) => Ok(*quantity),
            _ => Err(EvalError::NoSuchOverload),
        },
        Val::Int(i) => Ok(Quantity(i128::from(*i) * ONE)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn one(v: &[Val<'_>]) -> Result<Quantity, EvalError> {
    take!(v, [value] => read(value))
}

fn integer(quantity: Quantity) -> Option<i64> {
    if quantity.0 % ONE == 0 { i64::try_from(quantity.0 / ONE).ok() } else { None }
}

fn compare(v: &[Val<'_>]) -> Result<Ordering, EvalError> {
    take!(v, [a, b] => Ok(read(a)?.cmp(&read(b)?)))
}

fn sum<'a>(v: &[Val<'a>], apply: fn(i128, i128) -> Option<i128>) -> Result<Val<'a>, EvalError> {
    take!(v, [a, b] => {
        let sum = apply(read(a)?.0, read(b)?.0).ok_or(EvalError::Overflow("quantity"))?;
        Ok(value(Quantity(sum)))
    })
}

/// Number and suffix. What is finer than a billionth is rounded up, away from zero.
pub(super) fn parse(text: &str) -> Option<Quantity> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 60 {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (multiplier, divisor) = scale(suffix)?;
    let divisor = divisor.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let scaled = digits.checked_mul(multiplier)?.checked_mul(ONE)?;
    let magnitude = scaled / divisor + i128::from(scaled % divisor != 0);
    Some(Quantity(if text.starts_with('-') { -magnitude } else { magnitude }))
}

/// A suffix as multiplier and divisor.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    if let Some((_, multiplier)) = SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((*multiplier, 1));
    }
    if let Some((_, divisor)) = PARTS.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *divisor));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}
