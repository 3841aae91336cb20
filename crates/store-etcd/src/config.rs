//! Which etcd, and how to get in.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use store::Retention;

/// Where etcd is and who we are to it. [`Config::parse`] reads it from one line.
#[derive(Clone, Default)]
pub struct Config {
    /// `host:port`, of as many members as there are.
    pub endpoints: Vec<String>,
    /// Below which all keys lie. Several installations may share an etcd, each with its own.
    pub prefix: String,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Without it, connections are in the clear.
    pub tls: Option<Tls>,
    /// How long it may take for one request, where that is not as [`Options`] say.
    pub timeout: Option<Duration>,
}

/// What a connection is secured with: files, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who signed the servers' certificates; the machine's own authorities if it is not given.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, where etcd asks for one.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name in the servers' certificates, where it is not the one they are called by.
    pub server_name: Option<String>,
}

/// Where keys lie unless told otherwise.
pub const DEFAULT_PREFIX: &str = "/hangar";
const DEFAULT_PORT: u16 = 2379;

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum ConfigError {
    #[error(
        "the address of etcd must look like etcd://HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE&cert=FILE&key=FILE]"
    )]
    Shape,
    #[error("{0:?} in the address of etcd is not HOST:PORT")]
    Endpoint(String),
    #[error(
        "the address of etcd has the option {0:?}, which is none of: ca, cert, key, server-name, tls, prefix, timeout"
    )]
    Option(String),
    #[error("timeout={0} in the address of etcd is not a number of seconds from 1 to 600")]
    Timeout(String),
    #[error("the address of etcd has cert without key, or key without cert: give both or neither")]
    HalfIdentity,
    #[error("the address of etcd has a password without a user, or a user without a password")]
    HalfUser,
    #[error("the address of etcd holds % and no two hexadecimal digits after it")]
    Percent,
}

impl Config {
    /// Reads `etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/PREFIX][?OPTIONS]`. Options are `ca`, `cert` and
    /// `key` (files), `server-name`, `tls=true` (also meant by any of these, and by `etcds://`), `prefix`, and
    /// `timeout` (seconds).
    pub fn parse(line: &str) -> Result<Config, ConfigError> {
        let (scheme, rest) = line.split_once("://").ok_or(ConfigError::Shape)?;
        let mut tls = match scheme {
            "etcd" => None,
            "etcds" => Some(Tls::default()),
            _ => return Err(ConfigError::Shape),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may hold an at sign; a host may not.
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Result<_, _>>()?;
        let mut config = Config { endpoints, prefix: DEFAULT_PREFIX.into(), ..Config::default() };
        if let Some(user) = user {
            let (name, password) = user.split_once(':').ok_or(ConfigError::HalfUser)?;
            if name.is_empty() || password.is_empty() {
                return Err(ConfigError::HalfUser);
            }
            (config.user, config.password) = (Some(decoded(name)?), Some(decoded(password)?));
        }
        if !path.trim_matches('/').is_empty() {
            config.prefix = format!("/{}", decoded(path)?);
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decoded(value)?;
            match name {
                "prefix" => config.prefix = value,
                "timeout" => {
                    let seconds = value.parse().ok().filter(|seconds| (1..=600).contains(seconds));
                    let seconds = seconds.ok_or(ConfigError::Timeout(value))?;
                    config.timeout = Some(Duration::from_secs(seconds));
                }
                "tls" if value == "true" => drop(tls.get_or_insert_default()),
                "ca" => tls.get_or_insert_default().ca = Some(value.into()),
                "cert" => tls.get_or_insert_default().certificate = Some(value.into()),
                "key" => tls.get_or_insert_default().key = Some(value.into()),
                "server-name" => tls.get_or_insert_default().server_name = Some(value),
                other => return Err(ConfigError::Option(other.into())),
            }
        }
        if tls.as_ref().is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            return Err(ConfigError::HalfIdentity);
        }
        config.tls = tls;
        Ok(config)
    }
}

fn endpoint(host: &str) -> Result<String, ConfigError> {
    let bad = || ConfigError::Endpoint(host.into());
    // The colons of an IPv6 address are within brackets.
    let port = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let (name, port) = port.map_or((host, Ok(DEFAULT_PORT)), |(name, port)| (name, port.parse::<u16>()));
    let port = port.map_err(|_| bad())?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(bad());
    }
    Ok(format!("{name}:{port}"))
}

fn decoded(text: &str) -> Result<String, ConfigError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(ConfigError::Percent)?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::Percent)
}

/// How the store behaves. The defaults suit an etcd in the same data centre.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for the latest events of all tenants, and as much again for those on their way to watches.
    pub event_bytes: usize,
    pub retention: Retention,
    /// How often history beyond the retention is dropped and unfinished removals are resumed.
    pub compaction_interval: Duration,
    /// How often an idle watch hears how far it is.
    pub progress_interval: Duration,
    /// How long etcd may take for one request before it counts as away.
    pub request_timeout: Duration,
    pub connect_timeout: Duration,
    /// A copy of a tenant that made no progress for so long was left behind by a replica that died.
    pub abandoned_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            event_bytes: 16 << 20,
            retention: Retention { age: Duration::from_secs(600), bytes: 256 << 20 },
            compaction_interval: Duration::from_secs(30),
            progress_interval: Duration::from_secs(10),
            // Longer than a healthy etcd takes on a starved machine, and than it takes to elect a leader.
            request_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(1),
            abandoned_after: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |line: &str, expected: Config| {
            let parsed = Config::parse(line).unwrap();
            let all = |config: &Config| (format!("{config:?}"), config.password.clone());
            assert_eq!(all(&parsed), all(&expected), "{line}");
        };
        let plain = |hosts: &[&str], prefix: &str| Config {
            endpoints: hosts.iter().map(ToString::to_string).collect(),
            prefix: prefix.into(),
            ..Config::default()
        };
        check("etcd://localhost", plain(&["localhost:2379"], "/hangar"));
        check("etcd://a:1,[::1]:2,[fe80::1]", plain(&["a:1", "[::1]:2", "[fe80::1]:2379"], "/hangar"));
        check("etcd://a:1/x/y", plain(&["a:1"], "/x/y"));
        check("etcd://a:1/?prefix=/z%20z", plain(&["a:1"], "/z z"));
        let user =
            Config { user: Some("me".into()), password: Some("p@s:s".into()), ..plain(&["a:1"], "/hangar") };
        check("etcd://me:p@s%3As@a:1", user);
        let tls = Tls { ca: Some("/ca.pem".into()), ..Tls::default() };
        check("etcd://a:1?ca=/ca.pem", Config { tls: Some(tls), ..plain(&["a:1"], "/hangar") });
        let patient = Config { timeout: Some(Duration::from_secs(30)), ..plain(&["a:1"], "/hangar") };
        check("etcd://a:1?timeout=30", patient);
        check("etcds://a:1", Config { tls: Some(Tls::default()), ..plain(&["a:1"], "/hangar") });
    }

    #[test]
    fn addresses_that_are_none() {
        let check = |line: &str, expected: ConfigError| {
            assert_eq!(Config::parse(line).map(|_| ()), Err(expected), "{line}");
        };
        check("localhost:2379", ConfigError::Shape);
        check("http://localhost", ConfigError::Shape);
        check("etcd://", ConfigError::Endpoint("".into()));
        check("etcd://a:b", ConfigError::Endpoint("a:b".into()));
        check("etcd://a:1,", ConfigError::Endpoint("".into()));
        check("etcd://me@a:1", ConfigError::HalfUser);
        check("etcd://a:1?cert=x", ConfigError::HalfIdentity);
        check("etcd://a:1?colour=red", ConfigError::Option("colour".into()));
        check("etcd://a:1/%zz", ConfigError::Percent);
        check("etcd://a:1?timeout=0", ConfigError::Timeout("0".into()));
        check("etcd://a:1?timeout=1s", ConfigError::Timeout("1s".into()));
    }

    #[test]
    fn passwords_stay_inside() {
        let config = Config::parse("etcd://me:secret@a:1").unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
