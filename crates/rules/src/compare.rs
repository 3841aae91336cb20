//! Equality and order of values.
//!
//! Equality never fails: values of different kinds are unequal, numbers compare by value. Lists that the schema calls
//! sets or keyed lists are equal whatever the order of their elements.

use std::cmp::Ordering;

use schemas::ListType;

use crate::budget::Meter;
use crate::error::EvalError;
use crate::types::{Place, Shape};
use crate::value::{List, Map, Val};

/// How deep values are compared. Bodies are refused long before they are nested this deep.
pub(crate) const MAX_DEPTH: u16 = 160;

/// Deep equality; every compared pair is paid for, so that large lists of sets stay within the budget.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<bool, EvalError> {
    equal_within(a, b, MAX_DEPTH, meter)
}

fn equal_within(a: &Val<'_>, b: &Val<'_>, depth: u16, meter: &mut Meter) -> Result<bool, EvalError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(EvalError::function("value is nested too deeply to compare"));
    };
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Str(a), Val::Str(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Opaque(a), Val::Opaque(b)) => a.equals(b),
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal_within(a, b, depth, meter)?,
            (a, b) => a.is_none() && b.is_none(),
        },
        (Val::List(a), Val::List(b)) => lists_equal(a, b, depth, meter)?,
        (Val::Map(a), Val::Map(b)) => maps_equal(a, b, depth, meter)?,
        (a, b) => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn lists_equal(a: &List<'_>, b: &List<'_>, depth: u16, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let unordered =
        [a, b].into_iter().any(|list| list_type(list.place()).is_some_and(|t| *t != ListType::Atomic));
    for (index, left) in a.iter().enumerate() {
        meter.charge(1)?;
        let straight = b.get(index).map_or(Ok(false), |right| equal_within(&left, &right, depth, meter))?;
        if !(straight || unordered && has(b, &left, depth, meter)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has(list: &List<'_>, wanted: &Val<'_>, depth: u16, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in list.iter() {
        meter.charge(1)?;
        if equal_within(&item, wanted, depth, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn maps_equal(a: &Map<'_>, b: &Map<'_>, depth: u16, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Objects are compared as they are stored: their fields have the same types on both sides.
    if let (Map::Json { entries: a, place }, Map::Json { entries: b, place: other }) = (a, b) {
        for (key, left) in a.iter() {
            meter.charge(1)?;
            let Some(right) = b.get(key) else { return Ok(false) };
            let left = Val::of_json(left, member(*place, key));
            let right = Val::of_json(right, member(*other, key));
            if !equal_within(&left, &right, depth, meter)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for (key, left) in a.iter() {
        meter.charge(1)?;
        let Some(right) = b.get(&key) else { return Ok(false) };
        if !equal_within(&left, &right, depth, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn member<'a>(place: Option<Place<'a>>, key: &str) -> Option<Place<'a>> {
    let place = place?;
    match place.shape() {
        Shape::Object { fields } => fields.values().find(|f| f.name == key).map(|f| place.to(f.of)),
        _ => place.element(),
    }
}

pub(crate) fn list_type(place: Option<Place<'_>>) -> Option<&ListType> {
    match place?.shape() {
        Shape::List { list, .. } => Some(list),
        _ => None,
    }
}

/// The order of two values of the same kind; `None` where there is none.
pub(crate) fn order(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::Str(a), Val::Str(b)) => Some((**a).cmp(&**b)),
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        (a, b) => numbers(a, b),
    }
}

fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    let integer = |value: &Val<'_>| match value {
        Val::Int(i) => Some(i128::from(*i)),
        Val::Uint(u) => Some(i128::from(*u)),
        _ => None,
    };
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), b) => double_to_integer(*a, integer(b)?),
        (a, Val::Double(b)) => double_to_integer(*b, integer(a)?).map(Ordering::reverse),
        (a, b) => Some(integer(a)?.cmp(&integer(b)?)),
    }
}

/// Exact also where the integer has more digits than a double can hold.
fn double_to_integer(double: f64, integer: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    let whole = double.trunc() as i128; // saturates
    Some(whole.cmp(&integer).then(double.fract().partial_cmp(&0.0)?))
}
