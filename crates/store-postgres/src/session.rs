//! A connection for other purposes than the store's, to wherever an address leads.

use tokio_postgres::Client;
use tokio_postgres::config::Host;
use tokio_util::task::AbortOnDropHandle;

use crate::address::{self, AddressError};
use crate::connection::OpenError;
use crate::fault;
use crate::hosts::Hosts;
use crate::passfile::Passfile;
use crate::tls::Tls;

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

pub async fn connect(address: &str) -> Result<Session, OpenError> {
    let address = address::parse(address)?;
    let tls = Tls::new(&address.tls).map_err(|error| OpenError::Encryption(error.to_string()))?;
    let passwords = address.passfile.as_deref().map(Passfile::read).transpose()?;
    let hosts = Hosts::new(&address.config, passwords.as_ref());
    let mut why = OpenError::Address(AddressError::NoHost);
    let mut connected = None;
    for (_, host) in hosts.in_turn() {
        match host.config.connect(tls.clone()).await {
            Ok(met) => {
                connected = Some(met);
                break;
            }
            Err(error) => {
                why = OpenError::Failed { place: "this address".into(), why: fault::words(&error) };
            }
        }
    }
    let (client, driver) = connected.ok_or(why)?;
    let driving = tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(error = %fault::words(&error), "a connection to a database ended");
        }
    });
    Ok(Session { client, _driving: AbortOnDropHandle::new(driving) })
}

/// What went wrong, in a sentence.
pub fn words(error: &tokio_postgres::Error) -> String {
    fault::words(error)
}
