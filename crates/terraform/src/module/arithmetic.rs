//! Numbers as expressions compute with them: exact as long as they fit into 128 bits, floating beyond that.

use std::cmp::Ordering;

use crate::value::Number;

/// Decimal places beyond which floating is good enough.
const PLACES: u32 = 30;

/// `mantissa / 10^scale`.
fn parts(number: &Number) -> Option<(i128, u32)> {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let scale = u32::try_from(fraction.len()).ok().filter(|scale| *scale <= PLACES)?;
    Some((format!("{whole}{fraction}").parse().ok()?, scale))
}

/// Two numbers on the same scale.
fn aligned(a: &Number, b: &Number) -> Option<(i128, i128, u32)> {
    let ((a, of_a), (b, of_b)) = (parts(a)?, parts(b)?);
    let scale = of_a.max(of_b);
    let lift = |number: i128, of: u32| number.checked_mul(10_i128.checked_pow(scale - of)?);
    Some((lift(a, of_a)?, lift(b, of_b)?, scale))
}

fn number(mantissa: i128, scale: u32) -> Option<Number> {
    Number::parse(&format!("{mantissa}e-{scale}"))
}

pub fn compare(a: &Number, b: &Number) -> Ordering {
    match aligned(a, b) {
        Some((a, b, _)) => a.cmp(&b),
        None => a.nearest_f64().total_cmp(&b.nearest_f64()),
    }
}

pub fn add(a: &Number, b: &Number) -> Option<Number> {
    let exact = aligned(a, b).and_then(|(a, b, scale)| number(a.checked_add(b)?, scale));
    exact.or_else(|| Number::from_f64(a.nearest_f64() + b.nearest_f64()))
}

pub fn negate(a: &Number) -> Option<Number> {
    let text = a.to_string();
    Number::parse(&text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned))
}

pub fn subtract(a: &Number, b: &Number) -> Option<Number> {
    add(a, &negate(b)?)
}

pub fn multiply(a: &Number, b: &Number) -> Option<Number> {
    let exact =
        parts(a).zip(parts(b)).and_then(|((a, of_a), (b, of_b))| number(a.checked_mul(b)?, of_a + of_b));
    exact.or_else(|| Number::from_f64(a.nearest_f64() * b.nearest_f64()))
}

/// Nothing for a division by zero.
pub fn divide(a: &Number, b: &Number) -> Option<Number> {
    let whole = aligned(a, b)
        .and_then(|(a, b, _)| (a.checked_rem(b)? == 0).then(|| number(a.checked_div(b)?, 0)).flatten());
    whole.or_else(|| Number::from_f64(a.nearest_f64() / b.nearest_f64()))
}

pub fn remainder(a: &Number, b: &Number) -> Option<Number> {
    match aligned(a, b) {
        Some((a, b, scale)) => number(a.checked_rem(b)?, scale),
        None => Number::from_f64(a.nearest_f64() % b.nearest_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_where_it_can_be() {
        fn check(
            operation: fn(&Number, &Number) -> Option<Number>,
            a: &str,
            b: &str,
            expected: Option<&str>,
        ) {
            let (a, b) = (Number::parse(a).unwrap(), Number::parse(b).unwrap());
            assert_eq!(operation(&a, &b).map(|number| number.to_string()).as_deref(), expected, "{a} {b}");
        }
        check(add, "0.1", "0.2", Some("0.3"));
        check(add, "9223372036854775807", "1", Some("9223372036854775808"));
        check(subtract, "1", "1.5", Some("-0.5"));
        check(multiply, "1.5", "-4", Some("-6"));
        check(divide, "10", "4", Some("2.5"));
        check(divide, "9223372036854775808", "2", Some("4611686018427387904"));
        check(divide, "1", "0", None);
        check(remainder, "7", "3", Some("1"));
        check(remainder, "7.5", "2", Some("1.5"));
        check(remainder, "1", "0", None);
        check(multiply, "1e40", "2", Some("20000000000000000000000000000000000000000"));
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(compare(&number("2"), &number("10.5")), Ordering::Less);
        assert_eq!(compare(&number("1e50"), &number("3")), Ordering::Greater);
    }
}
