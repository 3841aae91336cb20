//! The driver: resources of any provider, for the engine that all clouds share.
//!
//! What there is is judged by the provider itself, by Read and Plan; states are never compared with objects. The
//! whole state is kept beside the object (see [`kept`]), the visible part of it in `spec.state`, its secrets in the
//! object's Secret.

mod asking;
mod changing;
pub(crate) mod failures;
mod ignoring;
mod kept;
mod opened;
pub(crate) mod outputs;
pub(crate) mod owning;
pub(crate) mod referring;
pub(crate) mod refusing;
mod remote;
pub(crate) mod telling;
pub(crate) mod wanted;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use egress::{Caller, Egress};
use jiff::SignedDuration;
use objects::field::ErrorList;
use objects::{CompactString, Value as Json, meta};
use provision::{
    Change, Class, Connection, Deleted, Driver, Facts, Failure, Intent, LimitKey, Made, Observation,
    Observed, OperationType, Plan, Reader, Record, Recovery, Subject, Surroundings, Updated,
};
use runtime::Key;
use serde_json::json;

use crate::backend::Backends;
use crate::change;
use crate::diagnostic::Diagnostics;
use crate::dialect::{IMPORT_ID, OBSERVE_ONLY, is_blank, is_taking_over};
use crate::module::children;
use crate::openings::Openings;
use crate::plugin::{Applied, IdentitySchema, Lease, Planned, Pool, State};
use crate::protocol::Call;
use crate::registry::{Registry, Served};
use crate::schema::Schema;
use crate::shape;
use crate::value::Value;
use asking::{Sight, differences, settings};
pub(crate) use kept::owner;
use kept::{Kept, Seal};
pub use opened::{Opened, Opener};
use remote::Remote;
use wanted::Secrets;

/// What a creation whose answer was lost has made may come about, and may be seen, later.
const IN_DOUBT: SignedDuration = SignedDuration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(10);

pub struct Terraform {
    registry: Arc<Registry>,
    pool: Pool,
    seal: Seal,
    backends: Backends,
    egress: Egress,
    openings: Openings,
    /// Modules, where there are any.
    opener: OnceLock<Box<dyn Opener>>,
}

/// A configured provider, and the type of the object's resource.
pub struct Configured {
    lease: Lease,
    pool: Pool,
    provider: Arc<Served>,
    type_name: String,
    schema: Arc<Schema>,
    limit: LimitKey,
    /// What of the provider's configuration is not secret: an edit of it may change resources, such as by default tags.
    visible: String,
    /// Of the provider's configuration: kept out of messages.
    redactions: Vec<String>,
    /// Where the state is kept, if not beside the object.
    remote: Option<Remote>,
    opened: Opened,
}

impl Connection for Configured {
    fn limit(&self, _: &Facts) -> LimitKey {
        self.limit.clone()
    }

    fn display(&self) -> String {
        format!("{} ({})", self.type_name, self.provider.name)
    }
}

/// What one call of a pass leaves to the next.
pub struct Note {
    state: State,
    kept: Kept,
    /// What is wanted; of what was only looked at, what the provider says could be.
    config: Value,
    planned: Option<Planned>,
    secrets: Secrets,
    /// It was kept for this object before it was looked at.
    ours: bool,
}

impl Note {
    /// What a user could have written to get this resource.
    fn could_be_written(&self) -> &Value {
        if self.config.is_null() { &self.state.value } else { &self.config }
    }
}

type Looking<'a> = Subject<'a, Configured>;

/// What calls are counted together: a process has one configuration, and so one account.
pub(crate) fn limit(provider: &Served, lease: &Lease) -> LimitKey {
    let process = lease.process_id().unwrap_or_default().to_string();
    LimitKey::of(["terraform", provider.name.as_str(), process.as_str()])
}

impl Terraform {
    /// `key` is the installation's; states are sealed with it.
    pub fn new(registry: Arc<Registry>, pool: Pool, key: &[u8; 32]) -> Result<Terraform, Failure> {
        Ok(Terraform {
            registry,
            pool,
            seal: Seal::new(key)?,
            backends: Backends::default(),
            egress: Egress::default(),
            openings: Openings::default(),
            opener: OnceLock::new(),
        })
    }

    /// With these backends for states.
    #[must_use]
    pub fn with_backends(self, backends: Backends) -> Terraform {
        Terraform { backends, ..self }
    }

    /// With the policies of the control planes. Without them, all may connect to public addresses only.
    #[must_use]
    pub fn with_egress(self, egress: Egress) -> Terraform {
        Terraform { egress, ..self }
    }

    /// What connects for a control plane to where its tenant says.
    pub fn caller(&self, control_plane: &str) -> Caller {
        self.egress.caller(control_plane)
    }

    /// With another place for what is open.
    #[must_use]
    pub fn with_openings(self, openings: Openings) -> Terraform {
        Terraform { openings, ..self }
    }

    /// What is open at the moment.
    pub fn openings(&self) -> &Openings {
        &self.openings
    }

    /// Says who opens what is ephemeral of objects; the first one does.
    pub fn opened_by(&self, opener: Box<dyn Opener>) {
        self.opener.get_or_init(|| opener);
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The provider of an object and the type of its resource.
    fn served(&self, facts: &Facts, object: &Json) -> Result<(Arc<Served>, String), Failure> {
        let kind = self.registry.kind(&facts.resource);
        let kind =
            kind.ok_or_else(|| Failure::recoverable("the provider of this kind is not there any more"))?;
        if let Some(of) = &kind.of {
            return Ok(of.clone());
        }
        let type_name = object.pointer("/spec/type").and_then(Json::as_str).unwrap_or_default();
        Ok((self.named(object)?, type_name.to_owned()))
    }

    /// The provider that an object names.
    pub(crate) fn named(&self, object: &Json) -> Result<Arc<Served>, Failure> {
        let name = object.pointer("/spec/provider").and_then(Json::as_str).unwrap_or_default();
        self.registry.provider(name).ok_or_else(|| {
            Failure::recoverable(format!("there is no Provider {name:?} that is ready")).at("spec.provider")
        })
    }

    /// What the provider is configured with, from the Secret that the object names.
    pub(crate) async fn configuration(
        &self,
        reader: &Reader<'_>,
        object: &Json,
        provider: &Served,
    ) -> Result<Json, Failure> {
        let namespace = meta::namespace(object);
        let name = object.pointer("/spec/providerRef/name").and_then(Json::as_str).unwrap_or_default();
        if name.is_empty() {
            if provider.catalogue.provider.block.members.values().any(|member| member.required) {
                let message = "the provider needs a configuration; name a Secret with the key \"provider\"";
                return Err(Failure::terminal(message).at("spec.providerRef.name"));
            }
            return Ok(json!({}));
        }
        let secret = reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| {
            Failure::recoverable(format!("Secret {namespace}/{name} does not exist")).at("spec.providerRef")
        })?;
        let config = wanted::key(&secret, "provider")?;
        config.ok_or_else(|| {
            let message = format!("Secret {namespace}/{name} has no key \"provider\"");
            Failure::recoverable(message).at("spec.providerRef")
        })
    }
}

impl Configured {
    fn identity(&self) -> Option<&IdentitySchema> {
        self.provider.catalogue.identity(&self.type_name).map(|schema| &**schema)
    }

    fn redact(&self, failure: Failure, secrets: &Secrets) -> Failure {
        let failure = failures::redact(failure, &self.redactions);
        failures::redact(failure, &secrets.texts())
    }

    /// What the provider says is amiss although it did what it was asked.
    fn warned(&self, subject: &Looking<'_>, diagnostics: &Diagnostics, secrets: &Secrets) {
        let own = self.lease.warnings().warnings().map(|warning| warning.to_string());
        let block = Some(&self.schema.block);
        let told = diagnostics.warnings().map(|warning| failures::warning(warning, block));
        for text in own.chain(told) {
            let text = failures::redacted(text, &self.redactions);
            subject.calls.warn(failures::redacted(text, &secrets.texts()));
        }
    }

    fn refused(&self, applied: &Applied, secrets: &Secrets) -> Option<Failure> {
        let diagnostics = &applied.diagnostics;
        diagnostics.has_errors().then(|| {
            let failure = failures::refused(diagnostics, Some(&self.schema.block), Class::Recoverable);
            self.redact(failure, secrets)
        })
    }
}

#[async_trait]
impl Driver for Terraform {
    type Connection = Configured;
    type Note = Note;

    fn name(&self) -> &'static str {
        "terraform"
    }

    fn watched(&self) -> Vec<CompactString> {
        vec!["secrets".into(), "configmaps".into()]
    }

    fn written_keys(&self) -> &'static [&'static str] {
        &wanted::OUTPUTS
    }

    fn kinds(&self) -> Vec<CompactString> {
        self.registry.kinds()
    }

    fn known_kinds(&self) -> Vec<CompactString> {
        self.registry.all_kinds()
    }

    fn facts(&self, kind: &str) -> Option<Arc<Facts>> {
        self.registry.kind(kind).map(|kind| kind.facts.clone())
    }

    fn invalid(&self, object: &Json) -> ErrorList {
        refusing::invalid(&self.registry, object)
    }

    fn refers_to(&self, object: &Json) -> Vec<Key> {
        let mut targets = referring::targets(&self.registry, object);
        targets.extend(children::stands_on(object));
        targets
    }

    fn also_known_as(&self, object: &Json) -> Vec<Key> {
        children::part_of(object).into_iter().collect()
    }

    fn refers_freely(&self) -> bool {
        true
    }

    fn behind(&self, facts: &Facts, object: &Json) -> CompactString {
        let text = |pointer: &str| object.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
        let provider = Some(text("/spec/provider")).filter(|name| !name.is_empty()).unwrap_or(&facts.service);
        let (namespace, configuration) = (meta::namespace(object), text("/spec/providerRef/name"));
        format!("{provider}/{namespace}/{configuration}").into()
    }

    fn patience(&self, object: &Json) -> Duration {
        telling::longest(object, self.pool.limits().change)
    }

    async fn connect(&self, around: &Surroundings<'_>) -> Result<Arc<Configured>, Failure> {
        // Where nobody was there to refuse the deletion, as on clusters that are not ours.
        if meta::is_deleting(around.object)
            && let Some(why) = around.facts.dialect.forbids_deletion(around.object)
        {
            return Err(Failure::terminal(why));
        }
        let (provider, type_name) = self.served(around.facts, around.object)?;
        let program = provider.program.as_ref();
        let program =
            program.ok_or_else(|| Failure::recoverable("the provider of this kind is not ready yet"))?;
        let schema = provider.catalogue.resource(&type_name);
        let schema = schema.map_err(|error| failures::failure(error, None, false).at("spec.type"))?;
        let mut json = self.configuration(around.reader, around.object, &provider).await?;
        let remote = self.remote(around).await?;
        let block = &provider.catalogue.provider.block;
        let (mut config, mut redactions) = wanted::configuration(block, &json)?;
        // Without what is ephemeral: nobody has edited what is another one each time.
        let visible = shape::shown(block, &config).to_string();
        let opened = self.opened(around).await?;
        if let (Json::Object(all), Some(Json::Object(own))) = (&mut json, &opened.provider) {
            all.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
            (config, redactions) = wanted::configuration(block, &json)?;
        }
        redactions.extend(opened.texts());
        let program = program.on_behalf_of(around.control_plane);
        let lease = self.pool.lease(&program, &provider.digest, &config).await;
        let lease = lease.map_err(|error| {
            // A configuration that is refused is the Secret's fault, which is looked at again when it changes.
            let failure = failures::failure(error, None, false);
            failures::redact(failure, &redactions).at("spec.providerRef")
        })?;
        let limit = limit(&provider, &lease);
        let pool = self.pool.clone();
        Ok(Arc::new(Configured {
            lease,
            pool,
            provider,
            type_name,
            schema,
            limit,
            visible,
            redactions,
            remote,
            opened,
        }))
    }

    async fn prepare(
        &self,
        around: &Surroundings<'_>,
        connection: &Arc<Configured>,
        desired: &mut Json,
    ) -> Result<(), Failure> {
        // What goes does not wait for others.
        if meta::is_deleting(around.object) {
            return Ok(());
        }
        referring::resolve(&self.registry, &connection.schema.block, around, desired).await
    }

    fn identify(&self, _: &Facts, _: &BTreeMap<String, String>, _: &mut Json) -> Result<(), Failure> {
        Ok(())
    }

    async fn observe(&self, subject: &Looking<'_>) -> Result<Observation<Note>, Failure> {
        let connection = subject.connection;
        let mut secrets = match Self::secrets(subject).await {
            Ok(secrets) => secrets,
            // Without it nothing can be planned, but what is there can be deleted.
            Err(_) if meta::is_deleting(subject.object) => Secrets::default(),
            Err(failure) => return Err(failure),
        };
        let (kept, state) = self.known(subject, &secrets).await?;
        let Some(state) = state else { return Ok(Observation::Absent) };
        let read = connection.lease.read(&connection.type_name, &state);
        let read = Self::ask(subject, Call::ReadResource, &secrets, read).await?;
        let Some(state) = read else { return Ok(Observation::Absent) };
        let ours = kept.resource.is_some();
        // What a module wishes is in a Secret already; what is only looked at has no wishes.
        let wished = children::part_of(subject.object).is_some();
        let watched = meta::annotation(subject.object, OBSERVE_ONLY) == Some("true");
        let mut config = Value::Null;
        if is_taking_over(subject.facts, subject.object) && !wished && !watched {
            if is_blank(subject.object) {
                config = Self::generated(subject, &secrets, &state).await?.unwrap_or(Value::Null);
            }
            let written = if config.is_null() { &state.value } else { &config };
            secrets = telling::take_over(subject, written, secrets).await?;
        }
        let tainted = kept.resource.as_ref().is_some_and(|resource| resource.tainted);
        let mut kept = self.settle(subject, &kept, &state, None, tainted, &secrets).await?;
        if !meta::is_deleting(subject.object) {
            kept = self.output(subject, kept, &state).await?;
        }
        let note = Note { state, kept, config, planned: None, secrets, ours };
        Ok(Observation::Present(Self::observed(subject, note)))
    }

    fn is_ours(&self, _: &Looking<'_>, observed: &Observed<Note>) -> bool {
        observed.note.ours
    }

    async fn plan(
        &self,
        subject: &Looking<'_>,
        observed: Option<&Observed<Note>>,
    ) -> Result<Plan<Note>, Failure> {
        let connection = subject.connection;
        let block = &connection.schema.block;
        let mut secrets = match observed {
            Some(observed) => observed.note.secrets.clone(),
            None => Self::secrets(subject).await?,
        };
        refusing::exposed(block, subject.object)?;
        let lasting = wanted::config(block, subject.desired, &secrets)?;
        let mut asked = lasting.to_state_json(connection.schema.ty()).unwrap_or_default();
        asked.extend_from_slice(connection.visible.as_bytes());
        let config = match &connection.opened.arguments {
            Some(open) => wanted::config(block, subject.desired, &secrets.with_input(open))?,
            None => lasting,
        };
        secrets.wanted = shape::secrets(block, &config);
        refusing::complete(block, subject.object, &config)?;
        let validate = connection.lease.validate(&connection.type_name, &config);
        let purpose = OperationType::ReadOne;
        let checked = Self::call(subject, purpose, Call::ValidateResourceConfig, &secrets, validate).await?;
        if checked.has_errors() {
            let failure = failures::refused(&checked, Some(block), Class::Terminal);
            return Err(connection.redact(failure, &secrets));
        }
        connection.warned(subject, &checked, &secrets);
        let none = State::none();
        let prior = observed.map_or(&none, |observed| &observed.note.state);
        let config = match observed {
            Some(_) => ignoring::without_ignored(subject.object, block, &prior.value, config)?,
            None => config,
        };
        let proposed = change::proposed(block, &prior.value, &config);
        let plan = connection.lease.plan(&connection.type_name, prior, &proposed, &config);
        let planned = Self::call(subject, purpose, Call::PlanResourceChange, &secrets, plan).await?;
        connection.warned(subject, &planned.warnings, &secrets);
        let tainted =
            observed.and_then(|observed| observed.note.kept.resource.as_ref()).is_some_and(|r| r.tainted);
        let mut changes = match observed {
            Some(_) => differences(block, &prior.value, &planned),
            None => settings(block, &planned),
        };
        if tainted {
            let reason = json!("its creation failed half-way");
            let replaced = Change::new("spec.resource", reason, Json::Null);
            changes.push(Change { replaces: true, ..replaced });
        }
        let calls = vec![format!("{}:ApplyResourceChange", connection.type_name)];
        let kept = observed.map(|observed| observed.note.kept.clone()).unwrap_or_default();
        let note = Note { state: prior.clone(), kept, config, planned: Some(planned), secrets, ours: true };
        Ok(Plan::new(changes, calls, note).asking(asked))
    }

    async fn create(
        &self,
        subject: &Looking<'_>,
        intent: &Intent,
        plan: &Plan<Note>,
    ) -> Result<Made, Failure> {
        self.locked(subject, Box::pin(self.make(subject, intent, plan))).await
    }

    async fn update(
        &self,
        subject: &Looking<'_>,
        observed: &Observed<Note>,
        plan: &Plan<Note>,
    ) -> Result<Updated<Note>, Failure> {
        self.locked(subject, Box::pin(self.change(subject, observed, plan))).await
    }

    async fn delete(&self, subject: &Looking<'_>, observed: &Observed<Note>) -> Result<Deleted, Failure> {
        self.locked(subject, Box::pin(self.unmake(subject, &observed.note))).await?;
        Ok(Deleted::Gone)
    }

    fn deposed(&self, subject: &Looking<'_>) -> Option<Json> {
        // What it takes to delete it is kept beside the object; this is for people.
        Some(json!({"id": subject.object.pointer("/spec/resource/id")}))
    }

    async fn delete_deposed(&self, subject: &Looking<'_>, _: &Json) -> Result<Deleted, Failure> {
        let kept = self.load(subject).await?;
        let secrets = Self::secrets(subject).await?;
        self.locked(subject, Box::pin(self.destroy_deposed(subject, &kept, &secrets))).await?;
        Ok(Deleted::Gone)
    }

    async fn recover(&self, subject: &Looking<'_>, intent: &Intent) -> Result<Recovery, Failure> {
        let connection = subject.connection;
        let kept = self.load(subject).await?;
        if kept.made_by.as_deref() == Some(&intent.token)
            && let Some(state) = kept
                .resource
                .as_ref()
                .and_then(|resource| resource.state(&connection.schema, connection.identity()))
        {
            return Ok(Recovery::Made(telling::record(subject, &state)));
        }
        if kept.creating.as_deref() != Some(&intent.token) {
            // The provider was never asked.
            return Ok(Recovery::NotMade);
        }
        let secrets = Self::secrets(subject).await?;
        if let Some(state) = self.import(subject, &secrets).await? {
            let record = telling::record(subject, &state);
            // The object still names what is to be replaced; that is not what was made in its place.
            let replaced = |deposed: &Json| deposed["id"] == record.spec["resource"]["id"];
            if !intent.deposed.as_ref().is_some_and(replaced) {
                // A user found it and says which one it is.
                let token = Some(intent.token.clone());
                self.settle(subject, &kept, &state, token, false, &secrets).await?;
                return Ok(Recovery::Made(record));
            }
        }
        if let Some(identity) = kept.sought(connection.identity()) {
            match Self::by_identity(subject, &secrets, &identity).await? {
                Sight::There(state) => {
                    let token = Some(intent.token.clone());
                    self.settle(subject, &kept, &state, token, false, &secrets).await?;
                    return Ok(Recovery::Made(telling::record(subject, &state)));
                }
                Sight::Nothing if subject.now.duration_since(intent.at) < IN_DOUBT => {
                    return Ok(Recovery::NotYet(LOOK_AGAIN));
                }
                Sight::Nothing => {
                    self.keep(subject, &kept.restored()).await?;
                    return Ok(Recovery::NotMade);
                }
                Sight::Unclear => {}
            }
        }
        let type_name = &connection.type_name;
        Ok(Recovery::Unknown(format!(
            "the provider was asked to create a {type_name} and its answer was lost; if it exists, set the \
             annotation {IMPORT_ID} to its id"
        )))
    }

    /// The id and the state, as they were last seen.
    fn shown(&self, subject: &Looking<'_>, observed: &Observed<Note>) -> Record {
        telling::record_naming(subject, &observed.note.state, &observed.note.secrets)
    }

    fn forgotten(&self, _: &Looking<'_>) -> Record {
        Record { spec: json!({"resource": {"id": null}, "state": null}), ..Record::default() }
    }
}
