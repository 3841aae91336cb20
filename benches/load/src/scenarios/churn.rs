//! Many clients that create, update and delete while as many watch all of it, each on a connection of its own. No
//! write may fail, and every watcher must see every change once and in order; what is measured is how long after a
//! write was acknowledged its watchers know of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::Session;
use super::watches::number_after;
use crate::statistics::Latencies;
use crate::target::{Connection, Request};
use crate::work::Done;

const UPDATES: usize = 2;
/// With the creation and the deletion.
const WRITES: usize = UPDATES + 2;
/// Handshakes under way at once: what is measured is churn of objects, not of connections.
const CONNECTING: usize = 16;
/// Without an event for so long, one is missing.
const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &[u8] = br#""name":"churn-"#;
const REVISION: &[u8] = br#""resourceVersion":""#;
const DELETED: &[u8] = br#"{"type":"DELETED""#;

/// What a watcher and a writer both know of a change: the object's number and the writes it had seen before. A
/// deletion is told from updates by its type, not by its data.
type Change = (u64, usize);

pub async fn run(session: &Session) -> anyhow::Result<()> {
    for clients in &session.settings.churn {
        for pace in [Some(session.settings.churn_deliveries), None] {
            churn(session, *clients, pace).await.with_context(|| format!("{clients} clients"))?;
        }
    }
    Ok(())
}

/// Clients write as fast as their watchers are to receive events, or as fast as they are answered.
async fn churn(session: &Session, clients: usize, deliveries: Option<usize>) -> anyhow::Result<()> {
    let pace = if deliveries.is_some() { "paced" } else { "unpaced" };
    let namespace = format!("{}-churn-{clients}-{pace}", session.namespace);
    session.make_namespace(&namespace).await?;
    let path: Arc<str> = session.configmaps(&namespace).into();
    let list = session.aside.json(Request::get(format!("{path}?limit=1"))).await?;
    let from = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    let watch = format!("{path}?watch=1&timeoutSeconds=1800&resourceVersion={from}&labelSelector=churn");

    let connections: Vec<Connection> = stream::iter(0..2 * clients)
        .map(|_| session.target.connect())
        .buffer_unordered(CONNECTING)
        .try_collect()
        .await?;
    let (writing, watching) = connections.split_at(clients);
    let mut watchers = Vec::with_capacity(clients);
    for connection in watching {
        let response = connection.send(Request::get(watch.as_str())).await?;
        ensure!(response.status().is_success(), "a watch was answered with {}", response.status());
        watchers.push(tokio::spawn(follow(response.into_body(), clients * WRITES)));
    }

    let mut measurement = session.report.measurement(format!("churn, {clients} clients, {pace}"));
    let (cpu, began) = (session.report.begin()?, Instant::now());
    // At a pace all are busy at all times, each at its own part of the interval.
    let between = |deliveries: usize| Duration::from_secs_f64((clients * clients) as f64 / deliveries as f64);
    let interval = deliveries.map(between);
    let writers: Vec<_> = writing
        .iter()
        .enumerate()
        .map(|(number, connection)| {
            let share = number as f64 / clients as f64;
            let pace = interval.map(|interval| (interval.mul_f64(share), interval));
            tokio::spawn(live(connection.clone(), path.clone(), number as u64, pace))
        })
        .collect();
    let (mut acknowledged, mut answers) = (HashMap::new(), Latencies::default());
    for writer in writers {
        for (change, sent, answered) in writer.await?? {
            answers.push(answered - sent);
            acknowledged.insert(change, answered);
        }
    }
    let writing_took = began.elapsed();
    let (mut lags, mut first) = (Latencies::default(), None);
    for watcher in watchers {
        let events = watcher.await??;
        let order: Vec<Change> = events.iter().map(|(change, _)| *change).collect();
        for (change, at) in events {
            let written =
                acknowledged.get(&change).with_context(|| format!("{change:?} was never written"))?;
            lags.push(at.saturating_duration_since(*written));
        }
        let first = first.get_or_insert_with(|| order.clone());
        ensure!(*first == order, "two watchers saw different things");
    }
    let deliveries = lags.len();
    ensure!(deliveries == clients * clients * WRITES, "{deliveries} deliveries");
    measurement
        .add(&cpu, Done { operations: deliveries, took: began.elapsed(), latencies: lags, bytes: 0 })?;
    measurement.detail("writes", clients * WRITES);
    measurement.detail("writes_per_second", (clients * WRITES) as f64 / writing_took.as_secs_f64());
    measurement.detail("answers_ms", answers.summary());
    measurement.detail("took_s", began.elapsed().as_secs_f64());
    measurement.tell()?;
    session.remove_namespace(&namespace).await
}

/// One object's life, at once or with a start and an interval. Each write is told with when it was sent and when it
/// was acknowledged.
async fn live(
    connection: Connection,
    path: Arc<str>,
    number: u64,
    pace: Option<(Duration, Duration)>,
) -> anyhow::Result<Vec<(Change, Instant, Instant)>> {
    let mut ticks =
        pace.map(|(start, interval)| tokio::time::interval_at(tokio::time::Instant::now() + start, interval));
    let own = format!("{path}/churn-{number}");
    let mut written = Vec::with_capacity(WRITES);
    for turn in 0..WRITES {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let request = match turn {
            0 => Request::post(&*path, &object(number, turn)),
            _ if turn <= UPDATES => Request::put(own.as_str(), &object(number, turn)),
            _ => Request::delete(own.as_str()),
        };
        let sent = Instant::now();
        connection.succeed(request).await?;
        written.push(((number, turn), sent, Instant::now()));
    }
    Ok(written)
}

fn object(number: u64, turn: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("churn-{number}"), "labels": {"churn": "yes"}},
        "data": {"turn": turn.to_string()},
    })
}

/// Reads this many events, whose revisions must rise.
async fn follow(mut body: Incoming, events: usize) -> anyhow::Result<Vec<(Change, Instant)>> {
    let (mut seen, mut pending, mut last) = (Vec::with_capacity(events), Vec::new(), 0);
    let mut turns: HashMap<u64, usize> = HashMap::new();
    while seen.len() < events {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
        let frame = frame.with_context(|| format!("{} of {events} events came", seen.len()))?;
        let Ok(data) = frame.context("a watch ended early")??.into_data() else { continue };
        let now = Instant::now();
        pending.extend_from_slice(&data);
        let mut rest = pending.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            let told = || String::from_utf8_lossy(line).into_owned();
            let number = number_after(line, NAME).with_context(told)?;
            let revision = number_after(line, REVISION).with_context(told)?;
            ensure!(revision > last, "revision {revision} came after {last}");
            last = revision;
            let turn = turns.entry(number).or_default();
            let is_last = *turn == WRITES - 1;
            ensure!(line.starts_with(DELETED) == is_last, "turn {turn} of {}", told());
            seen.push(((number, *turn), now));
            *turn += 1;
            rest = &rest[end + 1..];
        }
        let kept = rest.len();
        pending.drain(..pending.len() - kept);
    }
    Ok(seen)
}
