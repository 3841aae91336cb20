//! Many watchers of one collection: what it costs to tell all of them of each change, and how long it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::Session;
use crate::statistics::Latencies;
use crate::target::{Connection, Request};
use crate::work::Done;

/// As many as a server commonly allows.
const STREAMS_PER_CONNECTION: usize = 100;
/// What is offered, whatever the number of watchers: a load that a server can bear, so that latencies mean something.
const DELIVERIES_PER_SECOND: f64 = 5_000.0;
const MOST_EVENTS_PER_SECOND: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(session: &Session) -> anyhow::Result<()> {
    for watchers in &session.settings.watchers {
        fan_out(session, *watchers).await.with_context(|| format!("{watchers} watchers"))?;
    }
    Ok(())
}

async fn fan_out(session: &Session, watchers: usize) -> anyhow::Result<()> {
    let namespace = format!("{}-watch-{watchers}", session.namespace);
    session.make_namespace(&namespace).await?;
    let path = session.configmaps(&namespace);
    let list = session.aside.json(Request::get(format!("{path}?limit=1"))).await?;
    let from = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    let watch = Request::get(format!("{path}?watch=1&timeoutSeconds=600&resourceVersion={from}"));

    let (epoch, events) = (Instant::now(), session.settings.events);
    let open = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::new();
    for _ in 0..watchers.div_ceil(STREAMS_PER_CONNECTION) {
        connections.push(session.target.connect().await?);
    }
    let (finish, finished) = watch::channel(());
    let tasks: Vec<_> = connections
        .iter()
        .cycle()
        .take(watchers)
        .map(|connection| {
            let watcher = Watcher { epoch, events, open: open.clone(), finished: finished.clone() };
            tokio::spawn(watcher.run(connection.clone(), watch.clone()))
        })
        .collect();
    while open.load(Ordering::Relaxed) < watchers {
        ensure!(epoch.elapsed() < PATIENCE, "only {} watches opened", open.load(Ordering::Relaxed));
        ensure!(!tasks.iter().any(|task| task.is_finished()), "a watch ended before it began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all_open = epoch.elapsed();
    tokio::time::sleep(Duration::from_millis(500)).await;

    let mut measurement = session.report.measurement(format!("watch, {watchers} watchers"));
    let (cpu, began) = (session.report.begin()?, Instant::now());
    let rate = (DELIVERIES_PER_SECOND / watchers as f64).clamp(1.0, MOST_EVENTS_PER_SECOND);
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..events {
        ticks.tick().await;
        let sent = epoch.elapsed().as_micros().to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("event-{number}")}, "data": {"sent": sent},
        });
        session.aside.succeed(Request::post(&path, &event)).await?;
    }
    let mut latencies = Latencies::default();
    for task in tasks {
        latencies.extend(tokio::time::timeout(PATIENCE, task).await.context("events are missing")???);
    }
    let deliveries = latencies.len();
    ensure!(deliveries == watchers * events, "{deliveries} deliveries of {}", watchers * events);
    measurement.add(&cpu, Done { operations: deliveries, took: began.elapsed(), latencies, bytes: 0 })?;
    measurement.detail("events", events);
    measurement.detail("open_ms", all_open.as_millis() as u64);
    measurement.tell()?;
    drop(finish);
    session.remove_namespace(&namespace).await
}

struct Watcher {
    epoch: Instant,
    events: usize,
    /// How many watches are open.
    open: Arc<AtomicUsize>,
    /// Held until all are done, so that no watch ends while others are measured.
    finished: watch::Receiver<()>,
}

impl Watcher {
    async fn run(self, connection: Connection, request: Request) -> anyhow::Result<Latencies> {
        let response = connection.send(request).await?;
        ensure!(response.status().is_success(), "a watch was answered with {}", response.status());
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut body = response.into_body();
        let (mut latencies, mut pending) = (Latencies::default(), Vec::new());
        while latencies.len() < self.events {
            let frame = body.frame().await.context("a watch ended early")??;
            let Ok(data) = frame.into_data() else { continue };
            let now = self.epoch.elapsed();
            pending.extend_from_slice(&data);
            let mut rest = pending.as_slice();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                if let Some(sent) = sent_at(&rest[..end]) {
                    latencies.push(now.saturating_sub(sent));
                }
                rest = &rest[end + 1..];
            }
            let kept = rest.len();
            pending.drain(..pending.len() - kept);
        }
        // The body is kept: a stream that is dropped is a watch that ends.
        let mut finished = self.finished;
        let keep = (body, connection);
        tokio::spawn(async move {
            let _ = finished.changed().await;
            drop(keep);
        });
        Ok(latencies)
    }
}

/// Events carry the time they were sent at, in microseconds since the measurement began.
fn sent_at(line: &[u8]) -> Option<Duration> {
    number_after(line, br#""sent":""#).map(Duration::from_micros)
}

/// The number that follows these bytes, without parsing the rest of the line.
pub fn number_after(line: &[u8], marker: &[u8]) -> Option<u64> {
    let at = line.windows(marker.len()).position(|window| window == marker)? + marker.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
