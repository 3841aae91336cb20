//! What every engine must pass. An engine's crate writes a [`Harness`] and `store::conformance!(MyHarness::new())`,
//! which makes one test of each case.
//!
//! Cases speak of what the interface promises and nothing else: not of how revisions are numbered (an engine may
//! share one counter between tenants), nor of when compaction happens by itself.

// A suite of tests in a library: like any test, it says where it failed by failing there.
#![allow(clippy::unwrap_used)]

pub mod compaction;
pub mod copies;
pub mod feeds;
pub mod fences;
pub mod model;
pub mod ranges;
pub mod tenants;
pub mod watches;
pub mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use crate::cached::{self, Cached};
use crate::{
    Change, Delivery, Entry, Event, Expect, Key, Operation, Revision, Scope, Store, TenantId, Watch,
    WatchError,
};

/// An engine's place to store, made empty for each case.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Opens the store. Called again only after [`Store::close`] was called on the one before.
    async fn open(&self) -> Arc<dyn Store>;

    /// A second way in to the same store beside an open one, for engines that allow it.
    async fn second(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Whether a fork has the revisions of its source. An engine whose revisions are not its own to give numbers a
    /// copy anew, beyond the source.
    fn forks_keep_revisions(&self) -> bool {
        true
    }

    /// Sizes of values that are more than the engine takes. (Nothing is copied before it is refused by most.)
    fn too_large(&self) -> Vec<usize> {
        vec![(256 << 20) + 1]
    }

    /// Whether a feed goes on at a position of before the store was opened. If not, what was to come then is said to be
    /// compacted.
    fn feeds_outlive_the_store(&self) -> bool {
        true
    }
}

/// An engine whose reads are answered from memory wherever they can be.
pub struct FromMemory<H>(pub H);

#[async_trait]
impl<H: Harness> Harness for FromMemory<H> {
    async fn open(&self) -> Arc<dyn Store> {
        // Copies at the first read, and waits for the copy however slow the machine is.
        let options = cached::Options { passes: 0, patience: Duration::from_secs(20), ..Default::default() };
        Arc::new(Cached::new(self.0.open().await, options))
    }

    async fn second(&self) -> Option<Arc<dyn Store>> {
        Some(self.open().await)
    }

    fn forks_keep_revisions(&self) -> bool {
        self.0.forks_keep_revisions()
    }

    fn too_large(&self) -> Vec<usize> {
        self.0.too_large()
    }

    fn feeds_outlive_the_store(&self) -> bool {
        self.0.feeds_outlive_the_store()
    }
}

/// Runs one case, on a runtime of several threads.
pub fn run<H, F>(harness: H, case: impl FnOnce(Arc<H>) -> F)
where
    H: Harness,
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap_or_else(|error| panic!("no runtime: {error}"));
    runtime.block_on(async {
        // A watch that never delivers must fail its case, not hang the run.
        let case = tokio::time::timeout(Duration::from_secs(120), case(Arc::new(harness)));
        assert!(case.await.is_ok(), "the case did not end in time");
    });
}

/// One `#[test]` per case, each on a harness of its own.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::conformance!(@each $harness;
            writes::{
                expectations_hold_or_nothing_happens, a_transaction_is_all_or_nothing,
                checks_alone_take_no_revision, what_cannot_be_written_is_refused, what_is_too_large_is_told,
                values_come_back_as_they_were,
                compare_and_write_is_linearizable, snapshots_never_show_half_a_transaction, unknown_tenants_are_told,
                writes_survive_reopening, two_handles_are_one_store,
            }
            ranges::{
                scopes_and_order, pages_hold_a_limited_number_of_bytes, searches_find_what_the_filter_wants, pages_are_pinned_while_writes_go_on, every_revision_can_be_read,
                the_future_cannot_be_read, counts_follow_writes, what_was_acknowledged_is_seen_at_once,
            }
            watches::{
                every_transition_is_told, begins_where_asked, scopes_see_what_they_contain,
                a_transaction_is_told_in_order, nothing_is_lost_or_doubled_under_concurrent_writers,
                a_slow_watch_reads_on, resumes_after_reopening, progress_is_told, ends_with_its_tenant,
                ends_with_its_store, the_future_cannot_be_watched, many_watches_of_one_type,
            }
            feeds::{
                carries_all_tenants_in_order, begins_now_unless_told, own_types_are_named_or_unseen,
                resumes_from_a_position_after_reopening, survives_deleted_tenants, loses_nothing_under_load,
            }
            tenants::{
                are_made_listed_and_removed, begin_with_their_entries, names_are_won_once,
                a_new_one_under_an_old_name_is_another, cannot_see_each_other, records_change,
                removal_continues_after_reopening,
            }
            copies::{
                a_fork_is_equal_and_separate, a_fork_of_the_past, a_fork_of_a_fork, a_fork_outlives_its_source,
                a_fork_is_whole_after_reopening, a_fork_can_be_watched, an_export_comes_back,
                an_export_is_of_one_moment, damaged_exports_make_nothing, names_of_copies_must_be_free,
                a_moment_has_its_revision,
            }
            fences::{
                a_fence_that_stands_stops_nothing, a_fence_that_fell_stops_everything,
                nothing_lands_once_a_fence_was_taken, what_takes_long_is_judged_when_it_would_be_seen,
            }
            compaction::{
                keeps_what_is, refuses_what_it_dropped, under_load_watches_are_whole_or_cut, by_size,
            }
        );

        #[test]
        fn model() {
            $crate::conformance::model::check(|| $harness);
        }
    };
    (@each $harness:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::run($harness, $crate::conformance::$module::$case);
            }
        )*)*
    };
}

// The words the cases are written in.

/// A store with one tenant.
pub(crate) struct Fixture {
    pub store: Arc<dyn Store>,
    pub tenant: TenantId,
}

impl Fixture {
    pub(crate) async fn new(harness: &impl Harness) -> Fixture {
        let store = harness.open().await;
        let tenant = tenant(&store, "first").await;
        Fixture { store, tenant }
    }

    pub(crate) async fn reopen(self, harness: &impl Harness) -> Fixture {
        self.store.close().await;
        drop(self.store);
        Fixture { store: harness.open().await, tenant: self.tenant }
    }

    pub(crate) async fn put(&self, name: &str, value: &str) -> Revision {
        self.write(vec![put(name, value)]).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Revision {
        self.write(vec![Operation::Delete { key: key(name), expect: Expect::Any }]).await
    }

    pub(crate) async fn write(&self, operations: Vec<Operation>) -> Revision {
        self.store.write(self.tenant, operations).await.unwrap()
    }

    pub(crate) async fn revision(&self) -> Revision {
        self.store.revision(self.tenant).await.unwrap()
    }

    pub(crate) async fn watch(&self, scope: Scope, from: Revision) -> Watch {
        self.store.watch(self.tenant, scope, from).await.unwrap()
    }

    /// Names and values of all things now.
    pub(crate) async fn things(&self) -> Vec<(String, String)> {
        self.things_at(None).await
    }

    pub(crate) async fn things_at(&self, at: Option<Revision>) -> Vec<(String, String)> {
        named(&self.store.range(self.tenant, &things(), None, at, 0).await.unwrap().entries)
    }
}

pub(crate) async fn tenant(store: &Arc<dyn Store>, name: &str) -> TenantId {
    store.create_tenant(name, Bytes::new(), vec![]).await.unwrap().id
}

pub(crate) async fn all(store: &Arc<dyn Store>, tenant: TenantId, at: Option<Revision>) -> Vec<Entry> {
    store.range(tenant, &Scope::All, None, at, 0).await.unwrap().entries
}

pub(crate) fn named(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.key.name.to_string(), text(&entry.value))).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("things", "ns", name)
}

pub(crate) fn things() -> Scope {
    Scope::Kind("things".into())
}

pub(crate) fn put(name: &str, value: &str) -> Operation {
    put_if(name, Expect::Any, value)
}

pub(crate) fn put_if(name: &str, expect: Expect, value: &str) -> Operation {
    Operation::Put { key: key(name), expect, value: Bytes::copy_from_slice(value.as_bytes()) }
}

pub(crate) fn put_key(key: Key, value: &str) -> Operation {
    Operation::Put { key, expect: Expect::Any, value: Bytes::copy_from_slice(value.as_bytes()) }
}

/// A change in a line: `+a=1`, `~a=2 (1)`, `-a=2`.
pub(crate) fn told(event: &Event) -> String {
    let value = text(&event.value);
    match event.change {
        Change::Created => format!("+{}={value}", event.key.name),
        Change::Updated => {
            format!("~{}={value} ({})", event.key.name, text(event.previous.as_deref().unwrap_or(b"?")))
        }
        Change::Deleted => format!("-{}={value}", event.key.name),
    }
}

/// The next events of a watch, as many as asked for.
pub(crate) async fn next_events(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => events.push(event),
            Some(Ok(Delivery::Progress(_))) => {}
            other => panic!("after {} of {count} events: {other:?}", events.len()),
        }
    }
    events
}

/// The events of a watch until it tells that it is at `revision` or beyond, or ends.
pub(crate) async fn until(watch: &mut Watch, revision: Revision) -> (Vec<Arc<Event>>, Option<WatchError>) {
    let mut events: Vec<Arc<Event>> = Vec::new();
    loop {
        match watch.next().await {
            Some(Ok(Delivery::Event(event))) => {
                // Every event of a transaction has its revision, so the last may have brothers: only progress ends.
                events.push(event);
            }
            Some(Ok(Delivery::Progress(at))) if at >= revision => return (events, None),
            Some(Ok(Delivery::Progress(_))) => {}
            Some(Err(error)) => return (events, Some(error)),
            None => panic!("a watch ended without a word"),
        }
    }
}

pub(crate) fn tell(events: &[Arc<Event>]) -> Vec<String> {
    events.iter().map(|event| told(event)).collect()
}
