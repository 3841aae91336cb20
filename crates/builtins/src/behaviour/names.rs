//! Name rules of built-in kinds beyond those of `objects::names`.

use std::net::IpAddr;

pub(crate) use objects::names::{dns1123_label as label, dns1123_subdomain as subdomain, path_segment};

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
     an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_MAX: usize = 63;

/// RFC 1035 label: what Services may be called, because their names become DNS labels. Returns what is wrong.
pub(crate) fn rfc1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    let bytes = text.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let fits = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(alnum)
        && bytes.iter().all(|b| alnum(b) || *b == b'-');
    if !fits {
        errors.push(LABEL_1035.to_owned());
    }
    errors
}

/// An IPAddress object is called by the address it stands for, in its canonical form.
pub(crate) fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(_) => vec!["must be in canonical form".to_owned()],
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// A trust bundle of a signer carries the signer's name, colons for slashes, before its own.
pub(crate) fn trust_bundle(text: &str) -> Vec<String> {
    subdomain(text.rsplit(':').next().unwrap_or(text))
}

/// Nobody cares what a certificate signing request is called.
pub(crate) fn anything(_: &str) -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |rule: fn(&str) -> Vec<String>, text: &str, fine: bool| {
            assert_eq!(rule(text).is_empty(), fine, "{text:?}: {:?}", rule(text));
        };
        check(rfc1035_label, "my-service", true);
        check(rfc1035_label, "1-service", false);
        check(rfc1035_label, "a", true);
        check(rfc1035_label, "", false);
        check(rfc1035_label, "a-", false);
        check(rfc1035_label, "a.b", false);
        check(rfc1035_label, &"a".repeat(63), true);
        check(rfc1035_label, &"a".repeat(64), false);
        check(ip_address, "10.0.0.1", true);
        check(ip_address, "2001:db8::ffff", true);
        check(ip_address, "2001:DB8::ffff", false);
        check(ip_address, "example", false);
        check(anything, "whatever it is/", true);
    }
}
