//! States in backends of Terraform's: what lies there is what Terraform would have written, and nothing of it is elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use super::plane::*;
use super::postgres::Server;

/// A thing with its state in the backend that the Secret `backend` configures.
fn remote(name: &str, size: u64) -> Json {
    thing(name, json!({"resource": {"name": name, "size": size}, "backendRef": {"name": "backend"}}))
}

/// The life of a thing, with a look at its state at every turn.
async fn lives(plane: &Plane, state: impl AsyncFn() -> Option<Json>) {
    plane.provider_secret().await;
    plane.create(THINGS, remote("one", 1)).await;
    let object = plane.current(THINGS, "one").await;
    let first = state().await.unwrap();
    let resource = &first["resources"][0];
    assert_eq!(
        (&first["version"], &resource["type"], &resource["name"]),
        (&json!(4), &json!("shelf_thing"), &json!("one"))
    );
    assert_eq!(resource["provider"], r#"provider["example.com/test/shelf"]"#);
    let attributes = &resource["instances"][0]["attributes"];
    assert_eq!((&attributes["id"], &attributes["size"]), (&object["spec"]["resource"]["id"], &json!(1)));
    assert!(attributes["token"].as_str().unwrap().starts_with("token of"), "the whole state");
    assert_eq!(resource["instances"][0]["private"], STANDARD.encode("planned+applied"));
    // Nothing of it is in the control plane.
    assert!(object["spec"].get("state").is_none(), "{object}");
    assert!(plane.get("secrets", "one-shelf-sensitive").await.is_none());
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 2}}})).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["size"] == json!(2)).await;
    plane.current(THINGS, "one").await;
    let second = state().await.unwrap();
    assert_eq!(second["resources"][0]["instances"][0]["attributes"]["size"], json!(2));
    assert!(second["serial"].as_u64() > first["serial"].as_u64());
    assert_eq!(second["lineage"], first["lineage"]);
    // A second object would write over it.
    plane.create(THINGS, remote("two", 1)).await;
    plane.failed(THINGS, "two", "it is of shelf_thing.one and not of shelf_thing.two").await;
    plane.delete(THINGS, "two").await;
    plane.gone(THINGS, "two").await;
    assert_eq!(plane.world.things().len(), 1);
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty() && state().await.is_none());
}

#[derive(Default)]
struct Web {
    state: Option<Vec<u8>>,
    lock: Option<Json>,
    calls: BTreeMap<String, usize>,
}

/// A server for states that wants a password, and a lock for every write.
async fn web() -> (Arc<Mutex<Web>>, String) {
    let web = Arc::new(Mutex::new(Web::default()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/state", listener.local_addr().unwrap());
    let shared = web.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let web = shared.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let web = web.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let (status, body) = answer(&mut web.lock(), &parts, &body);
                    let mut response = Response::new(Full::new(Bytes::from(body)));
                    *response.status_mut() = status;
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(async move { http.serve_connection(TokioIo::new(stream), service).await });
        }
    });
    (web, address)
}

fn answer(web: &mut Web, parts: &http::request::Parts, body: &[u8]) -> (StatusCode, Vec<u8>) {
    *web.calls.entry(parts.method.to_string()).or_default() += 1;
    if parts.headers.get("authorization").map(|value| value.to_str().unwrap())
        != Some("Basic dXNlcjpodW50ZXIyMg==")
    {
        return (StatusCode::UNAUTHORIZED, vec![]);
    }
    match parts.method.as_str() {
        "GET" => web.state.clone().map_or((StatusCode::NOT_FOUND, vec![]), |state| (StatusCode::OK, state)),
        "POST" => {
            let holder = web.lock.as_ref().map(|lock| format!("ID={}", lock["ID"].as_str().unwrap()));
            if parts.uri.query() != holder.as_deref() || holder.is_none() {
                return (StatusCode::CONFLICT, vec![]);
            }
            assert!(parts.headers.contains_key("content-md5"));
            web.state = Some(body.to_vec());
            (StatusCode::OK, vec![])
        }
        "DELETE" => {
            web.state = None;
            (StatusCode::OK, vec![])
        }
        "LOCK" => match &web.lock {
            Some(holder) => (StatusCode::LOCKED, holder.to_string().into_bytes()),
            None => {
                web.lock = Some(serde_json::from_slice(body).unwrap());
                (StatusCode::OK, vec![])
            }
        },
        "UNLOCK" => {
            let id = serde_json::from_slice::<Json>(body).unwrap()["ID"].clone();
            let held = web.lock.take_if(|lock| lock["ID"] == id).is_some();
            (if held { StatusCode::OK } else { StatusCode::CONFLICT }, vec![])
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, vec![]),
    }
}

fn settings(address: &str) -> Json {
    json!({"address": address, "lock_address": address, "unlock_address": address, "username": "user", "password": "hunter22"})
}

#[tokio::test]
async fn behind_a_web_server() {
    let plane = Plane::new().await;
    let (web, address) = web().await;
    plane.secret("backend", "http", settings(&address)).await;
    let state = async || web.lock().state.as_ref().map(|state| serde_json::from_slice(state).unwrap());
    lives(&plane, state).await;
    assert!(web.lock().lock.is_none(), "unlocked in the end");
    assert!(web.lock().calls["LOCK"] > 0);
}

#[tokio::test]
async fn locked_by_others_and_moved() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let (web, address) = web().await;
    plane.secret("backend", "http", settings(&address)).await;
    // Kept beside the object first.
    plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await;
    plane.current(THINGS, "one").await;
    let before = plane.world.things();
    web.lock().lock = Some(json!({"ID": "other", "Who": "carol@laptop"}));
    plane.patch(THINGS, "one", json!({"spec": {"backendRef": {"name": "backend"}}})).await;
    let object = plane.failed(THINGS, "one", "locked by carol@laptop").await;
    assert!(!object.to_string().contains("hunter22"));
    web.lock().lock = None;
    plane.nudge(THINGS, "one").await;
    let object = plane.current(THINGS, "one").await;
    assert!(object["spec"].get("state").is_none());
    let secret = plane.get("secrets", "one-shelf-sensitive").await;
    assert!(secret.is_none_or(|secret| secret_value(&secret, "state").is_none()), "moved, not copied");
    let state: Json = serde_json::from_slice(web.lock().state.as_ref().unwrap()).unwrap();
    assert_eq!(state["resources"][0]["instances"][0]["attributes"]["id"], before[0]["id"]);
    assert_eq!(plane.world.things(), before, "nothing changed in the cloud");
    // One that is not there.
    plane.secret("away", "http", json!({"address": "http://127.0.0.1:1/state"})).await;
    plane.thing("two", json!({"resource": {"name": "two"}, "backendRef": {"name": "away"}})).await;
    let object = plane.failed(THINGS, "two", "whether the operator's egress policy allows").await;
    assert!(!object.to_string().contains("refused"), "{object}");
    assert_eq!(plane.world.things(), before);
    // Wrong ways to say it.
    plane.patch("secrets", "backend", json!({"data": {"http": null}, "stringData": {"consul": "{}"}})).await;
    plane.failed(THINGS, "one", "which is not one of").await;
    plane.patch(THINGS, "one", json!({"spec": {"backendRef": {"name": "none"}}})).await;
    plane.failed(THINGS, "one", "Secret default/none does not exist").await;
    assert_eq!(plane.world.things(), before);
}

/// Destinations that the policy does not allow are not dialled, and all that is told of any is the same.
#[tokio::test]
async fn only_where_the_policy_allows() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let met = Arc::new(Mutex::new(0));
    let counting = met.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // It speaks another protocol.
            *counting.lock() += 1;
            let _ = stream.try_write(b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    let configurations = |port: u16| {
        [
            (
                "http",
                json!({"address": format!("http://127.0.0.1:{port}/state"), "lock_method": "X", "update_method": "Y"}),
            ),
            ("pg", json!({"conn_str": format!("postgres://u:p@127.0.0.1:{port}/d?sslmode=disable")})),
            (
                "pg",
                json!({"conn_str": format!("host=example.com hostaddr=127.0.0.1 port={port} user=u password=p")}),
            ),
        ]
    };
    let mut told = std::collections::BTreeSet::new();
    for (allowed, reached) in [("", false), ("127.0.0.0/8", true)] {
        let plane = Plane::reaching(allowed).await;
        plane.provider_secret().await;
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        for port in [open, closed] {
            for (n, (backend, config)) in configurations(port).into_iter().enumerate() {
                let name = format!("{backend}-{n}-{port}");
                plane.secret(&name, backend, config).await;
                let spec = json!({"resource": {"name": name}, "backendRef": {"name": name}});
                plane.thing(&name, spec).await;
                let object = plane.failed(THINGS, &name, "cannot be used").await;
                let conditions = object["status"]["conditions"].as_array().unwrap();
                let message = conditions.iter().find_map(|one| one["message"].as_str()).unwrap().to_owned();
                told.insert(message.replace(backend, "BACKEND"));
            }
        }
        assert_eq!(*met.lock() > 0, reached);
        assert!(plane.world.things().is_empty());
    }
    accepting.abort();
    assert_eq!(told.len(), 1, "{told:?}");
}

/// The state goes where the object says, whole: not all providers find a resource again by its id.
#[tokio::test]
async fn from_one_to_another() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    for name in ["first", "second"] {
        plane.secret(name, "kubernetes", json!({"secret_suffix": name})).await;
    }
    let state = async |name: &str| plane.get("secrets", &format!("tfstate-default-{name}")).await;
    plane
        .thing("one", json!({"resource": {"name": "one", "size": 1}, "backendRef": {"name": "first"}}))
        .await;
    plane.current(THINGS, "one").await;
    let (before, asked) = (plane.world.things(), plane.applies());
    plane.world.fault("ImportResourceState: fail");
    plane.patch(THINGS, "one", json!({"spec": {"backendRef": {"name": "second"}}})).await;
    plane.current(THINGS, "one").await;
    assert!(state("first").await.is_none() && state("second").await.is_some());
    // What says where it lies is needed until it has been moved.
    plane.delete("secrets", "second").await;
    plane.patch(THINGS, "one", json!({"spec": {"backendRef": null}})).await;
    plane
        .failed(THINGS, "one", "the state lies where Secret default/second says, which does not exist")
        .await;
    plane.secret("second", "kubernetes", json!({"secret_suffix": "second"})).await;
    let object = plane.current(THINGS, "one").await;
    assert_eq!(object["spec"]["state"]["size"], 1);
    assert!(state("second").await.is_none());
    assert_eq!((plane.world.things(), plane.applies()), (before, asked));
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn in_postgresql() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let plane = Plane::new().await;
    plane.secret("backend", "pg", json!({"conn_str": server.url()})).await;
    let state = async || {
        let rows = server.ask("SELECT to_regclass('terraform_remote_state.states') IS NOT NULL");
        let text = match rows.as_str() {
            "t" => server.ask("SELECT data FROM terraform_remote_state.states WHERE name = 'default'"),
            _ => String::new(),
        };
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    };
    lives(&plane, state).await;
    assert_eq!(server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

#[tokio::test]
async fn in_a_secret() {
    let plane = Plane::new().await;
    plane.secret("backend", "kubernetes", json!({"secret_suffix": "state"})).await;
    let state = async || {
        let secret = plane.get("secrets", "tfstate-default-state").await?;
        assert_eq!(secret["metadata"]["labels"]["tfstate"], "true");
        assert_eq!(secret["metadata"]["annotations"]["encoding"], "gzip");
        let packed = STANDARD.decode(secret["data"]["tfstate"].as_str().unwrap()).unwrap();
        Some(serde_json::from_reader(flate2::read::GzDecoder::new(packed.as_slice())).unwrap())
    };
    lives(&plane, state).await;
    // Not in other namespaces, and not over what is no state.
    plane.patch("secrets", "backend", json!({"stringData": {"kubernetes": json!({"secret_suffix": "x", "namespace": "kube-system"}).to_string()}})).await;
    plane.create(THINGS, remote("three", 1)).await;
    plane.failed(THINGS, "three", "it can only be the object's own").await;
    plane.secret("tfstate-default-mine", "other", json!({})).await;
    plane
        .patch(
            "secrets",
            "backend",
            json!({"stringData": {"kubernetes": json!({"secret_suffix": "mine"}).to_string()}}),
        )
        .await;
    plane.failed(THINGS, "three", "is not a state").await;
    assert!(plane.world.things().is_empty());
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let leases = plane.send(Method::GET, path, &json!({})).await.unwrap();
    assert_eq!(leases["items"], json!([]), "the lock goes with the state");
}
