//! What would be done in a cloud, in words: for `hangar plan`, and for `--dry-run=server` in control planes here.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::{Engine, Foresight};
use async_trait::async_trait;
use objects::meta;
use provision::Preview;
use provision::plan::brief;
use runtime::InProcessFleet;
use serde_json::{Value, json};

use super::Cloud;

/// Somebody sits before kubectl and waits. A plan takes a few reads.
const PATIENCE: Duration = Duration::from_secs(10);

/// The plans of clouds that are set up.
pub struct OfClouds {
    /// The engine holds this.
    engine: Weak<Engine>,
    clouds: Arc<Vec<Box<dyn Cloud>>>,
}

impl OfClouds {
    pub fn new(engine: &Arc<Engine>, clouds: Arc<Vec<Box<dyn Cloud>>>) -> OfClouds {
        OfClouds { engine: Arc::downgrade(engine), clouds }
    }
}

#[async_trait]
impl Foresight for OfClouds {
    async fn foresee(&self, control_plane: &str, object: &Value) -> Vec<String> {
        let Some(cloud) = self.clouds.iter().find(|cloud| cloud.knows(object)) else { return Vec::new() };
        let Some(engine) = self.engine.upgrade() else { return Vec::new() };
        let fleet = InProcessFleet::new(engine);
        let planned = tokio::time::timeout(PATIENCE, cloud.plan(&fleet, control_plane, object)).await;
        let told = match planned {
            Ok(Ok(preview)) => {
                let first = format!("{} in {}", verb(&preview), preview.place);
                std::iter::once(first).chain(lines(&preview)).collect()
            }
            Ok(Err(failure)) => vec![format!("cannot be made: {failure}")],
            Err(_) => vec![format!("cannot be made: no answer within {} s", PATIENCE.as_secs())],
        };
        // kubectl shows the same line only once, so each says what it is about.
        let about =
            format!("plan of {} {}/{}", meta::kind(object), meta::namespace(object), meta::name(object));
        told.into_iter().map(|line| format!("{about}: {line}")).collect()
    }
}

/// What would be done, in one word.
pub fn verb(preview: &Preview) -> String {
    json!(preview.verb).as_str().unwrap_or_default().to_owned()
}

/// Each change, each call, and what else is to be known.
pub fn lines(preview: &Preview) -> Vec<String> {
    let change = |change: &provision::Change| {
        let values = match change.sensitive {
            true => "changes".to_owned(),
            false => format!("{} -> {}", brief(&change.from), brief(&change.to)),
        };
        format!("{}: {values}{}", change.path, if change.replaces { " (replaces it)" } else { "" })
    };
    let changes = preview.changes.iter().map(change);
    let calls = preview.calls.iter().map(|call| format!("calls {call}"));
    changes.chain(calls).chain(preview.remarks.iter().cloned()).collect()
}
