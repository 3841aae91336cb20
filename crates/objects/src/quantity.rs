//! Quantities: `100m`, `1.5Gi`, `12e6`. Exact, and canonical as Kubernetes writes them.
//!
//! Mirrors `k8s.io/apimachinery/pkg/api/resource`: nothing is finer than a billionth (what is finer is rounded away
//! from zero) and nothing is larger than 2^63-1 (what is larger is that). So every quantity is a whole number of
//! billionths, and an `i128` holds the sum of ten thousand million of the largest ones.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

use serde_json::Value;

/// How a quantity was written, and so how it is written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `100m`, `5k`
    #[default]
    DecimalSI,
    /// `1Gi`
    BinarySI,
    /// `12e6`
    DecimalExponent,
}

/// Why text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANOS: i128 = 1_000_000_000;
/// 2^63-1, in billionths
const MAX: i128 = (i64::MAX as i128) * NANOS;

/// An amount of something. Compares by amount, however it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Decimal suffixes and their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Binary suffixes; each is 1024 times the one before.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::DecimalSI };

    pub fn new(value: i64, format: Format) -> Self {
        Quantity { nanos: i128::from(value) * NANOS, format }
    }

    pub fn from_milli(value: i64, format: Format) -> Self {
        Quantity { nanos: i128::from(value) * (NANOS / 1000), format }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        if number.is_empty() || !is_suffix_shaped(suffix) {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Numeric);
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let (magnitude, format) = match Suffix::read(suffix)? {
            Suffix::Power(exponent, format) => (decimal(whole, fraction, exponent), format),
            Suffix::Binary(power) => (binary(whole, fraction, power), Format::BinarySI),
        };
        let magnitude = magnitude.min(MAX);
        let nanos = if text.starts_with('-') { -magnitude } else { magnitude };
        // A part of one is clearer in thousandths, whatever the suffix was.
        let format = if format == Format::BinarySI && magnitude < NANOS { Format::DecimalSI } else { format };
        Ok(Quantity { nanos, format })
    }

    /// Reads a field that is a quantity: text, or a bare number.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// -1, 0 or 1
    pub fn sign(&self) -> i32 {
        i32::from(self.nanos.is_positive()) - i32::from(self.nanos.is_negative())
    }

    /// Whole units, rounded away from zero; at the bounds of `i64` where it is beyond them.
    pub fn value(&self) -> i64 {
        self.rounded(NANOS)
    }

    /// Thousandths, rounded away from zero; at the bounds of `i64` where it is beyond them.
    pub fn milli_value(&self) -> i64 {
        self.rounded(NANOS / 1000)
    }

    fn rounded(&self, unit: i128) -> i64 {
        let rest = self.nanos % unit;
        let away = i128::from(rest.is_positive()) - i128::from(rest.is_negative());
        let rounded = self.nanos / unit + away;
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// The format of a sum is that of its first part, unless that was nothing.
    fn combined(self, other: Quantity, nanos: i128) -> Quantity {
        Quantity { nanos, format: if self.is_zero() { other.format } else { self.format } }
    }
}

enum Suffix {
    Power(i64, Format),
    /// 1024 to this power
    Binary(u32),
}

/// Letters of any suffix, then perhaps a sign and digits.
fn is_suffix_shaped(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    digits.bytes().all(|b| b.is_ascii_digit())
}

impl Suffix {
    fn read(suffix: &str) -> Result<Self, QuantityError> {
        if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Ok(Suffix::Power(i64::from(*exponent), Format::DecimalSI));
        }
        if let Some(place) = BINARY.iter().position(|name| *name == suffix) {
            return Ok(Suffix::Binary(u32::try_from(place + 1).unwrap_or(0)));
        }
        let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<i32>().ok());
        exponent
            .map(|exponent| Suffix::Power(exponent.into(), Format::DecimalExponent))
            .ok_or(QuantityError::Suffix)
    }
}

/// More digits than the largest quantity has in billionths.
const DIGITS_MAX: i64 = 29;

/// `whole.fraction` times ten to `exponent`, in billionths, rounded up. At least [`MAX`] where it is too large.
fn decimal(whole: &str, fraction: &str, exponent: i64) -> i128 {
    let digits = || whole.bytes().chain(fraction.bytes());
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    // How many digits stand before the point once billionths are counted.
    let kept = length(whole).saturating_add(exponent).saturating_add(9);
    let leading_zeros = digits().take_while(|b| *b == b'0').count();
    if digits().all(|b| b == b'0') {
        return 0;
    }
    if kept.saturating_sub(i64::try_from(leading_zeros).unwrap_or(i64::MAX)) > DIGITS_MAX {
        return MAX;
    }
    let kept = usize::try_from(kept).unwrap_or(0);
    let mut nanos: i128 = 0;
    for place in 0..kept {
        let digit =
            whole.as_bytes().get(place).or_else(|| fraction.as_bytes().get(place - whole.len().min(place)));
        nanos = nanos * 10 + digit.map_or(0, |byte| i128::from(byte - b'0'));
    }
    let cut = digits().skip(kept).any(|byte| byte != b'0');
    nanos + i128::from(cut)
}

/// `whole.fraction` times 1024 to `power`, in billionths, rounded up. At least [`MAX`] where it is too large.
///
/// Of the fraction, eighteen digits count exactly; beyond them only whether there is anything.
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let unit = 1i128 << (10 * power);
    let number = |text: &str| text.bytes().fold(0i128, |sum, byte| sum * 10 + i128::from(byte - b'0'));
    if whole.len() > 19 {
        return MAX;
    }
    let (counted, rest) = fraction.split_at(fraction.len().min(18));
    let scale = 10i128.pow(u32::try_from(counted.len()).unwrap_or(0));
    let part = number(counted) * unit;
    let billionths = (part % scale) * NANOS;
    let cut = billionths % scale != 0 || !rest.is_empty();
    let of_fraction = (part / scale) * NANOS + billionths / scale + i128::from(cut);
    // Nineteen digits times 2^60 fit; in billionths they might not.
    (number(whole) * unit).min(MAX / NANOS + 1) * NANOS + of_fraction
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that keeps the number whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / NANOS;
        if self.format == Format::BinarySI && self.nanos % NANOS == 0 && whole.abs() >= 1024 {
            let (mut mantissa, mut power) = (whole, 0);
            while mantissa % 1024 == 0 && power < BINARY.len() {
                mantissa /= 1024;
                power += 1;
            }
            let suffix = power.checked_sub(1).and_then(|place| BINARY.get(place)).unwrap_or(&"");
            return write!(f, "{mantissa}{suffix}");
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        while mantissa % 1000 == 0 && (exponent < 18 || self.format == Format::DecimalExponent) {
            mantissa /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") };
        }
        let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
        write!(f, "{mantissa}{suffix}")
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        self.combined(other, self.nanos.saturating_add(other.nanos))
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        self.combined(other, self.nanos.saturating_sub(other.nanos))
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { nanos: self.nanos.saturating_neg(), ..self }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(amounts: I) -> Quantity {
        amounts.fold(Quantity::ZERO, Add::add)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        assert_eq!(
            Quantity::parse(text).map(|quantity| quantity.to_string()).as_deref(),
            Ok(canonical),
            "{text}"
        );
    }

    #[test]
    fn canonical_forms() {
        for (text, canonical) in [
            ("0", "0"),
            ("-0", "0"),
            ("0n", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1.5", "1500m"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100000", "100k"),
            ("1234567", "1234567"),
            ("12e6", "12e6"),
            ("12E6", "12e6"),
            ("1e3", "1e3"),
            ("1500e-3", "1500e-3"),
            ("10e-1", "1"),
            ("1E", "1E"),
            ("1e0", "1"),
            ("1Ki", "1Ki"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("0.1Ki", "102400m"),
            ("0.0001Ki", "102400u"),
            ("-1Ki", "-1Ki"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("007", "7"),
            ("1e-1000", "1e-9"),
            ("1e100", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("-9223372036854775809", "-9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("99999999999999999999Ki", "9223372036854775807"),
            ("1e2147483647", "9223372036854775807"),
            ("0e2147483647", "0"),
            ("0.000000000000000000000000000000000001e36", "1"),
        ] {
            check(text, canonical);
        }
    }

    #[test]
    fn refusals() {
        use QuantityError::*;
        for (text, error) in [
            ("", Format),
            ("-", Format),
            ("Ki", Format),
            ("1 ", Format),
            ("1Ki ", Format),
            ("1x", Format),
            ("1e3.5", Format),
            ("é", Format),
            (".", Numeric),
            ("1.2.3", Numeric),
            ("1ki", Suffix),
            ("1K", Suffix),
            ("1mm", Suffix),
            ("1e", Suffix),
            ("1i3", Suffix),
            ("1e99999999999", Suffix),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn amounts() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        for (text, value, milli) in [
            ("1", 1, 1000),
            ("1m", 1, 1),
            ("1n", 1, 1),
            ("-1n", -1, -1),
            ("1.5", 2, 1500),
            ("1Ki", 1024, 1_024_000),
            ("7Ei", 7 << 60, i64::MAX),
        ] {
            assert_eq!((of(text).value(), of(text).milli_value()), (value, milli), "{text}");
        }
        for (a, b, sum) in [
            ("1", "1Ki", "1025"),
            ("0", "1Ki", "1Ki"),
            ("1Ki", "1Ki", "2Ki"),
            ("100m", "0.9", "1"),
            ("1Ki", "-1Ki", "0"),
        ] {
            assert_eq!((of(a) + of(b)).to_string(), sum, "{a} + {b}");
        }
        assert_eq!((of("1") - of("1500m")).to_string(), "-500m");
        assert!(of("1023") < of("1Ki") && of("1Ki") == of("1024"));
        assert_eq!(["1", "2", "500m"].iter().map(|text| of(text)).sum::<Quantity>(), of("3.5"));
        assert_eq!(Quantity::from_value(&serde_json::json!(1.5)).unwrap().to_string(), "1500m");
        assert_eq!(Quantity::from_milli(1500, Format::DecimalSI), of("1.5"));
    }

    fn written() -> impl Strategy<Value = String> {
        let suffix = prop::sample::select(vec![
            "", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E", "Ei",
        ]);
        ("-?[0-9]{1,12}(\\.[0-9]{0,12})?", suffix).prop_map(|(number, suffix)| format!("{number}{suffix}"))
    }

    proptest! {
        #[test]
        fn the_canonical_form_says_the_same_and_is_canonical(text in written()) {
            let quantity = Quantity::parse(&text).unwrap();
            let canonical = quantity.to_string();
            let again = Quantity::parse(&canonical).unwrap();
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), canonical);
        }

        #[test]
        fn order_is_that_of_the_amounts(a in any::<i32>(), b in any::<i32>(), unit in prop::sample::select(vec!["n", "m", "", "k"])) {
            let [left, right] = [a, b].map(|number| Quantity::parse(&format!("{number}{unit}")).unwrap());
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left + right - right, left);
            prop_assert_eq!(left + right, Quantity::parse(&format!("{}{unit}", i64::from(a) + i64::from(b))).unwrap());
        }

        #[test]
        fn no_text_makes_it_panic(text in "[+\\-]?[0-9.]{0,60}[eEinumkKMGTP]{0,3}[+\\-]?[0-9]{0,12}|.{0,10}") {
            let _ = Quantity::parse(&text).map(|quantity| (quantity.to_string(), quantity.value(), quantity.milli_value()));
        }
    }
}
