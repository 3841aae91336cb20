//! Lists compared as sets.

use super::{Cost, Overload, T, function, take};
use crate::budget::Meter;
use crate::compare::equal;
use crate::error::EvalError;
use crate::value::{List, Val};

const LIST: T = T::List(&T::A);

pub(super) const OVERLOADS: &[Overload] = &[
    function("sets.contains", &[LIST, LIST], T::Bool, |v, meter| {
        take!(v, [Val::List(a), Val::List(b)] => Ok(all_in(b, a, meter)?.into()))
    })
    .cost(Cost::Pairs),
    function("sets.equivalent", &[LIST, LIST], T::Bool, |v, meter| {
        take!(v, [Val::List(a), Val::List(b)] => Ok((all_in(a, b, meter)? && all_in(b, a, meter)?).into()))
    })
    .cost(Cost::Pairs),
    function("sets.intersects", &[LIST, LIST], T::Bool, |v, meter| {
        take!(v, [Val::List(a), Val::List(b)] => {
            for item in a.iter() {
                if is_in(&item, b, meter)? {
                    return Ok(true.into());
                }
            }
            Ok(false.into())
        })
    })
    .cost(Cost::Pairs),
];

fn is_in(wanted: &Val<'_>, list: &List<'_>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in list.iter() {
        if equal(&item, wanted, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn all_in(items: &List<'_>, list: &List<'_>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in items.iter() {
        if !is_in(&item, list, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
