//! A control plane's certificate authority: who signs, who is believed.
//!
//! [`Authority`] issues client and server certificates, answers certificate signing requests
//! ([`request`], and [`approval`] for who may have them signed) and says who a client certificate stands for. It believes certificates that chain to
//! itself and no others, so one control plane's certificates mean nothing to another.

pub mod approval;
mod certificate;
pub mod request;
#[cfg(test)]
mod tests;
mod verify;

use std::net::IpAddr;
use std::time::Duration;

use der::Decode;
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use x509_cert::Certificate;
use x509_cert::ext::pkix::{BasicConstraints, name::GeneralName};

use crate::Secret;
use crate::keys::{KeyError, Signer, SigningKey, pem_block};
use certificate::{Template, Usages, extension};
pub use verify::{ClientCertificateError, fingerprint};

fn signer_of(anchor: &TrustAnchor<'_>) -> Signer {
    Signer::of(&anchor.subject_public_key_info)
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum PkiError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the certificate could not be encoded: {0}")]
    Encode(#[from] der::Error),
    #[error("not a PEM block with a certificate")]
    NotACertificate,
    #[error("the certificate is not an authority's")]
    NotAnAuthority,
    #[error("the key is not the certificate's")]
    OtherKey,
    #[error("the time is out of the range of certificates")]
    Time,
    #[error("the authority expired at {0}")]
    Expired(Timestamp),
    #[error("{0:?} is not a DNS name")]
    DnsName(String),
}

/// A certificate with its private key, both as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: Secret<String>,
}

/// A certificate authority: its own certificate and the key it signs with.
#[derive(Debug)]
pub struct Authority {
    certificate: Certificate,
    der: CertificateDer<'static>,
    anchor: TrustAnchor<'static>,
    key: SigningKey,
    not_after: Timestamp,
    /// Others whose clients still count.
    earlier: Vec<Earlier>,
}

/// An authority that signs no more.
#[derive(Debug)]
struct Earlier {
    anchor: TrustAnchor<'static>,
    signer: Signer,
    /// None of its certificates counts afterwards.
    until: Timestamp,
}

impl Authority {
    /// A new authority that signs itself.
    pub fn generate(common_name: &str, now: Timestamp, lifetime: Duration) -> Result<Self, PkiError> {
        let key = SigningKey::generate()?;
        let subject = certificate::subject(common_name, &[] as &[&str])?;
        let template = Template {
            issuer: subject.clone(),
            subject,
            public_key: key.public_der()?,
            issuer_key: key.public_der()?,
            validity: certificate::validity(now, lifetime, None)?,
            extensions: vec![
                extension(&BasicConstraints { ca: true, path_len_constraint: None }, true)?,
                Usages::authority().key_usage()?,
            ],
        };
        let der = template.sign(&key)?;
        Self::of(der, key)
    }

    /// Reads what [`Authority::to_pem`] wrote, or an authority made elsewhere with a P-256 key.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, PkiError> {
        let key = SigningKey::from_pem(key)?;
        let block = pem::parse(certificate).map_err(|_| PkiError::NotACertificate)?;
        Self::of(block.into_contents(), key)
    }

    fn of(der: Vec<u8>, key: SigningKey) -> Result<Self, PkiError> {
        let certificate = Certificate::from_der(&der).map_err(|_| PkiError::NotACertificate)?;
        let body = certificate.tbs_certificate();
        let constraints = body.get_extension::<BasicConstraints>().ok().flatten();
        if !constraints.is_some_and(|(_, constraints)| constraints.ca) {
            return Err(PkiError::NotAnAuthority);
        }
        if body.subject_public_key_info().subject_public_key.raw_bytes() != key.public_point() {
            return Err(PkiError::OtherKey);
        }
        let not_after = certificate::timestamp(body.validity().not_after)?;
        let der = CertificateDer::from(der);
        let anchor =
            webpki::anchor_from_trusted_cert(&der).map_err(|_| PkiError::NotACertificate)?.to_owned();
        Ok(Authority { certificate, der, anchor, key, not_after, earlier: Vec::new() })
    }

    /// Believes the clients of another authority (PEM) too, up to a moment: authorities can be changed without throwing
    /// everybody out.
    pub fn also_trust_until(mut self, certificate: &str, until: Timestamp) -> Result<Self, PkiError> {
        let block = pem::parse(certificate).map_err(|_| PkiError::NotACertificate)?;
        let der = CertificateDer::from(block.into_contents());
        let anchor =
            webpki::anchor_from_trusted_cert(&der).map_err(|_| PkiError::NotACertificate)?.to_owned();
        let signer = signer_of(&anchor);
        self.earlier.push(Earlier { anchor, signer, until });
        Ok(self)
    }

    /// The key that signs now.
    pub fn signer(&self) -> Signer {
        signer_of(&self.anchor)
    }

    /// Returns true if clients with certificates of this key count.
    pub fn trusts(&self, signer: &Signer, now: Timestamp) -> bool {
        self.signer() == *signer || self.earlier.iter().any(|one| one.signer == *signer && now < one.until)
    }

    /// All keys whose certificates count, for whoever remembers what was verified.
    pub fn signers(&self) -> impl Iterator<Item = Signer> {
        std::iter::once(self.signer()).chain(self.earlier.iter().map(|one| one.signer.clone()))
    }

    /// The certificate that clients trust and servers hand out: `kube-root-ca.crt`.
    pub fn certificate_pem(&self) -> String {
        pem_block("CERTIFICATE", &self.der)
    }

    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Both halves, to be kept where secrets are kept.
    pub fn to_pem(&self) -> Issued {
        Issued { certificate: self.certificate_pem(), key: self.key.to_pem() }
    }

    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// A certificate that says: the bearer is this user, in these groups.
    pub fn issue_client<G: AsRef<str>>(
        &self,
        user: &str,
        groups: &[G],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Issued, PkiError> {
        self.issue(certificate::subject(user, groups)?, &Usages::client(), Vec::new(), now, lifetime)
    }

    /// A certificate for a server that is reached under these names and addresses.
    pub fn issue_server<D: AsRef<str>>(
        &self,
        dns_names: &[D],
        addresses: &[IpAddr],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Issued, PkiError> {
        let common_name = dns_names.first().map_or("hangar", AsRef::as_ref);
        // A common name has at most 64 characters; the alternative names are what counts.
        let common_name = if common_name.len() > 64 { "hangar" } else { common_name };
        let mut names = Vec::new();
        for name in dns_names {
            names.push(certificate::dns_name(name.as_ref())?);
        }
        for address in addresses {
            names.push(certificate::ip_address(*address)?);
        }
        self.issue(
            certificate::subject(common_name, &[] as &[&str])?,
            &Usages::server(),
            names,
            now,
            lifetime,
        )
    }

    fn issue(
        &self,
        subject: der::asn1::Any,
        usages: &Usages,
        names: Vec<GeneralName>,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Issued, PkiError> {
        let key = SigningKey::generate()?;
        let der = self.sign(subject, key.public_der()?, usages, names, now, lifetime)?;
        Ok(Issued { certificate: pem_block("CERTIFICATE", &der), key: key.to_pem() })
    }

    /// Signs a certificate that is nobody's authority and does not outlive this one.
    fn sign(
        &self,
        subject: der::asn1::Any,
        public_key: Vec<u8>,
        usages: &Usages,
        names: Vec<GeneralName>,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Vec<u8>, PkiError> {
        if now >= self.not_after {
            return Err(PkiError::Expired(self.not_after));
        }
        let mut extensions =
            vec![extension(&BasicConstraints { ca: false, path_len_constraint: None }, true)?];
        if !usages.key.is_empty() {
            extensions.push(usages.key_usage()?);
        }
        if !usages.extended.is_empty() {
            extensions.push(usages.extended_key_usage()?);
        }
        if !names.is_empty() {
            extensions.push(extension(&x509_cert::ext::pkix::SubjectAltName(names), false)?);
        }
        let template = Template {
            issuer: certificate::any(self.certificate.tbs_certificate().subject())?,
            subject,
            public_key,
            issuer_key: self.key.public_der()?,
            validity: certificate::validity(now, lifetime, Some(self.not_after))?,
            extensions,
        };
        template.sign(&self.key)
    }
}
