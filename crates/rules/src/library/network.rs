//! `ip('10.0.0.1')` and `cidr('10.0.0.0/8')`

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{Cost, Opaque, OpaqueKind, Overload, T, function, member, take};
use crate::error::EvalError;
use crate::value::Val;

/// An address and how many of its bits are the network's; the other bits are kept as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    prefix: u8,
}

const IP: T = T::Opaque(OpaqueKind::Ip);
const CIDR: T = T::Opaque(OpaqueKind::Cidr);

pub(super) const OVERLOADS: &[Overload] = &[
    function("ip", &[T::Str], IP, |v, _| take!(v, [Val::Str(text)] => Ok(ip(parse_ip(text)?)))).cost(Cost::Scan(0)),
    function("isIP", &[T::Str], T::Bool, |v, _| take!(v, [Val::Str(text)] => Ok(parse_ip(text).is_ok().into())))
        .cost(Cost::Scan(0)),
    function("ip.isCanonical", &[T::Str], T::Bool, |v, _| {
        take!(v, [Val::Str(text)] => Ok((parse_ip(text)?.to_string() == **text).into()))
    })
    .cost(Cost::Scan(0)),
    member("family", &[IP], T::Int, |v, _| Ok(Val::Int(if read_ip(v)?.is_ipv4() { 4 } else { 6 }))),
    member("isUnspecified", &[IP], T::Bool, |v, _| Ok(read_ip(v)?.is_unspecified().into())),
    member("isLoopback", &[IP], T::Bool, |v, _| Ok(read_ip(v)?.is_loopback().into())),
    member("isLinkLocalMulticast", &[IP], T::Bool, |v, _| Ok(link_local_multicast(read_ip(v)?).into())),
    member("isLinkLocalUnicast", &[IP], T::Bool, |v, _| Ok(link_local(read_ip(v)?).into())),
    member("isGlobalUnicast", &[IP], T::Bool, |v, _| Ok(global_unicast(read_ip(v)?).into())),
    function("cidr", &[T::Str], CIDR, |v, _| take!(v, [Val::Str(text)] => Ok(cidr(parse_cidr(text)?))))
        .cost(Cost::Scan(0)),
    function("isCIDR", &[T::Str], T::Bool, |v, _| take!(v, [Val::Str(text)] => Ok(parse_cidr(text).is_ok().into())))
        .cost(Cost::Scan(0)),
    member("containsIP", &[CIDR, IP], T::Bool, |v, _| {
        take!(v, [network, address] => Ok(read_cidr(network)?.contains(read_ip(std::slice::from_ref(address))?).into()))
    }),
    member("containsIP", &[CIDR, T::Str], T::Bool, |v, _| {
        take!(v, [network, Val::Str(text)] => Ok(read_cidr(network)?.contains(parse_ip(text)?).into()))
    })
    .cost(Cost::Scan(1)),
    member("containsCIDR", &[CIDR, CIDR], T::Bool, |v, _| {
        take!(v, [network, other] => Ok(read_cidr(network)?.contains_network(read_cidr(other)?).into()))
    }),
    member("containsCIDR", &[CIDR, T::Str], T::Bool, |v, _| {
        take!(v, [network, Val::Str(text)] => Ok(read_cidr(network)?.contains_network(parse_cidr(text)?).into()))
    })
    .cost(Cost::Scan(1)),
    member("ip", &[CIDR], IP, |v, _| take!(v, [network] => Ok(ip(read_cidr(network)?.address)))),
    member("masked", &[CIDR], CIDR, |v, _| take!(v, [network] => Ok(cidr(read_cidr(network)?.masked())))),
    member("prefixLength", &[CIDR], T::Int, |v, _| {
        take!(v, [network] => Ok(Val::Int(i64::from(read_cidr(network)?.prefix))))
    }),
];

fn ip<'a>(address: IpAddr) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Ip(address)))
}

fn cidr<'a>(cidr: Cidr) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Cidr(cidr)))
}

fn read_ip(v: &[Val<'_>]) -> Result<IpAddr, EvalError> {
    match v {
        [Val::Opaque(opaque)] => match &**opaque {
            Opaque::Ip(address) => Ok(*address),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn read_cidr(value: &Val<'_>) -> Result<Cidr, EvalError> {
    match value {
        Val::Opaque(opaque) => match &**opaque {
            Opaque::Cidr(cidr) => Ok(*cidr),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Zones and IPv4 addresses written as IPv6 are refused: they compare in ways that users do not expect.
fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    if text.contains('%') {
        return Err(EvalError::function(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        EvalError::function(format!("IP Address {text:?} parse error during conversion from string"))
    })?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(EvalError::function(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        address => Ok(address),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    let wrong = || EvalError::function(format!("CIDR {text:?} parse error during conversion from string"));
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address = parse_ip(address).map_err(|_| wrong())?;
    let plain = prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
    let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if plain && prefix <= most { Ok(Cidr { address, prefix }) } else { Err(wrong()) }
}

impl Cidr {
    fn masked(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Cidr { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Cidr { address, ..self }.masked().address == self.masked().address
    }

    fn contains_network(self, other: Cidr) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => matches!(v6.octets(), [0xff, second, ..] if second & 0x0f == 2),
    }
}

/// Go's notion of it: neither unspecified, loopback, multicast, link local nor the broadcast address.
fn global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || link_local(address))
}
