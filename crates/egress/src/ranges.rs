//! Lists of address ranges, as an operator writes them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum RangeError {
    #[error("{0:?} is not an IP address or a CIDR range such as 10.0.0.0/8")]
    Unreadable(String),
    #[error("{0:?} has bits set behind its prefix: use {1}")]
    HostBits(String, IpNet),
}

/// Address ranges; cheap to clone. Read and written as a list of CIDR strings; a single address is a range of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Arc<[IpNet]>);

impl Ranges {
    /// # Errors
    ///
    /// If one of the texts is not a range.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Ranges, RangeError> {
        texts.into_iter().map(|text| range(text.as_ref())).collect::<Result<_, _>>().map(Ranges)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(&address))
    }

    /// The ranges of both.
    #[must_use]
    pub fn and(&self, other: &Ranges) -> Ranges {
        match (self.is_empty(), other.is_empty()) {
            (_, true) => self.clone(),
            (true, false) => other.clone(),
            (false, false) => Ranges(self.0.iter().chain(other.0.iter()).copied().collect()),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = IpNet> {
        self.0.iter().copied()
    }
}

fn range(text: &str) -> Result<IpNet, RangeError> {
    let text = text.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let range = IpNet::from_str(text).map_err(|_| RangeError::Unreadable(text.to_owned()))?;
    match range.trunc() {
        exact if exact == range => Ok(range),
        exact => Err(RangeError::HostBits(text.to_owned(), exact)),
    }
}

/// Separated by commas.
impl FromStr for Ranges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Ranges, RangeError> {
        Ranges::parse(text.split(',').filter(|part| !part.trim().is_empty()))
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.iter().enumerate() {
            write!(f, "{}{range}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Serialize for Ranges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|range| range.to_string()))
    }
}

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ranges, D::Error> {
        Ranges::parse(Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let read = text.parse::<Ranges>().map(|ranges| ranges.to_string());
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        };
        check("", Ok(""));
        check("10.0.0.0/8", Ok("10.0.0.0/8"));
        check("127.0.0.1, ::1", Ok("127.0.0.1/32,::1/128"));
        check("fd00::/8,", Ok("fd00::/8"));
        check("10.1.0.0/8", Err("\"10.1.0.0/8\" has bits set behind its prefix: use 10.0.0.0/8"));
        for wrong in ["10.0.0.0/33", "localhost", "10.0.0.0-10.0.0.9", "10/8", "*"] {
            let message = format!("{wrong:?} is not an IP address or a CIDR range such as 10.0.0.0/8");
            check(wrong, Err(&message));
        }
    }

    #[test]
    fn as_json() {
        let ranges: Ranges = serde_json::from_str(r#"["10.0.0.0/8", "::1"]"#).unwrap();
        assert_eq!(serde_json::to_string(&ranges).unwrap(), r#"["10.0.0.0/8","::1/128"]"#);
        assert!(serde_json::from_str::<Ranges>(r#"["x"]"#).is_err());
    }
}
