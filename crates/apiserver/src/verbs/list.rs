//! Many objects: a snapshot, in pages that all belong to the same revision.
//!
//! A long list is made piece by piece, each when the client has taken the one before.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use objects::{Reason, Status};
use serde::{Deserialize, Serialize};
use store::{Key, Revision, StoreError};
use wire::options::{ListOptions, ResourceVersionMatch};

use crate::body::{self, BoxError};
use crate::call::{Call, revision};
use crate::engine::too_large;
use crate::present::{ListWriter, Metadata};
use crate::service::{Answer, Failure};
use crate::stations::fairness::Reservation;
use crate::verbs::scan::{self, SLICE, Scan, ScanError};
use crate::verbs::selection::Selection;

/// A list of fewer bytes is made as a whole and sent with its length.
const WHOLE: usize = 128 << 10;
/// Bytes after which a piece of a longer list is sent.
const PIECE: usize = SLICE / 2;
/// What a longer list takes while a piece is made: the entries that were read, and what is written of them. Pieces that
/// wait in a connection are counted on their own.
const STREAMED: usize = 2 * SLICE;
/// As upstream: how long a list waits for a revision that has not happened yet.
const FRESHNESS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Where a list goes on. Opaque to clients; of no use in another control plane.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: u8,
    /// The control plane it was made in.
    t: u64,
    /// The revision the list is pinned to; none where it may be any.
    r: Option<u64>,
    ns: String,
    n: String,
}

pub async fn list(call: &Call) -> Answer {
    let options = call.list_options()?;
    let selection = Arc::new(Selection::of(call, &options)?);
    let pin = Pin::of(call, &options).await?;
    let limit = options.limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let list = List {
        scan: Scan::new(&call.row, selection, pin.at, pin.after, limit),
        writer: ListWriter::new(call)?,
        limited: limit.is_some(),
        pieces: call.engine.fairness.reserve(call.plane.id, WHOLE)?,
    };
    match list.writer.begins_with_length() {
        true => list.counted(call).await,
        false => list.answer(call).await,
    }
}

/// A list on its way to the client.
struct List {
    scan: Scan,
    writer: ListWriter,
    /// Whether the client wants a part only: where it goes on is known at its end.
    limited: bool,
    /// What is held while a piece is made.
    pieces: Reservation,
}

impl List {
    /// A list that fits in one piece is sent as that. Of any other the first piece is made before the answer begins, so
    /// that most failures become a `Status`; one that comes later cuts the answer.
    async fn answer(mut self, call: &Call) -> Answer {
        let mut items = BytesMut::new();
        while !self.scan.is_over() && items.len() < WHOLE {
            self.write(call, &mut items).await?;
        }
        let content_type = self.writer.content_type();
        let over = self.scan.is_over();
        let metadata = (over || !self.limited).then(|| self.metadata(call));
        let mut first = self.writer.head(metadata.as_ref(), 0)?;
        first.extend_from_slice(&items);
        if over {
            first.extend_from_slice(&self.writer.tail(None));
            return Ok(body::response(200, content_type, first));
        }
        self.pieces.grow(STREAMED - WHOLE)?;
        let first = scan::counted(&mut self.pieces, first.into());
        let stream = Streamed { list: self, call: call.for_watch(), state: State::Items, left: None };
        Ok(body::of(200, content_type, body::begun(first, stream.pieces())))
    }

    /// A list whose head tells how long it is. If its items are more than is held, those that follow are counted first
    /// and read again when they are sent.
    async fn counted(mut self, call: &Call) -> Answer {
        let mut held = BytesMut::new();
        while !self.scan.is_over() && held.len() < WHOLE {
            self.write(call, &mut held).await?;
        }
        let content_type = self.writer.content_type();
        let mut following = self.scan.clone();
        let mut length = 0;
        let mut counted = BytesMut::new();
        while !self.scan.is_over() {
            counted.clear();
            self.write(call, &mut counted).await?;
            length += counted.len();
        }
        let mut first = self.writer.head(Some(&self.metadata(call)), held.len() + length)?;
        first.extend_from_slice(&held);
        if length == 0 {
            first.extend_from_slice(&self.writer.tail(None));
            return Ok(body::response(200, content_type, first));
        }
        self.pieces.grow(STREAMED - WHOLE)?;
        let first = scan::counted(&mut self.pieces, first.into());
        std::mem::swap(&mut self.scan, &mut following);
        let stream = Streamed { list: self, call: call.for_watch(), state: State::Items, left: Some(length) };
        Ok(body::of(200, content_type, body::begun(first, stream.pieces())))
    }

    async fn write(&mut self, call: &Call, out: &mut BytesMut) -> Result<(), Failure> {
        let objects = self.scan.next(call).await.map_err(|error| match error {
            ScanError::Store(error) => expired_page(call, error, self.scan.began_after()),
            ScanError::Other(failure) => failure,
        })?;
        self.writer.items(call, &objects, out).await
    }

    fn metadata(&self, call: &Call) -> Metadata {
        let mut metadata = Metadata::new();
        let revision = self.scan.revision();
        metadata.insert("resourceVersion".into(), revision.to_string().into());
        if let Some(rest) = self.scan.rest() {
            metadata.insert("continue".into(), token(call, Some(revision), &rest.after).into());
            if let Some(remaining) = rest.remaining.filter(|remaining| *remaining > 0) {
                metadata.insert("remainingItemCount".into(), remaining.into());
            }
        }
        metadata
    }
}

/// The pieces of a list that follow the first.
struct Streamed {
    list: List,
    call: Call,
    state: State,
    /// Bytes of items that the head has promised.
    left: Option<usize>,
}

enum State {
    Items,
    Over,
}

impl Streamed {
    /// Each piece is made when the one before has been taken, in the control plane's turn.
    fn pieces(self) -> impl Stream<Item = Result<Bytes, BoxError>> {
        stream::try_unfold(Box::new(self), |mut streamed| async move {
            let (engine, tenant) = (streamed.call.engine.clone(), streamed.call.plane.id);
            let made = engine.fairness.run_future(tenant, async move {
                let piece = streamed.piece().await;
                (piece, streamed)
            });
            match made.await {
                Ok((Ok(piece), streamed)) => Ok(piece.map(|piece| (piece, streamed))),
                Ok((Err(failure), _)) | Err(failure) => {
                    let why = failure.0.message;
                    tracing::debug!(%why, "a list is cut");
                    Err(format!("a list is cut: {why}").into())
                }
            }
        })
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        if let State::Over = self.state {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        while !self.list.scan.is_over() && out.len() < PIECE {
            self.list.write(&self.call, &mut out).await?;
        }
        if let Some(left) = &mut self.left {
            // What a webhook converts may differ from one time to the other.
            let changed = || Status::internal("the objects of the list were converted in different ways");
            *left = left.checked_sub(out.len()).ok_or_else(changed)?;
            if self.list.scan.is_over() && *left > 0 {
                return Err(changed().into());
            }
        }
        if self.list.scan.is_over() {
            self.state = State::Over;
            let metadata = (self.list.limited && self.left.is_none()).then(|| self.list.metadata(&self.call));
            out.extend_from_slice(&self.list.writer.tail(metadata.as_ref()));
        }
        Ok(Some(scan::counted(&mut self.list.pieces, out.freeze())))
    }
}

/// Which revision a list is to be read at, and after which key.
struct Pin {
    at: Option<Revision>,
    after: Option<Key>,
}

impl Pin {
    async fn of(call: &Call, options: &ListOptions) -> Result<Pin, Failure> {
        if !options.continue_token.is_empty() {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message).into());
            }
            let place = read_token(call, &options.continue_token)?;
            let after = call.row.key(&place.ns, &place.n);
            return Ok(Pin { at: place.r.map(Revision), after: Some(after) });
        }
        let Some(asked) = revision(&options.resource_version)? else {
            return Ok(Pin { at: None, after: None });
        };
        if asked > 0 {
            wait_until(call, asked).await?;
        }
        let exact = options.resource_version_match == Some(ResourceVersionMatch::Exact);
        Ok(Pin { at: exact.then_some(Revision(asked)), after: None })
    }
}

/// A revision that other replicas may just have written is waited for, but not for long.
pub async fn wait_until(call: &Call, asked: u64) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + FRESHNESS_TIMEOUT;
    loop {
        let current = call.engine.store.revision(call.plane.id).await?;
        if current.0 >= asked {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(too_large(asked, current.0).into());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn token(call: &Call, revision: Option<Revision>, after: &Key) -> String {
    let place = Continue {
        v: 1,
        t: call.plane.id.0,
        r: revision.map(|revision| revision.0),
        ns: after.namespace.to_string(),
        n: after.name.to_string(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&place).unwrap_or_default())
}

fn read_token(call: &Call, text: &str) -> Result<Continue, Failure> {
    let bad = || Status::bad_request("continue key is not valid");
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
    let place: Continue = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    let nul = place.ns.contains('\0') || place.n.contains('\0');
    if place.v != 1 || place.t != call.plane.id.0 || nul {
        return Err(bad().into());
    }
    Ok(place)
}

/// A page whose revision is gone: the client may start over, or, if it came with a token, go on with what is there now.
fn expired_page(call: &Call, error: StoreError, after: Option<&Key>) -> Failure {
    match (error, after) {
        (StoreError::Compacted { .. }, Some(after)) => {
            let message = "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue token in this \
                 response to retrieve the remainder of the results. Continuing with the provided token results in \
                 an inconsistent list - objects that were created, modified, or deleted between the time the first \
                 chunk was returned and now may show up in the list.";
            let mut status = Status::new(Reason::Expired, message);
            status.continue_token = Some(token(call, None, after));
            status.into()
        }
        (StoreError::Compacted { asked, oldest }, None) => {
            Status::expired(format!("too old resource version: {asked} ({oldest})")).into()
        }
        (error, _) => error.into(),
    }
}

#[cfg(test)]
mod tests;
