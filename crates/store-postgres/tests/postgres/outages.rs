//! The database goes away, at bad moments, and comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::{Delivery, Expect, Scope, Store, StoreError, TenantId};
use store_postgres::{Options, Postgres};

use crate::proxy::Proxy;
use crate::replicas::{key, put};
use crate::server::Server;

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
