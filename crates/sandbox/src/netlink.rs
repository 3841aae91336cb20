//! The few messages to the kernel that a network of a sandbox takes: the loopback interface, routes, and a table of
//! netfilter. They are written here because no maintained crate without C code speaks all of them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NLMSG_ERROR: u16 = 2;
const NESTED: u16 = 0x8000;

/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;

/// Attributes of a message.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn bytes(mut self, kind: u16, value: &[u8]) -> Attributes {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn text(self, kind: u16, value: &str) -> Attributes {
        self.bytes(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// As netfilter has its numbers.
    fn number(self, kind: u16, value: u32) -> Attributes {
        self.bytes(kind, &value.to_be_bytes())
    }

    fn nested(self, kind: u16, value: Attributes) -> Attributes {
        self.bytes(kind | NESTED, &value.0)
    }
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8], attributes: &Attributes) -> Vec<u8> {
    let length = u32::try_from(16 + body.len() + attributes.0.len()).unwrap_or(u32::MAX);
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    message.extend(&attributes.0);
    message
}

/// Without a protocol, that of routes and interfaces.
fn open(protocol: Option<rustix::net::Protocol>) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

/// Sends messages, of which `acknowledged` ask for an answer, and reads the answers.
fn exchange(socket: &OwnedFd, messages: &[u8], mut acknowledged: usize) -> io::Result<()> {
    sendto(socket, messages, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; 1 << 16];
    while acknowledged > 0 {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while rest.len() >= 20 {
            let number = |at: usize| rest[at..at + 4].try_into().map(u32::from_ne_bytes).unwrap_or_default();
            let size = (number(0) as usize).clamp(16, rest.len());
            if u16::from_ne_bytes([rest[4], rest[5]]) == NLMSG_ERROR {
                let code = i32::from_ne_bytes([rest[16], rest[17], rest[18], rest[19]]);
                if code != 0 {
                    return Err(io::Error::from_raw_os_error(-code));
                }
                acknowledged = acknowledged.saturating_sub(1);
            }
            rest = &rest[size.next_multiple_of(4).min(rest.len())..];
        }
    }
    Ok(())
}

/// Sets the loopback interface up.
pub(crate) fn loopback_up() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const IFF_UP: u32 = 1;
    let mut body = vec![0; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    let message = message(RTM_NEWLINK, NLM_F_ACK, 1, &body, &Attributes::default());
    exchange(&open(None)?, &message, 1)
}

/// IPv4 or IPv6.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    fn number(self) -> u8 {
        let family = match self {
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        u8::try_from(family.as_raw()).unwrap_or_default()
    }
}

/// Makes every address one of this network's own.
pub(crate) fn all_addresses_are_local(family: Family) -> io::Result<()> {
    const RTM_NEWROUTE: u16 = 24;
    const RT_TABLE_LOCAL: u8 = 255;
    const RTPROT_BOOT: u8 = 3;
    const RT_SCOPE_HOST: u8 = 254;
    const RTN_LOCAL: u8 = 2;
    const RTA_OIF: u16 = 4;
    let mut body = vec![family.number(), 0, 0, 0, RT_TABLE_LOCAL, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL];
    body.extend(0u32.to_ne_bytes());
    let attributes = Attributes::default().bytes(RTA_OIF, &LOOPBACK.to_ne_bytes());
    let message = message(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1, &body, &attributes);
    exchange(&open(None)?, &message, 1)
}

/// Leads every TCP connection of this network to a port of it, but those with the mark.
pub(crate) fn redirect_all(family: Family, port: u16, mark: u32) -> io::Result<()> {
    const NEWTABLE: u16 = 10 << 8;
    const NEWCHAIN: u16 = NEWTABLE | 3;
    const NEWRULE: u16 = NEWTABLE | 6;
    const BEGIN: u16 = 16;
    const END: u16 = 17;
    const LOCAL_OUT: u32 = 3;
    const ACCEPT: u32 = 1;
    const TCP: u8 = 6;
    const REGISTER: u32 = 1;
    const META_MARK: u32 = 3;
    const META_PROTOCOL: u32 = 16;
    const EQUAL: u32 = 0;
    const DIFFERENT: u32 = 1;
    let (table, chain) = ("sandbox", "output");
    let expression = |name: &str, data: Attributes| Attributes::default().text(1, name).nested(2, data);
    let meta = |key: u32| expression("meta", Attributes::default().number(1, REGISTER).number(2, key));
    let compare = |how: u32, value: &[u8]| {
        let value = Attributes::default().bytes(1, value);
        expression("cmp", Attributes::default().number(1, REGISTER).number(2, how).nested(3, value))
    };
    let value = Attributes::default().bytes(1, &port.to_be_bytes());
    let load = expression("immediate", Attributes::default().number(1, REGISTER).nested(2, value));
    let redirect = expression("redir", Attributes::default().number(1, REGISTER));
    let expressions = [
        meta(META_MARK),
        compare(DIFFERENT, &mark.to_ne_bytes()),
        meta(META_PROTOCOL),
        compare(EQUAL, &[TCP]),
        load,
        redirect,
    ];
    let all = expressions.into_iter().fold(Attributes::default(), |all, one| all.nested(1, one));
    // As for chains that change destinations: before routing.
    let hook = Attributes::default().number(1, LOCAL_OUT).bytes(2, &(-100i32).to_be_bytes());
    let head = |family: u8, resource: u16| [&[family, 0][..], &resource.to_be_bytes()].concat();
    let own = head(family.number(), 0);
    // A batch is for the subsystem of tables.
    let batch = head(0, 10);
    let create = NLM_F_ACK | NLM_F_CREATE;
    let named = Attributes::default().text(1, table);
    let hooked = Attributes::default().text(1, table).text(3, chain).nested(4, hook);
    let hooked = hooked.number(5, ACCEPT).text(7, "nat");
    let ruled = Attributes::default().text(1, table).text(2, chain).nested(4, all);
    let messages = [
        message(BEGIN, 0, 1, &batch, &Attributes::default()),
        message(NEWTABLE, create, 2, &own, &named),
        message(NEWCHAIN, create, 3, &own, &hooked),
        message(NEWRULE, create | NLM_F_APPEND, 4, &own, &ruled),
        message(END, 0, 5, &batch, &Attributes::default()),
    ];
    exchange(&open(Some(netlink::NETFILTER))?, &messages.concat(), 3)
}
