//! What may be a name, and how it is refused.
//!
//! The sentences mirror `k8s.io/apimachinery/pkg/util/validation`.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// A character class: what a byte of a name may be.
type Class = fn(u8) -> bool;

const LOWER_ALNUM: Class = |b| b.is_ascii_lowercase() || b.is_ascii_digit();
const ALNUM: Class = |b| b.is_ascii_alphanumeric();

/// A shape of text, and the words with which anything else is refused.
struct Shape {
    message: &'static str,
    /// Shown to users only; the matching is done by `first`, `middle` and `last`.
    regex: &'static str,
    examples: &'static [&'static str],
    first: Class,
    middle: Class,
    last: Class,
}

impl Shape {
    fn fits(&self, text: &str) -> bool {
        match text.as_bytes() {
            [] => false,
            // One character is both the first and the last.
            [one] => (self.first)(*one) && (self.last)(*one),
            [first, middle @ .., last] => {
                (self.first)(*first) && middle.iter().all(|b| (self.middle)(*b)) && (self.last)(*last)
            }
        }
    }

    fn refusal(&self) -> String {
        regex_sentence(self.message, self.regex, self.examples)
    }
}

/// `MESSAGE (e.g. 'a',  or 'b', regex used for validation is '...')`, double blank included.
pub fn regex_sentence(message: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{regex}')");
    }
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", quoted.join(" or "))
}

const LABEL_1123: Shape = Shape {
    message: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
              and end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
    first: LOWER_ALNUM,
    middle: |b| LOWER_ALNUM(b) || b == b'-',
    last: LOWER_ALNUM,
};

/// Each segment between dots; the sentence speaks of the whole.
const SUBDOMAIN_1123: Shape = Shape {
    message: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
              start and end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
    ..LABEL_1123
};

const WILDCARD_SUBDOMAIN: Shape = Shape {
    message: "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
              of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    regex: "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["*.example.com"],
    ..LABEL_1123
};

const LABEL_1035: Shape = Shape {
    message: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
              character, and end with an alphanumeric character",
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
    first: |b| b.is_ascii_lowercase(),
    ..LABEL_1123
};

const QUALIFIED: Shape = Shape {
    message: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
              character",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
    first: ALNUM,
    middle: |b| ALNUM(b) || matches!(b, b'-' | b'_' | b'.'),
    last: ALNUM,
};

const LABEL_VALUE: Shape = Shape {
    message: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
    ..QUALIFIED
};

const C_IDENTIFIER: Shape = Shape {
    message: "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
              characters or '_'",
    regex: "[A-Za-z_][A-Za-z0-9_]*",
    examples: &["my_name", "MY_NAME", "MyName"],
    first: |b| b.is_ascii_alphabetic() || b == b'_',
    middle: |b| ALNUM(b) || b == b'_',
    last: |b| ALNUM(b) || b == b'_',
};

const CONFIG_KEY_CHAR: Class = |b| ALNUM(b) || matches!(b, b'-' | b'_' | b'.');

const CONFIG_KEY: Shape = Shape {
    message: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    regex: "[-._a-zA-Z0-9]+",
    examples: &["key.name", "KEY_NAME", "key-name"],
    first: CONFIG_KEY_CHAR,
    middle: CONFIG_KEY_CHAR,
    last: CONFIG_KEY_CHAR,
};

const HEADER_CHAR: Class = |b| ALNUM(b) || b == b'-';

const HTTP_HEADER: Shape = Shape {
    message: "a valid HTTP header must consist of alphanumeric characters or '-'",
    regex: "[-A-Za-z0-9]+",
    examples: &["X-Header-Name"],
    first: HEADER_CHAR,
    middle: HEADER_CHAR,
    last: HEADER_CHAR,
};

const CONDITION_REASON: Shape = Shape {
    message: "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
              characters or '_,:', and must end with an alphanumeric character or '_'",
    regex: "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    examples: &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    first: |b| b.is_ascii_alphabetic(),
    middle: |b| ALNUM(b) || matches!(b, b'_' | b',' | b':'),
    last: |b| ALNUM(b) || b == b'_',
};

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

const EMPTY: &str = "must be non-empty";

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|segment| LABEL_1123.fits(segment))
}

/// At most `max` bytes, and of a shape.
fn bounded(text: &str, max: usize, fits: bool, shape: &Shape) -> Vec<String> {
    let long = (text.len() > max).then(|| too_long(max));
    let odd = (!fits).then(|| shape.refusal());
    long.into_iter().chain(odd).collect()
}

/// RFC 1123 label: what namespaces and container names must be. Returns what is wrong.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = bounded(text, LABEL_MAX, true, &LABEL_1123);
    if !LABEL_1123.fits(text) {
        errors.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            LABEL_1123.refusal()
        });
    }
    errors
}

/// RFC 1123 subdomain: what most object names must be. Returns what is wrong.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    bounded(text, SUBDOMAIN_MAX, is_subdomain(text), &SUBDOMAIN_1123)
}

/// `*.example.com`, as in the hosts of an Ingress. Returns what is wrong.
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let fits = text.strip_prefix("*.").is_some_and(is_subdomain);
    bounded(text, SUBDOMAIN_MAX, fits, &WILDCARD_SUBDOMAIN)
}

/// RFC 1035 label: what Services must be called. Returns what is wrong.
pub fn dns1035_label(text: &str) -> Vec<String> {
    bounded(text, LABEL_MAX, LABEL_1035.fits(text), &LABEL_1035)
}

/// `[prefix/]name`: the key of a label or annotation, a finalizer, a condition type. Returns what is wrong.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            let shape = QUALIFIED.refusal();
            return vec![format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            errors.push(format!("prefix part {EMPTY}"));
            name
        }
        Some((prefix, name)) => {
            errors.extend(dns1123_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            name
        }
    };
    if name.is_empty() {
        errors.push(format!("name part {EMPTY}"));
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    if !QUALIFIED.fits(name) {
        errors.push(format!("name part {}", QUALIFIED.refusal()));
    }
    errors
}

/// The value of a label. Returns what is wrong.
pub fn label_value(text: &str) -> Vec<String> {
    bounded(text, LABEL_MAX, text.is_empty() || LABEL_VALUE.fits(text), &LABEL_VALUE)
}

/// A C identifier. Returns what is wrong.
pub fn c_identifier(text: &str) -> Vec<String> {
    bounded(text, usize::MAX, C_IDENTIFIER.fits(text), &C_IDENTIFIER)
}

/// The reason of a condition. Returns what is wrong.
pub fn condition_reason(text: &str) -> Vec<String> {
    bounded(text, usize::MAX, CONDITION_REASON.fits(text), &CONDITION_REASON)
}

/// The name of an environment variable: printable ASCII without `=`. Returns what is wrong.
pub fn env_var_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.is_empty() {
        errors.push(format!("environment variable name {EMPTY}"));
    }
    if text.chars().any(|c| !matches!(c, ' '..='~') || c == '=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// A key of a ConfigMap or Secret, which becomes the name of a file. Returns what is wrong.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut errors = bounded(text, SUBDOMAIN_MAX, CONFIG_KEY.fits(text), &CONFIG_KEY);
    errors.extend(match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    });
    errors
}

/// The name of a port (an IANA service name). Returns what is wrong.
pub fn port_name(text: &str) -> Vec<String> {
    let checks = [
        (text.len() > 15, too_long(15)),
        (
            text.is_empty() || !text.bytes().all(|b| LOWER_ALNUM(b) || b == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        ),
        (!text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)".to_owned()),
        (text.contains("--"), "must not contain consecutive hyphens".to_owned()),
        (text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen".to_owned()),
    ];
    checks.into_iter().filter_map(|(wrong, sentence)| wrong.then_some(sentence)).collect()
}

/// A number in an inclusive range. Returns what is wrong.
pub fn in_range(number: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&number) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A port that can be connected to. Returns what is wrong.
pub fn port_number(number: i64) -> Vec<String> {
    in_range(number, 1, 65535)
}

/// `25%`. Returns what is wrong.
pub fn percent(text: &str) -> Vec<String> {
    let fits = text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    if fits {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_sentence(message, "[0-9]+%", &["1%", "93%"])]
}

/// The name of an HTTP header, as in probes. Returns what is wrong.
pub fn http_header_name(text: &str) -> Vec<String> {
    bounded(text, usize::MAX, HTTP_HEADER.fits(text), &HTTP_HEADER)
}

/// An address of either family, as it is written canonically or not. Returns what is wrong.
pub fn ip_address(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// `acme.io/foo`: a domain, a slash, and characters a path may have. Returns what is wrong.
pub fn domain_prefixed_path(text: &str) -> Vec<String> {
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    };
    let mut errors = dns1123_subdomain(host);
    if !path.bytes().all(|b| ALNUM(b) || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.push(regex_sentence("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]));
    }
    errors
}

/// `acme.io/foo` where a prefix is required of a qualified name. Returns what is wrong.
pub fn domain_prefixed_key(text: &str) -> Vec<String> {
    let errors = qualified_name(text);
    if !errors.is_empty() || text.contains('/') {
        return errors;
    }
    vec!["must be a domain-prefixed key (such as \"acme.io/foo\")".to_owned()]
}

/// A `generateName` as the rule for names sees it: the suffix to come makes a trailing `-` harmless.
pub fn as_prefix(base: &str) -> std::borrow::Cow<'_, str> {
    match base.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            let mut masked = stem.to_owned();
            masked.pop();
            masked.push('a');
            masked.into()
        }
        _ => base.into(),
    }
}

/// A name that is safe as one segment of a path: what RBAC objects may be called. Returns what is wrong.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let bad = ['/', '%'].into_iter().filter(|c| text.contains(*c));
    bad.map(|c| format!("may not contain '{c}'")).collect()
}

/// How long `generateName` may be before the random suffix is added.
pub const GENERATE_NAME_MAX: usize = 58;

/// A name from a `generateName` base and five random characters out of an alphabet without vowels.
pub fn generated(base: &str, random: [u8; 5]) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut end = base.len().min(GENERATE_NAME_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    name.extend(random.iter().map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: fn(&str) -> Vec<String>, good: &[&str], bad: &[(&str, &str)]) {
        for text in good {
            assert_eq!(rule(text), Vec::<String>::new(), "{text:?}");
        }
        for (text, part) in bad {
            let errors = rule(text).join("; ");
            assert!(!errors.is_empty(), "{text:?} was let through");
            assert!(errors.contains(part), "{text:?}: {errors}");
        }
    }

    #[test]
    fn labels_and_subdomains() {
        check(
            dns1123_label,
            &["a", "0", "my-name", "a--b"],
            &[
                ("", "RFC 1123 label"),
                ("a.b", "must not contain dots"),
                (
                    "-a",
                    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ),
                ("A", "lower case"),
                (&"a".repeat(64), "must be no more than 63 bytes"),
            ],
        );
        check(
            dns1123_subdomain,
            &["a.b", "kubernetes.default.svc"],
            &[("a..b", "RFC 1123 subdomain"), ("a_b", "'-' or '.'")],
        );
        check(dns1035_label, &["a1"], &[("1a", "DNS-1035"), ("a.b", "DNS-1035")]);
        check(
            wildcard_dns1123_subdomain,
            &["*.a.b"],
            &[("*", "wildcard"), ("a.b", "wildcard"), ("*.*.b", "wildcard")],
        );
    }

    #[test]
    fn keys_and_values() {
        check(
            qualified_name,
            &["a", "A_b.c", "example.com/MyName", "kubernetes.io/metadata.name"],
            &[
                ("", "name part must be non-empty"),
                ("/a", "prefix part must be non-empty"),
                ("a/", "name part must be non-empty"),
                ("a/b/c", "a valid label key must consist of"),
                ("A.com/b", "prefix part a lowercase RFC 1123 subdomain"),
                ("a b", "name part must consist of"),
            ],
        );
        check(
            label_value,
            &["", "a", "A.b_c-1"],
            &[("-", "a valid label must be"), ("a/b", "an empty string or consist of")],
        );
        check(
            config_map_key,
            &["a", ".hidden", "A_b-c.d"],
            &[("", "a valid config key"), ("..", "must not be '..'"), ("..a", "must not start with '..'")],
        );
        check(
            env_var_name,
            &["A", "a b", "1"],
            &[("", "non-empty"), ("a=b", "other than '='"), ("é", "printable ASCII")],
        );
        check(c_identifier, &["_a1"], &[("1a", "C identifier"), ("", "C identifier")]);
        check(domain_prefixed_key, &["a.io/b"], &[("b", "domain-prefixed key")]);
        check(
            domain_prefixed_path,
            &["a.io/b/c"],
            &[("b", "domain-prefixed path"), ("a.io/ ", "Invalid path")],
        );
    }

    #[test]
    fn ports_and_numbers() {
        check(
            port_name,
            &["http", "h2c-1"],
            &[
                ("", "only alpha-numeric"),
                ("80", "one letter"),
                ("a--b", "consecutive"),
                ("-a", "begin or end"),
            ],
        );
        check(percent, &["0%", "120%"], &[("%", "numeric string"), ("5", "numeric string")]);
        check(ip_address, &["10.0.0.1", "::1"], &[("10.0.0", "valid IP address")]);
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    }

    #[test]
    fn a_trailing_dash_of_a_prefix_is_harmless() {
        for (base, seen) in [("web-", "wea"), ("web", "web"), ("-", "-"), ("a-", "a"), ("é-", "a"), ("", "")]
        {
            assert_eq!(as_prefix(base), seen);
        }
    }
}
