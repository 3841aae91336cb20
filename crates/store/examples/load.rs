//! Measures the embedded store as a whole: `cargo run --release -p store --example load -- DIRECTORY [TENANTS]`.
//! The comparison of engines that came before it is in benches/engines.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures, run by hand")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use store::embedded::Options;
use store::{Delivery, Embedded, Expect, Key, Operation, Scope, Store, TenantId};

// As the product does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn key(index: u64) -> Key {
    Key::new("configmaps", "default", format!("object-{index:08}"))
}

fn value(seed: u64) -> Bytes {
    let mut text = String::from(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"#);
    let mut state = seed.wrapping_add(1);
    while text.len() < 1000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        text += &format!(r#""app.kubernetes.io/part-{}":"{state:016x}","#, text.len());
    }
    text.truncate(1000);
    text.into()
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) as f64 / 100.0
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn writers(store: &Arc<Embedded>, count: u64, tenants: &[TenantId], label: &str) {
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let tasks: Vec<_> = (0..count)
        .map(|writer| {
            let (store, stop, written, tenants) =
                (store.clone(), stop.clone(), written.clone(), tenants.to_vec());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut state = writer + 1;
                while !stop.load(Ordering::Relaxed) {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    let tenant = tenants[(state >> 33) as usize % tenants.len()];
                    let put = Operation::Put {
                        key: key((state >> 20) % 100),
                        expect: Expect::Any,
                        value: value(state),
                    };
                    let begin = Instant::now();
                    store.write(tenant, vec![put]).await.unwrap();
                    latencies.push(begin.elapsed());
                    written.fetch_add(1, Ordering::Relaxed);
                }
                latencies
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    latencies.sort();
    let written = written.load(Ordering::Relaxed) as f64;
    let at = |share: f64| latencies[(latencies.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{label}, {count} writers: {:.0} writes/s, p50 {:.2} p99 {:.2} max {:.1} ms, {:.0} CPU us per write",
        written / start.elapsed().as_secs_f64(),
        at(0.5),
        at(0.99),
        latencies.last().unwrap().as_secs_f64() * 1e3,
        (cpu_seconds() - cpu) * 1e6 / written
    );
}

async fn timed<T, F: Future<Output = T>>(label: &str, times: u32, mut work: impl FnMut(u32) -> F) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for index in 0..times {
        std::hint::black_box(work(index).await);
    }
    println!(
        "{label}: {:?} each, {:.3} CPU ms each",
        start.elapsed() / times,
        (cpu_seconds() - cpu) * 1e3 / f64::from(times)
    );
}

async fn watches(store: &Arc<Embedded>, tenant: TenantId, count: usize) {
    let from = store.revision(tenant).await.unwrap();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut watch = store.watch(tenant, Scope::Kind("configmaps".into()), from).await.unwrap();
                let mut seen = 0;
                while seen < 200 {
                    if let Delivery::Event(_) = watch.next().await.unwrap().unwrap() {
                        seen += 1;
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let cpu = cpu_seconds();
    for index in 0..200 {
        let put = Operation::Put { key: key(index % 100), expect: Expect::Any, value: value(index) };
        store.write(tenant, vec![put]).await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    let deliveries = 200.0 * count as f64;
    println!("{count} watches: {:.2} CPU ms per 1,000 deliveries", (cpu_seconds() - cpu) * 1e6 / deliveries);
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let path = Path::new(&arguments[1]);
    let tenants: u64 = arguments.get(2).map_or(10_000, |text| text.parse().unwrap());
    std::fs::remove_dir_all(path).ok();
    let open = || Arc::new(Embedded::open(path, Options::default()).unwrap());
    let store = open();
    println!("open and empty: {} MiB", resident());
    let one = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    for count in [1, 16, 256] {
        writers(&store, count, &[one], "one tenant").await;
    }
    let start = Instant::now();
    let mut ids = Vec::new();
    for chunk in (0..tenants).collect::<Vec<_>>().chunks(64) {
        let made = chunk.iter().map(|tenant| {
            let (store, tenant) = (store.clone(), *tenant);
            async move {
                let entries = (0..100).map(|index| (key(index), value(tenant * 100 + index))).collect();
                store.create_tenant(&format!("t{tenant}"), Bytes::new(), entries).await.unwrap().id
            }
        });
        ids.extend(futures::future::join_all(made).await);
    }
    println!("{tenants} tenants of 100 entries: {:?}; {} MiB", start.elapsed(), resident());
    for count in [16, 256] {
        writers(&store, count, &ids, "all tenants").await;
    }
    println!("resident: {} MiB", resident());
    store.close().await;
    drop(store);
    let start = Instant::now();
    let store = open();
    println!("open: {:?}; {} MiB", start.elapsed(), resident());

    let entries = (0..10_000).map(|index| (key(index), value(index))).collect();
    let big = store.create_tenant("big", Bytes::new(), entries).await.unwrap().id;
    timed("get, random tenant", 50_000, |index| {
        store.get(ids[(index as usize * 7919) % ids.len()], Box::leak(Box::new(key(u64::from(index % 100)))))
    })
    .await;
    let scope = Scope::Kind("configmaps".into());
    timed("range of 10,000", 50, |_| store.range(big, &scope, None, None, 0)).await;
    timed("page of 500 of 10,000", 200, |_| store.range(big, &scope, None, None, 500)).await;
    timed("range of 100, random tenant", 2_000, |index| {
        store.range(ids[(index as usize * 7919) % ids.len()], &scope, None, None, 0)
    })
    .await;
    for count in [100, 1_000] {
        watches(&store, one, count).await;
    }
    timed("fork of 10,000, and a read of it", 10, |index| {
        let store = &store;
        async move {
            let fork = store.fork_tenant(big, None, &format!("fork-{index}"), Bytes::new()).await.unwrap();
            store.get(fork.id, &key(9_999)).await.unwrap().unwrap();
        }
    })
    .await;
    let fork = store.fork_tenant(big, None, "fork", Bytes::new()).await.unwrap().id;
    timed("first range of 10,000 of a fork", 1, |_| store.range(fork, &scope, None, None, 0)).await;
    let start = Instant::now();
    let deletions = ids.iter().map(|id| store.delete_tenant(*id));
    futures::stream::iter(deletions).buffer_unordered(64).for_each(|done| async { done.unwrap() }).await;
    println!("{tenants} tenants deleted: {:?}; {} MiB", start.elapsed(), resident());
    let start = Instant::now();
    store.close().await;
    println!("close: {:?}", start.elapsed());
}
