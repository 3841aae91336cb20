//! Optional values. `optMap` and `optFlatMap` bind a variable, so the checker makes them; see `check`.

use super::{Overload, Size, T, function, member, take};
use crate::error::EvalError;
use crate::value::Val;

const OPTIONAL: T = T::Optional(&T::A);

pub(super) const OVERLOADS: &[Overload] = &[
    function("optional.none", &[], T::Optional(&T::Dyn), |_, _| Ok(Val::Optional(None)))
        .size(Size::AtMost(0)),
    function(
        "optional.of",
        &[T::A],
        OPTIONAL,
        |v, _| take!(v, [value] => Ok(Val::optional(Some(value.clone())))),
    ),
    function(
        "optional.ofNonZeroValue",
        &[T::A],
        OPTIONAL,
        |v, _| take!(v, [value] => Ok(Val::optional((!is_zero(value)).then(|| value.clone())))),
    ),
    member(
        "hasValue",
        &[OPTIONAL],
        T::Bool,
        |v, _| take!(v, [Val::Optional(value)] => Ok(value.is_some().into())),
    ),
    member("value", &[OPTIONAL], T::A, |v, _| {
        take!(v, [Val::Optional(value)] => {
            value.as_deref().cloned().ok_or_else(|| EvalError::function("optional.none() dereference"))
        })
    }),
    member(
        "or",
        &[OPTIONAL, OPTIONAL],
        OPTIONAL,
        |v, _| take!(v, [Val::Optional(a), b @ Val::Optional(_)] => Ok(if a.is_some() { Val::Optional(a.clone()) } else { b.clone() })),
    ),
    member(
        "orValue",
        &[OPTIONAL, T::A],
        T::A,
        |v, _| take!(v, [Val::Optional(a), b] => Ok(a.as_deref().unwrap_or(b).clone())),
    ),
    function("optional.unwrap", &[T::List(&OPTIONAL)], T::List(&T::A), |v, _| unwrap(v)),
    member("unwrapOpt", &[T::List(&OPTIONAL)], T::List(&T::A), |v, _| unwrap(v)),
];

fn unwrap<'a>(v: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    take!(v, [Val::List(list)] => {
        let present = list.iter().filter_map(|item| match item {
            Val::Optional(inner) => inner.as_deref().cloned(),
            other => Some(other),
        });
        Ok(present.collect::<Vec<_>>().into())
    })
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null
        | Val::Bool(false)
        | Val::Int(0)
        | Val::Uint(0)
        | Val::Duration(0)
        | Val::Optional(None) => true,
        Val::Double(d) => *d == 0.0,
        Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) => value.size() == 0,
        _ => false,
    }
}
