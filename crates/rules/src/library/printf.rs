//! `'%s is %d'.format([...])`

use std::fmt::Write as _;

use crate::budget::{Meter, traversal};
use crate::compare::MAX_DEPTH;
use crate::error::EvalError;
use crate::value::{List, Val};

use super::time;

/// Digits after the point; more than a double has.
const MAX_PRECISION: usize = 1000;

pub(super) fn format<'a>(template: &str, args: &List<'a>, meter: &mut Meter) -> Result<Val<'a>, EvalError> {
    let mut out = String::new();
    let mut chars = template.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = 0usize;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                digits = digits.saturating_mul(10).saturating_add(digit as usize);
                chars.next();
            }
            if digits > MAX_PRECISION {
                return Err(EvalError::function(format!("precision must be at most {MAX_PRECISION}")));
            }
            precision = Some(digits);
        }
        let verb = chars.next().ok_or_else(|| EvalError::function("unexpected end of format string"))?;
        let value =
            args.get(next).ok_or_else(|| EvalError::function(format!("index {next} out of range")))?;
        next += 1;
        let before = out.len();
        write_verb(&mut out, verb, precision, &value)?;
        meter.charge(traversal((out.len() - before) as u64))?;
    }
    Ok(out.into())
}

fn write_verb(
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Val<'_>,
) -> Result<(), EvalError> {
    let wrong = |clause: &str| {
        let message =
            format!("error during formatting: {clause} clause does not support {}", value.type_name());
        Err(EvalError::function(message))
    };
    let digits = precision.unwrap_or(6);
    let _ = match (verb, value) {
        ('s', value) => return write_text(out, value, MAX_DEPTH),
        ('d', Val::Int(i)) => write!(out, "{i}"),
        ('d', Val::Uint(u)) => write!(out, "{u}"),
        ('d', Val::Double(d)) if !d.is_finite() => write!(out, "{}", double(*d)),
        ('d', _) => return wrong("decimal"),
        ('f', value) => match as_double(value) {
            Some(d) if !d.is_finite() => write!(out, "{}", double(d)),
            Some(d) => write!(out, "{d:.digits$}"),
            None => return wrong("fixed-point"),
        },
        ('e', value) => match as_double(value) {
            Some(d) if !d.is_finite() => write!(out, "{}", double(d)),
            Some(d) => write!(out, "{}", scientific(d, digits)),
            None => return wrong("scientific notation"),
        },
        ('b', Val::Bool(b)) => write!(out, "{}", u8::from(*b)),
        ('b' | 'o' | 'x' | 'X', Val::Int(i)) => {
            let _ = write!(out, "{}", if *i < 0 { "-" } else { "" });
            radix(out, verb, i.unsigned_abs())
        }
        ('b' | 'o' | 'x' | 'X', Val::Uint(u)) => radix(out, verb, *u),
        ('x' | 'X', Val::Str(text)) => hex(out, verb, text.as_bytes()),
        ('x' | 'X', Val::Bytes(bytes)) => hex(out, verb, bytes),
        ('b', _) => return wrong("only integers and bools can be formatted as binary;"),
        ('o', _) => return wrong("octal"),
        ('x' | 'X', _) => return wrong("hex"),
        (other, _) => return Err(EvalError::function(format!("unrecognized formatting clause \"{other}\""))),
    };
    Ok(())
}

fn as_double(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(d) => Some(*d),
        Val::Int(i) => Some(*i as f64),
        Val::Uint(u) => Some(*u as f64),
        _ => None,
    }
}

fn double(d: f64) -> String {
    if d.is_nan() {
        "NaN".to_owned()
    } else if d.is_infinite() {
        if d > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        d.to_string()
    }
}

/// Rust writes `1.5e0` where C, and so CEL, writes `1.5e+00`.
fn scientific(d: f64, digits: usize) -> String {
    let text = format!("{d:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn radix(out: &mut String, verb: char, value: u64) -> std::fmt::Result {
    match verb {
        'b' => write!(out, "{value:b}"),
        'o' => write!(out, "{value:o}"),
        'x' => write!(out, "{value:x}"),
        _ => write!(out, "{value:X}"),
    }
}

fn hex(out: &mut String, verb: char, bytes: &[u8]) -> std::fmt::Result {
    bytes.iter().try_for_each(|b| if verb == 'x' { write!(out, "{b:02x}") } else { write!(out, "{b:02X}") })
}

fn write_text(out: &mut String, value: &Val<'_>, depth: u16) -> Result<(), EvalError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(EvalError::function("value is nested too deeply to format"));
    };
    match value {
        Val::Null => out.push_str("null"),
        Val::Str(text) => out.push_str(text),
        Val::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Val::Double(d) => out.push_str(&double(*d)),
        Val::Duration(nanos) => out.push_str(&time::show_duration(*nanos)),
        Val::Timestamp(timestamp) => out.push_str(&time::show_timestamp(*timestamp)),
        Val::Type(name) => out.push_str(name),
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) => {
            let _ = write!(out, "{value}");
        }
        Val::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(out, &item, depth)?;
            }
            out.push(']');
        }
        Val::Map(map) => {
            out.push('{');
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.to_string(), v)).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (index, (key, value)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                let _ = write!(out, "{key}: ");
                write_text(out, value, depth)?;
            }
            out.push('}');
        }
        Val::Optional(_) | Val::Opaque(_) | Val::Host(_) => {
            let message =
                format!("error during formatting: string clause does not support {}", value.type_name());
            return Err(EvalError::function(message));
        }
    }
    Ok(())
}
