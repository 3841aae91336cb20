//! A server in this process with objects of a provider, and one with thousands of kinds in many tenants.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::catalog::Offer;
use apiserver::{Config, Engine as Server};
use futures::StreamExt;
use http::Request;
use provision::{Engine, Limits, Metrics, Settings};
use runtime::{Fleet, Identity, InProcessFleet, Options, Runtime};
use serde_json::{Value, json};
use store::{Embedded, Store};
use terraform::driver::Terraform;
use terraform::plugin::{Launch, Pool};
use terraform::registry::{Registry, Served};
use tokio_util::sync::CancellationToken;

use super::{cpu, memory, shelf};

const TOGETHER: usize = 32;
/// Between looks whether all are as desired, which cost this process something, too.
const LOOK: Duration = Duration::from_secs(1);
const SETTLING: Duration = Duration::from_secs(2);
const THINGS: &str = "/apis/thing.shelf.kubeform.com/v1alpha1/namespaces/default/things";

fn server(directory: &Path) -> Arc<Server> {
    std::fs::create_dir_all(directory).unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(directory, Default::default()).unwrap());
    let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
    Server::new(store, config)
}

fn client(fleet: &InProcessFleet, tenant: &str) -> kube::Client {
    fleet.client(tenant, &Identity::administrator("admin", "cost"))
}

async fn serve(pool: &Pool, server: &Server, launch: Launch, digest: &str) -> Arc<Registry> {
    let catalogue = pool.catalogue(&launch, digest).await.unwrap();
    let registry = Arc::new(Registry::default());
    let address = "example.com/test/shelf".to_owned();
    registry.set(Served {
        name: "shelf".into(),
        address,
        program: Some(launch),
        digest: digest.into(),
        catalogue,
    });
    let offers = registry.offers().into_iter().map(|offer| Offer {
        definition: offer.definition,
        schema: Arc::new(move |_| (offer.schema)()),
        fingerprint: offer.fingerprint,
    });
    server.planes.catalogs.offer("terraform", offers.collect());
    registry
}

async fn post(client: &kube::Client, path: &str, object: &Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let made = client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await;
    made.unwrap();
}

async fn get(client: &kube::Client, path: &str) -> Value {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

/// Objects of one provider with one configuration, from their creation to the last one that is as desired.
pub async fn objects(pool: &Pool, directory: &Path, count: usize) {
    let (server, others) = (server(&directory.join("objects")), pool.running());
    server.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
    let registry = serve(pool, &server, Launch::new(shelf()), "cost").await;
    let fleet = Arc::new(InProcessFleet::with_cursor(server.clone(), "_clouds"));
    let driver = Terraform::new(registry, pool.clone(), &[5; 32]).unwrap();
    let settings = Settings { interval: Duration::from_secs(86_400), ..Settings::new(&[9; 32]) };
    let engine =
        Engine::new(Arc::new(driver), settings, Arc::new(Limits::default()), Arc::new(Metrics::default()));
    let (stop, runtime) =
        (CancellationToken::new(), Runtime::new(fleet.clone(), vec![Box::new(engine)], Options::default()));
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { runtime.run(stop).await.unwrap() }
    });
    let client = client(&fleet, "a");
    let cloud = directory.join("shelf");
    std::fs::create_dir_all(&cloud).unwrap();
    std::fs::set_permissions(&cloud, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let provider = json!({"directory": cloud}).to_string();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shelf"}, "stringData": {"provider": provider}});
    post(&client, "/api/v1/namespaces/default/secrets", &secret).await;
    let (began, cpu_before, memory_before) = (Instant::now(), cpu(), memory());
    let making = futures::stream::iter(0..count).map(|number| {
        let client = &client;
        async move {
            let object = json!({
                "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing",
                "metadata": {"name": format!("thing-{number}")},
                "spec": {"resource": {"name": "one", "size": number}, "providerRef": {"name": "shelf"}},
            });
            post(client, THINGS, &object).await;
        }
    });
    making.buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
    loop {
        let list = get(&client, THINGS).await;
        let items = list["items"].as_array().unwrap();
        if items.iter().filter(|item| item["status"]["phase"] == "Current").count() == count {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let (took, used) = (began.elapsed(), cpu() - cpu_before);
    tokio::time::sleep(SETTLING).await;
    let line = json!({
        "scenario": "terraform, objects", "objects": count, "processes": pool.running() - others,
        "seconds": took.as_secs_f64(), "cpu_ms_each": used / count as f64, "resident_mib": memory() - memory_before,
    });
    println!("{line}");
    stop.cancel();
    running.await.unwrap();
}

/// A provider with very many types in very many tenants: memory of all, and how soon a tenant tells of them.
pub async fn kinds(pool: &Pool, directory: &Path, kinds: usize, tenants: usize) {
    let server = server(&directory.join("kinds"));
    let fleet = InProcessFleet::new(server.clone());
    let names: Vec<String> = (0..tenants).map(|number| format!("tenant-{number}")).collect();
    let making = futures::stream::iter(names.clone()).map(|name| {
        let server = server.clone();
        async move { drop(server.create_control_plane(&name).await.map_err(|failure| failure.0).unwrap()) }
    });
    making.buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
    tokio::time::sleep(SETTLING).await;
    let mut launch = Launch::new(shelf());
    launch.environment.insert("TYPES".into(), auth::Secret::new(kinds.to_string()));
    let (began, before) = (Instant::now(), memory());
    let registry = serve(pool, &server, launch, "many").await;
    let (ready, offered) = (began.elapsed(), memory() - before);
    let mut discoveries = Vec::with_capacity(tenants);
    for name in &names {
        let client = client(&fleet, name);
        let began = Instant::now();
        let groups = get(&client, "/apis").await;
        let last = get(&client, &format!("/apis/kind{}.shelf.kubeform.com/v1alpha1", kinds - 1)).await;
        discoveries.push(began.elapsed());
        assert!(groups["groups"].as_array().unwrap().len() >= kinds);
        assert_eq!(last["resources"][0]["kind"], "Thing");
    }
    discoveries.sort_unstable();
    let milliseconds = |part: usize| discoveries[(discoveries.len() - 1) * part / 100].as_secs_f64() * 1e3;
    // One object in each tenant, all of the same kind: its schema is made once.
    let schema_began = Instant::now();
    for name in &names {
        let object = json!({
            "apiVersion": "kind1.shelf.kubeform.com/v1alpha1", "kind": "Thing", "metadata": {"name": "one"},
            "spec": {"resource": {"name": "one"}, "providerRef": {"name": "shelf"}},
        });
        post(
            &client(&fleet, name),
            "/apis/kind1.shelf.kubeform.com/v1alpha1/namespaces/default/things",
            &object,
        )
        .await;
    }
    let line = json!({
        "scenario": "terraform, kinds", "kinds": registry.kinds().len() - 1, "tenants": tenants,
        "ready_ms": ready.as_secs_f64() * 1e3, "offered_mib": offered, "resident_mib": memory() - before,
        "discovery_ms": {"p50": milliseconds(50), "p99": milliseconds(99)},
        "first_objects_ms_each": schema_began.elapsed().as_secs_f64() * 1e3 / tenants as f64,
    });
    println!("{line}");
}
