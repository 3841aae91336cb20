//! Reads what a selection is about, a slice at a time, as of one revision.
//!
//! Between two slices nothing is held of the store, so that a slow reader delays nobody. If compaction passes the
//! revision in between, the next slice fails.

use std::sync::Arc;

use bytes::Bytes;
use store::{Entry, Filter, Key, Limit, Revision, Search, StoreError};

use crate::call::Call;
use crate::codec::Stored;
use crate::read;
use crate::service::Failure;
use crate::stations::fairness::{HEAVY, Reservation};
use crate::surface::Row;
use crate::verbs::selection::Selection;

/// Bytes of values in the first page: most collections end with it.
const FIRST: usize = HEAVY;
/// Bytes of values in every further page. The last entry may exceed it.
pub const SLICE: usize = 128 << 10;
/// Entries read in one go. Small objects take several times their bytes.
const MAX_ENTRIES: usize = 1_000;
/// Entries looked at in one go where they lie: for the first page, and for every further one.
const FIRST_LOOKED_AT: usize = 500;
const MAX_LOOKED_AT: usize = 4_000;

/// A place in a collection, and what has been found on the way there.
#[derive(Clone)]
pub struct Scan {
    selection: Arc<Selection>,
    /// None until the first page has been read, if any revision will do.
    at: Option<Revision>,
    after: Option<Key>,
    /// Where the client asked to go on.
    began: Option<Key>,
    filter: Option<Filter>,
    pages: usize,
    found: usize,
    wanted: usize,
    /// Entries of the scope from where the scan began.
    total: Option<u64>,
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    /// Everything has been seen.
    Whole,
    /// As much as was wanted has been found, and there is more after this key.
    Limited(Key),
}

/// An object that is selected.
pub type Found = (Key, Stored);

/// Where a scan goes on that has found as much as was wanted.
pub struct Rest {
    pub after: Key,
    /// How many objects there are, where that is known.
    pub remaining: Option<u64>,
}

impl Scan {
    /// `wanted` is how many objects are to be found at most.
    pub fn new(
        row: &Arc<Row>,
        selection: Arc<Selection>,
        at: Option<Revision>,
        after: Option<Key>,
        wanted: Option<usize>,
    ) -> Self {
        let wanted = wanted.unwrap_or(usize::MAX);
        let (began, filter) = (after.clone(), selection.clone().filter(row));
        Scan { selection, at, after, began, filter, pages: 0, found: 0, wanted, total: None, end: None }
    }

    /// The revision that all slices belong to; known once the first has been read.
    pub fn revision(&self) -> Revision {
        self.at.unwrap_or_default()
    }

    /// The key after which the scan began.
    pub fn began_after(&self) -> Option<&Key> {
        self.began.as_ref()
    }

    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Where to go on, once the scan is over; none if there is nothing more.
    pub fn rest(&self) -> Option<Rest> {
        let Some(End::Limited(after)) = &self.end else { return None };
        let remaining = self.total.filter(|_| self.selection.is_everything());
        let remaining = remaining.map(|total| total.saturating_sub(self.found as u64));
        Some(Rest { after: after.clone(), remaining })
    }

    /// The next objects, in their order. There may be none before the scan is over.
    pub async fn next(&mut self, call: &Call) -> Result<Vec<Found>, ScanError> {
        if self.is_over() {
            return Ok(Vec::new());
        }
        if self.pages > 0 {
            call.engine.fairness.slice(call.plane.id).await?;
        }
        let Search { page, looked_at } = self.search(call).await?;
        if self.pages == 0 && self.after.is_none() {
            self.total = page.remaining.map(|remaining| remaining + page.entries.len() as u64);
        }
        self.pages += 1;
        self.at = Some(page.revision);
        if self.pages == 1 && page.bytes() >= HEAVY {
            call.engine.fairness.slice(call.plane.id).await?;
        }
        let found = self.select(call, page.entries, page.more).await?;
        self.after = looked_at.or(self.after.take());
        if !page.more && self.end.is_none() {
            self.end = Some(End::Whole);
        }
        Ok(found)
    }

    async fn search(&self, call: &Call) -> Result<Search, StoreError> {
        let (store, tenant, scope) = (&call.engine.store, call.plane.id, &self.selection.scope);
        let after = self.after.as_ref();
        let left = self.wanted - self.found;
        let entries = if self.selection.is_everything() { left.min(MAX_ENTRIES) } else { MAX_ENTRIES };
        let bytes = if self.pages == 0 { FIRST } else { SLICE };
        if let Some(filter) = &self.filter {
            let entries = if self.pages == 0 { FIRST_LOOKED_AT } else { MAX_LOOKED_AT };
            let limit = Limit { entries, bytes };
            return store.search(tenant, scope, after, self.at, limit, filter).await;
        }
        let page = store.range_within(tenant, scope, after, self.at, Limit { entries, bytes }).await?;
        let looked_at = page.entries.last().map(|entry| entry.key.clone());
        Ok(Search { page, looked_at })
    }

    /// Those entries of a page that are selected, up to the number wanted.
    async fn select(&mut self, call: &Call, entries: Vec<Entry>, more: bool) -> Result<Vec<Found>, Failure> {
        let selection = self.selection.clone();
        let mut candidates = Vec::with_capacity(entries.len());
        let count = entries.len();
        for (place, entry) in entries.into_iter().enumerate() {
            let decided = selection.by_key(&entry.key);
            if decided != Some(false) {
                let stored = read::stored(call, &entry)?;
                candidates.push((place, entry.key, stored, decided.is_some()));
            }
        }
        // Those that have to be converted first are converted together.
        let is_outdated = |stored: &Stored, decided: bool| {
            !decided && selection.needs_version() && !read::is_current(&call.row, stored)
        };
        let outdated = candidates.iter().filter(|(.., stored, decided)| is_outdated(stored, *decided));
        let outdated = outdated.map(|(_, _, stored, _)| stored);
        let mut converted = read::all_in_version(call, &call.row, outdated).await?.into_iter();

        let mut found = Vec::new();
        for (place, key, stored, decided) in candidates {
            let selected = if decided {
                true
            } else if is_outdated(&stored, decided) {
                selection.matches_value(&call.row, &converted.next().unwrap_or_default())
            } else {
                selection.matches(&call.row, stored.raw()).map_err(read::no_json)?
            };
            if !selected {
                continue;
            }
            self.found += 1;
            if self.found >= self.wanted && (place + 1 < count || more) {
                self.end = Some(End::Limited(key.clone()));
            }
            found.push((key, stored));
            if self.end.is_some() {
                break;
            }
        }
        Ok(found)
    }
}

/// Why a slice cannot be read.
pub enum ScanError {
    Store(StoreError),
    Other(Failure),
}

impl From<StoreError> for ScanError {
    fn from(error: StoreError) -> Self {
        ScanError::Store(error)
    }
}

impl From<Failure> for ScanError {
    fn from(failure: Failure) -> Self {
        ScanError::Other(failure)
    }
}

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Store(error) => error.into(),
            ScanError::Other(failure) => failure,
        }
    }
}

/// Bytes that are counted until the connection has sent them.
pub fn counted(holder: &mut Reservation, bytes: Bytes) -> Bytes {
    let mut reservation = holder.split(0);
    reservation.force(bytes.len());
    reservation.guard(bytes)
}
