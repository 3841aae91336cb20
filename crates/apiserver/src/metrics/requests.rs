//! Requests by verb, resource and answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use indexmap::{Equivalent, IndexMap};
use objects::CompactString;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::MetricType;

use super::count_of;
use super::histogram::Histogram;

/// How many series there may be. The built-in resources have about half of that if every verb is used on each;
/// custom resources of whatever control plane may take the rest, and what comes after is counted without its names.
const MAX_SERIES: usize = 4_096;

/// Codes that are counted one by one; the rest goes by its class.
const CODES: [u16; 20] =
    [200, 201, 202, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504, 0];

/// What a request was, in the labels of upstream; the empty string where there is nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    pub verb: &'static str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub scope: &'static str,
}

/// The same, kept. Hashes like [`Request`], so that one finds the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Labels {
    verb: &'static str,
    group: CompactString,
    version: CompactString,
    resource: CompactString,
    subresource: CompactString,
    scope: &'static str,
}

impl Equivalent<Labels> for Request<'_> {
    fn equivalent(&self, labels: &Labels) -> bool {
        *self == labels.as_request()
    }
}

impl Labels {
    fn as_request(&self) -> Request<'_> {
        Request {
            verb: self.verb,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            scope: self.scope,
        }
    }
}

impl Request<'_> {
    fn to_labels(self) -> Labels {
        Labels {
            verb: self.verb,
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
            subresource: self.subresource.into(),
            scope: self.scope,
        }
    }
}

#[derive(Debug, Default)]
struct Series {
    by_code: [AtomicU64; CODES.len()],
    duration: Histogram,
    /// Watches that are open, and what they have delivered.
    open: AtomicI64,
    events: AtomicU64,
}

#[derive(Debug, Default)]
pub struct Requests {
    series: RwLock<IndexMap<Labels, Arc<Series>>>,
}

impl Requests {
    /// Counts an answer.
    pub fn answered(&self, request: &Request<'_>, code: u16, took: Option<Duration>) {
        let series = self.series(request);
        let place = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        series.by_code[place].fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took {
            series.duration.observe(took);
        }
    }

    /// Counts a watch as open until the guard is dropped.
    pub fn watch(&self, request: &Request<'_>) -> Watching {
        let series = self.series(request);
        series.open.fetch_add(1, Ordering::Relaxed);
        Watching(series)
    }

    fn series(&self, request: &Request<'_>) -> Arc<Series> {
        if let Some(series) = self.series.read().get(request) {
            return series.clone();
        }
        let mut all = self.series.write();
        // What is asked of nothing in particular has few labels, and always room.
        let bounded = all.len() < MAX_SERIES || request.resource.is_empty();
        let request = if bounded { *request } else { Request { verb: request.verb, ..Request::default() } };
        if let Some(series) = all.get(&request) {
            return series.clone();
        }
        all.entry(request.to_labels()).or_default().clone()
    }
}

/// A watch that is open.
pub struct Watching(Arc<Series>);

impl Watching {
    pub fn delivered(&self, events: u64) {
        self.0.events.fetch_add(events, Ordering::Relaxed);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The labels of a request as they are written, with further ones in front.
struct Written<'a>(Request<'a>, Option<&'static str>);

impl EncodeLabelSet for Written<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let Written(request, code) = self;
        if let Some(code) = code {
            [("code", *code)].as_slice().encode(encoder)?;
        }
        [
            ("component", "apiserver"),
            ("group", request.group),
            ("resource", request.resource),
            ("scope", request.scope),
            ("subresource", request.subresource),
            ("verb", request.verb),
            ("version", request.version),
        ]
        .as_slice()
        .encode(encoder)
    }
}

/// The codes of [`CODES`] as text; the last stands for all others.
const CODE_NAMES: [&str; CODES.len()] = [
    "200", "201", "202", "304", "400", "401", "403", "404", "405", "406", "409", "410", "413", "415", "422",
    "429", "500", "503", "504", "other",
];

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(Labels, Arc<Series>)> =
            self.series.read().iter().map(|(labels, series)| (labels.clone(), series.clone())).collect();

        let help = "Requests answered, by what was asked and the HTTP code";
        let mut metric = encoder.encode_descriptor("apiserver_request", help, None, MetricType::Counter)?;
        for (labels, series) in &all {
            for (count, code) in series.by_code.iter().zip(CODE_NAMES) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    count_of(&mut metric, &Written(labels.as_request(), Some(code)), count)?;
                }
            }
        }

        let help = "Time from the head of a request to the head of its answer, watches not counted";
        let name = "apiserver_request_duration_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, series) in all.iter().filter(|(_, series)| !series.duration.is_empty()) {
            series.duration.encode(&mut metric, &Written(labels.as_request(), None))?;
        }

        let help = "Watches that are open";
        let name = "apiserver_longrunning_requests";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, series) in all.iter().filter(|(labels, _)| labels.verb == "WATCH") {
            let open = series.open.load(Ordering::Relaxed);
            metric.encode_family(&Written(labels.as_request(), None))?.encode_gauge(&open)?;
        }

        let mut events: BTreeMap<[&str; 3], u64> = BTreeMap::new();
        for (labels, series) in all.iter().filter(|(labels, _)| labels.verb == "WATCH") {
            let request = labels.as_request();
            *events.entry([request.group, request.version, request.resource]).or_default() +=
                series.events.load(Ordering::Relaxed);
        }
        let help = "Events delivered to watches";
        let mut metric =
            encoder.encode_descriptor("apiserver_watch_events", help, None, MetricType::Counter)?;
        for ([group, version, resource], count) in events {
            let labels = [("group", group), ("resource", resource), ("version", version)];
            count_of(&mut metric, &labels, count)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(verb: &'static str) -> Request<'static> {
        Request { verb, version: "v1", resource: "pods", scope: "namespace", ..Request::default() }
    }

    #[test]
    fn the_same_labels_are_the_same_series() {
        let requests = Requests::default();
        for code in [200, 200, 404, 418] {
            requests.answered(&pods("GET"), code, Some(Duration::from_millis(2)));
        }
        let all = requests.series.read();
        let (_, series) = all.first().unwrap();
        let counted = |code| {
            let place = CODES.iter().position(|known| *known == code).unwrap();
            series.by_code[place].load(Ordering::Relaxed)
        };
        assert_eq!((all.len(), counted(200), counted(404), counted(0)), (1, 2, 1, 1));
    }

    #[test]
    fn names_run_out_and_counting_goes_on() {
        let requests = Requests::default();
        for i in 0..MAX_SERIES + 100 {
            let group = format!("g{i}.example.com");
            requests.answered(&Request { group: &group, ..pods("LIST") }, 200, None);
        }
        requests.answered(&Request { verb: "GET", subresource: "/healthz", ..Request::default() }, 200, None);
        let all = requests.series.read();
        assert_eq!(all.len(), MAX_SERIES + 2);
        let rest = all.get(&Request { verb: "LIST", ..Request::default() }).unwrap();
        assert_eq!(rest.by_code[0].load(Ordering::Relaxed), 100);
    }

    #[test]
    fn watches_are_counted_while_they_are_open() {
        let requests = Requests::default();
        let (one, two) = (requests.watch(&pods("WATCH")), requests.watch(&pods("WATCH")));
        one.delivered(3);
        drop(two);
        let all = requests.series.read();
        let series = all.get(&pods("WATCH")).unwrap();
        assert_eq!((series.open.load(Ordering::Relaxed), series.events.load(Ordering::Relaxed)), (1, 3));
    }
}
