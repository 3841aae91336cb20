//! The controller of `Module` objects: what a module declares becomes resource objects, and what became of those is
//! told on the module.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use objects::{Value as Json, meta};
use provision::dialect::{Look, Report, Verdict};
use provision::policies::PAUSED;
use provision::{Dependants, Dialect as _, Engine, Facts, Failure, Reader};
use runtime::{Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use super::children;
use super::files::Archives;
use super::kinds::{DEFINITIONS, FINALIZER, MODULE, MODULES};
use super::opening::Opening;
use super::pass::{Outcome, Pass, Stop};
use super::view::View;
use crate::dialect::Kubeform;
use crate::driver::Terraform;

/// A module that is as it should be is looked at again after this time, for what no event tells.
const AGAIN: Duration = Duration::from_secs(600);

pub struct Modules {
    /// What looks after the resources of modules; data is read at its pace.
    pub(super) engine: Engine<Terraform>,
    pub(super) archives: Arc<Archives>,
    /// Modules that objects may name by their path.
    pub(super) directory: Option<PathBuf>,
    dependants: Dependants,
    facts: Facts,
}

impl Modules {
    pub fn new(engine: Engine<Terraform>, directory: Option<PathBuf>) -> Modules {
        let facts = Facts::new(MODULES, MODULE, "module", FINALIZER, Arc::new(Kubeform));
        let archives = Arc::new(Archives::default());
        let opening =
            Opening { engine: engine.downgrade(), archives: archives.clone(), directory: directory.clone() };
        engine.driver().opened_by(Box::new(opening));
        Modules { engine, archives, directory, dependants: Dependants::default(), facts }
    }
}

#[async_trait]
impl Controller for Modules {
    fn name(&self) -> &'static str {
        "terraform-modules"
    }

    fn identity(&self) -> UserInfo {
        UserInfo::new("hangar:terraform-modules", [MASTERS]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([MODULES, DEFINITIONS, &children::resource(), "secrets", "configmaps"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let Some(now) = event.object() else { return };
        if event.key.kind == MODULES {
            let edited = |before: &Json| {
                let of = |object: &Json| (meta::generation(object), meta::is_deleting(object));
                of(before) != of(now) || before["metadata"]["annotations"] != now["metadata"]["annotations"]
            };
            if event.previous().is_none_or(edited) {
                triggers.now(event.key.clone());
            }
            return;
        }
        if event.key.kind == children::resource() {
            let owners = meta::owner_references(now).iter().filter(|owner| owner["kind"] == MODULE);
            for name in owners.filter_map(|owner| owner["name"].as_str()) {
                triggers.now(Key::new(MODULES, event.key.namespace.as_str(), name));
            }
            return;
        }
        let woken = self.dependants.of(&event.control_plane, &event.key);
        woken.into_keys().for_each(|key| triggers.now(key));
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Request { control_plane, key } = request;
        let Some(object) = context.get(MODULES, &key.namespace, &key.name).await? else {
            return Ok(Next::Done);
        };
        let reader = Reader::new(context, control_plane, Some((&self.dependants, key)));
        let mut pass = Pass {
            view: View::new(self.place(), &reader, object),
            client: context.client(),
            over: None,
            resources: None,
        };
        let ended = Box::pin(async {
            if meta::annotation(&pass.view.object, PAUSED) == Some("true") {
                return pass.pause().await;
            }
            if meta::is_deleting(&pass.view.object) { pass.leave().await } else { pass.run().await }
        })
        .await;
        let warnings = std::mem::take(&mut *pass.view.warnings.lock());
        for warning in warnings {
            self.engine.warn(context.client(), &pass.view.object, &warning, context.now).await;
        }
        let verdict = match ended {
            Ok(Outcome::Gone) => return Ok(Next::Done),
            Ok(Outcome::Told(verdict)) => verdict,
            Err(Stop::Failed(failure)) => Verdict::Failed(failure),
            Err(Stop::Unable(error)) => return Err(error),
        };
        self.tell(context, &pass, &verdict).await
    }
}

impl Modules {
    /// Where modules are looked at.
    pub(super) fn place(&self) -> (&Engine<Terraform>, &Archives, Option<&Path>) {
        (&self.engine, &self.archives, self.directory.as_deref())
    }

    /// Writes down how it went, and says when to look again.
    async fn tell(&self, context: &Context, pass: &Pass<'_>, verdict: &Verdict) -> Result<Next, Error> {
        let report = Report::new(&self.facts, &pass.view.object, verdict);
        let mut status = Kubeform.status(&report, context.now);
        if let Some(resources) = &pass.resources {
            status["resources"] = resources.clone();
        }
        if pass.view.object.get("status") != Some(&status) {
            pass.patch_status(json!({"status": status})).await?;
        }
        Ok(match Kubeform.look(&report) {
            Look::Never => Next::Done,
            Look::Interval => Next::After(AGAIN),
            Look::After(after) => Next::After(after),
            Look::Backoff => Next::Backoff,
        })
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}
