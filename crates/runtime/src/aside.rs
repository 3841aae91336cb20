//! Reconciles that wait for something slow and foreign, such as a cloud: they give their worker to others.
//!
//! A worker is held for the first moment of a call, which is all that most calls take. Then the reconcile steps aside
//! until the answer is there. How many may stand aside is bounded three times: behind one account, in one control
//! plane, and at all. Who would be one too many is told so before it begins ([`Place::is_crowded`]), and comes later:
//! who has begun is let aside, so that nothing that hangs keeps a worker.
//!
//! **Invariants:** a key that stands aside is still taken, so nothing is worked on twice; nothing is kept of a control
//! plane that has nobody aside; who stands aside steps back before it ends, however it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use objects::CompactString;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::queue::Item;

/// How long a call has a worker to itself. Calls of a cloud that is well mostly end sooner, and cost nothing then.
const AT_ONCE: Duration = Duration::from_millis(500);

/// How many reconciles may stand aside.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Behind one thing in one control plane, such as an account: so that one that hangs leaves room for the others. As
    /// many changes of one provider under way are more than terraform makes (10).
    pub behind: usize,
    /// In one control plane: so that one with many accounts that hang leaves room for others.
    pub plane: usize,
    /// At all. Each has an object, a state and a plan in memory, some 100 KiB: 100 MiB. Beyond that only control planes
    /// that have less than their part of it are let aside, which makes it twice as much at the very most.
    pub all: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { behind: 64, plane: 256, all: 1_024 }
    }
}

/// What the loop has to know.
pub(crate) enum Move {
    Left(Arc<Item>),
    Returned(Arc<Item>),
}

#[derive(Default)]
struct Plane {
    all: usize,
    behind: HashMap<CompactString, usize>,
}

#[derive(Default)]
struct Standing {
    all: usize,
    planes: HashMap<CompactString, Plane>,
    /// Not known to the loop yet: no more than two for each that stands aside.
    moves: Vec<Move>,
}

pub(crate) struct Aside {
    bounds: Bounds,
    standing: Mutex<Standing>,
    moved: Notify,
}

impl Aside {
    pub fn new(bounds: Bounds) -> Aside {
        Aside { bounds, standing: Mutex::default(), moved: Notify::new() }
    }

    /// Ends when there are moves to be taken note of.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    pub fn moves(&self) -> Vec<Move> {
        std::mem::take(&mut self.standing.lock().moves)
    }

    fn leave(self: &Arc<Self>, item: &Arc<Item>, behind: &str) -> Left {
        let mut standing = self.standing.lock();
        let plane = standing.planes.entry(item.request.control_plane.clone()).or_default();
        plane.all += 1;
        *plane.behind.entry(behind.into()).or_default() += 1;
        standing.all += 1;
        standing.moves.push(Move::Left(item.clone()));
        self.moved.notify_one();
        Left { aside: self.clone(), item: item.clone(), behind: behind.into() }
    }

    fn is_crowded(&self, control_plane: &str, behind: &str) -> bool {
        let (standing, bounds) = (self.standing.lock(), &self.bounds);
        let plane = standing.planes.get(control_plane);
        let own = plane.map_or(0, |plane| plane.all);
        let there = plane.and_then(|plane| plane.behind.get(behind)).copied().unwrap_or(0);
        let part = bounds.all / standing.planes.len().max(1);
        there >= bounds.behind || own >= bounds.plane || (standing.all >= bounds.all && own >= part)
    }
}

/// One reconcile aside; it is back when this is dropped.
struct Left {
    aside: Arc<Aside>,
    item: Arc<Item>,
    behind: CompactString,
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut standing = self.aside.standing.lock();
        let name = &self.item.request.control_plane;
        if let Some(plane) = standing.planes.get_mut(name) {
            plane.all = plane.all.saturating_sub(1);
            if let Some(there) = plane.behind.get_mut(&self.behind) {
                *there = there.saturating_sub(1);
            }
            plane.behind.retain(|_, there| *there > 0);
            if plane.all == 0 {
                standing.planes.remove(name);
            }
        }
        standing.all = standing.all.saturating_sub(1);
        standing.moves.push(Move::Returned(self.item.clone()));
        self.aside.moved.notify_one();
    }
}

/// One reconcile, and where it may step aside to.
pub(crate) struct Place {
    aside: Arc<Aside>,
    item: Arc<Item>,
}

impl Place {
    pub fn new(aside: &Arc<Aside>, item: &Arc<Item>) -> Place {
        Place { aside: aside.clone(), item: item.clone() }
    }

    pub async fn aside<T>(&self, behind: &str, call: impl Future<Output = T>) -> T {
        // On the heap: it is in every future around it.
        let mut call = Box::pin(call);
        if let Ok(answer) = tokio::time::timeout(AT_ONCE, &mut call).await {
            return answer;
        }
        let _left = self.aside.leave(&self.item, behind);
        call.await
    }

    pub fn is_crowded(&self, behind: &str) -> bool {
        self.aside.is_crowded(&self.item.request.control_plane, behind)
    }
}
