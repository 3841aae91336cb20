//! Numbers as expressions compute with them: in as many bits as Terraform has for them, so that a result is rounded
//! where Terraform's is. Between computations a number is the shortest decimal that stands for those bits.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use crate::value::Number;

/// The bits of a number.
const BITS: u64 = 512;
/// How many digits may be needed to tell a number of so many bits from its neighbours.
const DIGITS: std::ops::RangeInclusive<u32> = 1..=158;

/// `mantissa / 10^scale`.
fn parts(number: &Number) -> Option<(BigInt, u32)> {
    let text = number.plain();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    Some((format!("{whole}{fraction}").parse().ok()?, u32::try_from(fraction.len()).ok()?))
}

/// The steps that computing with two numbers is worth: a division of very long ones takes its time.
pub fn cost(a: &Number, b: &Number) -> usize {
    let length = a.length().max(b.length());
    length * length / 1_000
}

/// `mantissa / 2^places`: the bits that a number has.
fn binary(number: &Number) -> Option<(BigInt, u64)> {
    let (mantissa, scale) = parts(number)?;
    if scale == 0 && mantissa.bits() <= BITS {
        return Some((mantissa, 0));
    }
    let (bits, shift) = rounded(mantissa.magnitude(), &BigUint::from(10_u32).pow(scale));
    let bits = BigInt::from_biguint(mantissa.sign(), bits);
    let by = shift.unsigned_abs();
    Some(if shift >= 0 { (bits, by) } else { (bits << by, 0) })
}

fn number(mantissa: &BigInt, places: u64) -> Option<Number> {
    if places == 0 && mantissa.bits() <= BITS {
        return whole(mantissa);
    }
    quotient(mantissa, &(BigInt::from(1) << places))
}

pub fn whole(number: &BigInt) -> Option<Number> {
    Number::parse(&number.to_string())
}

/// The digits before the point, towards zero.
pub fn truncated(number: &Number) -> Option<BigInt> {
    number.plain().split('.').next()?.parse().ok()
}

pub fn add(a: &Number, b: &Number) -> Option<Number> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64())
        && let Some(sum) = a.checked_add(b)
    {
        return Some(sum.into());
    }
    let ((a, of_a), (b, of_b)) = (binary(a)?, binary(b)?);
    let places = of_a.max(of_b);
    number(&((a << (places - of_a)) + (b << (places - of_b))), places)
}

pub fn negate(a: &Number) -> Option<Number> {
    let text = a.to_string();
    Number::parse(&text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned))
}

pub fn subtract(a: &Number, b: &Number) -> Option<Number> {
    add(a, &negate(b)?)
}

pub fn multiply(a: &Number, b: &Number) -> Option<Number> {
    let ((a, of_a), (b, of_b)) = (binary(a)?, binary(b)?);
    number(&(a * b), of_a + of_b)
}

/// Nothing for a division by zero.
pub fn divide(a: &Number, b: &Number) -> Option<Number> {
    let ((a, of_a), (b, of_b)) = (binary(a)?, binary(b)?);
    quotient(&(a << of_b), &(b << of_a))
}

fn quotient(a: &BigInt, b: &BigInt) -> Option<Number> {
    match (a.sign(), b.sign()) {
        (_, Sign::NoSign) => None,
        (Sign::NoSign, _) => Some(Number::from(0_i64)),
        (of_a, of_b) => {
            let size = nearest(a.magnitude(), b.magnitude())?;
            if of_a == of_b { Some(size) } else { negate(&size) }
        }
    }
}

/// The shortest decimal that is nearer to the quotient, in so many bits, than to any other number of as many.
fn nearest(a: &BigUint, b: &BigUint) -> Option<Number> {
    let ten = BigUint::from(10_u32);
    let (mantissa, shift) = rounded(a, b);
    let (a, b) = if shift >= 0 {
        (mantissa.clone(), BigUint::from(1_u32) << shift.unsigned_abs())
    } else {
        (mantissa.clone() << shift.unsigned_abs(), BigUint::from(1_u32))
    };
    // About where the first digit is; one more or less makes no difference where this begins.
    let before = (a.bits() as i64 - b.bits() as i64) * 301 / 1000;
    let of_digits = |digits: u32| {
        let places = i64::from(digits) - before;
        let power = ten.pow(u32::try_from(places.unsigned_abs()).ok()?);
        let (over, under) = if places >= 0 { (&a * &power, b.clone()) } else { (a.clone(), &b * &power) };
        let decimal = (over * 2_u32 + &under) / (under * 2_u32);
        let read = if places >= 0 {
            rounded(&decimal, &power)
        } else {
            rounded(&(&decimal * &power), &BigUint::from(1_u32))
        };
        let same = read == (mantissa.clone(), shift);
        same.then(|| Number::parse(&format!("{decimal}e{}", -places))).flatten()
    };
    // More digits are never further away, so half of the rest is left out each time.
    let (mut fewest, mut most) = (*DIGITS.start(), *DIGITS.end());
    let mut found = of_digits(most);
    while fewest < most {
        let digits = fewest.midpoint(most);
        match of_digits(digits) {
            Some(shorter) => (found, most) = (Some(shorter), digits),
            None => fewest = digits + 1,
        }
    }
    found
}

/// The nearest number of [`BITS`] bits, and by how many places it is moved.
fn rounded(a: &BigUint, b: &BigUint) -> (BigUint, i64) {
    let mut shift = BITS as i64 - (a.bits() as i64 - b.bits() as i64);
    loop {
        let by = shift.unsigned_abs();
        let (over, under) = if shift >= 0 { (a << by, b.clone()) } else { (a.clone(), b << by) };
        let whole = to_even(&over, &under);
        if whole.bits() <= BITS {
            return (whole, shift);
        }
        shift -= 1;
    }
}

/// The nearest whole number, and the even one of two.
fn to_even(over: &BigUint, under: &BigUint) -> BigUint {
    let (whole, rest) = (over / under, over % under);
    let twice = rest * 2_u32;
    let up = twice > *under || (twice == *under && whole.bit(0));
    if up { whole + 1_u32 } else { whole }
}

/// Its size, `10^places` times, as a whole number.
pub fn scaled(number: &Number, places: i64) -> Option<BigUint> {
    let (bits, of) = binary(number)?;
    let (over, under) = (bits.magnitude(), BigUint::from(1_u32) << of);
    let power = BigUint::from(10_u32).pow(u32::try_from(places.unsigned_abs()).ok()?);
    Some(if places >= 0 { to_even(&(over * power), &under) } else { to_even(over, &(under * power)) })
}

/// So many digits of its size, and the exponent of the first of them.
pub fn significant(number: &Number, count: usize) -> Option<(String, i64)> {
    let Some((_, exponent, _)) = number.decimal() else { return Some(("0".repeat(count), 0)) };
    let mut exponent = exponent - 1;
    loop {
        let digits = scaled(number, count as i64 - 1 - exponent)?.to_string();
        // Rounded, it may have one digit more, and by its last bit one less.
        match digits.len().cmp(&count) {
            Ordering::Equal => return Some((digits, exponent)),
            Ordering::Greater => exponent += 1,
            Ordering::Less => exponent -= 1,
        }
    }
}

/// Terraform leaves a number as it is if it is divided by nothing.
pub fn remainder(a: &Number, b: &Number) -> Option<Number> {
    if b.as_i64() == Some(0) {
        return Some(a.clone());
    }
    let times = whole(&truncated(&divide(a, b)?)?)?;
    subtract(a, &multiply(b, &times)?)
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
        check(divide, "-10", "4", Some("-2.5"));
        check(divide, "9223372036854775808", "2", Some("4611686018427387904"));
        check(divide, "1", "0", None);
        check(remainder, "7", "3", Some("1"));
        check(remainder, "7.5", "2", Some("1.5"));
        check(remainder, "-7", "4", Some("-3"));
        check(add, "0.1", "0.9", Some("1"));
        check(add, "1e-9000", "1", Some("1"));
        check(multiply, "1e40", "2", Some("20000000000000000000000000000000000000000"));
    }
}
