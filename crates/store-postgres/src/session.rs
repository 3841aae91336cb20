//! A connection for other purposes than the store's, to wherever an address leads.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config};
use tokio_util::task::AbortOnDropHandle;

use crate::address::{self, AddressError};
use crate::connection::OpenError;
use crate::fault;
use crate::hosts::Hosts;
use crate::passfile::Passfile;
use crate::tls::Tls;

/// What one host may take until it lets us in.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection that ends when it is dropped.
pub struct Session {
    client: Client,
    _driving: AbortOnDropHandle<()>,
}

impl Session {
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Whether an address is about files of this machine (sockets, certificates), or cannot be read at all: not for addresses
/// that come from others.
pub fn needs_files(address: &str) -> bool {
    let Ok(parsed) = address::parse(address) else { return true };
    let sockets = parsed.config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_)));
    sockets || parsed.passfile.is_some() || parsed.tls.authorities.is_some() || parsed.tls.identity.is_some()
}

#[derive(thiserror::Error, Debug)]
pub enum SessionError<E> {
    /// Nothing was tried.
    #[error(transparent)]
    Address(#[from] OpenError),
    #[error(transparent)]
    Dial(E),
    /// A database answered, and refuses.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Broken(String),
}

/// Connects over streams that `dial` opens to a host and a port.
pub async fn connect<S, E, F>(
    address: &str,
    dial: impl Fn(String, u16) -> F,
) -> Result<Session, SessionError<E>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<S, E>>,
{
    let address = address::parse(address).map_err(OpenError::from)?;
    let tls = Tls::new(&address.tls).map_err(|error| OpenError::Encryption(error.to_string()))?;
    let passwords = address.passfile.as_deref().map(Passfile::read).transpose().map_err(OpenError::from)?;
    let hosts = Hosts::new(&address.config, passwords.as_ref());
    let mut why = SessionError::Address(AddressError::NoHost.into());
    for (_, host) in hosts.in_turn() {
        match timeout(PATIENCE, meet(&host.config, &tls, &dial)).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => why = error,
            Err(_) => why = SessionError::Broken("it does not answer".into()),
        }
    }
    Err(why)
}

/// One host.
async fn meet<S, E, F>(
    config: &Config,
    tls: &Tls,
    dial: impl Fn(String, u16) -> F,
) -> Result<Session, SessionError<E>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<S, E>>,
{
    let name = config.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) => Some(name.as_str()),
        Host::Unix(_) => None,
    });
    // The address is where it is, the name is whose certificate is wanted.
    let at = config.get_hostaddrs().first().map(ToString::to_string).or(name.map(str::to_owned));
    let at = at.ok_or_else(|| OpenError::from(AddressError::NoHost))?;
    let name = name.unwrap_or(&at);
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream = dial(at.clone(), port).await.map_err(SessionError::Dial)?;
    let to_host = MakeTlsConnect::<S>::make_tls_connect(&mut tls.clone(), name);
    let to_host = to_host.map_err(|error| SessionError::Broken(error.to_string()))?;
    let (client, driver) = config.connect_raw(stream, to_host).await.map_err(failed)?;
    let driving = tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(error = %fault::words(&error), "a connection to a database ended");
        }
    });
    let session = Session { client, _driving: AbortOnDropHandle::new(driving) };
    let wanted = config.get_target_session_attrs();
    if wanted != TargetSessionAttrs::Any {
        let row = session.client.query_one("SHOW transaction_read_only", &[]).await.map_err(failed)?;
        let is_read_only = row.try_get::<_, String>(0).map_err(failed)? == "on";
        if is_read_only != (wanted == TargetSessionAttrs::ReadOnly) {
            let is = if is_read_only { "read-only" } else { "not read-only" };
            return Err(SessionError::Refused(format!("the database is {is}")));
        }
    }
    Ok(session)
}

fn failed<E>(error: tokio_postgres::Error) -> SessionError<E> {
    match is_answer(&error) {
        true => SessionError::Refused(fault::words(&error)),
        false => SessionError::Broken(fault::words(&error)),
    }
}

/// Whether an error is what a database said, and not that there is none.
pub fn is_answer(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some()
}

/// What went wrong, in a sentence.
pub fn words(error: &tokio_postgres::Error) -> String {
    fault::words(error)
}
