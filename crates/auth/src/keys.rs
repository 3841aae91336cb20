//! ECDSA keys on P-256: what authorities and token issuers sign with.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::Secret;

#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    #[error("the key could not be generated")]
    Generate,
    #[error("not a PEM block with a P-256 private key")]
    Private,
    #[error("not a PEM block with a P-256 public key")]
    Public,
    #[error("the signature could not be made")]
    Sign,
}

/// Which key made a signature: a hash of its public half, as tokens name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signer(pub(crate) Arc<str>);

impl Signer {
    /// By its `SubjectPublicKeyInfo`.
    pub(crate) fn of(public_der: &[u8]) -> Signer {
        Signer(BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, public_der)).into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A private key. It is shown nowhere but in [`SigningKey::to_pem`].
pub struct SigningKey {
    pair: EcdsaKeyPair,
    pkcs8: Secret<Vec<u8>>,
}

impl SigningKey {
    pub fn generate() -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(|_| KeyError::Generate)?;
        Self::of(pair).ok_or(KeyError::Generate)
    }

    /// Reads PKCS#8 (`PRIVATE KEY`) or SEC 1 (`EC PRIVATE KEY`).
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        // Tools such as openssl put the parameters of the curve in a block before the key.
        let blocks = pem::parse_many(text).map_err(|_| KeyError::Private)?;
        let block =
            blocks.iter().find(|block| block.tag().ends_with("PRIVATE KEY")).ok_or(KeyError::Private)?;
        let pair = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, block.contents());
        Self::of(pair.map_err(|_| KeyError::Private)?).ok_or(KeyError::Private)
    }

    fn of(pair: EcdsaKeyPair) -> Option<Self> {
        let pkcs8 = Secret::new(pair.to_pkcs8v1().ok()?.as_ref().to_vec());
        Some(SigningKey { pair, pkcs8 })
    }

    pub fn to_pem(&self) -> Secret<String> {
        Secret::new(pem_block("PRIVATE KEY", self.pkcs8.expose()))
    }

    pub(crate) fn pkcs8(&self) -> &Secret<Vec<u8>> {
        &self.pkcs8
    }

    /// The public half as an X.509 `SubjectPublicKeyInfo`.
    pub(crate) fn public_der(&self) -> Result<Vec<u8>, KeyError> {
        let der: PublicKeyX509Der<'_> = self.pair.public_key().as_der().map_err(|_| KeyError::Public)?;
        Ok(der.as_ref().to_vec())
    }

    /// The public half as an uncompressed point.
    pub(crate) fn public_point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// An ASN.1 signature with SHA-256, as certificates carry it.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::Sign)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

/// PEM with the line endings everybody else on this platform writes.
pub(crate) fn pem_block(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_round_trip() {
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(key.to_pem().expose()).unwrap();
        assert_eq!(key.public_point(), again.public_point());
        assert_eq!(key.public_point().len(), 65);
        assert_eq!(format!("{key:?} {:?}", key.to_pem()), "SigningKey Secret");
    }

    #[test]
    fn bad_pem() {
        for text in ["", "garbage", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(SigningKey::from_pem(text).unwrap_err(), KeyError::Private, "{text}");
        }
    }
}
