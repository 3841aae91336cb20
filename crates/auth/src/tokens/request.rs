//! TokenRequest: `kubectl create token`, and what kubelets ask for on behalf of pods.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use objects::field::{Error, Path};
use objects::{GroupKind, GroupResource, GroupVersion, Status};
use serde_json::{Value, json};

use super::{BoundToken, EXTENDED_LIFETIME_SECONDS, Issuer, Lookup, PROJECTED_LIFETIME_SECONDS, Reference};

const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 60 * 60;
const GROUP: &str = "authentication.k8s.io";

/// A request for a token of a service account, found to be in order.
#[derive(Debug)]
pub struct TokenRequest<'a> {
    body: &'a Value,
    namespace: &'a str,
    account: &'a str,
    audiences: Vec<String>,
    seconds: i64,
    bound: Option<BoundTo<'a>>,
}

#[derive(Debug)]
struct BoundTo<'a> {
    kind: BoundKind,
    name: &'a str,
    uid: &'a str,
}

/// What a token can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundKind {
    Pod,
    Secret,
    Node,
}

impl BoundKind {
    /// The resource, and how the kind is called in conflicts.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            BoundKind::Pod => ("pods", "Pod"),
            BoundKind::Secret => ("secrets", "Secret"),
            BoundKind::Node => ("nodes", "Node"),
        }
    }
}

impl<'a> TokenRequest<'a> {
    /// Reads the body posted to `serviceaccounts/ACCOUNT/token`.
    pub fn read(body: &'a Value, namespace: &'a str, account: &'a str) -> Result<Self, Status> {
        let kind = GroupKind { group: GROUP.into(), kind: "TokenRequest".into() };
        let metadata = Path::new("metadata");
        for (field, given, expected) in [
            ("name", objects::meta::name(body), account),
            ("namespace", objects::meta::namespace(body), namespace),
        ] {
            if !given.is_empty() && given != expected {
                let detail = format!("must match the service account {field} if specified");
                let error = Error::invalid(&metadata.child(field), given, detail);
                return Err(Status::invalid(&kind, account, &[error]));
            }
        }
        let seconds =
            body.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
        let path = Path::new("spec").child("expirationSeconds");
        let wrong = if seconds < SHORTEST_SECONDS {
            Some("may not specify a duration less than 10 minutes")
        } else if seconds > LONGEST_SECONDS {
            Some("may not specify a duration larger than 2^32 seconds")
        } else {
            None
        };
        if let Some(detail) = wrong {
            return Err(Status::invalid(&kind, "", &[Error::invalid(&path, seconds, detail)]));
        }
        let audiences = body.pointer("/spec/audiences").and_then(Value::as_array).into_iter().flatten();
        let audiences = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(TokenRequest { body, namespace, account, audiences, seconds, bound: BoundTo::read(body)? })
    }

    /// The object that the token is to be bound to.
    pub fn bound_lookup(&self) -> Option<Lookup> {
        let bound = self.bound.as_ref()?;
        let namespace = if bound.kind == BoundKind::Node { "" } else { self.namespace };
        let (resource, _) = bound.kind.names();
        Some(Lookup { resource, namespace: namespace.to_owned(), name: bound.name.to_owned() })
    }

    /// The node that the pod runs on, once that pod is known.
    pub fn node_lookup(&self, bound: Option<&Value>) -> Option<Lookup> {
        self.bound.as_ref().filter(|bound| bound.kind == BoundKind::Pod)?;
        let node = node_of(bound?);
        (!node.is_empty()).then(|| Lookup {
            resource: "nodes",
            namespace: String::new(),
            name: node.to_owned(),
        })
    }

    /// What to warn of if the server's longest lifetime is shorter than the one that is asked for.
    pub fn shortened(&self, longest: Option<Duration>) -> Option<String> {
        let longest = i64::try_from(longest?.as_secs()).ok().filter(|longest| *longest < self.seconds)?;
        Some(format!("requested expiration of {} seconds shortened to {longest} seconds", self.seconds))
    }

    /// The body with a token in its status. `account`, `bound` and `node` are what was found; `longest`
    /// is the longest lifetime the server gives, whatever is asked for.
    pub fn issue(
        &self,
        issuer: &Issuer,
        account: &Value,
        bound: Option<&Value>,
        node: Option<&Value>,
        longest: Option<Duration>,
        now: Timestamp,
    ) -> Result<Value, Status> {
        let uid = objects::meta::uid(account);
        let asked = objects::meta::uid(self.body);
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the token request ({asked}) does not match the UID of the service account ({uid})"
            );
            return Err(Status::conflict(&GroupResource::new(GROUP, "TokenRequest"), self.account, why));
        }
        let audiences = if self.audiences.is_empty() { issuer.api_audiences() } else { &self.audiences };
        let longest = longest.and_then(|longest| i64::try_from(longest.as_secs()).ok());
        let seconds = longest.map_or(self.seconds, |longest| self.seconds.min(longest));
        let mut token = BoundToken {
            namespace: self.namespace.to_owned(),
            service_account: Reference::new(self.account, uid),
            audiences: audiences.to_vec(),
            lifetime: duration(seconds),
            ..BoundToken::default()
        };
        self.bind(&mut token, bound, node)?;
        // A client that reads its token once at start lives on, and is found out by the warning.
        let for_us = audiences.iter().all(|one| issuer.api_audiences().contains(one));
        if token.pod.is_some() && seconds == PROJECTED_LIFETIME_SECONDS && for_us {
            token.warn_after = Some(token.lifetime);
            token.lifetime = duration(EXTENDED_LIFETIME_SECONDS);
        }
        let text = issuer
            .issue(&token, now)
            .map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
        let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        Ok(self.response(account, audiences, seconds, text.expose(), now, end))
    }

    fn bind(
        &self,
        token: &mut BoundToken,
        found: Option<&Value>,
        node: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(bound) = &self.bound else { return Ok(()) };
        let (resource, kind) = bound.kind.names();
        let object = found.ok_or_else(|| Status::not_found(&GroupResource::new("", resource), bound.name))?;
        let uid = objects::meta::uid(object);
        if bound.kind == BoundKind::Pod && service_account_of(object) != self.account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                self.account
            )));
        }
        if !bound.uid.is_empty() && bound.uid != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have \
                 been deleted and then recreated",
                bound.uid
            );
            return Err(Status::conflict(&GroupResource::new("", kind), bound.name, why));
        }
        let reference = Some(Reference::new(bound.name, uid));
        match bound.kind {
            BoundKind::Pod => {
                token.pod = reference;
                let name = node_of(object);
                // A node that is not registered is named all the same.
                token.node = (!name.is_empty())
                    .then(|| Reference::new(name, node.map(objects::meta::uid).unwrap_or_default()));
            }
            BoundKind::Secret => token.secret = reference,
            BoundKind::Node => token.node = reference,
        }
        Ok(())
    }

    fn response(
        &self,
        account: &Value,
        audiences: &[String],
        seconds: i64,
        token: &str,
        now: Timestamp,
        end: Timestamp,
    ) -> Value {
        let bound = self.body.pointer("/spec/boundObjectRef").cloned().unwrap_or_default();
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "TokenRequest",
            "metadata": {
                "name": self.account, "namespace": self.namespace, "uid": objects::meta::uid(account),
                "creationTimestamp": objects::time::format(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": objects::time::format(end)},
        })
    }
}

impl<'a> BoundTo<'a> {
    fn read(body: &'a Value) -> Result<Option<Self>, Status> {
        let Some(reference) = body.pointer("/spec/boundObjectRef").filter(|reference| !reference.is_null())
        else {
            return Ok(None);
        };
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let version = GroupVersion::parse(text("apiVersion")).unwrap_or_default();
        let kind = match (version.group.as_str(), text("kind")) {
            ("", "Pod") => BoundKind::Pod,
            ("", "Secret") => BoundKind::Secret,
            ("", "Node") => BoundKind::Node,
            (_, other) => {
                let kind = version.with_kind(other);
                return Err(Status::bad_request(format!("cannot bind token to object of type {kind}")));
            }
        };
        Ok(Some(BoundTo { kind, name: text("name"), uid: text("uid") }))
    }
}

fn node_of(pod: &Value) -> &str {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

fn service_account_of(pod: &Value) -> &str {
    pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default()
}

fn duration(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn account() -> Value {
        json!({"metadata": {"name": "sa", "uid": "u1"}})
    }

    #[test]
    fn a_plain_request() {
        let issuer = Issuer::generate("https://a.example").unwrap();
        let body = json!({"spec": {}});
        let request = TokenRequest::read(&body, "ns", "sa").unwrap();
        assert_eq!(request.bound_lookup(), None);
        let response = request.issue(&issuer, &account(), None, None, None, now()).unwrap();
        assert_eq!(response["spec"]["expirationSeconds"], 3600);
        assert_eq!(response["spec"]["audiences"], json!(["https://a.example"]));
        assert_eq!(response["status"]["expirationTimestamp"], "2026-03-01T13:00:00Z");
        assert_eq!(response["metadata"]["uid"], "u1");
        let token = response["status"]["token"].as_str().unwrap();
        let verified = issuer.verify(token, None, now()).unwrap();
        assert_eq!(
            verified.user(token, &[Some(&account())], now()).unwrap().name,
            "system:serviceaccount:ns:sa"
        );
    }

    #[test]
    fn refusals() {
        fn check(body: Value, expected: &str) {
            let message = TokenRequest::read(&body, "ns", "sa")
                .map_or_else(|status| status.message, |_| "ok".to_owned());
            assert!(message.contains(expected), "{message}");
        }
        let seconds = |seconds: i64| json!({"spec": {"expirationSeconds": seconds}});
        check(seconds(600), "ok");
        check(
            seconds(599),
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        );
        check(seconds(1 << 33), "may not specify a duration larger than 2^32 seconds");
        check(json!({"metadata": {"name": "other"}}), "must match the service account name if specified");
        check(
            json!({"metadata": {"namespace": "other"}}),
            "must match the service account namespace if specified",
        );
        let bound = |version: &str, kind: &str| json!({"spec": {"boundObjectRef": {"apiVersion": version, "kind": kind}}});
        check(bound("v1", "Pod"), "ok");
        check(bound("apps/v1", "Deployment"), "cannot bind token to object of type apps/v1, Kind=Deployment");
    }

    #[test]
    fn bound_to_a_pod() {
        let issuer = Issuer::generate("https://a.example").unwrap();
        let body = json!({"spec": {
            "expirationSeconds": PROJECTED_LIFETIME_SECONDS,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p1"},
        }});
        let request = TokenRequest::read(&body, "ns", "sa").unwrap();
        assert_eq!(request.bound_lookup().unwrap().resource, "pods");
        let pod = |uid: &str, account: &str| json!({"metadata": {"uid": uid}, "spec": {"nodeName": "n", "serviceAccountName": account}});
        let issue = |pod: Option<&Value>| request.issue(&issuer, &account(), pod, None, None, now());
        let good = pod("p1", "sa");
        assert_eq!(request.node_lookup(Some(&good)).unwrap().name, "n");
        let response = issue(Some(&good)).unwrap();
        // It says an hour, and lives a year.
        assert_eq!(response["status"]["expirationTimestamp"], "2026-03-01T13:00:07Z");
        let token = response["status"]["token"].as_str().unwrap();
        let later = now() + SignedDuration::from_hours(24 * 300);
        let verified = issuer.verify(token, None, later).unwrap();
        assert_eq!(verified.stale_after, Some(now() + SignedDuration::from_secs(PROJECTED_LIFETIME_SECONDS)));

        assert_eq!(issue(None).unwrap_err().code, 404);
        assert_eq!(issue(Some(&pod("p2", "sa"))).unwrap_err().code, 409);
        let other = issue(Some(&pod("p1", "other"))).unwrap_err();
        assert_eq!(
            other.message,
            "cannot bind token for serviceaccount \"sa\" to pod running with different serviceaccount name."
        );
    }

    #[test]
    fn the_servers_limits() {
        let issuer = Issuer::generate("https://a.example").unwrap();
        let body = json!({"metadata": {"uid": "u2"}, "spec": {"expirationSeconds": 7200}});
        let request = TokenRequest::read(&body, "ns", "sa").unwrap();
        assert_eq!(request.issue(&issuer, &account(), None, None, None, now()).unwrap_err().code, 409);
        let body = json!({"spec": {"expirationSeconds": 7200}});
        let request = TokenRequest::read(&body, "ns", "sa").unwrap();
        let longest = Some(Duration::from_secs(3600));
        let response = request.issue(&issuer, &account(), None, None, longest, now()).unwrap();
        assert_eq!(response["spec"]["expirationSeconds"], 3600);
        assert_eq!(
            request.shortened(longest).as_deref(),
            Some("requested expiration of 7200 seconds shortened to 3600 seconds")
        );
        assert_eq!(request.shortened(Some(Duration::from_secs(7200))), None);
        assert_eq!(request.shortened(None), None);
    }
}
