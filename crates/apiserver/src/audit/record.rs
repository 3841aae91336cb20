//! What is known of one request so far, and the lines that are written of it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use auth::authorize::Decision;
use auth::user::UserInfo;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use objects::{CompactString, Status, Value, decode, meta};
use serde::Deserialize;
use wire::{protobuf, yaml};

use super::event::{Event, ObjectRef, ResponseStatus, timestamp};
use super::log::Log;
use super::policy::{Level, Stage, Subject, Verdict};
use super::{CONTROL_PLANE, CONTROL_PLANE_UID};
use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::route::Target;

/// As upstream: a user agent longer than this is cut.
const MAX_USER_AGENT: usize = 1_024;

/// A request as it was asked.
pub struct Asked<'a> {
    pub id: &'a str,
    pub uri: &'a Uri,
    pub head: &'a Head,
    pub target: &'a Target,
    pub verb: &'a str,
    pub control_plane: &'a ControlPlane,
    pub received: jiff::Timestamp,
}

/// Goes along with a request that is told of. When it is dropped, the request is over: whatever ended it.
pub struct Record {
    log: Log,
    verdict: Verdict,
    event: Box<Event>,
    over: bool,
}

impl Record {
    /// None if the policy wants to know nothing of this request.
    pub fn begin(log: &Log, asked: &Asked<'_>, user: Option<&UserInfo>) -> Option<Record> {
        let subject = Subject { user, verb: asked.verb, target: asked.target };
        let verdict = log.policy().verdict(&subject);
        if verdict.level == Level::None {
            return None;
        }
        let head = asked.head;
        let object_ref = match asked.target {
            Target::Path(_) => None,
            Target::Resource(target) => Some(ObjectRef {
                resource: target.resource.clone(),
                namespace: target.namespace.clone(),
                name: target.name.clone(),
                api_group: target.group.clone(),
                api_version: target.version.clone(),
                subresource: target.subresource.clone(),
                ..ObjectRef::default()
            }),
        };
        let plane = asked.control_plane;
        let mut annotations = BTreeMap::from([(CONTROL_PLANE.into(), plane.name.to_string())]);
        annotations.extend(plane.charter.owner.clone().map(|owner| (CONTROL_PLANE_UID.into(), owner)));
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: verdict.level,
            audit_id: asked.id.to_owned(),
            stage: Stage::RequestReceived,
            // HTTP/2 has the host in it too.
            request_uri: asked.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            verb: asked.verb.into(),
            user: user.map_or_else(|| Value::Object(Default::default()), UserInfo::to_value),
            impersonated_user: None,
            source_ips: source_ips(&head.headers, head.door.remote),
            user_agent: user_agent(head.header(header::USER_AGENT).unwrap_or_default()),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: timestamp(asked.received),
            stage_timestamp: String::new(),
            annotations,
        };
        Some(Record { log: log.clone(), verdict, event: Box::new(event), over: false })
    }

    pub fn impersonates(&mut self, user: &UserInfo) {
        self.event.impersonated_user = Some(user.to_value());
    }

    pub fn decided(&mut self, decision: &Decision) {
        let word = if decision.allowed() { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", word);
        self.annotate("authorization.k8s.io/reason", &decision.reason);
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.event.annotations.insert(key.into(), value.to_owned());
    }

    /// The body that came with the request: what object it is about, and where that is wanted, the body itself.
    pub fn request_body(&mut self, headers: &HeaderMap, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        if self.verdict.level >= Level::Request {
            self.event.request_object = object_in(headers, body).map(|mut object| {
                self.complete_reference(&Named::of(&object));
                without_managed_fields(&mut object, self.verdict.omit_managed_fields);
                object
            });
        } else if let Ok(object) = serde_json::from_slice::<Named>(body) {
            self.complete_reference(&object);
        } else if let Some(object) = object_in(headers, body) {
            self.complete_reference(&Named::of(&object));
        }
    }

    /// The path says where an object is to be created, and only the body what it is called.
    fn complete_reference(&mut self, named: &Named) {
        let Some(reference) = &mut self.event.object_ref else { return };
        let given = &named.metadata;
        for (field, value) in [
            (&mut reference.namespace, &given.namespace),
            (&mut reference.name, &given.name),
            (&mut reference.uid, &given.uid),
            (&mut reference.resource_version, &given.resource_version),
        ] {
            if field.is_empty() {
                *field = value.clone();
            }
        }
    }

    pub fn wants_response(&self) -> bool {
        self.verdict.level >= Level::RequestResponse
    }

    pub fn response_body(&mut self, headers: &HeaderMap, body: &Bytes) {
        if let Some(mut object) = object_in(headers, body) {
            without_managed_fields(&mut object, self.verdict.omit_managed_fields);
            self.event.response_object = Some(object);
        }
    }

    pub fn answered(&mut self, code: StatusCode) {
        self.event.response_status = Some(ResponseStatus::code(code.as_u16()));
    }

    pub fn failed(&mut self, status: &Status) {
        self.event.response_status = Some(ResponseStatus::failure(status));
    }

    /// Writes the line of a stage, and waits for room in the queue if it must.
    pub async fn reach(&mut self, stage: Stage) {
        self.over |= matches!(stage, Stage::ResponseComplete | Stage::Panic);
        if let Some(line) = self.line(stage) {
            self.log.write(line).await;
        }
    }

    /// Nothing more will be told of the request.
    pub fn end(&mut self) {
        self.over = true;
    }

    fn line(&mut self, stage: Stage) -> Option<Vec<u8>> {
        if !self.verdict.tells(stage) {
            return None;
        }
        self.event.stage = stage;
        self.event.stage_timestamp = timestamp(jiff::Timestamp::now());
        let mut line = serde_json::to_vec(&self.event).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

impl Drop for Record {
    /// A watch that ended, or a client that went away before it had its answer.
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.event.response_status.get_or_insert_with(ResponseStatus::closed_early);
        if let Some(line) = self.line(Stage::ResponseComplete) {
            self.log.write_later(line);
        }
    }
}

/// A body as the log shows it: as JSON, whatever it was. What cannot be read is left out.
fn object_in(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.contains("protobuf") {
        return protobuf::decode(body, protobuf::Kind { api_version: "", kind: "" }).ok();
    }
    // Applied configurations are YAML, or JSON that calls itself so.
    let decoded =
        if content_type.contains("yaml") { yaml::decode(body).ok() } else { decode::json(body).ok() };
    decoded.map(|decoded| decoded.value)
}

/// As much of an object as a reference to it needs.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NamedMetadata {
    name: CompactString,
    namespace: CompactString,
    uid: CompactString,
    resource_version: CompactString,
}

impl Named {
    fn of(object: &Value) -> Named {
        let text = |field: &str| CompactString::from(meta::text(object, field));
        let metadata = NamedMetadata {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
        Named { metadata }
    }
}

/// Of an object, or of each object of a list.
fn without_managed_fields(object: &mut Value, omit: bool) {
    if !omit {
        return;
    }
    let strip = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    strip(object);
    object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(strip);
}

/// Where the request came from, nearest last: what proxies claim, and whom we spoke with.
fn source_ips(headers: &HeaderMap, remote: Option<SocketAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut all: Vec<IpAddr> =
        text("x-forwarded-for").split(',').filter_map(|part| part.trim().parse().ok()).collect();
    if let Ok(real) = text("x-real-ip").trim().parse()
        && !all.contains(&real)
    {
        all.push(real);
    }
    if let Some(remote) = remote.map(|remote| remote.ip().to_canonical())
        && all.last() != Some(&remote)
    {
        all.push(remote);
    }
    all
}

fn user_agent(given: &str) -> String {
    match given.char_indices().nth(MAX_USER_AGENT) {
        Some((end, _)) => format!("{}...TRUNCATED", &given[..end]),
        None => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_from_the_farthest() {
        fn check(forwarded: &str, real: &str, remote: &str, expected: &str) {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            headers.insert("x-real-ip", real.parse().unwrap());
            let shown: Vec<String> =
                source_ips(&headers, remote.parse().ok()).iter().map(ToString::to_string).collect();
            assert_eq!(shown.join(" "), expected);
        }
        check("", "", "10.0.0.1:80", "10.0.0.1");
        check("", "", "[::ffff:10.0.0.1]:80", "10.0.0.1");
        check("1.1.1.1, nonsense,2.2.2.2", "", "10.0.0.1:80", "1.1.1.1 2.2.2.2 10.0.0.1");
        check("1.1.1.1", "1.1.1.1", "10.0.0.1:80", "1.1.1.1 10.0.0.1");
        check("1.1.1.1", "3.3.3.3", "3.3.3.3:1", "1.1.1.1 3.3.3.3");
        check("", "x", "", "");
    }

    #[test]
    fn long_user_agents_are_cut() {
        assert_eq!(user_agent("kubectl/v1"), "kubectl/v1");
        let cut = user_agent(&"ä".repeat(2_000));
        assert_eq!(cut, format!("{}...TRUNCATED", "ä".repeat(MAX_USER_AGENT)));
    }
}
