//! Name rules of built-in kinds beyond those of `objects::names`.

use std::net::IpAddr;

pub(crate) use objects::names::{
    dns1035_label as rfc1035_label, dns1123_label as label, dns1123_subdomain as subdomain, path_segment,
};

/// An IPAddress object is called by the address it stands for, in its canonical form.
pub(crate) fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(_) => vec!["must be in canonical form".to_owned()],
        Err(_) => objects::names::ip_address(text),
    }
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
        check(ip_address, "10.0.0.1", true);
        check(ip_address, "2001:db8::ffff", true);
        check(ip_address, "2001:DB8::ffff", false);
        check(ip_address, "example", false);
        check(anything, "whatever it is/", true);
    }
}
