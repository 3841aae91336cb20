//! Two control planes with the same names in them, and every way we know to get from one into the other.
//!
//! Each attempt is refused with 400, 401, 403, 404 or 421, or stays where its credentials are from; and never
//! does an answer hold a byte that only the other control plane has.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod client;
mod connections;
mod identity;
mod neighbours;
mod rights;
mod world;

use auth::pki::Authority;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::{Answer, Connection, Credential, Door};
use serde_json::json;
use world::{DOMAIN, HOUR, NOTE, Tenant, World, body};

const CONFIG_MAPS: &str = "/api/v1/namespaces/team/configmaps";

/// One request of each sort: method, path, body.
const REQUESTS: [(&str, &str, &str); 16] = [
    ("GET", NOTE, ""),
    ("GET", "/api/v1/secrets", ""),
    ("GET", "/api/v1/configmaps?watch=1&resourceVersion=1&timeoutSeconds=1", ""),
    ("GET", "/api/v1/watch/configmaps?timeoutSeconds=1", ""),
    (
        "GET",
        "/api/v1/configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=1&timeoutSeconds=1",
        "",
    ),
    ("POST", CONFIG_MAPS, r#"{"metadata": {"name": "intruder"}}"#),
    ("PUT", NOTE, r#"{"metadata": {"name": "note"}, "data": {"text": "intruder"}}"#),
    ("PATCH", NOTE, r#"{"data": {"text": "intruder"}}"#),
    ("DELETE", NOTE, ""),
    ("DELETE", CONFIG_MAPS, ""),
    ("POST", "/api/v1/namespaces/team/serviceaccounts/robot/token", "{}"),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"),
    ("GET", "/apis", ""),
    ("GET", "/openapi/v2", ""),
    ("GET", "/metrics", ""),
    ("GET", "/version", ""),
];

fn assert_refused(answer: &Answer, others: &[&Tenant], attempt: &str) {
    assert!(matches!(answer.code, 400 | 401 | 403 | 404 | 421), "{attempt}: {}", answer.text);
    assert_silent(answer, others, attempt);
}

/// Nothing in the answer is of another control plane.
fn assert_silent(answer: &Answer, others: &[&Tenant], attempt: &str) {
    for other in others {
        assert!(
            !answer.text.contains(&other.mark),
            "{attempt} shows what is {}'s: {}",
            other.name,
            answer.text
        );
    }
}

/// The answer is the note of this control plane.
fn assert_own(answer: &Answer, own: &Tenant, attempt: &str) {
    assert_eq!(answer.code, 200, "{attempt}: {}", answer.text);
    assert!(answer.text.contains(&own.mark), "{attempt}: {}", answer.text);
}

/// Nothing in the control plane was changed.
async fn assert_untouched(world: &World, tenant: &Tenant) {
    let listed =
        world.network.ask(&world.by_path(tenant.name), &tenant.credentials[0], "GET", CONFIG_MAPS, "").await;
    let items = body(&listed)["items"].as_array().unwrap().clone();
    assert_eq!(
        items.iter().filter(|item| item["data"]["text"] == tenant.mark.as_str()).count(),
        4,
        "{}",
        tenant.name
    );
    assert!(!listed.text.contains("intruder"), "{}", listed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_credentials_open_every_door_of_ones_own() {
    let (world, tenants) = World::with_tenants().await;
    for tenant in &tenants {
        for door in world.doors(tenant.name) {
            for credential in &tenant.credentials {
                let attempt = format!("{} at {door:?}", credential.what);
                assert_own(&world.network.ask(&door, credential, "GET", NOTE, "").await, tenant, &attempt);
                let answer = world.network.open(&door, credential).await.ask("GET", NOTE, "").await;
                assert_own(&answer, tenant, &attempt);
            }
            // Known, and allowed nothing: what the refusals below must not be mistaken for.
            assert_eq!(world.network.ask(&door, &tenant.weak, "GET", NOTE, "").await.code, 403);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_another_open_nothing() {
    let (world, tenants) = World::with_tenants().await;
    for own in &tenants {
        for other in tenants.iter().filter(|other| other.name != own.name) {
            for door in world.doors(other.name) {
                for credential in &own.credentials {
                    let mut connection = world.network.open(&door, credential).await;
                    for (method, path, body) in REQUESTS {
                        let answer = connection.ask(method, path, body).await;
                        let attempt = format!("{} at {door:?}: {method} {path}", credential.what);
                        assert_eq!(answer.code, 401, "{attempt}: {}", answer.text);
                        assert_silent(&answer, &[other], &attempt);
                    }
                }
            }
        }
    }
    // A token counts before a certificate, and a wrong one is not forgiven for a good certificate of another.
    let [_, a, b] = &tenants;
    let both = Credential { token: a.credentials[1].token.clone(), ..a.credentials[0].clone() };
    assert_eq!(world.network.ask(&world.by_name("b"), &both, "GET", NOTE, "").await.code, 401);
    for tenant in [a, b] {
        assert_untouched(&world, tenant).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_nothing() {
    let (world, tenants) = World::with_tenants().await;
    for tenant in &tenants {
        for door in world.doors(tenant.name) {
            let mut connection = world.network.open(&door, &Credential::nobody()).await;
            for (method, path, body) in REQUESTS.iter().filter(|(_, path, _)| *path != "/version") {
                let answer = connection.ask(method, path, body).await;
                assert_refused(&answer, &[tenant], &format!("nobody at {door:?}: {method} {path}"));
            }
        }
        assert_untouched(&world, tenant).await;
    }
}

/// A request that is refused by its head has a body all the same: the connection goes on behind it, or says that it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_is_no_next_request() {
    let (world, [_, a, _]) = World::with_tenants().await;
    let door = world.by_path("a");
    let (host, prefix) = (&door.host, &door.prefix);
    let put = |headers: &str, body: String| {
        format!(
            "PUT {prefix}{NOTE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer x\r\n{headers}\r\n\r\n{body}"
        )
    };
    let sized = |size: usize| put(&format!("Content-Length: {size}"), "x".repeat(size));
    let chunked = |size: usize| {
        put("Transfer-Encoding: chunked", format!("{size:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(size)))
    };
    let waiting = put("Content-Length: 10\r\nExpect: 100-continue", String::new());
    for (what, first, goes_on) in [
        ("a short body", sized(100), true),
        ("a body of some packets", sized(200 << 10), true),
        ("a short body in pieces", chunked(100), true),
        ("a long body", sized(4 << 20), false),
        ("a long body in pieces", chunked(4 << 20), false),
        ("a body that nobody asked for", waiting, false),
    ] {
        let requests = [first, sized(1)];
        let answers = world.network.kept(&door, &Credential::nobody(), &requests).await;
        let codes: Vec<u16> = answers.iter().map(|answer| answer.code).collect();
        assert_eq!(codes, if goes_on { vec![401, 401] } else { vec![401] }, "{what}");
    }
    assert_untouched(&world, &a).await;
}

/// Paths that look as if they led from `a` to `b`. `{note}` is the path of the note.
const PATHS: [&str; 46] = [
    "/control-planes/b{note}",
    "/control-planes/a/../b{note}",
    "/control-planes/a/%2e%2e/b{note}",
    "/control-planes/a/%2E%2E/b{note}",
    "/control-planes/a/.%2e/b{note}",
    "/control-planes/a/%252e%252e/b{note}",
    "/control-planes/a/..%2fb{note}",
    "/control-planes/a/..%2Fb{note}",
    "/control-planes/a%2f..%2fb{note}",
    "/control-planes/a%2f%2e%2e%2fb{note}",
    "/control-planes/a/..;/b{note}",
    "/control-planes/a;/../b{note}",
    "/control-planes/./b{note}",
    "/control-planes//b{note}",
    "//control-planes/b{note}",
    "///control-planes///b{note}",
    "/./control-planes/b{note}",
    "/../control-planes/b{note}",
    "/x/../control-planes/b{note}",
    "/control-planes/a//control-planes/b{note}",
    "/control-planes/a/control-planes/b{note}",
    "/control-planes/a/control-planes/a/../../control-planes/b{note}",
    "/control-planes/B{note}",
    "/Control-Planes/b{note}",
    "/CONTROL-PLANES/B{note}",
    "/control-planes/b.{note}",
    "/control-planes/.b{note}",
    "/control-planes/b%2e{note}",
    "/control-planes/b%20{note}",
    "/control-planes/b%00{note}",
    "/control-planes/%00b{note}",
    "/control-planes/a%00b{note}",
    "/control-planes/%62{note}",
    "/control%2dplanes/b{note}",
    "/control-planes%2fb{note}",
    "%2fcontrol-planes/b{note}",
    "/control-planes/a\\..\\b{note}",
    "/control-planes\\b{note}",
    "/control-planes/a/api/../../b{note}",
    "/control-planes/a/api/v1/namespaces/../../../../b{note}",
    "/control-planes/a/api/v1/namespaces/team/configmaps/..%2f..%2f..%2f..%2f..%2f..%2fb{note}",
    "/control-planes/b.hangar.test{note}",
    "/control-planes/b@a{note}",
    "/control-planes/a,b{note}",
    "/control-planes/{note}",
    "/control-planes{note}",
];

#[tokio::test(flavor = "multi_thread")]
async fn paths_lead_nowhere_else() {
    let (world, tenants) = World::with_tenants().await;
    let [host, a, b] = &tenants;
    let address = world.network.address;
    let mut credentials: Vec<Credential> = a.credentials.clone();
    credentials.push(Credential::nobody());
    for path in PATHS {
        let path = path.replace("{note}", NOTE);
        for credential in &credentials {
            for (server_name, name) in
                [(None, address.to_string()), (Some("localhost"), "localhost".to_owned())]
            {
                let head = format!("GET {path} HTTP/1.1\r\nHost: {name}");
                let answer = world.network.raw(server_name, credential, &head, "").await;
                assert_refused(&answer, &[host, b], &format!("{}: {path} at {name}", credential.what));
            }
            // Behind a door by name, the path cannot lead out of the control plane either.
            let server_name = format!("a.{DOMAIN}");
            let head = format!("GET {path} HTTP/1.1\r\nHost: {server_name}");
            let answer = world.network.raw(Some(&server_name), credential, &head, "").await;
            assert_refused(&answer, &[host, b], &format!("{}: {path} at {server_name}", credential.what));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_odd_bytes_stay_within_the_control_plane() {
    let (world, tenants) = World::with_tenants().await;
    let [host, a, b] = &tenants;
    let odd = [
        "%00",
        "%01",
        "%ff",
        "%C0%80",
        "..",
        "%2e%2e",
        "*",
        "%25",
        "team%00",
        "team%00%00note",
        "%2f",
        "a/../../b",
        "%F4%8F%BF%BF",
    ];
    for odd in odd {
        for path in [
            format!("/api/v1/namespaces/{odd}/configmaps"),
            format!("/api/v1/namespaces/{odd}/configmaps/note"),
            format!("/api/v1/namespaces/team/configmaps/{odd}"),
            format!("/api/v1/namespaces/team/{odd}/note"),
            format!("/api/v1/{odd}"),
            format!("/apis/{odd}/v1/configmaps"),
            format!("/api/v1/configmaps?fieldSelector=metadata.namespace={odd}"),
            format!("/api/v1/configmaps?fieldSelector=metadata.name={odd}"),
        ] {
            let answer = world.network.ask(&world.by_name("a"), &a.credentials[0], "GET", &path, "").await;
            assert_silent(&answer, &[host, b], &path);
            assert!(matches!(answer.code, 200 | 400 | 403 | 404 | 405), "{path}: {}", answer.text);
        }
    }
    for odd in ["%00", "*"] {
        let path = format!(
            "/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.namespace={odd}"
        );
        let answer = world.network.ask(&world.by_name("a"), &a.credentials[0], "GET", &path, "").await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        assert_silent(&answer, &[host, a, b], &path);
    }
    // Names in bodies are looked up before they are known to be names.
    let pod = |field: &str, name: &str| {
        let mut pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pod["spec"][field] = name.into();
        ("/api/v1/namespaces/team/pods", pod)
    };
    for name in ["\0", "team\0robot", ""] {
        let bound = json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": name}}});
        for (path, object) in [
            pod("serviceAccountName", &format!("{name}\0")),
            pod("priorityClassName", &format!("{name}\0")),
            pod("runtimeClassName", &format!("{name}\0")),
            (
                "/api/v1/namespaces/team/bindings",
                json!({"metadata": {"name": name}, "target": {"name": name}}),
            ),
            ("/api/v1/namespaces/team/serviceaccounts/robot/token", bound),
        ] {
            let answer = world
                .network
                .ask(&world.by_name("a"), &a.credentials[0], "POST", path, &object.to_string())
                .await;
            assert!((400..500).contains(&answer.code), "{path} {object}: {}", answer.text);
            assert_silent(&answer, &[host, b], path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handshake_decides() {
    let (world, tenants) = World::with_tenants().await;
    let [host, a, b] = &tenants;
    let (name_of_a, name_of_b, port) =
        (format!("a.{DOMAIN}"), format!("b.{DOMAIN}"), world.network.address.port());
    // With b's own credentials too: a connection for one control plane never serves another.
    for credential in a.credentials.iter().chain(&b.credentials) {
        for host_header in [
            format!("Host: {name_of_b}"),
            format!("Host: {name_of_b}:{port}"),
            format!("Host: B.{DOMAIN}."),
            format!("Host: {name_of_b}\r\nHost: {name_of_a}"),
        ] {
            let head = format!("GET {NOTE} HTTP/1.1\r\n{host_header}");
            let answer = world.network.raw(Some(&name_of_a), credential, &head, "").await;
            assert_refused(&answer, &[host, a, b], &format!("{}: {head}", credential.what));
        }
        let absolute = format!("GET https://{name_of_b}{NOTE} HTTP/1.1\r\nHost: {name_of_a}");
        let answer = world.network.raw(Some(&name_of_a), credential, &absolute, "").await;
        assert_refused(&answer, &[host, a, b], &absolute);
        let foreign = world
            .network
            .raw(Some("localhost"), credential, &format!("GET {NOTE} HTTP/1.1\r\nHost: {name_of_b}"), "")
            .await;
        assert_refused(&foreign, &[host, a, b], "localhost in the handshake, b in the request");

        let mut connection = world.network.open(&world.by_name("a"), credential).await;
        for (authority, headers) in
            [(name_of_b.as_str(), vec![]), (name_of_b.as_str(), vec![("host", name_of_a.as_str())])]
        {
            let answer = connection.send("GET", authority, NOTE, &headers, "").await;
            assert_eq!(answer.code, 421, "{}", answer.text);
            assert_silent(&answer, &[host, a, b], &format!("{authority} {headers:?}"));
        }
    }
    // Two hosts are an attempt to have two parties read different ones.
    for second in ["Host: b.hangar.test", "Host: a.hangar.test", "host: localhost"] {
        let head = format!("GET {NOTE} HTTP/1.1\r\nHost: a.hangar.test\r\n{second}");
        let answer = world.network.raw(Some(&name_of_a), &a.credentials[0], &head, "").await;
        assert_eq!(answer.code, 400, "{second}: {}", answer.text);
    }
    // What a request says of its host, without contradicting the handshake's name, changes nothing.
    let own = &a.credentials[0];
    for header in ["Host: localhost", "Host: 10.0.0.1", "Host: example.com", "Host: "] {
        let head = format!("GET {NOTE} HTTP/1.1\r\n{header}");
        let answer = world.network.raw(Some(&name_of_a), own, &head, "").await;
        assert_silent(&answer, &[host, b], header);
        assert!(matches!(answer.code, 200 | 400 | 421), "{header}: {}", answer.text);
    }
    let mut connection = world.network.open(&world.by_name("a"), own).await;
    let answer = connection.send("GET", &name_of_a, NOTE, &[("host", name_of_b.as_str())], "").await;
    assert_silent(&answer, &[host, b], "HTTP/2 with a second host");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_cannot_choose_who_or_where() {
    let (world, tenants) = World::with_tenants().await;
    let [host, a, b] = &tenants;
    const CLAIMS: [(&str, &str); 18] = [
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("X-Remote-Extra-Scopes", "all"),
        ("X-Forwarded-User", "admin"),
        ("X-Forwarded-Host", "b.hangar.test"),
        ("X-Forwarded-Prefix", "/control-planes/b"),
        ("X-Forwarded-Client-Cert", "Subject=\"CN=admin,O=system:masters\""),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-SSL-Client-S-DN", "CN=admin,O=system:masters"),
        ("X-Original-URL", "/control-planes/b/api/v1/secrets"),
        ("X-Rewrite-URL", "/control-planes/b/api/v1/secrets"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Hangar-Control-Plane", "b"),
        ("X-Kubernetes-Cluster", "b"),
        ("Door", "b"),
        ("Identity", "system:apiserver"),
        ("Forwarded", "host=b.hangar.test;proto=https"),
        ("Cookie", "control-plane=b"),
    ];
    for (name, value) in CLAIMS {
        for door in world.doors("b") {
            let mut connection = world.network.open(&door, &Credential::nobody()).await;
            let authority = door.host.clone();
            let answer = connection.send("GET", &authority, NOTE, &[(name, value)], "").await;
            assert_eq!(answer.code, 403, "{name}: {}", answer.text);
            assert!(answer.text.contains("system:anonymous"), "{name}: {}", answer.text);
        }
        for door in world.doors("a") {
            let mut connection = world.network.open(&door, &a.credentials[0]).await;
            let authority = door.host.clone();
            let answer = connection.send("GET", &authority, NOTE, &[(name, value)], "").await;
            assert_own(&answer, a, name);
            assert_silent(&answer, &[host, b], name);
        }
    }
    // All at once, and all of them for somebody who is known and may nothing.
    let mut connection = world.network.open(&world.by_name("b"), &b.weak).await;
    assert_eq!(connection.send("GET", "b.hangar.test", NOTE, &CLAIMS, "").await.code, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_as_somebody_needs_a_right_in_that_control_plane() {
    let (world, tenants) = World::with_tenants().await;
    let [_, a, b] = &tenants;
    let as_master = [("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")];
    let as_robot = [("Impersonate-User", "system:serviceaccount:team:robot")];
    let as_uid = [("Impersonate-User", "admin"), ("Impersonate-Uid", "1")];
    for headers in [&as_master[..], &as_robot[..], &as_uid[..], &as_master[1..]] {
        for door in world.doors("b") {
            let authority = door.host.clone();
            let cases = a.credentials.iter().map(|credential| (credential, 401));
            // Somebody whom b knows, but to whom it gave no such right, and nobody.
            let nobody = Credential::nobody();
            for (credential, code) in cases.chain([(&b.weak, 403), (&nobody, 403)]) {
                let mut connection = world.network.open(&door, credential).await;
                let answer = connection.send("GET", &authority, NOTE, headers, "").await;
                let attempt = format!("{} as {headers:?} at {door:?}", credential.what);
                assert_refused(&answer, &[b], &attempt);
                // A group without a user is no impersonation at all, but a bad request.
                assert!(
                    answer.code == code || headers.len() == 1 && code == 403,
                    "{attempt}: {}",
                    answer.text
                );
            }
        }
    }
    let mut connection = world.network.open(&world.by_name("b"), &b.credentials[0]).await;
    let answer = connection.send("GET", "b.hangar.test", NOTE, &as_robot, "").await;
    assert_own(&answer, b, "b's own administrator may");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_credentials_are_refused() {
    let (world, tenants) = World::with_tenants().await;
    let [_, a, b] = &tenants;
    let now = jiff::Timestamp::now();
    let fake = Authority::generate("hangar-b", now, HOUR).unwrap();
    let forged = world.master(&fake, now);
    let real_authority = b.plane.authority.certificate_pem();
    assert!(subject_is_the_same(&fake, &b.plane.authority), "the forgery has to look like the real one");
    let chain = |chain: &[&str]| Credential {
        what: "a forged chain".to_owned(),
        certificate: Some((chain.concat(), forged.key.expose().clone())),
        token: None,
    };
    let payload = b.credentials[1].token.clone().unwrap();
    let (head, rest) = payload.split_once('.').unwrap();
    let (claims, signature) = rest.rsplit_once('.').unwrap();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let symmetric = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let foreign_head = a.credentials[1].token.clone().unwrap().split_once('.').unwrap().0.to_owned();
    let foreign_signature = a.credentials[1].token.clone().unwrap().rsplit_once('.').unwrap().1.to_owned();
    let swapped = URL_SAFE_NO_PAD.decode(claims).unwrap();
    let swapped = String::from_utf8(swapped).unwrap().replace("robot", "r0b0t");
    let swapped = URL_SAFE_NO_PAD.encode(swapped);
    let bootstrap = b.credentials[3].token.clone().unwrap();
    let old = now - jiff::SignedDuration::from_hours(3);
    let soon = now + jiff::SignedDuration::from_hours(1);
    let server = b.plane.authority.issue_server(&["admin"], &[], now, HOUR).unwrap();
    let attempts = [
        Credential::certificate("of an authority of the same name", &forged),
        chain(&[&forged.certificate, &fake.certificate_pem()]),
        chain(&[&forged.certificate, &fake.certificate_pem(), &real_authority]),
        chain(&[&forged.certificate, &real_authority]),
        chain(&[&forged.certificate, &b.credentials[0].certificate.as_ref().unwrap().0, &real_authority]),
        Credential::certificate("the forged authority itself", &fake.to_pem()),
        Credential::certificate("of the serving authority", &world.master(&world.serving, now)),
        Credential::certificate("expired", &world.master(&b.plane.authority, old)),
        Credential::certificate("not valid yet", &world.master(&b.plane.authority, soon)),
        Credential::certificate("for servers only", &server),
        Credential::token("unsigned", format!("{none}.{claims}.")),
        Credential::token("unsigned, with a signature", format!("{none}.{claims}.{signature}")),
        Credential::token("signed by a secret", format!("{symmetric}.{claims}.{signature}")),
        Credential::token("with the key of a", format!("{foreign_head}.{claims}.{signature}")),
        Credential::token("with the signature of a", format!("{head}.{claims}.{foreign_signature}")),
        Credential::token("with other claims", format!("{head}.{swapped}.{signature}")),
        Credential::token("cut short", &payload[..payload.len() - 2]),
        Credential::token("a bootstrap token with a wrong secret", "abcdef.0123456789abcdef"),
        Credential::token("half a bootstrap token", &bootstrap[..bootstrap.len() - 1]),
        Credential::token("not a token", "b"),
        Credential::token("a name", "system:masters"),
    ];
    for credential in &attempts {
        for door in world.doors("b") {
            let answer = world.network.ask(&door, credential, "GET", NOTE, "").await;
            assert_eq!(answer.code, 401, "{} at {door:?}: {}", credential.what, answer.text);
            assert_silent(&answer, &[b], &credential.what);
        }
    }
    for door in world.doors("b") {
        assert_own(&world.network.ask(&door, &b.credentials[1], "GET", NOTE, "").await, b, "the real one");
    }
}

fn subject_is_the_same(one: &Authority, other: &Authority) -> bool {
    let name = b"hangar-b";
    let has =
        |authority: &Authority| authority.certificate_der().windows(name.len()).any(|bytes| bytes == name);
    has(one) && has(other)
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_of_another_are_worth_nothing() {
    let (world, tenants) = World::with_tenants().await;
    let [host, a, b] = &tenants;
    let (door, own) = (world.by_name("b"), &b.credentials[0]);
    let continued = |token: &str| format!("{CONFIG_MAPS}?limit=1&continue={token}");
    let good = world.network.ask(&door, own, "GET", &continued(&b.continue_token), "").await;
    assert_own(&good, b, "b's own page");
    let foreign = world.network.ask(&door, own, "GET", &continued(&a.continue_token), "").await;
    assert_eq!(foreign.code, 400, "{}", foreign.text);
    // Tokens are no secret: whoever writes their own still gets no further than their own control plane.
    for (namespace, name) in [
        ("team", "note"),
        ("", ""),
        ("\u{0}", ""),
        ("team", "\u{0}"),
        ("\u{10ffff}", "\u{10ffff}"),
        ("../a", "x"),
    ] {
        for tenant in [host, a, b] {
            let place = json!({"v": 1, "t": tenant.plane.id.0, "r": b.revision, "ns": namespace, "n": name});
            let token = URL_SAFE_NO_PAD.encode(place.to_string());
            for path in [continued(&token), format!("/api/v1/configmaps?limit=500&continue={token}")] {
                let answer = world.network.ask(&door, own, "GET", &path, "").await;
                assert_silent(&answer, &[host, a], &format!("{place}"));
                assert!(
                    answer.code == 400 || tenant.name == "b" && answer.code == 200,
                    "{place}: {}",
                    answer.text
                );
            }
        }
    }
    // A revision is a number; here it is b's, whoever it was told to.
    for query in
        ["watch=1&timeoutSeconds=1", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"]
    {
        for revision in [1, a.revision, host.revision] {
            let path = format!("/api/v1/configmaps?{query}&resourceVersion={revision}");
            let answer = world.network.ask(&door, own, "GET", &path, "").await;
            assert_silent(&answer, &[host, a], &path);
        }
    }
    // While b watches everything, a writes.
    let watching = {
        let (network, door, own) = (world.network.clone(), door.clone(), own.clone());
        tokio::spawn(async move {
            network.ask(&door, &own, "GET", "/api/v1/configmaps?watch=1&timeoutSeconds=2", "").await
        })
    };
    for (tenant, name) in [(a, "during"), (b, "during"), (host, "during")] {
        let object = json!({"metadata": {"name": name}, "data": {"text": tenant.mark}}).to_string();
        let door = world.by_path(tenant.name);
        assert_eq!(
            world.network.ask(&door, &tenant.credentials[0], "POST", CONFIG_MAPS, &object).await.code,
            201
        );
    }
    let seen = watching.await.unwrap();
    assert_silent(&seen, &[host, a], "a watch of everything");
    assert!(seen.text.contains("during"), "b's own write is seen: {}", seen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_deleted_control_plane() {
    let (world, [_, a, old]) = World::with_tenants().await;
    let watching = {
        let (network, door, own) = (world.network.clone(), world.by_name("b"), old.credentials[0].clone());
        tokio::spawn(async move {
            network.ask(&door, &own, "GET", "/api/v1/configmaps?watch=1&resourceVersion=0", "").await
        })
    };
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    // Connections that outlive it.
    let mut kept: Vec<Connection> = Vec::new();
    for credential in &old.credentials {
        let mut connection = world.network.open(&world.by_name("b"), credential).await;
        assert_own(&connection.ask("GET", NOTE, "").await, &old, &credential.what);
        kept.push(connection);
    }
    assert!(world.engine.delete_control_plane("b").await.unwrap());
    let watched = watching.await.unwrap();
    assert!(watched.text.contains(&old.mark), "its watch saw it and has ended: {}", watched.text);
    for door in world.doors("b") {
        for credential in &old.credentials {
            let answer = world.network.ask(&door, credential, "GET", NOTE, "").await;
            assert_eq!(answer.code, 401, "{} at {door:?}: {}", credential.what, answer.text);
        }
    }

    let new = world.tenant("b").await;
    assert_ne!(new.plane.id, old.plane.id);
    for credential in &old.credentials {
        for door in world.doors("b") {
            for (method, path, body) in REQUESTS {
                let answer = world.network.ask(&door, credential, method, path, body).await;
                assert_eq!(
                    answer.code, 401,
                    "{} at {door:?}: {method} {path}: {}",
                    credential.what, answer.text
                );
            }
        }
    }
    for connection in &mut kept {
        let answer = connection.ask("GET", NOTE, "").await;
        assert_eq!(answer.code, 401, "a connection from before: {}", answer.text);
    }
    let (door, own) = (world.by_name("b"), &new.credentials[0]);
    for path in [
        NOTE.to_owned(),
        "/api/v1/configmaps".to_owned(),
        "/api/v1/secrets".to_owned(),
        "/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion=1".to_owned(),
        format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={}", old.revision),
        format!("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion={}", old.revision),
        format!("{CONFIG_MAPS}?limit=1&continue={}", old.continue_token),
    ] {
        let answer = world.network.ask(&door, own, "GET", &path, "").await;
        assert_silent(&answer, &[&old, &a], &path);
    }
    let page = world
        .network
        .ask(&door, own, "GET", &format!("{CONFIG_MAPS}?continue={}", old.continue_token), "")
        .await;
    assert_eq!(page.code, 400, "{}", page.text);
    assert_untouched(&world, &new).await;
    assert_untouched(&world, &a).await;
}

/// Whoever is asked for while it is being deleted and made again is, in the end, the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_made_again_while_it_is_asked_for() {
    let (world, [_, _, mut last]) = World::with_tenants().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let (network, door, stop) = (world.network.clone(), world.by_name("b"), stop.clone());
            let credential = last.credentials[0].clone();
            tokio::spawn(async move {
                let mut connection = network.open(&door, &credential).await;
                let mut codes = std::collections::BTreeSet::new();
                while !stop.is_cancelled() {
                    codes.insert(connection.ask("GET", NOTE, "").await.code);
                }
                codes
            })
        })
        .collect();
    for _ in 0..15 {
        assert!(world.engine.delete_control_plane("b").await.unwrap());
        let door = world.by_path("b");
        let gone = world.network.ask(&door, &last.credentials[0], "GET", NOTE, "").await;
        assert_eq!(gone.code, 401, "{}", gone.text);
        last = world.tenant("b").await;
        let own: Door = world.by_name("b");
        assert_own(
            &world.network.ask(&own, &last.credentials[0], "GET", NOTE, "").await,
            &last,
            "the new one",
        );
    }
    stop.cancel();
    for asker in askers {
        let codes = asker.await.unwrap();
        // 503 is for a request that found one that was gone when it came to read it: it is to be tried again.
        assert!(codes.iter().all(|code| matches!(code, 200 | 401 | 503)), "{codes:?}");
    }
}
