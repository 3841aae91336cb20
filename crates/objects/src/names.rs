//! What may be a name, and how it is refused.
//!
//! The sentences mirror `k8s.io/apimachinery/pkg/util/validation`.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_1123: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !bytes.is_empty()
        && bytes.iter().all(|b| alnum(b) || *b == b'-')
        && bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
}

/// RFC 1123 label: what namespaces and container names must be. Returns what is wrong.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX));
    }
    if !is_label(text) {
        errors.push(LABEL_1123.to_owned());
    }
    errors
}

/// RFC 1123 subdomain: what most object names must be. Returns what is wrong.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_label) {
        errors.push(SUBDOMAIN_1123.to_owned());
    }
    errors
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
