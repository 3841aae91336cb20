//! The keys of one control plane, in the Secret `k8s-certs` of its namespace: what its pod is started with.
//!
//! Whatever is good is kept, piece by piece; what is missing, damaged or soon to expire is made anew. Only the key that
//! its data are sealed with cannot be lost: it follows from the installation's own and from the object's uid.

use std::net::IpAddr;
use std::time::Duration;

use auth::Secret;
use auth::pki::{Authority, Issued, PkiError};
use auth::tokens::Issuer;
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use objects::{Value, meta, time};
use serde_json::json;

use crate::credentials::{LIFETIME, RENEWED_BEFORE};
use crate::furniture::Wanted;
use crate::kubeconfig::secret_value;
use crate::plane::Plane;
use crate::{credentials, names};

pub const SECRET: &str = "k8s-certs";

/// What the serving certificate is for, until when it is good enough, and what it was when it was written.
const NAMES: &str = "hangar.dev/serves";
const RENEW_AFTER: &str = "hangar.dev/renew-after";
const CHECKSUM: &str = "hangar.dev/checksum";
/// Of client certificates: another authority for each, so that those of an earlier one are worth nothing.
const GENERATION: &str = "hangar.dev/credentials-generation";

const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3_653 * 24 * 3_600);
/// An authority with less left than a client certificate of full length needs is replaced.
const AUTHORITY_MARGIN: Duration = LIFETIME;

#[derive(thiserror::Error, Debug)]
pub enum KeysError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("the key of service accounts cannot be made: {0}")]
    Tokens(String),
    #[error("the time is out of range")]
    Time,
}

/// The installation's own key, 32 bytes.
pub struct MasterKey(Secret<[u8; 32]>);

impl MasterKey {
    pub fn generate() -> Self {
        MasterKey(Secret::new(rand::random()))
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut key = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(MasterKey(Secret::new(key)))
    }

    pub fn to_text(&self) -> Secret<String> {
        Secret::new(hex(self.0.expose()))
    }

    /// The key that one control plane's data are sealed with, in hexadecimal digits.
    fn of(&self, uid: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        hex(hmac::sign(&key, format!("control-plane/{uid}").as_bytes()).as_ref())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}

/// The authority that a Secret holds, if it can be used.
pub fn authority(secret: &Value) -> Option<Authority> {
    let text = |key| String::from_utf8(secret_value(secret, key)?).ok();
    Authority::from_pem(&text("ca.crt")?, &text("ca.key")?).ok()
}

/// What pods have to be started anew for when it changes. The serving certificate is not of it: it is read again.
pub fn digest_of(secret: &Value) -> String {
    let parts =
        ["ca.crt", "ca.key", "sa.key", "data.key"].map(|key| secret_value(secret, key).unwrap_or_default());
    checksum(parts.iter().map(Vec::as_slice))
}

/// The Secret as it should be, given the one that is there.
pub fn wanted(
    plane: &Plane,
    live: &Value,
    dns_names: &[String],
    master: &MasterKey,
    now: Timestamp,
) -> Result<Wanted, KeysError> {
    let text = |key| secret_value(live, key).and_then(|bytes| String::from_utf8(bytes).ok());
    let margin = now.checked_add(AUTHORITY_MARGIN).map_err(|_| KeysError::Time)?;
    let generation = plane.spec.credentials.generation;
    let in_force = meta::annotation(live, GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    let is_good = |authority: &Authority| authority.not_after() > margin && in_force >= generation;
    let authority = match authority(live).filter(is_good) {
        Some(kept) => kept,
        None => Authority::generate("kubernetes", now, AUTHORITY_LIFETIME)?,
    };
    let tokens = |error: auth::KeyError| KeysError::Tokens(error.to_string());
    let issuer = match text("sa.key").and_then(|key| Issuer::from_pem("", &key).ok()) {
        Some(kept) => kept,
        None => Issuer::generate("").map_err(tokens)?,
    };
    let ca = authority.to_pem();
    let written = |serving: &Issued| {
        checksum([&ca.certificate, &serving.certificate, serving.key.expose()].map(|text| text.as_bytes()))
    };
    let names = dns_names.join(",");
    let kept = text("apiserver.crt")
        .zip(text("apiserver.key"))
        .map(|(certificate, key)| Issued { certificate, key: key.into() })
        .filter(|kept| {
            let renew_after = meta::annotation(live, RENEW_AFTER).and_then(|text| time::parse(text).ok());
            meta::annotation(live, NAMES) == Some(&names)
                && meta::annotation(live, CHECKSUM) == Some(&written(kept))
                && renew_after.is_some_and(|at| now < at)
        });
    let (serving, renew_after) = match kept {
        Some(kept) => (kept, meta::annotation(live, RENEW_AFTER).unwrap_or_default().to_owned()),
        None => {
            let here = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
            let issued = authority.issue_server(dns_names, &here, now, LIFETIME)?;
            let after =
                now.checked_add(LIFETIME.saturating_sub(RENEWED_BEFORE)).map_err(|_| KeysError::Time)?;
            (issued, time::format(after))
        }
    };
    let checksum = written(&serving);
    let data = [
        ("ca.crt", ca.certificate),
        ("ca.key", ca.key.into_exposed()),
        ("apiserver.crt", serving.certificate),
        ("apiserver.key", serving.key.into_exposed()),
        ("sa.pub", public_key(&issuer.keys_document()).unwrap_or_default()),
        ("sa.key", issuer.to_pem().into_exposed()),
        ("data.key", master.of(&plane.uid)),
    ];
    let data = data.into_iter().map(|(key, text)| (key.to_owned(), text.into_bytes())).collect();
    let mut wanted = credentials::secret(plane, SECRET, data);
    wanted.object["metadata"]["annotations"] = json!({
        NAMES: names, RENEW_AFTER: renew_after, CHECKSUM: checksum,
        GENERATION: generation.max(in_force).to_string(),
    });
    Ok(wanted)
}

/// PEM of the first key of a set: a point on P-256 behind the header that says so.
fn public_key(set: &Value) -> Option<String> {
    const HEADER: [u8; 27] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
    ];
    let key = set["keys"].as_array()?.first()?;
    let mut der = HEADER.to_vec();
    for part in ["x", "y"] {
        der.extend(URL_SAFE_NO_PAD.decode(key[part].as_str()?).ok()?);
    }
    Some(pem::encode(&pem::Pem::new("PUBLIC KEY", der)))
}

/// Everything that a control plane may be called by in a handshake.
pub fn dns_names(plane: &Plane, service: &str, outside: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let ends = ["", ".svc", ".svc.cluster", ".svc.cluster.local"];
    all.extend(["kubernetes", "localhost"].map(str::to_owned));
    all.extend(ends.iter().map(|end| format!("kubernetes.default{end}")));
    all.extend(ends.iter().map(|end| format!("{service}.{}{end}", plane.namespace)));
    all.extend(outside.iter().filter(|name| objects::names::dns1123_subdomain(name).is_empty()).cloned());
    all.sort();
    all.dedup();
    all
}

/// The Secret of the installation's own key.
pub fn master_secret(key: &MasterKey) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": MASTER, "namespace": names::SYSTEM_NAMESPACE},
        "stringData": {MASTER_KEY: key.to_text().expose()},
    })
}

pub const MASTER: &str = "hangar-keys";
pub const MASTER_KEY: &str = "data.key";

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    fn plane() -> Plane {
        Plane::read(json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"type": "k8s"}})).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    const DAY: i64 = 24 * 3_600;

    /// Which keys of the Secret are other than they were.
    fn changed(before: &Value, after: &Value) -> Vec<String> {
        let (Some(before), Some(after)) = (before["data"].as_object(), after["data"].as_object()) else {
            return Vec::new();
        };
        after
            .iter()
            .filter(|(key, value)| before.get(*key) != Some(value))
            .map(|(key, _)| key.clone())
            .collect()
    }

    #[test]
    fn what_is_good_is_kept_and_what_is_not_is_made_anew() {
        let master = MasterKey::generate();
        let names = dns_names(&plane(), "a", &["a.example.com".to_owned(), "not a name".to_owned()]);
        assert!(names.contains(&"a.a-system.svc".to_owned()) && names.contains(&"a.example.com".to_owned()));
        assert!(!names.contains(&"not a name".to_owned()));
        let make =
            |live: &Value, names: &[String], now| wanted(&plane(), live, names, &master, now).unwrap().object;
        let first = make(&Value::Null, &names, at(0));
        let check = |edit: &dyn Fn(&mut Value), names: &[String], now, expected: &[&str]| {
            let mut live = first.clone();
            edit(&mut live);
            let after = make(&live, names, at(now));
            assert_eq!(changed(&first, &after), expected);
            // And the result is good as it is.
            assert_eq!(make(&after, names, at(now)), after);
        };
        let serving = ["apiserver.crt", "apiserver.key"];
        check(&|_| {}, &names, DAY, &[]);
        check(&|_| {}, &names, 200 * DAY, &[]);
        check(&|_| {}, &names, 300 * DAY, &serving);
        check(&|_| {}, &names[1..], 0, &serving);
        check(&|live| live["data"]["apiserver.crt"] = "AAAA".into(), &names, 0, &serving);
        check(&|live| live["data"]["data.key"] = "AAAA".into(), &names, 0, &[]);
        check(&|live| live["data"]["sa.pub"] = Value::Null, &names, 0, &[]);
        check(&|live| live["data"]["sa.key"] = Value::Null, &names, 0, &["sa.key", "sa.pub"]);
        let all = ["apiserver.crt", "apiserver.key", "ca.crt", "ca.key"];
        check(&|live| live["data"]["ca.key"] = Value::Null, &names, 0, &all);
        check(&|_| {}, &names, 3_500 * DAY, &all);
        let mut revoked = plane();
        revoked.spec.credentials.generation = 1;
        let after = wanted(&revoked, &first, &names, &master, at(0)).unwrap().object;
        assert_eq!(changed(&first, &after), all);
        assert_eq!(wanted(&revoked, &after, &names, &master, at(0)).unwrap().object, after);
        // Another object of the same name has other data.
        let other = Plane { uid: "v".to_owned(), ..plane() };
        let other = wanted(&other, &first, &names, &master, at(0)).unwrap().object;
        assert_eq!(changed(&first, &other), ["data.key"]);
    }

    #[test]
    fn the_public_key_is_the_private_one_s() {
        let made = wanted(&plane(), &Value::Null, &["a".to_owned()], &MasterKey::generate(), at(0)).unwrap();
        let text = |key: &str| STANDARD.decode(made.object["data"][key].as_str().unwrap()).unwrap();
        let issuer = Issuer::from_pem("", std::str::from_utf8(&text("sa.key")).unwrap()).unwrap();
        let public = String::from_utf8(text("sa.pub")).unwrap();
        assert!(issuer.also_accept(&public).is_ok(), "{public}");
    }

    #[test]
    fn master_keys() {
        let key = MasterKey::generate();
        let again = MasterKey::parse(&format!("{}\n", key.to_text().expose())).unwrap();
        assert_eq!(key.of("u"), again.of("u"));
        assert_ne!(key.of("u"), key.of("v"));
        assert!(MasterKey::parse("abc").is_none());
        assert!(MasterKey::parse(&"xy".repeat(32)).is_none());
    }
}
