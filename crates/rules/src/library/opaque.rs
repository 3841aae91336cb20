//! Values that only functions can look into.

use std::net::IpAddr;

use super::formats::Format;
use super::network::Cidr;
use super::quantity::Quantity;
use super::semver::Semver;
use super::url::Url;

#[derive(Clone, Debug)]
pub(crate) enum Opaque {
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Url),
    Semver(Semver),
    Format(Format),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpaqueKind {
    Quantity,
    Ip,
    Cidr,
    Url,
    Semver,
    Format,
}

impl OpaqueKind {
    pub fn name(self) -> &'static str {
        match self {
            OpaqueKind::Quantity => "kubernetes.Quantity",
            OpaqueKind::Ip => "net.IP",
            OpaqueKind::Cidr => "net.CIDR",
            OpaqueKind::Url => "kubernetes.URL",
            OpaqueKind::Semver => "kubernetes.Semver",
            OpaqueKind::Format => "kubernetes.NamedFormat",
        }
    }
}

impl Opaque {
    pub fn kind(&self) -> OpaqueKind {
        match self {
            Opaque::Quantity(_) => OpaqueKind::Quantity,
            Opaque::Ip(_) => OpaqueKind::Ip,
            Opaque::Cidr(_) => OpaqueKind::Cidr,
            Opaque::Url(_) => OpaqueKind::Url,
            Opaque::Semver(_) => OpaqueKind::Semver,
            Opaque::Format(_) => OpaqueKind::Format,
        }
    }

    pub fn equals(&self, other: &Opaque) -> bool {
        match (self, other) {
            (Opaque::Quantity(a), Opaque::Quantity(b)) => a == b,
            (Opaque::Ip(a), Opaque::Ip(b)) => a == b,
            (Opaque::Cidr(a), Opaque::Cidr(b)) => a == b,
            (Opaque::Url(a), Opaque::Url(b)) => a == b,
            (Opaque::Semver(a), Opaque::Semver(b)) => a == b,
            (Opaque::Format(a), Opaque::Format(b)) => a.name() == b.name(),
            _ => false,
        }
    }
}
