//! `math.*`. `math.greatest` and `math.least` take any number of arguments; the checker hands them over as one list.

use std::cmp::Ordering;

use super::{Overload, Size, T, function, take};
use crate::budget::Meter;
use crate::compare::order;
use crate::error::EvalError;
use crate::value::Val;

type Outcome<'a> = Result<Val<'a>, EvalError>;

const NUMBERS: T = T::List(&T::Dyn);

pub(super) const OVERLOADS: &[Overload] = &[
    function("math.greatest", &[NUMBERS], T::Dyn, |v, meter| extreme(v, Ordering::Greater, meter))
        .size(Size::AtMost(1)),
    function("math.least", &[NUMBERS], T::Dyn, |v, meter| extreme(v, Ordering::Less, meter))
        .size(Size::AtMost(1)),
    function("math.greatest", &[T::Int], T::Int, itself),
    function("math.greatest", &[T::Uint], T::Uint, itself),
    function("math.greatest", &[T::Double], T::Double, itself),
    function("math.least", &[T::Int], T::Int, itself),
    function("math.least", &[T::Uint], T::Uint, itself),
    function("math.least", &[T::Double], T::Double, itself),
    function("math.ceil", &[T::Double], T::Double, |v, _| double(v, f64::ceil)),
    function("math.floor", &[T::Double], T::Double, |v, _| double(v, f64::floor)),
    function("math.round", &[T::Double], T::Double, |v, _| double(v, f64::round)),
    function("math.trunc", &[T::Double], T::Double, |v, _| double(v, f64::trunc)),
    function("math.sqrt", &[T::Number], T::Double, |v, _| match v {
        [Val::Double(d)] => Ok(Val::Double(d.sqrt())),
        [Val::Int(i)] => Ok(Val::Double((*i as f64).sqrt())),
        [Val::Uint(u)] => Ok(Val::Double((*u as f64).sqrt())),
        _ => Err(EvalError::NoSuchOverload),
    }),
    function("math.isInf", &[T::Double], T::Bool, |v, _| test(v, f64::is_infinite)),
    function("math.isNaN", &[T::Double], T::Bool, |v, _| test(v, f64::is_nan)),
    function("math.isFinite", &[T::Double], T::Bool, |v, _| test(v, f64::is_finite)),
    function("math.abs", &[T::Int], T::Int, |v, _| {
        take!(v, [Val::Int(i)] => {
            i.checked_abs().map(Val::Int).ok_or(EvalError::Overflow("integer"))
        })
    }),
    function("math.abs", &[T::Uint], T::Uint, itself),
    function("math.abs", &[T::Double], T::Double, |v, _| double(v, f64::abs)),
    function("math.sign", &[T::Int], T::Int, |v, _| take!(v, [Val::Int(i)] => Ok(Val::Int(i.signum())))),
    function("math.sign", &[T::Uint], T::Uint, |v, _| take!(v, [Val::Uint(u)] => Ok(Val::Uint((*u).min(1))))),
    function("math.sign", &[T::Double], T::Double, |v, _| {
        double(v, |d| if d == 0.0 || d.is_nan() { d } else { d.signum() })
    }),
    function("math.bitAnd", &[T::Int, T::Int], T::Int, |v, _| bits(v, |a, b| a & b)),
    function("math.bitAnd", &[T::Uint, T::Uint], T::Uint, |v, _| bits(v, |a, b| a & b)),
    function("math.bitOr", &[T::Int, T::Int], T::Int, |v, _| bits(v, |a, b| a | b)),
    function("math.bitOr", &[T::Uint, T::Uint], T::Uint, |v, _| bits(v, |a, b| a | b)),
    function("math.bitXor", &[T::Int, T::Int], T::Int, |v, _| bits(v, |a, b| a ^ b)),
    function("math.bitXor", &[T::Uint, T::Uint], T::Uint, |v, _| bits(v, |a, b| a ^ b)),
    function("math.bitNot", &[T::Int], T::Int, |v, _| take!(v, [Val::Int(i)] => Ok(Val::Int(!i)))),
    function("math.bitNot", &[T::Uint], T::Uint, |v, _| take!(v, [Val::Uint(u)] => Ok(Val::Uint(!u)))),
    function("math.bitShiftLeft", &[T::Int, T::Int], T::Int, |v, _| shift(v, u64::checked_shl)),
    function("math.bitShiftLeft", &[T::Uint, T::Int], T::Uint, |v, _| shift(v, u64::checked_shl)),
    function("math.bitShiftRight", &[T::Int, T::Int], T::Int, |v, _| shift(v, u64::checked_shr)),
    function("math.bitShiftRight", &[T::Uint, T::Int], T::Uint, |v, _| shift(v, u64::checked_shr)),
];

fn itself<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [value] => Ok(value.clone()))
}

fn double<'a>(v: &[Val<'a>], apply: fn(f64) -> f64) -> Outcome<'a> {
    take!(v, [Val::Double(d)] => Ok(Val::Double(apply(*d))))
}

fn test<'a>(v: &[Val<'a>], apply: fn(f64) -> bool) -> Outcome<'a> {
    take!(v, [Val::Double(d)] => Ok(apply(*d).into()))
}

/// Signed numbers are their bits.
fn bits<'a>(v: &[Val<'a>], apply: fn(u64, u64) -> u64) -> Outcome<'a> {
    match v {
        [Val::Int(a), Val::Int(b)] => Ok(Val::Int(apply(*a as u64, *b as u64) as i64)),
        [Val::Uint(a), Val::Uint(b)] => Ok(Val::Uint(apply(*a, *b))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn shift<'a>(v: &[Val<'a>], apply: fn(u64, u32) -> Option<u64>) -> Outcome<'a> {
    let (bits, by) = match v {
        [Val::Int(value), Val::Int(by)] => (*value as u64, *by),
        [Val::Uint(value), Val::Int(by)] => (*value, *by),
        _ => return Err(EvalError::NoSuchOverload),
    };
    if by < 0 {
        return Err(EvalError::function(format!("math.bitShift() negative offset: {by}")));
    }
    let shifted = u32::try_from(by).ok().and_then(|by| apply(bits, by)).unwrap_or(0);
    Ok(if matches!(v, [Val::Int(_), _]) { Val::Int(shifted as i64) } else { Val::Uint(shifted) })
}

fn extreme<'a>(v: &[Val<'a>], wanted: Ordering, meter: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::List(list)] => {
        let mut best: Option<Val<'a>> = None;
        for item in list.iter() {
            meter.charge(1)?;
            if !matches!(item, Val::Int(_) | Val::Uint(_) | Val::Double(_)) {
                return Err(EvalError::NoSuchOverload);
            }
            if best.as_ref().is_none_or(|best| order(&item, best) == Some(wanted)) {
                best = Some(item);
            }
        }
        best.ok_or_else(|| EvalError::function("math.@max(list) argument must not be empty"))
    })
}
