//! Changes as they happen.
//!
//! A watch is a place in the log and a filter: it holds no queue. What an event looks like on the wire is worked
//! out once for all watchers that see it alike.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderValue, Response, header};
use objects::{Reason, Status, Value};
use serde_json::json;
use store::{Change, Delivery, Event, Revision, StoreError, WatchError};
use tokio::time::Instant;
use wire::negotiate::{Format, Shape};
use wire::options::ResourceVersionMatch;
use wire::protobuf;

use crate::body;
use crate::call::{Call, revision};
use crate::codec::{SchemaTag, Stored};
use crate::control_plane::Changes;
use crate::metrics;
use crate::present;
use crate::read;
use crate::service::{Answer, Failure};
use crate::stations::authenticate::unauthorized;
use crate::stations::fairness::Reservation;
use crate::surface::Row;
use crate::trail;
use crate::verbs::list::wait_until;
use crate::verbs::scan::{self, SLICE, Scan};
use crate::verbs::selection::Selection;

/// As upstream: a watch without a timeout ends after half an hour to an hour, so that clients spread anew.
const MIN_TIMEOUT: Duration = Duration::from_secs(1_800);
/// As upstream: a bookmark about every minute.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Initial objects sent as one chunk.
const CHUNK: usize = 64 << 10;

pub async fn watch(call: &Call) -> Answer {
    let options = call.list_options()?;
    let selection = Selection::of(call, &options)?;
    let asked = revision(&options.resource_version)?;
    let initial_wanted = match options.send_initial_events {
        Some(wanted) => wanted,
        // Without a revision, or with 0, a watch begins with what is there.
        None => asked.unwrap_or(0) == 0,
    };
    let not_older = options.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
    if let Some(asked) = asked.filter(|asked| *asked > 0)
        && (not_older || !initial_wanted)
    {
        wait_until(call, asked).await?;
    }

    let watching = trail::watching(call);
    let mut columns_sent = false;
    let selection = Arc::new(selection);
    let mut first = None;
    let mut initial = None;
    let from = if initial_wanted {
        let mut objects = Initial {
            scan: Scan::new(&call.row, selection.clone(), None, None, None),
            announces_end: options.send_initial_events == Some(true) && options.allow_watch_bookmarks,
            reservation: call.engine.fairness.reserve(call.plane.id, 2 * SLICE)?,
        };
        first = Some(objects.chunk(call, &mut columns_sent, &watching).await?);
        let from = objects.scan.revision();
        initial = Some(objects).filter(|objects| !objects.scan.is_over());
        from
    } else {
        match asked {
            Some(asked) if asked > 0 => Revision(asked),
            _ => call.engine.store.revision(call.plane.id).await?,
        }
    };
    let events = call.engine.store.watch(call.plane.id, selection.scope.clone(), from).await;
    let events = events.map_err(|error| match error {
        StoreError::Compacted { asked, oldest } => too_old(asked, oldest),
        error => error.into(),
    })?;

    let timeout = options
        .timeout_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or_else(default_timeout, Duration::from_secs);
    let watcher = Watcher {
        changes: call.head.signer().map(|_| call.engine.planes.changes(&call.plane.name)),
        stopped: Box::pin(call.engine.stopped()),
        call: call.for_watch(),
        selection,
        events,
        first: first.filter(|chunk| !chunk.is_empty()),
        initial,
        alarm: Box::pin(tokio::time::sleep(timeout.min(BOOKMARK_EVERY))),
        deadline: Instant::now() + timeout,
        bookmarks: options.allow_watch_bookmarks,
        seen: from,
        told: from,
        columns_sent,
        ended: false,
        watching,
    };
    // In a box, because the stream moves it with every event.
    let stream = futures::stream::unfold(Box::new(watcher), |mut watcher| async move {
        if watcher.first.is_none() && watcher.initial.is_some() {
            return initial_chunk(watcher).await;
        }
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    });
    let mut response = Response::new(body::stream(stream));
    let content_type = present::watch_content_type(&call.accepted);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// What is there when a watch begins, sent piece by piece like a list.
struct Initial {
    scan: Scan,
    /// Whether the client waits for a bookmark after the last object.
    announces_end: bool,
    /// For what is held while a piece is made.
    reservation: Reservation,
}

impl Initial {
    async fn chunk(
        &mut self,
        call: &Call,
        columns_sent: &mut bool,
        watching: &metrics::Watching,
    ) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        while !self.scan.is_over() && out.len() < CHUNK {
            let objects = self.scan.next(call).await?;
            for (_, stored) in &objects {
                write_line(call, &mut out, "ADDED", stored, columns_sent).await?;
            }
            watching.delivered(objects.len() as u64);
        }
        if self.scan.is_over() && self.announces_end {
            bookmark(call, &mut out, self.scan.revision(), true)?;
        }
        Ok(scan::counted(&mut self.reservation, out.freeze()))
    }
}

/// Makes the next piece of the beginning in the control plane's turn.
async fn initial_chunk(mut watcher: Box<Watcher>) -> Option<(Bytes, Box<Watcher>)> {
    let (engine, tenant) = (watcher.call.engine.clone(), watcher.call.plane.id);
    let made = engine.fairness.run_future(tenant, async move {
        let chunk = watcher.initial_chunk().await;
        chunk.map(|chunk| (chunk, watcher))
    });
    // A control plane with too much to do loses the watch: its client begins it again.
    made.await.ok().flatten()
}

fn default_timeout() -> Duration {
    MIN_TIMEOUT.mul_f64(1.0 + rand::random::<f64>())
}

fn too_old(asked: Revision, oldest: Revision) -> Failure {
    Status::expired(format!("too old resource version: {asked} ({oldest})")).into()
}

struct Watcher {
    call: Call,
    selection: Arc<Selection>,
    events: store::Watch,
    /// Of the control plane, for callers whose keys may be revoked.
    changes: Option<Changes>,
    stopped: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The first piece of the beginning, and what makes the others.
    first: Option<Bytes>,
    initial: Option<Initial>,
    deadline: Instant,
    /// Whether the client asked for them.
    bookmarks: bool,
    /// When to look at the time again: kept from event to event, because setting a timer costs more than an event.
    alarm: std::pin::Pin<Box<tokio::time::Sleep>>,
    /// Up to where everything was delivered, and up to where the client knows.
    seen: Revision,
    told: Revision,
    columns_sent: bool,
    ended: bool,
    watching: metrics::Watching,
}

impl Watcher {
    /// The next bytes for the client; none when the watch ends.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.first.take() {
            return Some(chunk);
        }
        while !self.ended {
            tokio::select! {
                biased;
                () = changed(&mut self.changes) => {
                    if is_revoked(&self.call).await {
                        return Some(self.error(&unauthorized()));
                    }
                }
                delivery = self.events.next() => match delivery {
                    Some(Ok(Delivery::Event(event))) => {
                        self.seen = event.revision;
                        match self.line(&event).await {
                            Ok(Some(line)) => {
                                self.told = event.revision;
                                self.watching.delivered(1);
                                return Some(line);
                            }
                            Ok(None) => {}
                            Err(failure) => return Some(self.error(&failure.0)),
                        }
                    }
                    Some(Ok(Delivery::Progress(revision))) => self.seen = self.seen.max(revision),
                    Some(Err(WatchError::Closed)) | None => return None,
                    Some(Err(error)) => return Some(self.broken(error)),
                },
                () = &mut self.stopped => return None,
                () = &mut self.alarm => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        return self.last_bookmark();
                    }
                    self.alarm.as_mut().reset(self.deadline.min(now + BOOKMARK_EVERY));
                    if self.bookmarks && self.seen > self.told {
                        return Some(self.bookmark());
                    }
                }
            }
        }
        None
    }

    async fn initial_chunk(&mut self) -> Option<Bytes> {
        let mut initial = self.initial.take()?;
        if self.call.engine.is_stopping() {
            return None;
        }
        match initial.chunk(&self.call, &mut self.columns_sent, &self.watching).await {
            Ok(chunk) => {
                self.initial = Some(initial).filter(|initial| !initial.scan.is_over());
                Some(chunk)
            }
            Err(failure) => Some(self.error(&failure.0)),
        }
    }

    fn bookmark(&mut self) -> Bytes {
        let mut line = BytesMut::new();
        if let Err(failure) = bookmark(&self.call, &mut line, self.seen, false) {
            return self.error(&failure.0);
        }
        self.told = self.seen;
        line.freeze()
    }

    /// A client that will come again is told how far it got.
    fn last_bookmark(&mut self) -> Option<Bytes> {
        self.ended = true;
        (self.bookmarks && self.seen > self.told).then(|| self.bookmark())
    }

    fn broken(&mut self, error: WatchError) -> Bytes {
        let status = match error {
            WatchError::Compacted { after } => {
                Status::new(Reason::Expired, format!("too old resource version: {after}"))
            }
            // It went, or it moved to another store: whoever lists again is told which.
            WatchError::TenantDeleted => {
                Status::new(Reason::Expired, "the control plane is no longer where it was")
            }
            WatchError::Closed | WatchError::Failed(_) => Status::internal(error),
        };
        self.error(&status)
    }

    fn error(&mut self, status: &Status) -> Bytes {
        self.ended = true;
        let mut line = BytesMut::new();
        // A status always has a message; if it had not, the watch would end without one.
        let _ = write_event(&self.call, &mut line, "ERROR", &status.to_value());
        line.freeze()
    }

    /// What this watcher sees of an event, if anything.
    async fn line(&mut self, event: &Arc<Event>) -> Result<Option<Bytes>, Failure> {
        let kind = match self.kind_of(event).await? {
            Some(kind) => kind,
            None => return Ok(None),
        };
        let whole = self.call.accepted.shape == Shape::Object && kind == natural_kind(event.change);
        if whole && let Some(line) = shared_line(&self.call, event) {
            return Ok(Some(line));
        }
        // What leaves the selection is told as it was seen last, at the revision of its leaving.
        let value = match &event.previous {
            Some(previous) if kind == "DELETED" && event.change == Change::Updated => previous,
            _ => &event.value,
        };
        let stored = self.call.plane.codec.decode(&event.key, value, event.revision)?;
        let mut line = BytesMut::new();
        write_line(&self.call, &mut line, kind, &stored, &mut self.columns_sent).await?;
        Ok(Some(line.freeze()))
    }

    /// Added, modified or deleted, as seen through the selectors.
    async fn kind_of(&mut self, event: &Event) -> Result<Option<&'static str>, Failure> {
        if self.selection.is_everything() {
            return Ok(Some(natural_kind(event.change)));
        }
        let now = self.selection.selects(&self.call, &event.key, &event.value).await?;
        let before = match (&event.previous, event.change) {
            (Some(previous), Change::Updated) => {
                self.selection.selects(&self.call, &event.key, previous).await?
            }
            (_, Change::Deleted) => now,
            _ => false,
        };
        Ok(match (event.change, before, now) {
            (Change::Deleted, true, _) => Some("DELETED"),
            (Change::Deleted, false, _) | (_, false, false) => None,
            (_, false, true) => Some("ADDED"),
            (_, true, true) => Some("MODIFIED"),
            (_, true, false) => Some("DELETED"),
        })
    }
}

/// Returns true if the key that vouched for the caller does not count any more.
async fn is_revoked(call: &Call) -> bool {
    let Some(signer) = call.head.signer() else { return false };
    match call.engine.planes.find(&call.plane.name).await {
        Ok(Some(now)) => now.id == call.plane.id && !now.trusts(signer, call.engine.now()),
        // What became of the control plane is for the store to say.
        Ok(None) | Err(_) => false,
    }
}

async fn changed(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

fn natural_kind(change: Change) -> &'static str {
    match change {
        Change::Created => "ADDED",
        Change::Updated => "MODIFIED",
        Change::Deleted => "DELETED",
    }
}

/// An event as most watchers see it: whole objects, in one version. Each line is encoded by the first who wants it.
struct Encoded {
    api_version: objects::CompactString,
    tag: SchemaTag,
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

impl Encoded {
    fn of_row(row: &Row) -> Encoded {
        Encoded {
            api_version: row.api_version.clone(),
            tag: row.tag(),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
        }
    }

    fn line(&self, format: Format) -> &OnceLock<Bytes> {
        match format {
            Format::Protobuf => &self.protobuf,
            Format::Json | Format::Yaml => &self.json,
        }
    }
}

/// The line that all watchers of this row share in their format; none where the row is another than that of the first.
fn shared_line(call: &Call, event: &Event) -> Option<Bytes> {
    let decode = || {
        let stored = call.plane.codec.decode(&event.key, &event.value, event.revision).ok()?;
        read::is_current(&call.row, &stored).then_some(stored)
    };
    let mut decoded = None;
    let encoded = match event.derived.get() {
        Some(encoded) => encoded,
        None => {
            decoded = Some(decode()?);
            event.derived.get_or_init(|| Arc::new(Encoded::of_row(&call.row)))
        }
    };
    let encoded = encoded.downcast_ref::<Encoded>()?;
    if encoded.api_version != call.row.api_version || encoded.tag != call.row.tag() {
        return None;
    }
    let shared = encoded.line(call.accepted.format);
    if let Some(line) = shared.get() {
        return Some(line.clone());
    }
    let stored = decoded.or_else(decode)?;
    let mut line = BytesMut::new();
    let kind = natural_kind(event.change);
    match call.accepted.format {
        Format::Protobuf => write_event(call, &mut line, kind, &stored.to_value().ok()?).ok()?,
        Format::Json | Format::Yaml => frame(&mut line, kind, |out| stored.write_to(out)),
    }
    Some(shared.get_or_init(|| line.freeze()).clone())
}

fn frame(out: &mut BytesMut, kind: &str, object: impl FnOnce(&mut BytesMut)) {
    out.put_slice(br#"{"type":""#);
    out.put_slice(kind.as_bytes());
    out.put_slice(br#"","object":"#);
    object(out);
    out.put_slice(b"}\n");
}

/// One event in the representation the client accepts.
async fn write_line(
    call: &Call,
    out: &mut BytesMut,
    kind: &str,
    stored: &Stored,
    columns_sent: &mut bool,
) -> Result<(), Failure> {
    if present::is_plain(&call.accepted) && read::is_current(&call.row, stored) {
        frame(out, kind, |out| stored.write_to(out));
        return Ok(());
    }
    let object = present::event_object(call, stored, *columns_sent).await?;
    *columns_sent = true;
    write_event(call, out, kind, &object)
}

/// An event whose object is at hand as a value.
fn write_event(call: &Call, out: &mut BytesMut, kind: &str, object: &Value) -> Result<(), Failure> {
    match call.accepted.format {
        Format::Protobuf => out.put_slice(&protobuf::frame(kind, object).map_err(present::unencodable)?),
        Format::Json | Format::Yaml => frame(out, kind, |out| out.put_slice(object.to_string().as_bytes())),
    }
    Ok(())
}

fn bookmark(call: &Call, out: &mut BytesMut, revision: Revision, initial_end: bool) -> Result<(), Failure> {
    let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object: Value = present::bookmark_object(call, metadata);
    write_event(call, out, "BOOKMARK", &object)
}
