//! Many requests at a whole server in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use auth::user::UserInfo;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use objects::Value;
use serde_json::json;
use tempfile::TempDir;
use tower::ServiceExt;

use super::{Fairness, Flow, Kind, Limits, pool};
use crate::call::Head;
use crate::fixture::{Fixture, administrator, somebody, text};
use crate::route::Target;
use crate::stations::decode::{Pace, read_at};
use crate::{ApiServer, Config, Door};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const REVIEW: &str = r#"{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}"#;

async fn fixture(limits: Limits) -> Fixture {
    Fixture::configured(TempDir::new().unwrap(), |config| Config { limits, ..config }).await
}

fn user(name: &str) -> Door {
    somebody("a", UserInfo::new(name, ["weak"]).authenticated())
}

/// Sends the head of a request, the first byte of its body, and no more.
fn send_slowly(fixture: &Fixture, door: Door, path: &str) -> tokio::task::JoinHandle<u16> {
    let frames = stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"{")))]);
    let body = StreamBody::new(frames.chain(stream::pending()));
    let request = Request::post(path).header("content-type", "application/json").extension(door);
    let server = ApiServer::new(fixture.engine.clone());
    let request = request.body(body.boxed_unsync()).unwrap();
    tokio::spawn(async move { server.oneshot(request).await.unwrap().status().as_u16() })
}

async fn open(fixture: &Fixture, expected: u32) {
    let plane = fixture.engine.planes.find("a").await.unwrap().unwrap();
    while fixture.engine.fairness.open(plane.id).0 != expected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn review(fixture: &Fixture, door: Door) -> u16 {
    let request = Request::post(REVIEWS).header("content-type", "application/json");
    fixture.send(door, request, REVIEW).await.status().as_u16()
}

#[tokio::test]
async fn slow_bodies_take_no_seat() {
    let limits = Limits { requests_in_flight: 4, requests_waiting: 96, ..Limits::default() };
    let fixture = fixture(limits).await;
    let slow: Vec<_> = (0..40).map(|_| send_slowly(&fixture, user("mallory"), REVIEWS)).collect();
    open(&fixture, 40).await;
    for door in [user("mallory"), user("alice"), administrator("a")] {
        assert_eq!(review(&fixture, door).await, 201);
    }
    // A user has no more than half of the room to wait in, and the others have the rest.
    let more: Vec<_> = (0..40).map(|_| send_slowly(&fixture, user("mallory"), REVIEWS)).collect();
    open(&fixture, 50).await;
    assert_eq!(review(&fixture, user("mallory")).await, 429);
    assert_eq!(review(&fixture, user("alice")).await, 201);
    assert_eq!(review(&fixture, administrator("a")).await, 201);
    slow.into_iter().chain(more).for_each(|request| request.abort());
}

#[tokio::test]
async fn a_query_makes_no_watch_of_a_write() {
    let fixture = fixture(Limits::default()).await;
    let plane = fixture.engine.planes.find("a").await.unwrap().unwrap();
    let slow = send_slowly(&fixture, user("mallory"), &format!("{REVIEWS}?watch=true"));
    open(&fixture, 1).await;
    assert_eq!(fixture.engine.fairness.open(plane.id), (1, 0));
    slow.abort();
}

#[test]
fn kinds_of_requests() {
    let fairness = Fairness::new(Limits::default());
    let kind = |method: &str, uri: &str, door: Door| -> Kind {
        let (parts, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let user = door.identity.clone().unwrap();
        let head = Head::new(parts, door).unwrap();
        fairness.kind(&head, &Target::parse(&head.path), &user)
    };
    let check = |method: &str, uri: &str, expected: [bool; 3]| {
        let kind = kind(method, uri, user("alice"));
        assert_eq!([kind.exempt, kind.watch, kind.long_running], expected, "{method} {uri}");
    };
    check("GET", "/api/v1/pods", [false, false, false]);
    check("GET", "/api/v1/pods?watch=true", [false, true, true]);
    check("GET", "/api/v1/watch/pods", [false, true, true]);
    check("GET", "/api/v1/namespaces/a/pods/b?watch=true", [false, false, false]);
    check("POST", "/api/v1/namespaces/a/pods?watch=true", [false, false, false]);
    check("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", [false, false, true]);
    check("GET", "/readyz", [true, false, false]);
    check("GET", "/livez", [true, false, false]);
    check("GET", "/apis/xz", [false, false, false]);
    check("GET", "/xz", [false, false, false]);
    let internal = Door::in_process("a", Arc::new(UserInfo::apiserver()));
    assert!(kind("GET", "/api/v1/pods", internal).exempt);
    let own = |name: &str| kind("GET", "/api/v1/pods", user(name)).flow;
    assert_eq!(own("alice"), own("alice"));
    assert_ne!(own("alice"), own("bob"));
}

#[tokio::test]
async fn a_body_has_to_come_in_time() {
    let fairness = Fairness::new(Limits::default());
    let unit = Duration::from_millis(50);
    let pace = Pace { whole: unit * 6, first: unit, bytes_per_second: 1024.0 };
    for (what, pause, size) in [
        ("it stops", Duration::from_secs(3_600), 1),
        ("it trickles", unit / 10, 1),
        ("it comes fast enough, and does not end", unit / 10, 1_000),
    ] {
        let mut counted = fairness.reserve(store::TenantId(1), 0).unwrap();
        let frames = stream::repeat(()).then(move |()| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b' '; size])))
        });
        let failure = read_at(pace, StreamBody::new(Box::pin(frames)), &mut counted).await.unwrap_err();
        assert_eq!(failure.0.code, 504, "{what}");
        assert_eq!(failure.0.message, "Timeout: request did not complete within the allotted timeout");
    }
    assert_eq!(fairness.budget().used(), 0);
}

fn config_map(name: &str, size: usize) -> String {
    format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {{"text": "{}"}}}}"#, "x".repeat(size))
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn bodies_beyond_the_budget_are_refused() {
    let fixture = fixture(Limits { memory: 1 << 20, ..Limits::default() }).await;
    let create = async |name: &str, size| {
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        fixture.send(administrator("a"), request, config_map(name, size)).await
    };
    let refused = create("large", 950 << 10).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(create("small", 100).await.status(), 201);
    assert_eq!(create("middle", 100 << 10).await.status(), 201);
    assert_eq!(fixture.engine.fairness.budget().used(), 0, "everything is given back");
}

#[tokio::test]
async fn a_document_of_too_many_values_is_refused() {
    let fixture = fixture(Limits::default()).await;
    let data = |count: usize| vec!["0"; count].join(",");
    let create = async |count: usize| {
        let name = format!("n{count}");
        let body = format!(r#"{{"metadata": {{"name": "{name}"}}, "ignored": [{}]}}"#, data(count));
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let response = fixture.send(administrator("a"), request, body).await;
        (response.status().as_u16(), text(response).await)
    };
    assert_eq!(create(200_000).await.0, 201);
    let (code, body) = create(300_000).await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(code, 413);
    assert_eq!(status["message"], "Request entity too large: limit is 250000 values");
    assert_eq!(status["reason"], "RequestEntityTooLarge");
}

const TENANT: store::TenantId = store::TenantId(7);

fn kind_of(flow: Flow) -> Kind {
    Kind {
        flow,
        exempt: false,
        administrator: false,
        watch: false,
        long_running: false,
        level: None,
        seats: None,
    }
}

fn small() -> (Fairness, Limits) {
    let limits = Limits { requests_in_flight: 2, requests_waiting: 2, ..Limits::default() };
    (Fairness::new(limits), limits)
}

#[tokio::test]
async fn a_full_control_plane_hears_administrators_and_health_checks() {
    let (fairness, limits) = small();
    let enter = |kind| fairness.count(TENANT, limits, kind);
    let seats = [enter(kind_of(1)).unwrap(), enter(kind_of(1)).unwrap(), enter(kind_of(2)).unwrap()];
    assert!(enter(kind_of(1)).is_none() && enter(kind_of(2)).is_none());
    let mut administrator = enter(Kind { administrator: true, ..kind_of(3) }).unwrap();
    assert!(!fairness.turn(&mut administrator).await.unwrap(), "it has its turn at once");
    let health = enter(Kind { exempt: true, ..kind_of(1) }).unwrap();
    assert_eq!(fairness.open(TENANT), (5, 0));
    drop((seats, administrator, health));
    assert_eq!(fairness.open(TENANT), (0, 0));
}

#[tokio::test]
async fn a_turn_comes_when_another_one_ends() {
    let (fairness, limits) = small();
    let mut seats = Vec::new();
    for flow in [1, 2] {
        let mut seat = fairness.count(TENANT, limits, kind_of(flow)).unwrap();
        fairness.turn(&mut seat).await.unwrap();
        seats.push(seat);
    }
    let mut third = fairness.count(TENANT, limits, kind_of(3)).unwrap();
    let mut turn = Box::pin(fairness.turn(&mut third));
    assert!(futures::poll!(&mut turn).is_pending());
    seats.pop();
    assert!(turn.await.is_ok());
    drop((seats, third));
    assert_eq!(fairness.open(TENANT), (0, 0));
}

#[tokio::test]
async fn who_gives_up_passes_the_turn_on() {
    let (fairness, limits) = small();
    let limits = Limits { requests_in_flight: 1, requests_waiting: 20, ..limits };
    let enter = |flow| fairness.count(TENANT, limits, kind_of(flow)).unwrap();
    let (mut first, mut second, mut third) = (enter(1), enter(2), enter(3));
    fairness.turn(&mut first).await.unwrap();
    let mut waits = Box::pin(fairness.turn(&mut second));
    let mut next = Box::pin(fairness.turn(&mut third));
    assert!(futures::poll!(&mut waits).is_pending() && futures::poll!(&mut next).is_pending());
    drop(first);
    drop(waits);
    assert!(next.await.is_ok());
    drop((second, third));
    assert_eq!(fairness.open(TENANT), (0, 0));
}

#[test]
fn a_part_of_rate_and_watches_is_kept_for_administrators() {
    let limits = Limits { burst: 16.0, requests_per_second: 0.001, watches: 16, ..Limits::default() };
    let fairness = Fairness::new(limits);
    let many = |kind| (0..40).map_while(|_| fairness.count(TENANT, limits, kind)).collect::<Vec<_>>();
    let watches = many(Kind { watch: true, long_running: true, ..kind_of(1) });
    assert_eq!(watches.len(), 15);
    assert_eq!(many(kind_of(1)).len(), 1);
    assert_eq!(many(Kind { administrator: true, ..kind_of(2) }).len(), 2);
}

#[tokio::test]
async fn flow_schemas_decide_who_shares_what() {
    const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let fixture = fixture(Limits { requests_in_flight: 4, ..Limits::default() }).await;
    let create = async |path: &str, object: Value| -> String {
        let (code, text) = fixture.ask("a", "POST", &format!("{FLOW}/{path}"), &object.to_string()).await;
        assert_eq!(code, 201, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
    let level = json!({"metadata": {"name": "tiny"}, "spec": {"type": "Limited", "limited": limited}});
    let level = create("prioritylevelconfigurations", level).await;
    let rules = json!([{
        "subjects": [{"kind": "User", "user": {"name": "mallory"}}],
        "resourceRules": [{
            "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["*"],
            "namespaces": ["*"], "clusterScope": true,
        }],
    }]);
    let spec =
        json!({"priorityLevelConfiguration": {"name": "tiny"}, "matchingPrecedence": 5, "rules": rules});
    let schema = create("flowschemas", json!({"metadata": {"name": "mallorys"}, "spec": spec})).await;

    let ask = async |door: Door| {
        let request = Request::post(REVIEWS).header("content-type", "application/json");
        let response = fixture.send(door, request, REVIEW).await;
        let mark = |name: &str| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        let marks = (mark("x-kubernetes-pf-flowschema-uid"), mark("x-kubernetes-pf-prioritylevel-uid"));
        (response.status().as_u16(), marks)
    };
    let marked = (Some(schema), Some(level));
    assert_eq!(ask(user("mallory")).await, (201, marked.clone()));
    let slow = send_slowly(&fixture, user("mallory"), REVIEWS);
    open(&fixture, 1).await;
    assert_eq!(ask(user("mallory")).await, (429, marked), "the level has one seat, and nobody waits for it");
    assert_eq!(ask(user("alice")).await, (201, (None, None)));
    assert_eq!(ask(administrator("a")).await, (201, (None, None)));
    let (code, text) = fixture.ask("a", "DELETE", &format!("{FLOW}/flowschemas/mallorys"), "").await;
    assert_eq!(code, 200, "{text}");
    assert_eq!(ask(user("mallory")).await, (201, (None, None)));
    slow.abort();
}

/// Spins for some milliseconds and counts.
fn spin(done: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let done = done.clone();
    move || {
        let until = std::time::Instant::now() + Duration::from_millis(3);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn heavy_work_of_others_gets_its_turn() {
    const MANY: usize = 100;
    let fairness = Arc::new(Fairness::new(Limits { cores: 1, ..Limits::default() }));
    let [loud, quiet] = [1, 2].map(store::TenantId);
    let done = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..MANY)
        .map(|_| {
            let (fairness, done) = (fairness.clone(), done.clone());
            tokio::spawn(async move {
                pool::set_flow(1);
                fairness.run(loud, spin(&done)).await.is_ok()
            })
        })
        .collect();
    while done.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (tenant, flow) in [(quiet, 1), (loud, 2)] {
        pool::set_flow(flow);
        fairness.run(tenant, || ()).await.map_err(|failure| failure.0).unwrap();
        assert!(
            done.load(Ordering::Relaxed) < MANY,
            "{tenant:?} {flow} waited for all that was there before"
        );
    }
    for one in flood {
        assert!(one.await.unwrap());
    }
    // A task is counted until its thread has noted what it used.
    while fairness.pool().tasks((0, loud)) != (0, 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
