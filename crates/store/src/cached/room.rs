//! The memory that all copies share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Room {
    limit: usize,
    taken: AtomicUsize,
}

impl Room {
    /// `limit` is how many bytes all copies may take together, about.
    pub(super) fn new(limit: usize) -> Arc<Room> {
        Arc::new(Room { limit, taken: AtomicUsize::new(0) })
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.taken() > self.limit
    }
}

/// What one copy takes of the room, for as long as it is there.
pub(super) struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    pub(super) fn new(room: Arc<Room>) -> Share {
        Share { room, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.room.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.room.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}
