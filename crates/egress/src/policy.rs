//! Which addresses may be dialled on behalf of a control plane.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{Ipv4Net, Ipv6Net};

use crate::Ranges;

/// Why an address may not be dialled. For the log of the operator, not for the tenant.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    #[error("the address is in a range for {0}")]
    Range(&'static str),
    #[error("the address is one of this machine")]
    Own,
}

/// The destinations of one control plane, or of the installation. Cheap to clone.
///
/// Without anything allowed, only addresses of the public internet may be dialled, and of these none that this machine
/// has itself. An allowed range opens every address in it, whatever its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Public {
        allowed: Ranges,
    },
    /// The operator chose the destination.
    Unrestricted,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::new(Ranges::default())
    }
}

impl Policy {
    pub fn new(allowed: Ranges) -> Policy {
        Policy(Kind::Public { allowed })
    }

    /// For destinations that the operator configured. Never for one that a tenant can influence.
    pub fn unrestricted() -> Policy {
        Policy(Kind::Unrestricted)
    }

    pub(crate) fn is_unrestricted(&self) -> bool {
        matches!(self.0, Kind::Unrestricted)
    }

    /// The same with further ranges.
    #[must_use]
    pub fn and(&self, more: &Ranges) -> Policy {
        match &self.0 {
            Kind::Public { allowed } => Policy::new(allowed.and(more)),
            Kind::Unrestricted => self.clone(),
        }
    }

    /// Judges the address that is about to be dialled. Names must be resolved before.
    ///
    /// # Errors
    ///
    /// If the address is neither public nor allowed.
    pub fn check(&self, address: SocketAddr) -> Result<(), Refusal> {
        let Kind::Public { allowed } = &self.0 else { return Ok(()) };
        let (dialled, reached) = (address.ip(), reached(address.ip()));
        if allowed.contain(dialled) || allowed.contain(reached) {
            return Ok(());
        }
        if let Some(purpose) = special(reached) {
            return Err(Refusal::Range(purpose));
        }
        match is_own(reached) {
            true => Err(Refusal::Own),
            false => Ok(()),
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// The ranges that are no public unicast addresses, by IANA's registries of special-purpose addresses, and metadata
/// services of clouds that have public addresses.
const SPECIAL_V4: [(Ipv4Net, &str); 17] = [
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private networks"),
    (v4(100, 64, 0, 0, 10), "carrier-grade NAT"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(168, 63, 129, 16, 32), "a metadata service"), // Azure's
    (v4(169, 254, 0, 0, 16), "link-local addresses"), // with the metadata services of most clouds
    (v4(172, 16, 0, 0, 12), "private networks"),
    (v4(192, 0, 0, 0, 24), "protocol assignments"), // with the metadata service of Oracle's cloud
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "6to4 relays"),
    (v4(192, 168, 0, 0, 16), "private networks"),
    (v4(198, 18, 0, 0, 15), "benchmarks"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(240, 0, 0, 0, 4), "future use"),
];

/// Everything else in IPv6 is reserved, local, or leads to an IPv4 address in a way that this server does not judge.
const PUBLIC_V6: Ipv6Net = v6(0x2000, 0, 0, 3);
const SPECIAL_V6: [(Ipv6Net, &str); 4] = [
    (v6(0x2001, 0, 0, 23), "protocol assignments"), // with Teredo
    (v6(0x2001, 0xdb8, 0, 32), "documentation"),
    (v6(0x2002, 0, 0, 16), "6to4"),
    (v6(0x3fff, 0, 0, 20), "documentation"),
];
/// RFC 6052: a translator on the way makes an IPv4 address of it.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

/// The IPv4 address that packets to an IPv6 address arrive at, where it stands for one.
fn reached(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    if NAT64.contains(&six) {
        let [.., a, b, c, d] = six.octets();
        return Ipv4Addr::new(a, b, c, d).into();
    }
    six.to_canonical()
}

fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(four) => {
            SPECIAL_V4.iter().find(|(range, _)| range.contains(&four)).map(|(_, purpose)| *purpose)
        }
        IpAddr::V6(six) if !PUBLIC_V6.contains(&six) => Some("local or reserved IPv6 addresses"),
        IpAddr::V6(six) => {
            SPECIAL_V6.iter().find(|(range, _)| range.contains(&six)).map(|(_, purpose)| *purpose)
        }
    }
}

/// Whether an interface of this machine has the address. Interfaces change, so they are read for each new connection;
/// if they cannot be read, every address counts as one of this machine.
fn is_own(address: IpAddr) -> bool {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else {
        tracing::warn!("cannot read the addresses of this machine, refusing all egress");
        return true;
    };
    interfaces.filter_map(|interface| interface.address).any(|own| {
        let four = own.as_sockaddr_in().map(|own| IpAddr::V4(own.ip()));
        let six = own.as_sockaddr_in6().map(|own| IpAddr::V6(own.ip()));
        four.or(six) == Some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &Policy, address: &str) -> Result<(), Refusal> {
        policy.check(SocketAddr::new(address.parse().unwrap(), 443))
    }

    /// Addresses as data: nothing is dialled here.
    #[test]
    fn only_public_addresses_by_default() {
        let policy = Policy::default();
        let refused = [
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("0.0.0.0", "this network"),
            ("0.1.2.3", "this network"),
            ("10.0.0.1", "private networks"),
            ("172.16.0.1", "private networks"),
            ("172.31.255.255", "private networks"),
            ("192.168.1.1", "private networks"),
            ("100.64.0.1", "carrier-grade NAT"),
            ("100.127.255.255", "carrier-grade NAT"),
            ("100.100.100.200", "carrier-grade NAT"),
            ("169.254.169.254", "link-local addresses"),
            ("169.254.170.2", "link-local addresses"),
            ("168.63.129.16", "a metadata service"),
            ("192.0.0.192", "protocol assignments"),
            ("192.0.2.1", "documentation"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("192.88.99.1", "6to4 relays"),
            ("198.18.0.1", "benchmarks"),
            ("198.19.255.255", "benchmarks"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "future use"),
            ("255.255.255.255", "broadcast"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local addresses"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local addresses"),
            ("64:ff9b::10.0.0.1", "private networks"),
            ("2001:db8::1", "documentation"),
            ("3fff::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("2002:808:808::1", "6to4"),
            ("2001::1", "protocol assignments"),
            ("2001:1::1", "protocol assignments"),
        ];
        for (address, purpose) in refused {
            assert_eq!(check(&policy, address), Err(Refusal::Range(purpose)), "{address}");
        }
        for address in [
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b:1::7f00:1",
            "100::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "ff02::1",
            "5f00::1",
            "4000::1",
        ] {
            let refused = Err(Refusal::Range("local or reserved IPv6 addresses"));
            assert_eq!(check(&policy, address), refused, "{address}");
        }
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.0",
            "168.63.129.17",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
        ] {
            assert_eq!(check(&policy, public), Ok(()), "{public}");
        }
    }

    #[test]
    fn allowed_ranges() {
        let policy = Policy::new("127.0.0.0/8,10.1.0.0/16,fd00:1::/32".parse().unwrap());
        for address in
            ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "10.1.2.3", "fd00:1::5", "1.1.1.1"]
        {
            assert_eq!(check(&policy, address), Ok(()), "{address}");
        }
        for address in ["10.2.0.1", "::1", "0.0.0.0", "169.254.169.254", "fd00:2::5"] {
            assert!(check(&policy, address).is_err(), "{address}");
        }
        let more = policy.and(&"::1".parse().unwrap());
        assert_eq!(check(&more, "::1"), Ok(()));
        assert_eq!(check(&more, "10.1.2.3"), Ok(()));
        assert!(check(&policy, "::1").is_err(), "the first policy stays as it is");
        assert_eq!(check(&Policy::unrestricted(), "169.254.169.254"), Ok(()));
    }

    #[test]
    fn addresses_of_this_machine() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("1.1.1.1".parse().unwrap()));
    }
}
