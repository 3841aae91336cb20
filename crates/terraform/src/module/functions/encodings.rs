//! Functions that write values in other ways, and read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::{Row, wrong};
use crate::module::term::Term;

pub(super) const TABLE: &[Row] = &[
    ("jsonencode", 1, 1, |mut arguments| Ok(Term::text(arguments.take(0).to_json().to_string()))),
    ("jsondecode", 1, 1, |arguments| match serde_json::from_str(&arguments.text(0)?) {
        Ok(json) => Ok(Term::from_json(&json)),
        Err(_) => wrong("this is not JSON"),
    }),
    ("base64encode", 1, 1, |arguments| Ok(Term::text(STANDARD.encode(arguments.text(0)?)))),
    ("base64decode", 1, 1, |arguments| match STANDARD.decode(arguments.text(0)?).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Term::String(text)),
        _ => wrong("this is not a text in base 64"),
    }),
    ("urlencode", 1, 1, |arguments| {
        let mut out = String::new();
        for byte in arguments.text(0)?.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
                b' ' => out.push('+'),
                other => out.push_str(&format!("%{other:02X}")),
            }
        }
        Ok(Term::String(out))
    }),
    ("sha256", 1, 1, |arguments| {
        let hash = Sha256::digest(arguments.text(0)?);
        Ok(Term::String(hash.iter().map(|byte| format!("{byte:02x}")).collect()))
    }),
    ("base64sha256", 1, 1, |arguments| Ok(Term::text(STANDARD.encode(Sha256::digest(arguments.text(0)?))))),
];
