//! Opening: how etcd is reached, and whether it is one that can be used.

use std::path::{Path, PathBuf};
use std::time::Duration;

use store::StoreError;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::config::{Config, Options, Tls};
use crate::engine::Engine;
use crate::keys::Keys;
use crate::link::{Fault, Link};

#[derive(thiserror::Error, Debug)]
pub enum OpenError {
    #[error("no address of etcd is given")]
    NoEndpoint,
    #[error("{0:?} is not an address of etcd")]
    BadEndpoint(String),
    #[error("the file {} cannot be read: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the certificates for etcd cannot be used: {0}")]
    Tls(String),
    #[error("etcd at {endpoints} cannot be reached: {why}")]
    Unreachable { endpoints: String, why: String },
    #[error("etcd refuses the password of user {user:?}, or does not know that user")]
    WrongPassword { user: String },
    #[error("etcd asks for a user and a password, and none is configured")]
    NoUser,
    #[error("the user of etcd may not read and write below {prefix:?}: grant it a role that may")]
    NoRights { prefix: String },
    #[error("etcd {found} is too old: {OLDEST} or newer is needed")]
    TooOld { found: String },
    #[error("etcd cannot be used: {0}")]
    Failed(String),
}

impl OpenError {
    /// Whether it may work later although nobody changes the address or the server's settings.
    pub fn may_pass(&self) -> bool {
        matches!(self, OpenError::Unreachable { .. } | OpenError::Failed(_))
    }
}

/// Progress of watches and pieces of large answers came with it.
const OLDEST: &str = "3.4";

/// etcd suspects clients that ask more often than every five seconds whether it is there.
const ARE_YOU_THERE: Duration = Duration::from_secs(6);
const NO_ANSWER: Duration = Duration::from_secs(3);
/// Room for answers on their way: a page of entries or a burst of events at once.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

pub(crate) async fn open(config: &Config, mut options: Options) -> Result<Engine, OpenError> {
    options.request_timeout = config.timeout.unwrap_or(options.request_timeout);
    let tls = config.tls.as_ref().map(tls_settings).transpose()?;
    let endpoints = config.endpoints.iter().map(|at| endpoint(at, tls.as_ref(), &options));
    let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_, _>>()?;
    if endpoints.is_empty() {
        return Err(OpenError::NoEndpoint);
    }
    let credentials = config.user.clone().zip(config.password.clone());
    let link = Link::new(endpoints, credentials, options.request_timeout);
    match link.status().await {
        Ok(status) if is_too_old(&status.version) => return Err(OpenError::TooOld { found: status.version }),
        Ok(_) => {}
        // Newer servers tell their version to few. An old one would have told.
        Err(Fault::NoRights) => {}
        Err(fault) => return Err(explain(config, fault)),
    }
    let mut engine = Engine::new(link, Keys::new(&config.prefix), options);
    // Also the first thing written: whoever may not finds out now.
    let revision = match engine.mark().await {
        Ok(revision) => revision,
        Err(StoreError::Unavailable(why)) if why == Fault::NoRights.to_string() => {
            return Err(explain(config, Fault::NoRights));
        }
        Err(StoreError::Unavailable(why)) if why == Fault::NoUser.to_string() => {
            return Err(explain(config, Fault::NoUser));
        }
        Err(StoreError::Unavailable(why)) => return Err(explain(config, Fault::Away(why))),
        Err(error) => return Err(OpenError::Failed(error.to_string())),
    };
    engine.begin_at(revision);
    Ok(engine)
}

fn explain(config: &Config, fault: Fault) -> OpenError {
    match fault {
        Fault::Away(why) => OpenError::Unreachable { endpoints: config.endpoints.join(", "), why },
        Fault::WrongPassword => OpenError::WrongPassword { user: config.user.clone().unwrap_or_default() },
        Fault::NoUser => OpenError::NoUser,
        Fault::NoRights => OpenError::NoRights { prefix: config.prefix.clone() },
        other => OpenError::Failed(other.to_string()),
    }
}

fn is_too_old(version: &str) -> bool {
    let number = |version: &str| -> Option<(u32, u32)> {
        let mut parts = version.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    // One that cannot be read is not one of the old ones.
    matches!((number(version), number(OLDEST)), (Some(found), Some(oldest)) if found < oldest)
}

fn endpoint(at: &str, tls: Option<&ClientTlsConfig>, options: &Options) -> Result<Endpoint, OpenError> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{at}"))
        .map_err(|_| OpenError::BadEndpoint(at.into()))?
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ARE_YOU_THERE)
        .keep_alive_timeout(NO_ANSWER)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls.clone()).map_err(|error| OpenError::Tls(error.to_string()))?;
    }
    Ok(endpoint)
}

fn tls_settings(tls: &Tls) -> Result<ClientTlsConfig, OpenError> {
    let mut settings = ClientTlsConfig::new();
    settings = match &tls.ca {
        Some(ca) => settings.ca_certificate(Certificate::from_pem(read(ca)?)),
        None => settings.with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        settings = settings.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    if let Some(name) = &tls.server_name {
        settings = settings.domain_name(name);
    }
    Ok(settings)
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    std::fs::read(path).map_err(|source| OpenError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (version, too_old) in [
            ("3.3.27", true),
            ("2.3.8", true),
            ("3.4.0", false),
            ("3.4.23", false),
            ("3.10.1", false),
            ("4.0.0", false),
            ("", false),
        ] {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }
}
