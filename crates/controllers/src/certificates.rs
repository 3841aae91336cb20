//! Certificate signing requests: approved where no person is needed, signed where approved, deleted when old.

use std::sync::Arc;
use std::time::Duration;

use apiserver::Engine;
use async_trait::async_trait;
use auth::authorize::Target;
use auth::pki::approval;
use auth::pki::request::{Request as Signing, RequestError, Signer};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Kinds, Next, Request, Triggers};
use serde_json::{Map, json};

use crate::resource::Resource;

const KIND: &str = "certificatesigningrequests.certificates.k8s.io";
const GROUP_VERSION: &str = "certificates.k8s.io/v1";
const HOUR: Duration = Duration::from_secs(3_600);
/// A certificate lives so long unless less is asked for.
const LIFETIME: Duration = HOUR.saturating_mul(24 * 365);
/// How long requests are kept after they were decided, and how long undecided ones.
const DECIDED: Duration = HOUR;
const PENDING: Duration = HOUR.saturating_mul(24);

pub struct Certificates {
    engine: Arc<Engine>,
}

impl Certificates {
    pub fn new(engine: Arc<Engine>) -> Self {
        Certificates { engine }
    }
}

#[async_trait]
impl Controller for Certificates {
    fn name(&self) -> &'static str {
        "certificate-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([KIND])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        if event.change != Change::Deleted {
            triggers.now(event.key.clone());
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Some(found) = context.get(KIND, "", &request.key.name).await? else { return Ok(Next::Done) };
        if meta::is_deleting(&found) {
            return Ok(Next::Done);
        }
        let resource = Resource::new(context.client(), GROUP_VERSION, "", "certificatesigningrequests");
        let left = time_left(&found, context.now);
        if left.is_zero() {
            let options = crate::resource::Delete {
                uid: Some(meta::uid(&found)),
                ..crate::resource::Delete::default()
            };
            resource.delete(meta::name(&found), &options).await?;
            return Ok(Next::Done);
        }
        if !is_decided(&found) {
            self.approve(context, &resource, found).await?;
        } else if has(&found, "Approved")
            && !has(&found, "Denied")
            && !has(&found, "Failed")
            && !is_issued(&found)
        {
            self.sign(context, &resource, &request.control_plane, found).await?;
        }
        Ok(Next::After(left))
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn conditions(object: &Value) -> &[Value] {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn has(object: &Value, kind: &str) -> bool {
    conditions(object).iter().any(|condition| condition["type"] == kind)
}

fn is_decided(object: &Value) -> bool {
    has(object, "Approved") || has(object, "Denied")
}

fn is_issued(object: &Value) -> bool {
    object.pointer("/status/certificate").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// How long a request is still kept.
fn time_left(object: &Value, now: Timestamp) -> Duration {
    let stamp = |text: &str| text.parse::<Timestamp>().ok();
    let decided = conditions(object).iter().filter_map(|condition| {
        let kept = if condition["type"] == "Approved" && !is_issued(object) { PENDING } else { DECIDED };
        Some((stamp(condition.get("lastUpdateTime")?.as_str()?)?, kept))
    });
    let pending = stamp(meta::text(object, "creationTimestamp")).map(|created| (created, PENDING));
    let deadlines = match conditions(object) {
        [] => pending.into_iter().collect::<Vec<_>>(),
        _ => decided.collect(),
    };
    let left = |(since, kept): (Timestamp, Duration)| {
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        kept.saturating_sub(age)
    };
    deadlines.into_iter().map(left).min().unwrap_or(PENDING)
}

fn usages(object: &Value) -> Vec<&str> {
    let list = object.pointer("/spec/usages").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The request itself.
fn signing(object: &Value) -> Result<Signing, RequestError> {
    let pem = BASE64_STANDARD.decode(text(object, "request")).map_err(|_| RequestError::NotARequest)?;
    Signing::from_pem(&pem)
}

fn with_condition(mut object: Value, kind: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut all = conditions(&object).to_vec();
    all.push(json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }));
    object["status"]["conditions"] = Value::Array(all);
    object
}

impl Certificates {
    /// Kubelets get their client certificates without a person, if whoever asks may have them.
    async fn approve(&self, context: &Context, resource: &Resource<'_>, object: Value) -> Result<(), Error> {
        let Ok(request) = signing(&object) else { return Ok(()) };
        let ways = approval::automatic(
            text(&object, "signerName"),
            &request,
            &usages(&object),
            text(&object, "username"),
        );
        for (attributes, message) in ways {
            let Target::Resource { group, resource: plural, subresource, .. } = attributes.target else {
                continue;
            };
            let mut spec = Map::new();
            spec.insert("user".to_owned(), text(&object, "username").into());
            for field in ["uid", "groups", "extra"] {
                if let Some(value) = object["spec"].get(field) {
                    spec.insert(field.to_owned(), value.clone());
                }
            }
            spec.insert(
                "resourceAttributes".to_owned(),
                json!({"verb": attributes.verb, "group": group, "version": "*", "resource": plural, "subresource": subresource}),
            );
            let question = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
            });
            let reviews =
                Resource::new(context.client(), "authorization.k8s.io/v1", "", "subjectaccessreviews");
            let answer = reviews.create(&question).await?;
            if answer.pointer("/status/allowed") == Some(&Value::Bool(true)) {
                let name = meta::name(&object).to_owned();
                let approved = with_condition(object, "Approved", "AutoApproved", message, context.now);
                resource.replace(&name, "approval", &approved).await?;
                return Ok(());
            }
        }
        Ok(())
    }

    async fn sign(
        &self,
        context: &Context,
        resource: &Resource<'_>,
        control_plane: &str,
        mut object: Value,
    ) -> Result<(), Error> {
        let Some(signer) = Signer::named(text(&object, "signerName")) else { return Ok(()) };
        let Some(plane) = self.engine.planes.find(control_plane).await.map_err(Error::failed)? else {
            return Ok(());
        };
        let name = meta::name(&object).to_owned();
        let expiration = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        let expiration = expiration.and_then(|seconds| i32::try_from(seconds).ok());
        let signed = signing(&object).and_then(|request| {
            plane.authority.sign_request(
                signer,
                &request,
                &usages(&object),
                expiration,
                context.now,
                LIFETIME,
            )
        });
        object = match signed {
            Ok(certificate) => {
                object["status"]["certificate"] = BASE64_STANDARD.encode(certificate).into();
                object
            }
            Err(RequestError::Pki(error)) => return Err(Error::failed(error)),
            Err(error) => {
                with_condition(object, "Failed", "SignerValidationFailure", &error.to_string(), context.now)
            }
        };
        resource.replace(&name, "status", &object).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_kept_for_a_while() {
        let now: Timestamp = "2030-01-02T00:00:00Z".parse().unwrap();
        let check = |kind: Option<(&str, &str)>, certificate: &str, hours: u64| {
            let conditions: Vec<Value> =
                kind.iter().map(|(kind, at)| json!({"type": kind, "lastUpdateTime": at})).collect();
            let object = json!({
                "metadata": {"creationTimestamp": "2030-01-01T12:00:00Z"},
                "status": {"conditions": conditions, "certificate": certificate},
            });
            assert_eq!(time_left(&object, now), HOUR.saturating_mul(hours as u32), "{kind:?}");
        };
        check(None, "", 12);
        check(Some(("Approved", "2030-01-02T00:00:00Z")), "x", 1);
        check(Some(("Approved", "2030-01-01T20:00:00Z")), "x", 0);
        check(Some(("Approved", "2030-01-01T20:00:00Z")), "", 20);
        check(Some(("Denied", "2030-01-01T23:00:00Z")), "", 0);
        check(Some(("Failed", "2030-01-02T00:00:00Z")), "", 1);
    }
}
