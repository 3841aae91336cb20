//! Events live for an hour after they last happened.
//!
//! One key per control plane that has any, looked at when the first of them may be due: no clock per Event, and
//! none for a control plane without.

use std::time::Duration;

use async_trait::async_trait;
use auth::user::UserInfo;
use jiff::{SignedDuration, Timestamp};
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};

use crate::resource::{Delete, Resource};

const KIND: &str = "events";
/// Deleted in one go, before others have their turn.
const AT_ONCE: usize = 256;
/// Looked at no more often than this, so that many Events of different ages are found together.
const COARSE: Duration = Duration::from_secs(300);

pub struct EventExpiry {
    lifetime: Duration,
}

impl Default for EventExpiry {
    fn default() -> Self {
        EventExpiry { lifetime: Duration::from_secs(3_600) }
    }
}

impl EventExpiry {
    /// With another lifetime than an hour.
    pub fn after(lifetime: Duration) -> Self {
        EventExpiry { lifetime }
    }
}

#[async_trait]
impl Controller for EventExpiry {
    fn name(&self) -> &'static str {
        "event-expiry"
    }

    /// As upstream, where the store itself lets them expire.
    fn identity(&self) -> UserInfo {
        UserInfo::apiserver()
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([KIND])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        match event.change {
            // A sweep finds old ones.
            Change::Existing => triggers.after(Key::new(KIND, "", ""), Duration::from_secs(1)),
            Change::Created => triggers.after(Key::new(KIND, "", ""), self.lifetime),
            Change::Updated | Change::Deleted => {}
        }
    }

    async fn reconcile(&self, context: &Context, _: &Request) -> Result<Next, Error> {
        let lifetime = SignedDuration::try_from(self.lifetime).unwrap_or(SignedDuration::MAX);
        let mut first: Option<SignedDuration> = None;
        let mut over = Vec::new();
        for event in context.list(KIND, "").await? {
            let left = lifetime.saturating_sub(context.now.duration_since(last_seen(&event)));
            if left <= SignedDuration::ZERO {
                over.push(event);
            } else {
                first = Some(first.map_or(left, |first| first.min(left)));
            }
        }
        for event in over.iter().take(AT_ONCE) {
            let options = Delete { uid: Some(meta::uid(event)), ..Delete::default() };
            let resource = Resource::core(context.client(), meta::namespace(event), KIND);
            resource.delete(meta::name(event), &options).await?;
        }
        if over.len() > AT_ONCE {
            return Ok(Next::Again);
        }
        let wait = first.and_then(|first| Duration::try_from(first).ok());
        Ok(wait.map_or(Next::Done, |wait| Next::After(wait.max(COARSE.min(self.lifetime)))))
    }
}

/// When an Event last happened, as far as it says.
fn last_seen(event: &Value) -> Timestamp {
    let stamps = ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"];
    let read = |pointer: &&str| event.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok();
    stamps.iter().filter_map(read).max().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_latest_time_counts() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let event = json!({
            "metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"},
            "lastTimestamp": null, "eventTime": "2030-01-01T00:00:01.5Z",
            "series": {"lastObservedTime": "2030-01-01T02:00:00.000001Z"},
        });
        assert_eq!(last_seen(&event), at("2030-01-01T02:00:00.000001Z"));
        assert_eq!(last_seen(&json!({})), Timestamp::UNIX_EPOCH);
    }
}
