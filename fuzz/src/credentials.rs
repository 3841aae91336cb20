//! What clients prove themselves with.

use std::sync::LazyLock;
use std::time::Duration;

use auth::pki::Authority;
use auth::pki::request::Request;
use auth::tokens::Issuer;
use auth::tokens::bootstrap::BootstrapToken;
use jiff::Timestamp;
use serde_json::json;

use crate::{parts, text};

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

static AUTHORITY: LazyLock<Authority> =
    LazyLock::new(|| Authority::generate("fuzz", NOW, YEAR).expect("keys can be made"));
static ISSUER: LazyLock<Issuer> =
    LazyLock::new(|| Issuer::generate("https://fuzz").expect("keys can be made"));

/// A chain of certificates, leaf first. The first byte chooses a good leaf to damage, so that more is reached than
/// the outermost check.
pub fn certificate(data: &[u8]) {
    static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let issued = AUTHORITY.issue_client("u", &["g"], NOW, YEAR).expect("it can be signed");
        pem::parse(issued.certificate).expect("it is PEM").into_contents()
    });
    let chain: [&[u8]; 3] = parts(data);
    let _ = AUTHORITY.verify_client(&chain, NOW);
    // Flips: three bytes each, where and what.
    let mut damaged = GOOD.clone();
    for flip in data.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([flip[0], flip[1]])) % damaged.len();
        damaged[at] ^= flip[2];
    }
    let accepted = AUTHORITY.verify_client(&[&damaged], NOW).is_ok();
    assert!(!accepted || damaged == *GOOD, "a certificate that nobody signed is accepted");
}

pub fn certificate_request(data: &[u8]) {
    let _ = Request::from_der(data);
    if let Ok(request) = Request::from_pem(data) {
        let _ = auth::pki::approval::check_subject("kubernetes.io/kube-apiserver-client-kubelet", &request);
    }
}

pub fn token(data: &[u8]) {
    let Some(token) = text(data) else { return };
    assert!(ISSUER.verify(token, None, NOW).is_err(), "a token that nobody signed is accepted");
}

pub fn bootstrap_token(data: &[u8]) {
    let [token, expiration, groups] = parts(data).map(text);
    let Some(parsed) = token.and_then(BootstrapToken::parse) else { return };
    let base64 = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let secret = json!({"type": "bootstrap.kubernetes.io/token", "data": {
        "token-id": base64("abcdef"), "token-secret": base64("0123456789abcdef"),
        "usage-bootstrap-authentication": base64("true"),
        "expiration": base64(expiration.unwrap_or_default()), "auth-extra-groups": base64(groups.unwrap_or_default()),
    }});
    if let Some(user) = parsed.user(&secret, NOW) {
        assert_eq!(token, Some("abcdef.0123456789abcdef"));
        assert!(user.groups.iter().all(|group| group.starts_with("system:")), "{:?}", user.groups);
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const certificate: &[&[u8]] = &[b"\x00\x10\x01", b"\x30\x03\x02\x01\x01\xff\x30\x00", b""];
    pub const certificate_request: &[&[u8]] =
        &[include_bytes!("../seeds/request.pem"), include_bytes!("../seeds/request.der")];
    pub const token: &[&[u8]] = &[
        b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2Z1enoiLCJhdWQiOlsiaHR0cHM6Ly9mdXp6Il0sImV4cCI6MTcwMDAwMDEwMH0.AAAA",
        b"eyJhbGciOiJub25lIn0.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.",
        b"a.b.c",
    ];
    pub const bootstrap_token: &[&[u8]] = &[
        b"abcdef.0123456789abcdef\xff2030-01-01T00:00:00Z\xffsystem:bootstrappers:a,system:bootstrappers:b",
    ];
}
