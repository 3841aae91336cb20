//! Tokens of CEL.

use std::sync::Arc;

use super::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    End,
    Ident(String),
    /// `` `quoted-name` ``, allowed after a dot only
    QuotedIdent(String),
    Int(u64),
    Uint(u64),
    Double(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Operators and delimiters, and the words that are operators: `in`.
    Symbol(&'static str),
}

/// Longest first: the first that matches is taken.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

pub(super) fn tokenize(source: &str) -> Result<Vec<(usize, Token)>, Issue> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        rest = skip_blank(rest);
        let at = source.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push((at, Token::End));
            return Ok(tokens);
        };
        let digit_after_dot = first == '.' && rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        let (token, after) = if first.is_ascii_digit() || digit_after_dot {
            number(rest).map_err(|message| Issue::new(at, message))?
        } else if let Some(literal) = quoted(rest) {
            literal.map_err(|message| Issue::new(at, message))?
        } else if first.is_ascii_alphabetic() || first == '_' {
            word(rest)
        } else if first == '`' {
            escaped_ident(rest)
                .ok_or_else(|| Issue::new(at, "Syntax error: token recognition error at: '`'"))?
        } else {
            symbol(rest).ok_or_else(|| {
                Issue::new(at, format!("Syntax error: token recognition error at: '{first}'"))
            })?
        };
        tokens.push((at, token));
        rest = after;
    }
}

fn skip_blank(mut rest: &str) -> &str {
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        if !rest.starts_with("//") {
            return rest;
        }
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
}

fn symbol(rest: &str) -> Option<(Token, &str)> {
    SYMBOLS.iter().find_map(|s| rest.strip_prefix(s).map(|after| (Token::Symbol(s), after)))
}

fn word(rest: &str) -> (Token, &str) {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let token = if name == "in" { Token::Symbol("in") } else { Token::Ident(name.to_owned()) };
    (token, after)
}

fn escaped_ident(rest: &str) -> Option<(Token, &str)> {
    let (name, after) = rest.strip_prefix('`')?.split_once('`')?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
    (!name.is_empty() && name.chars().all(allowed)).then(|| (Token::QuotedIdent(name.to_owned()), after))
}

fn number(rest: &str) -> Result<(Token, &str), String> {
    let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (text, after) = hex.split_at(end);
        let value = u64::from_str_radix(text, 16).map_err(|_| "invalid int literal".to_owned())?;
        return Ok(integer(value, after));
    }
    let mut end = digits(rest);
    let mut double = false;
    let tail = rest.get(end..).unwrap_or_default();
    if let Some(fraction) = tail.strip_prefix('.') {
        let length = digits(fraction);
        if length > 0 {
            double = true;
            end += 1 + length;
        }
    }
    let tail = rest.get(end..).unwrap_or_default();
    if let Some(exponent) = tail.strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let length = digits(exponent.get(sign..).unwrap_or_default());
        if length > 0 {
            double = true;
            end += 1 + sign + length;
        }
    }
    let (text, after) = rest.split_at(end);
    if double {
        let value: f64 = text.parse().map_err(|_| "invalid double literal".to_owned())?;
        if !value.is_finite() {
            return Err("invalid double literal".to_owned());
        }
        return Ok((Token::Double(value), after));
    }
    let value: u64 = text.parse().map_err(|_| "invalid int literal".to_owned())?;
    Ok(integer(value, after))
}

fn integer(value: u64, after: &str) -> (Token, &str) {
    match after.strip_prefix(['u', 'U']) {
        Some(after) => (Token::Uint(value), after),
        None => (Token::Int(value), after),
    }
}

/// A string or bytes literal, with any of its prefixes; `None` if there is none here.
fn quoted(rest: &str) -> Option<Result<(Token, &str), String>> {
    let prefix_length = rest.bytes().take(3).position(|b| b == b'"' || b == b'\'')?;
    let prefix = rest.get(..prefix_length)?.to_ascii_lowercase();
    let (raw, bytes) = match prefix.as_str() {
        "" => (false, false),
        "r" => (true, false),
        "b" => (false, true),
        "rb" | "br" => (true, true),
        _ => return None,
    };
    let body = rest.get(prefix_length..)?;
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|q| body.starts_with(q))?;
    Some(literal(body.get(quote.len()..)?, quote, raw, bytes))
}

fn literal<'a>(body: &'a str, quote: &str, raw: bool, bytes: bool) -> Result<(Token, &'a str), String> {
    let mut out: Vec<u8> = Vec::new();
    let mut rest = body;
    loop {
        if let Some(after) = rest.strip_prefix(quote) {
            let token = if bytes {
                Token::Bytes(out.into())
            } else {
                Token::Str(String::from_utf8(out).map_err(|_| "invalid unicode code point")?.into())
            };
            return Ok((token, after));
        }
        let Some(c) = rest.chars().next() else {
            return Err("Syntax error: unterminated string literal".to_owned());
        };
        if c == '\n' && quote.len() == 1 {
            return Err("Syntax error: unterminated string literal".to_owned());
        }
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = if c == '\\' && !raw { escape(after, bytes, &mut out)? } else { push(c, after, &mut out) };
    }
}

fn push<'a>(c: char, after: &'a str, out: &mut Vec<u8>) -> &'a str {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    after
}

fn escape<'a>(rest: &'a str, bytes: bool, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let bad = || "unable to unescape string".to_owned();
    let c = rest.chars().next().ok_or_else(bad)?;
    let after = rest.get(c.len_utf8()..).unwrap_or_default();
    let simple = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' | '\'' | '"' | '`' | '?' => c as u8,
        'x' | 'X' => return code_point(after, 2, 16, bytes, out),
        'u' if !bytes => return code_point(after, 4, 16, bytes, out),
        'U' if !bytes => return code_point(after, 8, 16, bytes, out),
        '0'..='3' => return code_point(rest, 3, 8, bytes, out),
        _ => return Err(bad()),
    };
    out.push(simple);
    Ok(after)
}

fn code_point<'a>(
    rest: &'a str,
    length: usize,
    radix: u32,
    bytes: bool,
    out: &mut Vec<u8>,
) -> Result<&'a str, String> {
    let digits = rest.get(..length).filter(|d| d.bytes().all(|b| b.is_ascii_alphanumeric()));
    let code = digits.and_then(|d| u32::from_str_radix(d, radix).ok()).ok_or("unable to unescape string")?;
    if bytes {
        out.push(u8::try_from(code).map_err(|_| "unable to unescape string")?);
    } else {
        push(char::from_u32(code).ok_or("invalid unicode code point")?, "", out);
    }
    Ok(rest.get(length..).unwrap_or_default())
}
