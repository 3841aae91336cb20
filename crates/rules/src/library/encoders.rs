//! `base64.encode` and `base64.decode`.

use super::{Cost, Overload, Size, T, function, take, time};
use crate::error::EvalError;
use crate::value::Val;

pub(super) const OVERLOADS: &[Overload] = &[
    function(
        "base64.encode",
        &[T::Bytes],
        T::Str,
        |v, _| take!(v, [Val::Bytes(bytes)] => Ok(time::to_base64(bytes).into())),
    )
    .cost(Cost::Scan(0))
    .size(Size::Product),
    function("base64.decode", &[T::Str], T::Bytes, |v, _| {
        take!(v, [Val::Str(text)] => {
            time::base64(text).map(Val::Bytes).ok_or_else(|| EvalError::function("illegal base64 data"))
        })
    })
    .cost(Cost::Scan(0)),
];
