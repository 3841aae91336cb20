//! Who asks: a certificate of the control plane's own authority, a token of its own issuer, or nobody.

use std::sync::Arc;

use auth::Signer;
use auth::tokens::VerifiedToken;
use auth::tokens::bootstrap::BootstrapToken;
use auth::user::UserInfo;
use jiff::Timestamp;
use objects::{Reason, Status};
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use store::TenantId;

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::read;
use crate::service::Failure;

/// Proofs verified lately. A signature costs a hundred times what looking it up does.
const REMEMBERED: usize = 16_384;
/// After this time a proof is verified again: it may have expired, which has a minute of leeway anyway.
const REMEMBERED_FOR: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

type Proof = (TenantId, [u8; 32]);
type Remembered<T> = Cache<Proof, (Arc<T>, Timestamp)>;

/// Certificates and tokens whose signatures were found good a moment ago.
pub struct Credentials {
    certificates: Remembered<(Arc<UserInfo>, Signer)>,
    tokens: Remembered<VerifiedToken>,
}

impl Default for Credentials {
    fn default() -> Self {
        Credentials { certificates: Cache::new(REMEMBERED), tokens: Cache::new(REMEMBERED) }
    }
}

fn remembered<T>(cache: &Remembered<T>, proof: &Proof, now: Timestamp) -> Option<Arc<T>> {
    let (value, at) = cache.get(proof)?;
    (now.duration_since(at) < REMEMBERED_FOR).then_some(value)
}

pub fn unauthorized() -> Status {
    Status::new(Reason::Unauthorized, "Unauthorized")
}

/// The user of a request. Wrong credentials are refused; none at all is the anonymous user.
pub async fn user(engine: &Engine, plane: &ControlPlane, head: &Head) -> Result<Arc<UserInfo>, Failure> {
    match known(engine, plane, head).await {
        // Another process may have changed the keys a moment ago, and signed this with the new ones.
        Err(refused) if engine.replicas.get().is_some() && refused.0.reason == Reason::Unauthorized => {
            match engine.planes.with_new_keys(plane, engine.now()).await? {
                Some(renewed) => known(engine, &renewed, head).await,
                None => Err(refused),
            }
        }
        known => known,
    }
}

async fn known(engine: &Engine, plane: &ControlPlane, head: &Head) -> Result<Arc<UserInfo>, Failure> {
    if let Some(identity) = &head.door.identity {
        return Ok(identity.clone());
    }
    let now = engine.now();
    if let Some(token) = head.bearer_token()? {
        let found = by_token(engine, plane, token, None, now).await?.ok_or_else(unauthorized)?;
        if let Some(signer) = &found.signer {
            head.signed_by(signer);
        }
        return Ok(Arc::new(found.user));
    }
    if let Some(leaf) = head.door.certificates.first() {
        return by_certificate(engine, plane, head, leaf, now);
    }
    Ok(Arc::new(UserInfo::anonymous()))
}

fn by_certificate(
    engine: &Engine,
    plane: &ControlPlane,
    head: &Head,
    leaf: &[u8],
    now: Timestamp,
) -> Result<Arc<UserInfo>, Failure> {
    // With the keys: what was good before they were replaced is not remembered as good now.
    let hash = Sha256::new().chain_update(plane.trust).chain_update(leaf).finalize();
    let proof = (plane.id, hash.into());
    let cache = &engine.credentials.certificates;
    if let Some(known) = remembered(cache, &proof, now) {
        head.signed_by(&known.1);
        return Ok(known.0.clone());
    }
    let (user, signer) = plane.authority.verify_signed(&head.door.certificates, now).map_err(|error| {
        tracing::debug!(control_plane = %plane.name, %error, "client certificate refused");
        unauthorized()
    })?;
    let user = Arc::new(user.authenticated());
    head.signed_by(&signer);
    cache.insert(proof, (Arc::new((user.clone(), signer)), now));
    Ok(user)
}

/// Whom a token stands for, and for which audiences.
pub struct Bearer {
    pub user: UserInfo,
    pub audiences: Vec<String>,
    /// Of tokens that are signed.
    pub signer: Option<Signer>,
}

/// The user a token stands for now, if it stands for one. Also what a TokenReview asks, which may name
/// audiences.
pub async fn by_token(
    engine: &Engine,
    plane: &ControlPlane,
    token: &str,
    audiences: Option<&[String]>,
    now: Timestamp,
) -> Result<Option<Bearer>, Failure> {
    // Tokens that name no audience are good for this server alone, whatever a review asks for.
    let of_this_server = |user: UserInfo| {
        let mut own = plane.issuer.api_audiences().to_vec();
        own.retain(|one| audiences.is_none_or(|asked| asked.contains(one)));
        (!own.is_empty()).then(|| Bearer { user: user.authenticated(), audiences: own, signer: None })
    };
    if let Some(admin) = &engine.config.admin_token
        && plane.name == engine.config.hosting
        && auth::same_secret(admin.expose(), token)
    {
        return Ok(of_this_server(UserInfo::new("hangar-admin", [auth::user::MASTERS])));
    }
    if let Some(bootstrap) = BootstrapToken::parse(token) {
        let secret = read::object(engine, plane, "secrets", "kube-system", &bootstrap.secret_name()).await?;
        return Ok(secret.and_then(|secret| bootstrap.user(&secret, now)).and_then(of_this_server));
    }
    let hash = Sha256::new().chain_update(plane.trust).chain_update(token).finalize();
    let proof = (plane.id, hash.into());
    let cache = &engine.credentials.tokens;
    let held = if audiences.is_none() { remembered(cache, &proof, now) } else { None };
    let verified = match held {
        Some(verified) => verified,
        None => match plane.issuer.verify(token, audiences, now) {
            Ok(verified) => Arc::new(verified),
            Err(error) => {
                tracing::debug!(control_plane = %plane.name, %error, "token refused");
                return Ok(None);
            }
        },
    };
    // The signature may be remembered; whether the account is still there is asked each time.
    let mut found = Vec::with_capacity(2);
    for lookup in verified.lookups() {
        found.push(read::object(engine, plane, lookup.resource, &lookup.namespace, &lookup.name).await?);
    }
    let found: Vec<Option<&objects::Value>> = found.iter().map(Option::as_ref).collect();
    match verified.user(token, &found, now) {
        Ok(user) => {
            if audiences.is_none() {
                cache.insert(proof, (verified.clone(), now));
            }
            Ok(Some(Bearer {
                user: user.authenticated(),
                audiences: verified.audiences.clone(),
                signer: Some(verified.signer.clone()),
            }))
        }
        Err(error) => {
            tracing::debug!(control_plane = %plane.name, %error, "token refused");
            Ok(None)
        }
    }
}
