//! Writes while history is dropped and while it is not: `compaction STORE [SECONDS]`, on a store that is otherwise idle.
//! Prints a line of JSON for each of the two, for `cargo xtask bench`.
//!
//! Rounds of the two take turns, so that what the machine does meanwhile falls on both. History is dropped twice a
//! second and all of it, which is sixty times as often as a server does, and more each time.

// What it is for is to print.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use store::{Expect, Key, Operation, Retention, Store, TenantId};

const WRITERS: usize = 16;
const KEYS: usize = 100;
const BODY: usize = 1024;
const ROUNDS: u32 = 5;
const BETWEEN_COMPACTIONS: Duration = Duration::from_millis(500);
const NOTHING_KEPT: Retention = Retention { age: Duration::ZERO, bytes: 0 };

async fn open(address: &str) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match address.split_once(':') {
        Some(("postgres", _)) => {
            // Small partitions, so that there is something to drop each time.
            let (schema, partition_lines) = ("compaction".to_owned(), 1_000);
            let options =
                store_postgres::Options { schema, partition_lines, ..store_postgres::Options::default() };
            Arc::new(store_postgres::Postgres::open(address, options).await?)
        }
        Some(("etcd", _)) => {
            let mut config = store_etcd::Config::parse(address)?;
            config.prefix = "/compaction".to_owned();
            Arc::new(store_etcd::Etcd::open(&config, store_etcd::Options::default()).await?)
        }
        _ => Arc::new(store::Embedded::open(address.as_ref(), store::embedded::Options::default())?),
    })
}

/// How long each write took.
async fn round(store: &Arc<dyn Store>, tenant: TenantId, during: Duration) -> anyhow::Result<Vec<Duration>> {
    let until = Instant::now() + during;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while Instant::now() < until {
                    let key = Key::new("things", "", format!("{writer}-{}", times.len() % KEYS));
                    let value = vec![b'x'; BODY].into();
                    let began = Instant::now();
                    store.write(tenant, vec![Operation::Put { key, expect: Expect::Any, value }]).await?;
                    times.push(began.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for writer in writers {
        times.extend(writer.await??);
    }
    Ok(times)
}

fn tell(scenario: &str, mut times: Vec<Duration>, compactions: u32) {
    times.sort();
    let at =
        |share: usize| times.get(times.len() * share / 1_000).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let latency = json!({"p50": at(500), "p99": at(990), "p999": at(999)});
    println!(
        "{}",
        json!({"scenario": scenario, "operations": times.len(), "latency_ms": latency, "compactions": compactions})
    );
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("what to store in: a directory, postgres://... or etcd://...")?;
    let seconds: u32 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let during = Duration::from_secs(seconds.into()) / ROUNDS;
    let store = open(&address).await?;
    let tenant = store.create_tenant("load", "".into(), vec![]).await?.id;
    // Warm, and with something to drop.
    round(&store, tenant, during).await?;
    let (mut quiet, mut busy, mut compactions) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        quiet.extend(round(&store, tenant, during).await?);
        let compacting = async {
            loop {
                store.compact(NOTHING_KEPT).await?;
                compactions += 1;
                tokio::time::sleep(BETWEEN_COMPACTIONS).await;
            }
        };
        tokio::select! {
            times = round(&store, tenant, during) => busy.extend(times?),
            // It ends only when it fails.
            failed = compacting => return failed,
        }
    }
    tell("writes without compaction", quiet, 0);
    tell("writes under compaction", busy, compactions);
    store.close().await;
    Ok(())
}
