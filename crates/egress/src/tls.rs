//! Whom the other side must be, and who we are to it.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Authorities and identity of TLS connections, PEM. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    authorities: Option<Arc<[u8]>>,
    identity: Option<Arc<[u8]>>,
    only_http1: bool,
}

impl Tls {
    /// Trusts the authorities of the system.
    pub fn system() -> Tls {
        Tls::default()
    }

    /// Trusts these authorities, and no others.
    pub fn trusting(bundle: &[u8]) -> Tls {
        Tls { authorities: Some(bundle.into()), ..Tls::default() }
    }

    /// Presents a certificate: a chain and its key in one text.
    #[must_use]
    pub fn presenting(self, chain_and_key: &[u8]) -> Tls {
        Tls { identity: Some(chain_and_key.into()), ..self }
    }

    /// Offers no HTTP/2.
    #[must_use]
    pub fn only_http1(self) -> Tls {
        Tls { only_http1: true, ..self }
    }

    /// Of a connection without TLS: it trusts nobody.
    pub(crate) fn none() -> Arc<ClientConfig> {
        static NONE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        NONE.get_or_init(|| {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            let builder = ClientConfig::builder_with_provider(Arc::new(provider));
            let versions = builder.with_protocol_versions(&[&rustls::version::TLS13]);
            let builder = versions.expect("the provider has TLS 1.3");
            Arc::new(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        })
        .clone()
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let roots = match &self.authorities {
            None => system_roots()?,
            Some(bundle) => Arc::new(read_roots(bundle)?),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
                let key = PrivateKeyDer::from_pem_slice(pem);
                let key = key.map_err(|_| "the client identity holds no private key".to_owned())?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("the client identity cannot be used: {error}"))?
            }
        };
        config.alpn_protocols = match self.only_http1 {
            true => vec![b"http/1.1".to_vec()],
            false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        Ok(Arc::new(config))
    }
}

/// Keys do not belong into logs.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn read_roots(bundle: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle).flatten() {
        roots.add(certificate).map_err(|error| format!("the CA bundle cannot be used: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("the CA bundle holds no certificate".to_owned()),
        false => Ok(roots),
    }
}

/// Read once: they change with updates of the machine.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    match roots.is_empty() {
        true => Err("this machine has no CA certificates".to_owned()),
        false => Ok(roots.clone()),
    }
}
