//! Functions that make short values of long ones.

use aws_lc_rs::digest::{self, Algorithm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use uuid::Uuid;

use super::{Arguments, Made, Row, wrong};
use crate::module::term::Term;

pub(super) const TABLE: &[Row] = &[
    ("md5", 1, 1, |arguments| Ok(Term::String(hex(&Md5::digest(arguments.text(0)?))))),
    ("sha1", 1, 1, |arguments| hashed(&arguments, &digest::SHA1_FOR_LEGACY_USE_ONLY, hex)),
    ("sha256", 1, 1, |arguments| hashed(&arguments, &digest::SHA256, hex)),
    ("sha512", 1, 1, |arguments| hashed(&arguments, &digest::SHA512, hex)),
    ("base64sha256", 1, 1, |arguments| hashed(&arguments, &digest::SHA256, |bytes| STANDARD.encode(bytes))),
    ("base64sha512", 1, 1, |arguments| hashed(&arguments, &digest::SHA512, |bytes| STANDARD.encode(bytes))),
    ("uuidv5", 2, 2, |arguments| {
        let namespace = match arguments.text(0)?.as_str() {
            "dns" => Uuid::NAMESPACE_DNS,
            "url" => Uuid::NAMESPACE_URL,
            "oid" => Uuid::NAMESPACE_OID,
            "x500" => Uuid::NAMESPACE_X500,
            other => match Uuid::parse_str(other) {
                Ok(own) => own,
                Err(_) => return wrong("the namespace is dns, url, oid, x500 or a UUID"),
            },
        };
        let whole = [namespace.as_bytes(), arguments.text(1)?.as_bytes()].concat();
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &whole);
        match hash.as_ref().first_chunk::<16>() {
            Some(bytes) => Ok(Term::text(uuid::Builder::from_sha1_bytes(*bytes).into_uuid().to_string())),
            None => wrong("there is no hash"),
        }
    }),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hashed(arguments: &Arguments, algorithm: &'static Algorithm, shown: fn(&[u8]) -> String) -> Made {
    Ok(Term::String(shown(digest::digest(algorithm, arguments.text(0)?.as_bytes()).as_ref())))
}
