//! Numbers: limits, ranges of formats, and how Go prints them.

use serde_json::{Number, Value};

use super::outcome::{Outcome, Place, Problem};
use crate::schema::{Constraints, Node, Type};

/// Beyond this a float has no digit for the ones.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Whether JSON would call it an integer: `1`, and `1.0`.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.as_f64().is_some_and(is_whole_float)
}

fn is_whole_float(number: f64) -> bool {
    number.is_finite() && number.abs() <= EXACT && number.fract() == 0.0
}

/// Equality of JSON where 1 and 1.0 are the same number.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

pub(super) fn check(node: &Node, limits: &Constraints, number: &Number, place: &Place<'_>) -> Outcome {
    let range = Range::of(node, limits);
    let mut outcome = Outcome::default();
    let as_float = number.as_f64().unwrap_or(0.0);
    if !range.holds(number.as_i64(), as_float) {
        outcome.add(range.problem("Checked", place));
    }
    if let Some(factor) = limits.multiple_of {
        outcome.merge(check_multiple(range, factor, number, place));
    }
    let bounds = [
        (limits.minimum, limits.exclusive_minimum, "Minimum boundary", "greater"),
        (limits.maximum, limits.exclusive_maximum, "Maximum boundary", "less"),
    ];
    for (bound, exclusive, name, side) in bounds {
        let Some(bound) = bound else { continue };
        let in_range = range.holds(None, bound);
        if !in_range {
            outcome.add(range.problem(name, place));
        }
        // An integer is compared as one, with a bound cut to one.
        let (order, shown) = match number.as_i64().filter(|_| in_range) {
            Some(whole) => (Some(whole.cmp(&(bound as i64))), (bound as i64).to_string()),
            None => (as_float.partial_cmp(&bound), go_float(bound)),
        };
        let beyond = order.is_some_and(|order| match side {
            "greater" => order.is_lt() || (exclusive && order.is_eq()),
            _ => order.is_gt() || (exclusive && order.is_eq()),
        });
        if beyond {
            let or_equal = if exclusive { "" } else { " or equal to" };
            let sentence = format!("should be {side} than{or_equal} {shown}");
            outcome.add(Problem::invalid(place, number.clone(), sentence));
        }
    }
    outcome.passed();
    outcome
}

fn check_multiple(range: Range<'_>, factor: f64, number: &Number, place: &Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let in_range = range.holds(None, factor);
    if !in_range {
        outcome.add(range.problem("MultipleOf", place));
    }
    let whole = number.as_i64().filter(|_| in_range);
    let (is_multiple, shown) = match whole {
        Some(number) => {
            let factor = factor as i64;
            (factor > 0 && number.checked_rem(factor) == Some(0), factor.to_string())
        }
        None => {
            let number = number.as_f64().unwrap_or(0.0);
            let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            (is_whole_float(times), go_float(factor))
        }
    };
    if factor <= 0.0 || shown == "0" {
        let name = place.to_string();
        outcome.add(Problem::unplaced(format!(
            "factor MultipleOf declared for {name} must be positive: {shown}"
        )));
    } else if !is_multiple {
        outcome.add(Problem::invalid(place, number.clone(), format!("should be a multiple of {shown}")));
    }
    outcome
}

/// The numbers that a type and format can hold.
#[derive(Clone, Copy)]
struct Range<'a> {
    kind: Type,
    format: Option<&'a str>,
}

impl<'a> Range<'a> {
    fn of(node: &Node, limits: &'a Constraints) -> Self {
        let kind = if node.int_or_string { Type::Any } else { node.kind };
        let known: &[&str] = match kind {
            Type::Integer => &["int32", "int64"],
            Type::Number => &["float", "double"],
            _ => &[],
        };
        Range { kind, format: limits.format.as_deref().filter(|format| known.contains(format)) }
    }

    fn holds(self, whole: Option<i64>, float: f64) -> bool {
        match (self.kind, self.format) {
            (Type::Integer, format) => {
                let whole = whole.or_else(|| is_int64(float).then_some(float as i64));
                whole.is_some_and(|whole| format != Some("int32") || i32::try_from(whole).is_ok())
            }
            (Type::Number, Some("float")) => float.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    fn problem(self, what: &str, place: &Place<'_>) -> Problem {
        let kind = if self.kind == Type::Integer { "integer" } else { "number" };
        Problem::unplaced(match self.format {
            Some(format) => format!("{what} value must be of type {kind} with format {format} in {place}"),
            None => format!("{what} value must be of type {kind} (default format) in {place}"),
        })
    }
}

fn is_int64(float: f64) -> bool {
    float.fract() == 0.0 && float >= i64::MIN as f64 && float < i64::MAX as f64
}

/// A float as Go's `%v` prints it.
pub(super) fn go_float(number: f64) -> String {
    let exponent = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    if (-4.0..21.0).contains(&exponent) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}
