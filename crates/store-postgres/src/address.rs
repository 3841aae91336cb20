//! Where the database is: connection strings as PostgreSQL's own clients read them.
//!
//! The driver knows most options. What it does not know is taken out here before it looks: how the server's
//! certificate is judged, and options that mean nothing to us.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

/// No variant says what the string is: it holds a password.
#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum AddressError {
    #[error("the address of the database cannot be read: {0}")]
    Unreadable(String),
    #[error("the address of the database has {option}={value}, which is not one of {known}")]
    Value { option: &'static str, value: String, known: &'static str },
    #[error("the address of the database has the option {0}, which is not supported")]
    Unsupported(String),
    #[error("the file {file} of the option passfile cannot be used: {why}")]
    Passfile { file: String, why: String },
    #[error("the address of the database names no host")]
    NoHost,
    #[error("the address of the database names no user")]
    NoUser,
}

/// How the server's certificate is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Encrypted, whoever it is.
    Nothing,
    /// Signed by an authority we trust, whatever its name.
    Authority,
    /// Signed by an authority we trust, for the host we asked for.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub verify: Verify,
    /// PEM of the authorities; those of the machine when it is not given.
    pub authorities: Option<PathBuf>,
    /// PEM of our own certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    pub versions: Versions,
}

/// The oldest and the newest TLS that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub oldest: Version,
    pub newest: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// And whatever is older, which nobody speaks any more.
    Tls12,
    Tls13,
}

impl Version {
    fn read(option: &'static str, value: String) -> Result<Version, AddressError> {
        match value.as_str() {
            "TLSv1.3" => Ok(Version::Tls13),
            "TLSv1.2" => Ok(Version::Tls12),
            "TLSv1" | "TLSv1.1" if option == "ssl_min_protocol_version" => Ok(Version::Tls12),
            _ => Err(AddressError::Value { option, value, known: "TLSv1.2, TLSv1.3" }),
        }
    }
}

/// What PostgreSQL's own clients find around them where an address does not say it, as far as it is to be used.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Who runs this process.
    pub user: Option<String>,
    /// Where passwords may be. One that is not there, or that others may read, is passed over.
    pub passfile: Option<PathBuf>,
}

pub(crate) struct Address {
    pub config: Config,
    pub tls: TlsOptions,
    /// Where passwords are, if the address has none.
    pub passfile: Option<PathBuf>,
    /// How many connections there may be at most.
    pub connections: Option<usize>,
}

/// Options that the driver does not know, or that mean something else to us.
const OURS: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "passfile",
    "target_session_attrs",
    "pool_max_conns",
];
/// Options of other clients that change nothing here.
const WITHOUT_EFFECT: [&str; 6] =
    ["fallback_application_name", "client_encoding", "gssencmode", "krbsrvname", "sslcompression", "sslsni"];
/// Options that would change something and are not known: refusing is better than connecting otherwise than asked.
const UNSUPPORTED: [&str; 8] = [
    "service",
    "servicefile",
    "sslcrl",
    "sslcrldir",
    "sslpassword",
    "requirepeer",
    "replication",
    "sslcertmode",
];

/// A host that does not answer is away; its neighbours wait for less than a person notices.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// What we sent and nobody acknowledged for this long went into the void.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// After this long without a word, the other side is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Connections that are not for reads: one each that writes, listens, compacts and makes changes under a lease, and two that copy.
pub(crate) const NOT_FOR_READS: usize = 6;

/// An address that says everything itself.
pub(crate) fn parse(address: &str) -> Result<Address, AddressError> {
    parse_in(address, &Surroundings::default())
}

pub(crate) fn parse_in(address: &str, surroundings: &Surroundings) -> Result<Address, AddressError> {
    let (kept, taken) = if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        split_url(address)?
    } else {
        split_words(address)?
    };
    let versions = Versions { oldest: Version::Tls12, newest: Version::Tls13 };
    let mut tls = TlsOptions { verify: Verify::Nothing, authorities: None, identity: None, versions };
    let (mut mode, mut certificate, mut key, mut passfile) = (None, None, None, None);
    let mut connections = None;
    for (option, value) in taken {
        match option.as_str() {
            "sslmode" => mode = Some(value),
            "sslrootcert" if value == "system" => {
                tls.verify = Verify::Name;
            }
            "sslrootcert" => tls.authorities = Some(value.into()),
            "sslcert" => certificate = Some(PathBuf::from(value)),
            "sslkey" => key = Some(PathBuf::from(value)),
            "passfile" => passfile = Some(PathBuf::from(value)),
            "ssl_min_protocol_version" => {
                tls.versions.oldest = Version::read("ssl_min_protocol_version", value)?;
            }
            "ssl_max_protocol_version" => {
                tls.versions.newest = Version::read("ssl_max_protocol_version", value)?;
            }
            "pool_max_conns" => match value.parse() {
                Ok(number) if number > NOT_FOR_READS => connections = Some(number),
                _ => {
                    let known = "a number from 7 on: six of them are not for reads";
                    return Err(AddressError::Value { option: "pool_max_conns", value, known });
                }
            },
            // Whatever is asked for, a store is for writing; what forbids that cannot be meant.
            "target_session_attrs" if ["any", "read-write", "primary"].contains(&value.as_str()) => {}
            "target_session_attrs" => {
                let known = "any, read-write, primary: a standby cannot be written";
                return Err(AddressError::Value { option: "target_session_attrs", value, known });
            }
            option if WITHOUT_EFFECT.contains(&option) => {}
            option => return Err(AddressError::Unsupported(option.into())),
        }
    }
    if tls.versions.oldest > tls.versions.newest {
        let why = "ssl_min_protocol_version is newer than ssl_max_protocol_version";
        return Err(AddressError::Unreadable(why.into()));
    }
    tls.identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let why = "sslcert and sslkey belong together, and one is missing";
            return Err(AddressError::Unreadable(why.into()));
        }
    };
    let mut config: Config = kept.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        AddressError::Unreadable(cause)
    })?;
    let asked = |verify, if_authorities| if tls.authorities.is_some() { if_authorities } else { verify };
    let (mode, verify) = match mode.as_deref() {
        None if tls.verify == Verify::Name => (SslMode::Require, Verify::Name),
        None | Some("prefer" | "allow") => (SslMode::Prefer, tls.verify),
        Some("disable") => (SslMode::Disable, Verify::Nothing),
        // As libpq does: with an authority at hand, it is asked.
        Some("require") => (SslMode::Require, asked(tls.verify, Verify::Authority)),
        Some("verify-ca") => (SslMode::Require, Verify::Authority),
        Some("verify-full") => (SslMode::Require, Verify::Name),
        Some(other) => {
            let known = "disable, allow, prefer, require, verify-ca, verify-full";
            return Err(AddressError::Value { option: "sslmode", value: other.into(), known });
        }
    };
    config.ssl_mode(mode);
    tls.verify = verify;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(AddressError::NoHost);
    }
    let (names, addresses) = (config.get_hosts().len(), config.get_hostaddrs().len());
    let ports = config.get_ports().len();
    if names.min(addresses) > 0 && names != addresses || ports > 1 && ports != names.max(addresses) {
        let why = "it has not as many ports, or addresses of hosts, as it has hosts";
        return Err(AddressError::Unreadable(why.into()));
    }
    if config.get_user().is_none() {
        config.user(surroundings.user.as_deref().ok_or(AddressError::NoUser)?);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    // The driver's default of two hours leaves a connection that only listens deaf for as long.
    if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
        config.keepalives_idle(KEEP_ALIVE).keepalives_interval(UNACKNOWLEDGED).keepalives_retries(3);
    }
    if config.get_application_name().is_none() {
        config.application_name("hangar");
    }
    // Of several hosts, the one that can be written.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(Address { config, tls, passfile, connections })
}

type Taken = Vec<(String, String)>;

fn ours(option: &str) -> bool {
    OURS.contains(&option) || WITHOUT_EFFECT.contains(&option) || UNSUPPORTED.contains(&option)
}

fn split_url(address: &str) -> Result<(String, Taken), AddressError> {
    let Some((base, query)) = address.split_once('?') else { return Ok((address.into(), vec![])) };
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
        if ours(option) {
            taken.push((option.to_owned(), percent_decoded(value)?));
        } else {
            kept.push(pair);
        }
    }
    let separator = if kept.is_empty() { "" } else { "?" };
    Ok((format!("{base}{separator}{}", kept.join("&")), taken))
}

fn percent_decoded(text: &str) -> Result<String, AddressError> {
    let unreadable =
        || AddressError::Unreadable("an option has a percent sign that begins no character".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(unreadable)?;
        let digits = std::str::from_utf8(digits).map_err(|_| unreadable())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| unreadable())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| unreadable())
}

/// `name=value name='value with spaces'`, a backslash before what is meant as itself.
fn split_words(address: &str) -> Result<(String, Taken), AddressError> {
    let (mut kept, mut taken) = (String::new(), Vec::new());
    let mut letters = address.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let mut option = String::new();
        while let Some(letter) = letters.next_if(|letter| *letter != '=' && !letter.is_whitespace()) {
            option.push(letter);
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if option.is_empty() && letters.peek().is_none() {
            return Ok((kept, taken));
        }
        if letters.next() != Some('=') || option.is_empty() {
            // Not what stands there: it may be a part of a password.
            return Err(AddressError::Unreadable("an option has no value".into()));
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let quoted = letters.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        loop {
            match letters.next() {
                None if quoted => return Err(AddressError::Unreadable("a quote is not closed".into())),
                None => break,
                Some('\'') if quoted => break,
                Some(letter) if !quoted && letter.is_whitespace() => break,
                Some('\\') => value.extend(letters.next()),
                Some(letter) => value.push(letter),
            }
        }
        if ours(&option) {
            taken.push((option, value));
        } else {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            kept.push_str(&format!("{option}='{value}' "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, mode: SslMode, verify: Verify) {
        let read = parse(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!((read.config.get_ssl_mode(), read.tls.verify), (mode, verify), "{address}");
        assert_eq!(read.config.get_user(), Some("u"), "{address}");
        assert_eq!(read.config.get_password(), Some(&b"p w"[..]), "{address}");
        assert_eq!(read.config.get_dbname(), Some("d"), "{address}");
    }

    #[test]
    fn encryption_is_as_the_usual_options_say() {
        let (prefer, require, disable) = (SslMode::Prefer, SslMode::Require, SslMode::Disable);
        check("postgres://u:p%20w@h/d", prefer, Verify::Nothing);
        check("postgresql://u:p%20w@h:1,i:2/d?sslmode=disable&connect_timeout=3", disable, Verify::Nothing);
        check("postgres://u:p%20w@h/d?sslmode=require", require, Verify::Nothing);
        check("postgres://u:p%20w@h/d?sslrootcert=%2Fa%20b&sslmode=require", require, Verify::Authority);
        check("postgres://u:p%20w@h/d?sslmode=verify-ca&application_name=x", require, Verify::Authority);
        check("postgres://u:p%20w@h/d?sslmode=verify-full", require, Verify::Name);
        check("postgres://u:p%20w@h/d?sslrootcert=system", require, Verify::Name);
        check("host=h user=u password='p w' dbname=d sslmode=verify-full sslsni=1", require, Verify::Name);
        check(
            "user = u  password = p\\ w host=h,i port=1,2 dbname='d' keepalives=0",
            prefer,
            Verify::Nothing,
        );
        check("host=h user=u password='p w' dbname=d sslcert=c sslkey='k k'", prefer, Verify::Nothing);
        for wanted in ["any", "read-write", "primary"] {
            check(&format!("postgres://u:p%20w@h/d?target_session_attrs={wanted}"), prefer, Verify::Nothing);
        }
    }

    #[test]
    fn what_cannot_be_done_is_said_without_the_password() {
        let cases = [
            ("postgres://u:secret@h/d?sslmode=maybe", "sslmode=maybe"),
            ("postgres://u:secret@h/d?service=x", "service"),
            ("postgres://u:secret@h/d?sslcert=x", "sslkey"),
            ("postgres://u:secret@h/d?nonsense=1", "nonsense"),
            ("postgres://u:secret@h/d?sslrootcert=%zz", "percent"),
            ("postgres:///d?user=u&password=secret", "no host"),
            ("host=h password=secret", "no user"),
            ("postgres://u:secret@h/d?target_session_attrs=standby", "a standby cannot be written"),
            ("host=h,i port=1,2,3 user=u password=secret", "ports"),
            ("host=h,i hostaddr=127.0.0.1 user=u password=secret", "as many"),
            ("host=h user=u password='secret", "quote"),
            ("host=h user=u secret", "no value"),
            ("just secret words", "no value"),
        ];
        for (address, says) in cases {
            let error = parse(address).err().unwrap_or_else(|| panic!("{address} was accepted")).to_string();
            assert!(error.contains(says), "{address}: {error}");
            assert!(!error.contains("secret"), "{address}: {error}");
        }
    }

    #[test]
    fn files_are_found() {
        let read = parse("host=h user=u sslrootcert=/r sslcert=/c sslkey=/k sslmode=verify-full").unwrap();
        let identity = Some(("/c".into(), "/k".into()));
        let versions = Versions { oldest: Version::Tls12, newest: Version::Tls13 };
        let authorities = Some("/r".into());
        assert_eq!(read.tls, TlsOptions { verify: Verify::Name, authorities, identity, versions });
    }

    #[test]
    fn the_user_is_whoever_runs_it_unless_said() {
        let around = Surroundings { user: Some("me".into()), passfile: None };
        for (address, expected) in [
            ("postgres://h/d", "me"),
            ("host=h dbname=d", "me"),
            ("postgres://u@h/d", "u"),
            ("host=h user=u dbname=d", "u"),
        ] {
            assert_eq!(parse_in(address, &around).unwrap().config.get_user(), Some(expected), "{address}");
        }
        assert_eq!(parse("postgres://h/d").err(), Some(AddressError::NoUser));
    }

    #[test]
    fn versions_of_tls() {
        let check = |options: &str, expected: Result<(Version, Version), &str>| {
            let read = parse(&format!("host=h user=u {options}"));
            let read = read.map(|read| (read.tls.versions.oldest, read.tls.versions.newest));
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{options}"),
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{options}: {error}"),
                (read, _) => panic!("{options}: {read:?}"),
            }
        };
        check("", Ok((Version::Tls12, Version::Tls13)));
        check("ssl_min_protocol_version=TLSv1", Ok((Version::Tls12, Version::Tls13)));
        check("ssl_min_protocol_version=TLSv1.3", Ok((Version::Tls13, Version::Tls13)));
        check("ssl_max_protocol_version=TLSv1.2", Ok((Version::Tls12, Version::Tls12)));
        check("ssl_max_protocol_version=TLSv1.1", Err("not one of TLSv1.2, TLSv1.3"));
        check("ssl_min_protocol_version=SSLv3", Err("ssl_min_protocol_version=SSLv3"));
        check("ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", Err("newer"));
    }

    #[test]
    fn the_size_of_the_pool() {
        let read = |size: &str| parse(&format!("postgres://u@h/d?pool_max_conns={size}"));
        assert_eq!(parse("postgres://u@h/d").unwrap().connections, None);
        assert_eq!(read("20").unwrap().connections, Some(20));
        for wrong in ["6", "0", "-1", "many", ""] {
            let error = read(wrong).err().unwrap_or_else(|| panic!("{wrong:?}")).to_string();
            assert!(error.contains("a number from 7 on"), "{error}");
        }
    }
}
