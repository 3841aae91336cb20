//! What is this engine's own: files that come and go, kills, what is open. The rest is `conformance`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tempfile::TempDir;

use super::*;
use crate::conformance::{Harness, key, put};
use crate::{Position, Retention, Revision, Scope, Store, StoreError, TenantId};

struct InOwnDatabases {
    directory: TempDir,
    options: Options,
}

impl InOwnDatabases {
    fn new(options: Options) -> InOwnDatabases {
        InOwnDatabases { directory: TempDir::new().unwrap(), options }
    }
}

#[async_trait]
impl Harness for InOwnDatabases {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Dedicated::open(self.directory.path(), self.options.clone()).unwrap())
    }

    fn forks_keep_revisions(&self) -> bool {
        false
    }

    fn feeds_outlive_the_store(&self) -> bool {
        false
    }
}

crate::conformance!(InOwnDatabases::new(Options::default()));

/// As little as can be is open: what is used next is always closed.
mod hardly_open {
    use super::*;

    crate::conformance!(InOwnDatabases::new(Options { open_at_rest: 0, ..Options::default() }));
}

fn open(directory: &Path) -> Dedicated {
    Dedicated::open(directory, Options::default()).unwrap()
}

/// The directories there are, by the ids of their tenants.
fn directories(directory: &Path) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

async fn made(store: &Dedicated, name: &str) -> TenantId {
    let entries = vec![(key("a"), Bytes::from("1"))];
    store.create_tenant(name, Bytes::from("record"), entries).await.unwrap().id
}

#[tokio::test]
async fn each_has_a_directory_for_as_long_as_it_is_there() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let (one, two) = (made(&store, "one").await, made(&store, "two").await);
    // One with nothing in it has none, until something is written to it.
    let bare = store.create_tenant("bare", Bytes::new(), Vec::new()).await.unwrap().id;
    assert_eq!(directories(directory.path()), BTreeSet::from([one.0, two.0]));
    store.write(bare, vec![put("b", "1")]).await.unwrap();
    assert_eq!(directories(directory.path()), BTreeSet::from([one.0, two.0, bare.0]));
    store.delete_tenant(one).await.unwrap();
    assert_eq!(directories(directory.path()), BTreeSet::from([two.0, bare.0]));
    let export = store.export_tenant(two, None).await.unwrap();
    let refused = store.import_tenant("two", Bytes::new(), export).await;
    assert!(matches!(refused, Err(StoreError::TenantExists { .. })), "{refused:?}");
    assert_eq!(directories(directory.path()), BTreeSet::from([two.0, bare.0]));
    store.close().await;
    let again = open(directory.path());
    assert_eq!(again.get(two, &key("a")).await.unwrap().unwrap().value, "1");
    assert_eq!(again.get(bare, &key("b")).await.unwrap().unwrap().value, "1");
    again.close().await;
}

#[tokio::test]
async fn what_was_broken_off_is_gone_at_the_next_start() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let kept = made(&store, "kept").await;
    // As far as each gets before it is known, or after it is not.
    let begun = store.house.ledger.begin("begun").unwrap();
    let filled = store.house.ledger.begin("filled").unwrap();
    store.house.furnish(filled, async |_, _| Ok(filled)).await.unwrap();
    let left = made(&store, "left").await;
    store.house.ledger.leave(left).unwrap();
    assert_eq!(directories(directory.path()), BTreeSet::from([kept.0, filled.0, left.0]));
    for nobody in ["begun", "filled", "left"] {
        assert_eq!(store.tenant(nobody).await.unwrap(), None);
    }
    store.close().await;
    let store = open(directory.path());
    assert_eq!(directories(directory.path()), BTreeSet::from([kept.0]));
    for nobody in [begun, filled, left] {
        assert!(matches!(store.revision(nobody).await, Err(StoreError::NoTenant)));
    }
    assert!(made(&store, "filled").await > left, "ids are not used again");
    store.close().await;
}

#[tokio::test]
async fn a_database_that_somebody_took_away_is_not_made_anew() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let (one, two) = (made(&store, "one").await, made(&store, "two").await);
    store.close().await;
    std::fs::remove_dir_all(directory.path().join(one.to_string())).unwrap();
    let store = open(directory.path());
    let gone = store.range(one, &Scope::All, None, None, 0).await.unwrap_err();
    assert!(gone.to_string().contains("is gone"), "{gone}");
    assert!(store.get(two, &key("a")).await.unwrap().is_some(), "the others are as they were");
    store.delete_tenant(one).await.unwrap();
    assert_eq!(store.tenants(None, 10).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_damaged_one_harms_no_other() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let (one, two) = (made(&store, "one").await, made(&store, "two").await);
    store.close().await;
    std::fs::write(directory.path().join(one.to_string()).join("hangar.db"), "nothing of use").unwrap();
    let store = open(directory.path());
    assert!(matches!(store.get(one, &key("a")).await, Err(StoreError::Failed(_))));
    assert!(store.get(two, &key("a")).await.unwrap().is_some());
    store.close().await;
}

#[tokio::test]
async fn what_nobody_uses_is_closed_and_opened_again() {
    let directory = TempDir::new().unwrap();
    let options = Options { rest_after: Duration::from_millis(100), open_at_rest: 3, ..Options::default() };
    let store = Dedicated::open(directory.path(), options).unwrap();
    let mut all = Vec::new();
    for number in 0..10 {
        all.push(made(&store, &format!("t{number}")).await);
        assert!(store.house.rooms.open() <= 4, "{}", store.house.rooms.open());
    }
    let watch = store.watch(all[0], Scope::All, Revision(1)).await.unwrap();
    let until = async |open: usize| {
        let waiting = async {
            while store.house.rooms.open() != open {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    };
    // What is watched is used.
    until(1).await;
    drop(watch);
    until(0).await;
    for tenant in &all {
        assert!(store.get(*tenant, &key("a")).await.unwrap().is_some());
    }
    until(0).await;
    store.close().await;
}

#[tokio::test]
async fn after_a_kill_those_who_follow_look_at_everything() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let tenant = made(&store, "one").await;
    let seen = store.position().await.unwrap();
    store.close().await;
    // Closed where they were: nothing was missed.
    let store = open(directory.path());
    drop(store.follow(vec![], Some(seen)).await.unwrap());
    store.write(tenant, vec![put("b", "1")]).await.unwrap();
    let last = store.position().await.unwrap();
    drop(store);
    let store = open(directory.path());
    for position in [seen, last, Position(0)] {
        let refused = store.follow(vec![], Some(position)).await.err();
        assert!(matches!(refused, Some(StoreError::Compacted { .. })), "{refused:?}");
    }
    assert!(store.position().await.unwrap() > last);
    store.close().await;
}

#[tokio::test]
async fn nothing_is_there_before_the_first_tenant() {
    let above = TempDir::new().unwrap();
    let directory = above.path().join("store");
    let store = open(&directory);
    let begun = store.begun();
    let nobody = TenantId(1);
    assert_eq!(store.tenant("one").await.unwrap(), None);
    assert_eq!(store.tenant_by_id(nobody).await.unwrap(), None);
    assert_eq!(store.tenants(None, 10).await.unwrap(), []);
    assert!(matches!(store.get(nobody, &key("a")).await, Err(StoreError::NoTenant)));
    store.compact(Retention { age: Duration::ZERO, bytes: 0 }).await.unwrap();
    let mut feed = store.follow(vec![], Some(store.position().await.unwrap())).await.unwrap();
    assert!(!directory.exists() && !*begun.borrow());
    store.close().await;
    let closed = store.create_tenant("late", Bytes::new(), Vec::new()).await;
    assert!(closed.is_err() && !directory.exists(), "{closed:?}");
    assert!(
        feed.next().await.is_none_or(|told| told.is_err()),
        "whoever followed it is told that it is closed"
    );

    // Many come at once, and who followed before them is told of all.
    let store = open(&directory);
    let (begun, mut feed) = (store.begun(), store.follow(vec![], None).await.unwrap());
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let made = futures::future::join_all(names.iter().map(|name| made(&store, name))).await;
    assert!(*begun.borrow());
    assert_eq!(directories(&directory), made.iter().map(|id| id.0).collect());
    for id in &made {
        store.write(*id, vec![put("changed", "1")]).await.unwrap();
    }
    let mut told = BTreeSet::new();
    while told.len() < made.len() {
        told.insert(feed.next().await.unwrap().unwrap().tenant.0);
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&directory.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    store.close().await;

    let store = open(&directory);
    assert!(*store.begun().borrow(), "it is known at once when there is something");
    store.close().await;
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let late = open(directory.path());
    made(&store, "one").await;
    // Also one that looked before there was anything.
    let refused = late.create_tenant("two", Bytes::new(), Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    late.close().await;
    let refused = Dedicated::open(directory.path(), Options::default()).err();
    assert!(matches!(refused, Some(OpenError::InUse { .. })), "{refused:?}");
    store.close().await;
    open(directory.path()).close().await;
}
