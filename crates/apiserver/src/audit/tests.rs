use auth::user::UserInfo;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use objects::Value;
use tempfile::TempDir;

use super::policy::Subject;
use super::{Level, Log, LogOptions, Policy, Stage, WhenFull};
use crate::call::Head;
use crate::fixture::{Fixture, HOST, administrator, somebody, text};
use crate::route::{Action, Target};
use crate::trail::Trail;

fn policy(rules: &str) -> Policy {
    Policy::parse(format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}").as_bytes()).unwrap()
}

/// `METHOD path` by user `u` of group `g`.
fn level(policy: &Policy, request: &str) -> Level {
    let (method, path) = request.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let target = Target::parse(path);
    let verb = match &target {
        Target::Resource(target) => Action::of(&method, target, false).unwrap().as_str().to_owned(),
        Target::Path(_) => method.as_str().to_ascii_lowercase(),
    };
    let user = UserInfo::new("u", ["g"]);
    policy.verdict(&Subject { user: Some(&user), verb: &verb, target: &target }).level
}

#[test]
fn the_first_rule_that_matches_decides() {
    fn check(rule: &str, request: &str, matches: bool) {
        let policy = policy(&format!("rules:\n- level: Request\n  {rule}\n- level: Metadata\n"));
        let expected = if matches { Level::Request } else { Level::Metadata };
        assert_eq!(level(&policy, request), expected, "{rule} on {request}");
    }
    let pod = "GET /api/v1/namespaces/ns/pods/p";
    check("users: [u, v]", pod, true);
    check("users: [v]", pod, false);
    check("userGroups: [f, g]", pod, true);
    check("userGroups: [f]", pod, false);
    check("verbs: [get]", pod, true);
    check("verbs: [list]", pod, false);
    check("verbs: [get]", "GET /healthz", true);
    check("namespaces: [ns]", pod, true);
    check("namespaces: ['']", pod, false);
    check("namespaces: ['']", "GET /api/v1/nodes/x", true);
    check("namespaces: [ns]", "GET /healthz", false);
    check("resources: [{group: ''}]", pod, true);
    check("resources: [{group: apps}]", pod, false);
    check("resources: [{resources: [pods]}]", pod, true);
    check("resources: [{resources: [pods]}]", "GET /api/v1/namespaces/ns/pods/p/log", false);
    check("resources: [{resources: [pods/log]}]", "GET /api/v1/namespaces/ns/pods/p/log", true);
    check("resources: [{resources: [pods/log]}]", pod, false);
    check("resources: [{resources: ['pods/*']}]", "GET /api/v1/namespaces/ns/pods/p/log", true);
    check("resources: [{resources: ['pods/*']}]", pod, true);
    check(
        "resources: [{resources: ['*/status']}]",
        "PUT /apis/apps/v1/namespaces/ns/deployments/p/status",
        false,
    );
    check("resources: [{resources: ['*/status']}]", "PUT /api/v1/namespaces/ns/pods/p/status", true);
    check("resources: [{resources: ['*']}]", "PUT /api/v1/namespaces/ns/pods/p/status", true);
    check("resources: [{resources: [pods], resourceNames: [q]}]", pod, false);
    check("resources: [{resources: [pods], resourceNames: [q, p]}]", pod, true);
    check("nonResourceURLs: ['*']", "GET /healthz", true);
    check("nonResourceURLs: ['*']", pod, false);
    check("nonResourceURLs: ['/healthz*']", "GET /healthz/ping", true);
    check("nonResourceURLs: [/healthz]", "GET /healthz/ping", false);
}

#[test]
fn what_is_told_of_nobody() {
    let target = Target::parse("/api/v1/pods");
    let nobody = Subject { user: None, verb: "list", target: &target };
    assert_eq!(policy("rules: [{level: Request, users: [u]}]").verdict(&nobody).level, Level::None);
    assert_eq!(policy("rules: [{level: Request}]").verdict(&nobody).level, Level::Request);
}

#[test]
fn contents_of_secrets_are_told_only_by_their_name() {
    fn check(resources: &str, request: &str, expected: Level) {
        let policy = policy(&format!("rules:\n- level: RequestResponse\n  resources: {resources}\n"));
        assert_eq!(level(&policy, request), expected, "{resources} on {request}");
    }
    let (secret, token) =
        ("POST /api/v1/namespaces/ns/secrets", "POST /api/v1/namespaces/ns/serviceaccounts/s/token");
    check("[]", secret, Level::Metadata);
    check("[{group: ''}]", secret, Level::Metadata);
    check("[{resources: ['*']}]", secret, Level::Metadata);
    check("[{resources: [secrets]}]", secret, Level::RequestResponse);
    check("[{resources: ['serviceaccounts/*']}]", token, Level::Metadata);
    check("[{resources: [serviceaccounts/token]}]", token, Level::RequestResponse);
    check("[]", "POST /apis/authentication.k8s.io/v1/tokenreviews", Level::Metadata);
    check("[]", "POST /api/v1/namespaces/ns/configmaps", Level::RequestResponse);
}

#[test]
fn without_a_policy_writes_and_secrets_are_told() {
    fn check(request: &str, expected: Level) {
        assert_eq!(level(&Policy::standard(), request), expected, "{request}");
    }
    check("POST /api/v1/namespaces/ns/configmaps", Level::Metadata);
    check("DELETE /api/v1/namespaces/ns", Level::Metadata);
    check("GET /api/v1/namespaces/ns/secrets/s", Level::Metadata);
    check("GET /api/v1/secrets", Level::Metadata);
    check("POST /api/v1/namespaces/ns/serviceaccounts/s/token", Level::Metadata);
    check("GET /api/v1/namespaces/ns/pods", Level::None);
    check("GET /healthz", Level::None);
    check("GET /apis", Level::None);
    let target = Target::parse("/api/v1/secrets");
    let verdict = Policy::standard().verdict(&Subject { user: None, verb: "create", target: &target });
    assert!(!verdict.tells(Stage::RequestReceived) && verdict.tells(Stage::ResponseComplete));
}

#[test]
fn stages_and_managed_fields_of_policy_and_rule() {
    let policy = policy(
        "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
         - {level: Request, verbs: [get], omitStages: [ResponseStarted], omitManagedFields: false}\n- {level: Request}\n",
    );
    let target = Target::parse("/api/v1/pods");
    let verdict = |verb| policy.verdict(&Subject { user: None, verb, target: &target });
    let told =
        |verb: &str, stage| policy.verdict(&Subject { user: None, verb, target: &target }).tells(stage);
    assert!(!told("get", Stage::RequestReceived) && !told("get", Stage::ResponseStarted));
    assert!(told("get", Stage::ResponseComplete) && told("list", Stage::ResponseStarted));
    assert!(!verdict("get").omit_managed_fields && verdict("list").omit_managed_fields);
}

#[test]
fn bad_policies_are_refused() {
    fn check(text: &str, expected: &str) {
        let error = Policy::parse(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    check("", "invalid type: null");
    check("apiVersion: v1\nkind: Pod\n", "not Policy of audit.k8s.io/v1");
    check(head, "no rules");
    check(&format!("{head}rules: [{{level: Loud}}]"), "unknown variant `Loud`");
    check(&format!("{head}rules: [{{level: None, verb: [get]}}]"), "unknown field `verb`");
    check(&format!("{head}rules: [{{level: None, level: Request}}]"), "given twice");
    check(&format!("{head}omitStages: [Later]\nrules: [{{level: None}}]"), "unknown variant `Later`");
    let rules = [
        ("nonResourceURLs: [healthz]", "begin with \"/\""),
        ("nonResourceURLs: ['/a*b']", "at its end only"),
        ("nonResourceURLs: [/a]\n  namespaces: [ns]", "both regular resources and non-resource"),
        ("resources: [{group: apps/v1}]", "a group without a version"),
        ("resources: [{resourceNames: [a]}]", "requires at least one resource"),
    ];
    for (rule, expected) in rules {
        check(&format!("{head}rules:\n- level: None\n  {rule}\n"), expected);
    }
}

/// A server that writes to a file, and what it has written.
struct Audited {
    fixture: Fixture,
    log: Log,
}

impl Audited {
    async fn new(rules: &str) -> Audited {
        let directory = TempDir::new().unwrap();
        let log = Log::open(LogOptions::new(directory.path().join("audit.log"), policy(rules))).unwrap();
        Audited { fixture: Fixture::audited(directory, Some(log.clone())).await, log }
    }

    async fn events(&self) -> Vec<Value> {
        self.log.flush().await;
        let written = std::fs::read_to_string(self.fixture.directory.path().join("audit.log")).unwrap();
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

const CONFIG_MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}"#;

#[tokio::test]
async fn a_create_is_told_in_two_stages() {
    let audited = Audited::new("rules: [{level: RequestResponse, omitManagedFields: true}]").await;
    let request = Request::builder()
        .method("POST")
        .uri("https://127.0.0.1:6443/api/v1/namespaces/default/configmaps?fieldManager=t")
        .header("content-type", "application/json")
        .header("user-agent", "tester/1")
        .header("audit-id", "mine");
    let response = audited.fixture.send(administrator("a"), request, CONFIG_MAP).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["audit-id"]),
        (201, &"mine".parse().unwrap())
    );
    text(response).await;

    let events = audited.events().await;
    assert_eq!(events.len(), 2, "{events:?}");
    let (received, complete) = (&events[0], &events[1]);
    for event in &events {
        assert_eq!(event["kind"], "Event");
        assert_eq!(event["apiVersion"], "audit.k8s.io/v1");
        assert_eq!(event["level"], "RequestResponse");
        assert_eq!(event["auditID"], "mine");
        assert_eq!(event["verb"], "create");
        assert_eq!(event["requestURI"], "/api/v1/namespaces/default/configmaps?fieldManager=t");
        assert_eq!(event["user"]["username"], "admin");
        assert_eq!(event["sourceIPs"], serde_json::json!(["192.0.2.1"]));
        assert_eq!(event["userAgent"], "tester/1");
        assert_eq!(event["annotations"]["hangar.dev/control-plane"], "a");
    }
    assert_eq!(received["stage"], "RequestReceived");
    assert!(received.get("responseStatus").is_none() && received["objectRef"].get("name").is_none());
    assert_eq!(complete["stage"], "ResponseComplete");
    assert_eq!(complete["responseStatus"], serde_json::json!({"metadata": {}, "code": 201}));
    let reference = serde_json::json!(
        {"resource": "configmaps", "namespace": "default", "name": "c", "apiVersion": "v1"}
    );
    assert_eq!(complete["objectRef"], reference);
    assert_eq!(complete["requestObject"]["data"]["k"], "v");
    assert_eq!(complete["responseObject"]["data"]["k"], "v");
    assert!(complete["responseObject"]["metadata"]["uid"].is_string());
    assert!(complete["responseObject"]["metadata"].get("managedFields").is_none());
    assert_eq!(complete["annotations"]["authorization.k8s.io/decision"], "allow");
    let time = complete["stageTimestamp"].as_str().unwrap();
    assert!(time.len() == "2006-01-02T15:04:05.000000Z".len() && time.ends_with('Z'), "{time}");
    assert!(complete["requestReceivedTimestamp"].as_str().unwrap() <= time);
}

#[tokio::test]
async fn metadata_has_no_bodies_but_names_the_object() {
    let audited = Audited::new("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    audited.fixture.ask("a", "POST", "/api/v1/namespaces/default/configmaps", CONFIG_MAP).await;
    audited.fixture.ask(HOST, "GET", "/api/v1/namespaces/default/configmaps/missing", "").await;
    let events = audited.events().await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["objectRef"]["name"], "c");
    assert!(
        events
            .iter()
            .all(|event| event.get("requestObject").is_none() && event.get("responseObject").is_none())
    );
    assert_eq!(events[1]["annotations"]["hangar.dev/control-plane"], "host");
    let status = &events[1]["responseStatus"];
    assert_eq!((&status["code"], &status["reason"]), (&404.into(), &"NotFound".into()));
    assert_eq!(status["message"], r#"configmaps "missing" not found"#);
}

#[tokio::test]
async fn refusals_are_told_with_their_reasons() {
    let audited = Audited::new("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let nobody = || somebody("a", UserInfo::new("joe", ["g"]));
    let list = || Request::builder().uri("/api/v1/pods");
    audited.fixture.send(nobody(), list(), "").await;
    audited.fixture.send(administrator("a"), list().header("impersonate-user", "jane"), "").await;
    let mut unproven = administrator("a");
    unproven.identity = None;
    let response = audited.fixture.send(unproven, list().header("authorization", "Bearer wrong"), "").await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["audit-id"].len(), 36);

    let events = audited.events().await;
    let [forbidden, impersonated, unknown] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(forbidden["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(forbidden["responseStatus"]["reason"], "Forbidden");
    assert_eq!(impersonated["user"]["username"], "admin");
    assert_eq!(impersonated["impersonatedUser"]["username"], "jane");
    assert_eq!(unknown["stage"], "ResponseStarted");
    assert_eq!(unknown["responseStatus"]["code"], 401);
    assert_eq!(unknown["user"], serde_json::json!({}));
}

#[tokio::test]
async fn a_watch_is_told_when_it_starts_and_when_it_ends() {
    let audited = Audited::new("rules: [{level: RequestResponse}]").await;
    let request = Request::builder().uri("/api/v1/namespaces?watch=true");
    let response = audited.fixture.send(administrator("a"), request, "").await;
    let stages = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(stages(&audited.events().await), ["RequestReceived", "ResponseStarted"]);
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let events = audited.events().await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(events[2]["responseStatus"]["code"], 200);
}

#[tokio::test]
async fn violations_of_pod_security_are_noted() {
    let audited =
        Audited::new("rules: [{level: Metadata, verbs: [create], resources: [{resources: [pods]}]}]").await;
    let labels = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/audit":"restricted"}}}"#;
    let request = Request::builder()
        .method("PATCH")
        .uri("/api/v1/namespaces/default")
        .header("content-type", "application/merge-patch+json");
    assert_eq!(audited.fixture.send(administrator("a"), request, labels).await.status(), 200);
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
    audited.fixture.ask("a", "POST", "/api/v1/namespaces/default/serviceaccounts", account).await;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
        "spec":{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}"#;
    let (code, answer) = audited.fixture.ask("a", "POST", "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(code, 201, "{answer}");
    let events = audited.events().await;
    let noted = &events.last().unwrap()["annotations"]["pod-security.kubernetes.io/audit-violations"];
    assert!(noted.as_str().unwrap().contains("would violate PodSecurity"), "{noted}");
}

#[tokio::test]
async fn a_panic_is_answered_and_told() {
    let audited = Audited::new("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let (parts, ()) = Request::builder().uri("/api/v1/pods").body(()).unwrap().into_parts();
    let engine = &audited.fixture.engine;
    let mut trail = Trail::begin(engine, &parts);
    let head = Head::new(parts, administrator("a")).map_err(|failure| failure.0).unwrap();
    let target = Target::parse(&head.path);
    let plane = engine.planes.find("a").await.unwrap().unwrap();
    trail.identified(&plane, &head, &target, &UserInfo::new("u", ["g"])).await;
    let response = trail.panicked(Box::new("boom")).await;
    assert_eq!(response.status(), 500);
    assert!(!text(response).await.contains("boom"));
    let events = audited.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["stage"], "Panic");
    assert_eq!(events[0]["responseStatus"]["message"], "APIServer panic'd: boom");
}

fn lines(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[tokio::test]
async fn files_are_put_aside_when_they_are_full() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("logs/audit.log");
    let log = Log::open(LogOptions { rotate_at: 100, keep: 2, ..LogOptions::new(&path, Policy::standard()) })
        .unwrap();
    for _ in 0..10 {
        log.write(b"0123456789012345678901234567890123456789\n".to_vec()).await;
        // A file put aside is named after its time.
        log.flush().await;
    }
    let names: Vec<String> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("audit") && name.ends_with(".log")), "{names:?}");
    assert_eq!(lines(&path), 2);
    // What was there before is added to.
    let again = Log::open(LogOptions::new(&path, Policy::standard())).unwrap();
    again.write(b"x\n".to_vec()).await;
    again.flush().await;
    assert_eq!(lines(&path), 3);
}

#[tokio::test]
async fn a_full_queue_makes_wait_or_loses() {
    let directory = TempDir::new().unwrap();
    let open = |name: &str, when_full| {
        let options = LogOptions {
            queue: 64,
            when_full,
            ..LogOptions::new(directory.path().join(name), policy("rules: [{level: None}]"))
        };
        Log::open(options).unwrap()
    };
    let line = || [b"x".repeat(39), b"\n".to_vec()].concat();
    let (waits, loses) = (open("waits", WhenFull::Block), open("loses", WhenFull::Drop));
    for _ in 0..500 {
        waits.write(line()).await;
        loses.write(line()).await;
    }
    // A line larger than the queue goes alone.
    waits.write(Bytes::from(vec![b'y'; 1_000]).to_vec()).await;
    waits.flush().await;
    loses.flush().await;
    assert_eq!(lines(&directory.path().join("waits")), 501);
    let lost = loses.counters().lost.load(std::sync::atomic::Ordering::Relaxed) as usize;
    assert_eq!(lines(&directory.path().join("loses")) + lost, 500);
}
