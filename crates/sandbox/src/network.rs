//! The network of a sandbox, from inside: every address is on the loopback interface, and every TCP connection ends at
//! a socket that the server accepts from.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::netlink::{self, Family};

/// Of connections that the launcher makes itself: they are not redirected. Programs in the sandbox cannot set it.
const MARK: u32 = 0x6861_6e67;
/// Where the resolver configuration sends questions.
pub(crate) const NAMESERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// What the server works with.
pub(crate) struct Sockets {
    pub names: UdpSocket,
    pub v4: TcpListener,
    /// If the kernel knows IPv6.
    pub v6: Option<TcpListener>,
}

impl Sockets {
    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        let all = [Some(self.names.as_fd()), Some(self.v4.as_fd()), self.v6.as_ref().map(AsFd::as_fd)];
        all.into_iter().flatten().collect()
    }
}

/// Sets it up. The namespace must be new, and ours.
pub(crate) fn set_up() -> Result<Sockets, String> {
    let because = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    netlink::all_addresses_are_local(Family::V4).map_err(because("cannot add a route"))?;
    let names = UdpSocket::bind(NAMESERVER).map_err(because("cannot listen for names"))?;
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(because("cannot listen"))?;
    let port = v4.local_addr().map_err(because("cannot listen"))?.port();
    netlink::redirect_all(Family::V4, port, MARK)
        .map_err(because("the kernel does not redirect connections (nf_tables)"))?;
    // Without IPv6 its addresses cannot be reached, and programs use the others.
    let v6 = || -> io::Result<TcpListener> {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))?;
        netlink::redirect_all(Family::V6, listener.local_addr()?.port(), MARK)?;
        netlink::all_addresses_are_local(Family::V6)?;
        Ok(listener)
    };
    Ok(Sockets { names, v4, v6: v6().ok() })
}

/// A connection to a server of the sandbox, by the launcher.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    setsockopt(&socket, sockopt::Mark, &MARK)?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}
