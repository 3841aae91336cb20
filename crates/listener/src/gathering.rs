//! Writes gathered: what many streams of a connection have to say at the same moment leaves as one.
//!
//! HTTP/2 flushes every frame of more than a few bytes by itself, and each flush would be a TLS record and a system
//! call: with a hundred watchers on a connection, a hundred for each event. Here a flush waits until whatever else
//! can run has run, and then takes along what that has written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much as fits one TLS record. What is larger goes past the buffer, uncopied.
const LIMIT: usize = 16 << 10;

/// A stream that gathers writes, for users that read whenever they are woken, as HTTP/2 connections do: it is on
/// reading that what was gathered is sent.
pub struct Gathering<S> {
    inner: S,
    /// Empty when nothing waits, and then it takes no memory: most connections are idle.
    waiting: Vec<u8>,
    /// The user has been woken to come back for what waits.
    woken: bool,
    enabled: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gathering<S> {
    /// Without `enabled`, everything passes as it comes.
    pub fn new(inner: S, enabled: bool) -> Self {
        Gathering { inner, waiting: Vec::new(), woken: false, enabled }
    }

    /// Sends what waits.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.drain(..sent);
        }
        self.waiting = Vec::new();
        self.woken = false;
        Pin::new(&mut self.inner).poll_flush(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.waiting.is_empty()
            && let Poll::Ready(Err(error)) = this.poll_send(cx)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut this.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if this.waiting.len() + size > LIMIT && !this.waiting.is_empty() {
            ready!(this.poll_send(cx))?;
        }
        if !this.enabled || size > LIMIT {
            return Pin::new(&mut this.inner).poll_write_vectored(cx, parts);
        }
        parts.iter().for_each(|part| this.waiting.extend_from_slice(part));
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.waiting.is_empty() {
            return Pin::new(&mut this.inner).poll_flush(cx);
        }
        if !this.woken {
            // A task that wakes itself runs after those that are ready now.
            this.woken = true;
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Lets a stream read, as its user does when it is woken; nothing is there to be read.
    async fn look<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut Gathering<S>) {
        poll_fn(|cx| {
            let mut space = [0; 8];
            assert!(Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut space)).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    fn there(other: &mut tokio::io::DuplexStream) -> Vec<u8> {
        let mut space = vec![0; 64 << 10];
        let mut buffer = ReadBuf::new(&mut space);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _ = Pin::new(other).poll_read(&mut cx, &mut buffer);
        buffer.filled().to_vec()
    }

    #[tokio::test]
    async fn flushed_writes_leave_together_when_the_user_comes_back() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = Gathering::new(near, true);
        for part in ["one ", "two ", "three"] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        assert_eq!(there(&mut far), b"");
        look(&mut stream).await;
        assert_eq!(there(&mut far), b"one two three");
        assert_eq!(stream.waiting.capacity(), 0, "an idle connection keeps no buffer");
    }

    #[tokio::test]
    async fn large_writes_pass_and_keep_the_order() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = Gathering::new(near, true);
        stream.write_all(b"small").await.unwrap();
        stream.write_all(&[b'x'; LIMIT + 1]).await.unwrap();
        let sent = there(&mut far);
        assert_eq!((&sent[..5], sent.len()), (&b"small"[..], 5 + LIMIT + 1));
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_end() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = Gathering::new(near, true);
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"last words");
    }

    #[tokio::test]
    async fn a_slow_reader_gets_everything_in_order() {
        let (near, mut far) = duplex(100);
        let mut stream = Gathering::new(near, true);
        let words: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let expected = words.clone();
        let reading = tokio::spawn(async move {
            let mut all = vec![0; 100_000];
            far.read_exact(&mut all).await.unwrap();
            all
        });
        for part in words.chunks(700) {
            stream.write_all(part).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap(), expected);
    }

    #[tokio::test]
    async fn disabled_it_is_not_there() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = Gathering::new(near, false);
        stream.write_all(b"now").await.unwrap();
        assert_eq!(there(&mut far), b"now");
    }
}
