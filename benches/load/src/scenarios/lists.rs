//! Large collections: listed whole, by page, by label; and deleted at once.

use std::time::{Duration, Instant};

use super::{Session, configmap, done_once};
use crate::target::Request;
use crate::work::Done;

const PAGE: usize = 500;

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let namespace = format!("{}-list", session.namespace);
    session.make_namespace(&namespace).await?;
    let path = session.configmaps(&namespace);
    fill(session, &path).await?;

    session.repeat("list", 10, Request::get(&path)).await?;
    session.repeat("list, from cache", 10, Request::get(format!("{path}?resourceVersion=0"))).await?;
    session.repeat("list, one page", 50, Request::get(format!("{path}?limit={PAGE}"))).await?;
    session.repeat("list, by label", 10, Request::get(format!("{path}?labelSelector=shard%3Ds3"))).await?;
    pages(session, &path).await?;

    let mut measurement = session.report.measurement("delete collection");
    let (began, sent) = (session.report.begin()?, Instant::now());
    session.aside.succeed(Request::delete(&path)).await?;
    let done = Done { operations: session.settings.collection, ..done_once(sent) };
    measurement.add(&began, done)?;
    measurement.tell()?;
    session.remove_namespace(&namespace).await?;

    // What the server still has of it when it has had time to tidy up.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let resident = session.report.server.resident_kib()? as f64 / 1024.0;
    session.report.tell("after delete collection", serde_json::json!({"resident_mib": resident}))
}

async fn fill(session: &Session, path: &str) -> anyhow::Result<()> {
    let payload = "x".repeat(session.settings.payload);
    let collection = path.to_owned();
    let make = move |n: usize| Request::post(&collection, &configmap(&format!("cm-{n:06}"), &payload, n));
    session.round(session.settings.workers, session.settings.collection, make).await.map(drop)
}

/// The whole collection, one page after the other; an operation is the whole of it.
async fn pages(session: &Session, path: &str) -> anyhow::Result<()> {
    let mut measurement = session.report.measurement("list, all pages");
    for _ in 0..session.settings.rounds {
        let (began, sent) = (session.report.begin()?, Instant::now());
        let (mut seen, mut next) = (0, String::new());
        loop {
            let page =
                session.aside.json(Request::get(format!("{path}?limit={PAGE}&continue={next}"))).await?;
            seen += page["items"].as_array().map_or(0, Vec::len);
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = token.to_owned(),
                _ => break,
            }
        }
        // The namespace has objects of its own beside ours.
        anyhow::ensure!(seen >= session.settings.collection, "only {seen} objects seen on all pages");
        measurement.add(&began, done_once(sent))?;
    }
    measurement.tell()
}
