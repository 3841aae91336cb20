//! A quiet control plane beside one whose user floods the server: what it feels of each kind of flood.
//!
//! The flood comes from a service account with all rights in its control plane. While it goes on, the administrator of
//! that control plane logs in and deletes something, which has to succeed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Session;
use super::arrivals::Arrivals;
use super::tenants::{self, GROUP, SECRETS, kubeconfig};
use crate::statistics::{Latencies, rounded};
use crate::target::{Connection, Request, Target};

/// How long the quiet control plane is asked, undisturbed and beside each flood.
const WINDOW: Duration = Duration::from_secs(10);
/// From when a flood begins to when its effect is measured.
const RAMP: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);
const MEMORY_PAUSE: Duration = Duration::from_millis(50);
/// A refused client waits as long as it is told to at least.
const REFUSED: Duration = Duration::from_millis(100);
/// Streams on each connection of a flood.
const STREAMS: usize = 500;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/load.example.com/v1/namespaces/default/things";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let (status, _) = session.aside.call(Request::get(GROUP)).await?;
    if status == hyper::StatusCode::NOT_FOUND {
        return session.report.tell("neighbours", json!({"skipped": "the server has no ControlPlanes"}));
    }
    let arrivals = Arrivals::watch(&session.target.connect().await?, SECRETS, kubeconfig).await?;
    let names = ["loud", "quiet"].map(|name| format!("{name}-{}", session.run));
    let administrator = tenants::open(session, &arrivals, &names[0]).await?;
    let quiet = tenants::open(session, &arrivals, &names[1]).await?;
    quiet.succeed(Request::post(CONFIG_MAPS, &config_map("probe", 1_000))).await?;
    let flooder = Flooder::new(&administrator).await?;
    prepare(session, &administrator).await?;

    let hanging = TcpListener::bind("127.0.0.1:0").await?;
    define_hanging(&administrator, hanging.local_addr()?.port()).await?;
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = hanging.accept().await {
            held.push(stream);
        }
    });

    for (letter, flood) in FLOODS {
        let before = probe(&quiet, WINDOW).await?;
        let peak = Peak::watch(session);
        let running = flooder.start(*flood, session.settings.neighbour_scale).await?;
        tokio::time::sleep(RAMP).await;
        let asking = administer(&administrator);
        let (beside, asked) = tokio::join!(probe(&quiet, WINDOW), asking);
        asked.with_context(|| format!("the administrator beside flood {letter}"))?;
        let codes = running.stop().await;
        let peak = peak.stop().await?;
        tell(
            session,
            letter,
            before,
            beside.with_context(|| format!("beside flood {letter}"))?,
            &codes,
            peak,
        )?;
        // What is left of one is not to be felt by the next.
        tokio::time::sleep(RAMP).await;
    }
    holding.abort();
    for name in &names {
        tenants::unmake(session, name).await?;
    }
    Ok(())
}

fn tell(
    session: &Session,
    letter: &str,
    mut before: Latencies,
    mut beside: Latencies,
    codes: &BTreeMap<u16, usize>,
    peak_kib: u64,
) -> anyhow::Result<()> {
    let (quiet, disturbed) = (before.percentile(0.99), beside.percentile(0.99));
    let answers: serde_json::Map<String, Value> =
        codes.iter().map(|(code, count)| (code.to_string(), json!(count))).collect();
    let ratio = quiet.zip(disturbed).map(|(quiet, disturbed)| rounded(disturbed / quiet));
    session.report.tell(
        &format!("neighbour {letter}"),
        json!({
            "undisturbed_ms": before.summary(),
            "beside_ms": beside.summary(),
            "p99_ratio": ratio,
            "probes": beside.len(),
            "answers": answers,
            "peak_resident_mib": peak_kib / 1024,
        }),
    )
}

/// A closed loop of small reads and writes, all of which succeed.
async fn probe(quiet: &Connection, window: Duration) -> anyhow::Result<Latencies> {
    let (mut latencies, began) = (Latencies::default(), Instant::now());
    let mut number = 0;
    while began.elapsed() < window {
        let request = match number % 4 {
            0 => Request::put(format!("{CONFIG_MAPS}/probe"), &config_map("probe", 1_000 + number % 100)),
            _ => Request::get(format!("{CONFIG_MAPS}/probe")),
        };
        let sent = Instant::now();
        quiet.succeed(request).await?;
        latencies.push(sent.elapsed());
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(latencies)
}

/// What the administrator of the flooded control plane has to be able to do.
async fn administer(administrator: &Connection) -> anyhow::Result<()> {
    let connection = administrator.again().await?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    connection.succeed(Request::post(REVIEWS, &review)).await?;
    connection.succeed(Request::post(CONFIG_MAPS, &config_map("administered", 10))).await?;
    connection.succeed(Request::delete(format!("{CONFIG_MAPS}/administered"))).await.map(drop)
}

fn config_map(name: &str, size: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x".repeat(size)},
    })
}

fn definition(plural: &str, kind: &str, spec: Value, conversion: Value) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec},
        }}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.load.example.com")},
        "spec": {
            "group": "load.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [version("v1", true), version("v2", false)], "conversion": conversion,
        },
    })
}

/// The objects that floods read, and a kind whose objects are expensive to write.
async fn prepare(session: &Session, administrator: &Connection) -> anyhow::Result<()> {
    let spec = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"words": {"type": "array", "maxItems": 300, "items": {"type": "string", "maxLength": 20}}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.words) || self.words.all(w, w.matches('^([a-z]+-?)*$'))"},
        ],
    });
    administrator
        .succeed(Request::post(DEFINITIONS, &definition("things", "Thing", spec, Value::Null)))
        .await?;
    let scale = session.settings.neighbour_scale;
    let mut all = JoinSet::new();
    for worker in 0..8 {
        let connection = administrator.clone();
        all.spawn(async move {
            for number in (worker..20_000 / scale).step_by(8) {
                let mut object = config_map(&format!("small-{number}"), 500);
                object["metadata"]["labels"] = json!({"shard": format!("s{}", number % 16)});
                connection.succeed(Request::post(CONFIG_MAPS, &object)).await?;
            }
            for number in (worker..1_000 / scale).step_by(8) {
                let object = config_map(&format!("large-{number}"), 100_000);
                let path = "/api/v1/namespaces/kube-public/configmaps";
                connection.succeed(Request::post(path, &object)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(())
}

/// A kind whose objects are converted by a webhook that accepts connections and says nothing.
async fn define_hanging(administrator: &Connection, port: u16) -> anyhow::Result<()> {
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
    }});
    let spec = json!({"type": "object"});
    administrator
        .succeed(Request::post(DEFINITIONS, &definition("hangings", "Hanging", spec, conversion)))
        .await?;
    let object = json!({"apiVersion": "load.example.com/v1", "kind": "Hanging", "metadata": {"name": "one"}});
    let path = "/apis/load.example.com/v1/namespaces/default/hangings";
    administrator.succeed(Request::post(path, &object)).await.map(drop)
}

/// What a client of a flood does.
#[derive(Clone, Copy)]
enum Client {
    /// The same again and again, as soon as it is answered.
    Repeat,
    /// Keeps the answer and reads nothing of it.
    Hold,
    /// Sends the first byte of a body.
    Slow,
}

/// Clients of a flood: how many, what they do, and what they send.
type Part = (usize, Client, fn() -> Request);

const FLOODS: &[(&str, &[Part])] = &[
    ("a", &[(20, Client::Repeat, large)]),
    ("b", &[(64, Client::Hold, || Request::get("/api/v1/namespaces/kube-public/configmaps"))]),
    ("c", &[(600, Client::Slow, || Request::post(REVIEWS, &json!({})))]),
    ("d", &[(9_900, Client::Hold, watch_from_now), (100, Client::Repeat, watch_from_the_beginning)]),
    ("e", &[(16, Client::Repeat, expensive), (16, Client::Repeat, long_selector)]),
    ("f", &[(16, Client::Repeat, by_label), (16, Client::Repeat, table)]),
    ("g", &[(100, Client::Repeat, || Request::get("/apis/load.example.com/v2/namespaces/default/hangings"))]),
];

fn large() -> Request {
    let values = vec![r#""of thirteen..""#; 190_000].join(",");
    let body = format!(
        r#"{{"apiVersion": "load.example.com/v1", "kind": "Thing", "metadata": {{"generateName": "t"}}, "spec": {{"x": [{values}]}}}}"#
    );
    let (path, content_type) = (format!("{THINGS}?dryRun=All"), crate::target::JSON);
    Request { method: "POST", path, content_type, body: body.into(), ..Request::default() }
}

fn watch_from_now() -> Request {
    Request::get("/api/v1/namespaces/default/secrets?watch=true")
}

fn watch_from_the_beginning() -> Request {
    Request::get("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1")
}

fn expensive() -> Request {
    let words = vec!["abcdefghijklmnopqrs!"; 300];
    let thing = json!({
        "apiVersion": "load.example.com/v1", "kind": "Thing", "metadata": {"generateName": "t"},
        "spec": {"words": words},
    });
    Request::post(format!("{THINGS}?dryRun=All"), &thing)
}

fn long_selector() -> Request {
    let values: Vec<String> = (0..9_000).map(|number| format!("v{number}")).collect();
    Request::get(format!("{CONFIG_MAPS}?labelSelector=shard%20in%20({})", values.join(",")))
}

fn by_label() -> Request {
    Request::get(format!("{CONFIG_MAPS}?labelSelector=shard%3Ds3"))
}

fn table() -> Request {
    Request { accept: "application/json;as=Table;v=v1;g=meta.k8s.io", ..Request::get(CONFIG_MAPS) }
}

/// A user with all rights in a control plane, who is not its administrator.
struct Flooder {
    target: Arc<Target>,
}

impl Flooder {
    async fn new(administrator: &Connection) -> anyhow::Result<Flooder> {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flooder"}});
        administrator.succeed(Request::post(accounts, &account)).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "flooder"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "flooder"}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        administrator.succeed(Request::post(bindings, &binding)).await?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = administrator.json(Request::post(format!("{accounts}/flooder/token"), &request)).await?;
        let token = token["status"]["token"].as_str().context("no token")?;
        Ok(Flooder { target: Arc::new(administrator.target().with_token(token)) })
    }

    async fn start(&self, parts: &[Part], scale: usize) -> anyhow::Result<Running> {
        let running = Running { stop: Arc::default(), codes: Arc::default(), clients: JoinSet::new() };
        let mut running = running;
        for (count, client, make) in parts {
            let count = count.div_ceil(scale);
            let request = make();
            for first in (0..count).step_by(STREAMS) {
                let connection = self.target.connect().await?;
                for _ in first..count.min(first + STREAMS) {
                    running.add(connection.clone(), *client, request.clone());
                }
            }
        }
        Ok(running)
    }
}

/// A flood that goes on, and the answers it gets, by their code.
struct Running {
    stop: Arc<AtomicBool>,
    codes: Arc<Mutex<BTreeMap<u16, usize>>>,
    clients: JoinSet<()>,
}

impl Running {
    fn add(&mut self, connection: Connection, client: Client, request: Request) {
        let (stop, codes) = (self.stop.clone(), self.codes.clone());
        let count = move |code: u16| {
            if let Ok(mut codes) = codes.lock() {
                *codes.entry(code).or_default() += 1;
            }
        };
        self.clients.spawn(async move {
            let mut held = None;
            while !stop.load(Ordering::Relaxed) {
                let answer = match client {
                    Client::Slow => connection.send_slowly(request.clone(), Bytes::from_static(b"{")).await,
                    Client::Repeat | Client::Hold => connection.send(request.clone()).await,
                };
                // One that was cut counts as 0.
                let Ok(response) = answer else {
                    count(0);
                    tokio::time::sleep(REFUSED).await;
                    continue;
                };
                let refused = response.status() == hyper::StatusCode::TOO_MANY_REQUESTS;
                count(response.status().as_u16());
                match client {
                    Client::Hold if !refused => {
                        held = Some(response);
                        while !stop.load(Ordering::Relaxed) {
                            tokio::time::sleep(REFUSED).await;
                        }
                    }
                    _ => drop(crate::target::read(response).await),
                }
                if refused {
                    tokio::time::sleep(REFUSED).await;
                }
            }
            drop(held);
        });
    }

    async fn stop(mut self) -> BTreeMap<u16, usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.shutdown().await;
        self.codes.lock().map(|codes| codes.clone()).unwrap_or_default()
    }
}

/// The most memory that the server has while something goes on.
struct Peak {
    stop: Arc<AtomicBool>,
    watching: tokio::task::JoinHandle<anyhow::Result<u64>>,
}

impl Peak {
    fn watch(session: &Session) -> Peak {
        let (stop, server) = (Arc::new(AtomicBool::new(false)), session.report.server);
        let stopped = stop.clone();
        let watching = tokio::spawn(async move {
            let mut peak = 0;
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.max(server.resident_kib()?);
                tokio::time::sleep(MEMORY_PAUSE).await;
            }
            Ok(peak)
        });
        Peak { stop, watching }
    }

    async fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.watching.await?
    }
}
