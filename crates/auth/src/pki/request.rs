//! Certificate signing requests: what the signers of `certificates.k8s.io` accept, and their signature.

use std::collections::BTreeSet;
use std::time::Duration;

use der::asn1::{Any, AnyRef, BitString, ObjectIdentifier};
use der::{Decode, Encode, Sequence};
use jiff::Timestamp;
use x509_cert::ext::pkix::{KeyUsages, SubjectAltName, name::GeneralName};
use x509_cert::name::Name;
use x509_cert::request::{CertReqInfo, ExtensionReq};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::certificate::{CLIENT_AUTH, COMMON_NAME, ORGANIZATION, SERVER_AUTH, Usages, any};
use super::verify::texts;
use super::{Authority, PkiError};
use crate::keys::pem_block;
use crate::user::{NODE_PREFIX, NODES};

/// No request is signed for less, whatever it asks for: the certificate begins five minutes ago.
const SHORTEST: Duration = Duration::from_secs(600);

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum RequestError {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotARequest,
    #[error("the certificate request could not be read: {0}")]
    Malformed(#[from] der::Error),
    #[error("unable to verify certificate request signature")]
    Signature,
    #[error("subject organization is not system:nodes")]
    OrganizationNotNodes,
    #[error("subject common name does not begin with system:node:")]
    CommonNameNotNode,
    #[error("DNS or IP subjectAltName is required")]
    NamesRequired,
    #[error("{0} subjectAltNames are not allowed")]
    NamesNotAllowed(&'static str),
    #[error("usages did not match [{0}]")]
    UsagesDiffer(String),
    #[error("invalid usage for client certificate: {0}")]
    ClientUsage(String),
    #[error("missing required usage for client certificate: client auth")]
    ClientUsageMissing,
    #[error("unrecognized usage values: {0:?}")]
    UnknownUsages(Vec<String>),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// The signers that every control plane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Certificates by which anybody may be known to the API server.
    ApiserverClient,
    /// The same for kubelets; these may be approved without a person.
    ApiserverClientKubelet,
    /// Certificates with which kubelets serve.
    KubeletServing,
    /// No guarantees at all; never approved without a person.
    LegacyUnknown,
}

impl Signer {
    pub const ALL: [Signer; 4] = [
        Signer::ApiserverClient,
        Signer::ApiserverClientKubelet,
        Signer::KubeletServing,
        Signer::LegacyUnknown,
    ];

    /// `spec.signerName`
    pub fn name(self) -> &'static str {
        match self {
            Signer::ApiserverClient => "kubernetes.io/kube-apiserver-client",
            Signer::ApiserverClientKubelet => "kubernetes.io/kube-apiserver-client-kubelet",
            Signer::KubeletServing => "kubernetes.io/kubelet-serving",
            Signer::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Signer::ALL.into_iter().find(|signer| signer.name() == name)
    }

    /// Whether the signer signs such a request; if not, the message of the `Failed` condition.
    pub fn check(self, request: &Request, usages: &[&str]) -> Result<(), RequestError> {
        match self {
            Signer::ApiserverClient => check_client_usages(usages),
            Signer::ApiserverClientKubelet => check_kubelet_client(request, usages),
            Signer::KubeletServing => check_kubelet_serving(request, usages),
            Signer::LegacyUnknown => Ok(()),
        }
    }
}

fn check_client_usages(usages: &[&str]) -> Result<(), RequestError> {
    let allowed = ["client auth", "digital signature", "key encipherment"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(usage)) {
        return Err(RequestError::ClientUsage((*other).to_owned()));
    }
    if usages.contains(&"client auth") { Ok(()) } else { Err(RequestError::ClientUsageMissing) }
}

fn check_kubelet_client(request: &Request, usages: &[&str]) -> Result<(), RequestError> {
    check_node_group(request)?;
    for (kind, count) in [
        ("DNS", request.dns_names.len()),
        ("Email", request.emails),
        ("IP", request.addresses),
        ("URI", request.uris),
    ] {
        if count > 0 {
            return Err(RequestError::NamesNotAllowed(kind));
        }
    }
    check_node_name(request)?;
    check_kubelet_usages(usages, "client auth")
}

fn check_kubelet_serving(request: &Request, usages: &[&str]) -> Result<(), RequestError> {
    check_node_group(request)?;
    if request.dns_names.is_empty() && request.addresses == 0 {
        return Err(RequestError::NamesRequired);
    }
    if request.emails > 0 {
        return Err(RequestError::NamesNotAllowed("Email"));
    }
    if request.uris > 0 {
        return Err(RequestError::NamesNotAllowed("URI"));
    }
    check_kubelet_usages(usages, "server auth")?;
    check_node_name(request)
}

fn check_node_group(request: &Request) -> Result<(), RequestError> {
    if request.organizations == [NODES] { Ok(()) } else { Err(RequestError::OrganizationNotNodes) }
}

fn check_node_name(request: &Request) -> Result<(), RequestError> {
    let node = request.common_name.starts_with(NODE_PREFIX);
    if node { Ok(()) } else { Err(RequestError::CommonNameNotNode) }
}

/// A purpose, digital signature and, since RSA keys want it, perhaps key encipherment.
fn check_kubelet_usages(usages: &[&str], purpose: &str) -> Result<(), RequestError> {
    let asked: BTreeSet<&str> = usages.iter().copied().collect();
    let mut allowed = BTreeSet::from([purpose, "digital signature"]);
    if asked == allowed {
        return Ok(());
    }
    allowed.insert("key encipherment");
    if asked == allowed {
        return Ok(());
    }
    Err(RequestError::UsagesDiffer(allowed.into_iter().collect::<Vec<_>>().join(" ")))
}

/// A request whose signature proved that the asker holds the key.
#[derive(Debug)]
pub struct Request {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    subject: Name,
    public_key: Vec<u8>,
    names: Vec<GeneralName>,
    addresses: usize,
    emails: usize,
    uris: usize,
}

impl Request {
    /// Reads `spec.request` after its base64 is undone.
    pub fn from_pem(text: &[u8]) -> Result<Self, RequestError> {
        let block = pem::parse(text).map_err(|_| RequestError::NotARequest)?;
        if block.tag() != "CERTIFICATE REQUEST" {
            return Err(RequestError::NotARequest);
        }
        Self::from_der(block.contents())
    }

    pub fn from_der(der: &[u8]) -> Result<Self, RequestError> {
        let signed = Signed::from_der(der)?;
        let message = signed.info.to_der()?;
        let info = CertReqInfo::from_der(&message)?;
        check_signature(&signed, &message, &info.public_key)?;
        let names = alternative_names(&info.attributes)?;
        let count = |is: fn(&GeneralName) -> bool| names.iter().filter(|name| is(name)).count();
        let dns_names = names.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
            _ => None,
        });
        Ok(Request {
            common_name: texts(&info.subject, COMMON_NAME).pop().unwrap_or_default(),
            organizations: texts(&info.subject, ORGANIZATION),
            dns_names: dns_names.collect(),
            addresses: count(|name| matches!(name, GeneralName::IpAddress(_))),
            emails: count(|name| matches!(name, GeneralName::Rfc822Name(_))),
            uris: count(|name| matches!(name, GeneralName::UniformResourceIdentifier(_))),
            subject: info.subject,
            public_key: info.public_key.to_der()?,
            names,
        })
    }
}

/// The alternative names a request asks for, of the four kinds that signers know.
fn alternative_names(attributes: &x509_cert::attr::Attributes) -> Result<Vec<GeneralName>, RequestError> {
    use der::oid::AssociatedOid;
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.oid == ExtensionReq::OID) {
        for value in attribute.values.iter() {
            let extensions = ExtensionReq::from_der(&value.to_der()?)?;
            for extension in extensions.0.iter().filter(|one| one.extn_id == SubjectAltName::OID) {
                names.extend(SubjectAltName::from_der(extension.extn_value.as_bytes())?.0);
            }
        }
    }
    names.retain(|name| {
        matches!(
            name,
            GeneralName::DnsName(_)
                | GeneralName::IpAddress(_)
                | GeneralName::Rfc822Name(_)
                | GeneralName::UniformResourceIdentifier(_)
        )
    });
    Ok(names)
}

/// A request around what is signed, which is kept as it was written: that is what the signature is of.
#[derive(Sequence)]
struct Signed {
    info: Any,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

fn check_signature(
    signed: &Signed,
    message: &[u8],
    key: &SubjectPublicKeyInfoOwned,
) -> Result<(), RequestError> {
    let (key_kind, signature_kind) = (contents(&key.algorithm)?, contents(&signed.algorithm)?);
    let algorithm = webpki::ALL_VERIFICATION_ALGS.iter().find(|one| {
        one.public_key_alg_id().as_ref() == key_kind && one.signature_alg_id().as_ref() == signature_kind
    });
    let signature = signed.signature.as_bytes().ok_or(RequestError::Signature)?;
    algorithm
        .ok_or(RequestError::Signature)?
        .verify_signature(key.subject_public_key.raw_bytes(), message, signature)
        .map_err(|_| RequestError::Signature)
}

/// An algorithm's name and parameters, without the sequence around them.
fn contents(algorithm: &AlgorithmIdentifierOwned) -> Result<Vec<u8>, RequestError> {
    let der = algorithm.to_der()?;
    Ok(AnyRef::from_der(&der)?.value().to_vec())
}

impl Authority {
    /// Signs an approved request: subject, key and alternative names are the request's, usages are
    /// those of the object, and `lifetime` is shortened to `expiration` seconds if that is less.
    pub fn sign_request(
        &self,
        signer: Signer,
        request: &Request,
        usages: &[&str],
        expiration: Option<i32>,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, RequestError> {
        signer.check(request, usages)?;
        let asked = expiration.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
        let lifetime = asked.map_or(lifetime, |asked| asked.max(SHORTEST).min(lifetime));
        let subject = any(&request.subject)?;
        let der = self.sign(
            subject,
            request.public_key.clone(),
            &usages_named(usages)?,
            request.names.clone(),
            now,
            lifetime,
        )?;
        Ok(pem_block("CERTIFICATE", &der))
    }
}

/// `spec.usages` and what they are in a certificate.
const KEY_USAGES: [(&str, KeyUsages); 10] = [
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("cert sign", KeyUsages::KeyCertSign),
    ("crl sign", KeyUsages::CRLSign),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

const EXTENDED_USAGES: [(&str, ObjectIdentifier); 13] = [
    ("any", ObjectIdentifier::new_unwrap("2.5.29.37.0")),
    ("server auth", SERVER_AUTH),
    ("client auth", CLIENT_AUTH),
    ("code signing", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3")),
    ("email protection", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4")),
    ("s/mime", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4")),
    ("ipsec end system", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.5")),
    ("ipsec tunnel", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.6")),
    ("ipsec user", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.7")),
    ("timestamping", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8")),
    ("ocsp signing", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9")),
    ("microsoft sgc", ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.3.3")),
    ("netscape sgc", ObjectIdentifier::new_unwrap("2.16.840.1.113730.4.1")),
];

fn usages_named(names: &[&str]) -> Result<Usages, RequestError> {
    let mut usages = Usages { key: Vec::new(), extended: Vec::new() };
    let mut unknown = Vec::new();
    for name in names {
        if let Some((_, usage)) = KEY_USAGES.iter().find(|(one, _)| one == name) {
            usages.key.push(*usage);
        } else if let Some((_, usage)) = EXTENDED_USAGES.iter().find(|(one, _)| one == name) {
            if !usages.extended.contains(usage) {
                usages.extended.push(*usage);
            }
        } else {
            unknown.push((*name).to_owned());
        }
    }
    if unknown.is_empty() { Ok(usages) } else { Err(RequestError::UnknownUsages(unknown)) }
}
