//! The entries of one type of one tenant, as of one revision.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;

use super::room::{Room, Share};
use crate::{Change, Entry, Event, Key, Limit, Page, Revision, Scope, Search};

/// What an entry takes beside its bytes, about: the key's parts, revisions, its place in the tree.
const OVERHEAD: usize = 200;

type Place = (CompactString, CompactString);

struct Kept {
    created: Revision,
    modified: Revision,
    value: Bytes,
}

/// A range of a shelf, as it is asked for.
pub(super) struct Asked<'a> {
    pub scope: &'a Scope,
    pub after: Option<&'a Key>,
    pub limit: Limit,
}

pub(super) struct Shelf {
    kind: CompactString,
    entries: BTreeMap<Place, Kept>,
    /// What the shelf was filled with is of this revision.
    filled: Revision,
    /// The last revision since then that changed something here.
    changed: Revision,
    share: Share,
}

impl Shelf {
    pub(super) fn new(kind: CompactString, room: Arc<Room>) -> Shelf {
        let (entries, share) = (BTreeMap::new(), Share::new(room));
        Shelf { kind, entries, filled: Revision(0), changed: Revision(0), share }
    }

    pub(super) fn bytes(&self) -> usize {
        self.share.bytes()
    }

    pub(super) fn filled_at(&mut self, revision: Revision) {
        self.filled = revision;
    }

    /// The revision that this shows, when all changes up to `reached` have been applied.
    pub(super) fn shows(&self, reached: Revision) -> Revision {
        reached.max(self.filled)
    }

    /// Whether what stands here is what stood here at a revision of the past.
    pub(super) fn showed(&self, past: Revision) -> bool {
        past >= self.filled.max(self.changed)
    }

    pub(super) fn put(&mut self, key: &Key, created: Revision, modified: Revision, value: &[u8]) {
        self.remove(key);
        self.share.add(weight(key, value.len()));
        // A copy of its own: the one that came may be a part of something larger, and keep all of it.
        let kept = Kept { created, modified, value: Bytes::copy_from_slice(value) };
        self.entries.insert(place(key), kept);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.entries.remove(&place(key)) {
            self.share.remove(weight(key, kept.value.len()));
        }
    }

    /// Takes a change, unless what was read when the shelf was filled has it already.
    pub(super) fn apply(&mut self, event: &Event) {
        if event.revision <= self.filled || event.key.kind != self.kind {
            return;
        }
        match event.change {
            Change::Created | Change::Updated => {
                self.put(&event.key, event.created, event.revision, &event.value);
            }
            Change::Deleted => self.remove(&event.key),
        }
        self.changed = event.revision;
    }

    pub(super) fn get(&self, key: &Key) -> Option<Entry> {
        let (place, kept) = self.entries.get_key_value(&place(key))?;
        Some(self.entry(place, kept))
    }

    pub(super) fn count(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::All | Scope::Kind(_) => self.entries.len() as u64,
            Scope::Namespace(..) | Scope::One(_) => self.within(scope, None).count() as u64,
        }
    }

    /// The page as of `revision`, which the caller knows to be what stands here.
    pub(super) fn page(&self, asked: &Asked<'_>, revision: Revision) -> Page {
        self.search(asked, revision, &|_| true).page
    }

    /// The same of those values that the filter wants.
    pub(super) fn search(
        &self,
        asked: &Asked<'_>,
        revision: Revision,
        filter: &dyn Fn(&[u8]) -> bool,
    ) -> Search {
        let unlimited = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let (most, most_bytes) = (unlimited(asked.limit.entries), unlimited(asked.limit.bytes));
        let mut found = self.within(asked.scope, asked.after);
        let (mut entries, mut looked_at, mut last, mut bytes) = (Vec::new(), 0, None, 0);
        while looked_at < most && bytes < most_bytes {
            let Some((place, kept)) = found.next() else { break };
            (looked_at, last) = (looked_at + 1, Some(place));
            if filter(&kept.value) {
                bytes += kept.value.len();
                entries.push(self.entry(place, kept));
            }
        }
        let more = found.next().is_some();
        let remaining = match asked.scope {
            _ if !more => Some(0),
            Scope::Kind(_) if asked.after.is_none() => Some((self.entries.len() - looked_at) as u64),
            // It would have to be counted, again with every page.
            _ => None,
        };
        let looked_at =
            last.map(|(namespace, name)| Key::new(self.kind.clone(), namespace.clone(), name.clone()));
        Search { page: Page { revision, entries, more, remaining }, looked_at }
    }

    fn entry(&self, (namespace, name): &Place, kept: &Kept) -> Entry {
        Entry {
            key: Key::new(self.kind.clone(), namespace.clone(), name.clone()),
            created: kept.created,
            modified: kept.modified,
            value: kept.value.clone(),
        }
    }

    /// What a scope has of this type, after a key of any type.
    fn within<'s>(
        &'s self,
        scope: &'s Scope,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'s Place, &'s Kept)> {
        let first = match scope {
            Scope::All | Scope::Kind(_) => Bound::Unbounded,
            Scope::Namespace(_, namespace) => Bound::Included((namespace.clone(), CompactString::default())),
            Scope::One(key) => Bound::Included(place(key)),
        };
        let passed = after.is_some_and(|after| after.kind > self.kind);
        let after = after.filter(|after| after.kind == self.kind).map(place);
        let start = match (first, after) {
            (Bound::Included(first), Some(after)) if after < first => Bound::Included(first),
            (_, Some(after)) => Bound::Excluded(after),
            (first, None) => first,
        };
        self.entries.range((start, Bound::Unbounded)).take_while(move |((namespace, name), _)| match scope {
            _ if passed => false,
            Scope::All | Scope::Kind(_) => true,
            Scope::Namespace(_, wanted) => namespace == wanted,
            Scope::One(key) => *namespace == key.namespace && *name == key.name,
        })
    }
}

fn place(key: &Key) -> Place {
    (key.namespace.clone(), key.name.clone())
}

pub(super) fn weight(key: &Key, value: usize) -> usize {
    key.namespace.len() + key.name.len() + value + OVERHEAD
}
