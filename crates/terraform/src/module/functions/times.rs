//! Functions of points in time. None of them asks what time it is: a module that did would never be settled.

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, Zoned, fmt::strtime};

use super::{Arguments, Made, Row, wrong};
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::value::Number;

pub(super) const TABLE: &[Row] = &[
    ("timeadd", 2, 2, |arguments| {
        let Ok(duration) = arguments.text(1)?.parse::<SignedDuration>() else {
            return wrong("the duration is not one such as 1h30m");
        };
        match instant(&arguments, 0)?.timestamp().checked_add(duration) {
            Ok(sum) => Ok(Term::text(sum.to_string())),
            Err(_) => wrong("there is no such time"),
        }
    }),
    ("timecmp", 2, 2, |arguments| {
        let order = instant(&arguments, 0)?.timestamp().cmp(&instant(&arguments, 1)?.timestamp());
        Ok(Term::Number(Number::from(order as i64)))
    }),
    ("formatdate", 2, 2, formatdate),
];

/// A time in the zone it is written in.
fn instant(arguments: &Arguments, at: usize) -> Result<Zoned, Problem> {
    let text = arguments.text(at)?;
    let parsed = text.parse::<Timestamp>().ok().map(|time| {
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
