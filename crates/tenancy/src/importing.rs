//! A control plane that is being made of a backup: its object is there first, and waits.
//!
//! As long as somebody imports it, the annotation on it has the time of the last sign of life. An import that ends before
//! its time, because whoever sent it went or something was wrong, takes the object away again; one that was killed
//! leaves it without signs of life, and the operator takes it away.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Engine;
use jiff::Timestamp;
use objects::{Value, meta, time};
use runtime::{Context, Error, Next};
use serde_json::json;

use crate::api::{self, Place};
use crate::conditions::{self, Condition};
use crate::operator::{place, write_status};
use crate::plane::Plane;
use crate::{embedded, names};

/// On a `ControlPlane` that is being restored: until it is gone, there is nothing to make anew.
const AWAITING_IMPORT: &str = "hangar.dev/awaiting-import";

const SIGN_EVERY: Duration = Duration::from_secs(10);
/// Several signs may get lost, and clocks of replicas differ a little.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an import may still be silent before it counts as lost; none if the object awaits no import.
fn may_be_silent(object: &Value, now: Timestamp) -> Option<Duration> {
    let sign = meta::annotation(object, AWAITING_IMPORT)?;
    // What it says may be anybody's; the object itself is as old as it is.
    let last = time::parse(sign).or_else(|_| time::parse(meta::text(object, "creationTimestamp")));
    let silent = last.map_or(PATIENCE, |last| {
        Duration::from_secs(u64::try_from(now.as_second() - last.as_second()).unwrap_or(0))
    });
    Some(PATIENCE.saturating_sub(silent))
}

/// What the operator does with an object that awaits an import; none if it does not.
pub async fn awaited(context: &Context, plane: &Plane) -> Result<Option<Next>, Error> {
    let Some(left) = may_be_silent(&plane.object, context.now) else { return Ok(None) };
    if left.is_zero() {
        tracing::warn!(control_plane = plane.name, "an import did not come to its end and is undone");
        api::delete(context.client(), &place(&plane.name), Some(&plane.uid)).await?;
        return Ok(Some(Next::Done));
    }
    let before = plane.object.get("status").cloned().unwrap_or_default();
    let mut status = if before.is_object() { before.clone() } else { json!({}) };
    status["observedGeneration"] = meta::generation(&plane.object).into();
    conditions::set(&mut status, &Condition::restoring(), context.now);
    write_status(context, plane, &before, &status).await?;
    Ok(Some(Next::After(left + Duration::from_secs(1))))
}

/// An import under way. Dropped before it is [done](Importing::done), it leaves nothing behind.
pub struct Importing {
    engine: Arc<Engine>,
    client: kube::Client,
    place: Place,
    uid: Option<String>,
}

impl Importing {
    /// Makes the object, or takes over one that was left behind. None if there is one that is nobody's to take over.
    pub async fn begin(
        hosting: &Arc<Engine>,
        name: &str,
        spec: Value,
    ) -> Result<Option<(Importing, Value)>, Error> {
        let client = embedded::client(hosting.clone(), &hosting.config.hosting);
        let place = place(name);
        let sign = time::format(hosting.now());
        let object = match api::get(&client, &place).await? {
            Some(found) if may_be_silent(&found, hosting.now()).is_some_and(|left| left.is_zero()) => {
                // The version makes it one's own, however many try.
                let version = meta::resource_version(&found);
                let patch =
                    json!({"metadata": {"annotations": {AWAITING_IMPORT: sign}, "resourceVersion": version}});
                api::merge(&client, &place, "", &patch).await?
            }
            Some(_) => return Ok(None),
            None => {
                let object = json!({
                    "apiVersion": names::API_VERSION, "kind": "ControlPlane",
                    "metadata": {"name": name, "annotations": {AWAITING_IMPORT: sign}}, "spec": spec,
                });
                api::create(&client, &place, &object).await?
            }
        };
        let uid = Some(meta::uid(&object).to_owned());
        Ok(Some((Importing { engine: hosting.clone(), client, place, uid }, object)))
    }

    /// Says that it is still under way, for as long as it is.
    pub async fn show(&self) -> Infallible {
        loop {
            tokio::time::sleep(SIGN_EVERY).await;
            let sign = time::format(self.engine.now());
            let patch = json!({"metadata": {"annotations": {AWAITING_IMPORT: sign}, "uid": self.uid}});
            if let Err(error) = api::merge(&self.client, &self.place, "", &patch).await {
                tracing::warn!(control_plane = self.place.name, %error, "cannot say that an import is under way");
            }
        }
    }

    /// The object, which awaits nothing any more.
    pub async fn done(mut self) -> Result<Value, Error> {
        let patch = json!({"metadata": {"annotations": {AWAITING_IMPORT: null}, "uid": self.uid}});
        let object = api::merge(&self.client, &self.place, "", &patch).await?;
        self.uid = None;
        Ok(object)
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        let Some(uid) = self.uid.take() else { return };
        let (client, place) = (self.client.clone(), self.place.clone());
        // Where there is no runtime any more the process ends, and the next one finds an import without signs of life.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = api::delete(&client, &place, Some(&uid)).await {
                tracing::warn!(control_plane = place.name, %error, "what an import began cannot be taken back");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_lost_when_it_has_been_silent_for_long() {
        let now = time::parse("2026-01-01T00:01:00Z").unwrap();
        let check = |sign: Value, expected: Option<u64>| {
            let object = json!({"metadata": {
                "creationTimestamp": "2026-01-01T00:00:30Z", "annotations": {AWAITING_IMPORT: sign},
            }});
            assert_eq!(may_be_silent(&object, now), expected.map(Duration::from_secs), "{object}");
        };
        check(json!("2026-01-01T00:01:00Z"), Some(60));
        check(json!("2026-01-01T00:00:45Z"), Some(45));
        check(json!("2026-01-01T00:00:00Z"), Some(0));
        check(json!("2025-01-01T00:00:00Z"), Some(0));
        check(json!("2026-01-01T00:02:00Z"), Some(60));
        // As it was written before there were signs.
        check(json!("true"), Some(30));
        check(Value::Null, None);
    }
}
