//! Following all tenants.

use std::sync::Arc;

use futures::StreamExt;

use super::{Fixture, Harness, put, put_key, tenant};
use crate::{Event, Feed, Key, Position, StoreError, TenantId};

async fn next(feed: &mut Feed, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        match feed.next().await {
            Some(Ok(event)) => events.push(event),
            other => panic!("after {} of {count} events: {other:?}", events.len()),
        }
    }
    assert!(events.is_sorted_by(|a, b| a.position < b.position), "out of order");
    events
}

fn names(events: &[Arc<Event>]) -> Vec<(TenantId, String)> {
    events.iter().map(|event| (event.tenant, event.key.name.to_string())).collect()
}

pub async fn carries_all_tenants_in_order(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.store.position().await.unwrap();
    let mut live = f.store.follow(vec!["things".into()], Some(start)).await.unwrap();
    let mut expected = Vec::new();
    for index in 0..10 {
        let made = tenant(&f.store, &format!("tenant-{index}")).await;
        for (kind, name) in [("things", "a"), ("others", "b"), ("things", "c")] {
            f.store.write(made, vec![put_key(Key::new(kind, "", name), "x")]).await.unwrap();
            if kind == "things" {
                expected.push((made, name.to_owned()));
            }
        }
    }
    let mut late = f.store.follow(vec!["things".into()], Some(start)).await.unwrap();
    assert_eq!(names(&next(&mut live, 20).await), expected);
    assert_eq!(names(&next(&mut late, 20).await), expected);
    let mut both = f.store.follow(vec!["others".into(), "things".into()], Some(start)).await.unwrap();
    assert_eq!(next(&mut both, 30).await.len(), 30);
}

pub async fn begins_now_unless_told(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    f.put("before", "x").await;
    let mut feed = f.store.follow(vec![], None).await.unwrap();
    f.put("after", "x").await;
    assert_eq!(names(&next(&mut feed, 1).await), [(f.tenant, "after".into())]);
    let now = f.store.position().await.unwrap();
    let future = f.store.follow(vec![], Some(Position(now.0 + 1000))).await;
    assert!(matches!(future.err(), Some(StoreError::Future { .. })));
}

pub async fn own_types_are_named_or_unseen(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.store.position().await.unwrap();
    let mut all = f.store.follow(vec![], Some(start)).await.unwrap();
    let mut own = f.store.follow(vec!["_own".into()], Some(start)).await.unwrap();
    f.write(vec![put_key(Key::new("_own", "", "hidden"), "x"), put("seen", "x")]).await;
    f.write(vec![put_key(Key::new("_own", "", "hidden"), "y")]).await;
    f.put("end", "x").await;
    assert_eq!(names(&next(&mut all, 2).await), [(f.tenant, "seen".into()), (f.tenant, "end".into())]);
    assert_eq!(names(&next(&mut own, 2).await), [(f.tenant, "hidden".into()), (f.tenant, "hidden".into())]);
}

pub async fn resumes_from_a_position_after_reopening(harness: Arc<impl Harness>) {
    let mut f = Fixture::new(&*harness).await;
    if !harness.feeds_outlive_the_store() {
        return begins_anew_after_reopening(&*harness, f).await;
    }
    let mut at = f.store.position().await.unwrap();
    let mut seen = Vec::new();
    for round in 0..4 {
        let mut feed = f.store.follow(vec![], Some(at)).await.unwrap();
        let made = f.store.create_tenant(&format!("t{round}"), "".into(), vec![]).await.unwrap().id;
        for index in 0..6 {
            f.store.write(made, vec![put(&format!("{index}"), "x")]).await.unwrap();
        }
        for event in next(&mut feed, 4).await {
            at = event.position;
            seen.push(event.key.name.to_string());
        }
        drop(feed);
        f = f.reopen(&*harness).await;
    }
    let mut feed = f.store.follow(vec![], Some(at)).await.unwrap();
    let rest = next(&mut feed, 24 - seen.len()).await;
    seen.extend(rest.iter().map(|event| event.key.name.to_string()));
    let round = ["0", "1", "2", "3", "4", "5"];
    assert_eq!(seen, round.iter().cycle().take(24).map(ToString::to_string).collect::<Vec<_>>());
    // Beyond it, where an engine's positions count more than events.
    assert!(f.store.position().await.unwrap() >= rest.last().unwrap().position);
}

/// What was not followed to its end is owed: it is said that it cannot be told any more.
async fn begins_anew_after_reopening(harness: &impl Harness, f: Fixture) {
    let at = f.store.position().await.unwrap();
    f.put("missed", "x").await;
    let f = f.reopen(harness).await;
    let refused = f.store.follow(vec![], Some(at)).await.err();
    assert!(matches!(refused, Some(StoreError::Compacted { .. })), "{refused:?}");
    let at = f.store.position().await.unwrap();
    f.put("seen", "x").await;
    let mut feed = f.store.follow(vec![], Some(at)).await.unwrap();
    assert_eq!(names(&next(&mut feed, 1).await), [(f.tenant, "seen".into())]);
}

pub async fn survives_deleted_tenants(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let start = f.store.position().await.unwrap();
    let gone = tenant(&f.store, "gone").await;
    f.put("1", "x").await;
    f.store.write(gone, vec![put("lost", "x")]).await.unwrap();
    f.put("2", "x").await;
    f.store.delete_tenant(gone).await.unwrap();
    f.put("3", "x").await;
    let mut feed = f.store.follow(vec!["things".into()], Some(start)).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|name| name != "3") {
        let event = next(&mut feed, 1).await.remove(0);
        if event.tenant == f.tenant {
            seen.push(event.key.name.to_string());
        }
    }
    assert_eq!(seen, ["1", "2", "3"]);
}

pub async fn loses_nothing_under_load(harness: Arc<impl Harness>) {
    const TENANTS: usize = 6;
    const EACH: usize = 80;
    let f = Fixture::new(&*harness).await;
    let start = f.store.position().await.unwrap();
    let mut tenants = Vec::new();
    for index in 0..TENANTS {
        tenants.push(tenant(&f.store, &format!("t{index}")).await);
    }
    let writers = tenants.iter().map(|tenant| {
        let (store, tenant) = (f.store.clone(), *tenant);
        tokio::spawn(async move {
            for index in 0..EACH {
                store.write(tenant, vec![put(&format!("{index}"), &"x".repeat(2000))]).await.unwrap();
            }
        })
    });
    let mut feeds = Vec::new();
    for _ in 0..4 {
        let mut feed = f.store.follow(vec![], Some(start)).await.unwrap();
        feeds.push(tokio::spawn(async move { next(&mut feed, TENANTS * EACH).await }));
    }
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    for feed in feeds {
        let events = feed.await.unwrap();
        for tenant in &tenants {
            let own: Vec<_> =
                names(&events).into_iter().filter(|(of, _)| of == tenant).map(|(_, name)| name).collect();
            assert_eq!(own, (0..EACH).map(|index| index.to_string()).collect::<Vec<_>>());
        }
    }
}
