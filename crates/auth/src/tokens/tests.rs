use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::bootstrap::BootstrapToken;
use super::*;
use crate::{Secret, UserInfo};

const URL: &str = "https://a.example";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn after(minutes: i64) -> Timestamp {
    now() + SignedDuration::from_mins(minutes)
}

fn request() -> BoundToken {
    BoundToken {
        namespace: "ns".to_owned(),
        service_account: Reference::new("sa", "sa-uid"),
        lifetime: Duration::from_secs(3600),
        ..BoundToken::default()
    }
}

fn object(name: &str, uid: &str) -> Value {
    json!({"metadata": {"name": name, "uid": uid}})
}

fn claims(token: &Secret<String>) -> Value {
    let payload = token.expose().split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[test]
fn claims_are_upstreams() {
    let issuer = Issuer::generate(URL).unwrap();
    let token = BoundToken {
        pod: Some(Reference::new("p", "p-uid")),
        node: Some(Reference::new("n", "n-uid")),
        warn_after: Some(Duration::from_secs(10)),
        ..request()
    };
    let mut got = claims(&issuer.issue(&token, now()).unwrap());
    assert_eq!(got["jti"].as_str().map(str::len), Some(36));
    got["jti"] = json!("");
    let start = now().as_second();
    assert_eq!(
        got,
        json!({
            "aud": [URL], "exp": start + 3600, "iat": start, "nbf": start, "iss": URL, "jti": "",
            "sub": "system:serviceaccount:ns:sa",
            "kubernetes.io": {
                "namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"},
                "pod": {"name": "p", "uid": "p-uid"}, "node": {"name": "n", "uid": "n-uid"},
                "warnafter": start + 10,
            },
        })
    );
    let legacy = issuer.issue_legacy("ns", &Reference::new("sa", "sa-uid"), "sa-token").unwrap();
    assert_eq!(
        claims(&legacy),
        json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:sa",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "sa-token",
            "kubernetes.io/serviceaccount/service-account.name": "sa",
            "kubernetes.io/serviceaccount/service-account.uid": "sa-uid",
        })
    );
}

#[test]
fn a_bound_token_lives_with_its_objects() {
    let issuer = Issuer::generate(URL).unwrap();
    let bound = |pod: Option<Reference>, secret: Option<Reference>, node: Option<Reference>| {
        let token = issuer.issue(&BoundToken { pod, secret, node, ..request() }, now()).unwrap();
        issuer.verify(token.expose(), None, now()).unwrap()
    };
    let thing = || Some(Reference::new("x", "x-uid"));
    let account = object("sa", "sa-uid");
    let there = object("x", "x-uid");
    let other = object("x", "new-uid");
    let mut dying = object("x", "x-uid");
    dying["metadata"]["deletionTimestamp"] = json!("2026-03-01T11:59:30Z");
    let mut dead = dying.clone();
    dead["metadata"]["deletionTimestamp"] = json!("2026-03-01T11:00:00Z");

    let check = |token: &VerifiedToken, found: &[Option<&Value>], expected: Result<&str, &str>| {
        let got = token.user("", found, now()).map(|user| user.name).map_err(|error| error.to_string());
        assert_eq!(got.as_deref().map_err(String::as_str), expected);
    };
    let name = Ok("system:serviceaccount:ns:sa");
    let gone = Err("service account token has been invalidated");
    check(&bound(None, None, None), &[Some(&account)], name);
    check(&bound(None, None, None), &[None], Err("serviceaccounts \"sa\" not found"));
    check(
        &bound(None, None, None),
        &[Some(&object("sa", "u2"))],
        Err("service account UID (u2) does not match claim (sa-uid)"),
    );
    for (token, resource, mismatch) in [
        (
            bound(thing(), None, None),
            "pods",
            "pod UID (new-uid) does not match service account pod ref claim (x-uid)",
        ),
        (
            bound(None, thing(), None),
            "secrets",
            "secret UID (new-uid) does not match service account secret ref claim (x-uid)",
        ),
        (
            bound(None, None, thing()),
            "nodes",
            "node UID (new-uid) does not match service account node ref claim (x-uid)",
        ),
    ] {
        let lookups = token.lookups();
        assert_eq!((lookups[0].resource, lookups[1].resource), ("serviceaccounts", resource));
        assert_eq!(lookups[1].namespace, if resource == "nodes" { "" } else { "ns" });
        check(&token, &[Some(&account), Some(&there)], name);
        check(&token, &[Some(&account), Some(&dying)], name);
        check(&token, &[Some(&account), Some(&dead)], gone);
        check(&token, &[Some(&account), None], gone);
        check(&token, &[Some(&account), Some(&other)], Err(mismatch));
    }
    // The node of a pod-bound token is told, not checked.
    let token = bound(thing(), None, Some(Reference::new("n", "n-uid")));
    assert_eq!(token.lookups().len(), 2);
    let user = token.user("", &[Some(&account), Some(&there)], now()).unwrap();
    let extra: Vec<&str> = user.extra.values().map(|values| values[0].as_str()).collect();
    assert_eq!(extra, [&format!("JTI={}", token.id), "n", "n-uid", "x", "x-uid"]);
    assert_eq!(user.uid, "sa-uid");
}

#[test]
fn time_and_audience() {
    let issuer = Issuer::generate(URL).unwrap();
    let check = |audiences: &[&str],
                 wanted: Option<&[&str]>,
                 at: Timestamp,
                 expected: Result<&[&str], TokenError>| {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
        let token = issuer.issue(&BoundToken { audiences: owned(audiences), ..request() }, now()).unwrap();
        let wanted = wanted.map(owned);
        let got = issuer.verify(token.expose(), wanted.as_deref(), at).map(|token| token.audiences);
        assert_eq!(got, expected.map(owned));
    };
    check(&[], None, now(), Ok(&[URL]));
    check(&["a", "b", "c"], Some(&["c", "a", "z"]), now(), Ok(&["a", "c"]));
    let refused = |has: &str, wants: &str| {
        Err(TokenError::Audience { has: format!("[{has:?}]"), wants: format!("[{wants:?}]") })
    };
    check(&["a"], None, now(), refused("a", URL));
    check(&[], Some(&["vault"]), now(), refused(URL, "vault"));
    check(&[], None, after(60), Ok(&[URL]));
    check(&[], None, after(62), Err(TokenError::Expired));
    check(&[], None, after(-1), Ok(&[URL]));
    check(&[], None, after(-2), Err(TokenError::NotYetValid));
}

#[test]
fn only_our_tokens_count() {
    let issuer = Issuer::generate(URL).unwrap();
    let other = Issuer::generate(URL).unwrap();
    let elsewhere = Issuer::generate("https://b.example").unwrap();
    let token = |issuer: &Issuer| issuer.issue(&request(), now()).unwrap().into_exposed();
    let check = |token: &str, expected: TokenError| {
        assert_eq!(issuer.verify(token, None, now()).unwrap_err(), expected, "{token}");
    };
    check(&token(&elsewhere), TokenError::NotOurs);
    check(&token(&other), TokenError::UnknownKey);
    for garbage in ["", "a.b.c", "a.b", "...", "abcdef.0123456789abcdef"] {
        check(garbage, TokenError::NotOurs);
    }
    // The same claims under another header or signature.
    let good = token(&issuer);
    let parts: Vec<&str> = good.split('.').collect();
    let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    check(&format!("{none}.{}.", parts[1]), TokenError::NotOurs);
    let symmetric = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    check(&format!("{symmetric}.{}.{}", parts[1], parts[2]), TokenError::Signature);
    let mut forged = claims(&Secret::new(good.clone()));
    forged["kubernetes.io"]["serviceaccount"]["name"] = json!("admin");
    let forged = BASE64_URL_SAFE_NO_PAD.encode(forged.to_string());
    check(&format!("{}.{forged}.{}", parts[0], parts[2]), TokenError::Signature);
}

#[test]
fn keys_can_be_changed() {
    let old = Issuer::generate(URL).unwrap();
    let token = old.issue(&request(), now()).unwrap();
    let new = Issuer::generate(URL).unwrap();
    assert_eq!(new.verify(token.expose(), None, now()).unwrap_err(), TokenError::UnknownKey);
    let new = new.also_accept(old.to_pem().expose()).unwrap();
    assert!(new.verify(token.expose(), None, now()).is_ok());
    let restarted = Issuer::from_pem(URL, old.to_pem().expose()).unwrap();
    assert!(restarted.verify(token.expose(), None, now()).is_ok());

    let keys = new.keys_document();
    let keys = keys["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[1], restarted.keys_document()["keys"][0]);
    assert_eq!(keys[0]["x"].as_str().map(str::len), Some(43));
    let header = token.expose().split('.').next().unwrap();
    let header: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    assert_eq!(header, json!({"alg": "ES256", "kid": keys[1]["kid"]}));

    let discovery = new.discovery_document();
    assert_eq!(discovery["jwks_uri"], "https://a.example/openid/v1/jwks");
    assert_eq!(discovery["issuer"], URL);
    let path = Issuer::generate("https://a.example:6443/control-planes/b").unwrap().discovery_document();
    assert_eq!(path["jwks_uri"], "https://a.example:6443/control-planes/b/openid/v1/jwks");
}

/// Tokens outlive a change of the address that an issuer is named by, since the keys stay.
#[test]
fn the_url_can_be_changed() {
    let (old, shared) = ("https://old.example", "https://kubernetes.default.svc.cluster.local".to_owned());
    let issuer = Issuer::generate(old).unwrap().with_api_audiences([old.to_owned(), shared.clone()]);
    let token = issuer.issue(&request(), now()).unwrap();
    let only_old = issuer.issue(&BoundToken { audiences: vec![old.to_owned()], ..request() }, now()).unwrap();
    let pem = issuer.to_pem();
    let moved = Issuer::from_pem(URL, pem.expose()).unwrap().with_api_audiences([URL.to_owned(), shared]);
    assert_eq!(
        moved.verify(token.expose(), None, now()).unwrap().audiences,
        ["https://kubernetes.default.svc.cluster.local"]
    );
    assert!(matches!(moved.verify(only_old.expose(), None, now()), Err(TokenError::Audience { .. })));
    let other = Issuer::generate(URL).unwrap();
    assert_eq!(other.verify(token.expose(), None, now()).unwrap_err(), TokenError::NotOurs);
}

#[test]
fn public_keys_alone_can_be_accepted() {
    // The base point of the curve: a public key whose private half is one.
    let public = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n\
        6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n\
        -----END PUBLIC KEY-----\n";
    let issuer = Issuer::generate(URL).unwrap().also_accept(public).unwrap();
    assert_eq!(issuer.keys_document()["keys"][1]["x"], "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY");
    assert!(Issuer::generate(URL).unwrap().also_accept("junk").is_err());
}

#[test]
fn legacy_tokens_live_in_their_secret() {
    let issuer = Issuer::generate(URL).unwrap();
    let token = issuer.issue_legacy("ns", &Reference::new("sa", "sa-uid"), "s").unwrap();
    let verified = issuer.verify(token.expose(), None, after(10_000_000)).unwrap();
    assert_eq!(verified.audiences, [URL]);
    assert_eq!(
        verified.lookups()[1],
        Lookup { resource: "secrets", namespace: "ns".into(), name: "s".into() }
    );
    let account = object("sa", "sa-uid");
    let mut secret = object("s", "s-uid");
    secret["data"] = json!({"token": BASE64_STANDARD.encode(token.expose())});
    let check = |secret: Option<&Value>, expected: Result<(), &str>| {
        let got = verified.user(token.expose(), &[Some(&account), secret], now());
        match (got, expected) {
            (Ok(user), Ok(())) => assert_eq!(user.name, "system:serviceaccount:ns:sa"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{got:?}"),
        }
    };
    check(Some(&secret), Ok(()));
    check(None, Err("Token has been invalidated"));
    let mut other = secret.clone();
    other["data"]["token"] = json!(BASE64_STANDARD.encode("else"));
    check(Some(&other), Err("Token does not match server's copy"));
    let mut marked = secret.clone();
    marked["metadata"]["labels"] = json!({"kubernetes.io/legacy-token-invalid-since": "2026-01-01"});
    check(Some(&marked), Err("has been marked invalid"));
    secret["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:00:00Z");
    check(Some(&secret), Err("Token has been invalidated"));
}

#[test]
fn bootstrap_tokens() {
    let secret = |changes: &[(&str, &str)]| {
        let mut data = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "expiration": "2026-03-02T00:00:00Z",
            "auth-extra-groups": "system:bootstrappers:workers",
        });
        for (key, value) in changes {
            data[key] = json!(value);
        }
        for value in data.as_object_mut().unwrap().values_mut() {
            *value = json!(BASE64_STANDARD.encode(value.as_str().unwrap()));
        }
        json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": bootstrap::SECRET_TYPE, "data": data})
    };
    let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
    assert_eq!(token.secret_name(), "bootstrap-token-abcdef");
    let check = |changes: &[(&str, &str)], expected: Option<&[&str]>| {
        let user = token.user(&secret(changes), now());
        assert_eq!(user.is_some(), expected.is_some(), "{changes:?}");
        if let (Some(user), Some(groups)) = (user, expected) {
            assert_eq!(user.name, "system:bootstrap:abcdef");
            assert_eq!(user.groups, groups);
        }
    };
    check(&[], Some(&["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"]));
    check(
        &[("auth-extra-groups", ""), ("expiration", "")],
        Some(&["system:bootstrappers", "system:authenticated"]),
    );
    check(&[("token-secret", "0123456789abcdee")], None);
    check(&[("token-id", "abcdeg")], None);
    check(&[("expiration", "2026-03-01T12:00:00Z")], None);
    check(&[("expiration", "soon")], None);
    check(&[("usage-bootstrap-authentication", "false")], None);
    check(&[("auth-extra-groups", "system:masters")], None);
    check(&[("auth-extra-groups", "system:bootstrappers:")], None);
    let mut other_type = secret(&[]);
    other_type["type"] = json!("Opaque");
    assert_eq!(token.user(&other_type, now()), None);
    for bad in
        ["abcdef", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde", "a.b"]
    {
        assert!(BootstrapToken::parse(bad).is_none(), "{bad}");
    }
}

#[test]
fn static_tokens() {
    let tokens = StaticTokens::new([
        (Secret::new("t1".to_owned()), UserInfo::new("one", ["g"])),
        (Secret::new(String::new()), UserInfo::new("empty", ["system:masters"])),
    ]);
    assert_eq!(tokens.user("t1").unwrap().groups, ["g", "system:authenticated"]);
    assert_eq!(tokens.user("t2"), None);
    assert_eq!(tokens.user(""), None);
    assert!(!format!("{tokens:?}").contains("t1"));
}

proptest::proptest! {
    /// Text from anywhere is refused, and so is a good token with one character changed.
    #[test]
    fn any_text(text in ".{0,80}", dotted in "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}", at in 0usize..700, with in "[A-Za-z0-9_.-]") {
        static ISSUER: std::sync::LazyLock<Issuer> = std::sync::LazyLock::new(|| Issuer::generate(URL).unwrap());
        static TOKEN: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| ISSUER.issue(&request(), now()).unwrap().into_exposed());
        proptest::prop_assert!(ISSUER.verify(&text, None, now()).is_err());
        proptest::prop_assert!(ISSUER.verify(&dotted, None, now()).is_err());
        let _ = BootstrapToken::parse(&text);
        let mut changed = TOKEN.clone();
        if changed.get(at..=at).is_some_and(|old| old != with) {
            changed.replace_range(at..=at, &with);
            proptest::prop_assert!(ISSUER.verify(&changed, None, now()).is_err());
        }
    }
}
