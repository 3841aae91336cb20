//! What is to be looked at although no change in the feed asks for it now: everything, everything in one control plane,
//! or the changes of one control plane that there was no room for.
//!
//! A scan is read page by page and only while the queue has room for what it finds. How far it has come is part of the
//! cursor, so that a restart continues it.

use std::collections::{BTreeMap, VecDeque};

use objects::CompactString;
use store::{Key, Revision};
use tokio::time::Instant;

use crate::controller::Kinds;
use crate::event::Event;
use crate::fleet::Stream;

/// What to look at, as far as that has not been done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// None is all of the fleet.
    pub control_plane: Option<CompactString>,
    /// None is all that any controller looks at.
    pub kinds: Option<Kinds>,
    /// The only controller that is told; none is all of them.
    pub controller: Option<usize>,
    /// Changes of the control plane after the first revision, up to the second. None is everything that is there.
    pub changes: Option<(Revision, Revision)>,
    /// The last object that has been looked at, with its control plane.
    pub after: Option<(CompactString, Key)>,
}

impl Scan {
    pub fn of(control_plane: CompactString) -> Scan {
        Scan { control_plane: Some(control_plane), ..Scan::default() }
    }

    /// Remembers how far it has come.
    fn reached(&mut self, event: &Event) {
        match &mut self.changes {
            // Other changes of the same revision may follow.
            Some((after, _)) => *after = (*after).max(Revision(event.revision.0.saturating_sub(1))),
            None => self.after = Some((event.control_plane.clone(), event.key.clone())),
        }
    }
}

/// The changes of a control plane from the first that there was no room for to the last that has been seen since.
struct Gap {
    /// Revision 0 if it is not known what was lost: then everything is looked at.
    from: Revision,
    to: Revision,
}

/// The scan under way.
pub(crate) struct Active {
    pub scan: Scan,
    pub found: Stream,
    looked_at: usize,
}

/// Objects that a scan looks at before others have their turn.
const TURN: usize = 2_000;

#[derive(Default)]
pub(crate) struct Scans {
    active: Option<Active>,
    waiting: VecDeque<Scan>,
    /// Control planes of which there was no room for a change, until they have done half of what they have.
    gaps: BTreeMap<CompactString, Gap>,
    /// When the next one begins after one has failed.
    again: Option<Instant>,
}

impl Scans {
    /// Forgets all of them for one of everything.
    pub fn all(&mut self) {
        *self = Scans::default();
        self.push(Scan::default());
    }

    /// One that has not begun yet finds everything.
    pub fn push(&mut self, scan: Scan) {
        if !self.waiting.contains(&scan) {
            self.waiting.push_back(scan);
        }
    }

    /// There was no room for what a change of this revision asks for (0: not known). Returns true for the first.
    pub fn lose(&mut self, control_plane: &CompactString, revision: Revision) -> bool {
        let first = !self.gaps.contains_key(control_plane);
        let gap = self.gaps.entry(control_plane.clone()).or_insert(Gap { from: revision, to: revision });
        gap.from = gap.from.min(revision);
        gap.to = gap.to.max(revision);
        first
    }

    /// Whether a change is one of those that are read again later.
    pub fn is_left_for_later(&mut self, event: &Event) -> bool {
        let left = self.gaps.contains_key(&event.control_plane);
        if left {
            self.lose(&event.control_plane, event.revision);
        }
        left
    }

    /// The control plane has room again.
    pub fn resume(&mut self, control_plane: &CompactString) {
        if let Some(gap) = self.gaps.remove(control_plane) {
            self.push(gap.scan(control_plane));
        }
    }

    pub fn is_active(&self) -> bool {
        self.active.is_some()
    }

    pub fn again(&self) -> Option<Instant> {
        self.again
    }

    /// The next one to begin, if it is time for one.
    pub fn next(&mut self, now: Instant) -> Option<Scan> {
        if self.active.is_some() || self.again.is_some_and(|at| at > now) {
            return None;
        }
        self.again = None;
        self.waiting.pop_front()
    }

    pub fn begin(&mut self, scan: Scan, found: Stream) {
        self.active = Some(Active { scan, found, looked_at: 0 });
    }

    pub fn active(&mut self) -> Option<&mut Active> {
        self.active.as_mut()
    }

    /// The control plane that the one under way is of, if it is of one.
    pub fn control_plane(&self) -> Option<&CompactString> {
        self.active.as_ref()?.scan.control_plane.as_ref()
    }

    /// What it found has been passed on. After some time others have their turn.
    pub fn looked_at(&mut self, event: &Event) {
        let Some(active) = &mut self.active else { return };
        active.scan.reached(event);
        active.looked_at += 1;
        if active.looked_at >= TURN
            && !self.waiting.is_empty()
            && let Some(active) = self.active.take()
        {
            self.waiting.push_back(active.scan);
        }
    }

    /// The one under way came to its end.
    pub fn done(&mut self) {
        self.active = None;
    }

    /// The one under way broke off and is continued later.
    pub fn failed(&mut self, again: Instant) {
        self.waiting.extend(self.active.take().map(|active| active.scan));
        self.again = Some(again);
    }

    /// The changes that the one under way is of are no longer known: everything in the control plane is looked at.
    pub fn expired(&mut self) {
        if let Some(Active { scan, .. }) = self.active.take() {
            self.push(Scan { changes: None, after: None, ..scan });
        }
    }

    /// All that is left to be looked at.
    pub fn pending(&self) -> impl Iterator<Item = Scan> {
        let begun = self.active.iter().map(|active| &active.scan).chain(&self.waiting).cloned();
        begun.chain(self.gaps.iter().map(|(control_plane, gap)| gap.scan(control_plane)))
    }
}

impl Gap {
    fn scan(&self, control_plane: &CompactString) -> Scan {
        let changes = self.from.0.checked_sub(1).map(|before| (Revision(before), self.to));
        Scan { changes, ..Scan::of(control_plane.clone()) }
    }
}
