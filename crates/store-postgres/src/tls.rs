//! TLS for connections to the database, by rustls.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use der::Decode;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};

use crate::address::{TlsOptions, Verify, Version, Versions};

#[derive(thiserror::Error, Debug)]
pub(crate) enum TlsError {
    #[error("the file {file} of the option {option} cannot be used: {why}")]
    File { option: &'static str, file: String, why: String },
    #[error("encryption cannot be set up: {0}")]
    Setup(String),
}

/// Makes TLS connections of one configuration.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(crate) fn new(options: &TlsOptions) -> Result<Tls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let setup = |error: &dyn std::fmt::Display| TlsError::Setup(error.to_string());
        let Versions { oldest, newest } = options.versions;
        let spoken = [(Version::Tls12, &TLS12), (Version::Tls13, &TLS13)].into_iter();
        let spoken: Vec<_> =
            spoken.filter(|(version, _)| (oldest..=newest).contains(version)).map(|(_, one)| one).collect();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&spoken)
            .map_err(|error| setup(&error))?;
        let verifier: Arc<dyn ServerCertVerifier> = match options.verify {
            Verify::Nothing => Arc::new(Lenient { chain: None, provider: provider.clone() }),
            Verify::Authority | Verify::Name => {
                let roots = Arc::new(authorities(options)?);
                let chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                    .build()
                    .map_err(|error| setup(&error))?;
                if options.verify == Verify::Name {
                    chain
                } else {
                    Arc::new(Lenient { chain: Some(chain), provider: provider.clone() })
                }
            }
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let bad = |option, file: &std::path::Path, why: &dyn std::fmt::Display| TlsError::File {
                    option,
                    file: file.display().to_string(),
                    why: why.to_string(),
                };
                let chain = certificates("sslcert", certificate)?;
                let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| bad("sslkey", key, &error))?;
                builder
                    .with_client_auth_cert(chain, key_of)
                    .map_err(|error| bad("sslcert", certificate, &error))?
            }
        };
        // What a server that is spoken to in TLS from the first byte wants to hear.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls(Arc::new(config)))
    }
}

fn certificates(
    option: &'static str,
    file: &std::path::Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |why: String| TlsError::File { option, file: file.display().to_string(), why };
    let read = CertificateDer::pem_file_iter(file).map_err(|error| bad(error.to_string()))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    if found.is_empty() { Err(bad("it holds no certificate".into())) } else { Ok(found) }
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match &options.authorities {
        Some(file) => {
            for certificate in certificates("sslrootcert", file)? {
                roots.add(certificate).map_err(|error| TlsError::File {
                    option: "sslrootcert",
                    file: file.display().to_string(),
                    why: error.to_string(),
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let why = "this machine trusts no authority; name one by the option sslrootcert";
        return Err(TlsError::Setup(why.into()));
    }
    Ok(roots)
}

/// Accepts any name, and with no chain to check, anyone: what `verify-ca` and `require` ask for.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last, so whoever fails by it has passed everything else.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) struct ToHost {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = ToHost;
    type Error = rustls_pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, Self::Error> {
        // A socket of the machine has no name and is never encrypted, but is asked for one.
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(ToHost { config: self.0.clone(), host: ServerName::try_from(host)?.to_owned() })
    }
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        Box::pin(async move { Ok(Encrypted(Box::new(connector.connect(self.host, stream).await?))) })
    }
}

pub(crate) struct Encrypted<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    /// The hash of the server's certificate, by which a password exchange is bound to this very connection.
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        certificate
            .and_then(end_point)
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// RFC 5929, section 4.1: by the hash of the certificate's signature, and SHA-256 where that is weaker.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    const SHA_256: [&str; 4] =
        ["1.2.840.113549.1.1.4", "1.2.840.113549.1.1.5", "1.2.840.113549.1.1.11", "1.2.840.10045.4.3.2"];
    const SHA_384: [&str; 2] = ["1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"];
    const SHA_512: [&str; 2] = ["1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"];
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    let algorithm = parsed.signature_algorithm().oid.to_string();
    let is = |known: &[&str]| known.contains(&algorithm.as_str());
    match () {
        () if is(&SHA_256) => Some(Sha256::digest(certificate).to_vec()),
        () if is(&SHA_384) => Some(Sha384::digest(certificate).to_vec()),
        () if is(&SHA_512) => Some(Sha512::digest(certificate).to_vec()),
        // For the others the hash is not defined.
        () => None,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, to)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
