//! Bytes in flight: bodies, decoded values and answers, for each control plane and in all.
//!
//! A control plane may hold as many bytes as are free. One alone can so have half of the budget, two a third each, and
//! there is always room for the next one.
//!
//! **Invariant:** a control plane has an entry here only while it holds bytes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use objects::{Reason, Status};
use parking_lot::Mutex;

use super::{Owner, Seat};
use crate::service::Failure;

/// The part of the budget, as one in so many, that a control plane may hold whatever others hold.
const GUARANTEED: usize = 64;

pub struct Budget {
    total: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    holders: HashMap<Owner, usize>,
}

/// Bytes that are held until this is dropped.
pub struct Reservation {
    budget: Arc<Budget>,
    owner: Owner,
    bytes: usize,
}

impl Budget {
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Budget { total, state: Mutex::default() })
    }

    /// Reserves bytes for a control plane; 429 if that would be more than its share.
    pub(super) fn reserve(self: &Arc<Self>, owner: Owner, bytes: usize) -> Result<Reservation, Failure> {
        let mut reservation = Reservation { budget: self.clone(), owner, bytes: 0 };
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    fn take(&self, owner: Owner, bytes: usize, forced: bool) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut state = self.state.lock();
        let held = state.holders.get(&owner).copied().unwrap_or_default();
        let free = self.total.saturating_sub(state.used);
        // A control plane that holds nothing may take more than half once: a large answer could never be made otherwise.
        let fits = match held {
            0 => bytes <= free - free / 8,
            held => bytes <= free && held + bytes <= free - bytes,
        };
        // What others hold by force shuts nobody out.
        let fits = fits || held + bytes <= self.total / GUARANTEED;
        if !fits && !forced {
            return false;
        }
        state.used += bytes;
        *state.holders.entry(owner).or_default() += bytes;
        true
    }

    fn give_back(&self, owner: Owner, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.used -= bytes;
        if let Some(held) = state.holders.get_mut(&owner) {
            *held -= bytes;
            if *held == 0 {
                state.holders.remove(&owner);
            }
        }
    }

    pub fn total(&self) -> usize {
        self.total
    }

    pub fn used(&self) -> usize {
        self.state.lock().used
    }
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves more; what is held already stays held if that is refused.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        if !self.budget.take(self.owner, bytes, false) {
            return Err(over_budget());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts bytes that are there already and cannot be refused any more.
    pub fn force(&mut self, bytes: usize) {
        self.budget.take(self.owner, bytes, true);
        self.bytes += bytes;
    }

    /// Gives back all but this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.budget.give_back(self.owner, excess);
        self.bytes -= excess;
    }

    /// Makes a reservation of its own of a part of this one.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), owner: self.owner, bytes }
    }

    /// The same bytes, which hold the reservation until the last reference to them is dropped: also while they wait in
    /// the buffers of a connection.
    pub fn guard(self, bytes: Bytes) -> Bytes {
        self.guard_with(bytes, None)
    }

    /// The same, and they hold the seat of their request too.
    pub(super) fn guard_with(self, bytes: Bytes, seat: Option<Arc<Seat>>) -> Bytes {
        Bytes::from_owner(Guarded { bytes, _reservation: self, _seat: seat })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.owner, self.bytes);
    }
}

struct Guarded {
    bytes: Bytes,
    _reservation: Reservation,
    _seat: Option<Arc<Seat>>,
}

impl AsRef<[u8]> for Guarded {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn over_budget() -> Failure {
    let message = "too many bytes of requests and answers are in flight, please try again later";
    Status::new(Reason::TooManyRequests, message).retry_after(1).into()
}
