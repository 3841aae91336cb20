//! Functions of numbers.

use super::{ANY, Arguments, Made, Row, wrong};
use crate::module::arithmetic;
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::module::types;
use crate::value::Number;
use std::cmp::Ordering;

pub(super) const TABLE: &[Row] = &[
    ("abs", 1, 1, |arguments| {
        let number = arguments.number(0)?;
        let negative = arithmetic::compare(&number, &Number::from(0_i64)) == Ordering::Less;
        if negative { finite(arithmetic::negate(&number)) } else { Ok(Term::Number(number)) }
    }),
    ("ceil", 1, 1, |arguments| rounded(&arguments, f64::ceil)),
    ("floor", 1, 1, |arguments| rounded(&arguments, f64::floor)),
    ("max", 1, ANY, |arguments| extreme(arguments, Ordering::Greater)),
    ("min", 1, ANY, |arguments| extreme(arguments, Ordering::Less)),
    ("pow", 2, 2, |arguments| {
        let (base, exponent) = (arguments.number(0)?, arguments.number(1)?);
        finite(Number::from_f64(base.nearest_f64().powf(exponent.nearest_f64())))
    }),
    ("log", 2, 2, |arguments| {
        let (number, base) = (arguments.number(0)?, arguments.number(1)?);
        finite(Number::from_f64(number.nearest_f64().log(base.nearest_f64())))
    }),
    ("signum", 1, 1, |arguments| {
        let sign = arithmetic::compare(&arguments.number(0)?, &Number::from(0_i64));
        Ok(Term::Number(Number::from(sign as i64)))
    }),
    ("parseint", 2, 2, |arguments| {
        let radix = arguments.whole(1)?;
        let Some(radix) = u32::try_from(radix).ok().filter(|radix| (2..=36).contains(radix)) else {
            return wrong("the base has to be between 2 and 36");
        };
        match i64::from_str_radix(&arguments.text(0)?, radix) {
            Ok(number) => Ok(Term::Number(number.into())),
            Err(_) => wrong("this is not a number in that base"),
        }
    }),
    ("sum", 1, 1, |mut arguments| {
        let mut total = Number::from(0_i64);
        for element in arguments.list(0)? {
            let next = arithmetic::add(&total, &types::number(&element)?);
            total = next.ok_or_else(|| Problem::new("the sum is too large"))?;
        }
        Ok(Term::Number(total))
    }),
];

fn finite(number: Option<Number>) -> Made {
    number.map(Term::Number).ok_or_else(|| Problem::new("the result is not a number"))
}

fn rounded(arguments: &Arguments, round: fn(f64) -> f64) -> Made {
    let number = arguments.number(0)?;
    if number.is_whole() {
        Ok(Term::Number(number))
    } else {
        finite(Number::from_f64(round(number.nearest_f64())))
    }
}

fn extreme(arguments: Arguments, wanted: Ordering) -> Made {
    let mut best: Option<Number> = None;
    for at in 0..arguments.len() {
        let number = arguments.number(at)?;
        if best.as_ref().is_none_or(|best| arithmetic::compare(&number, best) == wanted) {
            best = Some(number);
        }
    }
    finite(best)
}
