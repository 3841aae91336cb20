//! Directories and disks that misbehave.

use std::sync::Arc;

use bytes::Bytes;

use crate::conformance::{Fixture, next_events, put, put_key, tell, things};
use crate::embedded::writer::Command;
use crate::embedded::{OpenError, Options, schema};
use crate::{Embedded, Key, Store, StoreError};

fn open(directory: &std::path::Path) -> Result<Arc<Embedded>, OpenError> {
    Embedded::open(directory, Options::default()).map(Arc::new)
}

async fn fixture(store: &Arc<Embedded>) -> Fixture {
    let store: Arc<dyn Store> = store.clone();
    let tenant = store.create_tenant("first", Bytes::new(), vec![]).await.unwrap().id;
    Fixture { store, tenant }
}

#[tokio::test]
async fn a_second_one_is_refused_by_name_until_the_first_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    let refused = open(directory.path()).err().unwrap();
    assert!(
        matches!(refused, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused}"
    );
    let message = refused.to_string();
    assert!(message.contains(&directory.path().display().to_string()), "{message}");
    assert!(message.contains(&std::process::id().to_string()), "{message}");
    first.close().await;
    first.close().await;
    let second = open(directory.path()).unwrap();
    // One that is only dropped frees the directory as well.
    drop(second);
    open(directory.path()).unwrap();
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_told() {
    let check = |prepare: &dyn Fn(&std::path::Path), expected: &str| {
        let directory = tempfile::tempdir().unwrap();
        prepare(&directory.path().join(schema::FILE));
        let error = open(directory.path()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(schema::FILE), "{error}");
    };
    let sql = |file: &std::path::Path, text: &str| {
        rusqlite::Connection::open(file).unwrap().execute_batch(text).unwrap();
    };
    check(
        &|file| std::fs::write(file, "no database at all, but text that is long enough").unwrap(),
        "is damaged",
    );
    check(&|file| sql(file, "CREATE TABLE x (y); PRAGMA user_version = 3"), "of another program");
    check(&|file| drop(std::fs::create_dir(file)), "cannot be opened");
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    sql(&directory.path().join(schema::FILE), "PRAGMA user_version = 99");
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, OpenError::Version { found: 99, .. }), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = open(file.path()).err().unwrap();
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
}

/// What the disk does, what the store says, and what makes the disk behave again.
async fn check_trouble(trouble: (&'static str, i64), expected: &str, relief: (&'static str, i64)) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let f = fixture(&store).await;
    let before = f.put("before", "x").await;
    let position = f.store.position().await.unwrap();
    let mut watch = f.watch(things(), before).await;
    store.writer.send(Command::Pragma(trouble.0, trouble.1)).await.unwrap();
    // Together, so that several share a commit.
    let body = "x".repeat(100_000);
    let writes = (0..20).map(|index| f.store.write(f.tenant, vec![put(&format!("lost-{index}"), &body)]));
    for result in futures::future::join_all(writes).await {
        match result {
            Err(StoreError::Unavailable(why)) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let tenant = f.store.create_tenant("lost", Bytes::from(body.clone()), vec![]).await;
    assert!(matches!(tenant, Err(StoreError::Unavailable(_))), "{tenant:?}");
    // Nothing of it happened, and readers do not mind.
    assert_eq!(f.things().await, [("before".into(), "x".into())]);
    assert_eq!((f.revision().await, f.store.position().await.unwrap()), (before, position));
    assert_eq!(f.store.tenants(None, 0).await.unwrap().len(), 1);
    store.writer.send(Command::Pragma(relief.0, relief.1)).await.unwrap();
    f.put("after", "y").await;
    assert_eq!(tell(&next_events(&mut watch, 1).await), ["+after=y"]);
    let f = {
        f.store.close().await;
        Fixture { store: open(directory.path()).unwrap(), tenant: f.tenant }
    };
    assert_eq!(f.things().await.len(), 2);
    assert_eq!(f.store.count(f.tenant, &things()).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk() {
    check_trouble(("max_page_count", 1), "the disk is full", ("max_page_count", 1 << 30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_written() {
    check_trouble(("query_only", 1), "cannot be written", ("query_only", 0)).await;
}

/// A child whose files may not grow beyond a few megabytes: the write of a commit itself fails.
#[test]
fn a_disk_that_fails_in_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::tests::disk::in_a_child_with_little_disk", "--ignored", "--nocapture"])
        .env(super::crash::DIRECTORY, directory.path())
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by a_disk_that_fails_in_a_commit, in a process of its own"]
async fn in_a_child_with_little_disk() {
    let Some(directory) = std::env::var_os(super::crash::DIRECTORY) else { return };
    let store = open(directory.as_ref()).unwrap();
    let f = fixture(&store).await;
    let body = "x".repeat(50_000);
    let mut written = 0;
    let why = loop {
        match f.store.write(f.tenant, vec![put(&written.to_string(), &body)]).await {
            Ok(_) => written += 1,
            Err(StoreError::Unavailable(why)) => break why,
            Err(other) => panic!("{other:?}"),
        }
        assert!(written < 2000, "the limit was not felt");
    };
    assert!(why.contains("the disk"), "{why}");
    assert!(written > 5);
    for _ in 0..3 {
        assert!(f.store.write(f.tenant, vec![put("more", &body)]).await.is_err());
        assert_eq!(f.things().await.len(), written);
    }
    // What still fits is still written, or refused; never half.
    let small = f.store.write(f.tenant, vec![put_key(Key::new("small", "", "x"), "x")]).await;
    assert_eq!(
        f.store.count(f.tenant, &crate::Scope::Kind("small".into())).await.unwrap(),
        u64::from(small.is_ok())
    );
    f.store.close().await;
    let f = Fixture { store: open(directory.as_ref()).unwrap(), tenant: f.tenant };
    assert_eq!(f.store.count(f.tenant, &things()).await.unwrap(), written as u64);
}
