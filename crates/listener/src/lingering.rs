//! Streams that hear a client out for a moment before they are closed.
//!
//! A socket that is closed with something unread in it resets the connection, and a client that is still writing then
//! never reads the answer that it was given.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Enough for whoever reads what it is told; what is read meanwhile is dropped.
const LINGERING: Duration = Duration::from_secs(1);
const DROPPED_AT_ONCE: usize = 16 << 10;

pub struct Lingering<S> {
    inner: S,
    /// Set when something was answered that was not read to its end.
    cut: Arc<AtomicBool>,
    /// Since the stream was closed on our side.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lingering<S> {
    pub fn new(inner: S, cut: Arc<AtomicBool>) -> Self {
        Lingering { inner, cut, until: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.until.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            if !this.cut.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let until = this.until.get_or_insert_with(|| Box::pin(sleep(LINGERING)));
        loop {
            if until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; DROPPED_AT_ONCE];
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // Who has gone needs no more of it.
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
