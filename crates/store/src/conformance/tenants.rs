//! The directory of tenants.

use std::sync::Arc;

use bytes::Bytes;

use super::{Fixture, Harness, all, key, named, put, tenant, things};
use crate::{Key, Scope, Store, StoreError};

pub async fn are_made_listed_and_removed(harness: Arc<impl Harness>) {
    let store = harness.open().await;
    assert_eq!(store.tenants(None, 10).await.unwrap(), []);
    let names: Vec<String> = (0..25).map(|index| format!("tenant-{index:02}")).collect();
    for name in names.iter().rev() {
        let record = Bytes::from(format!("record of {name}"));
        let made = store.create_tenant(name, record.clone(), vec![]).await.unwrap();
        assert_eq!((made.name.as_str(), &made.record), (name.as_str(), &record));
        assert_eq!(store.tenant(name).await.unwrap(), Some(made.clone()));
        assert_eq!(store.tenant_by_id(made.id).await.unwrap(), Some(made));
    }
    let listed = async |store: &Arc<dyn Store>| {
        let mut listed = Vec::new();
        loop {
            let after = listed.last().map(|tenant: &crate::Tenant| tenant.name.clone());
            let page = store.tenants(after.as_deref(), 7).await.unwrap();
            if page.is_empty() {
                return listed;
            }
            assert!(page.len() <= 7);
            listed.extend(page);
        }
    };
    let tenants = listed(&store).await;
    assert_eq!(tenants.iter().map(|tenant| tenant.name.to_string()).collect::<Vec<_>>(), names);
    for gone in tenants.iter().step_by(2) {
        store.delete_tenant(gone.id).await.unwrap();
        assert_eq!(store.tenant(&gone.name).await.unwrap(), None);
        assert_eq!(store.tenant_by_id(gone.id).await.unwrap(), None);
    }
    store.close().await;
    drop(store);
    let store = harness.open().await;
    let left: Vec<_> = tenants.into_iter().skip(1).step_by(2).collect();
    assert_eq!(listed(&store).await, left);
    assert_eq!(store.tenant("nobody").await.unwrap(), None);
}

pub async fn begin_with_their_entries(harness: Arc<impl Harness>) {
    let store = harness.open().await;
    let entries: Vec<(Key, Bytes)> = ["c", "a", "b"].map(|name| (key(name), Bytes::from(name))).into();
    let made = store.create_tenant("new", Bytes::new(), entries).await.unwrap();
    let found = all(&store, made.id, None).await;
    let revision = store.revision(made.id).await.unwrap();
    assert_eq!(named(&found), ["a", "b", "c"].map(|name| (name.to_owned(), name.to_owned())));
    assert!(found.iter().all(|entry| entry.created == revision && entry.modified == revision));
    assert_eq!(store.count(made.id, &things()).await.unwrap(), 3);
    let twice = vec![(key("a"), Bytes::new()), (key("a"), Bytes::new())];
    assert!(matches!(store.create_tenant("bad", Bytes::new(), twice).await, Err(StoreError::Failed(_))));
    assert!(store.create_tenant("", Bytes::new(), vec![]).await.is_err());
    assert_eq!(store.tenant("bad").await.unwrap(), None);
}

pub async fn names_are_won_once(harness: Arc<impl Harness>) {
    let store = harness.open().await;
    let tries = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.create_tenant("wanted", Bytes::new(), vec![]).await })
    });
    let results: Vec<_> =
        futures::future::join_all(tries).await.into_iter().map(|done| done.unwrap()).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for refused in results.into_iter().filter_map(Result::err) {
        assert!(matches!(&refused, StoreError::TenantExists { name } if name == "wanted"), "{refused:?}");
    }
}

pub async fn a_new_one_under_an_old_name_is_another(harness: Arc<impl Harness>) {
    let mut f = Fixture::new(&*harness).await;
    let mut ids = std::collections::HashSet::from([f.tenant]);
    for round in 0..4 {
        f.write((0..600).map(|index| put(&index.to_string(), "old")).collect()).await;
        f.store.delete_tenant(f.tenant).await.unwrap();
        if round % 2 == 1 {
            f = f.reopen(&*harness).await;
        }
        f.tenant = tenant(&f.store, "first").await;
        assert!(ids.insert(f.tenant), "the id {} came back", f.tenant);
        assert_eq!(f.things().await, []);
        assert_eq!(f.store.count(f.tenant, &Scope::All).await.unwrap(), 0);
    }
}

pub async fn cannot_see_each_other(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let other = tenant(&f.store, "other").await;
    f.write(vec![put("same", "mine"), put("only mine", "x")]).await;
    let before = f.store.revision(other).await.unwrap();
    f.store.write(other, vec![put("same", "theirs")]).await.unwrap();
    assert_eq!(f.things().await, [("only mine".into(), "x".into()), ("same".into(), "mine".into())]);
    assert_eq!(named(&all(&f.store, other, None).await), [("same".into(), "theirs".into())]);
    assert!(f.store.revision(other).await.unwrap() > before);
    assert_eq!(f.store.get(other, &key("only mine")).await.unwrap(), None);
    f.store.delete_tenant(other).await.unwrap();
    assert_eq!(f.things().await.len(), 2);
}

pub async fn records_change(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let old = f.store.tenant("first").await.unwrap().unwrap();
    f.store.update_tenant(f.tenant, Bytes::from("new")).await.unwrap();
    assert!(!f.store.replace_record(&old, Bytes::from("newer")).await.unwrap(), "it is another one by now");
    let f = f.reopen(&*harness).await;
    let found = f.store.tenant("first").await.unwrap().unwrap();
    assert_eq!((found.id, &found.record[..]), (f.tenant, &b"new"[..]));
    assert!(f.store.replace_record(&found, Bytes::from("newer")).await.unwrap());
    assert!(!f.store.replace_record(&found, Bytes::from("newest")).await.unwrap());
    let found = f.store.tenant("first").await.unwrap().unwrap();
    assert_eq!(&found.record[..], b"newer");
    f.store.delete_tenant(f.tenant).await.unwrap();
    let gone = f.store.replace_record(&found, Bytes::from("x")).await;
    assert!(matches!(gone, Err(StoreError::NoTenant)), "{gone:?}");
}

pub async fn removal_continues_after_reopening(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let big = tenant(&f.store, "big").await;
    for round in 0..4 {
        let puts = (0..1000).map(|index| put(&format!("{index}"), &format!("{round}"))).collect();
        f.store.write(big, puts).await.unwrap();
    }
    f.put("kept", "x").await;
    f.store.delete_tenant(big).await.unwrap();
    let f = f.reopen(&*harness).await;
    assert!(matches!(f.store.revision(big).await, Err(StoreError::NoTenant)));
    // It works on beside ordinary life.
    for index in 0..20 {
        f.put(&index.to_string(), "x").await;
    }
    let f = f.reopen(&*harness).await;
    assert_eq!(f.things().await.len(), 21);
    assert_eq!(f.store.tenants(None, 10).await.unwrap().len(), 1);
}
