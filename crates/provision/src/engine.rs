//! The engine as a controller: which changes concern it, and a pass for each key.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use jiff::Timestamp;
use objects::selector::labels::Selector;
use objects::{CompactString, Value, meta};
use quick_cache::sync::Cache;
use runtime::{Change, Context, Controller, Error, Event, Fleet, Key, Kinds, Next, Request, Triggers};

use crate::applied::Applied;
use crate::calls::Calls;
use crate::driver::Driver;
use crate::events::Recorder;
use crate::failure::Failure;
use crate::intent;
use crate::limits::{LimitKey, Limits};
use crate::metrics::Metrics;
use crate::pass::Pass;
use crate::pass::order::Referring;
use crate::plan::{Preview, guard};
use crate::policies;
use crate::reading::{Dependants, FleetSource, Interest, Reader, Source};
use crate::secrets::FingerprintKey;

/// What holds for all objects that say nothing else.
#[derive(Debug)]
pub struct Settings {
    /// How often a settled resource is looked at.
    pub interval: Duration,
    /// Whether references and secrets of other namespaces may be used.
    pub cross_namespace: bool,
    /// Which objects are looked after at all.
    pub watched: Watched,
    /// The longest that one call of a driver may take, unless the object gives it longer (see [`Driver::patience`]).
    /// What it did is unknown then.
    pub patience: Duration,
    pub fingerprints: FingerprintKey,
}

impl Settings {
    /// `key` is of the installation, and the same after a restart.
    pub fn new(key: &[u8; 32]) -> Settings {
        Settings {
            interval: Duration::from_secs(600),
            cross_namespace: true,
            watched: Watched::default(),
            patience: Duration::from_secs(3_600),
            fingerprints: FingerprintKey::new(key),
        }
    }
}

/// Objects that are looked after; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// None is all.
    pub namespaces: Option<BTreeSet<String>>,
    pub selector: Selector,
}

impl Watched {
    fn contains(&self, object: &Value) -> bool {
        let named = self.namespaces.as_ref().is_none_or(|names| names.contains(meta::namespace(object)));
        named && self.selector.matches(meta::labels(object))
    }
}

/// Objects of remote control planes whose last state is remembered, to know what of it changed. One that is
/// forgotten is looked at once too often.
const SEEN: usize = 65_536;

/// Places of which it is remembered who refers to what there.
const REFERRING: usize = 256;

/// The reconcile of all kinds of one driver. Cheap to clone.
pub struct Engine<D: Driver>(Arc<Shared<D>>);

/// For those that the driver itself knows, and who would keep it for ever.
pub struct WeakEngine<D: Driver>(Weak<Shared<D>>);

impl<D: Driver> WeakEngine<D> {
    /// None once nobody uses it any more.
    pub fn upgrade(&self) -> Option<Engine<D>> {
        self.0.upgrade().map(Engine)
    }
}

pub(crate) struct Shared<D: Driver> {
    pub driver: Arc<D>,
    pub settings: Settings,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    pub events: Recorder,
    dependants: Dependants,
    /// Who refers to what, by control plane and by namespace or kind.
    pub referring: Cache<(CompactString, CompactString), Arc<Referring>>,
    seen: Cache<(CompactString, Key), Seen>,
}

/// What decides whether a change of an object concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    generation: i64,
    /// Of labels, annotations that are not ours, and of being deleted.
    metadata: u64,
    /// Of everything that others may refer to.
    content: u64,
    /// Of what a Secret holds that we do not write.
    inputs: u64,
    intent: Open,
}

/// Whether an intent is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    No,
    Yes,
    /// And the object says that it will never be known what became of it.
    Unknown,
}

fn open_intent(object: &Value) -> Open {
    if meta::annotation(object, intent::ANNOTATION).is_none() {
        return Open::No;
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let says = |one: &Value| one["message"].as_str().is_some_and(|text| text.contains(intent::UNKNOWN));
    if conditions.into_iter().flatten().any(says) { Open::Unknown } else { Open::Yes }
}

impl<D: Driver> Clone for Engine<D> {
    fn clone(&self) -> Self {
        Engine(self.0.clone())
    }
}

impl<D: Driver> Engine<D> {
    /// Limits and metrics are shared by the engines of all drivers.
    pub fn new(driver: Arc<D>, settings: Settings, limits: Arc<Limits>, metrics: Arc<Metrics>) -> Engine<D> {
        let (dependants, seen) = (Dependants::default(), Cache::new(SEEN));
        let (referring, events) = (Cache::new(REFERRING), Recorder::default());
        Engine(Arc::new(Shared { driver, settings, limits, metrics, events, dependants, referring, seen }))
    }

    /// The way to a cloud for what is no object of the engine's: at the pace, and in the metrics, of those that are.
    pub fn calls(&self, limit: &LimitKey, service: &str) -> Calls {
        Calls::new(self.0.limits.bucket(limit), self.0.metrics.clone(), service)
    }

    /// Tells on any object what the cloud warned of. No secrets.
    pub async fn warn(&self, client: &kube::Client, about: &Value, message: &str, now: Timestamp) {
        self.0.events.warn(client, about, message, now).await;
    }

    pub fn downgrade(&self) -> WeakEngine<D> {
        WeakEngine(Arc::downgrade(&self.0))
    }

    pub fn driver(&self) -> &Arc<D> {
        &self.0.driver
    }

    /// What would be done with an object, stored or not, without doing anything: reads only.
    pub async fn plan(
        &self,
        fleet: &dyn Fleet,
        control_plane: &str,
        object: &Value,
    ) -> Result<Preview, Failure> {
        self.plan_over(&FleetSource { fleet, control_plane }, control_plane, object).await
    }

    /// The same where other objects are read from somewhere else: not all of them need to be stored yet.
    pub async fn plan_over(
        &self,
        source: &dyn Source,
        control_plane: &str,
        object: &Value,
    ) -> Result<Preview, Failure> {
        let Some(facts) = self.facts_of(object) else {
            return Err(Failure::terminal(format!(
                "{} is not a kind of {}",
                meta::kind(object),
                self.name()
            )));
        };
        let reader = Reader::new(source, control_plane, None);
        let now = jiff::Timestamp::now();
        Pass::new(&self.0, control_plane, &reader, None, facts, object.clone(), now).preview().await
    }

    /// The facts of an object's kind, which is known by its group and its own name.
    pub(crate) fn facts_of(&self, object: &Value) -> Option<Arc<crate::Facts>> {
        let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
        let driver = &self.0.driver;
        let mut all = driver.known_kinds().into_iter().filter_map(|kind| driver.facts(&kind));
        all.find(|facts| facts.group() == group && facts.kind == meta::kind(object))
    }

    /// Whether a change of an object of ours asks for a pass: edits do, our own writes do not.
    fn concerns(&self, event: &Event, now: &Value) -> bool {
        if event.change != Change::Updated {
            return true;
        }
        let after = self.seen(now);
        let before = match event.previous() {
            Some(previous) => Some(self.seen(previous)),
            None => self.0.seen.get(&(event.control_plane.clone(), event.key.clone())),
        };
        let Some(before) = before else { return true };
        let own = Applied::is_own_write(now);
        // Nobody but a user closes an intent whose outcome will never be known.
        let answered = before.intent == Open::Unknown && after.intent == Open::No;
        before.metadata != after.metadata || answered || (before.generation != after.generation && !own)
    }

    /// Whether a change of an object matters to those that refer to it.
    fn wakes(&self, event: &Event, now: &Value, interest: Interest) -> bool {
        let written = self.0.driver.written_keys();
        match (event.change, interest) {
            (Change::Updated, _) => {}
            (Change::Created, Interest::Inputs) => return inputs(now, written).next().is_some(),
            _ => return true,
        }
        let before = match event.previous() {
            Some(previous) => Some(self.seen(previous)),
            None => self.0.seen.get(&(event.control_plane.clone(), event.key.clone())),
        };
        let Some(before) = before else { return true };
        let dependable =
            |object| self.0.driver.facts(&event.key.kind).map(|facts| facts.dialect.dependable(object));
        match interest {
            Interest::Inputs => before.inputs != self.seen(now).inputs,
            Interest::All => {
                before.content != self.seen(now).content
                    || event.previous().is_none_or(|before| dependable(before) != dependable(now))
            }
        }
    }

    fn seen(&self, object: &Value) -> Seen {
        seen(object, self.0.driver.written_keys())
    }
}

/// What a Secret holds that the driver did not write.
fn inputs<'a>(
    object: &'a Value,
    written: &'static [&'static str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
    data.filter(move |(key, _)| !written.contains(&key.as_str()))
}

/// Annotations that the engine writes itself.
const OWN: [&str; 3] = [intent::ANNOTATION, policies::APPLIED, guard::ANNOTATION];

fn hash(parts: impl IntoIterator<Item = String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.into_iter().for_each(|part| part.hash(&mut hasher));
    hasher.finish()
}

fn seen(object: &Value, written: &'static [&'static str]) -> Seen {
    let annotations = meta::map(object, "annotations").into_iter().flatten();
    let others = annotations.filter(|(name, _)| !OWN.contains(&name.as_str()));
    let others = others.map(|(name, value)| format!("{name}={value}"));
    let labels =
        meta::labels(object).into_iter().flatten().map(|(name, value)| format!("label {name}={value}"));
    let deleting = format!("deleting {}", meta::is_deleting(object));
    let own = |field: &&String| !matches!(field.as_str(), "metadata" | "status");
    let top = object.as_object().into_iter().flatten().filter(|(field, _)| own(field));
    let top = top.map(|(field, value)| format!("{field}={value}"));
    let status = object.get("status").and_then(Value::as_object).into_iter().flatten();
    let status =
        status.filter(|(field, _)| *field != "conditions").map(|(field, value)| format!("{field}={value}"));
    Seen {
        generation: meta::generation(object),
        metadata: hash(others.chain(labels).chain([deleting.clone()])),
        content: hash(top.chain(status).chain([deleting])),
        inputs: hash(inputs(object, written).map(|(key, value)| format!("{key}={value}"))),
        intent: open_intent(object),
    }
}

#[async_trait]
impl<D: Driver> Controller for Engine<D> {
    fn name(&self) -> &'static str {
        self.0.driver.name()
    }

    /// What a user has in a control plane may be of any kind in any namespace.
    fn identity(&self) -> UserInfo {
        UserInfo::new(format!("hangar:{}", self.0.driver.name()), [MASTERS]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        let driver = &self.0.driver;
        let served = driver.kinds();
        let facts = served.iter().filter_map(|kind| driver.facts(kind));
        let targets: Vec<CompactString> = facts
            .flat_map(|facts| facts.references.iter().map(|one| one.kind.clone()).collect::<Vec<_>>())
            .collect();
        Kinds::These(served.iter().cloned().chain(targets).chain(driver.watched()).collect())
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let served = self.0.driver.facts(&event.key.kind).is_some();
        let target = self.0.dependants.is_target(&event.control_plane, &event.key);
        if !served && !target {
            return;
        }
        let Some(now) = event.object() else { return };
        if served && self.0.settings.watched.contains(now) && self.concerns(event, now) {
            triggers.now(event.key.clone());
        }
        if target {
            let (all, inputs) =
                (self.wakes(event, now, Interest::All), self.wakes(event, now, Interest::Inputs));
            let dependants = self.0.dependants.of(&event.control_plane, &event.key).into_iter();
            let woken = dependants.filter(|(_, interest)| match interest {
                Interest::All => all,
                Interest::Inputs => inputs,
            });
            woken.for_each(|(key, _)| triggers.now(key));
        }
        if !event.tells_previous() {
            let key = (event.control_plane.clone(), event.key.clone());
            match event.change {
                Change::Deleted => drop(self.0.seen.remove(&key)),
                _ => self.0.seen.insert(key, self.seen(now)),
            }
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Request { control_plane, key } = request;
        let Some(facts) = self.0.driver.facts(&key.kind) else { return Ok(Next::Done) };
        let Some(object) = context.get(&key.kind, &key.namespace, &key.name).await? else {
            return Ok(Next::Done);
        };
        if !self.0.settings.watched.contains(&object) {
            return Ok(Next::Done);
        }
        let reader = Reader::new(context, control_plane, Some((&self.0.dependants, key)));
        Box::pin(Pass::new(&self.0, control_plane, &reader, Some(context), facts, object, context.now).run())
            .await
    }
}
