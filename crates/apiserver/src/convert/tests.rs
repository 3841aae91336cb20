//! Objects in versions that only a webhook knows, and webhooks that do not behave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use objects::Value;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Fixture, administrator};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OLD: &str = "/apis/example.com/v1/namespaces/default/things";
const NEW: &str = "/apis/example.com/v2/namespaces/default/things";

/// A conversion webhook on loopback.
#[derive(Clone, Default)]
struct Webhook {
    connections: Arc<AtomicUsize>,
    /// How many objects were in each review.
    reviews: Arc<Mutex<Vec<usize>>>,
}

impl Webhook {
    /// Starts it; returns the URL and the CA bundle.
    async fn start(&self) -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = builder.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://127.0.0.1:{}/convert", listener.local_addr().unwrap().port());
        let webhook = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                webhook.connections.fetch_add(1, Ordering::SeqCst);
                let (acceptor, webhook) = (acceptor.clone(), webhook.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| webhook.clone().convert(request));
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (url, STANDARD.encode(made.cert.pem()))
    }

    async fn convert(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let mut objects = review["request"]["objects"].as_array().unwrap().clone();
        self.reviews.lock().push(objects.len());
        for object in &mut objects {
            object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
            object["spec"]["converted"] = true.into();
        }
        let answer = json!({
            "apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": {
                "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects,
            },
        });
        Ok(Response::new(Full::new(answer.to_string().into())))
    }
}

async fn define(fixture: &Fixture, url: &str, bundle: &str) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema},
                {"name": "v2", "served": true, "storage": false, "schema": schema},
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": bundle},
            }},
        },
    });
    let (code, text) = fixture.ask("a", "POST", DEFINITIONS, &definition.to_string()).await;
    assert_eq!(code, 201, "{text}");
}

async fn create(fixture: &Fixture, path: &str, version: &str, name: &str) {
    let object =
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": name}});
    let (code, text) = fixture.ask("a", "POST", path, &object.to_string()).await;
    assert_eq!(code, 201, "{text}");
}

async fn get(fixture: &Fixture, path: &str) -> Value {
    let (code, text) = fixture.ask("a", "GET", path, "").await;
    assert_eq!(code, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_list_is_one_review_over_one_connection() {
    let fixture = Fixture::allowing("127.0.0.1").await;
    let webhook = Webhook::default();
    let (url, bundle) = webhook.start().await;
    define(&fixture, &url, &bundle).await;
    for i in 0..61 {
        create(&fixture, OLD, "v1", &format!("t{i:02}")).await;
    }
    assert!(webhook.reviews.lock().is_empty(), "nothing is converted that is stored as it was sent");
    let list = get(&fixture, NEW).await;
    let items = list["items"].as_array().unwrap();
    let names: Vec<&str> = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..61).map(|i| format!("t{i:02}")).collect::<Vec<_>>());
    assert!(
        items.iter().all(|item| item["apiVersion"] == "example.com/v2" && item["spec"]["converted"] == true)
    );
    assert_eq!(*webhook.reviews.lock(), [61]);

    assert_eq!(get(&fixture, &format!("{NEW}/t07")).await["spec"]["converted"], true);
    let patch = Request::patch(format!("{NEW}/t07")).header("content-type", "application/merge-patch+json");
    let patched = fixture.send(administrator("a"), patch, r#"{"spec": {"x": 1}}"#).await;
    assert_eq!(patched.status(), 200);
    let table = Request::get(NEW).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    assert_eq!(fixture.send(administrator("a"), table, "").await.status(), 200);
    assert_eq!(webhook.reviews.lock().last(), Some(&61));
    assert_eq!(webhook.connections.load(Ordering::SeqCst), 1);
}

/// What a client is told when it asks for an object that has to be converted at this URL, but for the URL.
async fn told(url: &str, bundle: &str) -> String {
    let fixture = Fixture::allowing("127.0.0.1").await;
    define(&fixture, url, bundle).await;
    create(&fixture, OLD, "v1", "one").await;
    // The clock stands still while something is awaited that has no end, so that a hanging webhook costs no time.
    tokio::time::pause();
    let (code, text) = fixture.ask("a", "GET", NEW, "").await;
    tokio::time::resume();
    assert_eq!(code, 500, "{text}");
    text.replace(url, "URL")
}

#[tokio::test]
async fn a_webhook_is_no_port_scanner() {
    let (_, bundle) = Webhook::default().start().await;
    let (stranger, _) = Webhook::default().start().await;
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    // Accepts, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = port(&TcpListener::bind("127.0.0.1:0").await.unwrap());
    let elsewhere = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let mut all = Vec::new();
    for url in [
        stranger,
        format!("https://127.0.0.1:{}/", port(&silent)),
        format!("https://127.0.0.1:{closed}/"),
        // Not allowed: with a listener, and without.
        format!("https://127.0.0.2:{}/", port(&elsewhere)),
        format!("https://127.0.0.2:{closed}/"),
    ] {
        all.push(told(&url, &bundle).await);
    }
    all.dedup();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0].contains("egress policy"), "{}", all[0]);
    let nobody = tokio::time::timeout(std::time::Duration::from_secs(1), elsewhere.accept()).await;
    assert!(nobody.is_err(), "the address that is not allowed was dialled");
}
