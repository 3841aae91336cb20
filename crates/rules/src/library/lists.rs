//! Lists: order, sums, search, and reshaping.

use std::cmp::Ordering;

use super::{Cost, Overload, Size, T, function, member, take};
use crate::budget::Meter;
use crate::compare::{equal, order};
use crate::error::EvalError;
use crate::value::{List, Val};

type Outcome<'a> = Result<Val<'a>, EvalError>;

const LIST: T = T::List(&T::A);

/// Elements that one list may be flattened or counted up to: far above what the budget pays for.
const MAX_FLATTEN_DEPTH: i64 = 32;

pub(super) const OVERLOADS: &[Overload] = &[
    member("isSorted", &[LIST], T::Bool, is_sorted).cost(Cost::Elements(0)),
    member("sum", &[T::List(&T::Int)], T::Int, sum).cost(Cost::Elements(0)).size(Size::AtMost(1)),
    member("sum", &[T::List(&T::Uint)], T::Uint, sum).cost(Cost::Elements(0)).size(Size::AtMost(1)),
    member("sum", &[T::List(&T::Double)], T::Double, sum).cost(Cost::Elements(0)).size(Size::AtMost(1)),
    member("sum", &[T::List(&T::Duration)], T::Duration, sum).cost(Cost::Elements(0)).size(Size::AtMost(1)),
    member("min", &[LIST], T::A, |v, _| extreme(v, Ordering::Less, "min")).cost(Cost::Elements(0)).size(Size::Element),
    member("max", &[LIST], T::A, |v, _| extreme(v, Ordering::Greater, "max"))
        .cost(Cost::Elements(0))
        .size(Size::Element),
    member("indexOf", &[LIST, T::A], T::Int, |v, meter| {
        take!(v, [Val::List(list), wanted] => position(list, 0..list.len(), wanted, meter))
    })
    .cost(Cost::Elements(0)),
    member("lastIndexOf", &[LIST, T::A], T::Int, |v, meter| {
        take!(v, [Val::List(list), wanted] => position(list, (0..list.len()).rev(), wanted, meter))
    })
    .cost(Cost::Elements(0)),
    member("slice", &[LIST, T::Int, T::Int], LIST, slice).cost(Cost::Elements(0)),
    member("reverse", &[LIST], LIST, |v, _| {
        take!(v, [Val::List(list)] => {
            let mut items: Vec<Val<'_>> = list.iter().collect();
            items.reverse();
            Ok(items.into())
        })
    })
    .cost(Cost::Elements(0)),
    member("distinct", &[LIST], LIST, distinct).cost(Cost::Elements(0)),
    member("sort", &[LIST], LIST, |v, meter| {
        take!(v, [Val::List(list)] => {
            let items: Vec<Val<'_>> = list.iter().collect();
            sort_by_keys(items.clone(), items, meter)
        })
    })
    .cost(Cost::Elements(0)),
    member("flatten", &[T::List(&T::Dyn)], T::List(&T::Dyn), flatten).cost(Cost::Elements(0)).size(Size::Product),
    member("flatten", &[T::List(&T::Dyn), T::Int], T::List(&T::Dyn), flatten)
        .cost(Cost::Elements(0))
        .size(Size::Product),
    member("first", &[LIST], T::Optional(&T::A), |v, _| {
        take!(v, [Val::List(list)] => Ok(Val::optional(list.get(0))))
    })
    .size(Size::Element),
    member("last", &[LIST], T::Optional(&T::A), |v, _| {
        take!(v, [Val::List(list)] => Ok(Val::optional(list.len().checked_sub(1).and_then(|i| list.get(i)))))
    })
    .size(Size::Element),
    function("lists.range", &[T::Int], T::List(&T::Int), range).size(Size::AtMost(1_000_000)),
];

fn compared(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, EvalError> {
    order(a, b).ok_or(EvalError::NoSuchOverload)
}

fn is_sorted<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::List(list)] => {
        let mut previous: Option<Val<'a>> = None;
        for item in list.iter() {
            if let Some(previous) = &previous && compared(previous, &item)?.is_gt() {
                return Ok(false.into());
            }
            previous = Some(item);
        }
        Ok(true.into())
    })
}

fn sum<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::List(list)] => {
        let mut total: Option<Val<'a>> = None;
        for item in list.iter() {
            let overflow = EvalError::Overflow("integer");
            total = Some(match (total, item) {
                (None, item) => item,
                (Some(Val::Int(a)), Val::Int(b)) => Val::Int(a.checked_add(b).ok_or(overflow)?),
                (Some(Val::Uint(a)), Val::Uint(b)) => Val::Uint(a.checked_add(b).ok_or(overflow)?),
                (Some(Val::Duration(a)), Val::Duration(b)) => Val::Duration(a.checked_add(b).ok_or(overflow)?),
                (Some(Val::Double(a)), Val::Double(b)) => Val::Double(a + b),
                _ => return Err(EvalError::NoSuchOverload),
            });
        }
        Ok(total.unwrap_or(Val::Int(0)))
    })
}

fn extreme<'a>(v: &[Val<'a>], wanted: Ordering, name: &str) -> Outcome<'a> {
    take!(v, [Val::List(list)] => {
        let mut best: Option<Val<'a>> = None;
        for item in list.iter() {
            let better = match &best {
                Some(best) => compared(&item, best)? == wanted,
                None => true,
            };
            if better {
                best = Some(item);
            }
        }
        best.ok_or_else(|| EvalError::function(format!("{name} called on empty list")))
    })
}

fn position<'a>(
    list: &List<'a>,
    indexes: impl Iterator<Item = usize>,
    wanted: &Val<'a>,
    meter: &mut Meter,
) -> Outcome<'a> {
    for index in indexes {
        if let Some(item) = list.get(index)
            && equal(&item, wanted, meter)?
        {
            return Ok(Val::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

fn slice<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::List(list), Val::Int(start), Val::Int(end)] => {
        let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
            return Err(EvalError::function(format!("cannot slice({start}, {end}), negative indexes not supported")));
        };
        if from > to {
            let message = format!("cannot slice({start}, {end}), start index must be less than or equal to end index");
            return Err(EvalError::function(message));
        }
        if to > list.len() {
            let message = format!("cannot slice({start}, {end}), list is length {}", list.len());
            return Err(EvalError::function(message));
        }
        Ok((from..to).filter_map(|index| list.get(index)).collect::<Vec<_>>().into())
    })
}

fn distinct<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::List(list)] => {
        let mut kept: Vec<Val<'a>> = Vec::new();
        for item in list.iter() {
            meter.charge(kept.len() as u64)?;
            let mut known = false;
            for other in &kept {
                known = known || equal(other, &item, meter)?;
            }
            if !known {
                kept.push(item);
            }
        }
        Ok(kept.into())
    })
}

fn flatten<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    let (list, depth) = match v {
        [Val::List(list)] => (list, 1),
        [Val::List(list), Val::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::NoSuchOverload),
    };
    if depth < 0 {
        return Err(EvalError::function("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten_into(list, depth.min(MAX_FLATTEN_DEPTH), &mut out, meter)?;
    Ok(out.into())
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: i64,
    out: &mut Vec<Val<'a>>,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    for item in list.iter() {
        meter.charge(1)?;
        match item {
            Val::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out, meter)?,
            other => out.push(other),
        }
    }
    Ok(())
}

fn range<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::Int(end)] => {
        meter.charge(u64::try_from(*end).unwrap_or(0))?;
        Ok((0..*end).map(Val::Int).collect::<Vec<_>>().into())
    })
}

/// Elements in the order of their keys, equals in the order they had.
pub(crate) fn sort_by_keys<'a>(items: Vec<Val<'a>>, keys: Vec<Val<'a>>, meter: &mut Meter) -> Outcome<'a> {
    let count = items.len() as u64;
    meter.charge(count.saturating_mul(u64::from(64 - count.leading_zeros())))?;
    // Sorting needs an order of everything; that the keys have one is seen first.
    if let [first, rest @ ..] = keys.as_slice() {
        for key in rest {
            if first.type_name() != key.type_name() {
                return Err(EvalError::function("list elements must have the same type"));
            }
            compared(first, key)?;
        }
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.total_cmp(b),
        (a, b) => order(a, b).unwrap_or(Ordering::Equal),
    });
    Ok(pairs.into_iter().map(|(_, item)| item).collect::<Vec<_>>().into())
}
