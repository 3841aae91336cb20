//! Control planes with the same in them, wherever each is kept, and what somebody who administers one would try to get into
//! the others. What is tried with names in handshakes and forged credentials stands in `crates/listener/tests/isolation`.

use end_to_end::{Answer, Client, Server};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, CONTROL_PLANES, admin, config_map, create, credentials, eventually, inside};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// One of them, with a word that is in none of the others.
struct Tenant {
    name: &'static str,
    word: String,
    admin: Client,
    /// Of an account that may do everything: one by request, and one that is kept in a Secret.
    tokens: [String; 2],
    robots: [Client; 2],
    /// Where a list of its maps goes on, and the revision it is of.
    next: String,
    revision: String,
}

impl Tenant {
    fn make(server: &Server, name: &'static str, spec: &Value) -> Tenant {
        create(server, name, spec);
        let admin = admin(server, name);
        let post = |path: &str, object: &Value| admin.post(&inside(name, path), object).ok();
        let account = "/api/v1/namespaces/default/serviceaccounts";
        post(account, &json!({"metadata": {"name": "robot"}}));
        post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &json!({
                "metadata": {"name": "robot"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
            }),
        );
        post(
            "/api/v1/namespaces/default/secrets",
            &json!({
                "metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "robot"}},
                "type": "kubernetes.io/service-account-token",
            }),
        );
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let made = post(&format!("{account}/robot/token"), &asked);
        let kept = eventually("the token is made", || {
            let secret = admin.get(&inside(name, "/api/v1/namespaces/default/secrets/kept")).ok();
            secret["data"]["token"].as_str().map(str::to_owned)
        });
        let kept = {
            use base64::Engine as _;
            String::from_utf8(base64::engine::general_purpose::STANDARD.decode(kept).unwrap()).unwrap()
        };
        let anybody = credentials(&server.client(), name).unwrap().anonymous();
        let tokens = [made["status"]["token"].as_str().unwrap().to_owned(), kept];
        let robots = tokens.each_ref().map(|token| server.client_as(anybody.clone().with_token(token)));

        let word = format!("{name}-own-word");
        post(CONFIG_MAPS, &config_map("mine", &word));
        post(
            "/api/v1/namespaces/default/secrets",
            &json!({"metadata": {"name": "mine"}, "stringData": {"v": word}}),
        );
        // A kind that only this one has.
        post(
            DEFINITIONS,
            &json!({
                "metadata": {"name": format!("{name}things.example.com")},
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": {"kind": format!("Thing{name}"), "plural": format!("{name}things")},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                        "type": "object", "description": word,
                    }}}],
                },
            }),
        );
        let page = admin.get(&inside(name, "/api/v1/configmaps?limit=1")).ok();
        let text = |field: &str| page["metadata"][field].as_str().unwrap().to_owned();
        let (next, revision) = (text("continue"), text("resourceVersion"));
        Tenant { name, word, admin, tokens, robots, next, revision }
    }

    fn clients(&self) -> impl Iterator<Item = &Client> {
        std::iter::once(&self.admin).chain(&self.robots)
    }
}

#[track_caller]
fn silent(answer: &Answer, of: &Tenant, what: &str) {
    let text = answer.text();
    assert!(!text.contains(&of.word) && !text.contains(&format!("{}things", of.name)), "{what}: {text}");
}

/// It is refused, and says nothing of the other.
#[track_caller]
fn refused(answer: &Answer, of: &Tenant, what: &str) {
    assert!(
        matches!(answer.code, 400 | 401 | 403 | 404 | 405 | 421),
        "{what}: {} {}",
        answer.code,
        answer.text()
    );
    silent(answer, of, what);
}

/// What a cluster shows of itself, one way or another.
const SHOWN: [&str; 16] = [
    "/api",
    "/apis",
    "/api/v1",
    "/apis/example.com/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/example.com/v1",
    "/metrics",
    "/version",
    "/livez?verbose",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

#[test]
fn who_administers_one_gets_into_no_other() {
    let server = Server::start();
    let tenants = [
        Tenant::make(&server, "amberite", &json!({"type": "k8s"})),
        Tenant::make(&server, "beryllium", &json!({"type": "k8s"})),
        Tenant::make(&server, "cobaltite", &json!({"type": "k8s", "isolation": "process"})),
        Tenant::make(&server, "dolomite", &json!({"type": "k8s", "backend": "dedicated"})),
    ];
    std::thread::scope(|scope| {
        for own in &tenants {
            for client in own.clients() {
                let found = client.get(&inside(own.name, &format!("{CONFIG_MAPS}/mine"))).ok();
                assert_eq!(found["data"]["value"], own.word);
            }
            for other in tenants.iter().filter(|other| other.name != own.name) {
                // Watches take their time.
                scope.spawn(move || by_positions(own, other));
                for client in own.clients() {
                    at_the_others_doors(client, own, other);
                }
                by_headers(own, other);
                from_within(own, other);
            }
        }
    });
    for tenant in &tenants {
        let found = tenant.admin.get(&inside(tenant.name, &format!("{CONFIG_MAPS}/mine"))).ok();
        assert_eq!(found["data"]["value"], tenant.word, "nobody has touched it");
    }
}

fn at_the_others_doors(client: &Client, own: &Tenant, other: &Tenant) {
    let by_name = client.with("Host", &format!("{}.hangar.localhost", other.name));
    let aggregated = client.with("Accept", AGGREGATED);
    for path in SHOWN {
        let what = format!("{} at {}: {path}", own.name, other.name);
        for answer in [
            client.get(&inside(other.name, path)),
            aggregated.get(&inside(other.name, path)),
            by_name.get(path),
            by_name.get(&inside(other.name, path)),
        ] {
            assert_eq!(answer.code, 401, "{what}: {}", answer.text());
            silent(&answer, other, &what);
        }
        // A name that contradicts the path leads to one of the two, and the path does not win.
        refused(&by_name.get(&inside(own.name, path)), other, &what);
    }
    for (method, path) in [
        ("PUT", format!("{CONFIG_MAPS}/mine")),
        ("PATCH", format!("{CONFIG_MAPS}/mine")),
        ("DELETE", format!("{CONFIG_MAPS}/mine")),
        ("DELETE", CONFIG_MAPS.to_owned()),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned()),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token".to_owned()),
        ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned()),
    ] {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = config_map("mine", "overwritten").to_string();
        // Who is answered before all was read is not asked again on that connection.
        let answer = client.with("Connection", "close").send(
            method,
            &inside(other.name, &path),
            Some(kind),
            body.as_bytes(),
        );
        assert_eq!(answer.code, 401, "{}: {method} {path} at {}", own.name, other.name);
    }
    // The hosting control plane has all kubeconfigs, and knows nobody of any other.
    for path in [
        format!("/api/v1/namespaces/{}-system/secrets", other.name),
        format!("/api/v1/namespaces/{}-system/secrets/admin-kubeconfig", other.name),
        "/api/v1/secrets".to_owned(),
        format!("{CONTROL_PLANES}/{}", other.name),
        "/hangar/v1/control-planes".to_owned(),
        format!("/hangar/v1/control-planes/{}/usage", other.name),
        format!("/hangar/v1/control-planes/{}/export", other.name),
        format!("/hangar/v1/control-planes/{}/audit", other.name),
        format!("/hangar/v1/control-planes/{}/diff/{}", own.name, other.name),
    ] {
        refused(&client.get(&path), other, &format!("{}: {path}", own.name));
    }
}

/// Acting as somebody is a right in one's own control plane, and stays there.
fn by_headers(own: &Tenant, other: &Tenant) {
    let mine = format!("{CONFIG_MAPS}/mine");
    for headers in [
        &[("Impersonate-User", "kubernetes-admin"), ("Impersonate-Group", "system:masters")][..],
        &[("Impersonate-User", "system:serviceaccount:default:robot")],
        &[("Impersonate-User", "system:apiserver"), ("Impersonate-Extra-control-plane", other.name)],
        &[("Impersonate-User", "hangar-admin"), ("Impersonate-Uid", other.name)],
        &[("X-Remote-User", "kubernetes-admin"), ("X-Remote-Group", "system:masters")],
    ] {
        let client = headers.iter().fold(own.admin.clone(), |client, (name, value)| client.with(name, value));
        let what = format!("{} with {headers:?}", own.name);
        assert_eq!(client.get(&inside(other.name, &mine)).code, 401, "{what}");
        refused(&client.get(&format!("/api/v1/namespaces/{}-system/secrets", other.name)), other, &what);
        // At home it may lead to less, and never elsewhere.
        silent(&client.get(&inside(own.name, "/api/v1/configmaps")), other, &what);
    }
}

/// With all rights of one's own.
fn from_within(own: &Tenant, other: &Tenant) {
    let (client, mine) = (&own.admin, format!("{CONFIG_MAPS}/mine"));
    for path in SHOWN {
        let what = format!("{path} in {}", own.name);
        silent(&client.get(&inside(own.name, path)), other, &what);
        silent(&client.with("Accept", AGGREGATED).get(&inside(own.name, path)), other, &what);
        assert!(!client.get(&inside(own.name, path)).text().contains(other.name), "{what}");
    }
    let over = inside(other.name, &mine);
    for path in [
        format!("/control-planes/{}{over}", own.name),
        format!("/control-planes/{}/..{over}", own.name),
        format!("/control-planes/{}%2f..%2f{}{mine}", own.name, other.name),
        format!("/control-planes/{}/%2e%2e/{}{mine}", own.name, other.name),
        inside(own.name, &format!("{CONFIG_MAPS}/..%2f..%2f..%2f..%2f..%2f{}", other.name)),
        inside(own.name, &format!("{CONFIG_MAPS}/..%252f..%252f{}", other.name)),
        inside(own.name, &format!("/api/v1/namespaces/{}-system/secrets/admin-kubeconfig", other.name)),
        inside(own.name, &format!("/api/v1/namespaces/..%2f{}/secrets/mine", other.name)),
        inside(own.name, &format!("{CONTROL_PLANES}/{}", other.name)),
        inside(own.name, &format!("/hangar/v1/control-planes/{}/export", other.name)),
        inside(own.name, &format!("/hangar/v1/control-planes/{}/diff/{}", own.name, other.name)),
        inside(own.name, &format!("/apis/example.com/v1/{}things", other.name)),
    ] {
        refused(&client.get(&path), other, &format!("{}: {path}", own.name));
    }
    // Nobody is called on for them: nodes, pods and services that lead to the server itself.
    for path in [
        format!("/api/v1/nodes/localhost:6443/proxy{over}"),
        format!("/api/v1/namespaces/default/services/https:kubernetes:443/proxy{over}"),
        format!("/api/v1/namespaces/default/services/https:kubernetes:https/proxy{over}"),
        format!("/api/v1/namespaces/default/pods/https:127.0.0.1:6443/proxy{over}"),
        "/api/v1/namespaces/default/pods/any/exec?command=cat".to_owned(),
        "/api/v1/namespaces/default/pods/any/portforward?ports=6443".to_owned(),
    ] {
        let answer = client.get(&inside(own.name, &path));
        assert!(answer.code >= 400, "{}: {path}: {}", own.name, answer.text());
        silent(&answer, other, &path);
    }
    // A copy of another is made by the hosting control plane alone, and a backup is put back there alone.
    let copy = super::control_plane("copy", &json!({"type": "k8s", "source": {"controlPlane": other.name}}));
    let once = client.with("Connection", "close");
    for path in [CONTROL_PLANES.to_owned(), inside(own.name, CONTROL_PLANES)] {
        refused(&once.post(&path, &copy), other, &format!("{}: {path}", own.name));
    }
    let import = format!("/hangar/v1/control-planes/{}/import", other.name);
    for path in [import.clone(), inside(own.name, &import)] {
        let answer = once.send("POST", &path, None, b"hangarex");
        assert!(answer.code >= 400, "{}: {path}: {}", own.name, answer.text());
    }
    // Its token is nobody's, whoever is asked.
    for token in &other.tokens {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let path = inside(own.name, "/apis/authentication.k8s.io/v1/tokenreviews");
        assert_ne!(client.post(&path, &review).ok()["status"]["authenticated"], true);
    }
}

/// Revisions and places in lists mean nothing elsewhere.
fn by_positions(own: &Tenant, other: &Tenant) {
    for query in [
        format!("limit=500&continue={}", other.next),
        format!("resourceVersion={}&resourceVersionMatch=Exact", other.revision),
        format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", other.revision),
        format!("resourceVersion={}&watch=true&timeoutSeconds=1", other.revision),
        "resourceVersion=1&watch=true&timeoutSeconds=1".to_owned(),
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
            .to_owned(),
    ] {
        for path in ["/api/v1/configmaps", "/api/v1/secrets", DEFINITIONS] {
            let answer = own.admin.get(&inside(own.name, &format!("{path}?{query}")));
            silent(&answer, other, &format!("{}: {path}?{query}", own.name));
            let answer = own.admin.get(&inside(other.name, &format!("{path}?{query}")));
            assert_eq!(answer.code, 401, "{}: {path}?{query} at {}", own.name, other.name);
        }
    }
}
