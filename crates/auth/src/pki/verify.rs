//! Who a client certificate stands for.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use der::Decode;
use der::asn1::ObjectIdentifier;
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::Certificate;
use x509_cert::ext::pkix::name::DirectoryString;
use x509_cert::name::Name;

use super::Authority;
use super::certificate::{COMMON_NAME, ORGANIZATION};
use crate::keys::Signer;
use crate::user::{EXTRA_CREDENTIAL_ID, UserInfo};

/// An attribute of the subject in which some issuers write the user's uid.
const USER_UID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum ClientCertificateError {
    #[error("no certificate was presented")]
    Missing,
    #[error("the certificate could not be read")]
    Malformed,
    #[error("the certificate is not valid yet")]
    NotYetValid,
    #[error("the certificate has expired")]
    Expired,
    #[error("the certificate is not signed by this control plane's authority")]
    UnknownAuthority,
    #[error("the certificate is not for client authentication")]
    WrongUsage,
    #[error("the certificate is not valid: {0}")]
    Invalid(String),
    #[error("the certificate names no user")]
    Nameless,
    #[error("the certificate names several uids")]
    SeveralUids,
}

impl Authority {
    /// The user of a certificate chain, leaf first, if it leads to this authority or an earlier one and is valid now.
    pub fn verify_client<C: AsRef<[u8]>>(
        &self,
        chain: &[C],
        now: Timestamp,
    ) -> Result<UserInfo, ClientCertificateError> {
        self.verify_signed(chain, now).map(|(user, _)| user)
    }

    /// The same, if the authority itself signed it and no earlier one.
    pub fn verify_own_client<C: AsRef<[u8]>>(
        &self,
        chain: &[C],
        now: Timestamp,
    ) -> Result<UserInfo, ClientCertificateError> {
        self.verify_by(&self.anchor, chain, now)
    }

    /// The user, and the key that signed for them.
    pub fn verify_signed<C: AsRef<[u8]>>(
        &self,
        chain: &[C],
        now: Timestamp,
    ) -> Result<(UserInfo, Signer), ClientCertificateError> {
        let refused = match self.verify_by(&self.anchor, chain, now) {
            Ok(user) => return Ok((user, self.signer())),
            Err(refused) => refused,
        };
        let earlier = self.earlier.iter().filter(|one| now < one.until);
        let found = earlier
            .filter_map(|one| Some((self.verify_by(&one.anchor, chain, now).ok()?, one.signer.clone())))
            .next();
        found.ok_or(refused)
    }

    fn verify_by<C: AsRef<[u8]>>(
        &self,
        anchor: &TrustAnchor<'_>,
        chain: &[C],
        now: Timestamp,
    ) -> Result<UserInfo, ClientCertificateError> {
        let (leaf, intermediates) = chain.split_first().ok_or(ClientCertificateError::Missing)?;
        let leaf_der = CertificateDer::from(leaf.as_ref());
        let intermediates: Vec<CertificateDer<'_>> =
            intermediates.iter().map(|der| CertificateDer::from(der.as_ref())).collect();
        let seconds = u64::try_from(now.as_second()).map_err(|_| ClientCertificateError::NotYetValid)?;
        let end_entity = EndEntityCert::try_from(&leaf_der).map_err(|_| ClientCertificateError::Malformed)?;
        end_entity
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                std::slice::from_ref(anchor),
                &intermediates,
                UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
                KeyUsage::client_auth(),
                None,
                None,
            )
            .map_err(refusal)?;
        let certificate =
            Certificate::from_der(leaf.as_ref()).map_err(|_| ClientCertificateError::Malformed)?;
        let mut user = user_of(certificate.tbs_certificate().subject())?;
        let credential = format!("X509SHA256={}", fingerprint(leaf.as_ref()));
        user.extra.insert(EXTRA_CREDENTIAL_ID.to_owned(), vec![credential]);
        Ok(user.authenticated())
    }
}

fn refusal(error: webpki::Error) -> ClientCertificateError {
    match error {
        webpki::Error::CertExpired { .. } => ClientCertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => ClientCertificateError::NotYetValid,
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            ClientCertificateError::UnknownAuthority
        }
        webpki::Error::RequiredEkuNotFoundContext(_) | webpki::Error::CaUsedAsEndEntity => {
            ClientCertificateError::WrongUsage
        }
        other => ClientCertificateError::Invalid(other.to_string()),
    }
}

/// The last common name is the user (as Go reads a name), every organization is a group.
fn user_of(subject: &Name) -> Result<UserInfo, ClientCertificateError> {
    let name = texts(subject, COMMON_NAME).pop().filter(|name| !name.is_empty());
    let mut uids = texts(subject, USER_UID);
    let uid = uids.pop().unwrap_or_default();
    if !uids.is_empty() {
        return Err(ClientCertificateError::SeveralUids);
    }
    let name = name.ok_or(ClientCertificateError::Nameless)?;
    Ok(UserInfo { uid, ..UserInfo::new(name, texts(subject, ORGANIZATION)) })
}

/// All values of one attribute of a name; those that are not text are left out.
pub(super) fn texts(name: &Name, oid: ObjectIdentifier) -> Vec<String> {
    let values = name.iter().filter(|attribute| attribute.oid == oid);
    values
        .filter_map(|attribute| DirectoryString::try_from(&attribute.value).ok())
        .map(|text| text.value().into_owned())
        .collect()
}

/// SHA-256 of a certificate in hexadecimal: how one certificate is named in a list of revoked ones.
pub fn fingerprint(certificate_der: &[u8]) -> String {
    digest(&SHA256, certificate_der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
