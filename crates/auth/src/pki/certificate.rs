//! Writing certificates: RFC 5280 in as much as an authority of Kubernetes needs.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use der::asn1::{Any, BitString, Ia5String, Null, ObjectIdentifier, OctetString, SetOfVec, Utf8StringRef};
use der::oid::AssociatedOid;
use der::{Decode, Encode, Sequence};
use jiff::{SignedDuration, Timestamp};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectKeyIdentifier, name::GeneralName,
};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifier, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use super::PkiError;
use crate::keys::SigningKey;

pub(super) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub(super) const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
pub(super) const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
pub(super) const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// How far before now a certificate begins, for clients whose clocks are behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Below this lifetime the end is not moved back along with the beginning: it would be felt.
const SHORT: Duration = Duration::from_secs(8 * 3600);

/// What a key may be used for.
pub(super) struct Usages {
    pub key: Vec<KeyUsages>,
    pub extended: Vec<ObjectIdentifier>,
}

impl Usages {
    pub fn authority() -> Self {
        use KeyUsages::{CRLSign, DigitalSignature, KeyCertSign};
        Usages { key: vec![DigitalSignature, KeyCertSign, CRLSign], extended: Vec::new() }
    }

    pub fn client() -> Self {
        Usages { key: vec![KeyUsages::DigitalSignature], extended: vec![CLIENT_AUTH] }
    }

    pub fn server() -> Self {
        Usages { key: vec![KeyUsages::DigitalSignature], extended: vec![SERVER_AUTH] }
    }

    pub fn key_usage(&self) -> Result<Extension, PkiError> {
        let flags = self.key.iter().fold(Default::default(), |all, one| all | *one);
        extension(&KeyUsage(flags), true)
    }

    pub fn extended_key_usage(&self) -> Result<Extension, PkiError> {
        extension(&ExtendedKeyUsage(self.extended.clone()), false)
    }
}

/// All that a certificate says, before it is signed.
pub(super) struct Template {
    pub issuer: Any,
    pub subject: Any,
    /// `SubjectPublicKeyInfo` of the subject and of the issuer.
    pub public_key: Vec<u8>,
    pub issuer_key: Vec<u8>,
    pub validity: Validity,
    pub extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct Signed {
    body: Any,
    algorithm: AlgorithmIdentifier<Null>,
    signature: BitString,
}

/// `TBSCertificate`. Spelled out because the library keeps the fields of its own to itself.
#[derive(Sequence)]
struct Body {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: SerialNumber,
    algorithm: AlgorithmIdentifier<Null>,
    issuer: Any,
    validity: Validity,
    subject: Any,
    public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

impl Template {
    pub fn sign(self, key: &SigningKey) -> Result<Vec<u8>, PkiError> {
        const V3: u8 = 2;
        let algorithm = AlgorithmIdentifier { oid: ECDSA_WITH_SHA256, parameters: None };
        let public_key = SubjectPublicKeyInfoOwned::from_der(&self.public_key)?;
        let mut extensions = self.extensions;
        extensions.push(extension(&SubjectKeyIdentifier(key_identifier(&public_key)?), false)?);
        let issuer_key = SubjectPublicKeyInfoOwned::from_der(&self.issuer_key)?;
        let issuer = AuthorityKeyIdentifier {
            key_identifier: Some(key_identifier(&issuer_key)?),
            authority_cert_issuer: None,
            authority_cert_serial_number: None,
        };
        extensions.push(extension(&issuer, false)?);
        let body = Body {
            version: V3,
            serial: random_serial()?,
            algorithm,
            issuer: self.issuer,
            validity: self.validity,
            subject: self.subject,
            public_key,
            extensions,
        };
        let body = body.to_der()?;
        let signature = BitString::from_bytes(&key.sign(&body)?)?;
        Ok(Signed { body: Any::from_der(&body)?, algorithm, signature }.to_der()?)
    }
}

/// The first 160 bits of the key's SHA-256 (RFC 7093, method 1).
fn key_identifier(key: &SubjectPublicKeyInfoOwned) -> Result<OctetString, PkiError> {
    let hash = digest(&SHA256, key.subject_public_key.raw_bytes());
    let first = hash.as_ref().get(..20).unwrap_or_default();
    Ok(OctetString::new(first)?)
}

fn random_serial() -> Result<SerialNumber, PkiError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| crate::keys::KeyError::Generate)?;
    // Positive, and of full length whatever was drawn.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::new(&bytes)?)
}

pub(super) fn extension<T: Encode + AssociatedOid>(value: &T, critical: bool) -> Result<Extension, PkiError> {
    Ok(Extension { extn_id: T::OID, critical, extn_value: OctetString::new(value.to_der()?)? })
}

/// Any value by way of its encoding.
pub(super) fn any(value: &impl Encode) -> Result<Any, PkiError> {
    Ok(Any::from_der(&value.to_der()?)?)
}

/// A subject with groups as organizations, one to a step of the name so that they keep their order.
pub(super) fn subject<G: AsRef<str>>(common_name: &str, groups: &[G]) -> Result<Any, PkiError> {
    let mut steps = Vec::new();
    for group in groups {
        steps.push(step(ORGANIZATION, group.as_ref())?);
    }
    steps.push(step(COMMON_NAME, common_name)?);
    any(&steps)
}

fn step(oid: ObjectIdentifier, text: &str) -> Result<SetOfVec<AttributeTypeAndValue>, PkiError> {
    let value = Any::encode_from(&Utf8StringRef::new(text)?)?;
    Ok(SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }])?)
}

pub(super) fn dns_name(name: &str) -> Result<GeneralName, PkiError> {
    let bare = name.strip_prefix("*.").unwrap_or(name);
    if !objects::names::dns1123_subdomain(bare).is_empty() {
        return Err(PkiError::DnsName(name.to_owned()));
    }
    Ok(GeneralName::DnsName(Ia5String::new(name)?))
}

pub(super) fn ip_address(address: IpAddr) -> Result<GeneralName, PkiError> {
    let octets = match address {
        IpAddr::V4(address) => OctetString::new(address.octets()),
        IpAddr::V6(address) => OctetString::new(address.octets()),
    };
    Ok(GeneralName::IpAddress(octets?))
}

/// From a little before now, for the lifetime, but not longer than the authority itself.
pub(super) fn validity(
    now: Timestamp,
    lifetime: Duration,
    authority_ends: Option<Timestamp>,
) -> Result<Validity, PkiError> {
    let whole = SignedDuration::try_from(lifetime).map_err(|_| PkiError::Time)?;
    let whole = if lifetime < SHORT { whole } else { whole - BACKDATE };
    let end = now.checked_add(whole).map_err(|_| PkiError::Time)?;
    let end = authority_ends.map_or(end, |ends| end.min(ends));
    let begin = now.checked_sub(BACKDATE).map_err(|_| PkiError::Time)?;
    Ok(Validity::new(time(begin)?, time(end)?))
}

fn time(at: Timestamp) -> Result<Time, PkiError> {
    let seconds = u64::try_from(at.as_second()).map_err(|_| PkiError::Time)?;
    let date = der::DateTime::from_unix_duration(Duration::from_secs(seconds)).map_err(|_| PkiError::Time)?;
    Ok(Time::from(date))
}

pub(super) fn timestamp(time: Time) -> Result<Timestamp, PkiError> {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).map_err(|_| PkiError::Time)?;
    Timestamp::from_second(seconds).map_err(|_| PkiError::Time)
}
