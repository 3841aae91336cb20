//! Cloud resources in many control planes, each with an account of its own: how long until all are there, how many calls
//! that takes, what the process keeps of it, and how soon the first call is made.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::Session;
use super::arrivals::Arrivals;
use super::tenants::{self, SECRETS, kubeconfig};
use crate::emulator::Emulator;
use crate::statistics::{Latencies, rounded};
use crate::target::{Connection, Request};

const PATIENCE: Duration = Duration::from_secs(600);
const TOGETHER: usize = 16;
/// What a server still has to do when it has answered is not what it keeps, and memory is given back when threads that
/// have nothing to do any more end, which is after ten seconds.
const SETTLING: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(100);
/// Objects that are made one at a time, for the time to the first call.
const ALONE: usize = 100;

const KINDS: &[Kind] = &[
    Kind { service: "s3", kind: "Bucket", plural: "buckets", name: "name" },
    Kind { service: "sqs", kind: "Queue", plural: "queues", name: "queueName" },
];

struct Kind {
    service: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// The field that names the resource.
    name: &'static str,
}

impl Kind {
    fn path(&self) -> String {
        let Kind { service, plural, .. } = self;
        format!("/apis/{service}.services.k8s.aws/v1alpha1/namespaces/default/{plural}")
    }

    fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}.services.k8s.aws/v1alpha1", self.service), "kind": self.kind,
            "metadata": {"name": name}, "spec": {self.name: name},
        })
    }
}

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let Some(port) = session.settings.aws_port else {
        return session.report.tell("clouds", json!({"skipped": "no --aws-port is given"}));
    };
    let (server, emulator) = (session.report.server, Emulator::listen(port).await?);
    let start = server.resident_kib()?;
    let services = ask_for_schemas(session).await?;
    tokio::time::sleep(SETTLING).await;
    let models = server.resident_kib()?;

    let count = session.settings.tenants;
    let arrivals = Arrivals::watch(&session.target.connect().await?, SECRETS, kubeconfig).await?;
    let names: Vec<String> = (0..count).map(|number| format!("cloud{}-{number}", session.run)).collect();
    let mut making = Vec::with_capacity(count);
    for (number, name) in names.iter().enumerate() {
        making.push(plane(session, &arrivals, name, number));
    }
    let planes: Vec<Connection> = stream::iter(making).buffered(TOGETHER).try_collect().await?;
    tokio::time::sleep(SETTLING).await;
    let empty = server.resident_kib()?;

    let (cpu, calls, began) = (server.cpu_seconds()?, emulator.calls(), Instant::now());
    let each = (session.settings.resources / count.max(1)).max(KINDS.len());
    let mut work = Vec::with_capacity(count);
    for (plane, name) in planes.iter().zip(&names) {
        work.push(apply(plane, name, each));
    }
    stream::iter(work).buffer_unordered(TOGETHER).try_collect::<Vec<()>>().await?;
    let applied = began.elapsed();
    for plane in &planes {
        synced(plane, began).await?;
    }
    let took = began.elapsed();
    let resources = each * planes.len();
    let used = server.cpu_seconds()? - cpu;
    let calls = emulator.calls() - calls;
    tokio::time::sleep(SETTLING).await;
    let full = server.resident_kib()?;
    let mut first = first_calls(&emulator, &planes, &names).await?;

    // What is left behind keeps the server busy.
    let mut all = Vec::with_capacity(count);
    for name in &names {
        all.push(tenants::unmake(session, name));
    }
    stream::iter(all).buffer_unordered(TOGETHER).try_collect::<Vec<_>>().await?;
    let mib = |kib: u64| rounded(kib as f64 / 1024.0);
    session.report.tell(
        "clouds",
        json!({
            "tenants": planes.len(),
            "resources": resources,
            "applied_in_s": rounded(applied.as_secs_f64()),
            "synced_in_s": rounded(took.as_secs_f64()),
            "calls_per_resource": rounded(calls as f64 / resources as f64),
            "cpu_s_per_1000": rounded(used / resources as f64 * 1e3),
            "first_call_ms": first.summary(),
            "services": services,
            "resident_mib_start": mib(start),
            "resident_mib_all_services": mib(models),
            "resident_mib_before": mib(empty),
            "resident_mib_with": mib(full),
            "resident_kib_per_resource": rounded(full.saturating_sub(empty) as f64 / resources as f64),
        }),
    )
}

/// Has the server make the schemas of all services: their models are in memory from then on.
async fn ask_for_schemas(session: &Session) -> anyhow::Result<usize> {
    let groups = session.aside.json(Request::get("/apis")).await?;
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let names = groups.iter().filter_map(|group| group["name"].as_str());
    let mut services = 0;
    for group in names.filter(|name| name.ends_with(".services.k8s.aws")) {
        session.aside.succeed(Request::get(format!("/openapi/v3/apis/{group}/v1alpha1"))).await?;
        services += 1;
    }
    anyhow::ensure!(services > 0, "the server has no kinds of AWS");
    Ok(services)
}

/// A control plane with credentials of its own, for an account of its own.
async fn plane(
    session: &Session,
    arrivals: &Arrivals,
    name: &str,
    number: usize,
) -> anyhow::Result<Connection> {
    let plane = tenants::open(session, arrivals, name).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ack-system"}});
    plane.succeed(Request::post("/api/v1/namespaces", &namespace)).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws-credentials"},
        "stringData": {"AWS_ACCESS_KEY_ID": format!("{:012}", 1_000 + number), "AWS_SECRET_ACCESS_KEY": "hidden"},
    });
    plane.succeed(Request::post("/api/v1/namespaces/ack-system/secrets", &secret)).await?;
    Ok(plane)
}

async fn apply(plane: &Connection, tenant: &str, count: usize) -> anyhow::Result<()> {
    for number in 0..count {
        let kind = &KINDS[number % KINDS.len()];
        let object = kind.object(&format!("{tenant}-{number}"));
        plane.succeed(Request::post(kind.path(), &object)).await?;
    }
    Ok(())
}

/// Waits until everything in a control plane is synced. Those looked at first are often the last.
async fn synced(plane: &Connection, began: Instant) -> anyhow::Result<()> {
    for kind in KINDS {
        loop {
            let list = plane.json(Request::get(kind.path())).await?;
            let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let left = items.iter().filter(|item| !is_synced(item)).collect::<Vec<_>>();
            let Some(one) = left.first() else { break };
            anyhow::ensure!(began.elapsed() < PATIENCE, "not synced: {one}");
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

fn is_synced(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "ACK.ResourceSynced" && one["status"] == "True")
}

/// From the answer to whoever makes an object to the first call about it, one object at a time.
async fn first_calls(
    emulator: &Emulator,
    planes: &[Connection],
    names: &[String],
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    let planes: Vec<_> = planes.iter().zip(names).collect();
    let places = planes.iter().cycle().take(if planes.is_empty() { 0 } else { ALONE }).enumerate();
    for (number, (plane, tenant)) in places {
        let kind = &KINDS[number % KINDS.len()];
        let name = format!("{tenant}-alone-{number}");
        plane.succeed(Request::post(kind.path(), &kind.object(&name))).await?;
        let answered = Instant::now();
        let call = loop {
            if let Some(call) = emulator.first_call(&name) {
                break call;
            }
            anyhow::ensure!(answered.elapsed() < PATIENCE, "nobody is asked for {name}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        // The call may come before its client has read the answer.
        latencies.push(call.saturating_duration_since(answered));
    }
    Ok(latencies)
}
