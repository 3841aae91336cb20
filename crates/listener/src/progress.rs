//! Ends what waits for clients that do not read.
//!
//! HTTP/1.1 and clients that read nothing at all are noticed at the socket ([`Stalling`]). A client of HTTP/2 can stop
//! reading one stream and go on with others; the task of such a stream is ended by [`Streams`], which resets it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A client that takes less than this of what is there for it, within the timeout, does not read.
const MIN_BYTES: u64 = 64 << 10;

/// Time that a client takes to read. The timer runs only while something waits for the client.
struct Stall {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that had been taken when the timer was set.
    seen: u64,
}

impl Stall {
    fn new(timeout: Duration) -> Stall {
        Stall { timeout, timer: None, seen: 0 }
    }

    /// Nothing waits.
    fn clear(&mut self) {
        self.timer = None;
    }

    /// Something waits: ready when too little has been taken for too long.
    fn poll(&mut self, cx: &mut Context<'_>, taken: u64) -> Poll<()> {
        let seen = &mut self.seen;
        let timer = self.timer.get_or_insert_with(|| {
            *seen = taken;
            Box::pin(sleep(self.timeout))
        });
        while timer.as_mut().poll(cx).is_ready() {
            if taken - *seen < MIN_BYTES {
                return Poll::Ready(());
            }
            *seen = taken;
            timer.as_mut().reset(Instant::now() + self.timeout);
        }
        Poll::Pending
    }
}

/// A stream that fails when the other side does not take what is written.
pub struct Stalling<S> {
    inner: S,
    stall: Stall,
    taken: u64,
}

impl<S> Stalling<S> {
    pub fn new(inner: S, timeout: Duration) -> Self {
        Stalling { inner, stall: Stall::new(timeout), taken: 0 }
    }

    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(size)) => {
                self.taken += size as u64;
                // The timer goes on while the other side reads a little at a time.
                if self.taken - self.stall.seen >= MIN_BYTES {
                    self.stall.clear();
                }
                Poll::Ready(Ok(size))
            }
            Poll::Pending if self.stall.poll(cx, self.taken).is_ready() => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, parts);
        this.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What a stream of HTTP/2 waits for.
#[derive(Debug, Default)]
pub struct Progress {
    /// A piece of the answer was given to the connection, and no other has been asked for.
    waits_for_client: AtomicBool,
    taken: AtomicU64,
}

tokio::task_local! {
    static CURRENT: Arc<Progress>;
}

impl Progress {
    /// That of the stream whose task this is; none on connections of HTTP/1.1.
    pub fn current() -> Option<Arc<Progress>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// The connection has room for more.
    pub fn asked(&self) {
        self.waits_for_client.store(false, Ordering::Relaxed);
    }

    pub fn given(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        self.waits_for_client.store(true, Ordering::Relaxed);
    }

    /// Returns when the client does not read.
    async fn stalled(&self, timeout: Duration) {
        let mut stall = Stall::new(timeout);
        // What changes is changed by the task that polls this.
        poll_fn(|cx| match self.waits_for_client.load(Ordering::Relaxed) {
            true => stall.poll(cx, self.taken.load(Ordering::Relaxed)),
            false => {
                stall.clear();
                Poll::Pending
            }
        })
        .await;
    }
}

/// Runs the tasks of a connection's streams, and ends those that wait for a client that does not read.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    timeout: Duration,
}

impl Streams {
    pub fn new(timeout: Duration) -> Streams {
        Streams { timeout }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let (timeout, progress) = (self.timeout, Arc::new(Progress::default()));
        tokio::spawn(CURRENT.scope(progress.clone(), async move {
            tokio::select! {
                biased;
                _ = stream => {}
                () = progress.stalled(timeout) => tracing::debug!("a client does not read; its stream is reset"),
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use hyper::rt::Executor as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::sync::oneshot;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_writer_fails_when_nothing_is_read() {
        let (near, _far) = duplex(1_000);
        let mut stream = Stalling::new(near, TIMEOUT);
        let error = stream.write_all(&[0; 2_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_not_enough() {
        let (near, mut far) = duplex(1_000);
        let mut stream = Stalling::new(near, TIMEOUT);
        tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let error = stream.write_all(&vec![0; 1 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_everything() {
        let (near, mut far) = duplex(64 << 10);
        let mut stream = Stalling::new(near, TIMEOUT);
        let reading = tokio::spawn(async move {
            let mut space = vec![0; 40 << 10];
            let mut all = 0;
            while let Ok(size @ 1..) = far.read(&mut space).await {
                all += size;
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            all
        });
        stream.write_all(&vec![0; 1 << 20]).await.unwrap();
        drop(stream);
        assert_eq!(reading.await.unwrap(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_waits_for_its_client_is_ended() {
        for (given, ended) in [(true, true), (false, false)] {
            let (alive, mut gone) = oneshot::channel::<()>();
            Streams::new(TIMEOUT).execute(async move {
                let _alive = alive;
                let progress = Progress::current().expect("it runs within a stream");
                progress.asked();
                if given {
                    progress.given(1 << 20);
                }
                std::future::pending::<()>().await;
            });
            tokio::time::sleep(TIMEOUT * 2).await;
            assert_eq!(gone.try_recv() == Err(oneshot::error::TryRecvError::Closed), ended);
        }
    }
}
