//! Numbers that stay what they were: integers and decimal fractions of any length.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// Longer ones are not numbers anybody computes with.
const MOST_DIGITS: usize = 1_000;
const LARGEST_EXPONENT: i64 = 10_000;
/// Up to this many digits a number is written without an exponent.
const PLAIN: usize = 60;

/// An exact decimal number. Equal numbers have equal forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Small(i64),
    /// `0.digits × 10^exponent`; the first and the last digit are not zero. Never what fits `Small`.
    Decimal {
        negative: bool,
        exponent: i64,
        digits: Box<str>,
    },
}

impl From<i64> for Number {
    fn from(number: i64) -> Number {
        Number(Form::Small(number))
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        match i64::try_from(number) {
            Ok(small) => Number(Form::Small(small)),
            Err(_) => Number::of_digits(false, &number.to_string(), 0),
        }
    }
}

impl Number {
    /// The number that a person sees when this float is printed; nothing for what is not finite.
    pub fn from_f64(float: f64) -> Option<Number> {
        if !float.is_finite() {
            return None;
        }
        Number::parse(&format!("{float:e}"))
    }

    /// Decimal text, with a fraction and an exponent if need be.
    pub fn parse(text: &str) -> Option<Number> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return None;
        }
        if whole.len() + fraction.len() > MOST_DIGITS || exponent.abs() > LARGEST_EXPONENT {
            return None;
        }
        let mut all = String::with_capacity(whole.len() + fraction.len());
        all.push_str(whole);
        all.push_str(fraction);
        Some(Number::of_digits(negative, &all, exponent - fraction.len() as i64))
    }

    /// `digits × 10^scale`, brought into the one form it has.
    fn of_digits(negative: bool, digits: &str, scale: i64) -> Number {
        let trimmed = digits.trim_start_matches('0');
        let significant = trimmed.trim_end_matches('0');
        if significant.is_empty() {
            return Number(Form::Small(0));
        }
        let exponent = trimmed.len() as i64 + scale;
        let decimal = Form::Decimal { negative, exponent, digits: significant.into() };
        let number = Number(decimal);
        match number.is_whole().then(|| number.to_string().parse().ok()).flatten() {
            Some(small) if exponent <= 19 => Number(Form::Small(small)),
            _ => number,
        }
    }

    /// Sign, exponent and digits, as a decimal has them; nothing for zero.
    pub fn decimal(&self) -> Option<(bool, i64, Cow<'_, str>)> {
        match &self.0 {
            Form::Small(0) => None,
            Form::Small(number) => {
                let digits = number.unsigned_abs().to_string();
                let exponent = digits.len() as i64;
                Some((*number < 0, exponent, Cow::Owned(digits.trim_end_matches('0').to_owned())))
            }
            Form::Decimal { negative, exponent, digits } => {
                Some((*negative, *exponent, Cow::Borrowed(digits)))
            }
        }
    }

    /// All its digits, however many there are: never with an exponent.
    pub fn plain(&self) -> String {
        let Form::Decimal { negative, exponent, digits } = &self.0 else { return self.to_string() };
        let sign = if *negative { "-" } else { "" };
        let places = digits.len() as i64;
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        if *exponent <= 0 {
            format!("{sign}0.{}{digits}", zeros(-exponent))
        } else if *exponent >= places {
            format!("{sign}{digits}{}", zeros(exponent - places))
        } else {
            let (whole, fraction) = digits.split_at(*exponent as usize);
            format!("{sign}{whole}.{fraction}")
        }
    }

    /// How many digits [`Number::plain`] has, about.
    pub fn length(&self) -> usize {
        match &self.0 {
            Form::Small(_) => 20,
            Form::Decimal { exponent, digits, .. } => digits.len() + exponent.unsigned_abs() as usize,
        }
    }

    pub fn is_whole(&self) -> bool {
        match &self.0 {
            Form::Small(_) => true,
            Form::Decimal { exponent, digits, .. } => *exponent >= digits.len() as i64,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Form::Small(number) => Some(number),
            Form::Decimal { .. } => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match &self.0 {
            Form::Small(number) => u64::try_from(*number).ok(),
            Form::Decimal { exponent, .. } if self.is_whole() && *exponent <= 20 => {
                self.to_string().parse().ok()
            }
            Form::Decimal { .. } => None,
        }
    }

    /// The nearest float.
    pub fn nearest_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The float that prints as this number, when there is one.
    pub fn as_f64(&self) -> Option<f64> {
        let float = self.nearest_f64();
        (Number::from_f64(float).as_ref() == Some(self)).then_some(float)
    }

    /// The float that is this very number, bit for bit, when there is one.
    pub fn exact_f64(&self) -> Option<f64> {
        let float = self.as_f64()?;
        // A float's own decimal expansion ends after at most 1074 places; it has to be all zeros after ours.
        let expansion = format!("{float:.1074}");
        (Number::parse_long(&expansion).as_ref() == Some(self)).then_some(float)
    }

    fn parse_long(text: &str) -> Option<Number> {
        let text = text.trim_end_matches('0');
        Number::parse(text.strip_suffix('.').unwrap_or(text)).filter(|_| text.contains('.'))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        if let (Form::Small(a), Form::Small(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        // Negative, zero, positive; then by size.
        let (a, b) = (self.decimal(), other.decimal());
        let sign = |number: &Option<(bool, i64, Cow<'_, str>)>| match number {
            None => 0,
            Some((true, ..)) => -1,
            Some(_) => 1,
        };
        sign(&a).cmp(&sign(&b)).then_with(|| match (a, b) {
            (Some((negative, a_exponent, a)), Some((_, b_exponent, b))) => {
                let size = a_exponent.cmp(&b_exponent).then_with(|| a.cmp(&b));
                if negative { size.reverse() } else { size }
            }
            _ => Ordering::Equal,
        })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, exponent, digits) = match &self.0 {
            Form::Small(number) => return write!(f, "{number}"),
            Form::Decimal { negative, exponent, digits } => (*negative, *exponent, digits),
        };
        if negative {
            f.write_str("-")?;
        }
        let places = digits.len() as i64;
        if exponent > PLAIN as i64 || exponent < -(PLAIN as i64) {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            write!(f, "{first}{dot}{rest}e{}", exponent - 1)
        } else if exponent >= places {
            write!(f, "{digits}{}", "0".repeat((exponent - places) as usize))
        } else if exponent > 0 {
            let (whole, fraction) = digits.split_at(exponent as usize);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{}{digits}", "0".repeat(-exponent as usize))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_for_each_number() {
        fn check(text: &str, expected: &str) {
            let number = Number::parse(text).unwrap();
            assert_eq!(number.to_string(), expected, "{text}");
            assert_eq!(Number::parse(expected).unwrap(), number, "{text}");
        }
        check("0", "0");
        check("-0.00", "0");
        check("007", "7");
        check("1.50", "1.5");
        check("1e3", "1000");
        check("1.5e-3", "0.0015");
        check("-12.5E+1", "-125");
        check("9223372036854775807", "9223372036854775807");
        check("-9223372036854775808", "-9223372036854775808");
        check("9223372036854775808", "9223372036854775808");
        check("123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789");
        check("1e400", "1e400");
        check("1.25e-400", "1.25e-400");
    }

    #[test]
    fn in_order() {
        let ordered =
            ["-1e30", "-10", "-2.5", "-2", "-0.1", "0", "0.05", "0.5", "1", "1.5", "2", "10", "1e30"];
        for (a, b) in ordered.iter().zip(&ordered[1..]) {
            assert!(Number::parse(a).unwrap() < Number::parse(b).unwrap(), "{a} {b}");
        }
    }

    #[test]
    fn not_numbers() {
        for text in
            ["", "-", "+", ".", "e5", "1e", "0x10", "1_000", "NaN", "inf", "1e99999999999999999999", "1 "]
        {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        assert_eq!(Number::from_f64(f64::INFINITY), None);
    }

    #[test]
    fn floats() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(Number::from_f64(0.1), Some(number("0.1")));
        assert_eq!(number("0.1").as_f64(), Some(0.1));
        assert_eq!(number("0.1").exact_f64(), None, "no float is a tenth");
        assert_eq!(number("0.375").exact_f64(), Some(0.375));
        assert_eq!(number("1e300").as_f64(), Some(1e300));
        assert_eq!(number("0.1000000000000000000001").as_f64(), None);
        assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(number("18446744073709551616").as_u64(), None);
        assert_eq!(number("-1").as_u64(), None);
    }
}
