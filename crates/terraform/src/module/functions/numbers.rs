//! Functions of numbers.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::{ANY, Arguments, Made, Row, wrong};
use crate::module::arithmetic;
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::module::types;
use crate::value::Number;

/// More digits are no number that anybody means.
const LONGEST: usize = 1_000;

pub(super) const TABLE: &[Row] = &[
    ("abs", 1, 1, |arguments| {
        let number = arguments.number(0)?;
        if number < Number::from(0_i64) {
            finite(arithmetic::negate(&number))
        } else {
            Ok(Term::Number(number))
        }
    }),
    ("ceil", 1, 1, |arguments| rounded(&arguments, true)),
    ("floor", 1, 1, |arguments| rounded(&arguments, false)),
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
        let number = arguments.number(0)?;
        if !number.is_whole() {
            return wrong("a whole number is required");
        }
        Ok(Term::Number(Number::from(number.cmp(&Number::from(0_i64)) as i64)))
    }),
    ("parseint", 2, 2, |arguments| {
        let radix = arguments.whole(1)?;
        let Some(radix) = u32::try_from(radix).ok().filter(|radix| (2..=62).contains(radix)) else {
            return wrong("the base has to be between 2 and 62");
        };
        let Some(Term::String(text)) = arguments.0.first() else {
            return wrong("the number has to be given as a string");
        };
        match parsed(text, radix) {
            Some(number) => Ok(Term::Number(number)),
            None => wrong("this is not a number in that base"),
        }
    }),
    ("sum", 1, 1, |mut arguments| {
        let mut total = Number::from(0_i64);
        let elements = arguments.list(0)?;
        if elements.is_empty() {
            return wrong("there is nothing to add");
        }
        for element in elements {
            let next = arithmetic::add(&total, &types::number(&element)?);
            total = next.ok_or_else(|| Problem::new("the sum is too large"))?;
        }
        Ok(Term::Number(total))
    }),
];

fn finite(number: Option<Number>) -> Made {
    number.map(Term::Number).ok_or_else(|| Problem::new("the result is not a number"))
}

fn rounded(arguments: &Arguments, up: bool) -> Made {
    let number = arguments.number(0)?;
    if number.is_whole() {
        return Ok(Term::Number(number));
    }
    let away = up == (number > Number::from(0_i64));
    let step = if up { 1 } else { -1 };
    let whole = arithmetic::truncated(&number).map(|whole| if away { whole + step } else { whole });
    finite(whole.and_then(|whole| arithmetic::whole(&whole)))
}

/// Digits, small letters, capital letters; up to a base of 36 those are the same.
fn parsed(text: &str, radix: u32) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.len() > LONGEST {
        return None;
    }
    let mut number = BigInt::ZERO;
    for letter in digits.chars() {
        let digit = match letter {
            '0'..='9' => letter as u32 - '0' as u32,
            'a'..='z' => letter as u32 - 'a' as u32 + 10,
            'A'..='Z' if radix > 36 => letter as u32 - 'A' as u32 + 36,
            'A'..='Z' => letter as u32 - 'A' as u32 + 10,
            _ => return None,
        };
        number = number * radix + Some(digit).filter(|digit| *digit < radix)?;
    }
    let number = arithmetic::whole(&number)?;
    if text.starts_with('-') { arithmetic::negate(&number) } else { Some(number) }
}

fn extreme(arguments: Arguments, wanted: Ordering) -> Made {
    let mut best: Option<Number> = None;
    for at in 0..arguments.len() {
        let number = arguments.number(at)?;
        if best.as_ref().is_none_or(|best| number.cmp(best) == wanted) {
            best = Some(number);
        }
    }
    finite(best)
}
