//! What the process counts of its stores, for `/metrics`: the copies that reads are answered from, and its leases.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use runtime::Leases;
use store::Cached;
use store::cached::Load;

/// By the names of stores, which come as they are opened.
#[derive(Clone, Default)]
pub struct Numbers(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    caches: Vec<(String, Arc<Cached>)>,
    leases: Vec<(String, Leases)>,
}

impl Numbers {
    pub fn add_cache(&self, store: &str, cache: Arc<Cached>) {
        self.0.lock().caches.push((store.to_owned(), cache));
    }

    pub fn add_leases(&self, store: &str, leases: Leases) {
        self.0.lock().leases.push((store.to_owned(), leases));
    }

    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

/// A metric's name, what it says, and its value.
type Row<T> = (&'static str, &'static str, fn(&Load) -> T);

/// Of what is read from a database and may be answered from memory.
const COUNTERS: [Row<u64>; 4] = [
    ("hangar_read_cache_hits", "Reads answered from memory", |load| load.from_memory),
    ("hangar_read_cache_misses", "Reads that the database was asked for", |load| load.from_engine),
    ("hangar_read_cache_evictions", "Copies of a type dropped to make room, or not used for long", |load| {
        load.evictions
    }),
    ("hangar_read_cache_questions", "Questions to the database how far a control plane is", |load| {
        load.questions
    }),
];

const GAUGES: [Row<usize>; 2] = [
    ("hangar_read_cache_bytes", "Memory taken by copies, about", |load| load.bytes),
    ("hangar_read_cache_control_planes", "Control planes of which something is copied", |load| load.tenants),
];

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counted = self.0.lock();
        let loads: Vec<(&str, Load)> =
            counted.caches.iter().map(|(store, cache)| (store.as_str(), cache.load())).collect();
        for (name, help, value) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (store, load) in &loads {
                let labels = [("store", *store)];
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_counter(&value(load), None::<&Exemplar<NoLabelSet, u64>>)?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (store, load) in &loads {
                let value = u64::try_from(value(load)).unwrap_or(u64::MAX);
                metric.encode_family(&[("store", *store)])?.encode_gauge(&value)?;
            }
        }
        let help = "Always 1, with a lease that this process holds as labels";
        let mut metric = encoder.encode_descriptor("hangar_lease_held", help, None, MetricType::Gauge)?;
        for (store, leases) in &counted.leases {
            for lease in leases.held() {
                let labels = [("store", store.as_str()), ("lease", lease.as_str())];
                metric.encode_family(&labels)?.encode_gauge(&1_u64)?;
            }
        }
        Ok(())
    }
}
