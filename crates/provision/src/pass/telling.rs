//! The verdict: told in the status and in events, once, and turned into the time of the next look.

use std::time::Duration;

use objects::Value;
use runtime::Next;

use super::{Pass, Step, Stop};
use crate::calls::Calls;
use crate::dialect::{Look, Report, Verdict};
use crate::driver::Driver;
use crate::events::Severity;
use crate::failure::Failure;
use crate::machine::State;

/// How much of a wait is left to chance, so that what was made together is not looked at together for ever.
const JITTER: f64 = 0.1;

impl<D: Driver> Pass<'_, D> {
    pub(super) async fn event(&self, severity: Severity, reason: &str, message: &str) {
        if let Some(client) = self.client {
            let message = self.secrets.redact(message);
            let events = &self.engine.events;
            events.record(client, &self.object, severity, reason, &message, self.now).await;
        }
    }

    /// What the cloud warned of in this pass.
    pub(super) async fn tell_warnings(&self) {
        let Some(client) = self.client else { return };
        for warning in self.calls.iter().flat_map(Calls::take_warnings) {
            let warning = self.secrets.redact(&warning);
            self.engine.events.warn(client, &self.object, &warning, self.now).await;
        }
    }

    pub(super) async fn tell(&mut self) -> Step {
        match self.tell_all().await {
            // What was found does not fit into the object; that it does not, does.
            Err(Stop::Write(error)) if super::is_refused(&error) && self.observed.is_some() => {
                self.observed = None;
                let message = format!("the status of the resource cannot be written: {error}");
                self.verdict = Verdict::Failed(Failure::terminal(message));
                self.tell_all().await
            }
            told => told,
        }
    }

    async fn tell_all(&mut self) -> Step {
        let observed = self.observed.as_ref();
        let report = Report {
            facts: &self.facts,
            object: &self.object,
            verdict: &self.verdict,
            status: observed.map(|observed| &observed.status),
            arn: observed.and_then(|observed| observed.arn.as_deref()),
            place: self.place(),
            references: &self.references,
            late: self.late.as_ref(),
            advisories: &self.advisories,
        };
        let status = self.facts.dialect.status(&report, self.now);
        self.look = self.facts.dialect.look(&report);
        let is_new = status_text(&self.object) != conditions_text(&status);
        match self.write_status(&status).await {
            // It went while it was looked at.
            Err(Stop::Write(error)) if error.code() == Some(404) => return Ok(State::End),
            written => drop(written?),
        }
        if let (Verdict::Failed(failure), true) = (&self.verdict, is_new) {
            let reason = if failure.code.is_empty() { "Failed" } else { failure.code.as_str() };
            self.event(Severity::Warning, reason, &failure.to_string()).await;
        }
        self.engine.metrics.passed(self.engine.driver.name(), outcome(&self.verdict));
        Ok(State::End)
    }

    pub(super) fn next(&self) -> Next {
        match self.look {
            Look::Never => Next::Done,
            Look::Backoff => Next::Backoff,
            Look::Interval => Next::After(jittered(self.interval(), rand::random())),
            Look::After(wait) if wait.is_zero() => Next::Backoff,
            Look::After(wait) => Next::After(jittered(wait, rand::random())),
        }
    }
}

fn outcome(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Synced => "synced",
        Verdict::NotSynced { .. } => "not_synced",
        Verdict::Failed(_) => "failed",
        Verdict::Deleting { .. } => "deleting",
        Verdict::Paused => "paused",
    }
}

fn status_text(object: &Value) -> Vec<(String, String, String)> {
    object.get("status").map(conditions_text).unwrap_or_default()
}

/// What conditions say, without their times.
fn conditions_text(status: &Value) -> Vec<(String, String, String)> {
    let list = status.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |one: &Value, field: &str| one.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    list.iter().map(|one| (text(one, "type"), text(one, "status"), text(one, "message"))).collect()
}

/// Up to a tenth sooner or later. `chance` is in [0, 1).
fn jittered(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(1.0 - JITTER + 2.0 * JITTER * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_spread() {
        let wait = Duration::from_secs(100);
        assert_eq!((jittered(wait, 0.0).as_secs(), jittered(wait, 0.5).as_secs()), (90, 100));
        assert!(jittered(wait, 1.0) <= Duration::from_secs(110));
    }
}
