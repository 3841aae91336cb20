//! One pass over one object: the states of `machine`, acted out.
//!
//! [`Pass::step`] is the whole machine: each state does its one thing and says which comes next. A failure of the
//! cloud leads to the verdict; a failure of the control plane ends the pass, and the runtime tries again.
//!
//! **Invariant:** dropping a pass at any await leaves the object and the resource such that the next pass goes on
//! rightly. That is what `kill -9` does to it, and what the tests do at every call.

mod changing;
mod deleting;
mod making;
pub(crate) mod order;
mod preview;
mod telling;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta};
use runtime::{Context, Next};
use serde_json::json;

use crate::applied::Applied;
use crate::calls::Calls;
use crate::dialect::{self, Advisory, Beginning, LateState, Look, ReferencesState, Verdict};
use crate::driver::{Connection, Driver, Observation, Observed, Place, Record, Subject, Surroundings};
use crate::engine::Shared;
use crate::facts::Facts;
use crate::failure::{Class, Failure};
use crate::intent::{Action, Intent};
use crate::machine::{Decision, Situation, State, decide};
use crate::plan::Plan;
use crate::plan::drift::DriftPolicy;
use crate::plan::guard::Guard;
use crate::policies::{Adoption, Controls, DeletionPolicy, Policies};
use crate::reading::Reader;
use crate::references::Resolver;
use crate::secrets::{self, Secrets};
use crate::writing;

/// Why a pass does not go on.
pub(crate) enum Stop {
    /// It is told to the user.
    Failed(Failure),
    /// The control plane could not be written to: nothing can be told, and it is tried again.
    Write(runtime::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<runtime::Error> for Stop {
    fn from(error: runtime::Error) -> Stop {
        Stop::Write(error)
    }
}

pub(crate) type Step = Result<State, Stop>;

pub(crate) struct Pass<'a, D: Driver> {
    engine: &'a Shared<D>,
    control_plane: &'a str,
    reader: &'a Reader<'a>,
    /// None while only a plan is asked for.
    context: Option<&'a Context>,
    client: Option<&'a kube::Client>,
    facts: Arc<Facts>,
    now: Timestamp,
    /// As it is stored; after each write, as it was answered.
    object: Value,

    controls: Controls,
    policies: Policies,
    applied: Applied,
    guard: Guard,
    intent: Option<Intent>,

    connection: Option<Arc<D::Connection>>,
    calls: Option<Calls>,
    desired: Value,
    /// What is desired lacks values of references that a resource can be made without.
    incomplete: bool,
    secrets: Secrets,

    observed: Option<Box<Observed<D::Note>>>,
    plan: Option<Plan<D::Note>>,
    /// A keyed hash of all that the plan was made for.
    asked: Option<String>,
    /// What calls want written on the object and what is not written yet.
    pending: Record,
    /// It was made in this pass, just as the object still says.
    made_so: bool,
    /// Went wrong after the resource was made.
    after_made: Option<Failure>,

    verdict: Verdict,
    references: ReferencesState,
    late: Option<LateState>,
    advisories: Vec<Advisory>,
    look: Look,
}

impl<'a, D: Driver> Pass<'a, D> {
    pub fn new(
        engine: &'a Shared<D>,
        control_plane: &'a str,
        reader: &'a Reader<'a>,
        context: Option<&'a Context>,
        facts: Arc<Facts>,
        object: Value,
        now: Timestamp,
    ) -> Self {
        Pass {
            engine,
            control_plane,
            reader,
            context,
            client: context.map(Context::client),
            now,
            controls: Controls::default(),
            policies: Policies::default(),
            applied: Applied::of(&object),
            guard: Guard::of(&object),
            intent: None,
            connection: None,
            calls: None,
            desired: object.clone(),
            incomplete: false,
            secrets: Secrets::default(),
            observed: None,
            plan: None,
            asked: None,
            pending: Record::default(),
            made_so: false,
            after_made: None,
            verdict: Verdict::Synced,
            references: ReferencesState::None,
            late: None,
            advisories: Vec::new(),
            look: Look::Never,
            facts,
            object,
        }
    }

    pub async fn run(mut self) -> Result<Next, runtime::Error> {
        let mut state = State::Judge;
        while state != State::End {
            tracing::trace!(
                control_plane = self.control_plane,
                name = meta::name(&self.object),
                ?state,
                "pass"
            );
            state = match Box::pin(self.step(state)).await {
                Ok(next) => next,
                Err(Stop::Failed(failure)) => {
                    self.verdict = Verdict::Failed(self.redacted(failure));
                    State::Tell
                }
                Err(Stop::Write(error)) => {
                    self.engine.metrics.passed(self.engine.driver.name(), "interrupted");
                    return Err(error);
                }
            };
        }
        self.tell_warnings().await;
        Ok(self.next())
    }

    async fn step(&mut self, state: State) -> Step {
        match state {
            State::Judge => self.judge().await,
            State::Connect => self.connect().await,
            State::Resolve => self.resolve().await,
            State::Recover => self.recover().await,
            State::Observe => self.observe().await,
            State::Decide => self.decide().await,
            State::Adopt { then_update } => self.adopt(then_update).await,
            State::Reclaim => self.reclaim().await,
            State::Plan => self.plan().await,
            State::Intend => self.intend().await,
            State::Create => self.create().await,
            State::Confirm => self.confirm().await,
            State::Close => self.close().await,
            State::Update => self.update().await,
            State::Verify => self.verify().await,
            State::Depose => self.depose().await,
            State::LateInitialize => self.late_initialize().await,
            State::BeforeDelete => self.before_delete().await,
            State::Delete => self.delete().await,
            State::Release => self.release().await,
            State::Tell => self.tell().await,
            State::End => Ok(State::End),
        }
    }

    /// A call of the driver, with an end. While it takes its time, others have the worker.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let driver = &self.engine.driver;
        let patience = self.engine.settings.patience.max(driver.patience(&self.object));
        let call = tokio::time::timeout(patience, call);
        let answer = match self.context {
            Some(context) => context.aside(&driver.behind(&self.facts, &self.object), call).await,
            None => call.await,
        };
        answer.unwrap_or_else(|_| Err(Failure::lost(format!("no answer within {} s", patience.as_secs()))))
    }

    fn deleting(&self) -> bool {
        meta::is_deleting(&self.object)
    }

    /// Whether the resource was made as the object says now.
    fn is_applied(&self) -> bool {
        self.applied.generation == Some(meta::generation(&self.object))
    }

    fn managed(&self) -> bool {
        meta::finalizers(&self.object).any(|one| one == self.facts.finalizer)
    }

    fn redacted(&self, failure: Failure) -> Failure {
        Failure { message: self.secrets.redact(&failure.message), ..failure }
    }

    async fn judge(&mut self) -> Step {
        if self.deleting() && !self.managed() {
            return Ok(State::End);
        }
        self.controls = match Controls::of(&self.object) {
            Ok(controls) => controls,
            // A typing error must not keep an object from going.
            Err(_) if self.deleting() => Controls::default(),
            Err(failure) => return Err(failure.into()),
        };
        if self.controls.paused {
            self.advise(
                dialect::PAUSED,
                "Nothing is done until the annotation hangar.dev/paused is taken away".to_owned(),
            );
            self.verdict = Verdict::Paused;
            return Ok(State::Tell);
        }
        self.intent = Intent::of(&self.object).map_err(Failure::terminal)?;
        let namespace = match (self.facts.dialect.reads_namespace(), meta::namespace(&self.object)) {
            (true, name) if !name.is_empty() => self.reader.peek("namespaces", "", name).await?,
            _ => None,
        };
        self.policies = self.facts.dialect.policies(&self.facts, &self.object, namespace.as_ref())?;
        if self.deleting() && (self.policies.deletion == DeletionPolicy::Retain || self.policies.read_only) {
            return Ok(State::Release);
        }
        Ok(State::Connect)
    }

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            control_plane: self.control_plane,
            facts: &self.facts,
            object: &self.object,
            reader: self.reader,
            now: self.now,
        }
    }

    /// Whether so many calls hang where this object's would go that it had better come later.
    fn is_crowded(&self) -> bool {
        let behind = self.engine.driver.behind(&self.facts, &self.object);
        self.context.is_some_and(|context| context.is_crowded(&behind))
    }

    async fn connect(&mut self) -> Step {
        if self.is_crowded() {
            // What is settled stays so; it is only looked at later.
            if self.is_applied() && !self.deleting() {
                self.look = Look::After(CROWDED);
                return Ok(State::End);
            }
            let why = "many calls to the same account are still under way; this one waits for them";
            self.verdict = match self.deleting() {
                true => Verdict::Deleting { message: why.to_owned(), after: CROWDED },
                false => self.not_synced(why, CROWDED),
            };
            return Ok(State::Tell);
        }
        let driver = &self.engine.driver;
        let connection = self.bounded(driver.connect(&self.surroundings())).await?;
        let bucket = self.engine.limits.bucket(&connection.limit(&self.facts));
        self.calls = Some(Calls::new(bucket, self.engine.metrics.clone(), self.facts.service.clone()));
        self.connection = Some(connection);
        Ok(State::Resolve)
    }

    async fn resolve(&mut self) -> Step {
        // What goes, or is only looked at, does not wait for others.
        let adopting = self.policies.adoption == Some(Adoption::Adopt);
        let lenient = self.deleting() || self.policies.read_only || adopting;
        let dependable = |kind: &str, object: &Value| match self.engine.driver.facts(kind) {
            Some(facts) => facts.dialect.dependable(object),
            None => dialect::Dependable::Yes,
        };
        let cross_namespace = self.engine.settings.cross_namespace;
        let resolver = Resolver {
            reader: self.reader,
            facts: &self.facts,
            object: &self.object,
            cross_namespace,
            dependable: &dependable,
        };
        match resolver.resolve().await {
            Ok(resolved) => {
                self.desired = resolved.desired;
                self.advisories.extend(resolved.advisories);
                self.references = resolved.state;
                // Once it is there, all that it should be is waited for.
                let made = self.managed() && self.intent.is_none();
                let waits = matches!(self.references, ReferencesState::Waiting(_));
                self.incomplete = waits && resolved.later && !made && !lenient;
            }
            Err(_) if lenient => {}
            Err(failure) => return Err(failure.into()),
        }
        match &self.references {
            _ if lenient || self.incomplete => {}
            ReferencesState::Waiting(why) => return Err(Failure::waiting(Duration::ZERO, why).into()),
            ReferencesState::Broken(why) => return Err(Failure::terminal(why).into()),
            ReferencesState::None | ReferencesState::Resolved => {}
        }
        let key = &self.engine.settings.fingerprints;
        let applied = meta::annotation(&self.object, crate::policies::APPLIED).map(|_| &self.applied.secrets);
        match secrets::resolve(self.reader, &self.facts, &self.object, applied, key, cross_namespace).await {
            Ok(secrets) => self.secrets = secrets,
            Err(_) if lenient => {}
            Err(failure) => return Err(failure.into()),
        }
        self.prepare().await?;
        Ok(if self.intent.is_some() { State::Recover } else { State::Observe })
    }

    async fn prepare(&mut self) -> Result<(), Stop> {
        let Some(connection) = self.connection.clone() else { return Err(unconnected().into()) };
        let mut desired = std::mem::take(&mut self.desired);
        let surroundings = self.surroundings();
        let prepared = self.engine.driver.prepare(&surroundings, &connection, &mut desired);
        let prepared = self.bounded(prepared).await;
        self.desired = desired;
        prepared?;
        if let Some(fields) = &self.policies.adoption_fields {
            let mut found = self.desired.clone();
            self.engine.driver.identify(&self.facts, fields, &mut found)?;
            if self.policies.adoption == Some(Adoption::AdoptOrCreate) {
                found["spec"] = self.desired["spec"].take();
            }
            self.desired = found;
        }
        Ok(())
    }

    fn subject(&self) -> Result<Subject<'_, D::Connection>, Failure> {
        let (Some(connection), Some(calls)) = (&self.connection, &self.calls) else {
            return Err(unconnected());
        };
        Ok(Subject {
            control_plane: self.control_plane,
            facts: &self.facts,
            object: &self.object,
            desired: &self.desired,
            secrets: &self.secrets,
            connection,
            calls,
            reader: self.reader,
            client: self.client,
            now: self.now,
        })
    }

    fn place(&self) -> Option<&Place> {
        self.connection.as_ref().and_then(|connection| connection.place())
    }

    /// Looks at the resource; what was seen before is forgotten.
    async fn look_at(&mut self) -> Result<(), Failure> {
        self.observed = None;
        let seen = self.bounded(self.engine.driver.observe(&self.subject()?)).await;
        match seen {
            Ok(Observation::Present(observed)) => self.observed = Some(observed),
            Ok(Observation::Absent) => {}
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    async fn observe(&mut self) -> Step {
        self.look_at().await?;
        let replacing = self.intent.as_ref().is_some_and(|intent| intent.action == Action::ReplaceDelete);
        Ok(if replacing && !self.deleting() { State::Depose } else { State::Decide })
    }

    fn is_ours(&self) -> bool {
        let (Some(observed), Ok(subject)) = (&self.observed, self.subject()) else { return false };
        self.engine.driver.is_ours(&subject, observed)
    }

    fn situation(&self) -> Situation {
        let applied = self.is_applied();
        Situation {
            deleting: self.deleting(),
            managed: self.managed(),
            ours: self.is_ours(),
            read_only: self.policies.read_only,
            adopted: self.policies.adopted,
            adoption: self.policies.adoption,
            present: self.observed.is_some(),
            drift_stays: applied && self.controls.drift != DriftPolicy::Correct,
        }
    }

    async fn decide(&mut self) -> Step {
        match decide(&self.situation()) {
            Decision::Go(state) => Ok(state),
            Decision::Refresh => {
                if let Some(observed) = &self.observed {
                    let shown = self.engine.driver.shown(&self.subject()?, observed);
                    self.pending.add(shown);
                    let patch = self.take_pending();
                    self.write(patch).await?;
                }
                self.verdict = self.readiness();
                Ok(State::Tell)
            }
            Decision::NotFound(why) => Err(Failure::recoverable(why).into()),
            Decision::Taken => {
                let failure = Failure::new(Class::Exists, "", "Resource already exists");
                Err(failure.into())
            }
            Decision::ReportGone => {
                self.advise(dialect::DRIFTED, "the resource is gone".to_owned());
                self.verdict = self.not_synced("the resource is gone", self.interval());
                Ok(State::Tell)
            }
        }
    }

    fn not_synced(&self, message: impl Into<String>, after: impl Into<Option<Duration>>) -> Verdict {
        Verdict::NotSynced { message: self.secrets.redact(&message.into()), after: after.into() }
    }

    fn advise(&mut self, reason: &'static str, message: String) {
        self.advisories.push(Advisory { reason, message: self.secrets.redact(&message) });
    }

    /// How often the resource is looked at when there is nothing to do.
    fn interval(&self) -> Duration {
        self.controls.interval.or(self.facts.interval).unwrap_or(self.engine.settings.interval)
    }

    fn client(&self) -> Result<&'a kube::Client, Stop> {
        self.client
            .ok_or_else(|| Stop::Failed(Failure::terminal("nothing is written while only a plan is made")))
    }

    fn writing_place(&self) -> writing::Place {
        writing::Place::of(&self.object, self.facts.plural())
    }

    /// Writes a merge patch of the object (not of its status) if it changes anything. What somebody else has changed
    /// since it was read stays theirs.
    async fn write(&mut self, mut patch: Value) -> Result<(), Stop> {
        let Some(changes) = writing::effective(&self.object, &patch) else { return Ok(()) };
        patch = changes;
        self.mark_own(&mut patch);
        let (client, place) = (self.client()?, self.writing_place());
        patch["metadata"]["resourceVersion"] = meta::resource_version(&self.object).into();
        for _ in 0..CONFLICTS {
            match writing::patch(client, &place, "", &patch).await {
                Ok(written) => {
                    self.object = written;
                    return Ok(());
                }
                Err(error) if error.code() == Some(409) => {
                    let current = writing::get(client, &place).await?;
                    if meta::uid(&current) != meta::uid(&self.object) {
                        return Err(error.into());
                    }
                    self.unedited(&mut patch);
                    patch = writing::undisputed(&patch, &self.object, &current);
                    let Some(changes) = writing::effective(&current, &patch) else {
                        self.object = current;
                        return Ok(());
                    };
                    patch = changes;
                    patch["metadata"]["resourceVersion"] = meta::resource_version(&current).into();
                }
                // What there is to remember must not be lost over a field that is refused.
                Err(error) if is_refused(&error) && patch.get("spec").is_some() => {
                    self.advise(dialect::NOT_WRITTEN, format!("the spec cannot be written: {error}"));
                    self.unedited(&mut patch);
                    if let Some(patch) = patch.as_object_mut() {
                        patch.remove("spec");
                    }
                }
                Err(error) if is_refused(&error) => return Err(refused(&error).into()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Stop::Write(runtime::Error::failed("the object changes too often to be written")))
    }

    /// A write of the spec gives the object another generation: says in it that it was us, so that it is not taken for
    /// an edit, whatever becomes of the resource.
    fn mark_own(&mut self, patch: &mut Value) {
        let next = Some(meta::generation(&self.object) + 1);
        if patch.get("spec").is_some() && self.applied.generation != next {
            self.applied.written = next;
            patch["metadata"]["annotations"][crate::policies::APPLIED] = json!(self.applied.to_annotation());
        }
    }

    /// What somebody edits meanwhile has not been applied, whatever generation it got.
    fn unedited(&self, patch: &mut Value) {
        let Some(annotation) =
            patch.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(crate::policies::APPLIED))
        else {
            return;
        };
        let generation = self.applied.generation.map(|applied| applied.min(meta::generation(&self.object)));
        let applied = Applied { generation, written: None, ..self.applied.clone() };
        *annotation = json!(applied.to_annotation());
    }

    /// Writes a patch only if nobody has touched the object since it was read.
    async fn write_locked(&mut self, mut patch: Value) -> Result<(), Stop> {
        patch["metadata"]["resourceVersion"] = meta::resource_version(&self.object).into();
        match writing::patch(self.client()?, &self.writing_place(), "", &patch).await {
            Ok(written) => self.object = written,
            Err(error) if is_refused(&error) => return Err(refused(&error).into()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn write_status(&mut self, status: &Value) -> Result<bool, Stop> {
        let before = self.object.get("status").cloned().unwrap_or_else(|| json!({}));
        let Some(changes) = writing::difference(&before, status) else { return Ok(false) };
        let patch = json!({"metadata": {"uid": meta::uid(&self.object)}, "status": changes});
        self.object = writing::patch(self.client()?, &self.writing_place(), "status", &patch).await?;
        Ok(true)
    }

    /// Tells what is about to happen, in dialects that do.
    async fn begin(&mut self, beginning: Beginning) -> Result<(), Stop> {
        if let Some(status) = self.facts.dialect.beginning(&self.object, beginning, self.now) {
            self.write_status(&status).await?;
        }
        Ok(())
    }
}

/// Whether the control plane understood a write and does not want it: trying again does not help by itself.
fn is_refused(error: &runtime::Error) -> bool {
    matches!(error.code(), Some(400 | 403 | 413 | 422))
}

fn refused(error: &runtime::Error) -> Failure {
    Failure::new(Class::Recoverable, "ControlPlane", format!("the object cannot be written: {error}"))
}

/// Until who waits for the calls of others looks whether they have ended.
const CROWDED: Duration = Duration::from_secs(10);

/// How often a write is tried again because somebody else was quicker.
const CONFLICTS: usize = 5;

/// Never seen: states come in their order.
fn unconnected() -> Failure {
    Failure::recoverable("the pass has no connection yet")
}
