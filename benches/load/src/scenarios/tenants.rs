//! Control planes, asked for as users do: a `ControlPlane` object, a kubeconfig in a Secret, a first request.
//!
//! A server that has no such objects is told of, and has no result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::{Session, done_once};
use crate::report::Report;
use crate::target::{Connection, Request, Target};
use crate::work::Done;

pub const GROUP: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1";
pub const CONTROL_PLANES: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
pub const SECRETS: &str = "/api/v1/secrets?fieldSelector=metadata.name%3Dadmin-kubeconfig";
const PATIENCE: Duration = Duration::from_secs(120);
/// How many are made one at a time, for the time that one takes; the others are made together, for the rate.
const ALONE: usize = 20;
const TOGETHER: usize = 16;
/// What a server still has to do when it has answered is not its idle cost.
const SETTLING: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(10);

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let (status, _) = session.aside.call(Request::get(GROUP)).await?;
    if status == hyper::StatusCode::NOT_FOUND {
        return session.report.tell("tenants", json!({"skipped": "the server has no ControlPlanes"}));
    }
    let (report, server) = (&session.report, session.report.server);
    let names: Vec<String> =
        (0..session.settings.tenants).map(|number| format!("load{}-{number}", session.run)).collect();
    let (alone, together) = names.split_at(ALONE.min(names.len()));
    let arrivals = Arrivals::watch(&session.target.connect().await?, SECRETS, kubeconfig).await?;

    // The first pays for what all share.
    make(session, &arrivals, "load-first").await?;
    tokio::time::sleep(SETTLING).await;
    let empty = server.resident_kib()?;

    let mut measurement = report.measurement("tenant to first answer");
    let (cpu, mut one_by_one) = (report.begin()?, Done::default());
    for name in alone {
        one_by_one.merge(make(session, &arrivals, name).await?);
    }
    measurement.add(&cpu, one_by_one)?;
    measurement.tell()?;

    let all = together.iter().map(|name| make(session, &arrivals, name)).collect();
    measure_together(report, "tenants made", all).await?;
    tokio::time::sleep(SETTLING).await;
    let full = server.resident_kib()?;
    let idle = server.idle_cpu_seconds(IDLE).await?;

    let all =
        names.iter().map(String::as_str).chain(["load-first"]).map(|name| unmake(session, name)).collect();
    measure_together(report, "tenants deleted", all).await?;
    tokio::time::sleep(SETTLING).await;
    report.tell(
        "tenants",
        json!({
            "tenants": names.len(),
            "resident_mib_before": empty as f64 / 1024.0,
            "resident_mib_with": full as f64 / 1024.0,
            "resident_mib_after": server.resident_kib()? as f64 / 1024.0,
            "resident_kib_per_tenant": full.saturating_sub(empty) as f64 / names.len().max(1) as f64,
            "idle_seconds": IDLE.as_secs(),
            "idle_cpu_s": idle,
        }),
    )
}

async fn measure_together<F>(report: &Report, scenario: &str, all: Vec<F>) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<Done>>,
{
    let mut measurement = report.measurement(scenario);
    let (cpu, began) = (report.begin()?, Instant::now());
    let mut done = Done { operations: all.len(), ..Done::default() };
    let mut each = stream::iter(all).buffer_unordered(TOGETHER);
    while let Some(one) = each.try_next().await? {
        done.latencies.extend(one.latencies);
    }
    done.took = began.elapsed();
    measurement.add(&cpu, done)?;
    measurement.tell()
}

/// Asks for a control plane, waits for its kubeconfig, and asks it for something.
async fn make(session: &Session, arrivals: &Arrivals, name: &str) -> anyhow::Result<Done> {
    let began = Instant::now();
    let connection = open(session, arrivals, name).await?;
    connection.succeed(Request::get("/api/v1/namespaces/default")).await?;
    Ok(done_once(began))
}

/// Asks for a control plane and connects to it.
pub async fn open(session: &Session, arrivals: &Arrivals, name: &str) -> anyhow::Result<Connection> {
    let arrived = arrivals.expect(format!("{name}-system"));
    let wanted = json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": name}, "spec": {"type": "k8s", "backend": "shared"},
    });
    session.aside.succeed(Request::post(CONTROL_PLANES, &wanted)).await?;
    let kubeconfig = tokio::time::timeout(PATIENCE, arrived).await;
    let kubeconfig = kubeconfig.with_context(|| format!("no kubeconfig of {name} appears"))??;
    Arc::new(Target::parse(&kubeconfig)?).connect().await
}

/// Deletes a control plane and waits until it is gone.
pub async fn unmake(session: &Session, name: &str) -> anyhow::Result<Done> {
    let began = Instant::now();
    let path = format!("{CONTROL_PLANES}/{name}");
    session.aside.succeed(Request::delete(&path)).await?;
    while session.aside.call(Request::get(&path)).await?.0.is_success() {
        anyhow::ensure!(began.elapsed() < PATIENCE, "control plane {name} does not go");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(done_once(began))
}

/// The kubeconfig in a Secret, under the name of its namespace.
pub fn kubeconfig(secret: &Value) -> Option<(String, String)> {
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str()?).ok()?;
    Some((secret["metadata"]["namespace"].as_str()?.to_owned(), String::from_utf8(text).ok()?))
}
