//! The formats that schemas of custom resources may name. One that nobody knows says nothing.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/validation/formats.go` and `kube-openapi/pkg/validation/strfmt`.

use std::net::{IpAddr, Ipv6Addr};

use crate::pattern;
use crate::schema::{Node, Type};

type Test = fn(&str) -> bool;

/// By name without dashes: `date-time` and `datetime` are one.
const OF_TEXT: [(&str, Test); 26] = [
    ("bsonobjectid", |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())),
    ("byte", is_base64),
    ("cidr", is_cidr),
    ("creditcard", is_credit_card),
    ("date", is_date),
    ("datetime", is_date_time),
    ("duration", is_duration),
    ("email", is_email),
    ("hexcolor", |text| matches(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text)),
    ("hostname", is_hostname),
    ("ipv4", |text| text.contains('.') && ip(text).is_some()),
    ("ipv6", |text| text.contains(':') && ip(text).is_some()),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("k8slongname", |text| text.len() <= 253 && text.split('.').all(is_short_segment)),
    ("k8sshortname", |text| text.len() <= 63 && is_short_segment(text)),
    ("mac", is_mac),
    ("password", |_| true),
    ("rgbcolor", is_rgb_color),
    ("ssn", |text| matches(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text)),
    ("uri", is_request_uri),
    ("uuid", |text| uuid(text, "[0-9a-f]{4}", "[0-9a-f]{4}")),
    ("uuid3", |text| uuid(text, "3[0-9a-f]{3}", "[0-9a-f]{4}")),
    ("uuid4", |text| uuid(text, "4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    ("uuid5", |text| uuid(text, "5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
];

fn of_text(format: &str) -> Option<Test> {
    let name: String = format.chars().filter(|c| *c != '-').collect();
    OF_TEXT.iter().find(|(known, _)| *known == name).map(|(_, test)| *test)
}

/// Whether a format means anything for a type.
pub(crate) fn is_known(node: &Node, format: &str) -> bool {
    match node.kind {
        _ if node.int_or_string => is_of_text(format),
        Type::Any | Type::String => is_of_text(format),
        Type::Integer => matches!(format, "int32" | "int64"),
        Type::Number => matches!(format, "float" | "double"),
        _ => false,
    }
}

pub(super) fn is_of_text(format: &str) -> bool {
    of_text(format).is_some()
}

pub(super) fn holds(format: &str, text: &str) -> bool {
    of_text(format).is_none_or(|test| test(text))
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern::matches(pattern, text).unwrap_or(false)
}

fn is_base64(text: &str) -> bool {
    let b = "[A-Za-z0-9+/]";
    matches(&format!("^(?:{b}{{4}})*(?:{b}{{2}}==|{b}{{3}}=|{b}{{4}})$"), text)
}

/// An address as Go once read it: octets may have leading zeros.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0_u8; 4];
    let mut given = text.split('.');
    for octet in &mut octets {
        let digits =
            given.next().filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = digits.trim_start_matches('0').parse().or(digits.parse()).ok()?;
    }
    given.next().is_none().then(|| IpAddr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let max = match ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    let plain = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    plain && length.parse::<u32>().is_ok_and(|length| length <= max)
}

fn is_date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u32>().ok()).flatten()
    };
    let bytes = text.as_bytes();
    let dashed = bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-';
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    dashed && (1..=last).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let in_day = |range, max: &str| time.get(range).is_some_and(|part| part <= max);
    is_date(date)
        && matches(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$", time)
        && in_day(0..2, "23")
        && in_day(3..5, "59")
        && in_day(6..8, "59")
}

/// Go's `1h30m`, or Scala's `3 days`.
fn is_duration(text: &str) -> bool {
    let go = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
    // Any of several parts is enough, and a unit may go on: "3 weeks ago".
    let unit = "ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*|d|day[a-zµ]*|w|wk|week[a-zµ]*";
    matches(go, text) || matches(&format!(r"(?i)\d\s*({unit})([^A-Za-zµ]|$)"), text)
}

/// `a@b.c`, or `Name <a@b.c>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(start), Some(_)) => &text[start + 1..text.len() - 1],
        (None, None) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10FFFF}-]+";
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let dotted = format!(r"^{atom}(\.{atom})*$");
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || matches(&dotted, local)) && (matches(&dotted, domain) || literal)
}

fn is_hostname(text: &str) -> bool {
    let alnum = r"a-zA-Z0-9\p{S}\p{L}";
    let pattern = format!(
        r"^([{alnum}]((-?[{alnum}]{{0,62}})?)|([{alnum}](([{alnum}-]{{0,61}}[{alnum}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    );
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&pattern, text)
}

fn is_short_segment(text: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|b| alnum(b) || *b == b'-')
        && bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
}

/// Six, eight or twenty bytes in hexadecimal, by colons, dashes, or in pairs by dots.
fn is_mac(text: &str) -> bool {
    [":", "-"].iter().any(|dash| {
        [6, 8, 20].iter().any(|count| {
            matches(&format!("^[0-9a-fA-F]{{2}}({dash}[0-9a-fA-F]{{2}}){{{}}}$", count - 1), text)
        })
    }) || [3, 4, 10]
        .iter()
        .any(|count| matches(&format!(r"^[0-9a-fA-F]{{4}}(\.[0-9a-fA-F]{{4}}){{{}}}$", count - 1), text))
}

fn is_rgb_color(text: &str) -> bool {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    matches(&format!(r"^rgb\({part},{part},{part}\)$"), text)
}

/// What may stand in the first line of an HTTP request: an absolute URI, or a path from the root.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) || !escapes_are_valid(text) {
        return false;
    }
    if text == "*" || text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    if !matches("^[a-zA-Z][a-zA-Z0-9+.-]*$", scheme) {
        return false;
    }
    let Some(authority) = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?']).next()) else {
        return true;
    };
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let port_at = host.rfind(':').filter(|at| !host[*at..].contains(']'));
    let port = port_at.map_or("", |at| &host[at + 1..]);
    port.bytes().all(|b| b.is_ascii_digit())
        && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        && host.starts_with('[') == host.contains(']')
}

fn escapes_are_valid(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or(text);
    let mut parts = path.split('%');
    parts.next();
    parts.all(|after| after.len() >= 2 && after.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

fn uuid(text: &str, third: &str, fourth: &str) -> bool {
    let hex = "[0-9a-f]";
    matches(&format!("(?i)^{hex}{{8}}-?{hex}{{4}}-?{third}-?{fourth}-?{hex}{{12}}$"), text)
}

fn without_dashes(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_dashes(text);
    if !matches("^(?:[0-9]{9}X|[0-9]{10})$", &digits) {
        return false;
    }
    let value = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    let sum: u32 = digits.bytes().zip(1..).map(|(b, weight)| value(b) * weight).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_dashes(text);
    if !matches("^[0-9]{13}$", &digits) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = digits.bytes().zip(weights).map(|(b, weight)| u32::from(b - b'0') * weight).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let issuers = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$";
    // Luhn: every second digit from the right is doubled, and its digits added.
    let luhn = digits.bytes().rev().enumerate().map(|(i, b)| match u32::from(b - b'0') << (i % 2) {
        doubled if doubled > 9 => doubled - 9,
        digit => digit,
    });
    matches(issuers, &digits) && luhn.sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, good: &[&str], bad: &[&str]) {
        assert!(is_of_text(format), "{format}");
        good.iter().for_each(|text| assert!(holds(format, text), "{text:?} is a {format}"));
        bad.iter().for_each(|text| assert!(!holds(format, text), "{text:?} is no {format}"));
    }

    #[test]
    fn known_formats() {
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", ""]);
        check("byte", &["YQ==", "YWI=", "YWJj"], &["Y", "a===", "YQ", ""]);
        check(
            "cidr",
            &["10.0.0.0/8", "fd00::/64", "010.0.0.1/24"],
            &["10.0.0.0", "10.0.0.0/33", "x/8", "1.2.3.4/+8"],
        );
        check("creditcard", &["4111 1111 1111 1111"], &["4111111111111112", ""]);
        check(
            "date",
            &["2006-01-02", "2024-02-29"],
            &["2006-1-2", "2023-02-29", "2006-13-01", "x", "2006-01-02T"],
        );
        check(
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
            &["2014-12-15", "2014-12-15T24:00:00Z", "é"],
        );
        check("datetime", &["2014-12-15T19:30:20Z"], &["2014-12-15 19:30:20Z"]);
        check("duration", &["1h30m", "22 ns", "3 days", "1.5h", "-2m", "0"], &["", "x", "3", "3 parsecs"]);
        check("email", &["a@b.c", "Bob <bob@example.com>"], &["a", "a@", "@b", "a b@c", "<a@b"]);
        check("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "x"]);
        check("hostname", &["example.com", "a", "1.example.com"], &["-a", "a_b", "a..b", ""]);
        check("ipv4", &["1.2.3.4", "001.02.3.4"], &["1.2.3", "256.1.1.1", "::1", "1.2.3.4.5", ""]);
        check("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::", ""]);
        check("isbn10", &["0321751043", "0-321-75104-3"], &["0321751044"]);
        check("isbn13", &["978-0321751041"], &["978-0321751042"]);
        check("isbn", &["0321751043", "9780321751041"], &["1"]);
        check("k8s-short-name", &["a-b"], &["A", "a.b", "-a", ""]);
        check("k8s-long-name", &["a.b-c"], &["a..b", ""]);
        check("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00", "x"]);
        check("password", &["", "anything"], &[]);
        check("rgbcolor", &["rgb(0, 12,255)"], &["rgb(256,0,0)"]);
        check("ssn", &["111-22-3333", "111223333"], &["111-22-333"]);
        check(
            "uri",
            &["http://a/b", "/a", "mailto:x", "https://[::1]:80/"],
            &["", "a", "http://a b/", "http://a:x/", "/%zz"],
        );
        check("uuid", &["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"], &["1"]);
        check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]);
    }

    #[test]
    fn formats_belong_to_types() {
        let of = |kind, int_or_string| Node { kind, int_or_string, ..Node::default() };
        assert!(is_known(&of(Type::String, false), "date-time"));
        assert!(!is_known(&of(Type::String, false), "int32"));
        assert!(!is_known(&of(Type::String, false), "quantity"));
        assert!(is_known(&of(Type::Integer, false), "int32"));
        assert!(is_known(&of(Type::Number, false), "double"));
        assert!(!is_known(&of(Type::Object, false), "date"));
        assert!(is_known(&of(Type::Any, true), "uuid"));
    }
}
