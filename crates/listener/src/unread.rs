//! Bodies that nobody read to their end, on connections of HTTP/1.1: what was refused by its head alone.
//!
//! The next request only begins where the body ends. A short rest is read and dropped, so that the connection goes on;
//! before more than that the connection ends, and the answer says so: a client that was not told would send its next
//! request into the void.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::Body;
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

/// As much as Go's server reads of it.
const DROPPED: u64 = 256 << 10;
/// For whoever does not send what was announced.
const PATIENCE: Duration = Duration::from_secs(5);

/// A body that comes back from whoever drops it.
pub struct Lent {
    body: Option<Incoming>,
    /// Somebody began to read it. Who waits to be asked for a body has been asked then.
    asked: bool,
    back: Option<Back>,
}

/// Where it comes back to, and whether it was asked for.
type Back = Arc<Mutex<Option<(Incoming, bool)>>>;

impl hyper::body::Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.asked = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(|body| body.size_hint()).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = &self.back {
            let left = self.body.take().map(|body| (body, self.asked));
            *back.lock().unwrap_or_else(PoisonError::into_inner) = left;
        }
    }
}

/// What is to be looked at when there is an answer; nothing of requests without a body, or with one of HTTP/2.
pub struct Rest(Option<(Back, bool)>);

/// The request for those who answer it, and what tells how much of it they read.
pub fn lend(request: Request<Incoming>) -> (Request<Lent>, Rest) {
    let counts = request.version() <= Version::HTTP_11 && !request.body().is_end_stream();
    let back = counts.then(Back::default);
    let waits = request.headers().contains_key(EXPECT);
    let rest = Rest(back.clone().map(|back| (back, waits)));
    (request.map(|body| Lent { body: Some(body), asked: false, back }), rest)
}

impl Rest {
    /// The answer, after the rest of the body or with word that nothing comes after it.
    pub async fn settle(self, mut response: Response<Body>) -> Response<Body> {
        let Some((back, waits)) = self.0 else { return response };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        let left = back.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What somebody still has, although there is an answer, is not read to its end either.
        let ended = match left {
            Some((body, _)) if body.is_end_stream() => true,
            Some((body, asked)) if asked || !waits => {
                tokio::time::timeout(PATIENCE, dropped(body)).await.unwrap_or(false)
            }
            _ => false,
        };
        if !ended {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Whether the body ended soon.
async fn dropped(mut body: Incoming) -> bool {
    if body.size_hint().lower() > DROPPED {
        return false;
    }
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        size += frame.data_ref().map_or(0, |data| data.len() as u64);
        if size > DROPPED {
            return false;
        }
    }
    true
}
