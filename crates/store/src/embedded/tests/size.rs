//! What tenants take on the disk, and that it is given back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::conformance::put_key;
use crate::embedded::{Options, schema};
use crate::{Embedded, Key, Operation, Revision, Scope, Store, TenantId};

const OBJECTS: usize = 100;

/// What a tenant begins with: much text, and little of its own in it.
fn beginning(tenant: usize) -> Vec<(Key, Bytes)> {
    let object = |index: usize| {
        let text = "the same in every tenant ".repeat(40);
        let value = format!("{index:03} uid {tenant:036} {text} at {tenant:010} {text}");
        (Key::new("things", "", format!("object-{index:03}")), Bytes::from(value))
    };
    (0..OBJECTS).map(object).collect()
}

async fn everything(store: &Embedded, tenant: TenantId, at: Option<Revision>) -> Vec<(Key, Bytes)> {
    let page = store.range(tenant, &Scope::All, None, at, 0).await.unwrap();
    page.entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
}

fn number(directory: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(directory.join(schema::FILE)).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn reopened(store: Embedded, directory: &Path) -> Embedded {
    store.close().await;
    drop(store);
    Embedded::open(directory, Options::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tenants_begin_with_is_stored_once() {
    const TENANTS: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let mut store = Embedded::open(directory.path(), Options::default()).unwrap();
    let mut ids = Vec::new();
    for tenant in 0..TENANTS {
        if tenant == TENANTS / 2 {
            store = reopened(store, directory.path()).await;
        }
        let made = store.create_tenant(&format!("t{tenant}"), Bytes::new(), beginning(tenant)).await.unwrap();
        ids.push(made.id);
    }
    for (tenant, id) in ids.iter().enumerate() {
        assert_eq!(everything(&store, *id, None).await, beginning(tenant));
        // Quotas count what users see.
        let size: usize = beginning(tenant).iter().map(|(_, value)| value.len()).sum();
        assert!(store.size(*id).await.unwrap() >= size as u64);
    }
    assert_eq!(number(directory.path(), "SELECT count(*) FROM template"), OBJECTS as i64);
    let stored = number(directory.path(), "SELECT sum(length(value)) FROM current");
    assert!(stored < (TENANTS * OBJECTS * 100) as i64, "{stored} bytes");
    assert_eq!(number(directory.path(), "SELECT count(*) FROM log"), 0, "it is nobody's change");

    // Changed, deleted, and read as of before.
    let (id, key) = (ids[7], Key::new("things", "", "object-005"));
    let before = store.revision(id).await.unwrap();
    store.write(id, vec![put_key(key.clone(), "changed")]).await.unwrap();
    let gone = Key::new("things", "", "object-006");
    let delete = Operation::Delete { key: gone.clone(), expect: crate::Expect::Present };
    store.write(id, vec![delete]).await.unwrap();
    let mut expected = beginning(7);
    assert_eq!(everything(&store, id, Some(before)).await, expected);
    expected[5].1 = Bytes::from("changed");
    expected.remove(6);
    assert_eq!(everything(&store, id, None).await, expected);
    assert_eq!(everything(&store, ids[8], None).await, beginning(8), "no other is touched");

    // Copies in the store and by a file.
    let fork = store.fork_tenant(id, None, "fork", Bytes::new()).await.unwrap().id;
    let past = store.fork_tenant(id, Some(before), "past", Bytes::new()).await.unwrap().id;
    let export = store.export_tenant(id, None).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Embedded::open(elsewhere.path(), Options::default()).unwrap();
    let moved = other.import_tenant("moved", Bytes::new(), export).await.unwrap().id;
    assert_eq!(everything(&other, moved, None).await, expected);
    other.close().await;
    let left = "SELECT count(*) FROM tenant WHERE base_tenant IS NOT NULL";
    for _ in 0..500 {
        if number(directory.path(), left) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store.delete_tenant(id).await.unwrap();
    let store = reopened(store, directory.path()).await;
    assert_eq!(everything(&store, fork, None).await, expected);
    assert_eq!(everything(&store, past, None).await, beginning(7));
    let own = "SELECT count(*) FROM current WHERE template IS NULL";
    assert_eq!(number(directory.path(), own), 1, "copies are stored like their originals");
    store.close().await;
}

/// What is alike in no tenant is not kept for others.
#[tokio::test(flavor = "multi_thread")]
async fn templates_are_few() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    for tenant in 0..40_u8 {
        let value = char::from(40 + tenant).to_string().repeat(100);
        let entries = vec![(Key::new("things", "", "secret"), Bytes::from(value.clone()))];
        let id = store.create_tenant(&format!("t{tenant}"), Bytes::new(), entries).await.unwrap().id;
        assert_eq!(everything(&store, id, None).await[0].1, value);
    }
    assert_eq!(number(directory.path(), "SELECT count(*) FROM template"), 16);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        retention: crate::Retention { age: Duration::ZERO, bytes: 0 },
        compaction_interval: Duration::from_millis(50),
        ..Options::default()
    };
    let store = Arc::new(Embedded::open(directory.path(), options).unwrap());
    let bytes = || std::fs::metadata(directory.path().join(schema::FILE)).unwrap().len();
    let kept = store.create_tenant("kept", Bytes::new(), beginning(0)).await.unwrap().id;
    let mut ids = Vec::new();
    for tenant in 0..20 {
        let id = store.create_tenant(&format!("t{tenant}"), Bytes::new(), vec![]).await.unwrap().id;
        let body = "x".repeat(60_000);
        let puts = (0..50).map(|index| put_key(Key::new("things", "", index.to_string()), &body)).collect();
        store.write(id, puts).await.unwrap();
        ids.push(id);
    }
    let pages = "SELECT page_count * 8192 FROM pragma_page_count";
    let full = number(directory.path(), pages);
    assert!(full > 50 << 20, "{full}");
    for id in ids {
        store.delete_tenant(id).await.unwrap();
    }
    for _ in 0..1_000 {
        if bytes() < 16 << 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(bytes() < 16 << 20, "{} of {full} bytes are left", bytes());
    assert_eq!(everything(&store, kept, None).await, beginning(0));
    store.close().await;
}

/// A database of the first layout, which could not shrink and had no templates.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_database_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let id = store.create_tenant("t", Bytes::new(), vec![]).await.unwrap().id;
    store.write(id, vec![put_key(Key::new("things", "", "a"), "1")]).await.unwrap();
    store.close().await;
    drop(store);
    let connection = rusqlite::Connection::open(directory.path().join(schema::FILE)).unwrap();
    let older = "DROP INDEX current_keys; DROP INDEX directory_names; DROP TABLE template;
        ALTER TABLE current DROP COLUMN template; ALTER TABLE current DROP COLUMN sum;
        ALTER TABLE history DROP COLUMN sum; ALTER TABLE tally DROP COLUMN sum;
        ALTER TABLE tenant DROP COLUMN sum; ALTER TABLE directory DROP COLUMN sum;
        ALTER TABLE counter DROP COLUMN sum; DELETE FROM counter WHERE name = 'without_sum';
        ALTER TABLE log DROP COLUMN sum; ALTER TABLE log DROP COLUMN value_sum;
        ALTER TABLE log DROP COLUMN line; ALTER TABLE log DROP COLUMN lines; PRAGMA user_version = 1;
        PRAGMA journal_mode = delete; PRAGMA auto_vacuum = NONE; VACUUM; PRAGMA journal_mode = wal;";
    connection.execute_batch(older).unwrap();
    drop(connection);
    assert_eq!(number(directory.path(), "SELECT auto_vacuum FROM pragma_auto_vacuum"), 0);
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    assert_eq!(everything(&store, id, None).await, [(Key::new("things", "", "a"), Bytes::from("1"))]);
    let made = store.create_tenant("new", Bytes::new(), beginning(1)).await.unwrap().id;
    assert_eq!(everything(&store, made, None).await, beginning(1));
    assert_eq!(number(directory.path(), "SELECT auto_vacuum FROM pragma_auto_vacuum"), 2);
    store.close().await;
}
