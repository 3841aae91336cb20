//! One request on its way: everything a verb needs to know of it.

use std::sync::{Arc, OnceLock};

use auth::Signer;
use auth::user::UserInfo;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use objects::{CompactString, GroupResource, Status, selector};
use parking_lot::Mutex;
use tokio::time::Instant;
use wire::negotiate::{Accepted, Endpoint};
use wire::options::{self, DeleteOptions, FieldValidation, ListOptions};
use wire::protobuf::Kind;
use wire::query::Query;

use crate::Door;
use crate::body::Body;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::in_process::Unconverted;
use crate::route::{Action, ResourceTarget};
use crate::service::Failure;
use crate::stations::authenticate::unauthorized;
use crate::stations::fairness::Seat;
use crate::surface::{Row, Surface};
use crate::write::WriteOptions;

/// A request without its body.
#[derive(Clone)]
pub struct Head {
    pub method: Method,
    /// Decoded.
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub door: Door,
    /// Asked by a caller in the process; see [`Unconverted`].
    unconverted: bool,
    /// Which key vouches for the caller, once that is known.
    signer: OnceLock<Signer>,
}

impl Head {
    pub fn new(parts: http::request::Parts, door: Door) -> Result<Self, Failure> {
        let path = decode_path(parts.uri.path())
            .ok_or_else(|| Status::bad_request("the path is not valid percent-encoded UTF-8"))?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let unconverted = parts.extensions.get::<Unconverted>().is_some();
        Ok(Head {
            method: parts.method,
            path,
            query,
            headers: parts.headers,
            door,
            unconverted,
            signer: OnceLock::new(),
        })
    }

    pub fn signed_by(&self, signer: &Signer) {
        let _ = self.signer.set(signer.clone());
    }

    /// The key that vouches for the caller; nobody's for those who are known otherwise.
    pub fn signer(&self) -> Option<&Signer> {
        self.signer.get()
    }

    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn wants_watch(&self) -> bool {
        self.query.flag("watch").unwrap_or(false)
    }

    pub fn is_upgrade(&self) -> bool {
        self.headers.contains_key(header::UPGRADE)
    }

    /// The one name a field selector leaves, if it does.
    pub fn selected_name(&self) -> Option<String> {
        let selector = selector::fields::Selector::parse(self.query.get("fieldSelector")?).ok()?;
        selector.exact("metadata.name").map(str::to_owned)
    }

    /// The token of an `Authorization: Bearer` header. Any other scheme is nobody's here, as upstream.
    pub fn bearer_token(&self) -> Result<Option<&str>, Failure> {
        let Some(value) = self.headers.get(header::AUTHORIZATION) else { return Ok(None) };
        let value = value.to_str().map_err(|_| unauthorized())?;
        let Some((scheme, token)) = value.trim().split_once(' ') else { return Ok(None) };
        let token = token.trim();
        Ok((scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token))
    }

    /// The name to track a client's writes by, where it gives none: the first part of its user agent.
    pub fn default_manager(&self) -> &str {
        let agent = self.header(header::USER_AGENT).unwrap_or_default();
        let name = agent.split('/').next().unwrap_or_default();
        if name.is_empty() { "unknown" } else { name }
    }
}

/// A request for a resource, with everything the stations found out.
pub struct Call {
    pub engine: Arc<Engine>,
    pub plane: Arc<ControlPlane>,
    pub surface: Arc<Surface>,
    pub row: Arc<Row>,
    pub user: Arc<UserInfo>,
    pub target: ResourceTarget,
    pub action: Action,
    pub head: Head,
    pub body: Bytes,
    pub accepted: Accepted,
    pub now: jiff::Timestamp,
    pub began: Instant,
    /// Held for as long as the request, and by a watch for as long as it lasts.
    pub seat: Option<Arc<Seat>>,
    warnings: Mutex<Vec<String>>,
    notes: Mutex<Vec<Note>>,
}

/// An annotation for the audit log.
pub type Note = (CompactString, String);

impl Call {
    #[allow(clippy::too_many_arguments, reason = "made in one place, of what the stations found")]
    pub fn new(
        engine: Arc<Engine>,
        plane: Arc<ControlPlane>,
        surface: Arc<Surface>,
        row: Arc<Row>,
        user: Arc<UserInfo>,
        target: ResourceTarget,
        action: Action,
        head: Head,
        body: Bytes,
    ) -> Result<Self, Failure> {
        let endpoint = match action {
            Action::List | Action::DeleteCollection => Endpoint::LIST,
            Action::Watch => Endpoint::WATCH,
            _ => Endpoint::OBJECT,
        };
        let endpoint = endpoint.with_protobuf(wire::protobuf::has_message(row.kind()));
        let accepted = wire::negotiate::accept(head.header(header::ACCEPT), &endpoint)?;
        let now = engine.now();
        let mut target = target;
        let is_namespaces = row.storage_kind == crate::lifecycle::NAMESPACES;
        if !row.ty.is_namespaced() && !is_namespaces && !target.namespace.is_empty() {
            // What belongs to the whole control plane is in no namespace.
            return Err(crate::engine::no_control_plane().into());
        }
        if !row.ty.is_namespaced() {
            // A namespace carries its own name as namespace for authorization only.
            target.namespace = CompactString::default();
        }
        Ok(Call {
            engine,
            plane,
            surface,
            row,
            user,
            target,
            action,
            head,
            body,
            accepted,
            now,
            began: Instant::now(),
            seat: None,
            warnings: Mutex::default(),
            notes: Mutex::default(),
        })
    }

    /// Whether objects are handled in the version they are stored in: a deletion of custom resources needs no other.
    pub fn is_unconverted(&self) -> bool {
        let deletes = matches!(self.action, Action::Delete | Action::DeleteCollection);
        self.head.unconverted && deletes && self.row.is_custom()
    }

    /// The same call for another object of the same kind.
    pub fn about(&self, namespace: &str, name: &str) -> Call {
        let mut call = self.for_watch();
        call.target.namespace = namespace.into();
        call.target.name = name.into();
        call
    }

    /// What a watch keeps of the call that began it.
    pub fn for_watch(&self) -> Call {
        Call {
            engine: self.engine.clone(),
            plane: self.plane.clone(),
            surface: self.surface.clone(),
            row: self.row.clone(),
            user: self.user.clone(),
            target: self.target.clone(),
            action: self.action,
            head: self.head.clone(),
            body: Bytes::new(),
            accepted: self.accepted,
            now: self.now,
            began: self.began,
            seat: self.seat.clone(),
            warnings: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    pub fn list_options(&self) -> Result<ListOptions, Failure> {
        let mut options = ListOptions::from_query(&self.head.query)?;
        options.watch = self.action == Action::Watch;
        Ok(options)
    }

    /// How the client wants its create or update done.
    pub fn write_options(&self) -> Result<WriteOptions, Failure> {
        let given = match self.action {
            Action::Create => options::WriteOptions::for_create(&self.head.query)?,
            _ => options::WriteOptions::for_update(&self.head.query)?,
        };
        let manager = crate::managed::manager(self, &given.field_manager);
        Ok(WriteOptions { dry_run: given.dry_run, manager })
    }

    pub fn field_validation(&self) -> Result<FieldValidation, Failure> {
        Ok(options::WriteOptions::for_update(&self.head.query)?.field_validation)
    }

    /// The options of a delete: in the body if there is one, else in the query.
    pub fn delete_options(&self) -> Result<DeleteOptions, Failure> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(DeleteOptions::from_query(&self.head.query)?);
        }
        let expected = Kind { api_version: "v1", kind: "DeleteOptions" };
        let body = crate::stations::decode::object(self, expected)?.value;
        Ok(DeleteOptions::from_body(&body)?)
    }

    pub fn group_resource(&self) -> GroupResource {
        self.row.group_resource()
    }

    pub fn key(&self, name: &str) -> store::Key {
        self.row.key(&self.target.namespace, name)
    }

    /// Told to the client beside the answer.
    pub fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// Told to the audit log.
    pub fn note(&self, key: impl Into<CompactString>, text: impl Into<String>) {
        self.notes.lock().push((key.into(), text.into()));
    }

    pub fn notes(&self) -> Vec<Note> {
        self.notes.lock().clone()
    }

    /// Seconds, as `metav1.Time` writes them.
    pub fn timestamp(&self) -> String {
        timestamp(self.now)
    }

    pub fn not_found(&self, name: &str) -> Failure {
        Status::not_found(&self.group_resource(), name).into()
    }

    /// Adds the `Warning` headers, bounded as upstream bounds them.
    pub fn with_warnings(&self, mut response: Response<Body>) -> Response<Body> {
        let mut room = 4_096;
        for text in self.warnings.lock().iter() {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
            let Some(left) = usize::checked_sub(room, quoted.len()) else { break };
            room = left;
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        response
    }
}

pub fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A path with its percent-encoding undone; none if it is no text.
fn decode_path(path: &str) -> Option<String> {
    if !path.contains('%') {
        return Some(path.to_owned());
    }
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        let byte = u8::try_from(high * 16 + low).ok()?;
        // No name contains either, and a path must not be cut into other pieces than it was authorized by.
        if byte == 0 || byte == b'/' {
            return None;
        }
        out.push(byte);
    }
    String::from_utf8(out).ok()
}

/// The revision that options ask for; none if they do not.
pub fn revision(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse().ok().filter(|_| text == "0" || !text.starts_with(['0', '+']));
    parsed.map(Some).ok_or_else(|| {
        let path = objects::Path::new("resourceVersion");
        let error = objects::field::Error::invalid(&path, text, "must be specified as an integer");
        let kind = objects::GroupKind { group: "meta.k8s.io".into(), kind: "ListOptions".into() };
        Status::invalid(&kind, "", &[error]).into()
    })
}
