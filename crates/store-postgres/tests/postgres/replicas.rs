//! Several processes on one schema, here as several stores that share nothing but the database.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use store::{
    Delivery, Event, Expect, Key, Operation, Position, Revision, Scope, Store, StoreError, Watch, WatchError,
};
use store_postgres::Postgres;

use crate::conformance::Place;
use crate::server::Sql;

pub fn key(name: &str) -> Key {
    Key::new("things", "ns", name)
}

pub fn put(name: &str, expect: Expect, value: &str) -> Operation {
    Operation::Put { key: key(name), expect, value: Bytes::copy_from_slice(value.as_bytes()) }
}

fn things() -> Scope {
    Scope::Kind("things".into())
}

async fn events_until(watch: &mut Watch, last: &str) -> Vec<Arc<Event>> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while events.last().is_none_or(|event| event.key.name != last) {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => events.push(event),
            Some(Ok(Delivery::Progress(_))) => {}
            other => panic!("after {} events: {other:?}", events.len()),
        }
    }
    events
}

async fn replicas(place: &Place, count: usize) -> Vec<Arc<Postgres>> {
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(place.store().await);
    }
    replicas
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_acknowledges_every_other_sees_at_once() {
    let place = Place::new();
    let replicas = replicas(&place, 3).await;
    let tenant = replicas[0].create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    assert_eq!(replicas[1].tenant("t").await.unwrap().unwrap().id, tenant);
    let writers = (0..6usize).map(|writer| {
        let replicas = replicas.clone();
        tokio::spawn(async move {
            for index in 0..40usize {
                let (name, value) = (format!("{writer}"), format!("{index}"));
                let through = &replicas[(writer + index) % 3];
                let revision = through.write(tenant, vec![put(&name, Expect::Any, &value)]).await.unwrap();
                for other in &replicas {
                    assert!(other.revision(tenant).await.unwrap() >= revision);
                    let entry = other.get(tenant, &key(&name)).await.unwrap().unwrap();
                    assert_eq!((&entry.value[..], entry.modified), (value.as_bytes(), revision));
                    let page = other.range(tenant, &Scope::One(key(&name)), None, None, 0).await.unwrap();
                    assert!(page.revision >= revision && page.entries == [entry]);
                }
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_watch_hears_every_event_once_and_in_order() {
    const WRITERS: usize = 8;
    const EACH: usize = 60;
    let place = Place::new();
    let replicas = replicas(&place, 2).await;
    let tenant = replicas[0].create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let start = replicas[0].revision(tenant).await.unwrap();
    let mut watching = Vec::new();
    for index in 0..8 {
        let mut watch = replicas[index % 2].watch(tenant, things(), start).await.unwrap();
        watching.push(tokio::spawn(async move { events_until(&mut watch, "end").await }));
    }
    let writers = (0..WRITERS).map(|writer| {
        let store = replicas[writer % 2].clone();
        tokio::spawn(async move {
            for index in 0..EACH {
                let (own, shared) = (format!("own-{writer}"), format!("shared-{}", index % 3));
                let operations =
                    [own, shared].map(|name| put(&name, Expect::Any, &format!("{writer}-{index}")));
                store.write(tenant, operations.to_vec()).await.unwrap();
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    replicas[1].write(tenant, vec![put("end", Expect::Any, "x")]).await.unwrap();
    let line = |event: &Arc<Event>| {
        (event.position, event.revision, event.key.clone(), event.value.clone(), event.previous.clone())
    };
    let mut whole = replicas[0].watch(tenant, things(), start).await.unwrap();
    let expected: Vec<_> = events_until(&mut whole, "end").await.iter().map(line).collect();
    assert_eq!(expected.len(), WRITERS * EACH * 2 + 1);
    assert!(expected.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    for watch in watching {
        let seen: Vec<_> = watch.await.unwrap().iter().map(line).collect();
        assert_eq!(seen, expected);
    }
}

/// The classic: a reader has seen a position, and one before it is committed after that.
#[tokio::test(flavor = "multi_thread")]
async fn no_line_appears_before_one_that_was_read() {
    const REPLICAS: usize = 3;
    const TENANTS: usize = 6;
    const EACH: usize = 60;
    let place = Place::new();
    let replicas = replicas(&place, REPLICAS).await;
    let start = replicas[0].position().await.unwrap();
    let mut tenants = Vec::new();
    for index in 0..TENANTS {
        tenants.push(replicas[0].create_tenant(&format!("t{index}"), Bytes::new(), vec![]).await.unwrap().id);
    }
    let total = TENANTS * REPLICAS * EACH;
    // Readers that hold a feed, and readers that come anew each time, as after a restart.
    let mut reading = Vec::new();
    for replica in &replicas {
        let replica = replica.clone();
        reading.push(tokio::spawn(async move {
            let mut feed = replica.follow(vec![], Some(start)).await.unwrap();
            let mut seen = Vec::new();
            while seen.len() < total {
                seen.push(feed.next().await.unwrap().unwrap().position);
            }
            seen
        }));
    }
    let anew = replicas[1].clone();
    reading.push(tokio::spawn(async move {
        let (mut at, mut seen) = (start, Vec::<Position>::new());
        while seen.len() < total {
            let mut feed = anew.follow(vec![], Some(at)).await.unwrap();
            for _ in 0..7 {
                if seen.len() < total {
                    at = feed.next().await.unwrap().unwrap().position;
                    seen.push(at);
                }
            }
        }
        seen
    }));
    let writers = replicas.iter().enumerate().flat_map(|(number, replica)| {
        tenants.clone().into_iter().map(move |tenant| {
            let replica = replica.clone();
            tokio::spawn(async move {
                for index in 0..EACH {
                    let name = format!("{number}-{index}");
                    replica.write(tenant, vec![put(&name, Expect::Absent, "x")]).await.unwrap();
                }
            })
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    // Nothing else was written, so positions are without a hole.
    let expected: Vec<_> = (start.0 + 1..=start.0 + total as u64).map(Position).collect();
    for reader in reading {
        assert_eq!(reader.await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_wins_across_replicas() {
    let place = Place::new();
    let replicas = replicas(&place, 2).await;
    let tenant = replicas[0].create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let tries = (0..20usize).map(|index| {
        let store = replicas[index % 2].clone();
        tokio::spawn(async move {
            let won = store.write(tenant, vec![put("lock", Expect::Absent, &index.to_string())]).await;
            match won {
                Ok(_) => 1,
                Err(StoreError::Conflict { current, .. }) => {
                    assert!(current.is_some());
                    0
                }
                Err(other) => panic!("{other}"),
            }
        })
    });
    let won: i32 = futures::future::join_all(tries).await.into_iter().map(|done| done.unwrap()).sum();
    assert_eq!(won, 1);
    let tries = (0..8usize).map(|index| {
        let store = replicas[index % 2].clone();
        tokio::spawn(async move { store.create_tenant("wanted", Bytes::new(), vec![]).await.is_ok() })
    });
    let won =
        futures::future::join_all(tries).await.into_iter().filter(|done| *done.as_ref().unwrap()).count();
    assert_eq!(won, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_deleted_through_one_ends_watches_of_the_other() {
    let place = Place::new();
    let replicas = replicas(&place, 2).await;
    let tenant = replicas[0].create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let mut watch = replicas[1].watch(tenant, things(), Revision(0)).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(Delivery::Progress(_)))));
    replicas[0].delete_tenant(tenant).await.unwrap();
    loop {
        match watch.next().await {
            Some(Ok(Delivery::Progress(_))) => {}
            other => {
                assert!(matches!(other, Some(Err(WatchError::TenantDeleted))), "{other:?}");
                break;
            }
        }
    }
    assert!(matches!(replicas[1].revision(tenant).await, Err(StoreError::NoTenant)));
}

/// What a tenant stored is gone from the tables in the end, whoever does it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_deleted_tenants_and_broken_imports() {
    let place = Place::new();
    let store = place.store().await;
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    for round in 0..3 {
        let puts = (0..1500).map(|index| put(&format!("{index}"), Expect::Any, &round.to_string()));
        store.write(tenant, puts.collect()).await.unwrap();
    }
    let export = store.export_tenant(tenant, None).await.unwrap();
    let broken = export.take(2).chain(futures::stream::iter([Err(StoreError::Unavailable("cut".into()))]));
    store.import_tenant("copy", Bytes::new(), broken.boxed()).await.unwrap_err();
    store.delete_tenant(tenant).await.unwrap();
    let schema = &place.schema;
    let left = format!(
        "SELECT (SELECT count(*) FROM {schema}.entry) + (SELECT count(*) FROM {schema}.tenant)
              + (SELECT count(*) FROM {schema}.tally) + (SELECT count(*) FROM {schema}.directory)"
    );
    for _ in 0..600 {
        if place.server.number(&left).await == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{} rows are left", place.server.number(&left).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn spent_partitions_are_dropped_while_others_write() {
    let place = Place::new();
    let options = store_postgres::Options { partition_lines: 64, ..place.options() };
    let store = Arc::new(Postgres::open(&place.server.url(), options).await.unwrap());
    let tenant = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0..1000 {
                store.write(tenant, vec![put(&(index % 10).to_string(), Expect::Any, "x")]).await.unwrap();
            }
        })
    };
    let nothing = store::Retention { age: std::time::Duration::ZERO, bytes: 0 };
    while !writing.is_finished() {
        store.compact(nothing).await.unwrap();
    }
    writing.await.unwrap();
    let schema = &place.schema;
    let parts = format!("SELECT count(*) FROM {schema}.log_part");
    // In one question, for a chore may be at it.
    let unlisted = format!(
        "SELECT count(*) - (SELECT count(*) FROM {schema}.log_part) FROM pg_inherits
         WHERE inhparent = '{schema}.log'::regclass"
    );
    // Others have precedence, the database's own housekeeping too: in the end they are gone.
    let mut left = i64::MAX;
    for _ in 0..300 {
        store.compact(nothing).await.unwrap();
        left = place.server.number(&parts).await;
        if left <= 4 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(left <= 4, "{left} partitions are left of a log of one line");
    assert_eq!(place.server.number(&unlisted).await, 0);
    assert_eq!(store.count(tenant, &Scope::All).await.unwrap(), 10);
}

/// Not one statement is sent for tenants that nobody uses.
#[tokio::test(flavor = "multi_thread")]
async fn idle_tenants_cost_no_queries() {
    let server = crate::server::Server::new(&["fsync=off"]);
    let options = store_postgres::Options {
        poll_interval: std::time::Duration::from_secs(3600),
        compaction_interval: std::time::Duration::from_secs(3600),
        progress_interval: std::time::Duration::from_millis(20),
        ..Default::default()
    };
    let store = Postgres::open(&server.url(), options).await.unwrap();
    let mut watches = Vec::new();
    for index in 0..50 {
        let tenant = store.create_tenant(&index.to_string(), Bytes::new(), vec![]).await.unwrap().id;
        let mut watch = store.watch(tenant, Scope::All, Revision(0)).await.unwrap();
        assert!(watch.next().await.unwrap().is_ok());
        watches.push(watch);
    }
    let asked = || async {
        server
            .number("SELECT sum(xact_commit)::bigint FROM pg_stat_database WHERE datname = 'postgres'")
            .await
    };
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    let before = asked().await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    let after = asked().await;
    // The question itself is a few; fifty tenants would be fifty.
    assert!(after - before < 20, "{before} to {after}");
    drop(watches);
    store.close().await;
}
