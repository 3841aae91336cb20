//! Dropping history.

use std::sync::Arc;
use std::time::Duration;

use super::{Fixture, Harness, next_events, put, tell, text, things, until};
use crate::{Retention, Revision, Scope, StoreError, WatchError};

const NOTHING: Retention = Retention { age: Duration::ZERO, bytes: 0 };
const EVERYTHING: Retention = Retention { age: Duration::from_secs(3600), bytes: u64::MAX };

pub async fn keeps_what_is(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    for round in 0..20 {
        f.write((0..100).map(|index| put(&format!("{index:02}"), &format!("{round}"))).collect()).await;
    }
    f.delete("50").await;
    let revision = f.revision().await;
    f.store.compact(EVERYTHING).await.unwrap();
    assert_eq!(f.things_at(Some(Revision(revision.0 - 1))).await.len(), 100);
    f.store.compact(NOTHING).await.unwrap();
    let check = async |f: &Fixture| {
        assert_eq!(f.revision().await, revision);
        let things = f.things().await;
        assert_eq!(things.len(), 99);
        assert!(things.iter().all(|(_, value)| value == "19"));
        assert_eq!(f.things_at(Some(revision)).await, things);
    };
    check(&f).await;
    let f = f.reopen(&*harness).await;
    check(&f).await;
    let mut watch = f.watch(things(), revision).await;
    f.put("00", "on").await;
    assert_eq!(tell(&next_events(&mut watch, 1).await), ["~00=on (19)"]);
}

pub async fn refuses_what_it_dropped(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let position = f.store.position().await.unwrap();
    let old = f.put("a", "1").await;
    f.put("a", "2").await;
    let now = f.put("a", "3").await;
    f.store.compact(NOTHING).await.unwrap();
    match f.store.range(f.tenant, &Scope::All, None, Some(old), 0).await {
        Err(StoreError::Compacted { asked, oldest }) => {
            assert_eq!(asked, old);
            assert!(oldest > old && oldest <= now);
            // What is told to be readable is.
            f.things_at(Some(oldest)).await;
            drop(f.watch(things(), oldest).await);
        }
        other => panic!("{other:?}"),
    }
    for from in [Revision(0), old] {
        let watch = f.store.watch(f.tenant, things(), from).await;
        assert!(matches!(watch.err(), Some(StoreError::Compacted { .. })), "from {from}");
    }
    assert!(matches!(
        f.store.export_tenant(f.tenant, Some(old)).await.err(),
        Some(StoreError::Compacted { .. })
    ));
    let fork = f.store.fork_tenant(f.tenant, Some(old), "fork", bytes::Bytes::new()).await;
    assert!(matches!(fork, Err(StoreError::Compacted { .. })), "{fork:?}");
    let feed = f.store.follow(vec![], Some(position)).await;
    assert!(matches!(feed.err(), Some(StoreError::Compacted { .. })));
}

pub async fn under_load_watches_are_whole_or_cut(harness: Arc<impl Harness>) {
    const WRITES: usize = 400;
    let f = Fixture::new(&*harness).await;
    let start = f.revision().await;
    let (store, tenant) = (f.store.clone(), f.tenant);
    let writing = tokio::spawn(async move {
        for index in 0..WRITES {
            store.write(tenant, vec![put(&format!("{}", index % 20), &index.to_string())]).await.unwrap();
        }
    });
    let store = f.store.clone();
    let compacting = tokio::spawn(async move {
        for _ in 0..20 {
            store.compact(NOTHING).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let mut quick = f.watch(things(), start).await;
    let mut watches = Vec::new();
    for pause in [0, 1, 10] {
        // A watch may be refused: what it wanted is gone. Once it runs, it is whole until it is cut.
        let Ok(mut watch) = f.store.watch(f.tenant, things(), f.revision().await).await else { continue };
        watches.push(tokio::spawn(async move {
            let mut seen: Vec<usize> = Vec::new();
            while seen.last() != Some(&(WRITES - 1)) {
                match futures::StreamExt::next(&mut watch).await {
                    Some(Ok(crate::Delivery::Event(event))) => seen.push(text(&event.value).parse().unwrap()),
                    Some(Ok(crate::Delivery::Progress(_))) => {}
                    Some(Err(error)) => {
                        assert!(matches!(error, WatchError::Compacted { .. }), "{error}");
                        break;
                    }
                    None => panic!("a watch ended without a word"),
                }
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            seen
        }));
    }
    writing.await.unwrap();
    compacting.await.unwrap();
    for watch in watches {
        let seen = watch.await.unwrap();
        assert!(seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap in {seen:?}");
    }
    let (events, ended) = until(&mut quick, f.revision().await).await;
    let seen: Vec<usize> = events.iter().map(|event| text(&event.value).parse().unwrap()).collect();
    assert!(seen.iter().copied().eq(0..seen.len()), "a gap in {seen:?}");
    assert!(ended.is_some() || seen.len() == WRITES);
    assert_eq!(f.things().await.len(), 20);
}

pub async fn by_size(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let mut revisions = Vec::new();
    for index in 0..100 {
        revisions.push(f.put("a", &format!("{index}").repeat(5_000)).await);
    }
    let half = Retention { age: Duration::from_secs(3600), bytes: 500_000 };
    f.store.compact(half).await.unwrap();
    let readable = async |revision: Revision| {
        f.store
            .range(f.tenant, &things(), None, Some(revision), 0)
            .await
            .map(|page| text(&page.entries[0].value))
    };
    assert!(matches!(readable(revisions[0]).await, Err(StoreError::Compacted { .. })));
    assert_eq!(readable(revisions[95]).await.unwrap(), "95".repeat(5_000));
}
