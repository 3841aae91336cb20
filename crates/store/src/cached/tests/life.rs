//! What is copied, what that saves, and when it goes.

use std::sync::Arc;
use std::time::Duration;

use super::{Directory, EAGER};
use crate::cached::{Cached, Load, Options};
use crate::conformance::{Fixture, put, put_key, things};
use crate::{Key, Revision, Scope, Store, StoreError};

async fn fixture(cached: &Arc<Cached>) -> Fixture {
    let tenant = cached.create_tenant("first", "".into(), vec![]).await.unwrap().id;
    Fixture { store: cached.clone(), tenant }
}

async fn list(f: &Fixture, at: Option<Revision>) -> Vec<String> {
    let page = f.store.range(f.tenant, &things(), None, at, 0).await.unwrap();
    page.entries.iter().map(|entry| entry.key.name.to_string()).collect()
}

/// Looks until it is so: what happens in the background happens at its own pace.
async fn until(cached: &Cached, so: impl Fn(&Load) -> bool) -> Load {
    loop {
        let load = cached.load();
        if so(&load) {
            return load;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn who_comes_once_leaves_nothing_behind() {
    let place = Directory::new(Options { passes: 1, ..EAGER });
    let cached = place.cached();
    let f = fixture(&cached).await;
    f.put("a", "1").await;
    assert_eq!(list(&f, None).await, ["a"]);
    f.store.get(f.tenant, &crate::conformance::key("a")).await.unwrap().unwrap();
    let load = cached.load();
    assert_eq!((load.tenants, load.bytes, load.from_memory, load.questions), (0, 0, 0, 0));
    assert_eq!(list(&f, None).await, ["a"]);
    let load = cached.load();
    assert_eq!((load.tenants, load.from_memory), (1, 1));
    assert!(load.bytes > 0);
}

#[tokio::test]
async fn pages_of_the_past_are_read_here_while_nothing_of_the_type_changed() {
    let place = Directory::new(EAGER);
    let cached = place.cached();
    let f = fixture(&cached).await;
    f.write(["a", "b", "c"].map(|name| put(name, "1")).to_vec()).await;
    let first = f.store.range(f.tenant, &things(), None, None, 2).await.unwrap();
    assert_eq!((first.entries.len(), first.more, first.remaining), (2, true, Some(1)));
    f.write(vec![put_key(Key::new("others", "", "x"), "1")]).await;
    let engine = cached.load().from_engine;
    assert_eq!(list(&f, Some(first.revision)).await, ["a", "b", "c"]);
    assert_eq!(cached.load().from_engine, engine, "others have changed, and these have not");
    f.put("d", "1").await;
    // The copy has come so far.
    assert_eq!(list(&f, None).await, ["a", "b", "c", "d"]);
    let engine = cached.load().from_engine;
    assert_eq!(list(&f, Some(first.revision)).await, ["a", "b", "c"]);
    assert_eq!(cached.load().from_engine, engine + 1, "what is copied is the present");
}

#[tokio::test]
async fn one_question_answers_many() {
    const READS: u64 = 200;
    let place = Directory::new(EAGER);
    let cached = place.cached();
    let f = fixture(&cached).await;
    f.put("a", "1").await;
    list(&f, None).await;
    let before = cached.load();
    futures::future::join_all((0..READS).map(|_| list(&f, None))).await;
    let after = cached.load();
    assert_eq!(after.from_memory - before.from_memory, READS);
    // Those that came while one was under way share the next.
    assert!(after.questions - before.questions < READS / 10, "{before:?} {after:?}");
}

#[tokio::test]
async fn what_is_not_read_goes() {
    let place = Directory::new(Options { idle: Duration::from_millis(200), ..EAGER });
    let cached = place.cached();
    let f = fixture(&cached).await;
    f.put("a", "1").await;
    assert_eq!(list(&f, None).await, ["a"]);
    let load = until(&cached, |load| load.tenants == 0).await;
    assert_eq!((load.bytes, load.evictions), (0, 1));
    f.put("b", "1").await;
    assert_eq!(list(&f, None).await, ["a", "b"]);
}

#[tokio::test]
async fn all_copies_together_stay_within_bounds() {
    const LIMIT: usize = 64 << 10;
    let place = Directory::new(Options { bytes: LIMIT, ..EAGER });
    let cached = place.cached();
    let f = fixture(&cached).await;
    for kind in 0..40 {
        let kind = format!("kind{kind}");
        let entries = (0..10).map(|name| put_key(Key::new(&*kind, "", name.to_string()), &"x".repeat(500)));
        f.write(entries.collect()).await;
        for _ in 0..2 {
            let page =
                f.store.range(f.tenant, &Scope::Kind(kind.as_str().into()), None, None, 0).await.unwrap();
            assert_eq!(page.entries.len(), 10);
        }
        until(&cached, |load| load.bytes <= LIMIT).await;
    }
    let load = cached.load();
    assert!(load.bytes > LIMIT / 2, "{load:?}");
    assert!(load.from_memory > 40 && load.evictions > 20, "{load:?}");
    // One that would not leave room for others is not copied.
    f.write(vec![put_key(Key::new("large", "", "1"), &"x".repeat(LIMIT))]).await;
    for _ in 0..3 {
        let page = f.store.range(f.tenant, &Scope::Kind("large".into()), None, None, 0).await.unwrap();
        assert_eq!(page.entries.len(), 1);
    }
    until(&cached, |load| load.bytes <= LIMIT).await;
}

#[tokio::test]
async fn goes_with_its_tenant() {
    let place = Directory::new(EAGER);
    let cached = place.cached();
    let f = fixture(&cached).await;
    f.put("a", "1").await;
    assert_eq!(list(&f, None).await, ["a"]);
    cached.delete_tenant(f.tenant).await.unwrap();
    let gone = cached.range(f.tenant, &things(), None, None, 0).await;
    assert!(matches!(gone, Err(StoreError::NoTenant)), "{gone:?}");
    let again = fixture(&cached).await;
    assert_eq!(list(&again, None).await, [""; 0]);
    until(&cached, |load| load.tenants <= 1).await;
}
