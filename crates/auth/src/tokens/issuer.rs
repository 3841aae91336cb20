//! Signs service-account tokens and recognizes its own; publishes the keys others need to do the same.

use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Value, json};

use super::claims::{BoundToken, Claims, Kubernetes, LEGACY_ISSUER, Legacy, Reference};
use super::verified::VerifiedToken;
use super::{KEYS_PATH, TokenError};
use crate::Secret;
use crate::keys::{KeyError, Signer, SigningKey, pem_block};
use crate::user::service_account_name;

/// The issuer of one control plane's tokens. No other control plane accepts them: the keys differ. Tokens that were
/// issued under another URL with the same keys count on, so the URL can change.
#[derive(Debug)]
pub struct Issuer {
    /// `iss`: a URL under which the discovery document is found.
    url: String,
    /// What a token is good for if nobody says otherwise: this API server.
    api_audiences: Vec<String>,
    key: SigningKey,
    /// The public half of `key` first, then older ones whose tokens still count.
    verifiers: Vec<Verifier>,
}

/// The end of a key that is in use.
const NEVER: Timestamp = Timestamp::MAX;

#[derive(Debug)]
struct Verifier {
    id: Signer,
    /// Nothing that it signed counts afterwards.
    until: Timestamp,
    /// The uncompressed point: a byte, then 32 each for x and y.
    point: Vec<u8>,
    key: DecodingKey,
}

impl Issuer {
    pub fn generate(url: impl Into<String>) -> Result<Self, KeyError> {
        Self::of(url.into(), SigningKey::generate()?)
    }

    pub fn from_pem(url: impl Into<String>, private_key: &str) -> Result<Self, KeyError> {
        Self::of(url.into(), SigningKey::from_pem(private_key)?)
    }

    fn of(url: String, key: SigningKey) -> Result<Self, KeyError> {
        let verifier = Verifier::new(key.public_point().to_vec(), &key.public_der()?);
        Ok(Issuer { api_audiences: vec![url.clone()], url, key, verifiers: vec![verifier] })
    }

    /// Accepts tokens signed by another key too (a private or a public one, as PEM): keys can be changed
    /// without throwing everybody out.
    pub fn also_accept(self, key: &str) -> Result<Self, KeyError> {
        self.also_accept_until(key, NEVER)
    }

    /// The same up to a moment.
    pub fn also_accept_until(mut self, key: &str, until: Timestamp) -> Result<Self, KeyError> {
        let verifier = match SigningKey::from_pem(key) {
            Ok(key) => Verifier::new(key.public_point().to_vec(), &key.public_der()?),
            Err(_) => Verifier::from_public_pem(key)?,
        };
        self.verifiers.push(Verifier { until, ..verifier });
        Ok(self)
    }

    /// The public half of the key that signs now, as PEM.
    pub fn public_pem(&self) -> Result<String, KeyError> {
        Ok(pem_block("PUBLIC KEY", &self.key.public_der()?))
    }

    /// Returns true if tokens of this key count.
    pub fn accepts(&self, signer: &Signer, now: Timestamp) -> bool {
        self.verifiers.iter().any(|one| one.id == *signer && now < one.until)
    }

    /// All keys whose tokens count, for whoever remembers what was verified.
    pub fn signers(&self) -> impl Iterator<Item = &Signer> {
        self.verifiers.iter().map(|one| &one.id)
    }

    /// The audiences of this API server, if they are not just the issuer itself.
    #[must_use]
    pub fn with_api_audiences(mut self, audiences: impl IntoIterator<Item = String>) -> Self {
        self.api_audiences = audiences.into_iter().collect();
        self
    }

    pub fn to_pem(&self) -> Secret<String> {
        self.key.to_pem()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn api_audiences(&self) -> &[String] {
        &self.api_audiences
    }

    /// A token of limited life. Without audiences it is good for this API server.
    pub fn issue(&self, token: &BoundToken, now: Timestamp) -> Result<Secret<String>, TokenError> {
        let after = |wait: Duration| {
            let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
            now.as_second().saturating_add(seconds)
        };
        let audiences = if token.audiences.is_empty() { &self.api_audiences } else { &token.audiences };
        self.sign(&Claims {
            aud: audiences.clone(),
            exp: Some(after(token.lifetime)),
            iat: Some(now.as_second()),
            iss: self.url.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            kubernetes: Some(Kubernetes {
                namespace: token.namespace.clone(),
                node: token.node.clone(),
                pod: token.pod.clone(),
                secret: token.secret.clone(),
                serviceaccount: token.service_account.clone(),
                warnafter: token.warn_after.map(after),
            }),
            nbf: Some(now.as_second()),
            sub: service_account_name(&token.namespace, &token.service_account.name),
            legacy: None,
        })
    }

    /// A token that lives as long as the Secret it is written into.
    pub fn issue_legacy(
        &self,
        namespace: &str,
        service_account: &Reference,
        secret_name: &str,
    ) -> Result<Secret<String>, TokenError> {
        self.sign(&Claims {
            iss: LEGACY_ISSUER.to_owned(),
            sub: service_account_name(namespace, &service_account.name),
            legacy: Some(Legacy {
                namespace: namespace.to_owned(),
                secret_name: secret_name.to_owned(),
                service_account_name: service_account.name.clone(),
                service_account_uid: service_account.uid.clone(),
            }),
            ..Claims::default()
        })
    }

    fn sign(&self, claims: &Claims) -> Result<Secret<String>, TokenError> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = None; // as upstream: a token says how it is signed and by which key, no more
        header.kid = self.verifiers.first().map(|own| own.id.0.to_string());
        let key = EncodingKey::from_ec_der(self.key.pkcs8().expose());
        jsonwebtoken::encode(&header, claims, &key).map(Secret::new).map_err(|_| TokenError::Sign)
    }

    /// Whether the token was signed here, is for one of the audiences (without any: for this API
    /// server) and is valid now. The objects it names must still be looked up: see [`VerifiedToken`].
    pub fn verify(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenError> {
        let issuer = unverified_issuer(token).ok_or(TokenError::NotOurs)?;
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::NotOurs)?;
        let has_our_key = || self.verifiers.iter().any(|one| header.kid.as_deref() == Some(&*one.id.0));
        if issuer != self.url && issuer != LEGACY_ISSUER && !has_our_key() {
            return Err(TokenError::NotOurs);
        }
        let named = |one: &&Verifier| header.kid.as_deref().is_none_or(|id| *id == *one.id.0);
        let mut candidates = self.verifiers.iter().filter(|one| now < one.until).filter(named).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        let mut validation = Validation::new(Algorithm::ES256);
        // Time comes in from outside and audiences have rules of their own; both are checked below.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let (claims, signer) = candidates
            .find_map(|one| {
                let decoded = jsonwebtoken::decode::<Claims>(token, &one.key, &validation).ok()?;
                Some((decoded.claims, one.id.clone()))
            })
            .ok_or(TokenError::Signature)?;
        VerifiedToken::new(claims, signer, &self.api_audiences, audiences, now)
    }

    /// `/openid/v1/jwks`
    pub fn keys_document(&self) -> Value {
        json!({ "keys": self.verifiers.iter().map(Verifier::to_jwk).collect::<Vec<_>>() })
    }

    /// `/.well-known/openid-configuration`, as it is found under the URL of the issuer.
    pub fn discovery_document(&self) -> Value {
        json!({
            "issuer": self.url,
            "jwks_uri": format!("{}{KEYS_PATH}", self.url.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

impl Verifier {
    fn new(point: Vec<u8>, public_der: &[u8]) -> Self {
        let id = Signer::of(public_der);
        Verifier { id, until: NEVER, key: DecodingKey::from_ec_der(&point), point }
    }

    fn from_public_pem(text: &str) -> Result<Self, KeyError> {
        let block = pem::parse(text).map_err(|_| KeyError::Public)?;
        let key =
            ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, block.contents()).map_err(|_| KeyError::Public)?;
        let der: PublicKeyX509Der<'_> = key.as_der().map_err(|_| KeyError::Public)?;
        let info = <x509_cert::spki::SubjectPublicKeyInfoOwned as der::Decode>::from_der(der.as_ref())
            .map_err(|_| KeyError::Public)?;
        Ok(Verifier::new(info.subject_public_key.raw_bytes().to_vec(), der.as_ref()))
    }

    fn to_jwk(&self) -> Value {
        let (x, y) = self.point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        json!({
            "use": "sig", "kty": "EC", "kid": &*self.id.0, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE.encode(x), "y": URL_SAFE.encode(y),
        })
    }
}

/// `iss`, before anything is proven: enough to leave other people's tokens to other people.
fn unverified_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let claims: Value = serde_json::from_slice(&URL_SAFE.decode(payload).ok()?).ok()?;
    claims.get("iss")?.as_str().map(str::to_owned)
}
