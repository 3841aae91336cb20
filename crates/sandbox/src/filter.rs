//! The network of a sandbox, from outside: accepts what the kernel redirects, asks the policy, dials, and copies.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egress::Policies;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use crate::dns;
use crate::network::NAMESERVER;

/// Connections of one sandbox at once. Further ones wait in the kernel.
const MOST_CONNECTIONS: usize = 256;
/// A connection over which nothing has gone for so long is closed.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How often it is looked whether anything has.
const LOOK: Duration = Duration::from_secs(60);
/// What is read at once in one direction.
const BUFFER: usize = 16 << 10;

/// Who decides which addresses a program may reach.
#[derive(Clone)]
pub struct Egress {
    pub policies: Arc<dyn Policies>,
    /// The control plane on whose behalf the program runs.
    pub control_plane: String,
}

/// Serves the sockets of a sandbox until it is dropped.
pub(crate) struct Filter(AbortHandle);

impl Drop for Filter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Filter {
    /// The socket of names, and those of connections.
    pub fn start(sockets: Vec<OwnedFd>, egress: Egress) -> io::Result<Filter> {
        let mut sockets = sockets.into_iter();
        let names = std::net::UdpSocket::from(sockets.next().ok_or(io::ErrorKind::NotFound)?);
        names.set_nonblocking(true)?;
        let names = UdpSocket::from_std(names)?;
        let listeners = sockets.map(|socket| {
            let listener = std::net::TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let listeners: Vec<TcpListener> = listeners.collect::<io::Result<_>>()?;
        let egress = Arc::new(egress);
        let turns = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let serving = tokio::spawn(async move {
            let mut all = JoinSet::new();
            all.spawn(dns::serve(names));
            for listener in listeners {
                all.spawn(accept(listener, egress.clone(), turns.clone()));
            }
            while all.join_next().await.is_some() {}
        });
        Ok(Filter(serving.abort_handle()))
    }
}

async fn accept(listener: TcpListener, egress: Arc<Egress>, turns: Arc<Semaphore>) {
    let mut open = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        while open.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection of a sandbox");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let egress = egress.clone();
        open.spawn(async move {
            let _turn = turn;
            pass(stream, &egress).await;
        });
    }
}

/// Where the program wanted to connect to.
fn destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    Ok(match stream.local_addr()?.ip() {
        IpAddr::V4(_) => sockopt::ip_original_dst(stream)?.into(),
        IpAddr::V6(_) => sockopt::ipv6_original_dst(stream)?.into(),
    })
}

async fn pass(mut inside: TcpStream, egress: &Egress) {
    let to = match destination(&inside) {
        Ok(to) => to,
        Err(error) => return tracing::debug!(%error, "a connection of a sandbox has no destination"),
    };
    if to == NAMESERVER {
        let _ = dns::serve_stream(inside).await;
        return;
    }
    let policy = egress.policies.of(&egress.control_plane).await;
    match egress::dial(&policy, &to.ip().to_string(), to.port()).await {
        Ok(mut outside) => {
            let _ = inside.set_nodelay(true);
            if let Err(error) = copy(&mut inside, &mut outside).await {
                tracing::debug!(%to, %error, "a connection of a sandbox ended");
                reset(&inside);
            }
        }
        // The same whether it is refused or nobody is there.
        Err(_) => reset(&inside),
    }
}

/// Closes it so that the program sees an error, not an end.
fn reset(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

async fn copy(inside: &mut TcpStream, outside: &mut TcpStream) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (from_inside, to_inside) = inside.split();
    let (from_outside, to_outside) = outside.split();
    let both = async {
        tokio::try_join!(pump(from_inside, to_outside, &moved), pump(from_outside, to_inside, &moved))
    };
    let idle = async {
        let (mut before, mut quiet) = (0, Duration::ZERO);
        while quiet < IDLE {
            tokio::time::sleep(LOOK).await;
            let now = moved.load(Ordering::Relaxed);
            quiet = if now == before { quiet + LOOK } else { Duration::ZERO };
            before = now;
        }
    };
    tokio::select! {
        ended = both => ended.map(|_| ()),
        () = idle => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// In one direction, to the end.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        moved.fetch_add(length as u64, Ordering::Relaxed);
    }
}
