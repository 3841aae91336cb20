//! What can be asked of whole control planes, as paths of the hosting one.
//!
//! | | |
//! |---|---|
//! | `GET /hangar/v1/control-planes` | what each takes |
//! | `GET /hangar/v1/control-planes/NAME/usage` | what one takes |
//! | `GET /hangar/v1/control-planes/NAME/export?revision=N` | everything in it, as bytes |
//! | `POST /hangar/v1/control-planes/NAME/import?type=TYPE&store=STORE` | a new control plane from such bytes |
//! | `GET /hangar/v1/control-planes/NAME/revision?at=TIME` | the revision that was current then |
//! | `GET /hangar/v1/control-planes/NAME/audit?since=TIME` | what the audit log has of it, a line each |
//! | `GET /hangar/v1/control-planes/A/diff/B` | what B has other than A |
//! | `GET /hangar/v1/keys` | the ids of the installation's keys |
//! | `POST /hangar/v1/keys/data/rotate` | another key for data at rest |
//! | `POST /hangar/v1/control-planes/NAME/keys/KIND?change=CHANGE` | changes a key; see [`key_change`] |
//!
//! Who may ask is said by roles with these `nonResourceURLs`; nobody but administrators may by default. What else it takes
//! to write a `ControlPlane` is in [`rights`](crate::rights).

use std::sync::Arc;
use std::time::Duration;

use apiserver::call::Head;
use apiserver::control_plane::{Charter, KeyChange, KeyKind};
use apiserver::service::{Answer, Failure, method_not_allowed};
use apiserver::{Body, Engine, Engines, Extension, Needed, RotationFailure, Rotator, Writing};
use async_trait::async_trait;
use auth::user::UserInfo;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderValue, Method, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use objects::{Reason, Status, Value, meta};
use serde_json::json;
use store::{Export, Revision, StoreError};
use wire::query::Query;

use crate::api;
use crate::backup::{self, About};
use crate::importing::Importing;
use crate::processes::{Processes, Room};
use crate::{apart, embedded, history, hooks, names, operations, operator, rights};

/// Control planes listed at once.
const PAGE: usize = 500;
/// How long a backup that is not wanted is listened to.
const POUR_AWAY: Duration = Duration::from_secs(10);

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The life of the longest certificates in kubeconfigs; those that requests for certificates get are no longer.
const CLIENT_OVERLAP: Duration = DAY.saturating_mul(366);
/// The life of the longest tokens: those of pods.
const TOKEN_OVERLAP: Duration = DAY.saturating_mul(366);

pub struct Endpoints {
    engines: Engines,
    processes: Option<Arc<Processes>>,
}

impl Endpoints {
    pub fn new(engines: impl Into<Engines>, processes: Option<Arc<Processes>>) -> Self {
        Endpoints { engines: engines.into(), processes }
    }

    /// The control plane of this name, if it has a process of its own.
    fn apart(&self, name: &str) -> Option<Arc<Room>> {
        self.processes.as_ref()?.named(name)
    }

    /// The answer of a control plane's own process, which has the same paths.
    async fn passed_on(&self, room: &Room, what: &str, query: &Query) -> Answer {
        let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let query: Vec<String> =
            query.pairs().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let what = format!("{what}?{}", query.join("&"));
        Ok(apart::ask(self.engines.default_store(), room, &what).await?)
    }

    async fn usage(&self, name: &str) -> Result<Value, Failure> {
        let Some(room) = self.apart(name) else {
            return Ok(json!(operations::usage(self.engine_of(name).await?, name).await?));
        };
        let answer = self.passed_on(&room, "usage", &Query::default()).await?;
        let body = answer.into_body().collect().await.map_err(Status::internal)?.to_bytes();
        Ok(serde_json::from_slice(&body).map_err(Status::internal)?)
    }

    /// That of the store a control plane is in.
    async fn engine_of(&self, name: &str) -> Result<&Arc<Engine>, Failure> {
        let found = self.engines.find(name).await?;
        // Who is nowhere is not found in the first one either, and that says so.
        Ok(found.map_or(self.engines.default_store(), |(engine, _)| engine))
    }

    fn rotator(&self) -> Result<&Arc<dyn Rotator>, Failure> {
        self.engines.default_store().rotator().ok_or_else(|| {
            Status::new(Reason::NotFound, "the keys of this server are not replaced by it").into()
        })
    }

    /// That of a store by its name.
    fn named(&self, store: &str) -> Result<&Arc<Engine>, Failure> {
        self.engines.named(store).ok_or_else(|| {
            let known = self.engines.names().join(", ");
            Status::bad_request(format!("there is no store {store:?}; there is {known}")).into()
        })
    }

    async fn all(&self) -> Answer {
        let mut items = Vec::new();
        for engine in self.engines.iter() {
            let mut after: Option<String> = None;
            loop {
                let page = match engine.store.tenants(after.as_deref(), PAGE).await {
                    // What is in a store that is away takes nothing now.
                    Err(StoreError::Unavailable(_)) => break,
                    page => page?,
                };
                let Some(last) = page.last() else { break };
                after = Some(last.name.to_string());
                for tenant in page.iter().filter(|tenant| engine.planes.is_open(tenant)) {
                    // One that went meanwhile is not told of.
                    items.extend(self.usage(&tenant.name).await.ok());
                }
            }
        }
        for name in self.processes.iter().flat_map(|processes| processes.names()) {
            // Nor is one that does not answer.
            items.extend(self.usage(&name).await.ok().filter(|usage| usage["name"] == name));
        }
        items.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
        Ok(answer(&json!({ "items": items })))
    }

    /// All that is in a control plane, wherever that is kept.
    async fn backup(&self, name: &str, at: Option<Revision>) -> Result<Export, Failure> {
        match self.apart(name) {
            Some(room) => Ok(apart::backup(self.engines.default_store(), &room, at).await?),
            None => operations::backup(self.engine_of(name).await?, name, at).await.map_err(too_old),
        }
    }

    async fn export(&self, name: &str, head: &Head) -> Answer {
        let at = match head.query.get("revision") {
            Some(text) => {
                Some(Revision(text.parse().map_err(|_| Status::bad_request("revision must be a number"))?))
            }
            None => None,
        };
        let export = self.backup(name, at).await?;
        let export = match self.about(name).await? {
            Some(about) => backup::written(&about, export),
            None => export,
        };
        Ok(streamed(export, "application/octet-stream"))
    }

    /// What its object says of a control plane, if it has one here.
    async fn about(&self, name: &str) -> Result<Option<About>, Failure> {
        let hosting = self.engines.default_store();
        let client = embedded::client(hosting.clone(), &hosting.config.hosting);
        let object = api::get(&client, &operator::place(name)).await.map_err(refused)?;
        Ok(object.map(|object| About { r#type: object["spec"]["type"].as_str().map(str::to_owned) }))
    }

    /// The object first, so that the control plane has an owner; a failure takes it back.
    async fn import(&self, user: &UserInfo, name: &str, head: &Head, body: Body) -> Answer {
        let (about, export) = backup::read(received(body)).await.map_err(no_backup)?;
        let (importing, object) = match self.begin(user, name, head, &about).await {
            Ok(begun) => begun,
            Err(failure) => {
                pour_away(export).await;
                return Err(failure);
            }
        };
        let engine = self.named(object["spec"]["store"].as_str().unwrap_or_default())?;
        let charter = Charter { owner: Some(meta::uid(&object).to_owned()), ..Charter::default() };
        tokio::select! {
            restored = operations::restore(engine, name, charter, export) => restored?,
            never = importing.show() => match never {},
        };
        Ok(answer(&importing.done().await.map_err(refused)?))
    }

    /// Changes a key, and has everything renewed that was made with it.
    async fn change_key(&self, name: &str, kind: &str, head: &Head) -> Answer {
        let (kind, change) = key_change(kind, head)?;
        if self.apart(name).is_some() {
            let why = format!(
                "control plane {name:?} runs in its own process (spec.isolation), whose keys cannot be rotated; \
                 spec.credentials.generation replaces its client authority"
            );
            return Err(Status::bad_request(why).into());
        }
        let hosting = self.engines.default_store();
        let engine = self.engine_of(name).await?;
        engine.change_key(name, kind, change).await?;
        tracing::info!(control_plane = name, ?kind, ?change, "key changed");
        match kind {
            KeyKind::Tokens if matches!(change, KeyChange::Rotate { .. }) => {}
            KeyKind::Tokens => renew_token_secrets(&embedded::client(self.engines.clone(), name)).await?,
            // Its reconciliation writes new kubeconfigs. The hosting control plane has no such object.
            KeyKind::Clients if name == hosting.config.hosting => {}
            KeyKind::Clients => {
                let client = embedded::client(self.engines.clone(), &hosting.config.hosting);
                let time = objects::time::format(hosting.now());
                let patch = json!({"metadata": {"annotations": {names::KEYS_CHANGED: time}}});
                api::merge(&client, &operator::place(name), "", &patch).await.map_err(refused)?;
            }
        }
        Ok(answer(&json!({"name": name})))
    }

    async fn begin(
        &self,
        user: &UserInfo,
        name: &str,
        head: &Head,
        about: &About,
    ) -> Result<(Importing, Value), Failure> {
        let mut spec = json!({"type": head.query.get("type").or(about.r#type.as_deref()).unwrap_or("k8s")});
        if let Some(store) = head.query.get("store") {
            self.named(store)?;
            spec["store"] = store.into();
        }
        // As if the user created the object, which the operator does here.
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let client =
            embedded::client_of(self.engines.clone(), &self.engines.default_store().config.hosting, user);
        for needed in rights::needed(&object, None) {
            if !rights::may(&client, &needed).await.map_err(refused)? {
                return Err(rights::forbidden(user, &needed).into());
            }
        }
        let begun = Importing::begin(self.engines.default_store(), name, spec).await.map_err(refused)?;
        begun.ok_or_else(|| {
            let message = format!("control plane {name:?} already exists");
            Status::new(Reason::AlreadyExists, message).into()
        })
    }
}

#[async_trait]
impl Extension for Endpoints {
    async fn answer(&self, user: &UserInfo, head: &Head, path: &[&str], body: Body) -> Answer {
        let get = head.method == Method::GET;
        if let ["control-planes", name, what @ ("usage" | "revision" | "audit")] = path
            && get
            && let Some(room) = self.apart(name)
        {
            return self.passed_on(&room, what, &head.query).await;
        }
        match path {
            ["control-planes"] if get => self.all().await,
            ["control-planes", name, "usage"] if get => Ok(answer(&self.usage(name).await?)),
            ["control-planes", name, "export"] if get => self.export(name, head).await,
            ["control-planes", name, "revision"] if get => {
                let found = history::revision(&self.engines, name, head.query.get("at")).await?;
                Ok(answer(&json!({"revision": found.0})))
            }
            ["control-planes", name, "audit"] if get => {
                let lines = history::audit(&self.engines, name, head.query.get("since")).await?;
                Ok(streamed(lines, "application/x-ndjson"))
            }
            ["control-planes", name, "import"] if head.method == Method::POST => {
                self.import(user, name, head, body).await
            }
            ["control-planes", name, "keys", kind] if head.method == Method::POST => {
                self.change_key(name, kind, head).await
            }
            ["control-planes", one, "diff", other] if get => {
                let (left, right) = (self.backup(one, None).await?, self.backup(other, None).await?);
                Ok(answer(&json!({"items": operations::diff(left, right).await?})))
            }
            ["keys"] if get => {
                let keys = self.rotator()?.keys();
                Ok(answer(&json!({"data": {"current": keys.first(), "known": keys}})))
            }
            ["keys", "data", "rotate"] if head.method == Method::POST => {
                let rotator = self.rotator()?.clone();
                // It goes on without whoever asked.
                let done = tokio::spawn(async move { rotator.rotate_data_key().await }).await;
                let done = done.map_err(Status::internal)?.map_err(not_rotated)?;
                Ok(answer(&json!({"current": done.key, "known": done.keys, "rewritten": done.rows})))
            }
            ["keys"] | ["keys", "data", "rotate"] => Err(method_not_allowed().into()),
            ["control-planes", _, "usage" | "export" | "import" | "revision" | "audit"]
            | ["control-planes", _, "diff" | "keys", _] => Err(method_not_allowed().into()),
            _ => {
                Err(Status::new(Reason::NotFound, "the server could not find the requested resource").into())
            }
        }
    }

    fn needs(&self, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Needed> {
        if kind == names::CONTROL_PLANES { rights::needed(object, old) } else { Vec::new() }
    }

    fn complete(&self, kind: &str, write: &Writing<'_>, object: &mut Value) -> Result<(), Failure> {
        if kind == names::HOOKS { Ok(hooks::authors::record(write, object)?) } else { Ok(()) }
    }
}

fn not_rotated(failure: RotationFailure) -> Status {
    let reason = match failure {
        RotationFailure::Underway => Reason::Conflict,
        RotationFailure::Failed(_) => Reason::InternalError,
    };
    Status::new(reason, failure.to_string())
}

/// `clients` is the authority of client certificates, `tokens` the key of service accounts' tokens. `rotate` lets the old one
/// verify for as long as what it signed can be valid, or for `overlapSeconds`; `finish` ends that; `revoke` does both.
fn key_change(kind: &str, head: &Head) -> Result<(KeyKind, KeyChange), Failure> {
    let bad = |why: String| Failure::from(Status::bad_request(why));
    let (kind, longest) = match kind {
        "clients" => (KeyKind::Clients, CLIENT_OVERLAP),
        "tokens" => (KeyKind::Tokens, TOKEN_OVERLAP),
        other => return Err(bad(format!("there is no key {other:?}: it is clients or tokens"))),
    };
    let change = match head.query.get("change") {
        Some("rotate") => KeyChange::Rotate {
            overlap: match head.query.get("overlapSeconds").map(str::parse) {
                None => longest,
                Some(Ok(seconds)) => Duration::from_secs(seconds).min(longest),
                Some(Err(_)) => return Err(bad("overlapSeconds must be a number".to_owned())),
            },
        },
        Some("finish") => KeyChange::Finish,
        Some("revoke") => KeyChange::Revoke,
        _ => return Err(bad("change must be rotate, finish or revoke".to_owned())),
    };
    Ok((kind, change))
}

/// Takes the tokens out of Secrets that hold them for good: the controller writes new ones.
async fn renew_token_secrets(client: &kube::Client) -> Result<(), Failure> {
    const SECRETS: &str =
        "/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Fservice-account-token&limit=500";
    let mut next = String::new();
    loop {
        let page = api::get_path(client, &format!("{SECRETS}&continue={next}")).await.map_err(refused)?;
        for secret in page["items"].as_array().into_iter().flatten() {
            let place = api::Place::new("v1", "secrets", meta::namespace(secret), meta::name(secret));
            let patch = json!({"data": {"token": null}});
            match api::merge(client, &place, "", &patch).await {
                // It went meanwhile, and its token with it.
                Err(error) if error.code() == Some(404) => {}
                patched => drop(patched.map_err(refused)?),
            }
        }
        next =
            page["metadata"]["continue"].as_str().unwrap_or_default().replace('+', "%2B").replace('=', "%3D");
        if next.is_empty() {
            return Ok(());
        }
    }
}

fn no_backup(error: StoreError) -> Failure {
    match error {
        StoreError::BadExport(why) => Status::bad_request(why).into(),
        error => error.into(),
    }
}

/// A body as the backup that it is.
fn received(body: Body) -> Export {
    let chunks = BodyStream::new(body).try_filter_map(async |frame| Ok(frame.into_data().ok()));
    Box::pin(chunks.map_err(|error| StoreError::BadExport(error.to_string())))
}

/// Takes what is still sent, for a while: many clients read no answer before they have sent everything, and see nothing but
/// a broken connection if that ends before.
async fn pour_away(mut export: Export) {
    let all = async { while let Some(Ok(_)) = export.next().await {} };
    let _ = tokio::time::timeout(POUR_AWAY, all).await;
}

fn streamed<E>(
    chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    kind: &'static str,
) -> Response<Body>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data).map_err(Into::into)));
    let mut response = Response::new(BodyExt::boxed_unsync(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn answer(value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What the hosting control plane itself answered.
fn refused(error: runtime::Error) -> Failure {
    match error {
        runtime::Error::Api(kube::Error::Api(status)) => {
            let reason = match status.code {
                409 => Reason::AlreadyExists,
                400..500 => Reason::Invalid,
                _ => Reason::InternalError,
            };
            Status::new(reason, status.message.clone()).into()
        }
        other => Status::internal(other).into(),
    }
}

fn too_old(failure: Failure) -> Failure {
    match failure.0.reason {
        Reason::Expired => Status::expired("that revision is no longer kept").into(),
        _ => failure,
    }
}
