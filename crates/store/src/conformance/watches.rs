//! Watches of one tenant.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;

use super::{Fixture, Harness, key, next_events, put, put_key, tell, things, until};
use crate::{Delivery, Expect, Key, Operation, Revision, Scope, StoreError, WatchError};

pub async fn every_transition_is_told(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let mut live = f.watch(things(), start).await;
    let created = f.put("a", "1").await;
    let updated = f.put("a", "2").await;
    let deleted = f.delete("a").await;
    let again = f.put("a", "3").await;
    let mut late = f.watch(things(), start).await;
    for watch in [&mut live, &mut late] {
        let events = next_events(watch, 4).await;
        assert_eq!(tell(&events), ["+a=1", "~a=2 (1)", "-a=2", "+a=3"]);
        let revisions: Vec<_> = events.iter().map(|event| (event.created, event.revision)).collect();
        assert_eq!(revisions, [(created, created), (created, updated), (created, deleted), (again, again)]);
        assert!(events.is_sorted_by_key(|event| event.position));
        assert!(events.iter().all(|event| event.tenant == f.tenant && event.key == key("a")));
    }
}

pub async fn begins_where_asked(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let mut revisions = vec![start];
    for index in 0..6 {
        revisions.push(f.put(&index.to_string(), "x").await);
    }
    for (skipped, from) in revisions.into_iter().enumerate() {
        let mut watch = f.watch(things(), from).await;
        let (events, ended) = until(&mut watch, f.revision().await).await;
        assert_eq!(ended, None);
        let names: Vec<_> = events.iter().map(|event| event.key.name.to_string()).collect();
        assert_eq!(names, (skipped..6).map(|index| index.to_string()).collect::<Vec<_>>(), "from {from}");
    }
}

pub async fn scopes_see_what_they_contain(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let other = super::tenant(&f.store, "other").await;
    let start = f.revision().await;
    let keys = [
        Key::new("a", "n", "x"),
        Key::new("a", "n", "y"),
        Key::new("a", "m", "x"),
        Key::new("a", "", "x"),
        Key::new("b", "n", "x"),
        Key::new("_own", "", "x"),
    ];
    let scopes = [
        Scope::All,
        Scope::Kind("a".into()),
        Scope::Namespace("a".into(), "n".into()),
        Scope::Namespace("a".into(), "".into()),
        Scope::One(keys[0].clone()),
        Scope::Kind("_own".into()),
        Scope::Kind("nothing".into()),
    ];
    let mut live = Vec::new();
    for scope in &scopes {
        live.push(f.watch(scope.clone(), start).await);
    }
    for key in &keys {
        f.write(vec![put_key(key.clone(), "1")]).await;
        f.store.write(other, vec![put_key(key.clone(), "not mine")]).await.unwrap();
    }
    // A change that all scopes but one ignore, to know when to stop.
    let end = f.put("end", "x").await;
    for (scope, live) in scopes.iter().zip(live) {
        let late = f.watch(scope.clone(), start).await;
        for mut watch in [live, late] {
            let expected: Vec<&Key> = keys.iter().filter(|key| scope.contains(key)).collect();
            let events = next_events(&mut watch, expected.len()).await;
            assert_eq!(events.iter().map(|event| &event.key).collect::<Vec<_>>(), expected, "{scope:?}");
            if *scope == Scope::All {
                assert_eq!(next_events(&mut watch, 1).await[0].revision, end);
            }
        }
    }
}

pub async fn a_transaction_is_told_in_order(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.put("c", "0").await;
    let mut live = f.watch(things(), start).await;
    let delete = Operation::Delete { key: key("c"), expect: Expect::Any };
    let revision = f.write(vec![put("b", "1"), delete, put("a", "1")]).await;
    f.put("b", "2").await;
    for mut watch in [f.watch(things(), start).await, f.watch(things(), start).await] {
        let from_log = next_events(&mut watch, 4).await;
        assert_eq!(tell(&from_log), ["+b=1", "-c=0", "+a=1", "~b=2 (1)"]);
    }
    let events = next_events(&mut live, 4).await;
    assert_eq!(tell(&events), ["+b=1", "-c=0", "+a=1", "~b=2 (1)"]);
    assert!(events[..3].iter().all(|event| event.revision == revision));
}

pub async fn nothing_is_lost_or_doubled_under_concurrent_writers(harness: Arc<impl Harness>) {
    const WRITERS: usize = 4;
    const EACH: usize = 120;
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let writers = (0..WRITERS).map(|writer| {
        let (store, tenant) = (f.store.clone(), f.tenant);
        tokio::spawn(async move {
            for index in 0..EACH {
                let names = [format!("own-{writer}"), format!("shared-{}", index % 3)];
                let operations = names.iter().map(|name| put(name, &format!("{writer}-{index}"))).collect();
                store.write(tenant, operations).await.unwrap();
            }
        })
    });
    let writing = futures::future::join_all(writers);
    // Watches that begin at every stage of it, at the beginning and at their own present.
    let watching = async {
        let mut watches = Vec::new();
        for index in 0..16 {
            let from = if index % 2 == 0 { start } else { f.revision().await };
            let mut watch = f.watch(things(), from).await;
            watches.push(tokio::spawn(async move {
                let mut seen = Vec::new();
                while seen.iter().filter(|event: &&Arc<crate::Event>| event.key.name == "end").count() == 0 {
                    seen.extend(next_events(&mut watch, 1).await);
                    if index % 4 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                (from, seen)
            }));
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        watches
    };
    let (done, watches) = tokio::join!(writing, watching);
    done.into_iter().for_each(|done| done.unwrap());
    f.put("end", "x").await;
    let mut whole = f.watch(things(), start).await;
    let all = next_events(&mut whole, WRITERS * EACH * 2 + 1).await;
    let line = |event: &Arc<crate::Event>| (event.position, event.revision, super::told(event));
    let all: Vec<_> = all.iter().map(line).collect();
    assert!(all.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    for watch in watches {
        let (from, seen) = watch.await.unwrap();
        let expected: Vec<_> = all.iter().filter(|(_, revision, _)| *revision > from).cloned().collect();
        assert_eq!(seen.iter().map(line).collect::<Vec<_>>(), expected, "from {from}");
    }
    // And the events lead to what is.
    let mut state = BTreeMap::new();
    for event in events_of(&f, start, all.len()).await {
        state.insert(event.key.name.to_string(), super::text(&event.value));
    }
    assert_eq!(state.into_iter().collect::<Vec<_>>(), f.things().await);
}

async fn events_of(f: &Fixture, from: Revision, count: usize) -> Vec<Arc<crate::Event>> {
    next_events(&mut f.watch(things(), from).await, count).await
}

pub async fn a_slow_watch_reads_on(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let mut slow = f.watch(things(), start).await;
    f.put("0", "first").await;
    assert_eq!(next_events(&mut slow, 1).await.len(), 1);
    // More than any engine may keep in memory for it.
    let body = "x".repeat(100_000);
    for index in 1..=300 {
        f.put(&format!("{index}"), &body).await;
    }
    let events = next_events(&mut slow, 300).await;
    let names: Vec<_> = events.iter().map(|event| event.key.name.to_string()).collect();
    assert_eq!(names, (1..=300).map(|index| index.to_string()).collect::<Vec<_>>());
    f.put("last", "x").await;
    assert_eq!(tell(&next_events(&mut slow, 1).await), ["+last=x"]);
}

pub async fn resumes_after_reopening(harness: Arc<impl Harness>) {
    let mut f = Fixture::new(&*harness).await;
    let mut from = f.revision().await;
    let mut seen = Vec::new();
    for round in 0..5 {
        let mut watch = f.watch(things(), from).await;
        for index in 0..10 {
            f.put(&format!("{round}-{index}"), "x").await;
        }
        // Reads some, leaves some for after the restart.
        for event in next_events(&mut watch, 7).await {
            from = event.revision;
            seen.push(event.key.name.to_string());
        }
        drop(watch);
        f = f.reopen(&*harness).await;
    }
    let rest = events_of(&f, from, 50 - seen.len()).await;
    seen.extend(rest.iter().map(|event| event.key.name.to_string()));
    let expected: Vec<_> =
        (0..5).flat_map(|round| (0..10).map(move |index| format!("{round}-{index}"))).collect();
    assert_eq!(seen, expected);
}

pub async fn progress_is_told(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    f.put("a", "1").await;
    let now = f.write(vec![put_key(Key::new("others", "", "x"), "1")]).await;
    let mut watch = f.watch(things(), start).await;
    assert!(matches!(watch.next().await, Some(Ok(Delivery::Event(_)))));
    // Caught up: also past what the watch does not see.
    match watch.next().await {
        Some(Ok(Delivery::Progress(revision))) => assert_eq!(revision, now),
        other => panic!("{other:?}"),
    }
}

pub async fn ends_with_its_tenant(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let mut caught_up = f.watch(things(), start).await;
    let mut of_all = f.watch(Scope::All, start).await;
    assert!(matches!(caught_up.next().await, Some(Ok(Delivery::Progress(_)))));
    let other = super::tenant(&f.store, "other").await;
    let mut unharmed = f.store.watch(other, things(), Revision(0)).await.unwrap();
    f.store.delete_tenant(f.tenant).await.unwrap();
    for watch in [&mut caught_up, &mut of_all] {
        loop {
            match watch.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    assert_eq!(error, WatchError::TenantDeleted);
                    break;
                }
                None => panic!("a watch ended without a word"),
            }
        }
        assert!(watch.next().await.is_none());
    }
    f.store.write(other, vec![put("a", "1")]).await.unwrap();
    assert_eq!(tell(&next_events(&mut unharmed, 1).await), ["+a=1"]);
}

pub async fn ends_with_its_store(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let mut watch = f.watch(things(), f.revision().await).await;
    let mut feed = f.store.follow(vec![], None).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(Delivery::Progress(_)))));
    let waiting = tokio::spawn(async move { (watch.next().await, feed.next().await) });
    tokio::task::yield_now().await;
    f.store.close().await;
    let (watch, feed) = waiting.await.unwrap();
    assert!(matches!(watch, Some(Err(WatchError::Closed))), "{watch:?}");
    assert!(matches!(feed, Some(Err(WatchError::Closed))), "{feed:?}");
    // A closed store says so.
    let late = f.store.write(f.tenant, vec![put("a", "1")]).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    let late = f.store.get(f.tenant, &key("a")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
}

pub async fn the_future_cannot_be_watched(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let now = f.put("a", "1").await;
    match f.store.watch(f.tenant, things(), Revision(now.0 + 1)).await.err() {
        Some(StoreError::Future { asked, current }) => {
            assert_eq!((asked, current), (Revision(now.0 + 1), now))
        }
        other => panic!("{other:?}"),
    }
}

pub async fn many_watches_of_one_type(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let watches = (0..300).map(|_| f.watch(things(), start));
    let mut watches = futures::future::join_all(watches).await;
    for index in 0..10 {
        f.put(&format!("{index}"), "x").await;
    }
    for watch in &mut watches {
        assert_eq!(next_events(watch, 10).await.len(), 10);
    }
    let last = f.put("last", "x").await;
    for watch in &mut watches {
        assert_eq!(next_events(watch, 1).await[0].revision, last);
    }
}
