//! Very many control planes at once: how quickly they are Ready, and what a server with nothing to do does then.
//!
//! `burst` makes them and leaves them there, `burst-after` deletes what `burst` has made: between the two the server may
//! be restarted.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::Session;
use super::tenants::{CONTROL_PLANES, GROUP};
use crate::target::Request;

/// Creations under way at once, on all connections together.
const TOGETHER: usize = 64;
/// From the last one that is Ready to when the server is to have nothing left to do, and how long that is looked at.
const SETTLING: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(10);
/// For all of them, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(1_800);
const PAUSE: Duration = Duration::from_millis(200);
const PAGE: usize = 500;

async fn exists(session: &Session) -> anyhow::Result<bool> {
    let (status, _) = session.aside.call(Request::get(GROUP)).await?;
    Ok(status != hyper::StatusCode::NOT_FOUND)
}

fn name(number: usize) -> String {
    format!("burst-{number}")
}

pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !exists(session).await? {
        return session.report.tell("burst", json!({"skipped": "the server has no ControlPlanes"}));
    }
    let (count, server) = (session.settings.burst, session.report.server);
    let empty = server.resident_kib()?;
    let (began, cpu) = (Instant::now(), server.cpu_seconds()?);
    let create = |number: usize| async move {
        let wanted = json!({
            "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name(number)}, "spec": {"type": "k8s"},
        });
        let connection = &session.connections[number % session.connections.len()];
        connection.succeed(Request::post(CONTROL_PLANES, &wanted)).await.map(drop)
    };
    let mut all = stream::iter((0..count).map(create)).buffer_unordered(TOGETHER);
    while all.try_next().await?.is_some() {}
    let accepted = began.elapsed();
    // Not watched: deliveries to a client would be work of the server that nobody asked for here.
    while ready(session).await? < count {
        anyhow::ensure!(began.elapsed() < PATIENCE, "not all control planes are Ready");
        tokio::time::sleep(PAUSE).await;
    }
    let (made, making) = (began.elapsed(), server.cpu_seconds()? - cpu);
    tokio::time::sleep(SETTLING).await;
    let settling = server.cpu_seconds()? - cpu - making;
    let idle = server.idle_cpu_seconds(WINDOW).await?;
    let full = server.resident_kib()?;
    session.report.tell(
        "burst",
        json!({
            "control_planes": count,
            "accepted_in_s": accepted.as_secs_f64(),
            "made_in_s": made.as_secs_f64(),
            "made_per_second": count as f64 / made.as_secs_f64().max(1e-9),
            "cpu_s_per_1000": making * 1_000.0 / count.max(1) as f64,
            "cpu_s_settling": settling,
            "idle_cpu_s": idle,
            "resident_mib_before": empty as f64 / 1024.0,
            "resident_mib_with": full as f64 / 1024.0,
            "resident_kib_per_control_plane": full.saturating_sub(empty) as f64 / count.max(1) as f64,
        }),
    )
}

/// How many are Ready, up to the first page with one that is not.
async fn ready(session: &Session) -> anyhow::Result<usize> {
    let (mut ready, mut token) = (0, String::new());
    loop {
        let path = format!("{CONTROL_PLANES}?limit={PAGE}&continue={token}");
        let page = session.aside.json(Request::get(path)).await?;
        let items = page["items"].as_array().context("a list has no items")?;
        ready += items.iter().filter(|item| is_ready(item)).count();
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() || items.iter().any(|item| !is_ready(item)) {
            return Ok(ready);
        }
    }
}

fn is_ready(object: &Value) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Deletes them, and waits until they are gone.
pub async fn after(session: &Session) -> anyhow::Result<()> {
    if !exists(session).await? {
        return session.report.tell("burst-after", json!({"skipped": "the server has no ControlPlanes"}));
    }
    let (count, server) = (session.settings.burst, session.report.server);
    let (began, cpu) = (Instant::now(), server.cpu_seconds()?);
    let delete = |number: usize| async move {
        let connection = &session.connections[number % session.connections.len()];
        connection.succeed(Request::delete(format!("{CONTROL_PLANES}/{}", name(number)))).await.map(drop)
    };
    let mut all = stream::iter((0..count).map(delete)).buffer_unordered(TOGETHER);
    while all.try_next().await?.is_some() {}
    loop {
        let page = session.aside.json(Request::get(format!("{CONTROL_PLANES}?limit=1"))).await?;
        if page["items"].as_array().is_none_or(Vec::is_empty) {
            break;
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "not all control planes are gone");
        tokio::time::sleep(PAUSE).await;
    }
    let taking = began.elapsed();
    session.report.tell(
        "burst-after",
        json!({
            "deleted_in_s": taking.as_secs_f64(),
            "deleted_per_second": count as f64 / taking.as_secs_f64().max(1e-9),
            "cpu_s_per_1000": (server.cpu_seconds()? - cpu) * 1_000.0 / count.max(1) as f64,
        }),
    )
}
