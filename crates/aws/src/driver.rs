//! The driver: AWS for the cloud engine, by rules and models.
//!
//! [`AwsDriver`] answers what [`provision::Driver`] asks. Which calls a kind needs is worked out in
//! [`crate::kinds::calls`]; here they are made, and what they answer is put together: `connection` finds account and
//! credentials, `reading` observes, `changing` creates, updates and deletes, `finding` looks for what an interrupted
//! create may have made, `listing` for everything that is there, `failure` sorts errors by what is to be done about them.
//!
//! Not here: conditions, finalizers, references, retries of passes. Those are the engine's, for all clouds.

mod changing;
mod connection;
mod failure;
mod finding;
mod identity;
mod listing;
mod reading;
mod records;
mod scope;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use egress::Egress;
use objects::{CompactString, meta};
use provision::dialect::ack::Ack;
use provision::dialect::ack::place::Defaults;
use provision::{
    Change, Class, Deleted, Driver, Facts, Failure, Intent, LateInitialization, Made, Observation, Observed,
    Plan, Readiness, Record, Recovery, Reference, SecretField, Subject, Surroundings, Updated,
};
use serde_json::{Map, Value, json};

pub use self::connection::AwsConnection;
use self::connection::Connections;
pub use self::listing::Existing;
use crate::client::Http;
use crate::credentials::Provider;
use crate::endpoint;
use crate::grants::{Grant, Grants};
use crate::kinds::compare::{compare, is_empty};
use crate::kinds::{self, Home, KindFacts};
use crate::rules::vocabulary::{Key, Late};

/// How the driver is set up.
#[derive(Clone)]
pub struct Settings {
    pub endpoints: endpoint::Settings,
    /// Region, role maps and gates where neither object nor namespace says anything.
    pub defaults: Defaults,
    /// Tags for everything that is made; variables as ACK has them.
    pub tags: Vec<(String, String)>,
    pub dialect: Ack,
    /// What the credentials of the process are for, where control planes have none of their own.
    pub grants: Arc<dyn Grants>,
    /// What connects to endpoints that namespaces name.
    pub egress: Egress,
    /// How often settled resources of a kind are looked at, where that is not the usual.
    pub intervals: BTreeMap<CompactString, Duration>,
    /// How long AWS's lists may lag behind what was made: so long nothing is made again that is not found in them.
    pub lag: Duration,
    /// Kinds that are served, as `buckets.s3.services.k8s.aws`; all if there are none.
    pub kinds: Vec<CompactString>,
}

impl Default for Settings {
    fn default() -> Settings {
        let tags = provision::dialect::ack::tags::DEFAULT;
        Settings {
            endpoints: endpoint::Settings::default(),
            defaults: Defaults::default(),
            tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            dialect: Ack::default(),
            grants: Arc::new(Grant::Nothing),
            egress: Egress::default(),
            intervals: BTreeMap::new(),
            lag: Duration::from_secs(60),
            kinds: Vec::new(),
        }
    }
}

/// AWS, for the engine.
pub struct AwsDriver {
    settings: Settings,
    connections: Connections,
    kinds: HashMap<CompactString, Served>,
}

/// A kind, and what the engine is told of it once it asks.
struct Served {
    kind: &'static KindFacts,
    facts: OnceLock<Arc<Facts>>,
}

/// What one call of a pass leaves for the next: the object as it was found, all tags included, and the answers it was
/// found in.
#[derive(Debug, Clone, Default)]
pub struct Note {
    pub(crate) observed: Value,
    pub(crate) answer: Value,
    pub(crate) reply: Value,
    pub(crate) lists: BTreeMap<String, Value>,
    /// Nothing of it was read: it is what the object says.
    pub(crate) unseen: bool,
}

pub(crate) type Subjected<'a> = Subject<'a, AwsConnection>;

/// How long something that changes by itself is left alone.
const SOON: Duration = Duration::from_secs(5);

impl AwsDriver {
    /// `credentials` are those of the process.
    pub fn new(http: Arc<Http>, credentials: Provider, settings: Settings) -> AwsDriver {
        let served = |kind: &'static KindFacts| {
            let name = CompactString::from(format!("{}.{}", kind.plural, kind.group()));
            let wanted = settings.kinds.is_empty() || settings.kinds.contains(&name);
            wanted.then(|| (name, Served { kind, facts: OnceLock::new() }))
        };
        let kinds = kinds::all().iter().filter_map(served).collect();
        let connections = Connections::new(http, credentials, &settings);
        AwsDriver { settings, connections, kinds }
    }

    /// Where objects are that say nothing of it; may be empty.
    pub fn region(&self) -> &str {
        &self.settings.defaults.region
    }

    /// The rules of a kind that the engine knows by its facts.
    pub(crate) fn kind(&self, facts: &Facts) -> Result<&'static KindFacts, Failure> {
        let served = self.kinds.get(&facts.resource);
        served
            .map(|served| served.kind)
            .ok_or_else(|| Failure::terminal(format!("{} is not served", facts.resource)))
    }
}

/// What the engine has to know of a kind. It asks for that of all kinds: no model is read for it.
fn engine_facts(kind: &'static KindFacts, dialect: Arc<Ack>) -> Facts {
    let resource = format!("{}.{}", kind.plural, kind.group());
    let mut facts = Facts::new(resource, kind.kind, kind.service, kind.finalizer(), dialect);
    facts.references = kind.references().into_iter().map(reference).collect();
    facts.secrets = kind.secret_fields().into_iter().map(|field| SecretField { field }).collect();
    facts.hidden = kind.hidden_fields();
    facts.before_delete = kind.fields_before_delete();
    facts.interval = kind.rules.requeue.map(|seconds| Duration::from_secs(seconds.into()));
    facts
}

fn reference(told: kinds::references::ReferenceFact) -> Reference {
    let target = kinds::find(&told.service, &told.kind);
    let plural = target.map_or_else(|| crate::crd::names::plural(&told.kind), |target| target.plural.clone());
    Reference {
        field: told.field,
        reference: told.reference,
        kind: format!("{plural}.{}.{}", told.service, kinds::GROUP_SUFFIX).into(),
        target: told.target,
        required: told.required,
        unready: told.unready,
        later: told.later,
    }
}

#[async_trait]
impl Driver for AwsDriver {
    type Connection = AwsConnection;
    type Note = Note;

    fn name(&self) -> &'static str {
        "aws"
    }

    fn kinds(&self) -> Vec<CompactString> {
        let mut kinds: Vec<CompactString> = self.kinds.keys().cloned().collect();
        kinds.sort();
        kinds
    }

    fn facts(&self, kind: &str) -> Option<Arc<Facts>> {
        let served = self.kinds.get(kind)?;
        let make = || {
            let mut facts = engine_facts(served.kind, Arc::new(self.settings.dialect.clone()));
            facts.interval = self.settings.intervals.get(kind).copied().or(facts.interval);
            Arc::new(facts)
        };
        Some(served.facts.get_or_init(make).clone())
    }

    async fn connect(&self, surroundings: &Surroundings<'_>) -> Result<Arc<AwsConnection>, Failure> {
        Box::pin(self.connections.get(surroundings)).await
    }

    async fn prepare(
        &self,
        surroundings: &Surroundings<'_>,
        _: &Arc<AwsConnection>,
        desired: &mut Value,
    ) -> Result<(), Failure> {
        let kind = self.kind(surroundings.facts)?;
        if scope::is_taken_over(surroundings.object) {
            return Ok(());
        }
        let defaults = self.default_tags(surroundings.facts, surroundings.object);
        let marked = finding::mark(kind, surroundings.object);
        scope::add_tags(kind, desired, defaults.into_iter().chain(marked).collect());
        Ok(())
    }

    fn identify(
        &self,
        facts: &Facts,
        fields: &BTreeMap<String, String>,
        desired: &mut Value,
    ) -> Result<(), Failure> {
        let kind = self.kind(facts)?;
        let plan = kind.plan().map_err(|error| Failure::terminal(error.to_string()))?;
        for (name, value) in fields {
            if name == "arn" {
                scope::put(desired, &["status", "ackResourceMetadata", "arn"], value.as_str().into());
                continue;
            }
            let named: Vec<_> = plan.fields().iter().filter(|field| field.name == *name).collect();
            if named.is_empty() {
                return Err(Failure::terminal(format!("{} has no field {name} to be found by", kind.kind)));
            }
            // Some kinds have the same word in both halves.
            for field in named {
                let home = if field.home == Home::Spec { "spec" } else { "status" };
                scope::put(desired, &[home, name], value.as_str().into());
            }
        }
        let given = |name: &str| desired.pointer(name).is_some_and(|value| !is_empty(value));
        if kind.rules.key == Some(Key::Arn) && !given("/status/ackResourceMetadata/arn") {
            return Err(Failure::terminal("required field missing: arn"));
        }
        for (word, _) in kind.rules.fields.iter().filter(|(_, rule)| rule.value.key) {
            let Some(field) = plan.field(word) else { continue };
            let home = if field.home == Home::Spec { "spec" } else { "status" };
            if !given(&format!("/{home}/{}", field.name)) {
                return Err(Failure::terminal(format!("required field missing: {}", field.name)));
            }
        }
        Ok(())
    }

    async fn observe(&self, subject: &Subjected<'_>) -> Result<Observation<Note>, Failure> {
        let kind = self.kind(subject.facts)?;
        let wanted = scope::wanted(subject);
        let mut found = Box::pin(reading::observe(kind, subject, &wanted)).await?;
        let managed = meta::finalizers(subject.object).any(|one| one == subject.facts.finalizer);
        if found.is_none() && !managed {
            found = Box::pin(finding::namesake(kind, subject, &wanted)).await?;
        }
        match found {
            None => Ok(Observation::Absent),
            Some(found) => Ok(Observation::Present(Box::new(self.observed(kind, subject, found)))),
        }
    }

    async fn plan(
        &self,
        subject: &Subjected<'_>,
        observed: Option<&Observed<Note>>,
    ) -> Result<Plan<Note>, Failure> {
        let kind = self.kind(subject.facts)?;
        let wanted = scope::wanted(subject);
        let Some(observed) = observed else {
            let calls = changing::creating_calls(kind, subject, &wanted)?;
            return Ok(Plan::new(Vec::new(), calls, Note::default()));
        };
        let plan = kind.plan().map_err(|error| Failure::terminal(error.to_string()))?;
        let differences = compare(kind, plan, &subject.desired["spec"], &observed.note.observed["spec"]);
        let change = |difference: &kinds::compare::FieldChange| Change {
            replaces: plan.field(&difference.word).is_some_and(|field| field.immutable),
            ..Change::new(
                difference.path.clone(),
                subject.secrets.redact_value(&difference.from),
                subject.secrets.redact_value(&difference.to),
            )
        };
        let mut changes: Vec<Change> = differences.iter().map(change).collect();
        changes.extend(subject.secrets.changed().map(Change::sensitive));
        let calls = changing::updating_calls(kind, subject, &wanted, observed, &changes)?;
        // What no call changes would have to be made anew. Tags are no reason for that, nor is what is only to be emptied.
        let tags = kinds::compare::tags_field(kind);
        for (difference, change) in differences.iter().zip(&mut changes) {
            let served = calls.iter().any(|call| call.serves.contains(&difference.word));
            let matters = tags.as_ref() != Some(&difference.word) && !is_empty(&difference.to);
            change.replaces |= !served && matters;
        }
        identity::add_changes(subject, &mut changes);
        let names = calls.iter().map(|call| format!("{}:{}", kind.service, call.operation)).collect();
        Ok(Plan::new(changes, names, Note::default()))
    }

    async fn create(
        &self,
        subject: &Subjected<'_>,
        intent: &Intent,
        _: &Plan<Note>,
    ) -> Result<Made, Failure> {
        let kind = self.kind(subject.facts)?;
        let wanted = scope::wanted(subject);
        let mut record = Box::pin(changing::create(kind, subject, &wanted, &intent.token)).await?;
        let known = wanted.identified(&record.status, record.arn.as_deref());
        if Box::pin(finding::is_taken(kind, subject, &known)).await? {
            return Err(Failure::new(Class::Exists, "", "Resource already exists"));
        }
        let named = identity::annotation(kind, subject.object, &known);
        record.annotations.insert(identity::ANNOTATION.to_owned(), named);
        Ok(record.into())
    }

    async fn update(
        &self,
        subject: &Subjected<'_>,
        observed: &Observed<Note>,
        plan: &Plan<Note>,
    ) -> Result<Updated<Note>, Failure> {
        let kind = self.kind(subject.facts)?;
        let wanted = scope::wanted(subject);
        let after = Box::pin(changing::update(kind, subject, &wanted, observed, &plan.changes)).await?;
        Ok(Updated { record: Record::default(), observed: None, after })
    }

    async fn delete(&self, subject: &Subjected<'_>, observed: &Observed<Note>) -> Result<Deleted, Failure> {
        let kind = self.kind(subject.facts)?;
        let wanted = scope::wanted(subject);
        Box::pin(changing::delete(kind, subject, &wanted, observed)).await
    }

    async fn recover(&self, subject: &Subjected<'_>, _: &Intent) -> Result<Recovery, Failure> {
        let kind = self.kind(subject.facts)?;
        Box::pin(finding::recover(kind, subject, self.settings.lag)).await
    }

    fn recorded(&self, subject: &Subjected<'_>) -> Option<Observed<Note>> {
        let kind = self.kind(subject.facts).ok()?;
        let wanted = scope::wanted(subject);
        // What cannot be asked for is not named.
        kinds::calls::read(kind, &wanted.scope(kind, None).ok()?)?;
        let status = subject.object.get("status").cloned().unwrap_or_default();
        let note = Note {
            observed: json!({"spec": wanted.object["spec"], "status": status}),
            unseen: true,
            ..Note::default()
        };
        let arn = wanted.meta.get("arn").filter(|arn| !arn.is_empty()).cloned();
        Some(Observed { spec: Value::Null, status, arn, readiness: Readiness::Ready, note })
    }

    fn forgotten(&self, subject: &Subjected<'_>) -> Record {
        let fields = self.kind(subject.facts).ok().and_then(|kind| kind.plan().ok()).map(kinds::Plan::fields);
        let known = fields.into_iter().flatten().filter(|field| field.home == Home::Status);
        let mut status: Map<String, Value> = known.map(|field| (field.name.clone(), Value::Null)).collect();
        status.insert("ackResourceMetadata".to_owned(), json!({"arn": null}));
        let annotations = BTreeMap::from([(identity::ANNOTATION.to_owned(), None)]);
        Record { status: Value::Object(status), annotations, ..Record::default() }
    }

    fn shown(&self, subject: &Subjected<'_>, observed: &Observed<Note>) -> Record {
        let mut record = Record::default();
        if let Ok(kind) = self.kind(subject.facts) {
            let known = scope::wanted(subject).identified(&observed.status, observed.arn.as_deref());
            let named = identity::annotation(kind, subject.object, &known);
            record.annotations.insert(identity::ANNOTATION.to_owned(), named);
        }
        record
    }

    fn late_initialization(&self, subject: &Subjected<'_>, observed: &Observed<Note>) -> LateInitialization {
        let mut late = LateInitialization::default();
        let Some(kind) = self.kind(subject.facts).ok() else { return late };
        let Ok(plan) = kind.plan() else { return late };
        let mut spec = Map::new();
        for (word, rule) in &kind.rules.fields {
            let (Some(told), Some(field)) = (rule.value.late, plan.field(word)) else { continue };
            late.applies = true;
            if subject.desired["spec"].get(&field.name).is_some_and(|value| !value.is_null()) {
                continue;
            }
            match observed.spec.get(&field.name).filter(|value| !value.is_null()) {
                Some(value) => {
                    spec.insert(field.name.clone(), value.clone());
                }
                None if told == Late::Wait => late.missing.push(format!("spec.{}", field.name)),
                None => {}
            }
        }
        late.spec = if spec.is_empty() { Value::Null } else { Value::Object(spec) };
        late
    }
}

impl AwsDriver {
    fn default_tags(&self, facts: &Facts, object: &Value) -> BTreeMap<String, String> {
        let tags = self.settings.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let version = env!("CARGO_PKG_VERSION");
        provision::dialect::ack::tags::of(tags, facts, object, version).into_iter().collect()
    }

    /// What was found, for the engine: without tags that are AWS's or ours.
    fn observed(
        &self,
        kind: &KindFacts,
        subject: &Subjected<'_>,
        mut found: reading::Found,
    ) -> Observed<Note> {
        let mut shown = json!({"spec": found.note.observed["spec"]});
        let defaults = self.default_tags(subject.facts, subject.object);
        let ours = |key: &str| defaults.contains_key(key) || key == finding::MARK;
        scope::remove_tags(kind, &mut shown, ours);
        if scope::is_taken_over(subject.object) {
            scope::remove_tags(kind, &mut found.note.observed, ours);
        }
        Observed {
            spec: shown["spec"].take(),
            status: found.status,
            arn: found.arn,
            readiness: found.readiness,
            note: found.note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    /// All kinds are served, and few have objects. Tests have processes of their own, so nobody else reads models.
    #[tokio::test]
    async fn what_the_engine_knows_of_all_kinds_needs_no_model() {
        let http = Arc::new(Http::new(Duration::from_secs(1)));
        let driver = AwsDriver::new(http, Provider::given("id", "key", None), Settings::default());
        let facts: Vec<Arc<Facts>> = driver.kinds().iter().filter_map(|kind| driver.facts(kind)).collect();
        assert_eq!(facts.len(), kinds::all().len());
        assert!(facts.iter().any(|facts| !facts.references.is_empty()));
        assert_eq!(model::in_memory().collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
