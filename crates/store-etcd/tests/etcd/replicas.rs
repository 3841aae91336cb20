//! Several replicas on one etcd.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::cached::{self, Cached};
use store::{
    Change, Delivery, Event, Expect, Key, Operation, Retention, Revision, Scope, Store, StoreError, TenantId,
    Watch, WatchError,
};
use store_etcd::{Config, Etcd};

use crate::server::{self, Configured, Server};
use crate::way::Way;

pub fn key(name: &str) -> Key {
    Key::new("things", "ns", name)
}

pub fn put(name: &str, value: &str) -> Operation {
    put_if(name, Expect::Any, value)
}

pub fn put_if(name: &str, expect: Expect, value: &str) -> Operation {
    Operation::Put { key: key(name), expect, value: Bytes::copy_from_slice(value.as_bytes()) }
}

pub async fn next_event(watch: &mut Watch) -> Arc<Event> {
    loop {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => return event,
            Some(Ok(Delivery::Progress(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn replicas(config: &Config, count: usize) -> Vec<Arc<Etcd>> {
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(Arc::new(server::open(config).await));
    }
    replicas
}

async fn tenant(store: &Etcd, name: &str) -> TenantId {
    store.create_tenant(name, Bytes::new(), vec![]).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_acknowledged_write_is_seen_through_all_and_told_once_in_order() {
    const WRITERS: usize = 6;
    const EACH: usize = 60;
    let etcd = Server::start();
    let replicas = replicas(&etcd.fresh_config(), 3).await;
    let tenant = tenant(&replicas[0], "one").await;
    let start = replicas[0].revision(tenant).await.unwrap();
    let mut watching = Vec::new();
    for replica in &replicas {
        let mut watch = replica.watch(tenant, Scope::All, start).await.unwrap();
        watching.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < WRITERS * EACH {
                let event = next_event(&mut watch).await;
                seen.push((event.position, event.revision, event.key.clone(), event.value.clone()));
            }
            seen
        }));
    }
    let writers = (0..WRITERS).map(|writer| {
        let replicas = replicas.clone();
        tokio::spawn(async move {
            for index in 0..EACH {
                let (name, value) = (format!("{writer}"), format!("{index}"));
                let through = &replicas[(writer + index) % 3];
                let revision = through.write(tenant, vec![put(&name, &value)]).await.unwrap();
                for other in &replicas {
                    let found = other.get(tenant, &key(&name)).await.unwrap().unwrap();
                    assert_eq!((found.modified, &found.value[..]), (revision, value.as_bytes()));
                    assert!(other.revision(tenant).await.unwrap() >= revision);
                    let page = other.range(tenant, &Scope::One(key(&name)), None, None, 0).await.unwrap();
                    assert!(page.revision >= revision && page.entries.len() == 1);
                }
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    let mut told = Vec::new();
    for watch in watching {
        told.push(watch.await.unwrap());
    }
    assert!(told[0].is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "out of order, or twice");
    assert_eq!(told[0].iter().map(|event| event.1).collect::<HashSet<_>>().len(), WRITERS * EACH);
    assert!(told.iter().all(|other| *other == told[0]), "replicas tell different stories");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compare_and_write_is_linearizable_across_replicas() {
    let etcd = Server::start();
    let replicas = replicas(&etcd.fresh_config(), 3).await;
    let tenant = tenant(&replicas[0], "one").await;
    replicas[0].write(tenant, vec![put("counter", "0")]).await.unwrap();
    let writers = (0..6).map(|writer| {
        let store = replicas[writer % 3].clone();
        tokio::spawn(async move {
            let mut done = 0;
            while done < 30 {
                let entry = store.get(tenant, &key("counter")).await.unwrap().unwrap();
                let next = std::str::from_utf8(&entry.value).unwrap().parse::<u64>().unwrap() + 1;
                let step = put_if("counter", Expect::Modified(entry.modified), &next.to_string());
                match store.write(tenant, vec![step]).await {
                    Ok(_) => done += 1,
                    Err(StoreError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    let found = replicas[1].get(tenant, &key("counter")).await.unwrap().unwrap();
    assert_eq!(&found.value[..], b"180");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tenants_come_and_go_for_all_at_once() {
    let etcd = Server::start();
    let replicas = replicas(&etcd.fresh_config(), 2).await;
    let (one, other) = (&replicas[0], &replicas[1]);
    for round in 0..5 {
        let name = format!("t{round}");
        let made = tenant(one, &name).await;
        assert_eq!(other.tenant(&name).await.unwrap().unwrap().id, made);
        assert!(matches!(
            other.create_tenant(&name, Bytes::new(), vec![]).await,
            Err(StoreError::TenantExists { .. })
        ));
        let mut watch = other.watch(made, Scope::All, Revision(0)).await.unwrap();
        one.write(made, vec![put("a", "1")]).await.unwrap();
        assert_eq!(next_event(&mut watch).await.key, key("a"));
        one.delete_tenant(made).await.unwrap();
        assert!(matches!(other.get(made, &key("a")).await, Err(StoreError::NoTenant)));
        assert!(matches!(other.write(made, vec![put("a", "2")]).await, Err(StoreError::NoTenant)));
        loop {
            match watch.next().await {
                Some(Ok(Delivery::Progress(_))) => {}
                Some(Err(error)) => break assert_eq!(error, WatchError::TenantDeleted),
                other => panic!("{other:?}"),
            }
        }
    }
    // Ids are won once, whoever hands them out.
    let racing = (0..20).map(|index| {
        let store = replicas[index % 2].clone();
        tokio::spawn(async move { tenant(&store, &format!("race-{index}")).await })
    });
    let ids = futures::future::join_all(racing).await.into_iter().map(|id| id.unwrap());
    assert_eq!(ids.collect::<HashSet<_>>().len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compaction_by_one_is_known_to_all() {
    let etcd = Server::start();
    let replicas = replicas(&etcd.fresh_config(), 2).await;
    let (one, other) = (&replicas[0], &replicas[1]);
    let (busy, idle) = (tenant(one, "busy").await, tenant(one, "idle").await);
    let old = one.write(busy, vec![put("a", "1")]).await.unwrap();
    let rest = one.write(idle, vec![put("a", "1")]).await.unwrap();
    let mut live = other.watch(busy, Scope::All, old).await.unwrap();
    for value in 2..10 {
        one.write(busy, vec![put("a", &value.to_string())]).await.unwrap();
        assert_eq!(next_event(&mut live).await.value, value.to_string());
    }
    one.compact(Retention { age: Duration::ZERO, bytes: 0 }).await.unwrap();
    let past = other.range(busy, &Scope::All, None, Some(old), 0).await;
    let Err(StoreError::Compacted { oldest, .. }) = past else { panic!("{past:?}") };
    assert_eq!(other.range(busy, &Scope::All, None, Some(oldest), 0).await.unwrap().entries.len(), 1);
    // A watch that runs goes on; one of a tenant that was idle resumes, though its revision is older than that.
    one.write(busy, vec![put("a", "last")]).await.unwrap();
    assert_eq!(next_event(&mut live).await.value, "last");
    one.write(idle, vec![put("a", "2")]).await.unwrap();
    for store in [one, other] {
        let mut resumed = store.watch(idle, Scope::All, rest).await.unwrap();
        assert_eq!(next_event(&mut resumed).await.value, "2");
        let page = store.range(idle, &Scope::All, None, Some(rest), 0).await.unwrap();
        assert_eq!(page.entries[0].value, "1");
    }
}

/// etcd says what was deleted when it sends the deletion. What it holds back for a replica that stands still is
/// compacted meanwhile, and then it sends deletions of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_that_stood_still_over_a_compaction_keeps_nothing_that_was_deleted() {
    // More than fits between etcd and a process that does not read.
    const MANY: usize = 80;
    let etcd = Server::start();
    let config = etcd.fresh_config();
    let way = Way::to(etcd.address()).await;
    let slow =
        Arc::new(server::open(&Config { endpoints: vec![way.address.clone()], ..config.clone() }).await);
    let other = server::open(&config).await;
    let tenant = tenant(&other, "one").await;
    let large = "x".repeat(400_000);
    let names: Vec<String> = (0..MANY).map(|index| format!("{index:02}")).collect();
    for name in &names {
        other.write(tenant, vec![put(name, &large)]).await.unwrap();
    }
    let cached = Cached::new(slow.clone(), cached::Options { passes: 0, ..cached::Options::default() });
    let kind = Scope::Kind("things".into());
    let listed = async || cached.range(tenant, &kind, None, None, 0).await.unwrap();
    let page = loop {
        let page = listed().await;
        if cached.load().from_memory > 0 {
            break page;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(page.entries.len(), MANY);
    let mut watch = slow.watch(tenant, Scope::All, page.revision).await.unwrap();
    let mut feed = slow.follow(vec![], Some(slow.position().await.unwrap())).await.unwrap();
    let watching = tokio::spawn(async move {
        let mut deleted = 0;
        loop {
            match watch.next().await.unwrap() {
                Ok(Delivery::Event(event)) if event.key == key("end") => return (deleted, None),
                Ok(Delivery::Event(event)) => deleted += usize::from(event.change == Change::Deleted),
                Ok(Delivery::Progress(_)) => {}
                Err(end) => return (deleted, Some(end)),
            }
        }
    });
    let following = tokio::spawn(async move {
        let mut deleted = 0;
        loop {
            match feed.next().await.unwrap() {
                Ok(event) if event.key == key("end") => return (deleted, None),
                Ok(event) => deleted += usize::from(event.change == Change::Deleted),
                Err(end) => return (deleted, Some(end)),
            }
        }
    });

    way.open.send_replace(false);
    for name in &names {
        other.write(tenant, vec![Operation::Delete { key: key(name), expect: Expect::Any }]).await.unwrap();
    }
    let last = other.write(tenant, vec![put("end", "")]).await.unwrap();
    etcd.ask("/v3/kv/compaction", &format!(r#"{{"revision":"{last}"}}"#));
    way.open.send_replace(true);

    for told in [watching.await.unwrap(), following.await.unwrap()] {
        match told {
            (deleted, None) => assert_eq!(deleted, MANY, "deletions were left out, and nobody was told"),
            (_, Some(end)) => assert!(matches!(end, WatchError::Compacted { .. }), "{end:?}"),
        }
    }
    let left = listed().await;
    assert_eq!(left.entries.iter().map(|entry| entry.key.name.as_str()).collect::<Vec<_>>(), ["end"]);
    // And it goes on from there.
    let mut watch = slow.watch(tenant, Scope::All, left.revision).await.unwrap();
    other.write(tenant, vec![put("after", "1")]).await.unwrap();
    assert_eq!(next_event(&mut watch).await.key, key("after"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_dead_replica_left_is_cleared_by_another() {
    let etcd = Server::start();
    let config = etcd.fresh_config();
    let dying = server::open(&config).await;
    let source = tenant(&dying, "source").await;
    let puts = |kind: &str| (0..300).map(|index| put(&format!("{kind}-{index}"), "x")).collect::<Vec<_>>();
    dying.write(source, puts("a")).await.unwrap();
    // An import that has come half way when its process ends.
    let mut export = dying.export_tenant(source, None).await.unwrap();
    let first = export.next().await.unwrap();
    let stuck = futures::stream::iter([first]).chain(futures::stream::pending()).boxed();
    let dying = Arc::new(dying);
    let importer = dying.clone();
    let importing = tokio::spawn(async move { importer.import_tenant("copy", Bytes::new(), stuck).await });
    while etcd.keys(&format!("{}/making/", config.prefix)).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    dying.close().await;
    importing.abort();
    let _ = importing.await;
    let options = store_etcd::Options {
        compaction_interval: Duration::from_millis(50),
        abandoned_after: Duration::from_millis(200),
        ..server::options()
    };
    let living = Etcd::open(&config, options).await.unwrap();
    while !etcd.keys(&format!("{}/making/", config.prefix)).is_empty()
        || !etcd.keys(&format!("{}/removing/", config.prefix)).is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let left = etcd.keys(&format!("{}/tenants/", config.prefix));
    assert!(left.iter().all(|key| key.contains(&format!("/tenants/{source}/"))), "{left:?}");
    assert_eq!(living.count(source, &Scope::All).await.unwrap(), 300);
    assert_eq!(living.tenant("copy").await.unwrap(), None);
}
