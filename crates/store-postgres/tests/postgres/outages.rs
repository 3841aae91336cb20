//! The database goes away, at bad moments, and comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use store::{Delivery, Expect, Scope, Store, StoreError, TenantId};
use store_postgres::{Options, Postgres};

use crate::proxy::Proxy;
use crate::replicas::{key, put};
use crate::server::{Server, Sql};

async fn open(url: &str) -> Arc<Postgres> {
    let (progress_interval, patience) = (Duration::from_millis(100), Duration::from_secs(3));
    let options = Options { progress_interval, patience, ..Options::default() };
    Arc::new(Postgres::open(url, options).await.unwrap())
}

/// What a writer knows of its writes.
#[derive(Default)]
struct Diary {
    acknowledged: Vec<String>,
    unknown: Vec<String>,
}

/// Makes new names until it is told to stop; an error must be one that says "later".
async fn write_names(store: Arc<Postgres>, tenant: TenantId, writer: usize, stop: Arc<AtomicBool>) -> Diary {
    let mut diary = Diary::default();
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("{writer}-{index}");
        index += 1;
        match store.write(tenant, vec![put(&name, Expect::Absent, "x")]).await {
            Ok(_) => diary.acknowledged.push(name),
            Err(StoreError::Unavailable(_)) => diary.unknown.push(name),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    diary
}

/// Counts up by compare and write; the count lies between what was acknowledged and that with what is unknown.
async fn count_up(store: Arc<Postgres>, tenant: TenantId, name: String, stop: Arc<AtomicBool>) -> (u64, u64) {
    let (mut acknowledged, mut unknown) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let entry = match store.get(tenant, &key(&name)).await {
            Ok(entry) => entry,
            Err(StoreError::Unavailable(_)) => continue,
            Err(other) => panic!("{other}"),
        };
        let count = entry.as_ref().map_or(0, |entry| number(&entry.value));
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
        match store.write(tenant, vec![put(&name, expect, &(count + 1).to_string())]).await {
            Ok(_) => acknowledged += 1,
            // Only this task writes it, so a conflict is with one of its own that it gave up on.
            Err(StoreError::Conflict { .. }) => assert!(unknown > 0, "a conflict with nobody"),
            Err(StoreError::Unavailable(_)) => unknown += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (acknowledged, unknown)
}

fn number(value: &[u8]) -> u64 {
    String::from_utf8_lossy(value).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_database_is_killed_under_load() {
    let server = Server::new(&[]);
    let replicas = [open(&server.url()).await, open(&server.url()).await];
    let tenant = replicas[0].create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let start = replicas[0].revision(tenant).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..6)
        .map(|writer| tokio::spawn(write_names(replicas[writer % 2].clone(), tenant, writer, stop.clone())))
        .collect();
    let counters: Vec<_> = (0..2)
        .map(|index| {
            let name = format!("counter-{index}");
            tokio::spawn(count_up(replicas[index].clone(), tenant, name, stop.clone()))
        })
        .collect();
    // A watch on each, from before the first kill to after the last.
    let mut watching = Vec::new();
    for replica in &replicas {
        let mut watch = replica.watch(tenant, Scope::Kind("things".into()), start).await.unwrap();
        watching.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            loop {
                match watch.next().await {
                    Some(Ok(Delivery::Event(event))) if event.key.name == "end" => return seen,
                    Some(Ok(Delivery::Event(event))) => {
                        seen.push((event.revision, event.key.name.to_string(), event.value.clone()));
                    }
                    Some(Ok(Delivery::Progress(_))) => {}
                    other => panic!("after {} events: {other:?}", seen.len()),
                }
            }
        }));
    }
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.start();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let mut diaries = Vec::new();
    for writer in writers {
        diaries.push(writer.await.unwrap());
    }
    let mut counts = Vec::new();
    for counter in counters {
        counts.push(counter.await.unwrap());
    }
    while replicas[0].write(tenant, vec![put("end", Expect::Any, "x")]).await.is_err() {}

    let page = replicas[1].range(tenant, &Scope::All, None, None, 0).await.unwrap();
    let there: BTreeMap<String, Bytes> =
        page.entries.into_iter().map(|entry| (entry.key.name.to_string(), entry.value)).collect();
    let acknowledged: usize = diaries.iter().map(|diary| diary.acknowledged.len()).sum();
    assert!(acknowledged > 0 && diaries.iter().any(|diary| !diary.acknowledged.is_empty()));
    for name in diaries.iter().flat_map(|diary| &diary.acknowledged) {
        assert!(there.contains_key(name), "{name} was acknowledged and is gone");
    }
    let written = there.keys().filter(|name| !name.starts_with("counter") && *name != "end").count();
    let unknown: usize = diaries.iter().map(|diary| diary.unknown.len()).sum();
    assert!(written <= acknowledged + unknown, "{written} written, {acknowledged} and {unknown}");
    for (index, (acknowledged, unknown)) in counts.into_iter().enumerate() {
        let count = there.get(&format!("counter-{index}")).map_or(0, |value| number(value));
        let most = acknowledged + unknown;
        assert!((acknowledged..=most).contains(&count), "{count} is not in {acknowledged}..={most}");
    }
    // Every watch has seen every change once, in order, and all of them lead to what is.
    let mut seen = Vec::new();
    for watch in watching {
        seen.push(watch.await.unwrap());
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].is_sorted_by_key(|(revision, ..)| *revision));
    let mut state: BTreeMap<String, Bytes> =
        seen[0].iter().map(|(_, name, value)| (name.clone(), value.clone())).collect();
    state.insert("end".into(), Bytes::from("x"));
    assert_eq!(state, there);
    let names = seen[0].iter().filter(|(_, name, _)| !name.starts_with("counter")).count();
    assert_eq!(names, written, "an event came twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_away_calls_say_so_and_then_work_again() {
    let server = Server::new(&["fsync=off"]);
    let store = open(&server.url()).await;
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let mut watch = store.watch(tenant, Scope::All, store.revision(tenant).await.unwrap()).await.unwrap();
    server.kill();
    let answers = [
        ("get", store.get(tenant, &key("a")).await.err()),
        ("range", store.range(tenant, &Scope::All, None, None, 0).await.err()),
        ("write", store.write(tenant, vec![put("a", Expect::Any, "1")]).await.err()),
        ("revision", store.revision(tenant).await.err()),
        ("tenant", store.tenant("t").await.err()),
        ("create", store.create_tenant("u", Bytes::new(), vec![]).await.err()),
        ("position", store.position().await.err()),
        ("fork", store.fork_tenant(tenant, None, "f", Bytes::new()).await.err()),
    ];
    for (call, answer) in answers {
        let Some(StoreError::Unavailable(why)) = &answer else { panic!("{call}: {answer:?}") };
        assert!(!why.contains("pass word"), "{call}: {why}");
    }
    server.start();
    let mut written = None;
    for _ in 0..100 {
        match store.write(tenant, vec![put("a", Expect::Any, "1")]).await {
            Ok(revision) => {
                written = Some(revision);
                break;
            }
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(other) => panic!("{other}"),
        }
    }
    let written = written.expect("it never came back");
    assert_eq!(store.revision(tenant).await.unwrap(), written);
    loop {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => {
                assert_eq!(event.revision, written);
                break;
            }
            Some(Ok(Delivery::Progress(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found_out_about() {
    let server = Server::new(&["fsync=off"]);
    let proxy = Proxy::to(server.port()).await;
    let store = open(&server.url_by(proxy.port)).await;
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let start = store.revision(tenant).await.unwrap();
    let mut watch = store.watch(tenant, Scope::All, start).await.unwrap();
    for index in 0..5u64 {
        store.write(tenant, vec![put("before", Expect::Any, "x")]).await.unwrap();
        proxy.swallow.store(true, Ordering::SeqCst);
        let expect = Expect::Absent;
        let revision = store.write(tenant, vec![put(&format!("lost-{index}"), expect, "x")]).await.unwrap();
        assert_eq!(proxy.swallowed.load(Ordering::SeqCst) as u64, index + 1);
        assert_eq!(revision, store.revision(tenant).await.unwrap());
    }
    let end = store.write(tenant, vec![put("end", Expect::Any, "x")]).await.unwrap();
    assert_eq!(end.0, start.0 + 11, "something was written twice");
    let mut seen = 0;
    loop {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => {
                seen += 1;
                assert_eq!(event.revision.0, start.0 + seen);
                if event.revision == end {
                    break;
                }
            }
            Some(Ok(Delivery::Progress(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_database_is_noticed_in_seconds_and_then_known_to_all() {
    let server = Server::new(&["fsync=off"]);
    // The patience of the product.
    let store = Arc::new(Postgres::open(&server.url(), Options::default()).await.unwrap());
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    store.write(tenant, vec![put("a", Expect::Any, "1")]).await.unwrap();
    // All connections for reads are in use.
    let a = key("a");
    futures::future::join_all((0..32).map(|_| store.get(tenant, &a))).await;
    for round in 0..2 {
        server.signal("STOP");
        for call in 0..6 {
            let began = Instant::now();
            let reads = futures::future::join_all((0..12).map(|_| store.get(tenant, &a)));
            let value = format!("{round}");
            let (reads, write) =
                futures::join!(reads, store.write(tenant, vec![put("a", Expect::Any, &value)]));
            let took = began.elapsed();
            assert!(reads.iter().all(|read| matches!(read, Err(StoreError::Unavailable(_)))), "{reads:?}");
            assert!(matches!(write, Err(StoreError::Unavailable(_))), "{write:?}");
            // What was on its way is found out about, for a second, once it is known that nobody is there: less than
            // what a single trip may take.
            assert!(took < Duration::from_secs(9), "call {call} of round {round} took {took:?}");
        }
        server.signal("CONT");
        let back = Instant::now();
        while store.write(tenant, vec![put("b", Expect::Any, "2")]).await.is_err() {
            assert!(back.elapsed() < Duration::from_secs(20), "it never came back");
        }
        while store.get(tenant, &key("b")).await.is_err() {
            assert!(back.elapsed() < Duration::from_secs(20), "it never came back");
        }
    }
}

/// A transaction of somebody else, until it is dropped.
async fn hold(server: &Server, sql: &str) -> (tokio_postgres::Client, tokio::task::JoinHandle<()>) {
    let (client, driver) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(async move { driver.await.unwrap() });
    client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
    (client, driver)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_somebody_holds_holds_up_nobody_else() {
    let server = Server::new(&["fsync=off"]);
    let store = open(&server.url()).await;
    let held = store.create_tenant("held", Bytes::new(), vec![]).await.unwrap().id;
    let free = store.create_tenant("free", Bytes::new(), vec![]).await.unwrap().id;
    let (client, driver) =
        hold(&server, &format!("SELECT 1 FROM hangar.tenant WHERE id = {held} FOR UPDATE")).await;
    let mut waiting = Vec::new();
    for index in 0..5 {
        let store = store.clone();
        let write = async move { store.write(held, vec![put("a", Expect::Any, &index.to_string())]).await };
        waiting.push(tokio::spawn(write));
        // In this order.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Longer than the engine only looks whether they are free, and well within what it waits for them at all.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        store.write(free, vec![put("a", Expect::Any, "1")]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(waiting.iter().all(|write| !write.is_finished()), "what is held was written");
    drop(client);
    driver.await.unwrap();
    let mut revisions = Vec::new();
    for write in waiting {
        revisions.push(write.await.unwrap().unwrap());
    }
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
    assert_eq!(store.get(held, &key("a")).await.unwrap().unwrap().value, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_for_the_role_is_not_for_us() {
    let server = Server::new(&["fsync=off"]);
    server
        .run(
            "ALTER ROLE hangar SET lock_timeout = '10ms';
             ALTER ROLE hangar SET statement_timeout = '100ms';
             ALTER ROLE hangar SET idle_session_timeout = '100ms'",
        )
        .await;
    let store = open(&server.url()).await;
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let (client, driver) = hold(&server, "SELECT 1 FROM hangar.directory FOR UPDATE").await;
    let updating = {
        let store = store.clone();
        tokio::spawn(async move { store.update_tenant(tenant, Bytes::from("new")).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!updating.is_finished(), "it did not wait");
    drop(client);
    driver.await.unwrap();
    updating.await.unwrap().unwrap();
    assert_eq!(store.tenant("t").await.unwrap().unwrap().record, "new");
}
