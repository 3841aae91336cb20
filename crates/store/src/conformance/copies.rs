//! Forks, exports and imports.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use super::{Fixture, Harness, all, named, next_events, put, put_if, tell, things, until};
use crate::{Entry, Expect, Export, Revision, Scope, StoreError, TenantId};

/// Enough that an engine that copies in steps needs several.
const MANY: usize = 1300;

async fn filled(f: &Fixture) -> Vec<Entry> {
    f.write((0..MANY).map(|index| put(&format!("{index:05}"), &format!("value {index}"))).collect()).await;
    all(&f.store, f.tenant, None).await
}

async fn fork(f: &Fixture, at: Option<Revision>, name: &str) -> Fixture {
    let made = f.store.fork_tenant(f.tenant, at, name, Bytes::from("record")).await.unwrap();
    assert_eq!((made.name.as_str(), &made.record[..]), (name, &b"record"[..]));
    Fixture { store: f.store.clone(), tenant: made.id }
}

async fn everything(f: &Fixture) -> Vec<Entry> {
    let entries = all(&f.store, f.tenant, None).await;
    assert_eq!(f.store.count(f.tenant, &Scope::All).await.unwrap(), entries.len() as u64);
    assert_eq!(f.store.count(f.tenant, &things()).await.unwrap(), entries.len() as u64);
    let namespace = Scope::Namespace("things".into(), "ns".into());
    assert_eq!(f.store.count(f.tenant, &namespace).await.unwrap(), entries.len() as u64);
    for entry in entries.iter().step_by(97) {
        assert_eq!(f.store.get(f.tenant, &entry.key).await.unwrap().as_ref(), Some(entry));
    }
    entries
}

/// A fork has what its source had, and its revision is the source's, or beyond it where copies are numbered anew.
async fn is_copy(harness: &impl Harness, fork: &Fixture, source: &[Entry], at: Revision) {
    let (entries, revision) = (everything(fork).await, fork.revision().await);
    if harness.forks_keep_revisions() {
        assert_eq!((&entries[..], revision), (source, at));
    } else {
        assert_eq!(values(&entries), values(source));
        assert!(revision >= at);
        assert!(entries.iter().all(|entry| entry.created <= entry.modified && entry.modified <= revision));
    }
}

pub async fn a_fork_is_equal_and_separate(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let g = fork(&f, None, "fork").await;
    is_copy(&*harness, &g, &source, f.revision().await).await;
    // Both go their way at once, while the copy may still be under way: change, delete, make, compare.
    let g = fork(&f, None, "second").await;
    let old = everything(&g).await[MANY - 1].modified;
    let changed = [
        put_if("01299", Expect::Modified(old), "changed"),
        crate::Operation::Delete { key: super::key("01298"), expect: Expect::Present },
        put_if("new", Expect::Absent, "made"),
    ];
    let at_fork = g.revision().await;
    let after = g.write(changed.to_vec()).await;
    f.put("00000", "only in the source").await;
    f.delete("00001").await;
    assert!(after > at_fork);
    for _ in 0..3 {
        assert_eq!(g.store.get(g.tenant, &super::key("01298")).await.unwrap(), None);
        let entries = everything(&g).await;
        assert_eq!(entries.len(), MANY);
        let mut expected = named(&source);
        expected.retain(|(name, _)| name != "01298");
        expected[MANY - 2].1 = "changed".into();
        expected.push(("new".into(), "made".into()));
        assert_eq!(named(&entries), expected);
        assert_eq!(g.things_at(Some(at_fork)).await, named(&source));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(f.things().await.len(), MANY - 1);
    assert_eq!(f.store.get(f.tenant, &super::key("new")).await.unwrap(), None);
}

pub async fn a_fork_of_the_past(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let then = f.revision().await;
    f.write((0..MANY).step_by(2).map(|index| put(&format!("{index:05}"), "later")).collect()).await;
    f.delete("00003").await;
    f.put("new", "later").await;
    let g = fork(&f, Some(then), "fork").await;
    is_copy(&*harness, &g, &source, then).await;
    let before = g.store.range(g.tenant, &Scope::All, None, Some(Revision(then.0 - 1)), 0).await;
    assert!(matches!(before, Err(StoreError::Compacted { .. })), "{before:?}");
    f.store.delete_tenant(f.tenant).await.unwrap();
    is_copy(&*harness, &g, &source, then).await;
}

pub async fn a_fork_of_a_fork(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    filled(&f).await;
    let g = fork(&f, None, "child").await;
    g.put("00000", "child's").await;
    g.delete("00001").await;
    let h = fork(&g, None, "grandchild").await;
    let (expected, at) = (everything(&g).await, g.revision().await);
    is_copy(&*harness, &h, &expected, at).await;
    g.store.delete_tenant(g.tenant).await.unwrap();
    f.store.delete_tenant(f.tenant).await.unwrap();
    is_copy(&*harness, &h, &expected, at).await;
    assert_eq!(expected.len(), MANY - 1);
}

pub async fn a_fork_outlives_its_source(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let g = fork(&f, None, "fork").await;
    let at = f.revision().await;
    f.store.delete_tenant(f.tenant).await.unwrap();
    is_copy(&*harness, &g, &source, at).await;
    let g = g.reopen(&*harness).await;
    is_copy(&*harness, &g, &source, at).await;
}

pub async fn a_fork_is_whole_after_reopening(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let fork = fork(&f, None, "fork").await.tenant;
    let at = f.revision().await;
    f.write((0..MANY).map(|index| put(&format!("{index:05}"), "later")).collect()).await;
    let mut g = Fixture { store: f.store, tenant: fork };
    for _ in 0..3 {
        g = g.reopen(&*harness).await;
        is_copy(&*harness, &g, &source, at).await;
    }
}

pub async fn a_fork_can_be_watched(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    filled(&f).await;
    let g = fork(&f, None, "fork").await;
    let mut watch = g.watch(things(), g.revision().await).await;
    g.put("00500", "changed").await;
    g.delete("00501").await;
    f.put("00500", "not here").await;
    assert_eq!(tell(&next_events(&mut watch, 2).await), ["~00500=changed (value 500)", "-00501=value 501"]);
    let early = g.store.watch(g.tenant, things(), Revision(0)).await;
    assert!(matches!(early.err(), Some(StoreError::Compacted { .. })));
}

/// An import has other revisions, and the same keys and values.
fn values(entries: &[Entry]) -> Vec<(crate::Key, Bytes)> {
    entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
}

pub(super) async fn bytes_of(mut export: Export) -> Bytes {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = export.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    bytes.freeze()
}

fn stream_of(bytes: Bytes) -> Export {
    let chunks: Vec<_> = bytes.chunks(10_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    futures::stream::iter(chunks).boxed()
}

async fn export(f: &Fixture, tenant: TenantId, at: Option<Revision>) -> Bytes {
    bytes_of(f.store.export_tenant(tenant, at).await.unwrap()).await
}

pub async fn an_export_comes_back(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let bytes = export(&f, f.tenant, None).await;
    let made = f.store.import_tenant("copy", Bytes::from("record"), stream_of(bytes.clone())).await.unwrap();
    assert_eq!(f.store.tenant("copy").await.unwrap(), Some(made.clone()));
    let g = Fixture { store: f.store.clone(), tenant: made.id };
    assert_eq!(values(&everything(&g).await), values(&source));
    let start = g.revision().await;
    assert!(start > f.revision().await, "an import must be beyond what was served");
    assert!(g.store.watch(g.tenant, things(), f.revision().await).await.is_err());
    let mut watch = g.watch(things(), start).await;
    g.put("00000", "x").await;
    assert_eq!(tell(&next_events(&mut watch, 1).await), ["~00000=x (value 0)"]);
    let g = g.reopen(&*harness).await;
    assert_eq!(everything(&g).await.len(), MANY);
    // An empty tenant is one, too.
    let empty = super::tenant(&g.store, "empty").await;
    let bytes = export(&g, empty, None).await;
    let made = g.store.import_tenant("empty copy", Bytes::new(), stream_of(bytes)).await.unwrap();
    assert_eq!(all(&g.store, made.id, None).await, []);
}

pub async fn an_export_is_of_one_moment(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let source = filled(&f).await;
    let then = f.revision().await;
    let mut stream = f.store.export_tenant(f.tenant, None).await.unwrap();
    let mut bytes = BytesMut::new();
    let mut round = 0;
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
        round += 1;
        let puts = (0..MANY).step_by(round).map(|index| put(&format!("{index:05}"), "later"));
        f.write(puts.collect()).await;
        f.delete(&format!("{:05}", MANY - round)).await;
    }
    for (name, bytes) in [("copy", bytes.freeze()), ("later", export(&f, f.tenant, Some(then)).await)] {
        let made = f.store.import_tenant(name, Bytes::new(), stream_of(bytes)).await.unwrap();
        assert_eq!(values(&all(&f.store, made.id, None).await), values(&source), "{name}");
        assert!(f.store.revision(made.id).await.unwrap() > then);
    }
}

pub async fn damaged_exports_make_nothing(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    filled(&f).await;
    let whole = export(&f, f.tenant, None).await;
    let flipped = |at: usize| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    let damaged = [
        ("nothing", Bytes::new()),
        ("half", whole.slice(..whole.len() / 2)),
        ("all but the last byte", whole.slice(..whole.len() - 1)),
        ("another magic", flipped(0)),
        ("another version", flipped(11)),
        ("a changed value", flipped(whole.len() / 2)),
        ("a changed checksum", flipped(whole.len() - 1)),
        ("something else", Bytes::from_static(b"{\"kind\":\"List\"}, and some more of this text")),
    ];
    for (what, bytes) in damaged {
        let refused = f.store.import_tenant("copy", Bytes::new(), stream_of(bytes)).await;
        assert!(matches!(refused, Err(StoreError::BadExport(_))), "{what}: {refused:?}");
        assert_eq!(f.store.tenant("copy").await.unwrap(), None, "{what}");
    }
    let broken =
        futures::stream::iter([Ok(whole.slice(..1000)), Err(StoreError::Unavailable("cut".into()))]).boxed();
    assert!(matches!(
        f.store.import_tenant("copy", Bytes::new(), broken).await,
        Err(StoreError::Unavailable(_))
    ));
    let f = f.reopen(&*harness).await;
    assert_eq!(f.store.tenants(None, 10).await.unwrap().len(), 1);
    f.store.import_tenant("copy", Bytes::new(), stream_of(whole)).await.unwrap();
}

pub async fn names_of_copies_must_be_free(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let revision = f.put("a", "1").await;
    let bytes = export(&f, f.tenant, None).await;
    let refused = f.store.import_tenant("first", Bytes::new(), stream_of(bytes)).await;
    assert!(matches!(refused, Err(StoreError::TenantExists { .. })), "{refused:?}");
    let refused = f.store.fork_tenant(f.tenant, None, "first", Bytes::new()).await;
    assert!(matches!(refused, Err(StoreError::TenantExists { .. })), "{refused:?}");
    let mut watch = f.watch(things(), revision).await;
    let (events, _) = until(&mut watch, revision).await;
    assert_eq!(tell(&events), Vec::<String>::new());
}

/// Only for engines that keep times.
pub async fn a_moment_has_its_revision(harness: Arc<impl Harness>) {
    let f = Fixture::new(&*harness).await;
    let moment = async || {
        // Clocks count in steps, and an engine may have a clock of its own.
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        let now = std::time::SystemTime::now();
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        now
    };
    let mut seen = vec![(moment().await, f.revision().await)];
    for value in ["one", "two", "three"] {
        f.put("a", value).await;
        f.put("b", value).await;
        seen.push((moment().await, f.revision().await));
    }
    if f.store.revision_at(f.tenant, seen[0].0).await.unwrap().is_none() {
        return;
    }
    for (moment, revision) in &seen {
        assert_eq!(f.store.revision_at(f.tenant, *moment).await.unwrap(), Some(*revision));
    }
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    assert_eq!(f.store.revision_at(f.tenant, later).await.unwrap(), Some(f.revision().await));
    let early = f.store.revision_at(f.tenant, std::time::UNIX_EPOCH).await;
    // Before its beginning there was nothing, or the beginning.
    assert!(
        early.as_ref().map_or_else(
            |error| matches!(error, StoreError::Compacted { .. }),
            |found| *found <= Some(seen[0].1)
        ),
        "{early:?}"
    );
    let nobody = f.store.revision_at(TenantId(u64::MAX >> 1), seen[0].0).await;
    assert!(matches!(nobody, Err(StoreError::NoTenant)), "{nobody:?}");
    // What is read at such a revision is what was there then.
    let (past, revision) = seen[1];
    let at = f.store.revision_at(f.tenant, past).await.unwrap();
    assert_eq!(at, Some(revision));
    let g = fork(&f, at, "past").await;
    assert_eq!(g.store.get(g.tenant, &super::key("a")).await.unwrap().unwrap().value, "one");
}
