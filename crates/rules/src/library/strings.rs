//! Text, counted in code points.

use super::{Cost, Overload, Size, T, function, member, printf, take};
use crate::budget::{Meter, traversal};
use crate::error::EvalError;
use crate::value::{Text, Val};

type Outcome<'a> = Result<Val<'a>, EvalError>;

const TEXTS: T = T::List(&T::Str);
const NUMBER: Size = Size::AtMost(1);

pub(super) const OVERLOADS: &[Overload] = &[
    member(
        "contains",
        &[T::Str, T::Str],
        T::Bool,
        |v, _| take!(v, [Val::Str(text), Val::Str(part)] => Ok(text.contains(&**part).into())),
    )
    .cost(Cost::Product),
    member(
        "startsWith",
        &[T::Str, T::Str],
        T::Bool,
        |v, _| take!(v, [Val::Str(text), Val::Str(part)] => Ok(text.starts_with(&**part).into())),
    )
    .cost(Cost::Scan(1)),
    member(
        "endsWith",
        &[T::Str, T::Str],
        T::Bool,
        |v, _| take!(v, [Val::Str(text), Val::Str(part)] => Ok(text.ends_with(&**part).into())),
    )
    .cost(Cost::Scan(1)),
    member("charAt", &[T::Str, T::Int], T::Str, char_at).cost(Cost::Scan(0)).size(Size::AtMost(4)),
    member("indexOf", &[T::Str, T::Str], T::Int, index_of).cost(Cost::Product).size(NUMBER),
    member("indexOf", &[T::Str, T::Str, T::Int], T::Int, index_of).cost(Cost::Product).size(NUMBER),
    member("lastIndexOf", &[T::Str, T::Str], T::Int, last_index_of).cost(Cost::Product).size(NUMBER),
    member("lastIndexOf", &[T::Str, T::Str, T::Int], T::Int, last_index_of).cost(Cost::Product).size(NUMBER),
    member(
        "lowerAscii",
        &[T::Str],
        T::Str,
        |v, _| take!(v, [Val::Str(text)] => Ok(text.to_ascii_lowercase().into())),
    )
    .cost(Cost::Scan(0)),
    member(
        "upperAscii",
        &[T::Str],
        T::Str,
        |v, _| take!(v, [Val::Str(text)] => Ok(text.to_ascii_uppercase().into())),
    )
    .cost(Cost::Scan(0)),
    member("trim", &[T::Str], T::Str, |v, _| take!(v, [Val::Str(text)] => Ok(part_of(text, text.trim()))))
        .cost(Cost::Scan(0)),
    member("replace", &[T::Str, T::Str, T::Str], T::Str, replace).cost(Cost::Scan(0)).size(Size::Product),
    member("replace", &[T::Str, T::Str, T::Str, T::Int], T::Str, replace)
        .cost(Cost::Scan(0))
        .size(Size::Product),
    member("split", &[T::Str, T::Str], TEXTS, split).cost(Cost::Scan(0)),
    member("split", &[T::Str, T::Str, T::Int], TEXTS, split).cost(Cost::Scan(0)),
    member("substring", &[T::Str, T::Int], T::Str, substring).cost(Cost::Scan(0)),
    member("substring", &[T::Str, T::Int, T::Int], T::Str, substring).cost(Cost::Scan(0)),
    member("join", &[TEXTS], T::Str, join).cost(Cost::Elements(0)).size(Size::Product),
    member("join", &[TEXTS, T::Str], T::Str, join).cost(Cost::Elements(0)).size(Size::Product),
    member(
        "format",
        &[T::Str, T::List(&T::Dyn)],
        T::Str,
        |v, meter| take!(v, [Val::Str(text), Val::List(args)] => printf::format(text, args, meter)),
    )
    .cost(Cost::Elements(1))
    .size(Size::Product),
    function(
        "jsonpatch.escapeKey",
        &[T::Str],
        T::Str,
        |v, _| take!(v, [Val::Str(text)] => Ok(text.replace('~', "~0").replace('/', "~1").into())),
    )
    .cost(Cost::Scan(0)),
    function("strings.quote", &[T::Str], T::Str, |v, _| take!(v, [Val::Str(text)] => Ok(quote(text).into())))
        .cost(Cost::Scan(0)),
];

/// A piece of a text, borrowed from the object if the text was.
fn part_of<'a>(text: &Text<'a>, piece: &str) -> Val<'a> {
    if let Text::Borrowed(whole) = text {
        let start = (piece.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        if let Some(borrowed) = start.checked_add(piece.len()).and_then(|end| whole.get(start..end)) {
            return Val::Str(Text::Borrowed(borrowed));
        }
    }
    piece.to_owned().into()
}

/// The byte where a code point begins; the end of the text counts as one.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::function(format!("index out of range: {index}"))
}

fn char_at<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    take!(v, [Val::Str(text), Val::Int(index)] => {
        let at = byte_of(text, *index).ok_or_else(|| out_of_range(*index))?;
        let rest = text.get(at..).unwrap_or_default();
        Ok(rest.chars().next().map(String::from).unwrap_or_default().into())
    })
}

fn code_points(text: &str) -> Val<'static> {
    Val::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX))
}

fn index_of<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let (text, part, offset) = match v {
        [Val::Str(text), Val::Str(part)] => (text, part, 0),
        [Val::Str(text), Val::Str(part), Val::Int(offset)] => (text, part, *offset),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let start = byte_of(text, offset).ok_or_else(|| out_of_range(offset))?;
    let found = text.get(start..).and_then(|rest| rest.find(&**part));
    Ok(found.map_or(Val::Int(-1), |at| code_points(text.get(..start + at).unwrap_or_default())))
}

fn last_index_of<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let (text, part, offset) = match v {
        [Val::Str(text), Val::Str(part)] => (text, part, None),
        [Val::Str(text), Val::Str(part), Val::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let end = match offset {
        None => text.len(),
        Some(offset) => {
            let start = byte_of(text, offset).ok_or_else(|| out_of_range(offset))?;
            // The last match may begin at the offset and reach beyond it.
            let mut end = (start + part.len()).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            end
        }
    };
    let found = text.get(..end).and_then(|rest| rest.rfind(&**part));
    Ok(found.map_or(Val::Int(-1), |at| code_points(text.get(..at).unwrap_or_default())))
}

/// How often, if there is a limit: negative means always.
fn limit(v: &Val<'_>) -> Option<usize> {
    match v {
        Val::Int(count) => Some(usize::try_from(*count).unwrap_or(usize::MAX)),
        _ => None,
    }
}

fn replace<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    let (text, old, new, count) = match v {
        [Val::Str(text), Val::Str(old), Val::Str(new)] => (text, old, new, usize::MAX),
        [Val::Str(text), Val::Str(old), Val::Str(new), count] => {
            (text, old, new, limit(count).ok_or(EvalError::NoSuchOverload)?)
        }
        _ => return Err(EvalError::NoSuchOverload),
    };
    // Paid for before it is built: a text of a megabyte can become one of many gigabytes.
    let matches = text.matches(&**old).count().min(count) as u64;
    meter.charge(traversal(matches.saturating_mul(new.len() as u64)))?;
    Ok(text.replacen(&**old, new, count).into())
}

fn split<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    let (text, separator, count) = match v {
        [Val::Str(text), Val::Str(separator)] => (text, separator, usize::MAX),
        [Val::Str(text), Val::Str(separator), count] => {
            (text, separator, limit(count).ok_or(EvalError::NoSuchOverload)?)
        }
        _ => return Err(EvalError::NoSuchOverload),
    };
    meter.charge(traversal(text.len() as u64))?;
    let pieces: Vec<Val<'a>> = if separator.is_empty() {
        split_characters(text, count)
    } else {
        text.splitn(count, &**separator).map(|piece| part_of(text, piece)).collect()
    };
    Ok(pieces.into())
}

/// An empty separator splits between all code points; the last piece takes what is left.
fn split_characters<'a>(text: &Text<'a>, count: usize) -> Vec<Val<'a>> {
    let mut pieces = Vec::new();
    let mut rest: &str = text;
    while let Some(c) = rest.chars().next() {
        if pieces.len() + 1 >= count {
            if count > 0 {
                pieces.push(part_of(text, rest));
            }
            return pieces;
        }
        let (piece, after) = rest.split_at(c.len_utf8());
        pieces.push(part_of(text, piece));
        rest = after;
    }
    pieces
}

fn substring<'a>(v: &[Val<'a>], _: &mut Meter) -> Outcome<'a> {
    let (text, start, end) = match v {
        [Val::Str(text), Val::Int(start)] => (text, *start, None),
        [Val::Str(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::NoSuchOverload),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::function(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_of(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        None => text.len(),
        Some(end) => byte_of(text, end).ok_or_else(|| out_of_range(end))?,
    };
    Ok(part_of(text, text.get(from..to).unwrap_or_default()))
}

fn join<'a>(v: &[Val<'a>], meter: &mut Meter) -> Outcome<'a> {
    let (list, separator) = match v {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Str(separator)] => (list, &**separator),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let Val::Str(text) = item else { return Err(EvalError::NoSuchOverload) };
        meter.charge(traversal((text.len() + separator.len()) as u64))?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&text);
    }
    Ok(out.into())
}

/// A literal of the text.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
