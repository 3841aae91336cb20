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

/// A file system of its own, gone with this.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(mebibytes: u32) -> Option<Small> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .stderr(std::process::Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Small(directory));
        }
        println!("skipped: a file system cannot be mounted here");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A disk that is really full: reads go on, deletions are taken, and with the room they give back so is the rest. Also after a
/// kill while it is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_deletions() {
    let Some(small) = Small::mount(32) else { return };
    let directory = small.0.path().join("store");
    let store = open(&directory).unwrap();
    let f = fixture(&store).await;
    let body = "x".repeat(50_000);
    let mut written = 0;
    let why = loop {
        match f.store.write(f.tenant, vec![put(&format!("{written:04}"), &body)]).await {
            Ok(_) => written += 1,
            Err(StoreError::Unavailable(why)) => break why,
            Err(other) => panic!("{other:?}"),
        }
        assert!(written < 2_000, "the disk has no end");
    };
    assert!(why.contains("the disk is full"), "{why}");
    assert!(store.trouble().is_some_and(|why| why.contains("the disk is full")));
    assert!(f.store.write(f.tenant, vec![put("more", &body)]).await.is_err());
    assert_eq!(f.things().await.len(), written);
    // As after a kill: the same files, still full.
    f.store.close().await;
    drop((f, store));
    let store = open(&directory).unwrap();
    let tenant = store.tenant("first").await.unwrap().unwrap().id;
    let f = Fixture { store: store.clone(), tenant };
    assert_eq!(f.things().await.len(), written);
    // Closing it has moved the log, which may have made room.
    while f.store.write(tenant, vec![put(&format!("{written:04}"), &body)]).await.is_ok() {
        written += 1;
        assert!(written < 2_000, "the disk has no end");
    }
    for index in 0..written {
        f.delete(&format!("{index:04}")).await;
    }
    assert_eq!(f.things().await, []);
    // The history goes as well, and the file gets smaller.
    let mut tries = 0;
    while let Err(error) = f.store.write(tenant, vec![put("after", &body)]).await {
        tries += 1;
        assert!(tries < 300, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(store.trouble(), None);
    f.store.close().await;
}

/// A file system that becomes read-only: what is there is served, after a kill and after an orderly end.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_system_is_served() {
    let Some(small) = Small::mount(32) else { return };
    let remount = |how: &str| {
        let options = format!("remount,{how}");
        let done = std::process::Command::new("mount").args(["-o", &options]).arg(small.0.path()).status();
        assert!(done.unwrap().success(), "{how}");
    };
    let directory = small.0.path().join("a % of # what?");
    let store = open(&directory).unwrap();
    let f = fixture(&store).await;
    f.put("a", "1").await;
    // As a kill leaves it, with a log; the other is closed.
    let killed = small.0.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for file in std::fs::read_dir(&directory).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), killed.join(file.file_name())).unwrap();
    }
    f.store.close().await;
    let tenant = f.tenant;
    drop((f, store));
    remount("ro");
    for directory in [&directory, &killed] {
        let store = open(directory).unwrap();
        let f = Fixture { store: store.clone(), tenant };
        assert_eq!(f.things().await, [("a".into(), "1".into())]);
        let refused = f.store.write(tenant, vec![put("b", "2")]).await;
        assert!(
            matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("cannot be written")),
            "{refused:?}"
        );
        assert!(store.trouble().is_some());
        f.store.close().await;
    }
    remount("rw");
    for directory in [&directory, &killed] {
        let store = open(directory).unwrap();
        assert_eq!(store.trouble(), None);
        Fixture { store: store.clone(), tenant }.put("b", "2").await;
        store.close().await;
    }
}
