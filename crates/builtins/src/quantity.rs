//! Quantities: `500m`, `1Gi`, `12e6`; compared by what they amount to, written in one canonical way.
//!
//! Mirrors `k8s.io/apimachinery/pkg/api/resource`: nano precision, rounding away from zero below it.

use std::cmp::Ordering;
use std::fmt;

use objects::Value;

const NANO: i128 = 1_000_000_000;
/// The most that an amount may be, in nanos: far beyond any resource, and safe to add.
const MOST: i128 = 10_i128.pow(37);

/// What upstream says of a text that is no quantity.
pub const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The family of suffixes a quantity was written in, and is written in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `k`, `M`, `m`, ...
    Decimal,
    /// `Ki`, `Mi`, ...
    Binary,
    /// `e3`, `e6`, ...
    Exponent,
}

#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, form: Form::Decimal };

    pub fn whole(number: i64) -> Self {
        Quantity { nanos: i128::from(number) * NANO, form: Form::Decimal }
    }

    /// A quantity as it stands in JSON: a text or a number. Nothing is zero.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::ZERO),
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (digits, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (digits.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (form, ten, two) = suffix_of(suffix)?;
        let most = if form == Form::Binary { i128::from(i64::MAX) * NANO } else { MOST };
        let nanos = scaled(digits, fraction, ten, two).min(most);
        Some(Quantity { nanos: if negative { -nanos } else { nanos }, form })
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// Rounded up to thousandths, the finest that resources are counted in.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let unit = NANO / 1000;
        Quantity { nanos: round_away(self.nanos, unit).saturating_mul(unit), form: self.form }
    }

    #[must_use]
    pub fn plus(self, other: Quantity) -> Self {
        let form = if self.is_zero() { other.form } else { self.form };
        Quantity { nanos: self.nanos.saturating_add(other.nanos).clamp(-MOST, MOST), form }
    }
}

/// The family of a suffix and its power, of ten or of two.
fn suffix_of(suffix: &str) -> Option<(Form, i32, u32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Form::Decimal, *power, 0));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Form::Binary, 0, *power));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Beyond these powers every amount is zero or the largest there is.
    Some((Form::Exponent, power.parse().unwrap_or(if power.starts_with('-') { -60 } else { 60 }), 0))
}

/// The nanos of a decimal number times powers of ten and two, rounded away from zero and bounded.
fn scaled(digits: &str, fraction: &str, ten: i32, two: u32) -> i128 {
    // Digits beyond these cannot matter: they are below a nano of the largest unit, or saturate anyway.
    let fraction = &fraction[..fraction.len().min(30)];
    let mut amount: i128 = 0;
    for digit in digits.bytes().chain(fraction.bytes()) {
        amount = amount.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    if two > 0 {
        amount = amount.saturating_mul(1 << two);
    }
    let power = ten.clamp(-60, 60) + 9 - i32::try_from(fraction.len()).unwrap_or(30);
    if power >= 0 {
        let factor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
        return amount.saturating_mul(factor);
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(unit) => round_away(amount, unit),
        None => i128::from(amount != 0),
    }
}

fn round_away(amount: i128, unit: i128) -> i128 {
    amount / unit + i128::from(amount % unit != 0) * amount.signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The canonical text: no fraction, the largest suffix that allows it, the family as written.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * NANO {
            let units = round_away(self.nanos, NANO);
            let fits = |(_, power): &&(&str, u32)| units % (1_i128 << power) == 0;
            return match BINARY.iter().rev().find(fits) {
                Some((suffix, power)) => write!(f, "{}{suffix}", units >> power),
                None => write!(f, "{units}"),
            };
        }
        let mut amount = self.nanos;
        let mut power = -9;
        while amount % 1000 == 0 && (power < 18 || self.form == Form::Exponent) {
            amount /= 1000;
            power += 3;
        }
        let suffix = DECIMAL.iter().find(|(_, of)| *of == power).map_or("", |(suffix, _)| suffix);
        match self.form {
            Form::Exponent if power != 0 => write!(f, "{amount}e{power}"),
            _ => write!(f, "{amount}{suffix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical() {
        let check = |text: &str, expected: &str| {
            let shown = Quantity::parse(text).map(|quantity| quantity.to_string());
            assert_eq!(shown.as_deref(), (!expected.is_empty()).then_some(expected), "{text:?}");
        };
        check("0", "0");
        check("1", "1");
        check("1000m", "1");
        check("0.5", "500m");
        check(".5", "500m");
        check("5.", "5");
        check("+1", "1");
        check("-1500m", "-1500m");
        check("1000", "1k");
        check("1500", "1500");
        check("100000000", "100M");
        check("1024Mi", "1Gi");
        check("1.5Gi", "1536Mi");
        check("512Ki", "512Ki");
        check("1Ki", "1Ki");
        check("0.5Ki", "512");
        check("1025Ki", "1025Ki");
        check("1e3", "1e3");
        check("1E6", "1e6");
        check("12e2", "1200");
        check("1e-3", "1e-3");
        check("100n", "100n");
        check("0.1n", "1n");
        check("8E", "8E");
        check("7Ei", "7Ei");
        check("8Ei", "9223372036854775807");
        for wrong in
            ["", "-", ".", "1.2.3", "1ki", "1K", "1e", "1mi", "abc", "1 ", " 1", "1Gib", "--1", "1e1.5"]
        {
            check(wrong, "");
        }
    }

    #[test]
    fn order() {
        let check = |one: &str, other: &str, expected: Ordering| {
            assert_eq!(
                Quantity::parse(one).unwrap().cmp(&Quantity::parse(other).unwrap()),
                expected,
                "{one} {other}"
            );
        };
        check("1", "1000m", Equal);
        check("1Gi", "1G", Greater);
        check("-1", "0", Less);
        check("999m", "1", Less);
        check("1e3", "1k", Equal);
        check("99999999999999999999999999999999999999999", "1Ei", Greater);
        check("1e-99", "0", Greater);
    }

    #[test]
    fn thousandths() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Quantity::parse(text).unwrap().in_thousandths().to_string(), expected, "{text}");
        };
        check("100n", "1m");
        check("1500u", "2m");
        check("1", "1");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_the_canonical_one_is_stable(text in "[-+]?[0-9]{0,25}\\.?[0-9]{0,40}([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{0,5})?") {
            if let Some(quantity) = Quantity::parse(&text) {
                let shown = quantity.to_string();
                let again = Quantity::parse(&shown).unwrap();
                prop_assert_eq!(again.to_string(), shown);
            }
        }

        #[test]
        fn whole_numbers_survive(number: i32) {
            prop_assert_eq!(Quantity::parse(&number.to_string()), Some(Quantity::whole(number.into())));
        }
    }
}
