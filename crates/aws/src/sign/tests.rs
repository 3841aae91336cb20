//! Against the values that AWS publishes: its test suite for Signature Version 4 (region us-east-1, service
//! `service`, 2015-08-30T12:36:00Z), and the examples in the documentation of S3.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;

use super::{Signable, headers};

const ACCESS_KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn signature(signed: &[(String, String)]) -> String {
    let authorization = &signed.iter().find(|(name, _)| name == "authorization").unwrap().1;
    authorization.split("Signature=").nth(1).unwrap().to_owned()
}

/// A case of the suite, signed with headers.
struct Case {
    method: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    token: Option<&'static str>,
    /// Paths as they are and the hash of the body as a header: as S3 is signed.
    s3: bool,
    signature: &'static str,
}

const GET: Case =
    Case { method: "GET", path: "/", headers: &[], body: "", token: None, s3: false, signature: VANILLA };
const POST: Case = Case {
    method: "POST",
    signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ..GET
};
const VANILLA: &str = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
const FORM: &str = "application/x-www-form-urlencoded";

/// Left out is what nothing of ours does: headers that are sent several times or on several lines, and paths that are not
/// encoded before they are signed.
#[rustfmt::skip]
const SUITE: &[Case] = &[
    GET,
    POST,
    // What normalization takes away does not count.
    Case { path: "/example/..", ..GET },
    Case { path: "/example1/example2/../..", ..GET },
    Case { path: "/./", ..GET },
    Case { path: "//", ..GET },
    Case { path: "/./example", signature: "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5", ..GET },
    Case { path: "//example//", signature: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84", ..GET },
    Case { path: "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", signature: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f", ..GET },
    Case { path: "/?Param1=value1", signature: "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb", ..GET },
    Case { path: "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", signature: "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac", ..GET },
    Case { path: "/?Param2=value2&Param1=value1", signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", ..GET },
    Case { path: "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", signature: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197", ..GET },
    Case { path: "/?%E1%88%B4=bar", signature: "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04", ..GET },
    Case { headers: &[("my-header1", "value1"), ("my-header2", "\"a   b   c\"")], signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736", ..GET },
    Case { token: Some("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"), signature: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8", ..GET },
    Case { headers: &[("my-header1", "value1")], signature: "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c", ..POST },
    Case { headers: &[("my-header1", "VALUE1")], signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d", ..POST },
    Case { token: Some("AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="), signature: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", ..POST },
    Case { path: "/?Param1=value1", signature: "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11", ..POST },
    Case { headers: &[("content-type", FORM)], body: "Param1=value1", signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a", ..POST },
    // These two sign the hash of the body and the length as headers.
    Case { headers: &[("content-type", FORM), ("content-length", "13")], body: "Param1=value1", s3: true, signature: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b", ..POST },
    Case { headers: &[("content-type", "application/x-www-form-urlencoded; charset=utf-8"), ("content-length", "13")], body: "Param1=value1", s3: true, signature: "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422", ..POST },
];

#[test]
fn the_published_suite() {
    for Case { method, path, headers: given, body, token, s3, signature: expected } in SUITE {
        let given: Vec<_> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let url = format!("https://example.amazonaws.com{path}");
        let request = Signable {
            method,
            url: &url,
            headers: &given,
            body: body.as_bytes(),
            region: "us-east-1",
            name: "service",
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160),
            s3: *s3,
            unsigned_payload: false,
        };
        let token = token.map(str::to_owned);
        let signed = headers(&request, &Credentials::new(ACCESS_KEY, SECRET, token, None, "test")).unwrap();
        assert_eq!(signature(&signed), *expected, "{method} {path} {given:?}");
    }
}

/// The example "Get Object" in the documentation of S3.
#[test]
fn s3_signs_the_hash_of_the_body() {
    let given = vec![
        ("host".to_owned(), "examplebucket.s3.amazonaws.com".to_owned()),
        ("range".to_owned(), "bytes=0-9".to_owned()),
    ];
    let request = Signable {
        method: "GET",
        url: "https://examplebucket.s3.amazonaws.com/test.txt",
        headers: &given,
        body: b"",
        region: "us-east-1",
        name: "s3",
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600),
        s3: true,
        unsigned_payload: false,
    };
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None, None, "test");
    let signed = headers(&request, &credentials).unwrap();
    assert_eq!(signature(&signed), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    let unsigned = Signable { unsigned_payload: true, ..request };
    let signed = headers(&unsigned, &credentials).unwrap();
    assert!(signed.iter().any(|(name, value)| name == "x-amz-content-sha256" && value == "UNSIGNED-PAYLOAD"));
}

#[test]
fn a_session_token_is_signed_and_sent() {
    let request = Signable {
        method: "GET",
        url: "https://example.amazonaws.com/",
        headers: &[],
        body: b"",
        region: "us-east-1",
        name: "service",
        time: SystemTime::UNIX_EPOCH,
        s3: false,
        unsigned_payload: false,
    };
    let credentials = Credentials::new(ACCESS_KEY, SECRET, Some("token".to_owned()), None, "test");
    let signed = headers(&request, &credentials).unwrap();
    assert!(signed.iter().any(|(name, value)| name == "x-amz-security-token" && value == "token"));
    let authorization = &signed.iter().find(|(name, _)| name == "authorization").unwrap().1;
    assert!(authorization.contains("x-amz-security-token"));
}
