//! `/metrics`: the numbers as text.
//!
//! The hosting control plane shows the whole process: its administrators run it. Any other control plane shows only
//! what is its own and is known without keeping anything for it: the build, what it has in flight, and what it
//! stores. How busy the process is would tell a tenant of its neighbours.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, header};
use objects::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Metrics;
use crate::body;
use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::paths;
use crate::service::Answer;

const OPEN_METRICS: &str = "application/openmetrics-text";

pub async fn answer(engine: &Arc<Engine>, plane: &ControlPlane, head: &Head) -> Answer {
    let written = if plane.name == engine.config.hosting {
        engine.metrics.text()
    } else {
        let (in_flight, watches) = engine.fairness.open(plane.id);
        let own = Own { in_flight, watches, bytes: engine.store.size(plane.id).await? };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(own));
        registry.register_collector(Box::new(Build));
        write(&registry)
    };
    let written = written.map_err(Status::internal)?;
    let open = head.header(header::ACCEPT).is_some_and(|accept| accept.contains(OPEN_METRICS));
    Ok(if open {
        let content_type =
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        body::response(200, content_type, written)
    } else {
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        body::response(200, content_type, plain(&written))
    })
}

impl Metrics {
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        write(&self.registry.lock())
    }
}

fn write(registry: &Registry) -> Result<String, fmt::Error> {
    let mut out = String::new();
    text::encode(&mut out, registry)?;
    Ok(out)
}

/// What runs here.
#[derive(Debug)]
pub(super) struct Build;

impl Collector for Build {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Always 1, with what was built as labels";
        let mut metric = encoder.encode_descriptor("kubernetes_build_info", help, None, MetricType::Gauge)?;
        metric.encode_family(&[("git_version", paths::GIT_VERSION)])?.encode_gauge(&1_u64)
    }
}

/// What a control plane may know of itself.
#[derive(Debug)]
struct Own {
    in_flight: u32,
    watches: u32,
    bytes: u64,
}

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in [
            (
                "apiserver_current_inflight_requests",
                "Requests being worked on now",
                u64::from(self.in_flight),
            ),
            ("apiserver_longrunning_requests", "Watches that are open", u64::from(self.watches)),
            ("apiserver_storage_size_bytes", "Size of what is stored, about", self.bytes),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// OpenMetrics as the older text format: a counter is described under the name its samples have, bounds of buckets
/// are `1` and not `1.0` (dashboards ask for them by text), and nothing marks the end.
fn plain(open: &str) -> String {
    let mut out = String::with_capacity(open.len());
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let counter = |line: &str| -> Option<String> {
            let name = line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?;
            Some(name.to_owned())
        };
        if line == "# EOF" {
            break;
        }
        if let Some(name) = counter(line) {
            out.push_str(&format!("# TYPE {name}_total counter\n"));
        } else if let Some(described) = line.strip_prefix("# HELP ")
            && let Some(name) = lines.peek().and_then(|next| counter(next))
            && let Some(help) = described.strip_prefix(name.as_str())
        {
            out.push_str(&format!("# HELP {name}_total{help}\n"));
        } else if let Some((name, rest)) = line.split_once("_bucket{le=\"")
            && let Some((bound, rest)) = rest.split_once('"')
        {
            let bound = bound.strip_suffix(".0").unwrap_or(bound);
            out.push_str(&format!("{name}_bucket{{le=\"{bound}\"{rest}\n"));
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_as_they_are_named() {
        let open = "# HELP a Some.\n# TYPE a counter\na_total{b=\"c\"} 1\n# HELP d Other.\n# TYPE d gauge\nd 2\ne_bucket{le=\"1.0\",f=\"2.0\"} 3\n# EOF\n";
        let expected = "# HELP a_total Some.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n# HELP d Other.\n# TYPE d gauge\nd 2\ne_bucket{le=\"1\",f=\"2.0\"} 3\n";
        assert_eq!(plain(open), expected);
    }
}
