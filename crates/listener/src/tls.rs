//! The server's side of TLS: one certificate that can be renewed while running, and client certificates that
//! are asked for but judged later, by the control plane they are used on.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

#[derive(thiserror::Error, Debug)]
pub enum TlsError {
    #[error("the serving certificate or its key cannot be read: {0}")]
    Unreadable(String),
    #[error("the serving certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// What the server shows; replaced at any time, taken by the next handshake.
#[derive(Debug)]
pub struct ServingCertificate(ArcSwap<CertifiedKey>);

impl ServingCertificate {
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, TlsError> {
        Ok(ServingCertificate(ArcSwap::from(certified(chain, key)?)))
    }

    pub fn replace(&self, chain: &str, key: &str) -> Result<(), TlsError> {
        self.0.store(certified(chain, key)?);
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn certified(chain: &str, key: &str) -> Result<Arc<CertifiedKey>, TlsError> {
    let unreadable = |error: rustls::pki_types::pem::Error| TlsError::Unreadable(error.to_string());
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(unreadable)?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?))
}

pub fn server_config(certificate: Arc<ServingCertificate>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyCertificate::new(&provider)))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes any client certificate whose key the client has. Which authority must have signed it depends on the
/// control plane, which may only be known from the path; so that is checked where the control plane is known.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    fn new(provider: &CryptoProvider) -> Self {
        AnyCertificate { algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
