//! Making a resource, exactly once: intent, call, record, look, and only then the end of the intent.

use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta};
use serde_json::{Map, json};

use super::{Pass, Step, Stop};
use crate::dialect::Beginning;
use crate::driver::{Deleted, Driver, Record, Recovery};
use crate::events::Severity;
use crate::failure::{Class, Failure};
use crate::intent::{self, Action, Intent};
use crate::machine::State;
use crate::policies::APPLIED;
use crate::references;
use crate::writing;

/// How long something that was made may stay unseen before that is a fault, and no longer a read that lags behind.
const UNSEEN: Duration = Duration::from_secs(5 * 60);
/// Between looks for it, at first and at most.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_secs(30);
/// When the name is taken after an earlier try whose fate is unknown, reads lag behind.
const LAGGING: Duration = Duration::from_secs(5);
/// When it is taken after so many tries, it is somebody else's.
const TRIES: u32 = 8;
/// Tries to record what was made, before it is left to the next pass to find it.
const RECORD_TRIES: u32 = 4;

impl<D: Driver> Pass<'_, D> {
    /// An intent is open: nothing is made before it is known what became of it.
    pub(super) async fn recover(&mut self) -> Step {
        let Some(intent) = self.intent.clone() else { return Ok(State::Observe) };
        match intent.action {
            Action::ReplaceDelete => return Ok(State::Observe),
            Action::ReplaceCleanup => return Ok(State::Confirm),
            Action::Create | Action::ReplaceCreate if intent.made.is_some() => return Ok(State::Confirm),
            Action::Create | Action::ReplaceCreate => {}
        }
        match self.bounded(self.engine.driver.recover(&self.subject()?, &intent)).await? {
            Recovery::Made(record) => {
                tracing::info!(
                    control_plane = self.control_plane, kind = %self.facts.resource, name = meta::name(&self.object),
                    "found what was made before an interruption"
                );
                self.record(record).await?;
                Ok(State::Confirm)
            }
            // What has this object's name but was not made for it is not this object's to delete.
            Recovery::NotMade if self.deleting() && intent.action == Action::Create => Ok(State::Release),
            Recovery::NotMade if self.deleting() => Ok(State::Observe),
            Recovery::NotMade | Recovery::Repeat => Ok(State::Plan),
            Recovery::NotYet(after) => {
                let why = "it is not known yet whether the resource was made before an interruption";
                Err(Failure::waiting(after, why).into())
            }
            Recovery::Unknown(why) => {
                let why = format!("{why}. If nothing was made, remove the annotation {}", intent::ANNOTATION);
                Err(Failure::new(Class::Terminal, intent::UNKNOWN, why).into())
            }
        }
    }

    /// The intent and the finalizer, in one write that fails if anything has changed.
    pub(super) async fn intend(&mut self) -> Step {
        let replaces = self.intent.as_ref().is_some_and(|intent| intent.action != Action::Create);
        let beginning = match (self.deleting(), replaces) {
            (true, _) => Beginning::Deleting,
            (false, true) => Beginning::Replacing,
            (false, false) => Beginning::Creating,
        };
        self.begin(beginning).await?;
        let mut patch = json!({});
        if self.intent.is_none() && self.managed() && !self.facts.dialect.identity_in_spec() {
            // What was made before is gone. Nobody must take its name for that of what is made now.
            patch = self.forget().await?;
            self.know(&Record::default());
        }
        let intent = match &self.intent {
            Some(open) => open.next_try(self.now),
            None => Intent::new(Action::Create, &self.object, self.now),
        };
        let mut finalizers: Vec<Value> = meta::list(&self.object, "finalizers").to_vec();
        if !self.managed() {
            finalizers.push(self.facts.finalizer.as_str().into());
        }
        patch["metadata"]["finalizers"] = finalizers.into();
        patch["metadata"]["annotations"][intent::ANNOTATION] = intent.to_annotation();
        self.write_locked(patch).await?;
        self.intent = Some(intent);
        Ok(State::Create)
    }

    /// Takes what names a resource that is gone out of the status; what else is to be forgotten is returned as a patch.
    async fn forget(&mut self) -> Result<Value, Stop> {
        let forgotten = self.engine.driver.forgotten(&self.subject()?);
        if forgotten == Record::default() {
            return Ok(json!({}));
        }
        let status = self.facts.dialect.recorded(&self.object, &forgotten, self.place());
        self.write_status(&status).await?;
        self.pending = Record { status: Value::Null, ..forgotten };
        Ok(self.take_pending())
    }

    pub(super) async fn create(&mut self) -> Step {
        let (Some(intent), Some(plan)) = (self.intent.clone(), self.plan.take()) else {
            return Ok(State::Plan);
        };
        let made = self.bounded(self.engine.driver.create(&self.subject()?, &intent, &plan)).await;
        match made {
            Ok(made) => {
                self.after_made = made.failure;
                self.record(made.record).await?;
                self.event(Severity::Normal, "Created", "The resource was created").await;
                Ok(State::Confirm)
            }
            Err(failure) if failure.ambiguous && failure.class == Class::Exists => {
                Err(Failure::waiting(LAGGING, format!("{failure}; it may be what an earlier try made"))
                    .into())
            }
            Err(failure) if failure.ambiguous => {
                // A service that did not answer in time may still be at it.
                let doubtful = intent.in_doubt(Timestamp::now());
                let annotations = json!({intent::ANNOTATION: doubtful.to_annotation()});
                self.write(json!({"metadata": {"annotations": annotations}})).await?;
                Err(failure.into())
            }
            // What goes is made again only to find what may be there: whether it is, a refusal does not tell.
            Err(failure) if self.deleting() => Err(failure.into()),
            Err(failure) if failure.class == Class::Exists && (2..TRIES).contains(&intent.tries) => {
                Err(Failure::waiting(LAGGING, format!("{failure}; it may be what an earlier try made"))
                    .into())
            }
            Err(failure) => {
                self.withdraw(&intent).await?;
                Err(failure.into())
            }
        }
    }

    /// Nothing was made: the object may go freely.
    async fn withdraw(&mut self, intent: &Intent) -> Result<(), Stop> {
        let mut metadata = json!({"annotations": {intent::ANNOTATION: null}});
        if intent.action == Action::Create {
            metadata["finalizers"] = self.other_finalizers();
        }
        self.intent = None;
        self.write(json!({"metadata": metadata})).await
    }

    pub(super) fn other_finalizers(&self) -> Value {
        let others: Vec<&str> =
            meta::finalizers(&self.object).filter(|one| *one != self.facts.finalizer).collect();
        if others.is_empty() { Value::Null } else { json!(others) }
    }

    /// What names the resource is written before anything else happens. A failure to write leaves the intent open.
    pub(super) async fn record(&mut self, record: Record) -> Result<(), Stop> {
        let status = self.facts.dialect.recorded(&self.object, &record, self.place());
        let mut tries = 0;
        loop {
            tries += 1;
            match self.write_status(&status).await {
                Ok(_) => break,
                Err(Stop::Write(error)) if tries < RECORD_TRIES && error.code() != Some(404) => {
                    tracing::warn!(control_plane = self.control_plane, name = meta::name(&self.object), %error, "what was made cannot be recorded yet");
                    tokio::time::sleep(Duration::from_millis(50) * tries).await;
                }
                Err(stop) => {
                    if let Stop::Write(error) = &stop {
                        let (kind, name) = (&self.facts.resource, meta::name(&self.object));
                        tracing::error!(control_plane = self.control_plane, %kind, name, arn = record.arn, %error, "a resource was made and cannot be recorded");
                    }
                    return Err(stop);
                }
            }
        }
        self.pending = record.clone();
        self.pending.status = Value::Null;
        if self.facts.dialect.identity_in_spec() {
            let patch = self.take_pending();
            self.write(patch).await?;
        }
        self.know(&record);
        Ok(())
    }

    /// What is desired names what was made: later calls of this pass are about that.
    pub(super) fn know(&mut self, record: &Record) {
        for part in ["metadata", "status"] {
            self.desired[part] = self.object[part].clone();
        }
        if record.spec.is_object() {
            objects::patch::merge(&mut self.desired["spec"], &record.spec);
        }
    }

    /// What is still to be written of what calls returned, as a patch of the object.
    pub(super) fn take_pending(&mut self) -> Value {
        let record = std::mem::take(&mut self.pending);
        let annotations: Map<String, Value> =
            record.annotations.into_iter().map(|(name, value)| (name, json!(value))).collect();
        let mut patch = json!({"metadata": {"annotations": annotations}});
        if let Value::Object(spec) = record.spec {
            let mut spec = Value::Object(spec);
            references::strip(&self.facts, &self.object, &mut spec);
            patch["spec"] = spec;
        }
        patch
    }

    /// Notes in a patch that the resource is now as the object says, with the generation that the patch leads to.
    pub(super) fn note_applied(&mut self, patch: &mut Value) {
        let spec = self.object.get("spec").unwrap_or(&Value::Null);
        let edits = patch.get("spec").and_then(|patch| writing::effective(spec, patch)).is_some();
        self.applied.generation = Some(meta::generation(&self.object) + i64::from(edits));
        self.applied.written = None;
        self.applied.asked = self.asked.clone();
        self.applied.secrets = self.secrets.applied(&self.engine.settings.fingerprints);
        patch["metadata"]["annotations"][APPLIED] = json!(self.applied.to_annotation());
    }

    /// Notes in a patch that the call that made the resource had the values of the secrets. The object as a whole is
    /// applied only when an update has put what that call could not carry.
    fn note_secrets(&mut self, patch: &mut Value) {
        self.applied.secrets = self.secrets.applied(&self.engine.settings.fingerprints);
        self.secrets.settle();
        patch["metadata"]["annotations"][APPLIED] = json!(self.applied.to_annotation());
    }

    /// The intent ends only when what was made has been seen: a look that lags behind must not lead to a second one, and
    /// neither must one that never shows it.
    pub(super) async fn confirm(&mut self) -> Step {
        self.look_at().await?;
        if self.observed.is_some() {
            return Ok(State::Close);
        }
        let Some(intent) = self.intent.clone() else { return Ok(State::Decide) };
        let made = intent.made.unwrap_or(self.now);
        let waited = Duration::try_from(self.now.duration_since(made)).unwrap_or_default();
        if self.deleting()
            && let Some(next) = self.delete_unseen(waited).await?
        {
            return Ok(next);
        }
        if intent.made.is_none() {
            let noted = Intent { made: Some(made), ..intent };
            self.write(json!({"metadata": {"annotations": {intent::ANNOTATION: noted.to_annotation()}}}))
                .await?;
            self.intent = Some(noted);
        }
        if waited > UNSEEN {
            let recorded = self.engine.driver.recorded(&self.subject()?);
            let arn = recorded.and_then(|recorded| recorded.arn).map(|arn| format!(" as {arn}"));
            let message = format!(
                "the resource was made{} and no read shows it; it is not made again. If it is gone, remove the annotation {}",
                arn.unwrap_or_default(),
                intent::ANNOTATION
            );
            return Err(Failure::recoverable(message).into());
        }
        let after = waited.clamp(FIRST_LOOK, LAST_LOOK);
        self.verdict = self.not_synced("the resource was made and cannot be seen yet", after);
        Ok(State::Tell)
    }

    /// What was made and is not seen is deleted by what its record names it. That there is nothing to delete may be a
    /// service that lags behind, so it is believed only after a while.
    async fn delete_unseen(&mut self, waited: Duration) -> Result<Option<State>, Stop> {
        let over = (waited > UNSEEN).then_some(State::Release);
        let Some(recorded) = self.engine.driver.recorded(&self.subject()?) else { return Ok(over) };
        match self.bounded(self.engine.driver.delete(&self.subject()?, &recorded)).await {
            Ok(Deleted::Gone | Deleted::Going(_)) => {
                self.event(Severity::Normal, "Deleted", "The resource was deleted").await;
                Ok(Some(State::Release))
            }
            Err(failure) if failure.is_not_found() => Ok(over),
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) async fn close(&mut self) -> Step {
        let generation = meta::generation(&self.object);
        self.made_so = self.intent.as_ref().is_some_and(|intent| intent.generation == generation);
        let mut patch = self.take_pending();
        let deposed = self.intent.as_ref().and_then(|intent| intent.deposed.clone());
        let action = self.intent.as_ref().map(|intent| intent.action);
        let next = match (&deposed, action, &self.intent) {
            (Some(_), Some(Action::ReplaceCreate), Some(intent)) => {
                Some(Intent { action: Action::ReplaceCleanup, ..intent.clone() })
            }
            (Some(_), Some(Action::ReplaceCleanup), Some(intent)) => Some(intent.clone()),
            _ => None,
        };
        let annotation = next.as_ref().map_or(Value::Null, Intent::to_annotation);
        patch["metadata"]["annotations"][intent::ANNOTATION] = annotation;
        if next.is_none() {
            self.note_secrets(&mut patch);
        }
        self.write(patch).await?;
        self.intent = next;
        if self.intent.is_some()
            && let Some(deposed) = deposed
        {
            let driver = &self.engine.driver;
            match self.bounded(driver.delete_deposed(&self.subject()?, &deposed)).await {
                Ok(Deleted::Gone) => {}
                Err(failure) if failure.is_not_found() => {}
                Ok(Deleted::Going(after)) => {
                    self.verdict = self.not_synced("the resource that was replaced is going", after);
                    return Ok(State::Tell);
                }
                Err(failure) => return Err(failure.into()),
            }
            let mut patch = json!({"metadata": {"annotations": {intent::ANNOTATION: null}}});
            self.note_secrets(&mut patch);
            self.write(patch).await?;
            self.intent = None;
        }
        if let Some(failure) = self.after_made.take() {
            return Err(failure.into());
        }
        Ok(if self.deleting() { State::Decide } else { State::Plan })
    }

    /// A replacement, the old one first.
    pub(super) async fn depose(&mut self) -> Step {
        if let Some(observed) = self.observed.take() {
            self.begin(Beginning::Replacing).await?;
            match self.bounded(self.engine.driver.delete(&self.subject()?, &observed)).await {
                Ok(Deleted::Gone) => {}
                Err(failure) if failure.is_not_found() => {}
                Ok(Deleted::Going(after)) => {
                    self.verdict = self.not_synced("the resource that is to be replaced is going", after);
                    return Ok(State::Tell);
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        let mut patch = self.forget().await?;
        // A new token: this is another resource than the one the old token was for.
        let intent = Intent { tries: 0, ..Intent::new(Action::ReplaceCreate, &self.object, self.now) };
        patch["metadata"]["annotations"][intent::ANNOTATION] = intent.to_annotation();
        self.write(patch).await?;
        self.desired = self.object.clone();
        self.intent = Some(intent);
        // What is desired is made out of the object anew, now that it no longer names the old resource.
        let resolved = Box::pin(self.resolve()).await?;
        Ok(if resolved == State::Recover { State::Plan } else { resolved })
    }
}
