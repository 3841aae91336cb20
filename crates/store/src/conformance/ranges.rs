//! Snapshots and pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fixture, Harness, key, named, put, put_key, things};
use crate::{Filter, Key, Limit, Revision, Scope, StoreError};

pub async fn scopes_and_order(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let mut keys: Vec<Key> = ["_own", "a", "a.group", "b"]
        .into_iter()
        .flat_map(|kind| ["", "n", "n-1", "n1"].map(|namespace| (kind, namespace)))
        .flat_map(|(kind, namespace)| ["x", "x-y", "x.z", "xa"].map(|name| Key::new(kind, namespace, name)))
        .collect();
    f.write(keys.iter().rev().map(|key| put_key(key.clone(), "v")).collect()).await;
    keys.sort();
    let scopes = [
        Scope::All,
        Scope::Kind("a".into()),
        Scope::Kind("a.group".into()),
        Scope::Kind("nothing".into()),
        Scope::Namespace("a".into(), "".into()),
        Scope::Namespace("a".into(), "n".into()),
        Scope::One(Key::new("a", "n", "x")),
        Scope::One(Key::new("a", "n", "none")),
    ];
    for scope in &scopes {
        let expected: Vec<&Key> = keys.iter().filter(|key| scope.contains(key)).collect();
        let page = f.store.range(f.tenant, scope, None, None, 0).await.unwrap();
        assert_eq!(page.entries.iter().map(|entry| &entry.key).collect::<Vec<_>>(), expected, "{scope:?}");
        assert_eq!(f.store.count(f.tenant, scope).await.unwrap(), expected.len() as u64, "{scope:?}");
        // A range after any key, in the scope or not, is the rest of the scope.
        for after in [&keys[0], &keys[20], &keys[21], &Key::new("a", "n", "x-"), &Key::new("zzz", "", "")] {
            let rest: Vec<&Key> = expected.iter().copied().filter(|key| *key > after).collect();
            let page = f.store.range(f.tenant, scope, Some(after), None, 3).await.unwrap();
            let found: Vec<&Key> = page.entries.iter().map(|entry| &entry.key).collect();
            assert_eq!(found, rest.iter().take(3).copied().collect::<Vec<_>>(), "{scope:?} after {after:?}");
            assert_eq!(page.more, rest.len() > 3);
            if let Some(remaining) = page.remaining {
                assert_eq!(remaining as usize, rest.len().saturating_sub(3), "{scope:?} after {after:?}");
            }
        }
    }
}

pub async fn pages_hold_a_limited_number_of_bytes(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let sizes = [10, 10, 10, 500, 1, 1, 1, 1, 100, 100, 0];
    let put = |(index, size): (usize, &usize)| put(&format!("{index:03}"), &"x".repeat(*size));
    f.write(sizes.iter().enumerate().map(put).collect()).await;
    // Some engines answer the second round from a copy.
    for _ in 0..2 {
        for (limit, expected) in [
            (Limit { entries: 0, bytes: 0 }, vec![11]),
            (Limit { entries: 20, bytes: 1 << 20 }, vec![11]),
            (Limit { entries: 20, bytes: 1 }, vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
            (Limit { entries: 20, bytes: 100 }, vec![4, 5, 1, 1]),
            (Limit { entries: 3, bytes: 100 }, vec![3, 1, 3, 2, 1, 1]),
            (Limit { entries: 0, bytes: 30 }, vec![3, 1, 5, 1, 1]),
        ] {
            let (mut pages, mut at, mut after, mut left) = (Vec::new(), None, None, sizes.len());
            loop {
                let page =
                    f.store.range_within(f.tenant, &things(), after.as_ref(), at, limit).await.unwrap();
                left -= page.entries.len();
                pages.push(page.entries.len());
                assert_eq!(page.more, left > 0, "{limit:?}");
                assert_eq!(page.remaining.unwrap_or(left as u64), left as u64, "{limit:?}");
                if !page.more {
                    break;
                }
                (at, after) = (Some(page.revision), page.entries.last().map(|entry| entry.key.clone()));
            }
            assert_eq!(pages, expected, "{limit:?}");
        }
    }
}

pub async fn searches_find_what_the_filter_wants(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let value =
        |index: usize| format!("{}{}", if index % 7 == 3 { "wanted" } else { "other" }, "x".repeat(index));
    f.write((0..120).map(|index| put(&format!("{index:03}"), &value(index))).collect()).await;
    let wanted = |value: &[u8]| value.starts_with(b"wanted");
    let filter: Filter = Arc::new(wanted);
    let expected: Vec<String> =
        (0..120).filter(|index| index % 7 == 3).map(|index| format!("{index:03}")).collect();
    // Some engines answer the second round from a copy.
    for _ in 0..2 {
        for limit in [(0, 0), (1, 0), (10, 1), (50, 100), (1_000, 300), (7, 1 << 20)] {
            let limit = Limit { entries: limit.0, bytes: limit.1 };
            let (mut found, mut at, mut after, mut rounds) = (Vec::new(), None, None, 0);
            loop {
                let search =
                    f.store.search(f.tenant, &things(), after.as_ref(), at, limit, &filter).await.unwrap();
                let names = search.page.entries.iter().filter(|entry| wanted(&entry.value));
                found.extend(names.map(|entry| entry.key.name.to_string()));
                let last = search.page.entries.last().map(|entry| &entry.key);
                assert!(last <= search.looked_at.as_ref(), "{limit:?}");
                if !search.page.more {
                    break;
                }
                assert!(search.looked_at > after, "{limit:?}");
                (at, after, rounds) = (Some(search.page.revision), search.looked_at, rounds + 1);
                assert!(rounds <= 120, "{limit:?}");
            }
            assert_eq!(found, expected, "{limit:?}");
        }
    }
}

pub async fn pages_are_pinned_while_writes_go_on(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    f.write((0..200).map(|index| put(&format!("{index:03}"), "old")).collect()).await;
    let first = f.store.range(f.tenant, &things(), None, None, 17).await.unwrap();
    let pinned = first.revision;
    let (store, tenant) = (f.store.clone(), f.tenant);
    let churn = tokio::spawn(async move {
        for index in 0..200 {
            let change = match index % 3 {
                0 => put(&format!("{index:03}"), "new"),
                1 => put(&format!("{index:03}-between"), "new"),
                _ => {
                    crate::Operation::Delete { key: key(&format!("{index:03}")), expect: crate::Expect::Any }
                }
            };
            store.write(tenant, vec![change]).await.unwrap();
        }
    });
    let mut found = first.entries.clone();
    let mut page = first;
    assert_eq!(page.remaining.unwrap_or(183), 183);
    while page.more {
        let after = page.entries.last().unwrap().key.clone();
        page = f.store.range(f.tenant, &things(), Some(&after), Some(pinned), 17).await.unwrap();
        assert_eq!(page.revision, pinned);
        found.extend(page.entries.iter().cloned());
        tokio::task::yield_now().await;
    }
    churn.await.unwrap();
    let expected: Vec<_> = (0..200).map(|index| (format!("{index:03}"), "old".to_owned())).collect();
    assert_eq!(named(&found), expected);
}

pub async fn every_revision_can_be_read(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let mut model = BTreeMap::new();
    let mut past = vec![(f.revision().await, model.clone())];
    for step in 0..60u32 {
        let name = format!("{}", step * 7 % 11);
        let revision = if step % 4 == 3 && model.remove(&name).is_some() {
            f.delete(&name).await
        } else {
            model.insert(name.clone(), step.to_string());
            f.put(&name, &step.to_string()).await
        };
        past.push((revision, model.clone()));
    }
    let f = f.reopen(&*harness).await;
    for (revision, expected) in past {
        let found: BTreeMap<String, String> = f.things_at(Some(revision)).await.into_iter().collect();
        assert_eq!(found, expected, "at {revision}");
    }
}

pub async fn the_future_cannot_be_read(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let now = f.put("a", "1").await;
    for asked in [Revision(now.0 + 1), Revision(u64::MAX)] {
        match f.store.range(f.tenant, &Scope::All, None, Some(asked), 0).await {
            Err(StoreError::Future { asked: told, current }) => assert_eq!((told, current), (asked, now)),
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            f.store.export_tenant(f.tenant, Some(asked)).await.err(),
            Some(StoreError::Future { .. })
        ));
        let fork = f.store.fork_tenant(f.tenant, Some(asked), "fork", bytes::Bytes::new()).await;
        assert!(matches!(fork, Err(StoreError::Future { .. })), "{fork:?}");
    }
}

pub async fn counts_follow_writes(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let counts = async |f: &Fixture| {
        let scopes =
            [Scope::All, things(), Scope::Namespace("things".into(), "ns".into()), Scope::One(key("1"))];
        let mut counts = Vec::new();
        for scope in scopes {
            counts.push(f.store.count(f.tenant, &scope).await.unwrap());
        }
        counts
    };
    let empty = f.store.size(f.tenant).await.unwrap();
    f.write((0..10).map(|index| put(&index.to_string(), &"x".repeat(1000))).collect()).await;
    f.write(vec![put_key(Key::new("others", "", "1"), "x")]).await;
    assert_eq!(counts(&f).await, [11, 10, 10, 1]);
    let full = f.store.size(f.tenant).await.unwrap();
    assert!(full >= empty + 10_000, "{empty} to {full}");
    f.put("1", "short").await;
    f.delete("2").await;
    f.delete("2").await;
    assert_eq!(counts(&f).await, [10, 9, 9, 1]);
    let f = f.reopen(&*harness).await;
    f.delete("1").await;
    assert_eq!(counts(&f).await, [9, 8, 8, 0]);
    assert!(f.store.size(f.tenant).await.unwrap() < full);
}

/// Through any handle, in every kind of read, while others write.
pub async fn what_was_acknowledged_is_seen_at_once(harness: Arc<impl Harness>) {
    const WRITERS: usize = 4;
    let f = Fixture::new(&*harness).await;
    let other = harness.second().await;
    let handles = [f.store.clone(), other.clone().unwrap_or_else(|| f.store.clone())];
    let namespace = Scope::Namespace("things".into(), "ns".into());
    let write = async |writer: usize| {
        let (mine, beside) = (format!("{writer}"), Key::new("others", "", format!("{writer}")));
        for turn in 0..25 {
            let (writing, reading) = (&handles[turn % 2], &handles[(turn + 1 + writer) % 2]);
            let value = format!("{turn}");
            let both = vec![put(&mine, &value), put_key(beside.clone(), &value)];
            let revision = writing.write(f.tenant, both).await.unwrap();
            for scope in [&things(), &namespace, &Scope::One(key(&mine))] {
                let page = reading.range(f.tenant, scope, None, None, 0).await.unwrap();
                assert!(page.revision >= revision, "{scope:?} at {} after {revision}", page.revision);
                let found = page.entries.iter().find(|entry| entry.key == key(&mine)).unwrap();
                assert_eq!((found.modified, &found.value[..]), (revision, value.as_bytes()), "{scope:?}");
                assert_eq!(reading.count(f.tenant, scope).await.unwrap(), page.entries.len() as u64);
            }
            let found = reading.get(f.tenant, &beside).await.unwrap().unwrap();
            assert_eq!((found.modified, &found.value[..]), (revision, value.as_bytes()));
            let others = reading.range(f.tenant, &Scope::Kind("others".into()), None, None, 0).await.unwrap();
            assert!(others.entries.contains(&found));
        }
    };
    // All are there before the first is counted.
    f.write((0..WRITERS).map(|writer| put(&writer.to_string(), "none")).collect()).await;
    futures::future::join_all((0..WRITERS).map(write)).await;
    f.delete("0").await;
    let left = handles[1].range(f.tenant, &things(), None, None, 0).await.unwrap().entries;
    assert_eq!(left.len(), WRITERS - 1);
    if let Some(other) = other {
        other.close().await;
    }
}
