//! What is this engine's own: sizes beyond etcd's, what lies where, revisions from elsewhere, memory.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::export::{Encoder, Header};
use store::{Change, Entry, Expect, Key, Operation, Revision, Scope, Store, StoreError};
use store_etcd::Etcd;

use crate::replicas::{key, next_event, put, put_if};
use crate::server::{self, Configured, Server};

async fn fresh() -> (Server, store_etcd::Config, Etcd) {
    let etcd = Server::start();
    let config = etcd.fresh_config();
    let store = server::open(&config).await;
    (etcd, config, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_may_begin_with_more_than_a_transaction_holds() {
    let (etcd, config, store) = fresh().await;
    let entries: Vec<(Key, Bytes)> =
        (0..400).map(|index| (key(&format!("{index:03}")), Bytes::from(vec![b'x'; 10_000]))).collect();
    let made = store.create_tenant("large", Bytes::from("record"), entries).await.unwrap();
    assert_eq!(store.tenant("large").await.unwrap(), Some(made.clone()));
    let revision = store.revision(made.id).await.unwrap();
    let page = store.range(made.id, &Scope::All, None, None, 0).await.unwrap();
    assert_eq!((page.revision, page.entries.len()), (revision, 400));
    assert!(page.entries.iter().all(|entry| (entry.created, entry.modified) == (revision, revision)));
    assert_eq!(etcd.keys(&format!("{}/making/", config.prefix)), Vec::<String>::new());
    // What it says of itself can be compared with.
    let expect = Expect::Modified(revision);
    let next = store.write(made.id, vec![put_if("007", expect, "new")]).await.unwrap();
    let again = store.write(made.id, vec![put_if("007", expect, "newer")]).await;
    assert!(matches!(again, Err(StoreError::Conflict { .. })), "{again:?}");
    let mut watch = store.watch(made.id, Scope::All, revision).await.unwrap();
    let event = next_event(&mut watch).await;
    assert_eq!((event.change, event.created, event.revision), (Change::Updated, revision, next));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_expectations_than_etcd_compares() {
    let (_etcd, _, store) = fresh().await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let names: Vec<String> = (0..400).map(|index| format!("{index:03}")).collect();
    let with = |expect: Expect, value: &str| names.iter().map(|name| put_if(name, expect, value)).collect();
    let first = store.write(tenant, with(Expect::Absent, "1")).await.unwrap();
    let second = store.write(tenant, with(Expect::Modified(first), "2")).await.unwrap();
    let late = store.write(tenant, with(Expect::Modified(first), "3")).await;
    match late {
        Err(StoreError::Conflict { key: told, current }) => {
            assert_eq!((told, current.unwrap().modified), (key("000"), second));
        }
        other => panic!("{other:?}"),
    }
    let deletes = |names: &[String]| -> Vec<Operation> {
        names.iter().map(|name| Operation::Delete { key: key(name), expect: Expect::Any }).collect()
    };
    store.write(tenant, deletes(&names[..200])).await.unwrap();
    assert_eq!(store.count(tenant, &Scope::All).await.unwrap(), 200);
    let now = store.write(tenant, deletes(&names)).await.unwrap();
    assert_eq!(store.count(tenant, &Scope::All).await.unwrap(), 0);
    // Nothing left to delete: nothing happens.
    assert_eq!(store.write(tenant, deletes(&names)).await.unwrap(), now);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_said_to_be() {
    let (_etcd, _, store) = fresh().await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let before = store.revision(tenant).await.unwrap();
    for megabytes in [2, 10] {
        let value = Bytes::from(vec![0; megabytes << 20]);
        let large = Operation::Put { key: key("a"), expect: Expect::Any, value };
        match store.write(tenant, vec![large]).await {
            Err(StoreError::TooLarge(why)) => assert!(why.contains("--max-request-bytes"), "{why}"),
            other => panic!("{megabytes} MiB: {other:?}"),
        }
    }
    assert_eq!(store.revision(tenant).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_tools_can_read_it() {
    let (etcd, config, store) = fresh().await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let odd = Key::new("roles.rbac", "", "a:b/c\td");
    let put_odd = Operation::Put { key: odd.clone(), expect: Expect::Any, value: Bytes::from("x") };
    store.write(tenant, vec![put("a", "1"), put_odd]).await.unwrap();
    let prefix = &config.prefix;
    let expected = [
        format!("{prefix}/tenants/{tenant}/about"),
        format!("{prefix}/tenants/{tenant}/data/roles.rbac\t\ta:b/c\n\u{49}d"),
        format!("{prefix}/tenants/{tenant}/data/things\tns\ta"),
        format!("{prefix}/tenants/{tenant}/head"),
    ];
    assert_eq!(etcd.keys(&format!("{prefix}/tenants/")), expected);
    assert_eq!(etcd.keys(&format!("{prefix}/names/")), [format!("{prefix}/names/one")]);
    assert_eq!(store.get(tenant, &odd).await.unwrap().unwrap().value, "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deleted_tenant_stored_goes_in_the_end() {
    let (etcd, config, store) = fresh().await;
    let kept =
        store.create_tenant("kept", Bytes::new(), vec![(key("a"), Bytes::from("1"))]).await.unwrap().id;
    let gone = store.create_tenant("gone", Bytes::new(), vec![]).await.unwrap().id;
    store.write(gone, (0..1500).map(|index| put(&index.to_string(), "x")).collect()).await.unwrap();
    let mut feed = store.follow(vec![], None).await.unwrap();
    store.delete_tenant(gone).await.unwrap();
    // Ended as early as can be; the next one finds what is to be done.
    store.close().await;
    assert!(feed.next().await.is_some_and(|end| end.is_err()));
    let store = server::open(&config).await;
    let mut feed = store.follow(vec![], None).await.unwrap();
    let left = |prefix: String| etcd.keys(&prefix).len();
    while left(format!("{}/removing/", config.prefix)) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left(format!("{}/tenants/{gone}/", config.prefix)), 0);
    // Nobody who follows hears of it key by key.
    store.write(kept, vec![put("a", "2")]).await.unwrap();
    assert_eq!(feed.next().await.unwrap().unwrap().tenant, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_from_elsewhere_do_not_go_back() {
    let (_etcd, config, store) = fresh().await;
    let served = 7_000_000_000;
    let header = Header { revision: Revision(served - 5), latest: Revision(served) };
    let mut encoder = Encoder::new();
    encoder.header(&header);
    for name in ["a", "b"] {
        let (created, modified) = (Revision(3), Revision(served - 9));
        encoder.entry(&Entry { key: key(name), created, modified, value: Bytes::from("old") }).unwrap();
    }
    let export = futures::stream::iter([Ok(encoder.finish())]).boxed();
    let made = store.import_tenant("moved", Bytes::new(), export).await.unwrap().id;
    let start = store.revision(made).await.unwrap();
    assert!(start.0 > served);
    let entry = store.get(made, &key("a")).await.unwrap().unwrap();
    assert_eq!((entry.modified, &entry.value[..]), (start, &b"old"[..]));
    let next = store.write(made, vec![put_if("a", Expect::Modified(start), "new")]).await.unwrap();
    assert!(next > start);
    store.close().await;
    let store = server::open(&config).await;
    assert_eq!(store.revision(made).await.unwrap(), next);
    let mut watch = store.watch(made, Scope::All, start).await.unwrap();
    let event = next_event(&mut watch).await;
    assert_eq!((event.revision, event.created, event.change), (next, start, Change::Updated));
    let page = store.range(made, &Scope::All, None, Some(start), 0).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.value == "old"));
    // A fork of it stays beyond, too.
    let fork = store.fork_tenant(made, Some(start), "fork", Bytes::new()).await.unwrap().id;
    assert!(store.revision(fork).await.unwrap() > start);
    // What its clients saw before it was moved is told to be gone.
    let stale = store.watch(made, Scope::All, Revision(served)).await;
    assert!(matches!(stale.err(), Some(StoreError::Compacted { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_compact_too() {
    let (etcd, _, store) = fresh().await;
    let tenant = store.create_tenant("one", Bytes::new(), vec![]).await.unwrap().id;
    let mut revisions = Vec::new();
    for index in 0..10 {
        revisions.push(store.write(tenant, vec![put("a", &index.to_string())]).await.unwrap());
    }
    etcd.ask("/v3/kv/compaction", &format!(r#"{{"revision":"{}"}}"#, revisions[6]));
    match store.range(tenant, &Scope::All, None, Some(revisions[2]), 0).await {
        Err(StoreError::Compacted { asked, oldest }) => {
            assert_eq!((asked, oldest), (revisions[2], revisions[6]))
        }
        other => panic!("{other:?}"),
    }
    let page = store.range(tenant, &Scope::All, None, Some(revisions[6]), 0).await.unwrap();
    assert_eq!(page.entries[0].value, "6");
    let mut watch = store.watch(tenant, Scope::All, revisions[6]).await.unwrap();
    assert_eq!(next_event(&mut watch).await.value, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_leave_nothing_behind() {
    let (_etcd, _, store) = fresh().await;
    let mut watches = Vec::new();
    for index in 0..20 {
        let made = store.create_tenant(&format!("t{index}"), Bytes::new(), vec![]).await.unwrap().id;
        let mut watch = store.watch(made, Scope::All, Revision(0)).await.unwrap();
        store.write(made, vec![put("a", "1")]).await.unwrap();
        assert_eq!(next_event(&mut watch).await.value, "1");
        watches.push(watch);
    }
    assert_eq!(store.hub().load().0, 20);
    drop(watches);
    assert_eq!(store.hub().load(), (0, 0));
}
