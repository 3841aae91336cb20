//! What the engine counts, under ACK's names where it has them. By service and operation, never by tenant.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use objects::CompactString;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::calls::OperationType;
use crate::failure::Failure;

/// Series that are kept; there are as many as services have operations in use. What comes later is counted under
/// no name, so that names that a driver makes up cannot fill the memory.
const SERIES: usize = 16_384;

type Requests = BTreeMap<(CompactString, OperationType, CompactString), u64>;
type Errors = BTreeMap<(CompactString, CompactString, CompactString), u64>;

#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<Requests>,
    errors: Mutex<Errors>,
    outcomes: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

impl Metrics {
    pub(crate) fn called(&self, service: &str, purpose: OperationType, operation: &str) {
        let mut requests = self.requests.lock();
        let key = (service.into(), purpose, operation.into());
        let key = if requests.len() < SERIES || requests.contains_key(&key) {
            key
        } else {
            (service.into(), purpose, CompactString::default())
        };
        *requests.entry(key).or_default() += 1;
    }

    pub(crate) fn failed(&self, service: &str, operation: &str, failure: &Failure) {
        let mut errors = self.errors.lock();
        let code = if failure.code.is_empty() { "Unknown".into() } else { failure.code.clone() };
        let key = (service.into(), operation.into(), code);
        let key = if errors.len() < SERIES || errors.contains_key(&key) {
            key
        } else {
            (service.into(), CompactString::default(), CompactString::default())
        };
        *errors.entry(key).or_default() += 1;
    }

    /// A pass has ended.
    pub(crate) fn passed(&self, driver: &'static str, outcome: &'static str) {
        *self.outcomes.lock().entry((driver, outcome)).or_default() += 1;
    }

    /// Calls made so far for a purpose: what tests and limits look at.
    pub fn calls(&self, purpose: OperationType) -> u64 {
        let requests = self.requests.lock();
        requests.iter().filter(|((_, one, _), _)| *one == purpose).map(|(_, count)| count).sum()
    }

    /// Passes that have ended so far.
    pub fn passes(&self) -> u64 {
        self.outcomes.lock().values().sum()
    }

    /// As Prometheus reads it, for a process without a registry of its own.
    pub fn text(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(self.collector());
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// For the registry of the process.
    pub fn collector(self: &Arc<Self>) -> Box<dyn Collector> {
        Box::new(Exposed(self.clone()))
    }
}

#[derive(Debug)]
struct Exposed(Arc<Metrics>);

type Labels<'a, const N: usize> = [(&'a str, &'a str); N];

fn family<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = (Labels<'a, N>, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in rows {
        metric.encode_family(&labels)?.encode_counter(&count, None::<&Exemplar<NoLabelSet, u64>>)?;
    }
    Ok(())
}

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let requests = self.0.requests.lock().clone();
        let rows = requests.iter().map(|((service, purpose, operation), count)| {
            let labels =
                [("service", service.as_str()), ("op_type", purpose.as_str()), ("op_id", operation.as_str())];
            (labels, *count)
        });
        family(&mut encoder, "ack_outbound_api_requests", "Calls made to clouds", rows)?;
        let errors = self.0.errors.lock().clone();
        let rows = errors.iter().map(|((service, operation, code), count)| {
            let labels = [
                ("service", service.as_str()),
                ("op_id", operation.as_str()),
                ("status_code", code.as_str()),
            ];
            (labels, *count)
        });
        family(&mut encoder, "ack_outbound_api_requests_error", "Calls to clouds that failed", rows)?;
        let outcomes = self.0.outcomes.lock().clone();
        let rows = outcomes
            .iter()
            .map(|((driver, outcome), count)| ([("driver", *driver), ("outcome", *outcome)], *count));
        family(
            &mut encoder,
            "hangar_provision_passes",
            "Passes over cloud resources, by how they ended",
            rows,
        )
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn exposition() {
        let metrics = Arc::new(Metrics::default());
        metrics.called("s3", OperationType::Create, "CreateBucket");
        metrics.failed("s3", "CreateBucket", &Failure::terminal("no"));
        metrics.passed("aws", "synced");
        let mut registry = Registry::default();
        registry.register_collector(metrics.collector());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"ack_outbound_api_requests_total{service="s3",op_type="CREATE",op_id="CreateBucket"} 1"#,
            r#"ack_outbound_api_requests_error_total{service="s3",op_id="CreateBucket",status_code="Unknown"} 1"#,
            r#"hangar_provision_passes_total{driver="aws",outcome="synced"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
