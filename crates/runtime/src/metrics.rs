//! What the runtime counts: by controller, never by control plane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the latency buckets, in seconds; one more bucket holds the rest.
pub const LATENCY_BOUNDS: [f64; 7] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0];

/// Counters of one controller since the start.
#[derive(Default)]
pub struct ControllerMetrics {
    pub name: &'static str,
    pub reconciles: AtomicU64,
    pub failures: AtomicU64,
    pub latency_micros: AtomicU64,
    /// Not cumulative: how many reconciles took up to each of [`LATENCY_BOUNDS`], and longer.
    pub latency: [AtomicU64; LATENCY_BOUNDS.len() + 1],
}

impl ControllerMetrics {
    pub(crate) fn new(name: &'static str) -> Self {
        ControllerMetrics { name, ..ControllerMetrics::default() }
    }

    pub(crate) fn observe(&self, took: Duration, failed: bool) {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency_micros.fetch_add(micros, Ordering::Relaxed);
        let bucket = LATENCY_BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        if let Some(count) = self.latency.get(bucket.unwrap_or(LATENCY_BOUNDS.len())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How much is in the queue now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that wait for their time.
    pub parked: usize,
    pub running: usize,
}

#[derive(Default)]
pub struct Metrics {
    pub controllers: Vec<ControllerMetrics>,
    /// Changes read from the fleet.
    pub events: AtomicU64,
    /// Full sweeps begun.
    pub sweeps: AtomicU64,
    /// Cursors saved.
    pub saves: AtomicU64,
    /// How often the runtime's loop woke up: what an idle fleet must not do.
    pub wakeups: AtomicU64,
}

impl Metrics {
    pub fn controller(&self, name: &str) -> Option<&ControllerMetrics> {
        self.controllers.iter().find(|controller| controller.name == name)
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
