//! Answers on their way to the client: their request has a seat, and their bytes are counted, until they are sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_task::Task;
use bytes::Bytes;
use http::{Response, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Flow, Owner, Pool, Reservation, Seat, pool};
use crate::body::{Body, BoxError};
use crate::service::Failure;

/// Smaller answers are copied into the buffers of the connection at once, and are not worth to be counted.
const COUNTED: u64 = 16 << 10;
/// A connection takes an answer in pieces of this size. What it has not taken is known to wait for the client.
const PIECE: usize = 256 << 10;

/// What is held for an answer.
pub struct Sending {
    pool: Arc<Pool>,
    owner: Owner,
    seat: Arc<Seat>,
    reservation: Option<Reservation>,
    deadline: Option<Instant>,
}

impl Sending {
    pub(super) fn new(pool: Arc<Pool>, owner: Owner, seat: Arc<Seat>) -> Self {
        Sending { pool, owner, seat, reservation: None, deadline: None }
    }

    /// Sets when the last byte has to be sent.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// Counts the bytes of an answer that is made. Answers that are made piece by piece count their pieces themselves. If
    /// the control plane has too many in flight, an answer to a read is refused with 429, and any other is counted all
    /// the same: what it tells has been done.
    pub fn count(
        &mut self,
        response: &Response<Body>,
        reads: bool,
        reserve: impl FnOnce(usize) -> Result<Reservation, Failure>,
    ) -> Result<(), Failure> {
        let Some(size) = response.body().size_hint().exact().filter(|size| *size >= COUNTED) else {
            return Ok(());
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.reservation = Some(if reads {
            reserve(size)?
        } else {
            let mut reservation = reserve(0)?;
            reservation.force(size);
            reservation
        });
        Ok(())
    }

    /// The answer, holding all this until it has been sent.
    pub fn send(self, response: Response<Body>) -> Response<Body> {
        let hint = response.body().size_hint();
        if hint.exact().is_some_and(|size| size < COUNTED) {
            return response;
        }
        let compressed = response.headers().contains_key(header::CONTENT_ENCODING);
        let heavy = compressed && !self.seat.kind.watch;
        response.map(|body| {
            let deadline = self.deadline.map(|deadline| Box::pin(sleep_until(deadline)));
            let stage = Stage::Reactor(body);
            Sent { sending: self, deadline, hint, heavy, rest: Bytes::new(), stage }.boxed_unsync()
        })
    }
}

struct Sent {
    sending: Sending,
    deadline: Option<Pin<Box<Sleep>>>,
    hint: SizeHint,
    /// Made on the pool.
    heavy: bool,
    /// Of the last frame.
    rest: Bytes,
    stage: Stage,
}

type Next = Option<Result<Frame<Bytes>, BoxError>>;

enum Stage {
    Reactor(Body),
    Pool(Task<(Body, Next)>),
    Ended,
}

impl Sent {
    fn flow(&self) -> Flow {
        self.sending.seat.kind.flow
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return Poll::Ready(None),
                Stage::Reactor(mut body) if self.heavy => {
                    let next = async move {
                        let next = body.frame().await;
                        (body, next)
                    };
                    let sending = &self.sending;
                    let spawn = || sending.pool.spawn(sending.owner, next);
                    self.stage = Stage::Pool(pool::with_flow(self.flow(), spawn));
                }
                Stage::Reactor(mut body) => {
                    let polled = pool::with_flow(self.flow(), || Pin::new(&mut body).poll_frame(cx));
                    if !matches!(polled, Poll::Ready(None)) {
                        self.stage = Stage::Reactor(body);
                    }
                    return polled;
                }
                Stage::Pool(mut task) => match Pin::new(&mut task).poll(cx) {
                    Poll::Pending => {
                        self.stage = Stage::Pool(task);
                        return Poll::Pending;
                    }
                    Poll::Ready((body, next)) => {
                        if next.is_some() {
                            self.stage = Stage::Reactor(body);
                        }
                        return Poll::Ready(next);
                    }
                },
            }
        }
    }

    /// The next piece, which holds its part of the reservation, and the seat.
    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Frame::data(match &mut self.sending.reservation {
            Some(reservation) => {
                reservation.split(piece.len()).guard_with(piece, Some(self.sending.seat.clone()))
            }
            None => piece,
        })
    }
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        let this = &mut *self;
        if let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            this.deadline = None;
            this.stage = Stage::Ended;
            this.rest = Bytes::new();
            return Poll::Ready(Some(Err("request did not complete within the allotted timeout".into())));
        }
        if this.rest.is_empty() {
            match ready!(this.poll_next(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        Poll::Ready(Some(Ok(this.piece())))
    }

    fn is_end_stream(&self) -> bool {
        // A large answer ends when the client has taken it, so that it can be cut for as long as it has not.
        self.rest.is_empty() && matches!(self.stage, Stage::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

#[cfg(test)]
mod tests {
    use objects::Status;

    use super::*;
    use crate::body;
    use crate::stations::fairness::{Fairness, Kind, Limits};

    const TENANT: store::TenantId = store::TenantId(7);

    fn sending(fairness: &Fairness) -> Sending {
        let kind = Kind {
            flow: 1,
            exempt: false,
            administrator: false,
            watch: false,
            long_running: false,
            level: None,
            seats: None,
        };
        let seat = fairness.count(TENANT, fairness.limits, kind).unwrap();
        fairness.sending(Arc::new(seat))
    }

    #[tokio::test]
    async fn a_seat_and_bytes_are_held_until_the_last_byte_is_gone() {
        let fairness = Fairness::new(Limits { memory: 1 << 20, ..Limits::default() });
        let mut sending = sending(&fairness);
        let response = body::response(200, body::JSON, vec![b'x'; 400 << 10]);
        sending.count(&response, true, |size| fairness.reserve(TENANT, size)).unwrap();
        let mut body = sending.send(response).into_body();
        let mut pieces = Vec::new();
        while let Some(piece) = body.frame().await {
            pieces.push(piece.unwrap().into_data().unwrap());
        }
        drop(body);
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, (400 << 10) - PIECE]);
        assert_eq!((fairness.budget().used(), fairness.open(TENANT).0), (400 << 10, 1));
        pieces.remove(0);
        assert_eq!((fairness.budget().used(), fairness.open(TENANT).0), ((400 << 10) - PIECE, 1));
        pieces.clear();
        assert_eq!((fairness.budget().used(), fairness.open(TENANT).0), (0, 0));
    }

    #[tokio::test]
    async fn a_read_beyond_the_budget_is_refused_and_a_write_is_told() {
        let fairness = Fairness::new(Limits { memory: 1 << 20, ..Limits::default() });
        let response = || body::response(200, body::JSON, vec![b'x'; 2 << 20]);
        let refused = sending(&fairness).count(&response(), true, |size| fairness.reserve(TENANT, size));
        let Status { code, retry_after_seconds, .. } = *refused.unwrap_err().0;
        assert_eq!((code, retry_after_seconds.is_some()), (429, true));
        let mut sending = sending(&fairness);
        sending.count(&response(), false, |size| fairness.reserve(TENANT, size)).unwrap();
        assert_eq!(fairness.budget().used(), 2 << 20);
        drop(sending);
        assert_eq!(fairness.budget().used(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_in_time_is_cut() {
        let fairness = Fairness::new(Limits::default());
        let mut sending = sending(&fairness);
        let soon = std::time::Duration::from_millis(50);
        sending.set_deadline(Instant::now() + soon);
        let mut body = sending.send(body::response(200, body::JSON, vec![b'x'; 400 << 10])).into_body();
        tokio::time::sleep(soon * 2).await;
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
