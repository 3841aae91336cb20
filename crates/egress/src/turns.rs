//! How many calls are made at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much a client does at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls of all control planes. Each holds a connection and may hold a response.
    pub calls: usize,
    /// Calls of one control plane. Others wait for their turn, and their deadline runs.
    pub calls_of_one: usize,
    /// Idle connections that are kept to one destination.
    pub idle_connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { calls: 512, calls_of_one: 32, idle_connections: 4 }
    }
}

pub(crate) struct Turns {
    calls_of_one: usize,
    all: Arc<Semaphore>,
    /// Of control planes that have calls, and of no others.
    each: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
}

/// The right to make one call. Fields are dropped in their order: the place in the map goes when the permits have gone.
pub(crate) struct Turn {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
    _place: Place,
}

/// An entry of the map that goes with the last who needs it.
struct Place {
    each: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
    caller: Arc<str>,
    own: Option<Arc<Semaphore>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut each = self.each.lock();
        drop(self.own.take());
        // Nobody gets another reference without the lock. Each permit and each who waits has one.
        if each.get(&self.caller).is_some_and(|own| Arc::strong_count(own) == 1) {
            each.remove(&self.caller);
        }
    }
}

impl Turns {
    pub fn new(limits: Limits) -> Turns {
        let Limits { calls, calls_of_one, .. } = limits;
        Turns { calls_of_one, all: Arc::new(Semaphore::new(calls)), each: Arc::default() }
    }

    pub async fn take(&self, caller: &Arc<str>) -> Turn {
        let limit = || Arc::new(Semaphore::new(self.calls_of_one));
        let own = self.each.lock().entry(caller.clone()).or_insert_with(limit).clone();
        let place = Place { each: self.each.clone(), caller: caller.clone(), own: Some(own.clone()) };
        // The semaphores are never closed. One's own comes first, so that nobody waits with a turn of all others in hand.
        let own = own.acquire_owned().await.ok();
        let all = self.all.clone().acquire_owned().await.ok();
        Turn { _all: all, _own: own, _place: place }
    }

    #[cfg(test)]
    pub fn callers(&self) -> usize {
        self.each.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_caller_does_not_take_the_turns_of_others() {
        let limits = Limits::default();
        let turns = Turns::new(limits);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut held = Vec::new();
        for _ in 0..limits.calls_of_one {
            held.push(turns.take(&a).now_or_never().unwrap());
        }
        let mut waiting = Box::pin(turns.take(&a));
        assert!((&mut waiting).now_or_never().is_none());
        drop(turns.take(&b).now_or_never().unwrap());
        assert_eq!(turns.callers(), 1);
        held.pop();
        held.push(waiting.now_or_never().unwrap());
        let mut given_up = Box::pin(turns.take(&a));
        assert!((&mut given_up).now_or_never().is_none());
        drop(given_up);
        assert_eq!(turns.callers(), 1);
        held.clear();
        assert_eq!(turns.callers(), 0, "nothing is kept of callers without calls");
    }
}
