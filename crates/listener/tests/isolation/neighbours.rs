//! A control plane whose user floods the server, its administrator, and another control plane beside it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use listener::Limits;
use serde_json::json;

use super::CONFIG_MAPS;
use super::client::{Credential, Network};
use super::world::{NOTE, World};

const PATIENCE: Duration = Duration::from_secs(60);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/team/things";

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

/// Some bytes, and no end.
fn endless() -> Body {
    use futures::StreamExt;
    let begun = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
    StreamBody::new(begun.chain(futures::stream::pending())).boxed_unsync()
}

/// A client that ignores every hint, and the answers it got, by their code.
#[derive(Clone)]
struct Flood {
    network: Network,
    credential: Credential,
    codes: Arc<Mutex<BTreeMap<u16, usize>>>,
    stop: Arc<AtomicBool>,
}

impl Flood {
    /// A connection whose client does not offer room for more than a little of each answer.
    async fn connect(&self) -> SendRequest<Body> {
        let stream = self.network.connect(Some("localhost"), &self.credential, b"h2").await;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(65_535);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(
        &self,
        sender: &mut SendRequest<Body>,
        method: &str,
        path: &str,
        body: Body,
    ) -> Option<Response<Incoming>> {
        let token = self.credential.token.as_deref().unwrap();
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost/control-planes/a{path}"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        let response = sender.send_request(request.body(body).unwrap()).await.ok()?;
        *self.codes.lock().unwrap().entry(response.status().as_u16()).or_default() += 1;
        Some(response)
    }

    /// As many requests at once, whose answers nobody reads.
    async fn hold(&self, count: usize, method: &'static str, path: &'static str, body: fn() -> Body) {
        let sender = self.connect().await;
        for _ in 0..count {
            let (flood, mut sender) = (self.clone(), sender.clone());
            tokio::spawn(async move {
                let held = flood.send(&mut sender, method, path, body()).await;
                while !flood.stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                drop(held);
            });
        }
    }

    /// As many clients that send the same again and again.
    async fn repeat(&self, clients: usize, method: &'static str, path: &'static str, body: &Bytes) {
        let sender = self.connect().await;
        for _ in 0..clients {
            let (flood, mut sender, body) = (self.clone(), sender.clone(), body.clone());
            tokio::spawn(async move {
                while !flood.stop.load(Ordering::Relaxed) {
                    match flood.send(&mut sender, method, path, full(body.clone())).await {
                        Some(response) => drop(response.into_body().collect().await),
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            });
        }
    }
}

/// What a user can do to others, all at once: large objects, answers that nobody reads, bodies that do not end, watches
/// from the beginning, lists by label and as tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_slows_nobody_but_the_one_who_makes_it() {
    let limits = apiserver::Limits {
        requests_in_flight: 20,
        requests_waiting: 400,
        watches: 64,
        memory: 24 << 20,
        ..apiserver::Limits::default()
    };
    let world = World::configured(Limits::new(1_000), limits).await;
    let [loud, quiet] = [world.tenant("a").await, world.tenant("b").await];
    let [administrator, robot] = [&loud.credentials[0], &loud.credentials[1]];
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }});
    let ask = async |door: &str, who: &Credential, method: &str, path: &str, body: &str| {
        world.network.ask(&world.by_path(door), who, method, path, body).await.code
    };
    assert_eq!(ask("a", administrator, "POST", DEFINITIONS, &definition.to_string()).await, 201);
    for number in 0..12 {
        let metadata = json!({"name": format!("large-{number}"), "labels": {"n": number.to_string()}});
        let object = json!({"metadata": metadata, "data": {"text": "x".repeat(500 << 10)}});
        assert_eq!(ask("a", administrator, "POST", CONFIG_MAPS, &object.to_string()).await, 201);
    }

    let flood = Flood {
        network: world.network.clone(),
        credential: robot.clone(),
        codes: Arc::default(),
        stop: Arc::default(),
    };
    let values = vec![r#"{"":0}"#; 60_000].join(",");
    let large = Bytes::from(format!(
        r#"{{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {{"generateName": "t"}}, "spec": [{values}]}}"#
    ));
    flood.repeat(6, "POST", "/apis/example.com/v1/namespaces/team/things?dryRun=All", &large).await;
    flood.hold(48, "GET", CONFIG_MAPS, || full("")).await;
    flood.hold(300, "POST", THINGS, endless).await;
    flood.hold(100, "GET", "/api/v1/configmaps?watch=true", || full("")).await;
    flood.repeat(8, "GET", "/api/v1/configmaps?labelSelector=n=3", &Bytes::new()).await;

    // It begins to be refused, and goes on.
    let refused = || flood.codes.lock().unwrap().get(&429).copied().unwrap_or_default();
    let begun = async {
        while refused() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("the flood is refused");
    for number in 0..15 {
        let name = format!("quiet-{number}");
        let object = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(20_000)}}).to_string();
        for who in &quiet.credentials[..2] {
            assert_eq!(ask("b", who, "GET", NOTE, "").await, 200);
            assert_eq!(ask("b", who, "GET", CONFIG_MAPS, "").await, 200);
        }
        let robot = &quiet.credentials[1];
        assert_eq!(ask("b", robot, "POST", CONFIG_MAPS, &object).await, 201);
        assert_eq!(ask("b", robot, "DELETE", &format!("{CONFIG_MAPS}/{name}"), "").await, 200);
    }
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(ask("a", administrator, "POST", review, "{}").await, 201);
    for number in 0..12 {
        let path = format!("{CONFIG_MAPS}/large-{number}");
        assert_eq!(ask("a", administrator, "DELETE", &path, "").await, 200);
    }
    assert_eq!(ask("a", administrator, "GET", "/readyz", "").await, 200);

    flood.stop.store(true, Ordering::Relaxed);
    let codes = flood.codes.lock().unwrap().clone();
    assert!(codes.keys().all(|code| matches!(code, 200 | 201 | 429 | 504)), "{codes:?}");
    let fairness = &world.engine.fairness;
    let over = async {
        while fairness.open(loud.plane.id) != (0, 0) || fairness.budget().used() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, over).await;
    let held = (fairness.open(loud.plane.id), fairness.budget().used());
    assert!(ended.is_ok(), "requests, watches and bytes are still held: {held:?}");
}
