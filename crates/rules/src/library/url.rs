//! `url('https://example.com:80/path?query')`: absolute URLs, or absolute paths, as Go parses request URIs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cost, Opaque, OpaqueKind, Overload, Size, T, function, member, take};
use crate::error::EvalError;
use crate::value::{Key, Map, Val};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    /// As in a request: still escaped.
    path: String,
    query: String,
}

const URL: T = T::Opaque(OpaqueKind::Url);

pub(super) const OVERLOADS: &[Overload] = &[
    function("url", &[T::Str], URL, |v, _| take!(v, [Val::Str(text)] => {
        let url = parse(text).map_err(|why| {
            EvalError::function(format!("URL parse error during conversion from string: parse {text:?}: {why}", text = &**text))
        })?;
        Ok(Val::Opaque(Arc::new(Opaque::Url(url))))
    }))
    .cost(Cost::Scan(0)),
    function("isURL", &[T::Str], T::Bool, |v, _| take!(v, [Val::Str(text)] => Ok(parse(text).is_ok().into())))
        .cost(Cost::Scan(0)),
    member("getScheme", &[URL], T::Str, |v, _| Ok(read(v)?.scheme.clone().into())).size(Size::AtMost(4096)),
    member("getHost", &[URL], T::Str, |v, _| Ok(read(v)?.host.clone().into())).size(Size::AtMost(4096)),
    member("getHostname", &[URL], T::Str, |v, _| Ok(read(v)?.host_and_port().0.to_owned().into()))
        .size(Size::AtMost(4096)),
    member("getPort", &[URL], T::Str, |v, _| Ok(read(v)?.host_and_port().1.to_owned().into())).size(Size::AtMost(5)),
    member("getEscapedPath", &[URL], T::Str, |v, _| Ok(escape_path(&read(v)?.path).into())).size(Size::AtMost(65536)),
    member("getQuery", &[URL], T::Map(&T::Str, &T::List(&T::Str)), |v, _| Ok(query(&read(v)?.query)))
        .size(Size::AtMost(65536)),
];

fn read<'v>(v: &'v [Val<'_>]) -> Result<&'v Url, EvalError> {
    match v {
        [Val::Opaque(opaque)] => match &**opaque {
            Opaque::Url(url) => Ok(url),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn parse(text: &str) -> Result<Url, &'static str> {
    if text.is_empty() {
        return Err("empty url");
    }
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("invalid control character in URL");
    }
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    if before.starts_with('/') {
        return finish(String::new(), String::new(), before, query);
    }
    let (scheme, rest) = before.split_once(':').ok_or("invalid URI for request")?;
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !scheme_fits {
        return Err(if scheme.is_empty() {
            "missing protocol scheme"
        } else {
            "first path segment in URL cannot contain colon"
        });
    }
    let scheme = scheme.to_ascii_lowercase();
    let Some(authority) = rest.strip_prefix("//") else {
        return if rest.starts_with('/') {
            finish(scheme, String::new(), rest, query)
        } else {
            Err("invalid URI for request")
        };
    };
    let end = authority.find('/').unwrap_or(authority.len());
    let (authority, path) = authority.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if !host_fits(host) {
        return Err("invalid character in host name");
    }
    finish(scheme, host.to_owned(), path, query)
}

fn finish(scheme: String, host: String, path: &str, query: &str) -> Result<Url, &'static str> {
    if !escapes_fit(path) {
        return Err("invalid URL escape");
    }
    Ok(Url { scheme, host, path: path.to_owned(), query: query.to_owned() })
}

fn host_fits(host: &str) -> bool {
    let (name, port) = split_port(host);
    let name_fits = match name.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').is_some_and(|v6| v6.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !name.bytes().any(|b| b" \"<>\\^`{}|[]:#".contains(&b)),
    };
    name_fits && port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit())) && escapes_fit(name)
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    let after_bracket = host.rfind(']').map_or(0, |at| at + 1);
    match host.get(after_bracket..).and_then(|rest| rest.rfind(':')) {
        Some(at) => {
            let (name, port) = host.split_at(after_bracket + at);
            (name, port.strip_prefix(':'))
        }
        None => (host, None),
    }
}

fn escapes_fit(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)))
}

impl Url {
    fn host_and_port(&self) -> (&str, &str) {
        let (name, port) = split_port(&self.host);
        (name.trim_start_matches('[').trim_end_matches(']'), port.unwrap_or_default())
    }
}

/// What a path may hold unescaped; a path that is escaped already stays as it is.
fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/%[]".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn query<'a>(query: &str) -> Val<'a> {
    let mut entries: BTreeMap<Key, Vec<Val<'a>>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
        entries.entry(Key::Str(key.into())).or_default().push(value.into());
    }
    Val::Map(Map::Owned(Arc::new(entries.into_iter().map(|(key, values)| (key, values.into())).collect())))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}
