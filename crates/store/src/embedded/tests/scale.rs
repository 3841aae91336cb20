//! What must not grow.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use crate::conformance::{Fixture, next_events, put, put_key, things};
use crate::embedded::Options;
use crate::{Delivery, Embedded, Key, Scope, Store};

async fn open(options: Options) -> (tempfile::TempDir, Arc<Embedded>, Fixture) {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(directory.path(), options).unwrap());
    let tenant = store.create_tenant("first", Bytes::new(), vec![]).await.unwrap().id;
    let fixture = Fixture { store: store.clone(), tenant };
    (directory, store, fixture)
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_share_and_leave_nothing() {
    let (_directory, store, f) = open(Options::default()).await;
    let start = f.revision().await;
    let watches = (0..1000).map(|_| f.watch(things(), start));
    let mut watches = futures::future::join_all(watches).await;
    for watch in &mut watches {
        assert!(matches!(watch.next().await, Some(Ok(Delivery::Progress(_)))));
    }
    assert_eq!(store.hub().load(), (1, 0));
    f.put("a", "1").await;
    // Nobody watches this: it is not kept.
    f.write(vec![put_key(Key::new("others", "", "x"), &"x".repeat(10_000))]).await;
    let mut first: Option<Arc<crate::Event>> = None;
    for watch in &mut watches {
        let event = next_events(watch, 1).await.remove(0);
        assert!(Arc::ptr_eq(&event, first.get_or_insert_with(|| event.clone())), "each event is made once");
    }
    assert!(store.hub().load().1 < 1000);
    let feed = f.store.follow(vec![], None).await.unwrap();
    assert_eq!(store.hub().load().0, 2);
    drop((watches, feed));
    assert_eq!(store.hub().load(), (0, 0));
    f.put("a", "2").await;
    assert_eq!(store.hub().load(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_in_memory_are_bounded() {
    let limit = 50_000;
    let (_directory, store, f) = open(Options { event_bytes: limit, ..Options::default() }).await;
    let start = f.revision().await;
    let mut of_kind = f.watch(things(), start).await;
    let mut of_all = f.watch(Scope::All, start).await;
    let mut feed = f.store.follow(vec![], None).await.unwrap();
    for index in 0..200 {
        f.put(&index.to_string(), &"x".repeat(2000)).await;
        assert!(store.hub().load().1 <= limit);
    }
    assert_eq!(next_events(&mut of_kind, 200).await.len(), 200);
    assert_eq!(next_events(&mut of_all, 200).await.len(), 200);
    for _ in 0..200 {
        feed.next().await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_in_memory_are_soon_forgotten() {
    // The beats are ours.
    let options = Options { progress_interval: std::time::Duration::from_secs(3_600), ..Options::default() };
    let (_directory, store, f) = open(options).await;
    let start = f.revision().await;
    let mut quick = f.watch(things(), start).await;
    let mut slow = f.watch(things(), start).await;
    for index in 0..200 {
        f.put(&index.to_string(), "x").await;
    }
    assert_eq!(next_events(&mut quick, 200).await.len(), 200);
    let kept = store.hub().load().1;
    store.hub().beat();
    assert_eq!(store.hub().load().1, kept, "who is under way is given time");
    f.put("late", "x").await;
    store.hub().beat();
    let late = store.hub().load().1;
    assert!(0 < late && late < kept / 100, "{late} of {kept}");
    store.hub().beat();
    assert_eq!(store.hub().load().1, 0);
    // Who was not quick enough has the log.
    assert_eq!(next_events(&mut slow, 201).await.len(), 201);
    assert_eq!(next_events(&mut quick, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_tenants_leave_no_row() {
    let (directory, store, f) = open(Options::default()).await;
    for index in 0..50 {
        let made = f.store.create_tenant(&format!("t{index}"), Bytes::new(), vec![]).await.unwrap().id;
        for round in 0..3 {
            let puts = (0..40).map(|index| put(&index.to_string(), &format!("{round}"))).collect();
            f.store.write(made, puts).await.unwrap();
        }
        let fork = f.store.fork_tenant(made, None, &format!("f{index}"), Bytes::new()).await.unwrap().id;
        f.store.delete_tenant(made).await.unwrap();
        f.store.delete_tenant(fork).await.unwrap();
    }
    let rows = |sql: &str| -> i64 {
        let connection = rusqlite::Connection::open(directory.path().join("hangar.db")).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    for _ in 0..200 {
        if rows("SELECT count(*) FROM tenant") == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for (table, left) in
        [("tenant", 1), ("directory", 1), ("tally", 0), ("current", 0), ("history", 0), ("log", 0)]
    {
        assert_eq!(rows(&format!("SELECT count(*) FROM {table}")), left, "{table}");
    }
    assert_eq!(rows("SELECT value FROM counter WHERE name = 'history_bytes'"), 0);
    store.close().await;
}
