//! Deleting a resource, and letting go of its object.

use std::time::Duration;

use objects::meta;
use serde_json::json;

use super::{Pass, Step};
use crate::dialect::{Beginning, Verdict};
use crate::driver::{Deleted, Driver};
use crate::events::Severity;
use crate::intent;
use crate::machine::State;
use crate::policies::DeletionPolicy;

/// What waits for others is woken when one of them goes; looked at all the same.
const NEEDED: Duration = Duration::from_secs(30);

impl<D: Driver> Pass<'_, D> {
    /// Makes the changes without which the resource cannot be deleted, and no others.
    pub(super) async fn before_delete(&mut self) -> Step {
        if self.observed.is_some()
            && let Some(message) = self.needed_by().await?
        {
            self.verdict = Verdict::Deleting { message, after: NEEDED };
            return Ok(State::Tell);
        }
        let Some(observed) = &self.observed else { return Ok(State::Release) };
        let fields = &self.facts.before_delete;
        if fields.is_empty() {
            return Ok(State::Delete);
        }
        let mut plan = self.bounded(self.engine.driver.plan(&self.subject()?, Some(observed))).await?;
        plan.changes.retain(|change| fields.iter().any(|field| concerns(&change.path, field)));
        if plan.changes.is_empty() {
            return Ok(State::Delete);
        }
        self.bounded(self.engine.driver.update(&self.subject()?, observed, &plan)).await?;
        self.look_at().await?;
        Ok(if self.observed.is_some() { State::Delete } else { State::Release })
    }

    pub(super) async fn delete(&mut self) -> Step {
        let Some(observed) = self.observed.take() else { return Ok(State::Release) };
        self.begin(Beginning::Deleting).await?;
        let deleted = self.bounded(self.engine.driver.delete(&self.subject()?, &observed)).await;
        match deleted {
            Ok(Deleted::Gone) => {}
            Err(failure) if failure.is_not_found() => {}
            Ok(Deleted::Going(after)) => {
                self.observed = Some(observed);
                self.verdict =
                    Verdict::Deleting { message: "the resource is being deleted".to_owned(), after };
                return Ok(State::Tell);
            }
            Err(failure) => return Err(failure.into()),
        }
        self.event(Severity::Normal, "Deleted", "The resource was deleted").await;
        Ok(State::Release)
    }

    pub(super) async fn release(&mut self) -> Step {
        if self.policies.deletion == DeletionPolicy::Retain && self.deleting() {
            self.event(Severity::Normal, "Retained", "The resource stays; nobody looks after it").await;
        }
        let annotations = json!({intent::ANNOTATION: null});
        let patch = json!({"metadata": {"finalizers": self.other_finalizers(), "annotations": annotations}});
        match self.write_locked(patch).await {
            // Gone already, by whoever took the last finalizer.
            Err(super::Stop::Write(error)) if error.code() == Some(404) => {}
            written => written?,
        }
        tracing::debug!(control_plane = self.control_plane, name = meta::name(&self.object), "released");
        self.engine.metrics.passed(self.engine.driver.name(), "released");
        Ok(State::End)
    }
}

/// Whether a change is of a field or of something in it.
fn concerns(path: &str, field: &str) -> bool {
    let rest = path.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        for (path, expected) in
            [("spec.a", true), ("spec.a.b", true), ("spec.a[0]", true), ("spec.ab", false), ("spec", false)]
        {
            assert_eq!(concerns(path, "spec.a"), expected, "{path}");
        }
    }
}
