//! What the server counts, under the names that dashboards of kube-apiserver know.
//!
//! **Invariant:** no series belongs to a control plane, so ten thousand of them cost what one does. The numbers of
//! the whole process are shown by the hosting control plane alone; see [`exposition`] for what the others show.
//!
//! Counting is atomic additions on series that are found without allocating. `prometheus-client` writes the text.

mod exposition;
mod histogram;
mod outage;
mod process;
mod requests;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

pub use exposition::answer;
pub use histogram::Histogram;
pub use requests::{Request, Requests, Watching};
pub use store::Measured;

use crate::audit;

/// The metrics of a process.
pub struct Metrics {
    pub(crate) requests: Arc<Requests>,
    in_flight: Arc<InFlightCounts>,
    store: Arc<store::Operations>,
    registry: Mutex<Registry>,
}

impl Metrics {
    pub fn new(audit: Option<&audit::Log>) -> Self {
        let metrics = Metrics {
            requests: Arc::default(),
            in_flight: Arc::default(),
            store: Arc::default(),
            registry: Mutex::default(),
        };
        metrics.register(Box::new(metrics.requests.clone()));
        metrics.register(Box::new(metrics.in_flight.clone()));
        metrics.register(Box::new(metrics.store.clone()));
        metrics.register(Box::new(process::Process));
        metrics.register(Box::new(exposition::Build));
        if let Some(log) = audit {
            metrics.register(Box::new(AuditCollector(log.clone())));
        }
        metrics
    }

    /// Adds what another part of the process counts: controllers, the listener.
    pub fn register(&self, collector: Box<dyn Collector>) {
        self.registry.lock().register_collector(collector);
    }

    /// Counts a request as being worked on, until the guard is dropped.
    pub(crate) fn begin(&self, mutating: bool) -> InFlight {
        self.in_flight.of(mutating).fetch_add(1, Ordering::Relaxed);
        InFlight { counts: self.in_flight.clone(), mutating }
    }

    pub(crate) fn measured(&self, name: &str, store: Arc<dyn ::store::Store>) -> Arc<dyn ::store::Store> {
        Arc::new(Measured::new(name, store, self.store.clone()))
    }
}

#[derive(Debug, Default)]
struct InFlightCounts {
    reading: AtomicI64,
    mutating: AtomicI64,
}

impl InFlightCounts {
    fn of(&self, mutating: bool) -> &AtomicI64 {
        if mutating { &self.mutating } else { &self.reading }
    }
}

/// A request being worked on.
pub struct InFlight {
    counts: Arc<InFlightCounts>,
    mutating: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.counts.of(self.mutating).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Collector for InFlightCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests being worked on now, watches not counted";
        let mut metric = encoder.encode_descriptor(
            "apiserver_current_inflight_requests",
            help,
            None,
            MetricType::Gauge,
        )?;
        for (kind, count) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            let count = count.load(Ordering::Relaxed);
            metric.encode_family(&[("request_kind", kind)])?.encode_gauge(&count)?;
        }
        Ok(())
    }
}

struct AuditCollector(audit::Log);

impl fmt::Debug for AuditCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditCollector")
    }
}

impl Collector for AuditCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = self.0.counters();
        let mut counter = |name: &str, help: &str, value: &std::sync::atomic::AtomicU64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            count(metric, &value.load(Ordering::Relaxed))
        };
        counter("apiserver_audit_event", "Audit events written", &counters.written)?;
        counter("apiserver_audit_error", "Audit events lost: no room, or the disk refused", &counters.lost)
    }
}

/// A counter, without the exemplars that its encoder also takes.
fn count(
    mut metric: MetricEncoder<'_>,
    value: &impl prometheus_client::encoding::EncodeCounterValue,
) -> fmt::Result {
    metric.encode_counter(value, None::<&Exemplar<NoLabelSet, u64>>)
}

/// The same for one of a family.
fn count_of(metric: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    count(metric.encode_family(labels)?, &value)
}
