//! Texts made by a pattern, as C's `printf` does.

use std::iter::Peekable;
use std::str::Chars;

use num_bigint::BigInt;
use unicode_segmentation::UnicodeSegmentation as _;

use super::{json, wrong};
use crate::module::arithmetic;
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::module::types;
use crate::value::Number;

/// Wider columns than this are nobody's intention.
const WIDEST: usize = 1_000;

pub(super) fn format(arguments: &[Term]) -> Result<String, Problem> {
    let Some((pattern, given)) = arguments.split_first() else { return Ok(String::new()) };
    let pattern = types::string(pattern)?;
    let mut letters = pattern.chars().peekable();
    let mut out = String::new();
    let mut next = 0;
    let mut furthest = 0;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let spec = Spec::read(&mut letters)?;
        let at = spec.argument.unwrap_or(next);
        let Some(term) = given.get(at) else {
            return wrong("there are fewer arguments than the pattern asks for");
        };
        next = at + 1;
        furthest = furthest.max(next);
        out.push_str(&spec.written(term)?);
    }
    if furthest < given.len() { wrong("there are more arguments than the pattern asks for") } else { Ok(out) }
}

/// What stands between the percent sign and the verb, and the verb.
#[derive(Default)]
struct Spec {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    argument: Option<usize>,
    verb: char,
}

impl Spec {
    fn read(letters: &mut Peekable<Chars<'_>>) -> Result<Spec, Problem> {
        let mut spec = Spec::default();
        while let Some(flag) = letters.next_if(|letter| "-+0 #".contains(*letter)) {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zeros = true,
                '+' => spec.plus = true,
                '#' => spec.alternate = true,
                _ => spec.space = true,
            }
        }
        let digits = |letters: &mut Peekable<Chars<'_>>| {
            let mut text = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                text.push(digit);
            }
            text.parse::<usize>().ok()
        };
        spec.width = digits(letters).unwrap_or(0);
        if letters.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(letters).unwrap_or(0));
        }
        if spec.width > WIDEST || spec.precision.is_some_and(|precision| precision > WIDEST) {
            return wrong("the pattern asks for too wide a column");
        }
        if letters.next_if_eq(&'[').is_some() {
            spec.argument = match digits(letters).and_then(|number| number.checked_sub(1)) {
                Some(at) if letters.next_if_eq(&']').is_some() => Some(at),
                _ => return wrong("the pattern does not say which argument it means"),
            };
        }
        match letters.next() {
            Some(verb) => Ok(Spec { verb, ..spec }),
            None => wrong("the pattern ends in the middle"),
        }
    }

    fn written(&self, term: &Term) -> Result<String, Problem> {
        match self.verb {
            'v' if self.alternate => Ok(self.padded(json::written(term))),
            'v' => Ok(self.cut(types::string(term).unwrap_or_else(|_| json::written(term)))),
            's' => Ok(self.cut(types::string(term)?)),
            'q' => {
                let mut out = String::new();
                json::quoted(&types::string(term)?, &mut out);
                Ok(self.padded(out))
            }
            // Terraform does not pad these.
            't' => Ok(types::boolean(term)?.to_string()),
            'd' | 'b' | 'o' | 'x' | 'X' => self.whole(&types::number(term)?),
            'e' | 'E' | 'f' | 'g' | 'G' => self.float(&types::number(term)?),
            verb => wrong(format!("the pattern has a verb that is not known here, %{verb}")),
        }
    }

    fn whole(&self, number: &Number) -> Result<String, Problem> {
        let number = arithmetic::truncated(number).filter(|_| number.is_whole());
        let Some(number) = number else { return wrong("a whole number is required") };
        let (radix, mark) = match self.verb {
            'b' => (2, "0b"),
            'o' => (8, "0"),
            'x' => (16, "0x"),
            'X' => (16, "0X"),
            _ => (10, ""),
        };
        let digits = number.magnitude().to_str_radix(radix);
        let digits = if self.verb == 'X' { digits.to_uppercase() } else { digits };
        let mark = if self.alternate { mark } else { "" };
        Ok(self.signed(number < BigInt::ZERO, mark, digits))
    }

    fn float(&self, number: &Number) -> Result<String, Problem> {
        let digits = match (self.verb, self.precision) {
            ('f', precision) => fixed(number, precision.unwrap_or(6)),
            ('e' | 'E', precision) => {
                let digits = arithmetic::significant(number, precision.unwrap_or(6) + 1);
                digits.map(|(digits, exponent)| scientific(&digits, exponent))
            }
            // As short as it can be, or in so many digits.
            (_, None) => Some(match number.decimal() {
                Some((_, exponent, digits)) => general(&digits, exponent - 1, None),
                None => "0".to_owned(),
            }),
            (_, Some(precision)) => {
                let precision = precision.max(1);
                let digits = arithmetic::significant(number, precision);
                digits.map(|(digits, exponent)| general(&digits, exponent, Some(precision)))
            }
        };
        let Some(digits) = digits else { return wrong("the number is too large") };
        let digits = if self.verb.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        Ok(self.signed(*number < Number::from(0_i64), "", digits))
    }

    fn signed(&self, negative: bool, mark: &str, digits: String) -> String {
        let sign = match negative {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        };
        let missing = self.width.saturating_sub(sign.len() + mark.len() + digits.len());
        let zeros = if self.zeros && !self.left { "0".repeat(missing) } else { String::new() };
        self.padded([sign, mark, &zeros, &digits].concat())
    }

    fn cut(&self, text: String) -> String {
        self.padded(match self.precision {
            Some(letters) => text.graphemes(true).take(letters).collect(),
            None => text,
        })
    }

    fn padded(&self, text: String) -> String {
        let missing = self.width.saturating_sub(text.graphemes(true).count());
        match (self.left, self.zeros) {
            (true, _) => text + &" ".repeat(missing),
            (false, true) => "0".repeat(missing) + &text,
            (false, false) => " ".repeat(missing) + &text,
        }
    }
}

fn fixed(number: &Number, places: usize) -> Option<String> {
    let digits = arithmetic::scaled(number, places as i64)?.to_string();
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    Some(if places == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// One digit before the point, and at least two in the exponent.
fn scientific(digits: &str, exponent: i64) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
}

/// With an exponent if that is small, or not small for so many digits; else without.
fn general(digits: &str, exponent: i64, precision: Option<usize>) -> String {
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    let count = digits.len() as i64;
    let most = match precision.map(|precision| precision as i64) {
        None => 6,
        Some(precision) if precision > count && count > exponent => count,
        Some(precision) => precision,
    };
    if exponent < -4 || exponent >= most {
        return scientific(digits, exponent);
    }
    let number = Number::parse(&format!("{digits}e{}", exponent + 1 - count));
    number.map_or_else(String::new, |number| number.plain())
}
