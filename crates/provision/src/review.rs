//! The engine's say in writes to control planes of this process: what a dialect forbids is refused before it is stored.
//!
//! Whoever writes waits for it, so whatever takes its time has an end, and what cannot be found out is not refused:
//! the pass over the stored object finds it, too.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::catalog::Review;
use async_trait::async_trait;
use objects::field::ErrorList;
use objects::{Value, meta};
use runtime::InProcessFleet;

use crate::driver::Driver;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::plan::{Preview, Verb};

/// How long whoever writes is kept waiting for a plan.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Reviewing<D: Driver> {
    engine: Engine<D>,
    /// The server holds its reviewers.
    server: Weak<apiserver::Engine>,
}

impl<D: Driver> Reviewing<D> {
    pub fn new(engine: Engine<D>, server: &Arc<apiserver::Engine>) -> Reviewing<D> {
        Reviewing { engine, server: Arc::downgrade(server) }
    }

    async fn plan(&self, control_plane: &str, object: &Value) -> Result<Preview, Failure> {
        let Some(server) = self.server.upgrade() else {
            return Err(Failure::recoverable("the server is stopping"));
        };
        let fleet = InProcessFleet::new(server);
        let plan = Box::pin(self.engine.plan(&fleet, control_plane, object));
        match tokio::time::timeout(PATIENCE, plan).await {
            Ok(plan) => plan,
            Err(_) => Err(Failure::recoverable(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

#[async_trait]
impl<D: Driver> Review for Reviewing<D> {
    fn invalid(&self, object: &Value) -> ErrorList {
        let invalid = self.engine.driver().invalid(object);
        // What goes may be as wrong as it is.
        if meta::is_deleting(object) { ErrorList::new() } else { invalid }
    }

    async fn review(&self, control_plane: &str, old: &Value, new: Option<&Value>) -> Result<(), String> {
        let Some(facts) = self.engine.facts_of(old) else { return Ok(()) };
        let Some(new) = new else {
            return facts.dialect.forbids_deletion(old).map_or(Ok(()), Err);
        };
        if let Some(why) = facts.dialect.forbids_replacement(old, new)
            && let Ok(preview) = self.plan(control_plane, new).await
            && preview.verb == Verb::Replace
        {
            return Err(why);
        }
        Ok(())
    }
}
