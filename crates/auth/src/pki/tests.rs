use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::request::{Request, RequestError, Signer};
use super::*;
use crate::UserInfo;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn later(hours: i64) -> Timestamp {
    now() + SignedDuration::from_hours(hours)
}

fn authority() -> Authority {
    Authority::generate("tenant-a", now(), 10 * YEAR).unwrap()
}

fn der(pem_text: &str) -> Vec<u8> {
    pem::parse(pem_text).unwrap().into_contents()
}

fn who(authority: &Authority, certificate: &str, at: Timestamp) -> Result<UserInfo, ClientCertificateError> {
    authority.verify_client(&[der(certificate)], at)
}

#[test]
fn a_client_is_who_the_certificate_says() {
    let authority = authority();
    let issued = authority.issue_client("jane", &["dev", "ops", "system:masters"], now(), YEAR).unwrap();
    let user = who(&authority, &issued.certificate, now()).unwrap();
    assert_eq!(user.name, "jane");
    assert_eq!(user.groups, ["dev", "ops", "system:masters", "system:authenticated"]);
    let credential = format!("X509SHA256={}", fingerprint(&der(&issued.certificate)));
    assert_eq!(user.extra[crate::user::EXTRA_CREDENTIAL_ID], [credential]);
    assert!(!format!("{issued:?} {authority:?}").contains("PRIVATE"));
}

#[test]
fn pem_round_trip_keeps_the_authority() {
    let first = authority();
    let pem = first.to_pem();
    let second = Authority::from_pem(&pem.certificate, pem.key.expose()).unwrap();
    let issued = second.issue_client("u", &["g"], now(), YEAR).unwrap();
    assert_eq!(who(&first, &issued.certificate, now()).unwrap().name, "u");

    let other = authority().to_pem();
    assert_eq!(Authority::from_pem(&pem.certificate, other.key.expose()).unwrap_err(), PkiError::OtherKey);
    assert_eq!(
        Authority::from_pem(&issued.certificate, issued.key.expose()).unwrap_err(),
        PkiError::NotAnAuthority
    );
    assert_eq!(Authority::from_pem("x", pem.key.expose()).unwrap_err(), PkiError::NotACertificate);
}

#[test]
fn refusals() {
    use ClientCertificateError::*;
    let authority = authority();
    let good = authority.issue_client("u", &["g"], now(), YEAR).unwrap().certificate;
    let check = |certificate: &str, at: Timestamp, expected: ClientCertificateError| {
        assert_eq!(who(&authority, certificate, at).unwrap_err(), expected);
    };
    check(&good, later(365 * 24 + 1), Expired);
    check(&good, later(-1), NotYetValid);
    let same_name = super::tests::authority();
    check(&same_name.issue_client("u", &["g"], now(), YEAR).unwrap().certificate, now(), UnknownAuthority);
    let server = authority.issue_server(&["localhost"], &[], now(), YEAR).unwrap().certificate;
    check(&server, now(), WrongUsage);
    check(&authority.certificate_pem(), now(), WrongUsage);
    check(&authority.issue_client("", &["g"], now(), YEAR).unwrap().certificate, now(), Nameless);
    assert_eq!(authority.verify_client(&[b"junk"], now()).unwrap_err(), Malformed);
    assert_eq!(authority.verify_client::<Vec<u8>>(&[], now()).unwrap_err(), Missing);
}

#[test]
fn nothing_outlives_the_authority() {
    let authority = Authority::generate("short", now(), Duration::from_secs(24 * 3600)).unwrap();
    let issued = authority.issue_client("u", &["g"], now(), YEAR).unwrap().certificate;
    assert!(who(&authority, &issued, later(23)).is_ok());
    assert_eq!(who(&authority, &issued, later(24)).unwrap_err(), ClientCertificateError::Expired);
    assert_eq!(
        authority.issue_client("u", &["g"], later(24), YEAR).unwrap_err(),
        PkiError::Expired(authority.not_after())
    );
}

#[test]
fn server_names() {
    let authority = authority();
    let issued = authority.issue_server(
        &["a.example.com", "*.b.example"],
        &["127.0.0.1".parse().unwrap()],
        now(),
        YEAR,
    );
    let der = CertificateDer::from(der(&issued.unwrap().certificate));
    let end_entity = webpki::EndEntityCert::try_from(&der).unwrap();
    for (name, expected) in
        [("a.example.com", true), ("x.b.example", true), ("127.0.0.1", true), ("c.example.com", false)]
    {
        let name_ref = rustls_pki_types::ServerName::try_from(name).unwrap();
        assert_eq!(end_entity.verify_is_valid_for_subject_name(&name_ref).is_ok(), expected, "{name}");
    }
    let bad = authority.issue_server(&["not a name"], &[], now(), YEAR).unwrap_err();
    assert_eq!(bad, PkiError::DnsName("not a name".to_owned()));
}

/// A request as kubectl users make it: signed by a fresh key.
fn request(common_name: &str, organizations: &[&str], names: Vec<GeneralName>) -> Vec<u8> {
    use der::Encode;
    use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};
    let key = SigningKey::generate().unwrap();
    let mut attributes = x509_cert::attr::Attributes::default();
    if !names.is_empty() {
        let names = extension(&x509_cert::ext::pkix::SubjectAltName(names), false).unwrap();
        attributes.insert(ExtensionReq(vec![names]).try_into().unwrap()).unwrap();
    }
    let subject = certificate::subject(common_name, organizations).unwrap();
    let info = CertReqInfo {
        version: Version::V1,
        subject: x509_cert::name::Name::from_der(&subject.to_der().unwrap()).unwrap(),
        public_key: x509_cert::spki::SubjectPublicKeyInfoOwned::from_der(&key.public_der().unwrap()).unwrap(),
        attributes,
    };
    let signature = key.sign(&info.to_der().unwrap()).unwrap();
    let algorithm = x509_cert::spki::AlgorithmIdentifierOwned {
        oid: der::asn1::ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"),
        parameters: None,
    };
    let signature = der::asn1::BitString::from_bytes(&signature).unwrap();
    CertReq { info, algorithm, signature }.to_der().unwrap()
}

#[test]
fn signed_requests() {
    let authority = authority();
    let csr = request("jane", &["dev", "ops"], Vec::new());
    let csr = Request::from_pem(pem_block("CERTIFICATE REQUEST", &csr).as_bytes()).unwrap();
    let sign = |expiration| {
        let usages = ["client auth", "digital signature"];
        authority.sign_request(Signer::ApiserverClient, &csr, &usages, expiration, now(), YEAR).unwrap()
    };
    let user = who(&authority, &sign(None), later(24 * 360)).unwrap();
    assert_eq!((user.name.as_str(), user.groups.len()), ("jane", 3));
    // An hour asked for is an hour given; a minute asked for is ten; a decade is the longest allowed.
    assert!(who(&authority, &sign(Some(3600)), now() + SignedDuration::from_mins(59)).is_ok());
    assert!(who(&authority, &sign(Some(3600)), now() + SignedDuration::from_mins(61)).is_err());
    assert!(who(&authority, &sign(Some(60)), now() + SignedDuration::from_mins(9)).is_ok());
    assert!(who(&authority, &sign(Some(i32::MAX)), later(24 * 366)).is_err());
}

#[test]
fn signers_check_requests() {
    use Signer::*;
    let dns = || vec![certificate::dns_name("n1").unwrap()];
    let ip = || vec![certificate::ip_address("10.0.0.1".parse().unwrap()).unwrap()];
    let client = ["client auth", "digital signature", "key encipherment"];
    let server = ["server auth", "digital signature"];
    let nodes: &[&str] = &["system:nodes"];
    let check = |signer: Signer,
                 name: &str,
                 groups: &[&str],
                 names: Vec<GeneralName>,
                 usages: &[&str],
                 expected: &str| {
        let csr = Request::from_der(&request(name, groups, names)).unwrap();
        let got = signer.check(&csr, usages).map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        assert_eq!(got, expected, "{signer:?} {name}");
    };
    check(ApiserverClient, "u", &[], vec![], &client, "ok");
    check(ApiserverClient, "u", &[], vec![], &server, "invalid usage for client certificate: server auth");
    check(
        ApiserverClient,
        "u",
        &[],
        vec![],
        &["digital signature"],
        "missing required usage for client certificate: client auth",
    );
    check(ApiserverClientKubelet, "system:node:n1", nodes, vec![], &client, "ok");
    check(ApiserverClientKubelet, "system:node:n1", nodes, vec![], &client[..2], "ok");
    check(
        ApiserverClientKubelet,
        "system:node:n1",
        nodes,
        vec![],
        &server,
        "usages did not match [client auth digital signature key encipherment]",
    );
    check(
        ApiserverClientKubelet,
        "n1",
        nodes,
        vec![],
        &client,
        "subject common name does not begin with system:node:",
    );
    let not_nodes = "subject organization is not system:nodes";
    check(ApiserverClientKubelet, "system:node:n1", &["system:nodes", "x"], vec![], &client, not_nodes);
    check(
        ApiserverClientKubelet,
        "system:node:n1",
        nodes,
        dns(),
        &client,
        "DNS subjectAltNames are not allowed",
    );
    check(
        ApiserverClientKubelet,
        "system:node:n1",
        nodes,
        ip(),
        &client,
        "IP subjectAltNames are not allowed",
    );
    check(KubeletServing, "system:node:n1", nodes, ip(), &server, "ok");
    check(KubeletServing, "system:node:n1", nodes, vec![], &server, "DNS or IP subjectAltName is required");
    check(LegacyUnknown, "anything", &[], dns(), &["code signing"], "ok");
}

#[test]
fn bad_requests() {
    let mut forged = request("system:masters", &[], Vec::new());
    let at = forged.windows(7).position(|window| window == b"masters").unwrap();
    forged[at] = b'M';
    assert_eq!(Request::from_der(&forged).unwrap_err(), RequestError::Signature);
    assert_eq!(Request::from_pem(b"junk").unwrap_err(), RequestError::NotARequest);
    assert!(matches!(Request::from_der(b"junk").unwrap_err(), RequestError::Malformed(_)));
    let csr = Request::from_der(&request("u", &[], Vec::new())).unwrap();
    let unknown = authority().sign_request(Signer::LegacyUnknown, &csr, &["flying"], None, now(), YEAR);
    assert_eq!(unknown.unwrap_err(), RequestError::UnknownUsages(vec!["flying".to_owned()]));
}

#[test]
fn approval() {
    use super::approval::{automatic, check_subject, may};
    use crate::rbac::PolicySnapshot;
    use serde_json::json;

    let policy = [
        json!({"kind": "ClusterRole", "metadata": {"name": "one"}, "rules": [
            {"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/a"]},
        ]}),
        json!({"kind": "ClusterRole", "metadata": {"name": "all"}, "rules": [
            {"verbs": ["sign"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"]},
        ]}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "one"}, "roleRef": {"kind": "ClusterRole", "name": "one"}, "subjects": [{"kind": "User", "name": "u"}]}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "all"}, "subjects": [{"kind": "User", "name": "u"}]}),
    ];
    let policy = PolicySnapshot::new(&policy);
    let user = UserInfo::new("u", ["g"]);
    for (verb, signer, expected) in [
        ("approve", "example.com/a", true),
        ("approve", "example.com/b", false),
        ("sign", "example.com/b", true),
        ("sign", "other.com/b", false),
    ] {
        assert_eq!(may(&policy, &user, verb, signer), expected, "{verb} {signer}");
    }

    let masters = Request::from_der(&request("me", &["system:masters"], Vec::new())).unwrap();
    assert!(check_subject("kubernetes.io/kube-apiserver-client", &masters).is_err());
    assert!(check_subject("example.com/a", &masters).is_ok());

    let node = Request::from_der(&request("system:node:n1", &["system:nodes"], Vec::new())).unwrap();
    let usages = ["client auth", "digital signature"];
    let ways = |signer: &str, requester: &str| -> Vec<String> {
        let ways = automatic(signer, &node, &usages, requester);
        ways.iter().map(|(attributes, _)| format!("{:?}", attributes.target)).collect()
    };
    let kubelet = Signer::ApiserverClientKubelet.name();
    assert_eq!(ways(kubelet, "system:node:n1").len(), 2);
    assert!(ways(kubelet, "system:bootstrap:abcdef")[0].contains("\"nodeclient\""));
    assert_eq!(ways(Signer::ApiserverClient.name(), "system:node:n1").len(), 0);
}

proptest::proptest! {
    /// Bytes from anywhere are refused, never a panic.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), at in 0usize..2000, byte in proptest::num::u8::ANY) {
        static AUTHORITY: std::sync::LazyLock<Authority> = std::sync::LazyLock::new(authority);
        static CERTIFICATE: std::sync::LazyLock<Vec<u8>> =
            std::sync::LazyLock::new(|| der(&AUTHORITY.issue_client("u", &["g"], now(), YEAR).unwrap().certificate));
        static REQUEST: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| request("u", &["g"], Vec::new()));
        let _ = Request::from_der(&bytes);
        let _ = Request::from_pem(&bytes);
        proptest::prop_assert!(AUTHORITY.verify_client(&[&bytes], now()).is_err());
        // One byte changed anywhere breaks the signature, or is no change at all.
        let mut changed = CERTIFICATE.clone();
        if let Some(place) = changed.get_mut(at) && *place != byte {
            *place = byte;
            proptest::prop_assert!(AUTHORITY.verify_client(&[&changed], now()).is_err());
        }
        let mut changed = REQUEST.clone();
        if let Some(place) = changed.get_mut(at) && *place != byte {
            *place = byte;
            proptest::prop_assert!(Request::from_der(&changed).is_err());
        }
    }
}
