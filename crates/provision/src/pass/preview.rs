//! What a pass would do, without doing it.

use super::{Pass, Stop};
use crate::calls::Calls;
use crate::driver::{Connection, Driver};
use crate::failure::{Class, Failure};
use crate::machine::{Decision, State, decide};
use crate::plan::{self, Preview, Verb};
use crate::policies::ReplacePolicy;

impl<D: Driver> Pass<'_, D> {
    /// Reads what a pass would read, from the control plane and from the cloud, and writes nothing anywhere.
    pub async fn preview(mut self) -> Result<Preview, Failure> {
        match self.foresee().await {
            Ok(preview) => Ok(preview),
            Err(Stop::Failed(failure)) => Err(self.redacted(failure)),
            Err(Stop::Write(error)) => Err(error.into()),
        }
    }

    async fn foresee(&mut self) -> Result<Preview, Stop> {
        let mut preview = self.preview_of(Verb::Nothing, &[], &[]);
        match self.judge().await? {
            State::Connect => {}
            State::Release => return Ok(Preview { verb: Verb::Release, ..preview }),
            State::Tell => {
                preview.remarks.extend(self.advisories.iter().map(|advisory| advisory.message.clone()));
                return Ok(preview);
            }
            _ => return Ok(preview),
        }
        self.connect().await?;
        preview.place = self.connection.as_ref().map(|connection| connection.display()).unwrap_or_default();
        if self.resolve().await? == State::Recover {
            preview
                .remarks
                .push("an earlier attempt was interrupted; what became of it is found out first".to_owned());
        }
        self.look_at().await?;
        match decide(&self.situation()) {
            Decision::Refresh => {}
            Decision::NotFound(why) => return Err(Failure::recoverable(why).into()),
            Decision::Taken => return Err(Failure::new(Class::Exists, "", "Resource already exists").into()),
            Decision::ReportGone => preview.remarks.push("the resource is gone".to_owned()),
            Decision::Go(State::BeforeDelete) => {
                preview.verb = Verb::Delete;
                preview.remarks.extend(self.needed_by().await?);
            }
            Decision::Go(State::Release) => preview.verb = Verb::Release,
            Decision::Go(State::Adopt { then_update: false }) => preview.verb = Verb::Adopt,
            Decision::Go(_) => self.foresee_changes(&mut preview).await?,
        }
        preview.remarks.extend(self.advisories.iter().map(|advisory| advisory.message.clone()));
        let warnings = self.calls.iter().flat_map(Calls::take_warnings);
        preview.remarks.extend(warnings.map(|text| format!("warning: {}", self.secrets.redact(&text))));
        Ok(preview)
    }

    async fn foresee_changes(&mut self, preview: &mut Preview) -> Result<(), Stop> {
        let subject = self.subject()?;
        let planned = self.engine.driver.plan(&subject, self.observed.as_deref());
        let planned = self.bounded(planned).await?;
        if self.observed.is_none() {
            preview.verb = Verb::Create;
            preview.calls = planned.calls;
            preview.changes = match planned.changes.is_empty() {
                true => plan::settings(&self.facts, &self.desired),
                false => planned.changes,
            };
            return Ok(());
        }
        let (changes, stuck) = self.guard.divide(planned.changes);
        if !stuck.is_empty() {
            preview.remarks.push(format!("not written again: {}", plan::describe(&stuck)));
        }
        let replaces = changes.iter().any(|change| change.replaces);
        preview.verb = match changes.is_empty() {
            true => Verb::Nothing,
            false if replaces => Verb::Replace,
            false => Verb::Update,
        };
        if replaces && self.controls.replace.unwrap_or(self.policies.replace) == ReplacePolicy::Refuse {
            preview.remarks.push(plan::unchangeable(&changes));
        }
        if preview.verb != Verb::Nothing {
            preview.calls = planned.calls;
        }
        preview.changes = changes;
        Ok(())
    }
}
