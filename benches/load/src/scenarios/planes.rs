//! Control planes among many others: how long one takes to be Ready, what all of them take, and what a copy of a full
//! one takes. What is measured is what a user waits for: from the request to the condition.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::tenants::{CONTROL_PLANES, GROUP, unmake};
use super::{Session, configmap, done_once};
use crate::target::Request;
use crate::work::Done;

const PATIENCE: Duration = Duration::from_secs(120);
/// How many are made one at a time at each level, for the time that one takes.
const SAMPLES: usize = 100;
const TOGETHER: usize = 16;
/// What a server still has to do when it has answered is not what it keeps, and neither are caches of a busy time.
const SETTLING: Duration = Duration::from_secs(30);
/// Copies that are made one after the other.
const COPIES: usize = 20;

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let (status, _) = session.aside.call(Request::get(GROUP)).await?;
    if status == hyper::StatusCode::NOT_FOUND {
        return session.report.tell("control planes", json!({"skipped": "the server has no ControlPlanes"}));
    }
    let ready =
        Arrivals::watch(&session.target.connect().await?, &format!("{CONTROL_PLANES}?"), is_ready).await?;
    levels(session, &ready).await?;
    copies(session, &ready).await
}

fn is_ready(object: &Value) -> Option<(String, String)> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|one| one["type"] == "Ready" && one["status"] == "True")?;
    Some((object["metadata"]["name"].as_str()?.to_owned(), String::new()))
}

async fn make(session: &Session, ready: &Arrivals, name: &str, spec: &Value) -> anyhow::Result<Done> {
    let arrived = ready.expect(name);
    let wanted = json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": name}, "spec": spec,
    });
    let began = Instant::now();
    session.aside.succeed(Request::post(CONTROL_PLANES, &wanted)).await?;
    let waited = tokio::time::timeout(PATIENCE, arrived).await;
    waited.with_context(|| format!("control plane {name} does not become ready"))??;
    Ok(done_once(began))
}

async fn together<F: Future<Output = anyhow::Result<Done>>>(all: Vec<F>) -> anyhow::Result<()> {
    let mut each = stream::iter(all).buffer_unordered(TOGETHER);
    while each.try_next().await?.is_some() {}
    Ok(())
}

/// More and more of them, and at each level the time that one more takes.
async fn levels(session: &Session, ready: &Arrivals) -> anyhow::Result<()> {
    let (report, server, spec) = (&session.report, session.report.server, json!({"type": "k8s"}));
    let name = |number: usize| format!("plane{}-{number}", session.run);
    let empty = server.resident_kib()?;
    let (mut made, mut making) = (0, Duration::ZERO);
    for level in &session.settings.existing {
        let missing: Vec<String> = (made..*level).map(name).collect();
        let start = Instant::now();
        together(missing.iter().map(|name| make(session, ready, name, &spec)).collect()).await?;
        making += start.elapsed();
        made = made.max(*level);
        let mut measurement = report.measurement(format!("control plane ready, {level} existing"));
        let cpu = report.begin()?;
        let mut each = Done::default();
        for sample in 0..SAMPLES {
            let name = format!("sample{}-{sample}", session.run);
            each.merge(make(session, ready, &name, &spec).await?);
            unmake(session, &name).await?;
        }
        measurement.add(&cpu, each)?;
        measurement.tell()?;
    }
    tokio::time::sleep(SETTLING).await;
    let full = server.resident_kib()?;

    let start = Instant::now();
    let all: Vec<String> = (0..made).map(name).collect();
    together(all.iter().map(|name| unmake(session, name)).collect()).await?;
    let deleting = start.elapsed();
    tokio::time::sleep(SETTLING).await;
    report.tell(
        "control planes",
        json!({
            "control_planes": made,
            "made_in_s": making.as_secs_f64(),
            "made_per_second": made as f64 / making.as_secs_f64().max(1e-9),
            "deleted_in_s": deleting.as_secs_f64(),
            "resident_mib_before": empty as f64 / 1024.0,
            "resident_mib_with": full as f64 / 1024.0,
            "resident_kib_per_control_plane": full.saturating_sub(empty) as f64 / made.max(1) as f64,
            "resident_mib_after": server.resident_kib()? as f64 / 1024.0,
        }),
    )
}

/// Copies of one with many objects in it, until they are Ready.
async fn copies(session: &Session, ready: &Arrivals) -> anyhow::Result<()> {
    let (source, objects) = (format!("source{}", session.run), session.settings.collection);
    make(session, ready, &source, &json!({"type": "k8s"})).await?;
    fill(session, &source, objects).await?;
    let mut measurement = session.report.measurement("copy of a control plane");
    measurement.detail("objects", objects);
    let cpu = session.report.begin()?;
    let (mut done, mut names) = (Done::default(), Vec::new());
    for copy in 0..COPIES {
        let name = format!("copy{}-{copy}", session.run);
        let spec = json!({"type": "k8s", "source": {"controlPlane": source}});
        done.merge(make(session, ready, &name, &spec).await?);
        names.push(name);
    }
    measurement.add(&cpu, done)?;
    measurement.tell()?;
    for name in names.iter().chain([&source]) {
        unmake(session, name).await?;
    }
    Ok(())
}

/// Through the control plane's own door, as its administrator.
async fn fill(session: &Session, name: &str, objects: usize) -> anyhow::Result<()> {
    let secret = format!("/api/v1/namespaces/{name}-system/secrets/admin-kubeconfig");
    let secret = session.aside.json(Request::get(secret)).await?;
    let (_, kubeconfig) = super::tenants::kubeconfig(&secret).context("the Secret has no kubeconfig")?;
    let target = std::sync::Arc::new(crate::target::Target::parse(&kubeconfig)?);
    let mut connections = Vec::new();
    for _ in 0..session.settings.connections.max(1) {
        connections.push(target.connect().await?);
    }
    let payload = "x".repeat(session.settings.payload);
    let make = move |number| {
        let object = configmap(&format!("object-{number}"), &payload, number);
        Request::post("/api/v1/namespaces/default/configmaps", &object)
    };
    crate::work::closed_loop(&connections, session.settings.workers, objects, make).await.map(drop)
}
