//! Bootstrap tokens are deleted when they have expired.

use std::time::Duration;

use async_trait::async_trait;
use auth::tokens::bootstrap::{NAMESPACE, SECRET_TYPE};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Kinds, Next, Request, Triggers};

use crate::resource::{Delete, Resource};

pub struct TokenCleaner;

#[async_trait]
impl Controller for TokenCleaner {
    fn name(&self) -> &'static str {
        "token-cleaner"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these(["secrets"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let ours = event.key.namespace == NAMESPACE && event.change != Change::Deleted;
        if ours && event.mentions(SECRET_TYPE) {
            triggers.now(event.key.clone());
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Some(secret) = context.get("secrets", NAMESPACE, &request.key.name).await? else {
            return Ok(Next::Done);
        };
        if secret.get("type").and_then(Value::as_str) != Some(SECRET_TYPE) {
            return Ok(Next::Done);
        }
        match life(&secret, context.now) {
            Life::Endless => Ok(Next::Done),
            Life::Left(time) => Ok(Next::After(time)),
            Life::Over => {
                let options = Delete { uid: Some(meta::uid(&secret)), ..Delete::default() };
                Resource::core(context.client(), NAMESPACE, "secrets")
                    .delete(meta::name(&secret), &options)
                    .await?;
                Ok(Next::Done)
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Life {
    Endless,
    Left(Duration),
    Over,
}

/// How long a token is good for. As upstream, a date that cannot be read has passed.
fn life(secret: &Value, now: Timestamp) -> Life {
    let text = secret.pointer("/data/expiration").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        return Life::Endless;
    }
    let date = BASE64_STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let end = date.and_then(|date| date.parse::<Timestamp>().ok());
    match end.map(|end| Duration::try_from(end.duration_since(now))) {
        Some(Ok(left)) if !left.is_zero() => Life::Left(left),
        _ => Life::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lives() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let check = |expiration: Option<&str>, expected: Life| {
            let data = expiration.map(|text| BASE64_STANDARD.encode(text));
            assert_eq!(life(&json!({"data": {"expiration": data}}), now), expected, "{expiration:?}");
        };
        check(None, Life::Endless);
        check(Some(""), Life::Endless);
        check(Some("2030-01-01T00:01:00Z"), Life::Left(Duration::from_secs(60)));
        check(Some("2030-01-01T01:00:30+01:00"), Life::Left(Duration::from_secs(30)));
        check(Some("2030-01-01T00:00:00Z"), Life::Over);
        check(Some("soon"), Life::Over);
    }
}
