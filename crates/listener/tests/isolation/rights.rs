//! Verbs that end in another verb's effect: each takes the right to that effect as well.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::{Answer, Credential};
use super::world::{HOUR, NOTE, Tenant, World, body};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const TEAM: &str = "/api/v1/namespaces/team";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/team/deployments/d";
const REQUEST: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/c";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Somebody has some rights and lacks one: without it the request is forbidden, with it, it succeeds.
struct Case {
    what: &'static str,
    /// `VERB RESOURCE[/SUBRESOURCE] [GROUP]`, separated by commas.
    has: &'static str,
    lacks: &'static str,
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Value,
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    });
    let debugger = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let resized = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "team"}, "spec": {"replicas": 2}});
    let more = json!({"spec": {"replicas": 3}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "team"}});
    let role = |name: &str| json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    let bound = |name: &str| json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let condition = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r", "message": "m"}]}});
    let case = |what, has, lacks, method, path: &str, kind, body| Case { what, has, lacks, method, path: path.to_owned(), kind, body };
    let apply = |path: &str| format!("{path}?fieldManager=x&force=true");
    vec![
        case("apply creates", "patch configmaps", "create configmaps", "PATCH", &apply(&format!("{TEAM}/configmaps/new")), APPLY, map.clone()),
        case("apply creates, tried out", "patch configmaps", "create configmaps", "PATCH", &format!("{}&dryRun=All", apply(&format!("{TEAM}/configmaps/new2"))), APPLY,
             json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        case("apply creates a pod", "patch pods", "create pods", "PATCH", &apply(&format!("{TEAM}/pods/new")), APPLY, pod),
        case("apply creates a namespace", "patch namespaces", "create namespaces", "PATCH", &apply("/api/v1/namespaces/new"), APPLY,
             json!({"apiVersion": "v1", "kind": "Namespace"})),
        case("apply creates a role", "patch clusterroles rbac.authorization.k8s.io,create clusterroles rbac.authorization.k8s.io", "escalate clusterroles rbac.authorization.k8s.io",
             "PATCH", &apply(&format!("{ROLES}/clusterroles/new")), APPLY, role("new")),
        case("a role is created", "create clusterroles rbac.authorization.k8s.io", "escalate clusterroles rbac.authorization.k8s.io", "POST", &format!("{ROLES}/clusterroles"), JSON, role("new2")),
        case("apply creates a binding", "patch clusterrolebindings rbac.authorization.k8s.io,create clusterrolebindings rbac.authorization.k8s.io", "bind clusterroles rbac.authorization.k8s.io",
             "PATCH", &apply(&format!("{ROLES}/clusterrolebindings/new")), APPLY, bound("new")),
        case("replace is no status", "update namespaces,patch namespaces", "update namespaces/status", "PUT", "/api/v1/namespaces/team/status", JSON,
             json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": "Active"}})),
        case("patch is no status", "patch deployments apps,update deployments apps", "patch deployments/status apps", "PATCH", &format!("{DEPLOYMENT}/status"), MERGE, json!({"status": {"replicas": 1}})),
        case("status is no patch", "patch deployments/status apps", "patch deployments apps", "PATCH", DEPLOYMENT, MERGE, more),
        case("apply to a status", "patch deployments apps", "patch deployments/status apps", "PATCH", &apply(&format!("{DEPLOYMENT}/status")), APPLY,
             json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 1}})),
        case("update is no scale", "update deployments apps", "update deployments/scale apps", "PUT", &format!("{DEPLOYMENT}/scale"), JSON, scale.clone()),
        case("scale is no update", "update deployments/scale apps,patch deployments/scale apps", "patch deployments apps", "PATCH", DEPLOYMENT, MERGE, json!({"spec": {"replicas": 4}})),
        case("update attaches no debugger", "update pods,patch pods", "patch pods/ephemeralcontainers", "PATCH", &format!("{TEAM}/pods/p/ephemeralcontainers"), "application/strategic-merge-patch+json", debugger),
        case("update does not resize", "update pods,patch pods", "patch pods/resize", "PATCH", &format!("{TEAM}/pods/p/resize"), "application/strategic-merge-patch+json", resized),
        case("update does not bind", "update pods,patch pods,create pods", "create pods/binding", "POST", &format!("{TEAM}/pods/p/binding"), JSON, binding),
        case("delete does not evict, tried out", "delete pods,create pods", "create pods/eviction", "POST", &format!("{TEAM}/pods/p/eviction?dryRun=All"), JSON, eviction.clone()),
        case("evict does not delete", "create pods/eviction", "delete pods", "DELETE", &format!("{TEAM}/pods/p?dryRun=All"), JSON, json!(null)),
        case("delete is not for all", "delete configmaps", "deletecollection configmaps", "DELETE", &format!("{TEAM}/configmaps?dryRun=All"), JSON, json!(null)),
        case("foreground deletion is a deletion", "update configmaps,patch configmaps", "delete configmaps", "DELETE", &format!("{NOTE}?dryRun=All&propagationPolicy=Foreground"), JSON, json!(null)),
        case("delete of one is not for all of that name", "delete configmaps", "deletecollection configmaps", "DELETE",
             &format!("{TEAM}/configmaps?dryRun=All&fieldSelector=metadata.name=note"), JSON, json!(null)),
        case("a role is given more", "patch clusterroles rbac.authorization.k8s.io", "escalate clusterroles rbac.authorization.k8s.io", "PATCH", &format!("{ROLES}/clusterroles/view?dryRun=All"), MERGE,
             json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})),
        case("a role is put together of others", "create clusterroles rbac.authorization.k8s.io", "escalate clusterroles rbac.authorization.k8s.io", "POST", &format!("{ROLES}/clusterroles?dryRun=All"), JSON,
             json!({"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{}]}})),
        case("a binding is given to one more", "patch clusterrolebindings rbac.authorization.k8s.io", "bind clusterroles rbac.authorization.k8s.io", "PATCH", &format!("{ROLES}/clusterrolebindings/robots?dryRun=All"), MERGE,
             json!({"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "weak"}]})),
        case("create is no apply", "create configmaps", "patch configmaps", "PATCH", &apply(&format!("{TEAM}/configmaps/new3")), APPLY,
             json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        case("list is no get of one", "list secrets", "get secrets", "GET", &format!("{TEAM}/secrets/s"), JSON, json!(null)),
        case("get is no list of all", "get secrets", "list secrets", "GET", &format!("{TEAM}/secrets"), JSON, json!(null)),
        case("the selector of a name is no name", "get secrets", "list secrets", "GET", &format!("{TEAM}/secrets?fieldSelector=metadata.name=s"), JSON, json!(null)),
        case("a watch that begins with all there is is a watch", "list configmaps,get configmaps", "watch configmaps", "GET",
             &format!("{TEAM}/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"), JSON, json!(null)),
        case("approval is no status", "patch certificatesigningrequests certificates.k8s.io,patch certificatesigningrequests/status certificates.k8s.io,approve signers certificates.k8s.io",
             "patch certificatesigningrequests/approval certificates.k8s.io", "PATCH", &format!("{REQUEST}/approval?dryRun=All"), MERGE, condition("Denied")),
        case("get is no watch", "get configmaps,list configmaps", "watch configmaps", "GET", &format!("{TEAM}/configmaps?watch=1&timeoutSeconds=1"), JSON, json!(null)),
        case("get of one is no watch of it", "get configmaps", "watch configmaps", "GET", "/api/v1/watch/namespaces/team/configmaps/note?timeoutSeconds=1", JSON, json!(null)),
        case("an account is no token", "create serviceaccounts,update serviceaccounts,get serviceaccounts", "create serviceaccounts/token", "POST", &format!("{TEAM}/serviceaccounts/robot/token"), JSON, json!({})),
        case("update does not finish", "update namespaces", "update namespaces/finalize", "PUT", "/api/v1/namespaces/team/finalize", JSON,
             json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]}})),
        case("a condition is a verdict of the signer", "patch certificatesigningrequests/status certificates.k8s.io", "sign signers certificates.k8s.io", "PATCH", &format!("{REQUEST}/status?dryRun=All"), MERGE, condition("Failed")),
        case("approval is the approver's", "patch certificatesigningrequests/approval certificates.k8s.io", "approve signers certificates.k8s.io", "PATCH", &format!("{REQUEST}/approval"), MERGE, condition("Approved")),
    ]
}

/// `VERB RESOURCE GROUP` as rules of a role.
fn rules(text: &str) -> Vec<Value> {
    let rule = |text: &str| {
        let mut words = text.split(' ');
        let (verb, resource) = (words.next().unwrap(), words.next().unwrap());
        json!({"verbs": [verb], "resources": [resource], "apiGroups": [words.next().unwrap_or_default()]})
    };
    text.split(',').map(rule).collect()
}

/// A client of `b` with these rights, all over the control plane.
async fn somebody(world: &World, tenant: &Tenant, name: &str, rules: Vec<Value>) -> Credential {
    let door = world.by_name(tenant.name);
    let admin = &tenant.credentials[0];
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("{ROLES}/{plural}");
        let made = world.network.ask(&door, admin, "POST", &path, &object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }
    Credential::certificate(name, &world.engine.issue_client(&tenant.plane, name, &[], HOUR).unwrap())
}

async fn send(world: &World, tenant: &Tenant, credential: &Credential, case: &Case) -> Answer {
    let door = world.by_name(tenant.name);
    let (method, path, host, kind) = (case.method, &case.path, &door.host, case.kind);
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}");
    // An empty body, so that the options of a deletion are those of the query.
    let body = if case.body.is_null() { String::new() } else { case.body.to_string() };
    world.network.raw(door.server_name.as_deref(), credential, &head, &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_is_no_way_around_another() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let labels = json!({"app": "d"});
    for (path, object) in [
        (
            format!("{TEAM}/pods"),
            json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": [container]}}),
        ),
        (
            DEPLOYMENT.trim_end_matches("/d").to_owned(),
            json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            }}),
        ),
        (
            REQUEST.trim_end_matches("/c").to_owned(),
            json!({"metadata": {"name": "c"}, "spec": {
                "request": STANDARD.encode(include_str!("jane.pem")),
                "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            }}),
        ),
    ] {
        let door = world.by_name("b");
        let made = world.network.ask(&door, &b.credentials[0], "POST", &path, &object.to_string()).await;
        assert_eq!(made.code, 201, "{path}: {}", made.text);
    }
    for (number, case) in cases().iter().enumerate() {
        let weak = somebody(&world, &b, &format!("weak-{number}"), rules(case.has)).await;
        let refused = send(&world, &b, &weak, case).await;
        assert_eq!(refused.code, 403, "{}: {}", case.what, refused.text);
        let all = [rules(case.has), rules(case.lacks)].concat();
        let strong = somebody(&world, &b, &format!("strong-{number}"), all).await;
        let done = send(&world, &b, &strong, case).await;
        assert!(matches!(done.code, 200 | 201), "{}: {}", case.what, done.text);
    }
    // Only tried out.
    let door = world.by_name("b");
    let pod = world.network.ask(&door, &b.credentials[0], "GET", &format!("{TEAM}/pods/p"), "").await;
    assert!(body(&pod)["metadata"]["deletionTimestamp"].is_null(), "{}", pod.text);
}

/// What cannot come to its end here, since there are no nodes, is refused before that is found out: method, path,
/// headers, and what it takes.
const GATES: [(&str, &str, &str, &str); 10] = [
    ("GET", "/pods/p/log", "", "get pods/log"),
    ("GET", "/pods/p/exec?command=id", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "create pods/exec"),
    ("POST", "/pods/p/exec?command=id", "", "create pods/exec"),
    ("GET", "/pods/p/attach", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", "create pods/attach"),
    (
        "GET",
        "/pods/p/portforward",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "create pods/portforward",
    ),
    ("GET", "/pods/p/proxy", "", "get pods/proxy"),
    ("POST", "/services/x/proxy/anything", "", "create services/proxy"),
    ("POST", "/bindings", "", "create bindings"),
    ("GET", "/configmaps/note", "Impersonate-User: admin\r\n", "impersonate users"),
    (
        "GET",
        "/configmaps/note",
        "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n",
        "impersonate groups",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_at_a_node_or_as_somebody_else_takes_its_own_right() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let door = world.by_name("b");
    let others = "get pods,update pods,patch pods,delete pods,get pods/exec,get pods/attach,get pods/portforward,\
                  create pods,get services,update services,get configmaps,impersonate serviceaccounts";
    for (number, (method, path, headers, lacks)) in GATES.into_iter().enumerate() {
        let host = &door.host;
        let headers = headers.trim_end();
        let end = if headers.is_empty() { String::new() } else { format!("\r\n{headers}") };
        let head = format!("{method} {TEAM}{path} HTTP/1.1\r\nHost: {host}{end}");
        // To be somebody in a group takes to be that somebody as well.
        let has = if lacks == "impersonate groups" {
            format!("{others},impersonate users")
        } else {
            others.to_owned()
        };
        let weak = somebody(&world, &b, &format!("weak-{number}"), rules(&has)).await;
        let ask =
            async |who: &Credential| world.network.raw(door.server_name.as_deref(), who, &head, "").await;
        let refused = ask(&weak).await;
        assert_eq!(refused.code, 403, "{head}: {}", refused.text);
        let strong =
            somebody(&world, &b, &format!("strong-{number}"), rules(&format!("{has},{lacks}"))).await;
        let heard = ask(&strong).await;
        let (verb, resource) = lacks.split_once(' ').unwrap();
        let forbidden = format!(r#"\"strong-{number}\" cannot {verb} resource \"{resource}\""#);
        assert!(!heard.text.contains(&forbidden), "{head}: {}", heard.text);
        assert!(verb == "impersonate" || heard.code != 403, "{head}: {}", heard.text);
    }
}

/// A verb does what it is named after, and nothing of what else could be asked of its path.
#[tokio::test(flavor = "multi_thread")]
async fn a_verb_has_no_other_effect() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let door = world.by_name("b");
    let ask = async |who: &Credential, method: &str, path: &str, kind: &str, sent: Value| {
        let body = if sent.is_null() { String::new() } else { sent.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}", door.host);
        world.network.raw(door.server_name.as_deref(), who, &head, &body).await
    };
    // Neither an update nor a patch that is no apply makes what is not there, however strong its user is.
    let admin = &b.credentials[0];
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}});
    let path = format!("{TEAM}/configmaps/none");
    assert_eq!(ask(admin, "PUT", &path, JSON, map.clone()).await.code, 404);
    assert_eq!(ask(admin, "PATCH", &path, MERGE, json!({"data": {"a": "b"}})).await.code, 404);
    let apply = format!("{DEPLOYMENT}/status?fieldManager=x");
    let status =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {}});
    assert_eq!(ask(admin, "PATCH", &apply, APPLY, status).await.code, 404);
    // A get of one is answered once, though it asks for a watch.
    let getter = somebody(&world, &b, "getter", rules("get configmaps")).await;
    let answer = ask(&getter, "GET", &format!("{NOTE}?watch=1&timeoutSeconds=1"), JSON, Value::Null).await;
    assert_eq!((answer.code, &body(&answer)["kind"]), (200, &json!("ConfigMap")), "{}", answer.text);
    // Who writes a status changes nothing else: no labels that a policy selects by, no finalizer, no owner.
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": containers}});
    assert_eq!(ask(admin, "POST", &format!("{TEAM}/pods"), JSON, pod).await.code, 201);
    let writer = somebody(&world, &b, "writer", rules("patch pods/status,patch namespaces/status")).await;
    let patch = json!({
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "note", "uid": "u"}]},
        "spec": {"containers": [{"name": "c", "image": "other"}]}, "status": {"phase": "Running"},
    });
    let answer = ask(&writer, "PATCH", &format!("{TEAM}/pods/p/status"), MERGE, patch).await;
    let written = body(&answer);
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert_eq!(written["spec"]["containers"][0]["image"], "i", "{}", answer.text);
    assert!(written["metadata"].get("ownerReferences").is_none(), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_to_one_name_creates_no_other() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let named = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]});
    let case = |name: &str| Case {
        what: "",
        has: "",
        lacks: "",
        method: "PATCH",
        path: format!("{TEAM}/configmaps/{name}?fieldManager=x"),
        kind: APPLY,
        body: json!({"apiVersion": "v1", "kind": "ConfigMap"}),
    };
    let patches = somebody(&world, &b, "patches", vec![named("patch")]).await;
    let refused = send(&world, &b, &patches, &case("mine")).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    let why = r#"configmaps \"mine\" is forbidden: User \"patches\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"team\""#;
    assert!(refused.text.contains(why), "{}", refused.text);
    let creates = somebody(&world, &b, "creates", vec![named("patch"), named("create")]).await;
    assert_eq!(send(&world, &b, &creates, &case("other")).await.code, 403);
    let made = send(&world, &b, &creates, &case("mine")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    // It is there now, and may be changed by whoever may patch it.
    assert_eq!(send(&world, &b, &patches, &case("mine")).await.code, 200);
}

/// A header that cannot be read must not turn a request as somebody into one as its caller.
#[tokio::test(flavor = "multi_thread")]
async fn impersonation_that_cannot_be_read_is_refused() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let door = world.by_name("b");
    let secret = format!("{TEAM}/secrets/s");
    let user = "Impersonate-User: jane".as_bytes();
    for header in
        ["Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-x", "Impersonate-New"]
    {
        let unreadable = [header.as_bytes(), b": jan\xe9"].concat();
        for headers in [vec![&unreadable[..]], vec![user, &unreadable]] {
            let answer = world.network.bytes(&door, &b.credentials[0], &secret, &headers).await;
            assert_eq!(answer.code, 400, "{header}: {}", answer.text);
            assert!(!answer.text.contains(&b.mark), "{header}: {}", answer.text);
        }
    }
    // What is UTF-8 is a name like any other, and that user may not read secrets.
    for header in ["Impersonate-User: jan\u{e9}", "impersonate-user: \u{5f20}\u{4e09}"] {
        let answer = world.network.bytes(&door, &b.credentials[0], &secret, &[header.as_bytes()]).await;
        assert_eq!(answer.code, 403, "{header}: {}", answer.text);
        let name = header.split_once(": ").unwrap().1;
        assert!(answer.text.contains(name), "{header}: {}", answer.text);
    }
}

/// A token without audiences of its own is good for the server, and for nobody who asks the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_review_confirms_no_audience_that_a_token_has_not() {
    let (world, [_, _, b]) = World::with_tenants().await;
    let door = world.by_name("b");
    let own = b.plane.issuer.api_audiences().to_vec();
    for credential in &b.credentials[1..] {
        let token = credential.token.clone().unwrap();
        for (asked, expected) in [
            (vec!["vault".to_owned()], None),
            (vec!["vault".to_owned(), own[0].clone()], Some(vec![own[0].clone()])),
            (vec![], Some(own.clone())),
        ] {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "spec": {"token": token, "audiences": asked},
            });
            let path = "/apis/authentication.k8s.io/v1/tokenreviews";
            let answer = world.network.ask(&door, &b.credentials[0], "POST", path, &review.to_string()).await;
            let status = body(&answer)["status"].clone();
            let confirmed = (status["authenticated"] == true).then(|| status["audiences"].clone());
            assert_eq!(confirmed, expected.map(|all| json!(all)), "{} {asked:?}", credential.what);
        }
    }
}
