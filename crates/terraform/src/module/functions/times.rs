//! Functions of points in time. None of them asks what time it is: a module that did would never be settled.

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, Zoned, fmt::strtime};

use super::{Arguments, Made, Row, wrong};
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::value::Number;

pub(super) const TABLE: &[Row] = &[
    ("timeadd", 2, 2, |arguments| {
        let Some(duration) = duration(&arguments.text(1)?) else {
            return wrong("the duration is not one such as 1h30m");
        };
        let start = instant(&arguments, 0)?;
        let written = start.checked_add(duration).ok().and_then(|sum| {
            let zone = if sum.offset() == Offset::UTC { "Z" } else { "%:z" };
            strtime::format(format!("%Y-%m-%dT%H:%M:%S{zone}"), &sum).ok()
        });
        written.map_or_else(|| wrong("there is no such time"), |text| Ok(Term::String(text)))
    }),
    ("timecmp", 2, 2, |arguments| {
        let order = instant(&arguments, 0)?.timestamp().cmp(&instant(&arguments, 1)?.timestamp());
        Ok(Term::Number(Number::from(order as i64)))
    }),
    ("formatdate", 2, 2, formatdate),
];

/// `1h30m`, `-1.5h` or `0`.
fn duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total: i128 = 0;
    loop {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, unit) = rest.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let (_, size) = UNITS.iter().find(|(name, _)| {
            let rest = unit.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(|next: char| next.is_ascii_digit() || next == '.')
            })
        })?;
        rest = unit.trim_start_matches(|letter: char| !letter.is_ascii_digit() && letter != '.');
        if whole.is_empty() && fraction.is_empty() || whole.len() > 18 || fraction.len() > 18 {
            return None;
        }
        let part = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
        let of_fraction = part(fraction)? * size / 10_i128.pow(fraction.len() as u32);
        total = total.checked_add(part(whole)? * size + of_fraction)?;
        if rest.is_empty() {
            break;
        }
    }
    let total = i64::try_from(if negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(total))
}

/// A time in the zone it is written in, in the letters that Terraform takes.
fn instant(arguments: &Arguments, at: usize) -> Result<Zoned, Problem> {
    let text = arguments.text(at)?;
    let strict = text.as_bytes().get(10) == Some(&b'T') && !text.ends_with('z');
    let parsed = text.parse::<Timestamp>().ok().filter(|_| strict).map(|time| {
        let offset = strtime::parse("%Y-%m-%dT%H:%M:%S%.f%:z", &text).ok().and_then(|parts| parts.offset());
        time.to_zoned(offset.unwrap_or(Offset::UTC).to_time_zone())
    });
    parsed.ok_or_else(|| Problem::new("this is not a time such as 2006-01-02T15:04:05Z"))
}

/// What runs of the same letter stand for, in the words of the time library.
const WORDS: [(&str, &str); 23] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MMMM", "%B"),
    ("MMM", "%b"),
    ("MM", "%m"),
    ("M", "%-m"),
    ("DD", "%d"),
    ("D", "%-d"),
    ("EEEE", "%A"),
    ("EEE", "%a"),
    ("hh", "%H"),
    ("h", "%-H"),
    ("HH", "%I"),
    ("H", "%-I"),
    ("AA", "%p"),
    ("aa", "%P"),
    ("mm", "%M"),
    ("m", "%-M"),
    ("ss", "%S"),
    ("s", "%-S"),
    ("ZZZZZ", "%:z"),
    ("ZZZZ", "%z"),
    ("ZZZ", "%z"),
];

fn formatdate(arguments: Arguments) -> Made {
    let (pattern, time) = (arguments.text(0)?, instant(&arguments, 1)?);
    let mut letters = pattern.chars().peekable();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        if letter == '\'' {
            // Two of them are one.
            loop {
                match letters.next() {
                    Some('\'') if letters.next_if_eq(&'\'').is_some() => out.push('\''),
                    Some('\'') => break,
                    Some(other) => out.push(other),
                    None => return wrong("the pattern ends within quotes"),
                }
            }
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            out.push(letter);
            continue;
        }
        let mut run = String::from(letter);
        while let Some(same) = letters.next_if_eq(&letter) {
            run.push(same);
        }
        let utc = time.offset() == Offset::UTC;
        let word = match run.as_str() {
            "Z" | "ZZZ" if utc => {
                out.push_str(if run == "Z" { "Z" } else { "UTC" });
                continue;
            }
            "Z" => "%:z",
            run => match WORDS.iter().find(|(known, _)| *known == run) {
                Some((_, word)) => word,
                None => return wrong(format!("the pattern has {run:?}, which stands for nothing")),
            },
        };
        match strtime::format(word, &time) {
            Ok(text) => out.push_str(&text),
            Err(_) => return wrong("the time cannot be written so"),
        }
    }
    Ok(Term::String(out))
}
