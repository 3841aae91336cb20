//! How long things took, counted without a lock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, MetricEncoder, NoLabelSet};

/// Upper bounds in seconds. From 5 ms on they are those of kube-apiserver, which dashboards ask for by value;
/// those below tell our own answers apart.
const BOUNDS: [f64; 26] = [
    0.000_25, 0.000_5, 0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0,
    5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    beyond: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.buckets.get(BOUNDS.partition_point(|bound| *bound < seconds));
        bucket.unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.nanoseconds.load(Ordering::Relaxed) == 0
    }

    pub(super) fn encode(&self, metric: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet) -> fmt::Result {
        let counts = self.buckets.iter().chain([&self.beyond]).map(|bucket| bucket.load(Ordering::Relaxed));
        // The encoder adds the buckets up itself.
        let buckets: Vec<(f64, u64)> = BOUNDS.into_iter().chain([f64::INFINITY]).zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}
