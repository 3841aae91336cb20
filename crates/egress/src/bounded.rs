//! A stream from which only so much is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Fails once more than a number of bytes came from the other side, for protocols that set no limit themselves.
pub struct Bounded<S> {
    stream: S,
    left: usize,
}

impl<S> Bounded<S> {
    pub fn new(stream: S, max_bytes: usize) -> Bounded<S> {
        Bounded { stream, left: max_bytes }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        match self.left.checked_sub(buffer.filled().len() - before) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other("the other side sent too much"))),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn no_more_than_its_share_is_read() {
        let (mut other, stream) = tokio::io::duplex(64);
        let mut bounded = Bounded::new(stream, 10);
        other.write_all(&[7; 10]).await.unwrap();
        bounded.read_exact(&mut [0; 10]).await.unwrap();
        bounded.write_all(&[7; 50]).await.unwrap();
        other.write_all(&[7]).await.unwrap();
        assert!(bounded.read(&mut [0; 10]).await.is_err());
    }
}
