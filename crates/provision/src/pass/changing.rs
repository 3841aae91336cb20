//! Making a resource as desired: plan, sort out what may be done, do it, and look whether it helped.

use std::time::Duration;

use objects::{Value, meta};
use serde_json::json;

use super::{Pass, Step, Stop};
use crate::dialect::{self, Beginning, LateState, Verdict};
use crate::driver::{Connection, Driver, Readiness, Record};
use crate::events::Severity;
use crate::failure::Failure;
use crate::intent::{Action, Intent};
use crate::machine::State;
use crate::plan::{self, Change, Preview, Verb, drift, guard};
use crate::policies::{self, ReplacePolicy};
use crate::references;
use crate::writing;

/// Until a field that still differs is looked at again: reads may lag behind.
const DIFFERS: Duration = Duration::from_secs(5);

impl<D: Driver> Pass<'_, D> {
    /// What the readiness of the resource means for the verdict.
    pub(super) fn readiness(&self) -> Verdict {
        match self.observed.as_ref().map(|observed| &observed.readiness) {
            None | Some(Readiness::Ready) => Verdict::Synced,
            Some(Readiness::Busy { message, after } | Readiness::NotReady { message, after }) => {
                self.not_synced(message, *after)
            }
            Some(Readiness::Failed { message }) => Verdict::Failed(self.redacted(Failure::terminal(message))),
        }
    }

    fn is_busy(&self) -> bool {
        let readiness = self.observed.as_ref().map(|observed| &observed.readiness);
        matches!(readiness, Some(Readiness::Busy { .. }))
    }

    pub(super) async fn plan(&mut self) -> Step {
        if self.incomplete && self.observed.is_some() {
            Box::pin(self.resolve()).await?;
        }
        if self.is_busy() {
            self.verdict = self.readiness();
            return Ok(State::Tell);
        }
        let driver = &self.engine.driver;
        let mut plan = self.bounded(driver.plan(&self.subject()?, self.observed.as_deref())).await?;
        if self.observed.is_none() {
            let approved = self.approved(&self.preview_of(Verb::Create, &[], &plan.calls));
            self.plan = Some(plan);
            return self.if_approved(approved, State::Intend);
        }
        let changes = std::mem::take(&mut plan.changes);
        self.asked = Some(self.fingerprint(&plan));
        let (generation, applied) = (meta::generation(&self.object), self.applied_generation());
        let drifted = match drift::judge(self.controls.drift, generation, applied, &changes) {
            drift::Verdict::Make { drifted } => drifted,
            drift::Verdict::Ignore => return Ok(State::LateInitialize),
            drift::Verdict::Report => {
                let described = plan::describe(&changes);
                self.advise(dialect::DRIFTED, described.clone());
                self.verdict = self.not_synced(format!("drifted: {described}"), self.interval());
                return Ok(State::Tell);
            }
        };
        if self.made_so {
            let fixed: Vec<Change> = changes.iter().filter(|change| change.replaces).cloned().collect();
            self.guard = self.guard.given_up(&fixed);
        }
        let still = self.guard.still(&changes);
        let (changes, stuck) = self.guard.divide(changes);
        self.guard = still;
        self.report_stuck(&stuck);
        if changes.is_empty() {
            return Ok(State::LateInitialize);
        }
        plan.changes = changes;
        let replaces = plan.replaces();
        let verb = if replaces { Verb::Replace } else { Verb::Update };
        let approved = self.approved(&self.preview_of(verb, &plan.changes, &plan.calls));
        let next = if !replaces {
            State::Update
        } else if approved.is_ok() && self.client.is_some() {
            self.begin_replacement(&plan.changes).await?
        } else {
            State::Intend
        };
        if drifted && approved.is_ok() {
            self.event(Severity::Normal, "DriftDetected", &plan::describe(&plan.changes)).await;
        }
        self.plan = Some(plan);
        self.if_approved(approved, next)
    }

    /// Of all that a plan was made for, wherever it was written.
    fn fingerprint(&self, plan: &plan::Plan<D::Note>) -> String {
        let references: Vec<_> = references::values(&self.facts, &self.object, &self.desired)
            .into_iter()
            .map(|(path, value)| (path, value.to_string()))
            .collect();
        let references = references.iter().map(|(path, value)| (path.as_str(), value.as_bytes()));
        let secrets = self.secrets.values().map(|(field, value)| (field, value.expose().as_bytes()));
        let asked = [("", plan.asked.expose().as_slice())].into_iter();
        self.engine.settings.fingerprints.hash_all(references.chain(secrets).chain(asked))
    }

    /// The generation that the resource was last made like; none if a Secret or another object that a value comes from
    /// has been edited since.
    fn applied_generation(&self) -> Option<i64> {
        let key = &self.engine.settings.fingerprints;
        let edited = self.applied.asked.as_ref().zip(self.asked.as_ref());
        self.applied.generation.filter(|_| !edited.is_some_and(|(before, now)| key.differ(before, now)))
    }

    fn report_stuck(&mut self, stuck: &[Change]) {
        if !stuck.is_empty() {
            let message =
                format!("written and still different, not written again: {}", plan::describe(stuck));
            self.advise(dialect::NOT_CONVERGING, message);
        }
    }

    pub(super) fn preview_of(&self, verb: Verb, changes: &[Change], calls: &[String]) -> Preview {
        let place = self.connection.as_ref().map(|connection| connection.display()).unwrap_or_default();
        Preview { verb, place, changes: changes.to_vec(), calls: calls.to_vec(), remarks: Vec::new() }
    }

    /// Whether a plan may be carried out; if not, what would have to be approved.
    fn approved(&self, preview: &Preview) -> Result<(), String> {
        let fingerprint = preview.fingerprint();
        if !self.controls.approval
            || self.deleting()
            || self.controls.approved.as_deref() == Some(&fingerprint)
        {
            return Ok(());
        }
        let what = match preview.verb {
            Verb::Create => format!("create by {}", preview.calls.join(", ")),
            verb => format!("{}: {}", format!("{verb:?}").to_lowercase(), plan::describe(&preview.changes)),
        };
        let approve = format!("set the annotation {} to {fingerprint} to approve", policies::APPROVED);
        Err(format!("{what}; {approve}"))
    }

    fn if_approved(&mut self, approved: Result<(), String>, next: State) -> Step {
        let Err(message) = approved else { return Ok(next) };
        self.advise(dialect::APPROVAL_REQUIRED, message);
        self.verdict = self.not_synced("the plan waits for approval", self.interval());
        Ok(State::Tell)
    }

    /// Writes the intent of a replacement.
    async fn begin_replacement(&mut self, changes: &[Change]) -> Step {
        let policy = self.controls.replace.unwrap_or(self.policies.replace);
        let deposed = match policy {
            ReplacePolicy::Refuse => {
                return Err(Failure::terminal(plan::unchangeable(changes)).into());
            }
            ReplacePolicy::DeleteFirst => None,
            ReplacePolicy::CreateFirst => self.engine.driver.deposed(&self.subject()?),
        };
        let action = if deposed.is_some() { Action::ReplaceCreate } else { Action::ReplaceDelete };
        let intent = Intent { deposed, tries: 0, ..Intent::new(action, &self.object, self.now) };
        let annotations = json!({crate::intent::ANNOTATION: intent.to_annotation()});
        self.write_locked(json!({"metadata": {"annotations": annotations}})).await?;
        self.intent = Some(intent);
        Ok(if action == Action::ReplaceCreate { State::Intend } else { State::Depose })
    }

    pub(super) async fn update(&mut self) -> Step {
        let (Some(observed), Some(plan)) = (self.observed.take(), self.plan.take()) else {
            return Ok(State::Plan);
        };
        self.begin(Beginning::Updating).await?;
        let updated = self.bounded(self.engine.driver.update(&self.subject()?, &observed, &plan)).await?;
        self.secrets.settle();
        if !plan.calls.is_empty() {
            let paths: Vec<&str> = plan.changes.iter().map(|change| change.path.as_str()).collect();
            self.event(Severity::Normal, "Updated", &format!("Changed {}", paths.join(", "))).await;
        }
        if self.facts.dialect.identity_in_spec() {
            self.record(updated.record).await?;
        } else {
            self.pending = Record { status: Value::Null, ..updated.record };
        }
        self.observed = updated.observed;
        self.plan = Some(plan);
        if let Some(after) = updated.after {
            self.verdict = self.not_synced("the change takes its time", after);
            self.note_and_write(None).await?;
            return Ok(State::Tell);
        }
        Ok(State::Verify)
    }

    /// Looks at what was changed. What still differs counts as written in vain.
    pub(super) async fn verify(&mut self) -> Step {
        let written = self.plan.take().map(|plan| plan.changes).unwrap_or_default();
        if self.observed.is_none() {
            self.look_at().await?;
        }
        if self.observed.is_none() || self.is_busy() {
            self.verdict = match self.observed {
                Some(_) => self.readiness(),
                None => self.not_synced("the resource cannot be seen", DIFFERS),
            };
            self.note_and_write(None).await?;
            return Ok(State::Tell);
        }
        let driver = &self.engine.driver;
        let plan = self.bounded(driver.plan(&self.subject()?, self.observed.as_deref())).await?;
        self.guard = self.guard.after(&written, &plan.changes);
        let (remaining, stuck) = self.guard.divide(plan.changes);
        self.report_stuck(&stuck);
        if remaining.is_empty() {
            return Ok(State::LateInitialize);
        }
        self.verdict = self.not_synced(format!("still differs: {}", plan::describe(&remaining)), DIFFERS);
        self.note_and_write(None).await?;
        Ok(State::Tell)
    }

    /// Writes what is pending, together with what there is to remember; with a patch of the spec, the resource is as
    /// the object says.
    async fn note_and_write(&mut self, settled: Option<Value>) -> Result<(), Stop> {
        let mut patch = self.take_pending();
        patch["metadata"]["annotations"][guard::ANNOTATION] = json!(self.guard.to_annotation());
        if let Some(spec) = settled {
            if spec.is_object() {
                match patch.get_mut("spec") {
                    Some(before) => objects::patch::merge(before, &spec),
                    None => patch["spec"] = spec,
                }
            }
            self.note_applied(&mut patch);
        }
        self.write(patch).await
    }

    /// The end of a pass over a resource that is as desired.
    pub(super) async fn late_initialize(&mut self) -> Step {
        let Some(observed) = &self.observed else { return Ok(State::Tell) };
        let subject = self.subject()?;
        let late = self.engine.driver.late_initialization(&subject, observed);
        let shown = self.engine.driver.shown(&subject, observed);
        let mut spec = late.spec;
        references::strip(&self.facts, &self.object, &mut spec);
        let own = self.object.get("spec").unwrap_or(&Value::Null);
        let spec = only_absent(own, &spec);
        if late.applies {
            let complete = late.missing.is_empty();
            self.late = Some(if complete { LateState::Complete } else { LateState::Delayed(late.missing) });
        }
        let spec = writing::effective(own, &spec);
        self.pending.add(shown);
        self.note_and_write(Some(spec.unwrap_or(Value::Null))).await?;
        self.verdict = self.readiness();
        Ok(State::Tell)
    }

    /// Whoever replaced the object by one without our marks has not given up its resource.
    pub(super) async fn reclaim(&mut self) -> Step {
        let mut finalizers: Vec<Value> = meta::list(&self.object, "finalizers").to_vec();
        finalizers.push(self.facts.finalizer.as_str().into());
        self.write_locked(json!({"metadata": {"finalizers": finalizers}})).await?;
        let message = "The object had lost its finalizer; its resource is looked after again";
        self.event(Severity::Normal, "Reclaimed", message).await;
        Ok(State::Plan)
    }

    /// Object and resource are joined. With `then_update` the resource becomes like the object, else the other way.
    pub(super) async fn adopt(&mut self, then_update: bool) -> Step {
        let Some(observed) = &self.observed else { return Ok(State::Decide) };
        let (mut spec, arn, status) = (observed.spec.clone(), observed.arn.clone(), observed.status.clone());
        let mut patch = self.facts.dialect.adopted(&self.object);
        let mut finalizers: Vec<Value> = meta::list(&self.object, "finalizers").to_vec();
        if !self.managed() {
            finalizers.push(self.facts.finalizer.as_str().into());
        }
        patch["metadata"]["finalizers"] = finalizers.into();
        if !then_update {
            // What it is found by need not be shown by a look at it.
            for field in self.policies.adoption_fields.iter().flat_map(|fields| fields.keys()) {
                if let (None | Some(Value::Null), Some(told)) =
                    (spec.get(field), self.desired["spec"].get(field))
                {
                    spec[field] = told.clone();
                }
            }
            references::strip(&self.facts, &self.object, &mut spec);
            patch["spec"] = spec;
            self.note_applied(&mut patch);
        }
        let found = Record { status, arn, ..Record::default() };
        self.write_locked(patch).await?;
        let status = self.facts.dialect.recorded(&self.object, &found, self.place());
        self.write_status(&status).await?;
        self.event(Severity::Normal, "Adopted", "The resource was adopted").await;
        self.policies.adoption = None;
        self.policies.adopted = true;
        if then_update {
            return Ok(State::Plan);
        }
        self.verdict = self.readiness();
        Ok(State::Tell)
    }
}

/// What of a patch fills in what is absent; what the user chose stays.
fn only_absent(own: &Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return Value::Null };
    let kept = fields.iter().filter_map(|(field, value)| match own.get(field) {
        None | Some(Value::Null) => Some((field.clone(), value.clone())),
        Some(inner) if inner.is_object() && value.is_object() => {
            Some((field.clone(), only_absent(inner, value)))
        }
        Some(_) => None,
    });
    Value::Object(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_chose_stays() {
        let own = json!({"a": 1, "b": {"c": 2}, "d": null});
        let patch = json!({"a": 9, "b": {"c": 9, "e": 9}, "d": 9, "f": 9});
        assert_eq!(only_absent(&own, &patch), json!({"b": {"e": 9}, "d": 9, "f": 9}));
        assert_eq!(only_absent(&own, &Value::Null), Value::Null);
    }
}
