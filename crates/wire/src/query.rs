//! The query of a request: decoded pairs, and Go's idea of what a number or a truth in one is.

use objects::Status;

/// The decoded pairs of a query string, in order. Pairs that cannot be decoded are passed over, as Go does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads what stands after the `?`, which is left out.
    pub fn parse(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let decoded = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Query { pairs: decoded.collect() }
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first value of a parameter; further ones do not count.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// The first value, or the empty string.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.pairs().filter(move |(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// A truth: everything but `false` and `0`, even nothing after the `=`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number, or 400 in the words of Go's `strconv`.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    /// Whether answers are for human eyes: `pretty` if it is given, else by the client.
    pub fn pretty(&self, user_agent: Option<&str>) -> bool {
        match self.get("pretty") {
            Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            _ => {
                let agent = user_agent.unwrap_or_default();
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|human| agent.starts_with(human))
            }
        }
    }
}

/// Undoes `%41` and `+`. Bytes that are no UTF-8 become replacement characters.
fn decode(text: &str) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => break,
            [b'%', high, low, after @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            [b'%', ..] => return None,
            [b'+', after @ ..] => {
                bytes.push(b' ');
                rest = after;
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let read = |raw: &str| Query::parse(raw).pairs.clone();
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(read(""), pairs(&[]));
        assert_eq!(read("a=b&a=c&d"), pairs(&[("a", "b"), ("a", "c"), ("d", "")]));
        assert_eq!(read("labelSelector=a%20in+%28b%2Cc%29"), pairs(&[("labelSelector", "a in (b,c)")]));
        assert_eq!(read("a=%zz&b=%4&c;d=1&e==f"), pairs(&[("e", "=f")]));
        assert_eq!(read("a=%ff%C3%A9"), pairs(&[("a", "\u{fffd}é")]));
    }

    proptest::proptest! {
        #[test]
        fn every_value_survives_its_encoding(value in ".{0,20}", raw in ".{0,40}") {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let query = Query::parse(&format!("a={encoded}"));
            proptest::prop_assert_eq!(query.get("a"), Some(value.as_str()));
            let _ = Query::parse(&raw);
        }
    }

    #[test]
    fn flags_and_numbers() {
        let query = Query::parse("watch&a=0&b=FALSE&c=no&limit=5&bad=x&big=99999999999999999999&none=");
        for (name, expected) in
            [("watch", Some(true)), ("a", Some(false)), ("b", Some(false)), ("c", Some(true)), ("gone", None)]
        {
            assert_eq!(query.flag(name), expected, "{name}");
        }
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!(query.number("gone"), Ok(None));
        for (name, message) in [
            ("bad", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("none", "strconv.ParseInt: parsing \"\": invalid syntax"),
            ("big", "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"),
        ] {
            let status = query.number(name).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (400, message));
        }
    }

    #[test]
    fn pretty_is_for_humans() {
        assert!(Query::parse("").pretty(Some("curl/8.5.0")));
        assert!(!Query::parse("pretty=false").pretty(Some("curl/8.5.0")));
        assert!(Query::parse("pretty=true").pretty(Some("kubectl/v1.33.0")));
        assert!(!Query::parse("").pretty(Some("kubectl/v1.33.0")));
        assert!(!Query::parse("").pretty(None));
    }
}
