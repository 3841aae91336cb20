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

#[test]
fn the_published_suite() {
    let check = |method: &str, path: &str, given: &[(&str, &str)], body: &str, expected: &str| {
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
            s3: false,
            unsigned_payload: false,
        };
        let signed = headers(&request, &Credentials::new(ACCESS_KEY, SECRET, None, None, "test")).unwrap();
        assert_eq!(signature(&signed), expected, "{method} {path}");
    };
    let vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    check("GET", "/", &[], "", vanilla);
    // What normalization takes away does not count.
    check("GET", "/example/..", &[], "", vanilla);
    check("GET", "/./", &[], "", vanilla);
    check("GET", "//", &[], "", vanilla);
    check("POST", "/", &[], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
    check(
        "GET",
        "/?Param2=value2&Param1=value1",
        &[],
        "",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    );
    check(
        "POST",
        "/",
        &[("content-type", "application/x-www-form-urlencoded")],
        "Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    );
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
