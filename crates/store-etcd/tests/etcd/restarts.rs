//! etcd dies, freezes and comes back.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::{Delivery, Revision, Scope, Store, StoreError, TenantId, WatchError};
use store_etcd::{Config, Etcd, Options};

use crate::replicas::{key, next_event, put};
use crate::server::{self, Configured, Server};

/// What a writer was told: the revision and the value of each write that was acknowledged.
type Told = Vec<(Revision, u64)>;

/// How many writes have been acknowledged to all writers together.
#[derive(Clone, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Until some more have been.
    async fn more(&self, count: u64) {
        let enough = self.0.load(Ordering::Acquire) + count;
        while self.0.load(Ordering::Acquire) < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Writes growing numbers under its own name, as a client does that tries again.
async fn write_on(
    store: Arc<Etcd>,
    tenant: TenantId,
    name: String,
    progress: Progress,
    stop: Arc<AtomicBool>,
) -> Told {
    let mut told = Told::new();
    let mut value = 0;
    while !stop.load(Ordering::Acquire) {
        value += 1;
        match store.write(tenant, vec![put(&name, &value.to_string())]).await {
            Ok(revision) => {
                told.push((revision, value));
                progress.0.fetch_add(1, Ordering::AcqRel);
            }
            // It may have happened or not: the next number says which.
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    told
}

/// Loads a store through two replicas while `disturb` does its worst; then nothing acknowledged may be missing from
/// what is, nor from what watches told.
async fn nothing_is_lost(config: &Config, disturb: impl AsyncFnOnce(Progress)) {
    let replicas = [Arc::new(server::open(config).await), Arc::new(server::open(config).await)];
    let tenant = replicas[0].create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let start = replicas[0].revision(tenant).await.unwrap();
    let (progress, stop) = (Progress::default(), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..6)
        .map(|index| {
            let store = replicas[index % 2].clone();
            tokio::spawn(write_on(store, tenant, format!("w{index}"), progress.clone(), stop.clone()))
        })
        .collect();
    let watches: Vec<_> = replicas
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut watch = store.watch(tenant, Scope::All, start).await.unwrap();
                let mut seen = Vec::new();
                loop {
                    match watch.next().await {
                        Some(Ok(Delivery::Event(event))) if event.key == key("end") => return seen,
                        Some(Ok(Delivery::Event(event))) => seen.push(event),
                        Some(Ok(Delivery::Progress(_))) => {}
                        // As a client does: on from what was seen last.
                        _ => {
                            let from = seen.last().map_or(start, |event| event.revision);
                            loop {
                                match store.watch(tenant, Scope::All, from).await {
                                    Ok(again) => break watch = again,
                                    Err(StoreError::Unavailable(_)) => {
                                        tokio::time::sleep(Duration::from_millis(50)).await;
                                    }
                                    Err(error) => panic!("{error}"),
                                }
                            }
                        }
                    }
                }
            })
        })
        .collect();
    disturb(progress.clone()).await;
    progress.more(20).await;
    stop.store(true, Ordering::Release);
    let mut told = HashMap::new();
    for (index, writer) in writers.into_iter().enumerate() {
        told.insert(format!("w{index}"), writer.await.unwrap());
    }
    while replicas[0].write(tenant, vec![put("end", "")]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (name, told) in &told {
        let Some(last) = told.last() else { continue };
        let found = replicas[1].get(tenant, &key(name)).await.unwrap().unwrap();
        assert!(found.modified >= last.0, "{name}: {} was acknowledged, {} is there", last.0, found.modified);
    }
    for watch in watches {
        let seen = watch.await.unwrap();
        assert!(seen.is_sorted_by(|a, b| a.position < b.position), "out of order, or twice");
        let by_revision: HashMap<Revision, (String, u64)> = seen
            .iter()
            .map(|event| {
                let value = std::str::from_utf8(&event.value).unwrap().parse().unwrap();
                (event.revision, (event.key.name.to_string(), value))
            })
            .collect();
        for (name, told) in &told {
            for (revision, value) in told {
                assert_eq!(by_revision.get(revision), Some(&(name.clone(), *value)), "at {revision}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_when_etcd_is_killed_under_load() {
    let mut etcd = Server::start();
    let config = etcd.fresh_config();
    nothing_is_lost(&config, async |progress| {
        for _ in 0..4 {
            progress.more(100).await;
            etcd.kill();
            tokio::time::sleep(Duration::from_millis(200)).await;
            etcd.restart();
            etcd.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_goes_on_without_any_one_of_its_members() {
    let mut members = Server::cluster(3);
    let mut config = members[0].fresh_config();
    config.endpoints = members.iter().map(Server::address).collect();
    nothing_is_lost(&config, async |progress| {
        for member in &mut members {
            progress.more(50).await;
            member.kill();
            // Without it, by those that are left.
            progress.more(50).await;
            member.restart();
            member.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_etcd_is_away_calls_say_so_and_then_work_again() {
    let mut etcd = Server::start();
    let config = etcd.fresh_config();
    let patient = server::open(&config).await;
    let tenant = patient.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let revision = patient.write(tenant, vec![put("a", "1")]).await.unwrap();
    patient.close().await;
    // From here on the patience is the product's, not that of the other tests: a busy machine may try it too often.
    let store = loop {
        match Etcd::open(&config, Options::default()).await {
            Ok(store) => break store,
            Err(error) => assert!(error.may_pass(), "{error}"),
        }
    };
    let mut watch = loop {
        match store.watch(tenant, Scope::All, revision).await {
            Ok(watch) => break watch,
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
        }
    };
    for (round, frozen) in [false, true, false].into_iter().enumerate() {
        if frozen {
            etcd.signal("STOP");
        } else {
            etcd.kill();
        }
        let answers = [
            ("get", store.get(tenant, &key("a")).await.err()),
            ("range", store.range(tenant, &Scope::All, None, None, 10).await.err()),
            ("count", store.count(tenant, &Scope::All).await.err()),
            ("write", store.write(tenant, vec![put("lost", "x")]).await.err()),
            ("revision", store.revision(tenant).await.err()),
            ("watch", store.watch(tenant, Scope::All, revision).await.err()),
            ("position", store.position().await.err()),
            ("tenant", store.tenant("one").await.err()),
            ("create", store.create_tenant("two", Bytes::new(), vec![]).await.err()),
        ];
        for (call, answer) in answers {
            assert!(matches!(answer, Some(StoreError::Unavailable(_))), "{call}: {answer:?}");
        }
        if frozen {
            etcd.signal("CONT");
        } else {
            etcd.restart();
        }
        let value = format!("round {round}");
        while store.write(tenant, vec![put("a", &value)]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The watch was there all the time.
        while next_event(&mut watch).await.value != value {}
    }
}

/// Copies a directory of a server that does not run.
fn copy(etcd: &Server, from: &str, to: &str) {
    let (from, to) = (etcd.directory().join(from), etcd.directory().join(to));
    let _ = std::fs::remove_dir_all(&to);
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_are_cut_when_etcd_is_restored_from_the_past() {
    let mut etcd = Server::start();
    let config = etcd.fresh_config();
    let store = server::open(&config).await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    store.write(tenant, vec![put("a", "kept")]).await.unwrap();
    etcd.kill();
    copy(&etcd, "data", "older");
    etcd.restart();
    etcd.wait();
    let mut last = Revision(0);
    for index in 0..30 {
        loop {
            match store.write(tenant, vec![put("a", &index.to_string())]).await {
                Ok(revision) => break last = revision,
                Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let mut watch = store.watch(tenant, Scope::All, last).await.unwrap();
    let mut feed = store.follow(vec![], None).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(Delivery::Progress(_)))));
    let feeding = tokio::spawn(async move { feed.next().await });
    etcd.kill();
    copy(&etcd, "older", "data");
    etcd.restart();
    etcd.wait();
    // Who watches has seen what never was, and has to look again.
    let end = loop {
        match watch.next().await {
            Some(Ok(Delivery::Progress(_))) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Some(Err(WatchError::Compacted { .. }))), "{end:?}");
    let end = feeding.await.unwrap();
    assert!(matches!(end, Some(Err(WatchError::Compacted { .. }))), "{end:?}");
    let page = store.range(tenant, &Scope::All, None, None, 0).await.unwrap();
    assert_eq!(page.entries[0].value, "kept");
    let mut watch = store.watch(tenant, Scope::All, page.revision).await.unwrap();
    store.write(tenant, vec![put("a", "new")]).await.unwrap();
    assert_eq!(next_event(&mut watch).await.value, "new");
}
