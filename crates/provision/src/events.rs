//! Kubernetes Events about a resource: one when something happens, none while nothing does. What happens again is
//! counted in the event that tells it already, as client-go's recorder does.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta, time};
use quick_cache::sync::Cache;
use serde_json::json;
use tokio::time::Instant;

use crate::writing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// The longest note that an event may have.
const LONGEST: usize = 1_024;
/// Events that are remembered, as many as client-go does. What is forgotten is told by an event of its own.
const REMEMBERED: usize = 4_096;
/// What happens again within this time is counted.
const WITHIN: Duration = Duration::from_secs(600);

/// What goes on is told again when the event that told it has aged away.
const STANDING: Duration = Duration::from_secs(3_600);

/// Tells what happens, and remembers what it told.
pub(crate) struct Recorder {
    told: Cache<u64, Told>,
}

#[derive(Clone)]
struct Told {
    /// The name of the event.
    name: String,
    count: u64,
    at: Instant,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder { told: Cache::new(REMEMBERED) }
    }
}

/// What makes two events the same.
fn identity(about: &Value, severity: Severity, reason: &str, message: &str) -> u64 {
    let mut same = DefaultHasher::new();
    (meta::uid(about), severity.as_str(), reason, message).hash(&mut same);
    same.finish()
}

impl Recorder {
    /// Whether an event still tells it: for what does not happen but goes on, and is found at every look.
    fn tells(&self, about: &Value, severity: Severity, reason: &str, message: &str) -> bool {
        let told = self.told.get(&identity(about, severity, reason, message));
        told.is_some_and(|told| told.at.elapsed() < STANDING)
    }

    /// What a cloud warns of. It does so at every look: once is enough.
    pub async fn warn(&self, client: &kube::Client, about: &Value, message: &str, now: Timestamp) {
        const REASON: &str = "ProviderWarning";
        if !self.tells(about, Severity::Warning, REASON, message) {
            self.record(client, about, Severity::Warning, REASON, message, now).await;
        }
    }

    /// Events are for people to read: one that cannot be written is no failure.
    pub async fn record(
        &self,
        client: &kube::Client,
        about: &Value,
        severity: Severity,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let namespace =
            Some(meta::namespace(about)).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
        let collection = format!("/api/v1/namespaces/{namespace}/events");
        let now = time::format(now);
        let same = identity(about, severity, reason, message);
        if let Some(told) = self.told.get(&same).filter(|told| told.at.elapsed() < WITHIN) {
            let count = told.count + 1;
            let more = json!({"count": count, "lastTimestamp": now});
            let place = writing::Place::in_collection(&collection, &told.name);
            if writing::patch(client, &place, "", &more).await.is_ok() {
                self.told.insert(same, Told { count, at: Instant::now(), ..told });
                return;
            }
        }
        let name = format!("{}.{:016x}", meta::name(about), rand::random::<u64>());
        let message: String = message.chars().take(LONGEST).collect();
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": meta::api_version(about), "kind": meta::kind(about),
                "namespace": meta::namespace(about), "name": meta::name(about), "uid": meta::uid(about),
                "resourceVersion": meta::resource_version(about),
            },
            "type": severity.as_str(),
            "reason": reason, "message": message, "source": {"component": "hangar-provision"},
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        });
        match writing::create(client, &collection, &event).await {
            Ok(()) => self.told.insert(same, Told { name, count: 1, at: Instant::now() }),
            Err(error) => tracing::debug!(%error, "an event was not written"),
        }
    }
}
