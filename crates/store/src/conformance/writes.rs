//! Transactions.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Fixture, Harness, all, key, put, put_if, text, things};
use crate::{Expect, Key, Operation, Retention, Revision, Scope, StoreError, TenantId};

pub async fn expectations_hold_or_nothing_happens(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let old = f.put("there", "1").await;
    let modified = f.put("there", "2").await;
    let wrong = Revision(modified.0 + 1000);
    // The key, what is expected of it, and whether that holds.
    let cases = [
        ("there", Expect::Any, true),
        ("there", Expect::Present, true),
        ("there", Expect::Modified(modified), true),
        ("there", Expect::Absent, false),
        ("there", Expect::Modified(old), false),
        ("there", Expect::Modified(wrong), false),
        ("missing", Expect::Any, true),
        ("missing", Expect::Absent, true),
        ("missing", Expect::Present, false),
        ("missing", Expect::Modified(modified), false),
    ];
    for (name, expect, holds) in cases {
        let check = Operation::Check { key: key(name), expect };
        let delete = Operation::Delete { key: key(name), expect };
        for operation in [check, put_if(name, expect, "x"), delete] {
            // A transaction that also fails elsewhere changes nothing, whatever the first expectation says.
            let before = all(&f.store, f.tenant, None).await;
            let doomed = Operation::Check { key: key("nowhere"), expect: Expect::Present };
            f.store.write(f.tenant, vec![operation.clone(), doomed]).await.unwrap_err();
            if !holds {
                match f.store.write(f.tenant, vec![operation.clone()]).await {
                    Err(StoreError::Conflict { key: told, current }) => {
                        assert_eq!(told, key(name));
                        assert_eq!(current.is_some(), name == "there", "{operation:?}");
                    }
                    other => panic!("{operation:?}: {other:?}"),
                }
            }
            assert_eq!(all(&f.store, f.tenant, None).await, before, "{operation:?}");
        }
    }
    f.write(vec![put_if("there", Expect::Modified(modified), "3"), put_if("new", Expect::Absent, "4")]).await;
    assert_eq!(f.things().await, [("new".into(), "4".into()), ("there".into(), "3".into())]);
    f.write(vec![Operation::Delete { key: key("there"), expect: Expect::Present }]).await;
    assert_eq!(f.things().await, [("new".into(), "4".into())]);
}

pub async fn a_transaction_is_all_or_nothing(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let revision = f.put("b", "1").await;
    let refused =
        f.store.write(f.tenant, vec![put("a", "x"), put_if("b", Expect::Absent, "x"), put("c", "x")]).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(f.revision().await, revision);
    let revision = f.write(vec![put("a", "2"), put("b", "2"), put("c", "2")]).await;
    for entry in all(&f.store, f.tenant, None).await {
        assert_eq!((entry.modified, text(&entry.value)), (revision, "2".into()));
    }
}

pub async fn checks_alone_take_no_revision(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let revision = f.put("a", "1").await;
    let check = Operation::Check { key: key("a"), expect: Expect::Modified(revision) };
    assert_eq!(f.write(vec![]).await, revision);
    assert_eq!(f.write(vec![check]).await, revision);
    assert_eq!(f.delete("not there").await, revision);
    assert_eq!(f.revision().await, revision);
}

pub async fn what_cannot_be_written_is_refused(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let before = f.revision().await;
    for bad in
        [Key::new("a\0", "", "x"), Key::new("a", "b\0", "x"), Key::new("a", "b", "\0"), Key::new("", "", "x")]
    {
        let value = Bytes::from("x");
        let refused =
            f.store.write(f.tenant, vec![Operation::Put { key: bad, expect: Expect::Any, value }]).await;
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    }
    let twice = f.store.write(f.tenant, vec![put("a", "1"), put("a", "2")]).await;
    assert!(matches!(twice, Err(StoreError::Failed(_))), "{twice:?}");
    assert_eq!(f.revision().await, before);
    assert_eq!(f.things().await, []);
}

pub async fn what_is_too_large_is_told(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let before = f.put("a", "1").await;
    for size in harness.too_large() {
        let value = Bytes::from(vec![0; size]);
        let large = Operation::Put { key: key("large"), expect: Expect::Any, value };
        let refused = f.store.write(f.tenant, vec![put("a", "2"), large]).await;
        assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{size}: {refused:?}");
    }
    assert_eq!(f.revision().await, before);
    assert_eq!(f.things().await, [("a".into(), "1".into())]);
    f.put("a", "3").await;
}

pub async fn values_come_back_as_they_were(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let values: Vec<Bytes> = vec![
        Bytes::new(),
        Bytes::from_static(b"\0\xff\0"),
        (0..=255).collect::<Vec<u8>>().into(),
        vec![b'x'; 2_000].into(),
        vec![b'y'; 9_000].into(),
        (0..1_400_000u32).map(|index| (index % 251) as u8).collect::<Vec<u8>>().into(),
    ];
    for (index, value) in values.iter().enumerate() {
        let name = format!("v{index}");
        let operation = Operation::Put { key: key(&name), expect: Expect::Absent, value: value.clone() };
        let revision = f.write(vec![operation]).await;
        let entry = f.store.get(f.tenant, &key(&name)).await.unwrap().unwrap();
        assert_eq!((entry.created, entry.modified, &entry.value), (revision, revision, value));
    }
    assert_eq!(
        all(&f.store, f.tenant, None).await.into_iter().map(|entry| entry.value).collect::<Vec<_>>(),
        values
    );
}

pub async fn compare_and_write_is_linearizable(harness: Arc<impl Harness>) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 40;
    let f = Fixture::new(&*harness).await;
    f.put("counter", "0").await;
    let writers = (0..WRITERS).map(|_| {
        let (store, tenant) = (f.store.clone(), f.tenant);
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            while revisions.len() < EACH as usize {
                let entry = store.get(tenant, &key("counter")).await.unwrap().unwrap();
                let next = text(&entry.value).parse::<u64>().unwrap() + 1;
                let step = put_if("counter", Expect::Modified(entry.modified), &next.to_string());
                match store.write(tenant, vec![step]).await {
                    Ok(revision) => {
                        // What was acknowledged is seen by the next read.
                        let seen = store.get(tenant, &key("counter")).await.unwrap().unwrap();
                        assert!(seen.modified >= revision);
                        revisions.push(revision);
                    }
                    Err(StoreError::Conflict { current, .. }) => {
                        assert!(current.unwrap().modified > entry.modified)
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            revisions
        })
    });
    let revisions: Vec<Revision> =
        futures::future::join_all(writers).await.into_iter().flat_map(|done| done.unwrap()).collect();
    assert_eq!(f.things().await, [("counter".into(), (WRITERS * EACH).to_string())]);
    assert_eq!(revisions.iter().collect::<HashSet<_>>().len() as u64, WRITERS * EACH, "revisions repeat");
}

pub async fn snapshots_never_show_half_a_transaction(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    f.write(vec![put("a", "100"), put("b", "100"), put("c", "100")]).await;
    let movers = (0..3u64).map(|mover| {
        let (store, tenant) = (f.store.clone(), f.tenant);
        tokio::spawn(async move {
            let names = ["a", "b", "c"];
            let (from, to) = (names[mover as usize], names[(mover as usize + 1) % 3]);
            for _ in 0..50 {
                let read = async |name: &str| store.get(tenant, &key(name)).await.unwrap().unwrap();
                let (source, target) = (read(from).await, read(to).await);
                let amount = |value: &[u8]| text(value).parse::<i64>().unwrap();
                let take =
                    put_if(from, Expect::Modified(source.modified), &(amount(&source.value) - 1).to_string());
                let give =
                    put_if(to, Expect::Modified(target.modified), &(amount(&target.value) + 1).to_string());
                let _ = store.write(tenant, vec![take, give]).await;
            }
        })
    });
    let moving = futures::future::join_all(movers);
    let looking = async {
        for _ in 0..100 {
            let page = f.store.range(f.tenant, &things(), None, None, 0).await.unwrap();
            let sum: i64 = page.entries.iter().map(|entry| text(&entry.value).parse::<i64>().unwrap()).sum();
            assert_eq!(sum, 300, "at {}", page.revision);
            assert!(page.entries.iter().all(|entry| entry.modified <= page.revision));
            tokio::task::yield_now().await;
        }
    };
    let (moved, ()) = tokio::join!(moving, looking);
    moved.into_iter().for_each(|done| done.unwrap());
}

pub async fn unknown_tenants_are_told(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let gone = super::tenant(&f.store, "gone").await;
    f.store.delete_tenant(gone).await.unwrap();
    let store = &f.store;
    for nobody in [gone, TenantId(u64::MAX), TenantId(0)] {
        let answers = [
            ("get", store.get(nobody, &key("a")).await.err()),
            ("range", store.range(nobody, &Scope::All, None, None, 0).await.err()),
            ("count", store.count(nobody, &Scope::All).await.err()),
            (
                "count of a namespace",
                store.count(nobody, &Scope::Namespace("a".into(), "b".into())).await.err(),
            ),
            ("write", store.write(nobody, vec![put("a", "1")]).await.err()),
            ("revision", store.revision(nobody).await.err()),
            ("watch", store.watch(nobody, Scope::All, Revision(0)).await.err()),
            ("update", store.update_tenant(nobody, Bytes::new()).await.err()),
            ("delete", store.delete_tenant(nobody).await.err()),
            ("fork", store.fork_tenant(nobody, None, "fork", Bytes::new()).await.err()),
            ("export", store.export_tenant(nobody, None).await.err()),
            ("size", store.size(nobody).await.err()),
        ];
        for (call, answer) in answers {
            assert!(matches!(answer, Some(StoreError::NoTenant)), "{call} of {nobody}: {answer:?}");
        }
    }
    assert_eq!(store.tenant("fork").await.unwrap(), None);
    store.compact(Retention { age: std::time::Duration::ZERO, bytes: 0 }).await.unwrap();
}

pub async fn writes_survive_reopening(harness: Arc<impl Harness>) {
    let mut f = Fixture::new(&*harness).await;
    let mut last = Revision(0);
    for round in 0..4 {
        let (store, tenant) = (f.store.clone(), f.tenant);
        let writes = (0..20).map(|index| {
            let store = store.clone();
            async move { store.write(tenant, vec![put(&format!("{round}-{index}"), "v")]).await.unwrap() }
        });
        let revisions = futures::future::join_all(writes).await;
        assert!(revisions.iter().all(|revision| *revision > last), "a revision was used again");
        last = revisions.into_iter().max().unwrap();
        drop(store);
        f = f.reopen(&*harness).await;
        assert_eq!(f.revision().await, last);
        assert_eq!(f.things().await.len(), (round + 1) * 20);
    }
}

pub async fn two_handles_are_one_store(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let Some(other) = harness.second().await else { return };
    let mut watch = f.watch(things(), f.revision().await).await;
    for index in 0..20 {
        let name = format!("{index}");
        let revision = other.write(f.tenant, vec![put_if(&name, Expect::Absent, "x")]).await.unwrap();
        assert!(f.revision().await >= revision);
        assert!(f.store.get(f.tenant, &key(&name)).await.unwrap().is_some());
    }
    assert_eq!(super::next_events(&mut watch, 20).await.len(), 20);
    other.close().await;
}
