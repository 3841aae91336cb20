//! Mutual TLS with a plugin: we show a certificate of an authority that was made for this one process, and trust the
//! one certificate that its handshake named.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::Authority;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

/// A process lives shorter than that.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Our side of the conversation with one process.
pub struct Credentials {
    /// What the plugin is told to trust. Not the certificate we show but its issuer: some plugins refuse the
    /// certificate of an authority as that of a client, none refuses one that an authority issued.
    pub authority_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Credentials {
    pub fn generate() -> Result<Credentials, String> {
        let now = jiff::Timestamp::now();
        let authority = Authority::generate("hangar", now, LIFETIME).map_err(|error| error.to_string())?;
        let issued = authority
            .issue_client("localhost", &[] as &[&str], now, LIFETIME)
            .map_err(|error| error.to_string())?;
        let chain = CertificateDer::from_pem_slice(issued.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(issued.key.expose().as_bytes());
        Ok(Credentials {
            authority_pem: authority.certificate_pem(),
            chain: vec![chain.map_err(|error| error.to_string())?],
            key: key.map_err(|error| error.to_string())?,
        })
    }

    /// To talk to whoever shows exactly this certificate. `private` says that nobody else can be at the other end of
    /// the socket anyway.
    pub fn client(&self, pinned: Vec<u8>, private: bool) -> Result<ClientConfig, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Pinned { certificate: pinned.into(), provider: provider.clone(), private };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Trusts one certificate. Chains and names do not matter: plugins sign their own, as an authority, for `localhost`.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
    private: bool,
}

impl Pinned {
    /// A proof that cannot be checked, since the key is of a kind nobody accepts any more (RSA with 1024 bits has been
    /// seen), is done without where the socket itself is proof enough.
    fn judge(
        &self,
        checked: Result<HandshakeSignatureValid, rustls::Error>,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match checked {
            Err(_) if self.private => Ok(HandshakeSignatureValid::assertion()),
            other => other,
        }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("the plugin shows another certificate than it announced".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.judge(verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.judge(verify_tls13_signature(message, certificate, signature, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
