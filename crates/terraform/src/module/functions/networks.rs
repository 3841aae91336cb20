//! Functions of address ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ANY, Arguments, Made, Row, wrong};
use crate::module::problem::Problem;
use crate::module::term::Term;

pub(super) const TABLE: &[Row] = &[
    ("cidrhost", 2, 2, |arguments| {
        let range = Range::of(&arguments)?;
        let host = arguments.whole(1)?;
        let size = range.size(range.length);
        let at = if host < 0 {
            size.map(|size| size.wrapping_add_signed(host.into()))
        } else {
            Some(host as u128)
        };
        match at.filter(|at| size.is_none_or(|size| *at < size)) {
            Some(at) => Ok(Term::text(range.address(range.base | at).to_string())),
            None => wrong("the range has no such host"),
        }
    }),
    ("cidrnetmask", 1, 1, |arguments| {
        let range = Range::of(&arguments)?;
        if range.bits != 32 {
            return wrong("only ranges of IPv4 have a netmask");
        }
        Ok(Term::text(range.address(range.mask(range.length)).to_string()))
    }),
    ("cidrsubnet", 3, 3, |arguments| {
        let range = Range::of(&arguments)?;
        range.subnet(arguments.count(1)?, arguments.count(2)? as u128)
    }),
    ("cidrsubnets", 1, ANY, subnets),
];

/// An address range of either family, as numbers.
struct Range {
    base: u128,
    length: u32,
    /// 32 or 128.
    bits: u32,
}

/// Terraform takes zeros in front for nothing but zeros.
fn parsed(address: &str) -> Option<IpAddr> {
    address.parse().ok().or_else(|| {
        let parts = address.split('.').map(|part| part.parse::<u8>().ok());
        let parts: [u8; 4] = parts.collect::<Option<Vec<_>>>()?.try_into().ok()?;
        Some(IpAddr::from(parts))
    })
}

impl Range {
    fn of(arguments: &Arguments) -> Result<Range, Problem> {
        let text = arguments.text(0)?;
        let parsed = text.split_once('/').and_then(|(address, length)| {
            let (address, length) = (parsed(address)?, length.parse::<u32>().ok()?);
            let (base, bits) = match address {
                IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
                IpAddr::V6(address) => (u128::from(address), 128),
            };
            (length <= bits).then_some(Range { base, length, bits })
        });
        let Some(range) = parsed else { return wrong("this is not an address range such as 10.0.0.0/16") };
        Ok(Range { base: range.base & range.mask(range.length), ..range })
    }

    fn mask(&self, length: u32) -> u128 {
        let all = u128::MAX >> (128 - self.bits);
        let host = if length == 0 { all } else { all.checked_shr(length).unwrap_or(0) };
        all & !host
    }

    /// How many addresses there are under a prefix; none if there are more than can be counted.
    fn size(&self, length: u32) -> Option<u128> {
        1_u128.checked_shl(self.bits - length)
    }

    /// The last address.
    fn end(&self) -> u128 {
        self.base | (self.mask(self.bits) & !self.mask(self.length))
    }

    fn longer(&self, more: usize) -> Result<u32, Problem> {
        let length = u32::try_from(more).ok().and_then(|more| self.length.checked_add(more));
        match length.filter(|length| *length <= self.bits) {
            Some(length) => Ok(length),
            None => wrong("the prefix would be longer than an address"),
        }
    }

    fn subnet(&self, more: usize, number: u128) -> Made {
        let length = self.longer(more)?;
        if 1_u128.checked_shl(length - self.length).is_some_and(|count| number >= count) {
            return wrong("the range has no such part");
        }
        let shifted = number.checked_shl(self.bits - length).unwrap_or(0);
        Ok(Term::text(format!("{}/{length}", self.address(self.base | shifted))))
    }

    fn address(&self, number: u128) -> IpAddr {
        match u32::try_from(number) {
            Ok(small) if self.bits == 32 => IpAddr::V4(Ipv4Addr::from(small)),
            _ => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }
}

/// One after the other, each beginning where one of its size can.
fn subnets(arguments: Arguments) -> Made {
    let range = Range::of(&arguments)?;
    let mut next = Some(range.base);
    let mut parts = Vec::new();
    for at in 1..arguments.len() {
        let length = range.longer(arguments.count(at)?)?;
        let size = range.size(length);
        let start = next.and_then(|next| match size {
            Some(size) => next.checked_add(size - 1).map(|end| end & !(size - 1)),
            // The whole of IPv6.
            None => (at == 1).then_some(next),
        });
        let Some(start) = start.filter(|start| *start <= range.end()) else {
            return wrong("the range has no room for so many parts");
        };
        parts.push(Term::text(format!("{}/{length}", range.address(start))));
        next = size.and_then(|size| start.checked_add(size));
    }
    Ok(Term::List(parts))
}
