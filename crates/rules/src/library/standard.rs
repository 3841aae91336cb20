//! Operators and conversions of the language itself.

use std::sync::Arc;

use jiff::Timestamp;
use schemas::ListType;

use super::{Cost, Opaque, OpaqueKind, Overload, Size, T, function, member, take, time};
use crate::budget::Meter;
use crate::compare::{equal, list_type, order};
use crate::error::EvalError;
use crate::value::{List, Map, Text, Val};

type Outcome<'a> = Result<Val<'a>, EvalError>;

const LIST: T = T::List(&T::A);
const MAP: T = T::Map(&T::A, &T::B);
const NUMBER: Size = Size::AtMost(1);

pub(super) const OVERLOADS: &[Overload] = &[
    function("_==_", &[T::A, T::A], T::Bool, |v, meter| take!(v, [a, b] => Ok(equal(a, b, meter)?.into())))
        .cost(Cost::ScanShorter),
    function("_!=_", &[T::A, T::A], T::Bool, |v, meter| take!(v, [a, b] => Ok((!equal(a, b, meter)?).into())))
        .cost(Cost::ScanShorter),
    function("_<_", &[T::Number, T::Number], T::Bool, less),
    function("_<_", &[T::Str, T::Str], T::Bool, less).cost(Cost::ScanShorter),
    function("_<_", &[T::Bytes, T::Bytes], T::Bool, less).cost(Cost::ScanShorter),
    function("_<_", &[T::Bool, T::Bool], T::Bool, less),
    function("_<_", &[T::Duration, T::Duration], T::Bool, less),
    function("_<_", &[T::Timestamp, T::Timestamp], T::Bool, less),
    function("_<=_", &[T::Number, T::Number], T::Bool, less_or_equal),
    function("_<=_", &[T::Str, T::Str], T::Bool, less_or_equal).cost(Cost::ScanShorter),
    function("_<=_", &[T::Bytes, T::Bytes], T::Bool, less_or_equal).cost(Cost::ScanShorter),
    function("_<=_", &[T::Bool, T::Bool], T::Bool, less_or_equal),
    function("_<=_", &[T::Duration, T::Duration], T::Bool, less_or_equal),
    function("_<=_", &[T::Timestamp, T::Timestamp], T::Bool, less_or_equal),
    function("_>_", &[T::Number, T::Number], T::Bool, greater),
    function("_>_", &[T::Str, T::Str], T::Bool, greater).cost(Cost::ScanShorter),
    function("_>_", &[T::Bytes, T::Bytes], T::Bool, greater).cost(Cost::ScanShorter),
    function("_>_", &[T::Bool, T::Bool], T::Bool, greater),
    function("_>_", &[T::Duration, T::Duration], T::Bool, greater),
    function("_>_", &[T::Timestamp, T::Timestamp], T::Bool, greater),
    function("_>=_", &[T::Number, T::Number], T::Bool, greater_or_equal),
    function("_>=_", &[T::Str, T::Str], T::Bool, greater_or_equal).cost(Cost::ScanShorter),
    function("_>=_", &[T::Bytes, T::Bytes], T::Bool, greater_or_equal).cost(Cost::ScanShorter),
    function("_>=_", &[T::Bool, T::Bool], T::Bool, greater_or_equal),
    function("_>=_", &[T::Duration, T::Duration], T::Bool, greater_or_equal),
    function("_>=_", &[T::Timestamp, T::Timestamp], T::Bool, greater_or_equal),
    function("!_", &[T::Bool], T::Bool, |v, _| take!(v, [Val::Bool(b)] => Ok((!b).into()))),
    function("-_", &[T::Int], T::Int, |v, _| take!(v, [Val::Int(i)] => int(i.checked_neg()))),
    function("-_", &[T::Double], T::Double, |v, _| take!(v, [Val::Double(d)] => Ok(Val::Double(-d)))),
    function("_+_", &[T::Int, T::Int], T::Int, |v, _| {
        take!(v, [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)))
    }),
    function("_+_", &[T::Uint, T::Uint], T::Uint, |v, _| {
        take!(v, [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)))
    }),
    function("_+_", &[T::Double, T::Double], T::Double, |v, _| {
        take!(v, [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)))
    }),
    function("_+_", &[T::Str, T::Str], T::Str, |v, _| {
        take!(v, [Val::Str(a), Val::Str(b)] => Ok(format!("{}{}", &**a, &**b).into()))
    })
    .cost(Cost::ScanAll),
    function("_+_", &[T::Bytes, T::Bytes], T::Bytes, |v, _| {
        take!(v, [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes(a.iter().chain(b.iter()).copied().collect())))
    })
    .cost(Cost::ScanAll),
    function("_+_", &[LIST, LIST], LIST, |v, meter| {
        take!(v, [Val::List(a), Val::List(b)] => concatenate(a, b, meter))
    })
    .cost(Cost::ScanAll),
    function("_+_", &[T::Duration, T::Duration], T::Duration, |v, _| {
        take!(v, [Val::Duration(a), Val::Duration(b)] => duration(a.checked_add(*b)))
    }),
    function("_+_", &[T::Timestamp, T::Duration], T::Timestamp, |v, _| {
        take!(v, [Val::Timestamp(a), Val::Duration(b)] => time::shift(*a, *b))
    }),
    function("_+_", &[T::Duration, T::Timestamp], T::Timestamp, |v, _| {
        take!(v, [Val::Duration(b), Val::Timestamp(a)] => time::shift(*a, *b))
    }),
    function("_-_", &[T::Int, T::Int], T::Int, |v, _| {
        take!(v, [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)))
    }),
    function("_-_", &[T::Uint, T::Uint], T::Uint, |v, _| {
        take!(v, [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)))
    }),
    function("_-_", &[T::Double, T::Double], T::Double, |v, _| {
        take!(v, [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)))
    }),
    function("_-_", &[T::Duration, T::Duration], T::Duration, |v, _| {
        take!(v, [Val::Duration(a), Val::Duration(b)] => duration(a.checked_sub(*b)))
    }),
    function("_-_", &[T::Timestamp, T::Duration], T::Timestamp, |v, _| {
        take!(v, [Val::Timestamp(a), Val::Duration(b)] => {
            time::shift(*a, b.checked_neg().ok_or(EvalError::Overflow("integer"))?)
        })
    }),
    function("_-_", &[T::Timestamp, T::Timestamp], T::Duration, |v, _| {
        take!(v, [Val::Timestamp(a), Val::Timestamp(b)] => {
            duration(i64::try_from(a.as_nanosecond() - b.as_nanosecond()).ok())
        })
    }),
    function("_*_", &[T::Int, T::Int], T::Int, |v, _| {
        take!(v, [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)))
    }),
    function("_*_", &[T::Uint, T::Uint], T::Uint, |v, _| {
        take!(v, [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)))
    }),
    function("_*_", &[T::Double, T::Double], T::Double, |v, _| {
        take!(v, [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)))
    }),
    function("_/_", &[T::Int, T::Int], T::Int, |v, _| take!(v, [Val::Int(a), Val::Int(b)] => {
        if *b == 0 { Err(EvalError::DivisionByZero) } else { int(a.checked_div(*b)) }
    })),
    function("_/_", &[T::Uint, T::Uint], T::Uint, |v, _| take!(v, [Val::Uint(a), Val::Uint(b)] => {
        a.checked_div(*b).map(Val::Uint).ok_or(EvalError::DivisionByZero)
    })),
    function("_/_", &[T::Double, T::Double], T::Double, |v, _| {
        take!(v, [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)))
    }),
    function("_%_", &[T::Int, T::Int], T::Int, |v, _| take!(v, [Val::Int(a), Val::Int(b)] => {
        if *b == 0 { Err(EvalError::ModulusByZero) } else { int(a.checked_rem(*b)) }
    })),
    function("_%_", &[T::Uint, T::Uint], T::Uint, |v, _| take!(v, [Val::Uint(a), Val::Uint(b)] => {
        a.checked_rem(*b).map(Val::Uint).ok_or(EvalError::ModulusByZero)
    })),
    function("@in", &[T::A, LIST], T::Bool, |v, meter| take!(v, [wanted, Val::List(list)] => {
        for item in list.iter() {
            if equal(&item, wanted, meter)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }))
    .cost(Cost::Count(1)),
    function("@in", &[T::A, MAP], T::Bool, |v, _| take!(v, [key, Val::Map(map)] => Ok(map.get(key).is_some().into()))),
    function("size", &[T::Str], T::Int, size).cost(Cost::Scan(0)).size(NUMBER),
    function("size", &[T::Bytes], T::Int, size).size(NUMBER),
    function("size", &[LIST], T::Int, size).size(NUMBER),
    function("size", &[MAP], T::Int, size).size(NUMBER),
    member("size", &[T::Str], T::Int, size).cost(Cost::Scan(0)).size(NUMBER),
    member("size", &[T::Bytes], T::Int, size).size(NUMBER),
    member("size", &[LIST], T::Int, size).size(NUMBER),
    member("size", &[MAP], T::Int, size).size(NUMBER),
    function("dyn", &[T::A], T::Dyn, |v, _| take!(v, [value] => Ok(value.clone()))),
    function("type", &[T::A], T::Type, |v, _| take!(v, [value] => Ok(Val::Type(value.type_name())))),
    function("bool", &[T::Bool], T::Bool, same),
    function("bool", &[T::Str], T::Bool, |v, _| take!(v, [Val::Str(text)] => match &**text {
        "1" | "t" | "true" | "TRUE" | "True" | "T" => Ok(true.into()),
        "0" | "f" | "false" | "FALSE" | "False" | "F" => Ok(false.into()),
        _ => Err(EvalError::function("type conversion error from 'string' to 'bool'")),
    })),
    function("int", &[T::Number], T::Int, to_int),
    function("int", &[T::Str], T::Int, to_int),
    function("int", &[T::Timestamp], T::Int, to_int),
    function("int", &[T::Duration], T::Int, to_int),
    function("uint", &[T::Number], T::Uint, to_uint),
    function("uint", &[T::Str], T::Uint, to_uint),
    function("double", &[T::Number], T::Double, to_double),
    function("double", &[T::Str], T::Double, to_double),
    function("string", &[T::Str], T::Str, same).cost(Cost::Scan(0)),
    function("string", &[T::Number], T::Str, to_string).size(Size::AtMost(24)),
    function("string", &[T::Bool], T::Str, to_string).size(Size::AtMost(5)),
    function("string", &[T::Bytes], T::Str, to_string).cost(Cost::Scan(0)),
    function("string", &[T::Timestamp], T::Str, to_string).size(Size::AtMost(35)),
    function("string", &[T::Duration], T::Str, to_string).size(Size::AtMost(35)),
    function("string", &[T::Opaque(OpaqueKind::Ip)], T::Str, to_string).size(Size::AtMost(39)),
    function("string", &[T::Opaque(OpaqueKind::Cidr)], T::Str, to_string).size(Size::AtMost(43)),
    function("bytes", &[T::Bytes], T::Bytes, same),
    function("bytes", &[T::Str], T::Bytes, |v, _| {
        take!(v, [Val::Str(text)] => Ok(Val::Bytes(text.as_bytes().into())))
    })
    .cost(Cost::Scan(0)),
    function("timestamp", &[T::Timestamp], T::Timestamp, same),
    function("timestamp", &[T::Str], T::Timestamp, |v, _| take!(v, [Val::Str(text)] => {
        time::parse_timestamp(text).map(Val::Timestamp).ok_or_else(|| conversion("string", "timestamp"))
    })),
    function("timestamp", &[T::Int], T::Timestamp, |v, _| take!(v, [Val::Int(seconds)] => {
        Timestamp::from_second(*seconds).map(Val::Timestamp).map_err(|_| EvalError::Overflow("timestamp"))
    })),
    function("duration", &[T::Duration], T::Duration, same),
    function("duration", &[T::Str], T::Duration, |v, _| take!(v, [Val::Str(text)] => {
        time::parse_duration(text).map(Val::Duration).ok_or_else(|| conversion("string", "duration"))
    })),
    function("duration", &[T::Int], T::Duration, |v, _| {
        take!(v, [Val::Int(seconds)] => duration(seconds.checked_mul(1_000_000_000)))
    }),
];

fn conversion(from: &str, to: &str) -> EvalError {
    EvalError::function(format!("type conversion error from '{from}' to '{to}'"))
}

fn int<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Val::Int).ok_or(EvalError::Overflow("integer"))
}

fn uint<'a>(value: Option<u64>) -> Outcome<'a> {
    value.map(Val::Uint).ok_or(EvalError::Overflow("unsigned integer"))
}

fn duration<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Val::Duration).ok_or(EvalError::Overflow("duration"))
}

fn same<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [value] => Ok(value.clone()))
}

fn less<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [a, b] => Ok(order(a, b).is_some_and(|o| o.is_lt()).into()))
}

fn less_or_equal<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [a, b] => Ok(order(a, b).is_some_and(|o| o.is_le()).into()))
}

fn greater<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [a, b] => Ok(order(a, b).is_some_and(|o| o.is_gt()).into()))
}

fn greater_or_equal<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [a, b] => Ok(order(a, b).is_some_and(|o| o.is_ge()).into()))
}

fn size<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let size = match v {
        [Val::Str(text)] => text.chars().count() as u64,
        [value] => value.size(),
        _ => return Err(EvalError::NoSuchOverload),
    };
    int(i64::try_from(size).ok())
}

fn to_int<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    match v {
        [Val::Int(i)] => Ok(Val::Int(*i)),
        [Val::Uint(u)] => int(i64::try_from(*u).ok()),
        // The bounds as doubles are exact powers of two; the upper one is already too large.
        [Val::Double(d)] => {
            int((*d > -9.3e18 && *d >= i64::MIN as f64 && *d < i64::MAX as f64).then_some(*d as i64))
        }
        [Val::Timestamp(timestamp)] => Ok(Val::Int(timestamp.as_second())),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        [Val::Str(text)] => text.parse().map(Val::Int).map_err(|_| conversion("string", "int")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_uint<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    match v {
        [Val::Uint(u)] => Ok(Val::Uint(*u)),
        [Val::Int(i)] => uint(u64::try_from(*i).ok()),
        [Val::Double(d)] => uint((*d >= 0.0 && *d < u64::MAX as f64).then_some(*d as u64)),
        [Val::Str(text)] => text.parse().map(Val::Uint).map_err(|_| conversion("string", "uint")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_double<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    match v {
        [Val::Double(d)] => Ok(Val::Double(*d)),
        [Val::Int(i)] => Ok(Val::Double(*i as f64)),
        [Val::Uint(u)] => Ok(Val::Double(*u as f64)),
        [Val::Str(text)] => text.parse().map(Val::Double).map_err(|_| conversion("string", "double")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_string<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let text = match v {
        [Val::Bytes(bytes)] => String::from_utf8(bytes.to_vec())
            .map_err(|_| EvalError::function("invalid UTF-8 in bytes, cannot convert to string"))?,
        [Val::Timestamp(timestamp)] => time::show_timestamp(*timestamp),
        [Val::Duration(nanos)] => time::show_duration(*nanos),
        [Val::Opaque(opaque)] => match &**opaque {
            Opaque::Ip(ip) => ip.to_string(),
            Opaque::Cidr(cidr) => cidr.to_string(),
            _ => return Err(EvalError::NoSuchOverload),
        },
        [value @ (Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_))] => value.to_string(),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Val::Str(Text::Owned(text.into())))
}

/// `+` of lists. Sets join without duplicates; in keyed lists an element of the right replaces its namesake on the
/// left, in its place.
fn concatenate<'a>(a: &List<'a>, b: &List<'a>, meter: &mut Meter) -> Outcome<'a> {
    let place = a.place().filter(|p| list_type(Some(*p)).is_some_and(|t| *t != ListType::Atomic));
    let mut items: Vec<Val<'a>> = a.iter().collect();
    let keys: &[_] = match list_type(place) {
        None | Some(ListType::Atomic) => {
            items.extend(b.iter());
            return Ok(items.into());
        }
        Some(ListType::Set) => &[],
        Some(ListType::Map(keys)) => keys,
    };
    for new in b.iter() {
        let mut found = None;
        for (index, old) in items.iter().enumerate() {
            if same_element(old, &new, keys, meter)? {
                found = Some(index);
                break;
            }
        }
        match found.and_then(|index| items.get_mut(index)) {
            Some(old) => *old = new,
            None => items.push(new),
        }
    }
    Ok(Val::List(List::Owned { items: Arc::from(items), place }))
}

fn same_element(
    a: &Val<'_>,
    b: &Val<'_>,
    keys: &[impl AsRef<str>],
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    if keys.is_empty() {
        return equal(a, b, meter);
    }
    let key = |value: &Val<'_>, name: &str| match value {
        Val::Map(Map::Json { entries, .. }) => entries.get(name).cloned(),
        Val::Map(map) => map.field(name).and_then(|v| v.to_json()),
        _ => None,
    };
    for name in keys {
        meter.charge(1)?;
        if key(a, name.as_ref()) != key(b, name.as_ref()) {
            return Ok(false);
        }
    }
    Ok(true)
}
