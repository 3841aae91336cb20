//! What control planes cost the engine itself, without sockets and controllers:
//! `cargo run --release -p apiserver --example tenants -- DIRECTORY COUNT` writes one line of JSON.
//!
//! Makes so many control planes, asks each of them for one thing, waits, and takes them away again.
//! `cargo xtask bench` runs it for docs/benchmarks.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures, run by hand")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{ApiServer, Config, Door, Engine};
use auth::user::{MASTERS, UserInfo};
use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use store::{Embedded, Store};
use tower::ServiceExt;

// As the product does, and without huge pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many are made one at a time, for the time that one takes; the others are made together, for the rate.
const ALONE: usize = 200;
const TOGETHER: usize = 16;
const SETTLING: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, count] = arguments.as_slice() else { panic!("usage: tenants DIRECTORY COUNT") };
    let count: usize = count.parse().unwrap();
    let engine = open(Path::new(directory));
    // The first pays for what all share.
    make(&engine, "host".to_owned()).await;
    tokio::time::sleep(SETTLING).await;
    let empty = resident_kib();

    let names: Vec<String> = (0..count).map(|number| format!("tenant-{number}")).collect();
    let (alone, together) = names.split_at(ALONE.min(count));
    let mut latencies = Vec::new();
    for name in alone {
        latencies.push(make(&engine, name.clone()).await);
    }
    latencies.sort_unstable();
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut making = futures::stream::iter(together.to_vec())
        .map(|name| {
            let engine = engine.clone();
            tokio::spawn(async move { make(&engine, name).await })
        })
        .buffer_unordered(TOGETHER);
    while let Some(made) = making.next().await {
        made.unwrap();
    }
    let (making_took, making_cpu) = (began.elapsed(), cpu_seconds() - cpu);
    tokio::time::sleep(SETTLING).await;
    let full = resident_kib();
    let cpu = cpu_seconds();
    tokio::time::sleep(IDLE).await;
    let idle = cpu_seconds() - cpu;

    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut deleting = futures::stream::iter(names.clone())
        .map(|name| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.delete_control_plane(&name).await.map_err(|failure| failure.0) })
        })
        .buffer_unordered(TOGETHER);
    while let Some(deleted) = deleting.next().await {
        assert!(deleted.unwrap().unwrap(), "a control plane was gone before it was deleted");
    }
    let (deleting_took, deleting_cpu) = (began.elapsed(), cpu_seconds() - cpu);
    tokio::time::sleep(SETTLING).await;
    let after = resident_kib();

    let per_second = |count: usize, took: Duration| (count > 0).then(|| count as f64 / took.as_secs_f64());
    let per_thousand = |count: usize, cpu: f64| (count > 0).then(|| cpu * 1e3 / count as f64);
    println!(
        "{}",
        json!({
            "scenario": format!("engine, {count} tenants"),
            "tenants": count,
            "first_answer_ms": {"p50": at(&latencies, 0.5), "p99": at(&latencies, 0.99), "max": at(&latencies, 1.0)},
            "made_per_second": per_second(together.len(), making_took),
            "made_cpu_s_per_1000": per_thousand(together.len(), making_cpu),
            "deleted_per_second": per_second(count, deleting_took),
            "deleted_cpu_s_per_1000": per_thousand(count, deleting_cpu),
            "resident_mib_before": empty as f64 / 1024.0,
            "resident_mib_with": full as f64 / 1024.0,
            "resident_mib_after": after as f64 / 1024.0,
            "resident_kib_per_tenant": full.saturating_sub(empty) as f64 / count.max(1) as f64,
            "idle_seconds": IDLE.as_secs(),
            "idle_cpu_s": idle,
        })
    );
    engine.stop();
    engine.store.close().await;
}

fn open(directory: &Path) -> Arc<Engine> {
    std::fs::create_dir_all(directory).unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(directory, Default::default()).unwrap());
    let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
    Engine::new(store, config)
}

/// From wanting a control plane to its first answer.
async fn make(engine: &Arc<Engine>, name: String) -> Duration {
    let began = Instant::now();
    engine.create_control_plane(&name).await.map_err(|failure| failure.0).unwrap();
    let administrator = UserInfo::new("admin", [MASTERS]);
    let request = Request::get("/api/v1/namespaces/default")
        .extension(Door::in_process(name, Arc::new(administrator)))
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = ApiServer::new(engine.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap();
    began.elapsed()
}

fn at(sorted: &[Duration], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize].as_secs_f64() * 1e3)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
