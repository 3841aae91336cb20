//! Load on a PostgreSQL that is already there, through two replicas, with what it costs:
//! `cargo run --release -p store-postgres --example throughput -- ADDRESS [WRITERS] [SECONDS]`.
//!
//! Every writer updates objects of its own, of two kilobytes, in one of sixteen tenants, through one replica; the other
//! follows all tenants. Makes a schema `hangar_load`, and drops nothing: do that when you are done.

// What it is for is to print.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use store::{Expect, Key, Operation, Store};
use store_postgres::{Options, Postgres};

const TENANTS: usize = 16;
const BODY: usize = 2048;

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    format!("p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}", at(0.5), at(0.99), at(0.999))
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let address = arguments.get(1).expect("the address of the database");
    let writers: usize = arguments.get(2).map_or(64, |text| text.parse().unwrap());
    let seconds: u64 = arguments.get(3).map_or(10, |text| text.parse().unwrap());
    let options = Options { schema: "hangar_load".into(), ..Options::default() };
    let writing = Arc::new(Postgres::open(address, options.clone()).await.unwrap());
    let following = Arc::new(Postgres::open(address, options).await.unwrap());
    let mut tenants = Vec::new();
    for index in 0..TENANTS {
        let name = format!("load-{index}");
        let made = match writing.tenant(&name).await.unwrap() {
            Some(there) => there,
            None => writing.create_tenant(&name, Bytes::new(), vec![]).await.unwrap(),
        };
        tenants.push(made.id);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut feed = following.follow(vec![], None).await.unwrap();
    let heard = tokio::spawn(async move {
        let mut heard = HashMap::new();
        while let Some(Ok(event)) = feed.next().await {
            if event.key.name == "end" {
                break;
            }
            heard.insert((event.tenant, event.revision), Instant::now());
        }
        heard
    });
    let begun = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, tenant, stop) = (writing.clone(), tenants[writer % TENANTS], stop.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut index = 0;
                while !stop.load(Ordering::Relaxed) {
                    let key = Key::new("things", "load", format!("{writer}-{}", index % 50));
                    index += 1;
                    let value = Bytes::from(vec![b'a' + (index % 26) as u8; BODY]);
                    let before = Instant::now();
                    let put = Operation::Put { key, expect: Expect::Any, value };
                    let revision = store.write(tenant, vec![put]).await.unwrap();
                    times.push((tenant, revision, before, Instant::now()));
                }
                times
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let mut writes = Vec::new();
    for task in tasks {
        writes.extend(task.await.unwrap());
    }
    let took = begun.elapsed();
    let end =
        Operation::Put { key: Key::new("things", "load", "end"), expect: Expect::Any, value: Bytes::new() };
    writing.write(tenants[0], vec![end]).await.unwrap();
    let heard = heard.await.unwrap();
    println!("{writers} writers: {:.0} writes a second", writes.len() as f64 / took.as_secs_f64());
    println!("a write: {}", percentiles(writes.iter().map(|(.., before, after)| *after - *before).collect()));
    let lags = writes.iter().filter_map(|(tenant, revision, _, after)| {
        heard.get(&(*tenant, *revision)).map(|heard| heard.saturating_duration_since(*after))
    });
    let lags: Vec<Duration> = lags.collect();
    println!("heard by the other replica: {} of {}", lags.len(), writes.len());
    println!("after the acknowledgement: {}", percentiles(lags));
    let mut reads = Vec::new();
    for index in 0..2000usize {
        let before = Instant::now();
        let key = Key::new("things", "load", format!("{}-{}", index % writers, index % 50));
        following.get(tenants[index % writers % TENANTS], &key).await.unwrap();
        reads.push(before.elapsed());
    }
    println!("a read: {}", percentiles(reads));
    writing.close().await;
    following.close().await;
}
