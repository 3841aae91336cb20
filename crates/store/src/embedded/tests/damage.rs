//! Files that something else has altered. Whatever is answered is right, or an error that says what is damaged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::conformance::{Fixture, put_key, tell, text, until};
use crate::embedded::{self, OpenError, Options, schema};
use crate::{Embedded, Entry, Expect, Key, Operation, Page, Revision, Scope, Store, StoreError, TenantId};

fn open(directory: &Path) -> Result<Arc<Embedded>, OpenError> {
    let options = Options { progress_interval: Duration::from_millis(20), ..Options::default() };
    Embedded::open(directory, options).map(Arc::new)
}

fn object(kind: &str, index: usize) -> Key {
    Key::new(kind, "default", format!("c{index:04}"))
}

/// The files of a store, as a kill or a copy would leave them.
fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

/// Moves what is in the log to the database.
fn settle(directory: &Path) {
    let connection = rusqlite::Connection::open(directory.join(schema::FILE)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Where some bytes are in the database.
fn places(directory: &Path, what: &[u8]) -> Vec<usize> {
    let bytes = std::fs::read(directory.join(schema::FILE)).unwrap();
    let found = bytes.windows(what.len()).enumerate().filter(|(_, window)| *window == what);
    found.map(|(at, _)| at).collect()
}

fn replace(directory: &Path, at: usize, by: &[u8]) {
    let file = directory.join(schema::FILE);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[at..at + by.len()].copy_from_slice(by);
    std::fs::write(file, bytes).unwrap();
}

async fn filled(directory: &Path, objects: usize) -> TenantId {
    let store = open(directory).unwrap();
    let tenant = store.create_tenant("first", Bytes::new(), vec![]).await.unwrap().id;
    for chunk in (0..objects).collect::<Vec<_>>().chunks(100) {
        let puts = chunk.iter().map(|index| {
            put_key(object("configmaps", *index), &format!("{{\"p\":\"{index:04}-{}\"}}", "x".repeat(300)))
        });
        store.write(tenant, puts.collect()).await.unwrap();
    }
    store.write(tenant, vec![put_key(object("secrets", 1), "secret")]).await.unwrap();
    store.close().await;
    drop(store);
    settle(directory);
    tenant
}

fn kind(kind: &str) -> Scope {
    Scope::Kind(kind.into())
}

/// Damaged bytes in a key or a value, in each place where it stands: lists over it fail and name an object, or are whole;
/// all others are there, or said to be damaged as well, since the tree is searched by keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_byte_is_an_error_that_names_the_object() {
    const OBJECTS: usize = 1500;
    let original = tempfile::tempdir().unwrap();
    let tenant = filled(original.path(), OBJECTS).await;
    let key = b"configmaps\0default\0c0709".to_vec();
    let value = b"\"p\":\"0709-".to_vec();
    let cases: [(&str, &[u8], &[u8]); 4] = [
        ("a key beyond its type", &key, b"czn"),
        ("a key before its type", &key, b"aon"),
        ("a key within its type", &key, b"configmaps\0default\0c0708"),
        ("a value", &value, b"\"p\":\"07\"9-"),
    ];
    for (case, what, by) in cases {
        let mut told = 0;
        for at in places(original.path(), what) {
            let directory = copy(original.path());
            replace(directory.path(), at, by);
            let store = open(directory.path()).unwrap();
            let mut named = Vec::new();
            for scope in
                [Scope::All, kind("configmaps"), Scope::Namespace("configmaps".into(), "default".into())]
            {
                match store.range(tenant, &scope, None, None, 0).await {
                    Ok(page) => assert!(page.entries.len() >= OBJECTS, "{case}: {scope:?}"),
                    Err(StoreError::Damaged { key: Some(key), .. }) => named.push(*key),
                    Err(other) => panic!("{case}: {scope:?}: {other}"),
                }
            }
            let mut readable = 0;
            for index in 0..OBJECTS {
                match store.get(tenant, &object("configmaps", index)).await {
                    Ok(found) => {
                        assert!(found.is_some(), "{case}: {index} is said not to be there");
                        readable += 1;
                    }
                    Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{case}: {error}"),
                }
            }
            // Page by page: whole up to the first that is damaged.
            let (mut after, mut seen) = (None, 0);
            let ended = loop {
                match store.range(tenant, &kind("configmaps"), after.as_ref(), None, 100).await {
                    Ok(Page { entries, more, .. }) => {
                        for entry in &entries {
                            assert_eq!(entry.key, object("configmaps", seen), "{case}");
                            seen += 1;
                        }
                        after = entries.last().map(|entry| entry.key.clone());
                        if !more {
                            break None;
                        }
                    }
                    Err(error) => break Some(error),
                }
            };
            assert_eq!(ended.is_none(), seen == OBJECTS, "{case}: {ended:?}");
            assert_eq!(store.range(tenant, &kind("secrets"), None, None, 0).await.unwrap().entries.len(), 1);
            store.close().await;
            drop(store);
            if case == "a value" && !named.is_empty() {
                assert!(named.iter().all(|key| *key == object("configmaps", 709)), "{named:?}");
                assert_eq!(readable, OBJECTS - 1, "{case}");
                let report = embedded::check(directory.path()).unwrap();
                let found: Vec<_> =
                    report.findings.iter().filter_map(|finding| finding.key.clone()).collect();
                assert_eq!(found, [object("configmaps", 709)], "{:?}", report.findings);
            }
            if !named.is_empty() {
                told += 1;
                // A key that is listed elsewhere is still listed among all.
                assert!(named.len() >= 2, "{case}");
                assert!(!embedded::check(directory.path()).unwrap().findings.is_empty(), "{case}");
                check_repair(directory.path(), tenant, OBJECTS, case).await;
            }
        }
        assert!(told > 0, "{case}: nothing was noticed");
    }
    let report = embedded::check(original.path()).unwrap();
    assert_eq!((report.tenants, report.entries, report.findings.len()), (1, OBJECTS as u64 + 1, 0));
}

/// A repaired store has everything but what is damaged, and no revision twice.
async fn check_repair(directory: &Path, tenant: TenantId, objects: usize, case: &str) {
    let before = {
        let store = open(directory).unwrap();
        let before = (store.revision(tenant).await.unwrap(), store.position().await.unwrap());
        store.close().await;
        before
    };
    let (report, kept) = embedded::repair(directory).unwrap();
    assert!(report.findings.len() <= 1, "{case}: {:?}", report.findings);
    assert!(kept.exists());
    assert_eq!(embedded::check(directory).unwrap().findings, [], "{case}");
    let store = open(directory).unwrap();
    let page = store.range(tenant, &kind("configmaps"), None, None, 0).await.unwrap();
    let found = store.get(tenant, &object("configmaps", 709)).await.unwrap();
    if found.is_some() {
        // Only the list of keys was damaged.
        assert_eq!(page.entries.len(), objects, "{case}");
    } else {
        assert_eq!((page.entries.len(), report.findings.len()), (objects - 1, 1), "{case}");
    }
    assert_eq!(store.count(tenant, &kind("configmaps")).await.unwrap(), page.entries.len() as u64);
    assert!(store.revision(tenant).await.unwrap() > before.0, "{case}");
    assert!(store.position().await.unwrap() >= before.1, "{case}");
    let old = store.watch(tenant, Scope::All, before.0).await;
    assert!(matches!(old, Err(StoreError::Compacted { .. })), "{case}");
    // It can be made anew, and used.
    store.write(tenant, vec![put_key(object("configmaps", 709), "anew")]).await.unwrap();
    assert!(store.create_tenant("another", Bytes::new(), vec![]).await.unwrap().id > tenant);
    store.close().await;
}

/// Pages and files that are zeroed, cut and gone: refused, or an error, or harmless.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_and_files_are_never_a_short_answer() {
    const OBJECTS: usize = 400;
    let original = tempfile::tempdir().unwrap();
    let tenant = filled(original.path(), OBJECTS).await;
    let length = std::fs::metadata(original.path().join(schema::FILE)).unwrap().len();
    let (mut refused, mut told, mut harmless) = (0, 0, 0);
    let pages = length / 8192;
    let cases = (0..pages).map(Some).chain([None]);
    for case in cases {
        let directory = copy(original.path());
        let file = directory.path().join(schema::FILE);
        let mut bytes = std::fs::read(&file).unwrap();
        match case {
            Some(page) => bytes[page as usize * 8192..(page as usize + 1) * 8192].fill(0),
            None => bytes.truncate(bytes.len() / 2),
        }
        std::fs::write(&file, bytes).unwrap();
        let Ok(store) = open(directory.path()) else {
            refused += 1;
            continue;
        };
        match store.range(tenant, &kind("configmaps"), None, None, 0).await {
            Ok(page) => {
                assert_eq!(page.entries.len(), OBJECTS, "{case:?}");
                harmless += 1;
            }
            Err(StoreError::Damaged { .. } | StoreError::Failed(_) | StoreError::Unavailable(_)) => told += 1,
            Err(other) => panic!("{case:?}: {other}"),
        }
        store.close().await;
    }
    assert!(refused > 1 && told > 10 && harmless > 0, "{refused} {told} {harmless}");
    // A database that is gone is not a new one.
    let directory = copy(original.path());
    std::fs::remove_file(directory.path().join(schema::FILE)).unwrap();
    let error = open(directory.path()).err().unwrap();
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
}

/// What a small store of several tenants should answer.
struct Model {
    tenants: BTreeMap<String, TenantId>,
    now: BTreeMap<TenantId, Vec<Entry>>,
    /// What the first tenant had at a revision, and its changes since.
    past: (TenantId, Revision, Vec<Entry>, Vec<String>),
}

async fn model(directory: &Path) -> Model {
    let store = open(directory).unwrap();
    let begins = |tenant: usize| {
        let value = |index| format!("begins with {index} {} of {tenant}", "much text ".repeat(20));
        (0..20).map(|index| (object("beginnings", index), Bytes::from(value(index)))).collect::<Vec<_>>()
    };
    let mut model = Model {
        tenants: BTreeMap::new(),
        now: BTreeMap::new(),
        past: (TenantId(0), Revision(0), Vec::new(), Vec::new()),
    };
    for index in 0..3 {
        let name = format!("tenant-{index}");
        let id = store.create_tenant(&name, Bytes::from("record"), begins(index)).await.unwrap().id;
        model.tenants.insert(name, id);
        for index in 0..40 {
            let size = if index % 10 == 0 { 9_000 } else { 50 * (index % 7) };
            store.write(id, vec![put_key(object("things", index), &"v".repeat(size))]).await.unwrap();
        }
    }
    let first = model.tenants["tenant-0"];
    let everything = async |id, at| store.range(id, &Scope::All, None, at, 0).await.unwrap().entries;
    let since = store.revision(first).await.unwrap();
    let then = everything(first, None).await;
    for index in 0..30 {
        let operation = match index % 3 {
            0 => put_key(object("things", index), "changed"),
            1 => Operation::Delete { key: object("things", index), expect: Expect::Present },
            _ => put_key(object("more", index), "new"),
        };
        let both = vec![operation, put_key(object("beside", index), "it")];
        store.write(first, both).await.unwrap();
    }
    let mut watch = store.watch(first, Scope::All, since).await.unwrap();
    let (events, _) = until(&mut watch, store.revision(first).await.unwrap()).await;
    drop(watch);
    assert_eq!(everything(first, Some(since)).await, then);
    model.past = (first, since, then, tell(&events));
    for id in model.tenants.values() {
        model.now.insert(*id, everything(*id, None).await);
    }
    store.close().await;
    drop(store);
    settle(directory);
    model
}

/// Errors that an altered database may be answered with. That there is nothing is none of them.
fn is_told<T>(result: &Result<T, StoreError>) -> bool {
    matches!(
        result,
        Ok(_) | Err(StoreError::Damaged { .. } | StoreError::Failed(_) | StoreError::Unavailable(_))
    )
}

async fn ask(store: &Embedded, model: &Model, case: &str) -> u64 {
    let mut errors = 0;
    let mut hold = |same: bool, told: bool, what: &str| {
        assert!(told, "{case}: {what}: a wrong answer");
        errors += u64::from(!same);
    };
    let names = store.tenants(None, 0).await;
    if let Ok(names) = &names {
        let found: Vec<_> = names.iter().map(|tenant| (tenant.name.to_string(), tenant.id)).collect();
        let expected: Vec<_> = model.tenants.iter().map(|(name, id)| (name.clone(), *id)).collect();
        assert_eq!(found, expected, "{case}");
    }
    hold(names.is_ok(), is_told(&names), "names");
    for (name, id) in &model.tenants {
        let found = store.tenant(name).await;
        if let Ok(found) = &found {
            assert_eq!(found.as_ref().map(|tenant| tenant.id), Some(*id), "{case}: {name}");
        }
        hold(found.is_ok(), is_told(&found), name);
        let expected = &model.now[id];
        for scope in [Scope::All, kind("things"), Scope::Namespace("things".into(), "default".into())] {
            let within: Vec<_> =
                expected.iter().filter(|entry| scope.contains(&entry.key)).cloned().collect();
            let page = store.range(*id, &scope, None, None, 0).await;
            if let Ok(page) = &page {
                assert_eq!(page.entries, within, "{case}: {name} {scope:?}");
            }
            hold(page.is_ok(), is_told(&page), "a list");
            let count = store.count(*id, &scope).await;
            if let Ok(count) = count {
                assert_eq!(count, within.len() as u64, "{case}: {name} {scope:?}");
            }
            hold(count.is_ok(), is_told(&count), "a count");
            let mut after: Option<Key> = None;
            for chunk in within.chunks(7) {
                let page = store.range(*id, &scope, after.as_ref(), None, 7).await;
                if let Ok(page) = &page {
                    assert_eq!(page.entries, chunk, "{case}: {name} {scope:?} after {after:?}");
                }
                hold(page.is_ok(), is_told(&page), "a page");
                after = chunk.last().map(|entry| entry.key.clone());
            }
        }
        for entry in expected {
            let found = store.get(*id, &entry.key).await;
            if let Ok(found) = &found {
                assert_eq!(found.as_ref(), Some(entry), "{case}: {name}");
            }
            hold(found.is_ok(), is_told(&found), "an object");
        }
        let nothing = store.get(*id, &object("things", 999)).await;
        assert!(!matches!(nothing, Ok(Some(_))), "{case}: {nothing:?}");
    }
    let (id, at, then, changes) = &model.past;
    let page = store.range(*id, &Scope::All, None, Some(*at), 0).await;
    if let Ok(page) = &page {
        assert_eq!(&page.entries, then, "{case}: the past");
    }
    hold(page.is_ok(), is_told(&page), "the past");
    let now = store.revision(*id).await;
    hold(now.is_ok(), is_told(&now), "a revision");
    let watch = store.watch(*id, Scope::All, *at).await;
    hold(watch.is_ok(), is_told(&watch), "a watch");
    if let (Ok(now), Ok(mut watch)) = (now, watch) {
        let read = tokio::time::timeout(Duration::from_secs(30), until(&mut watch, now)).await;
        let (events, error) = read.unwrap_or_else(|_| panic!("{case}: a watch says nothing"));
        let told = tell(&events);
        match error {
            None => assert_eq!(&told, changes, "{case}: a watch"),
            Some(error) => {
                assert!(changes.starts_with(&told), "{case}: {error}");
                errors += 1;
            }
        }
    }
    errors
}

/// Random bytes, one to eight of them anywhere in the database.
#[tokio::test(flavor = "multi_thread")]
async fn no_random_byte_makes_a_wrong_answer() {
    let rounds = if std::env::var_os("HANGAR_LONG").is_some() { 5_000 } else { 250 };
    let original = tempfile::tempdir().unwrap();
    let model = model(original.path()).await;
    let bytes = std::fs::read(original.path().join(schema::FILE)).unwrap();
    {
        let directory = copy(original.path());
        let store = open(directory.path()).unwrap();
        assert_eq!(ask(&store, &model, "untouched").await, 0);
        store.close().await;
    }
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ u64::from(std::process::id());
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let (mut refused, mut errors) = (0, 0);
    for round in 0..rounds {
        let directory = copy(original.path());
        let mut damaged = bytes.clone();
        let mut case = format!("round {round}:");
        for _ in 0..=next(8) {
            let (at, by) = (next(damaged.len()), next(255) + 1);
            damaged[at] ^= by as u8;
            case.push_str(&format!(" {at}^{by}"));
        }
        std::fs::write(directory.path().join(schema::FILE), &damaged).unwrap();
        match open(directory.path()) {
            Err(_) => refused += 1,
            Ok(store) => {
                errors += ask(&store, &model, &case).await;
                store.close().await;
            }
        }
    }
    assert!(errors > rounds / 10, "{refused} refused and {errors} errors in {rounds} rounds");
}

/// The log beside the database, cut, altered and removed: the store says how much is missing, and goes on without it when
/// told to, beyond every revision that it may have given out.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_end_of_the_log_is_told_and_no_revision_comes_twice() {
    let original = tempfile::tempdir().unwrap();
    let store = open(original.path()).unwrap();
    let f = Fixture {
        tenant: store.create_tenant("first", Bytes::new(), vec![]).await.unwrap().id,
        store: store.clone(),
    };
    let other = store.create_tenant("other", Bytes::new(), vec![]).await.unwrap().id;
    let fork = f.store.fork_tenant(f.tenant, None, "fork", Bytes::new()).await.unwrap().id;
    for index in 0..300 {
        f.put(&index.to_string(), "x").await;
    }
    let before = store.write(other, vec![put_key(object("things", 1), "x")]).await.unwrap();
    let last = f.revision().await;
    let position = store.position().await.unwrap();
    // As a kill leaves it: the log is not in the database yet.
    let killed = copy(original.path());
    store.close().await;
    let log = |directory: &Path| directory.join(format!("{}-wal", schema::FILE));
    let manipulate = |case: &str| {
        let directory = copy(killed.path());
        let file = log(directory.path());
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        match case {
            "cut" => bytes.truncate(bytes.len() * 2 / 3),
            "flipped" => bytes[middle] ^= 1,
            "header" => bytes[..32].fill(0x5a),
            "gone" => bytes.clear(),
            // A commit that was being written is nobody's.
            "torn" => bytes.extend_from_slice(&[7; 5_000]),
            _ => {}
        }
        std::fs::write(file, bytes).unwrap();
        directory
    };
    for case in ["untouched", "torn"] {
        let directory = manipulate(case);
        let store = open(directory.path()).unwrap();
        assert_eq!(store.revision(f.tenant).await.unwrap(), last, "{case}");
        store.close().await;
    }
    for case in ["cut", "flipped", "header", "gone"] {
        let directory = manipulate(case);
        let Err(error @ OpenError::Lost { lost, .. }) = open(directory.path()) else {
            panic!("{case}: it was opened")
        };
        assert!(error.to_string().contains(&format!("{lost} changes")), "{error}");
        assert!(matches!(open(directory.path()), Err(OpenError::Lost { .. })), "{case}: it is not forgotten");
        let report = embedded::check(directory.path()).unwrap();
        assert!(report.findings.iter().any(|found| found.why.contains("missing")), "{:?}", report.findings);
        assert_eq!(embedded::accept_loss(directory.path()).unwrap(), lost, "{case}");
        assert_eq!(embedded::accept_loss(directory.path()).unwrap(), 0, "{case}");
        let store = open(directory.path()).unwrap();
        assert!(store.position().await.unwrap() >= position, "{case}");
        for (tenant, last) in [(f.tenant, last), (other, before), (fork, last)] {
            // A tenant that was made in what is lost is gone.
            let Ok(revision) = store.revision(tenant).await else { continue };
            assert!(tenant == fork || revision >= last, "{case}: {revision} and {last}");
            let old = store.watch(tenant, Scope::All, last.min(Revision(revision.0 - 1))).await;
            assert!(matches!(old, Err(StoreError::Compacted { .. })), "{case}");
            let page = store.range(tenant, &Scope::All, None, None, 0).await.unwrap();
            assert!(page.entries.iter().all(|entry| entry.modified <= revision), "{case}");
            let next = store.write(tenant, vec![put_key(object("things", 2), "y")]).await.unwrap();
            assert!(next > revision, "{case}");
            let mut watch = store.watch(tenant, Scope::All, revision).await.unwrap();
            let (events, _) = until(&mut watch, next).await;
            assert_eq!(tell(&events), ["+c0002=y"], "{case}");
        }
        let made = store.create_tenant("made", Bytes::new(), vec![]).await.unwrap().id;
        assert!(made > fork, "{case}: an id comes twice");
        store.close().await;
    }
}

/// A fork that has not been copied yet, and its source, written in the same commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_and_its_source_share_commits() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let source = store.create_tenant("source", Bytes::new(), vec![]).await.unwrap().id;
    let puts = (0..2_000).map(|index| put_key(object("things", index), "x")).collect();
    store.write(source, puts).await.unwrap();
    for round in 0..5 {
        let fork = store.fork_tenant(source, None, &format!("fork-{round}"), Bytes::new()).await.unwrap().id;
        let writes = (0..40).map(|index| {
            let tenant = if index % 2 == 0 { source } else { fork };
            store.write(tenant, vec![put_key(object("things", 1_900 + index / 2), "y")])
        });
        for result in futures::future::join_all(writes).await {
            result.unwrap();
        }
        assert_eq!(store.range(fork, &Scope::All, None, None, 0).await.unwrap().entries.len(), 2_000);
        store.fork_tenant(fork, None, &format!("of-{round}"), Bytes::new()).await.unwrap();
    }
    store.close().await;
    drop(store);
    assert_eq!(embedded::check(directory.path()).unwrap().findings, []);
}

/// The second layout, which had no checksums.
const LAYOUT_2: &str = "
PRAGMA page_size = 8192; PRAGMA auto_vacuum = incremental; PRAGMA journal_mode = wal;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('position', 3), ('compacted', 0), ('tenant', 1), ('history_bytes', 300);
CREATE TABLE tenant (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, revision INTEGER NOT NULL, oldest INTEGER NOT NULL,
    base_tenant INTEGER, base_revision INTEGER, base_after BLOB);
CREATE INDEX tenant_unfinished ON tenant (id) WHERE state <> 0 OR base_tenant IS NOT NULL;
CREATE TABLE directory (name TEXT PRIMARY KEY, id INTEGER NOT NULL UNIQUE, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tally (tenant INTEGER NOT NULL, kind TEXT NOT NULL, entries INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind)) WITHOUT ROWID;
CREATE TABLE current (tenant INTEGER NOT NULL, key BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
    value BLOB NOT NULL, template INTEGER, PRIMARY KEY (tenant, key)) WITHOUT ROWID;
CREATE TABLE template (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL);
CREATE INDEX template_by_key ON template (key);
CREATE TABLE history (tenant INTEGER NOT NULL, key BLOB NOT NULL, modified INTEGER NOT NULL, superseded INTEGER NOT NULL,
    created INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (tenant, key, modified)) WITHOUT ROWID;
CREATE TABLE log (position INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, revision INTEGER NOT NULL, key BLOB NOT NULL,
    change INTEGER NOT NULL, created INTEGER NOT NULL, previous INTEGER, time INTEGER NOT NULL, bytes INTEGER NOT NULL,
    value BLOB);
CREATE INDEX log_by_tenant ON log (tenant, revision);

INSERT INTO tenant VALUES (1, 0, 3, 1, NULL, NULL, NULL);
INSERT INTO directory VALUES ('first', 1, x'');
INSERT INTO tally VALUES (1, 'things', 4, 100);
INSERT INTO template VALUES (7, CAST('things' || x'00' || 'default' || x'00' || 'c0000' AS BLOB), CAST('as all' AS BLOB));
INSERT INTO current VALUES
    (1, CAST('things' || x'00' || 'default' || x'00' || 'c0000' AS BLOB), 1, 1, x'', 7),
    (1, CAST('things' || x'00' || 'default' || x'00' || 'c0001' AS BLOB), 1, 2, CAST('after' AS BLOB), NULL),
    (1, CAST('things' || x'00' || 'default' || x'00' || 'c0002' AS BLOB), 3, 3, CAST('one' AS BLOB), NULL),
    (1, CAST('things' || x'00' || 'default' || x'00' || 'c0003' AS BLOB), 3, 3, CAST('two' AS BLOB), NULL);
INSERT INTO history VALUES (1, CAST('things' || x'00' || 'default' || x'00' || 'c0001' AS BLOB), 1, 2, 1, 1);
INSERT INTO log VALUES
    (1, 1, 2, CAST('things' || x'00' || 'default' || x'00' || 'c0001' AS BLOB), 1, 1, 1, 0, 100, CAST('before' AS BLOB)),
    (2, 1, 3, CAST('things' || x'00' || 'default' || x'00' || 'c0002' AS BLOB), 0, 3, NULL, 0, 100, NULL),
    (3, 1, 3, CAST('things' || x'00' || 'default' || x'00' || 'c0003' AS BLOB), 0, 3, NULL, 0, 100, NULL);
PRAGMA application_id = 1752065906; PRAGMA user_version = 2;
";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_checksums_gets_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(schema::FILE);
    rusqlite::Connection::open(&file).unwrap().execute_batch(LAYOUT_2).unwrap();
    let names = async |store: &Embedded, at| {
        let page = store.range(TenantId(1), &kind("things"), None, at, 0).await.unwrap();
        page.entries
            .iter()
            .map(|entry| format!("{}={}", entry.key.name, text(&entry.value)))
            .collect::<Vec<_>>()
    };
    for round in 0..2 {
        let store = open(directory.path()).unwrap();
        assert_eq!(
            names(&store, None).await,
            ["c0000=as all", "c0001=after", "c0002=one", "c0003=two"],
            "{round}"
        );
        assert_eq!(names(&store, Some(Revision(1))).await, ["c0000=as all", "c0001=before"]);
        let mut watch = store.watch(TenantId(1), Scope::All, Revision(1)).await.unwrap();
        let (events, _) = until(&mut watch, Revision(3)).await;
        assert_eq!(tell(&events), ["~c0001=after (before)", "+c0002=one", "+c0003=two"]);
        store.close().await;
        drop(store);
        let report = embedded::check(directory.path()).unwrap();
        assert_eq!(report.findings, [], "{round}");
    }
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("UPDATE current SET sum = NULL WHERE modified = 2").unwrap();
    drop(connection);
    let store = open(directory.path()).unwrap();
    let error = store.get(TenantId(1), &object("things", 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "one without a checksum is damaged: {error}");
    assert!(error.to_string().contains("things \"default/c0001\""), "{error}");
    store.close().await;
}
