//! A token whose signature is right, and what is left to check.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::TokenError;
use super::claims::{Claims, Kubernetes, Legacy, Reference};
use crate::keys::Signer;
use crate::same_secret;
use crate::user::{self, UserInfo, split_service_account};

/// How far apart the clocks of issuer and verifier may be, and how long the deleted are still honoured.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const INVALIDATED: &str = "service account token has been invalidated";

/// An object that must still be there for the token to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// `serviceaccounts`, `secrets`, `pods` or `nodes` of the core group.
    pub resource: &'static str,
    /// Empty for nodes.
    pub namespace: String,
    pub name: String,
}

/// A token that this issuer signed and that is valid by itself.
#[derive(Debug)]
pub struct VerifiedToken {
    pub namespace: String,
    pub service_account: Reference,
    /// Those of the asked-for audiences that the token is for.
    pub audiences: Vec<String>,
    /// `jti`; empty for legacy tokens.
    pub id: String,
    /// From then on its use should be noted in the audit log.
    pub stale_after: Option<Timestamp>,
    /// Which key it was signed with.
    pub signer: Signer,
    bound: Bound,
}

/// What a token's life depends on besides the service account.
#[derive(Debug)]
enum Bound {
    Nothing,
    Pod {
        pod: Reference,
        node: Option<Reference>,
    },
    Node(Reference),
    Secret(Reference),
    /// The Secret holds the token itself.
    Legacy {
        secret: String,
    },
}

impl VerifiedToken {
    pub(super) fn new(
        claims: Claims,
        signer: Signer,
        api_audiences: &[String],
        wanted: Option<&[String]>,
        now: Timestamp,
    ) -> Result<Self, TokenError> {
        let has = if claims.aud.is_empty() { api_audiences } else { &claims.aud };
        let wanted = wanted.unwrap_or(api_audiences);
        let audiences: Vec<String> = has.iter().filter(|one| wanted.contains(one)).cloned().collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience { has: format!("{has:?}"), wants: format!("{wanted:?}") });
        }
        match (&claims.legacy, &claims.kubernetes) {
            (Some(_), None) => Self::legacy(claims, signer, audiences),
            (None, Some(_)) => Self::bound(claims, signer, audiences, now),
            _ => Err(TokenError::ClaimMissing("kubernetes.io")),
        }
    }

    fn bound(
        claims: Claims,
        signer: Signer,
        audiences: Vec<String>,
        now: Timestamp,
    ) -> Result<Self, TokenError> {
        let at = |seconds: i64| {
            let seconds = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
            Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
        };
        if claims.nbf.is_some_and(|begin| now + LEEWAY < at(begin)) {
            return Err(TokenError::NotYetValid);
        }
        if claims.exp.is_some_and(|end| now - LEEWAY > at(end)) {
            return Err(TokenError::Expired);
        }
        if claims.iat.is_some_and(|issued| now + LEEWAY < at(issued)) {
            return Err(TokenError::IssuedInTheFuture);
        }
        let Kubernetes { namespace, node, pod, secret, serviceaccount, warnafter } =
            claims.kubernetes.unwrap_or_default();
        let bound = match (pod, secret, node) {
            (Some(pod), _, node) => Bound::Pod { pod, node },
            (None, Some(secret), _) => Bound::Secret(secret),
            (None, None, Some(node)) => Bound::Node(node),
            (None, None, None) => Bound::Nothing,
        };
        Ok(VerifiedToken {
            namespace,
            service_account: serviceaccount,
            audiences,
            id: claims.jti,
            stale_after: warnafter.map(at),
            signer,
            bound,
        })
    }

    fn legacy(claims: Claims, signer: Signer, audiences: Vec<String>) -> Result<Self, TokenError> {
        let Some(Legacy { namespace, secret_name, service_account_name, service_account_uid }) =
            claims.legacy
        else {
            return Err(TokenError::ClaimMissing("kubernetes.io"));
        };
        for (name, value) in [
            ("sub", &claims.sub),
            ("namespace", &namespace),
            ("secretName", &secret_name),
            ("serviceAccountName", &service_account_name),
            ("serviceAccountUID", &service_account_uid),
        ] {
            if value.is_empty() {
                return Err(TokenError::ClaimMissing(name));
            }
        }
        if split_service_account(&claims.sub) != Some((&namespace, &service_account_name)) {
            return Err(TokenError::Subject);
        }
        Ok(VerifiedToken {
            namespace,
            service_account: Reference::new(service_account_name, service_account_uid),
            audiences,
            id: String::new(),
            stale_after: None,
            signer,
            bound: Bound::Legacy { secret: secret_name },
        })
    }

    /// What must be fetched before [`VerifiedToken::user`] can answer: the service account first.
    pub fn lookups(&self) -> Vec<Lookup> {
        let of = |resource, namespace: &str, name: &str| Lookup {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let mut lookups = vec![of("serviceaccounts", &self.namespace, &self.service_account.name)];
        match &self.bound {
            Bound::Nothing => {}
            Bound::Pod { pod, .. } => lookups.push(of("pods", &self.namespace, &pod.name)),
            Bound::Node(node) => lookups.push(of("nodes", "", &node.name)),
            Bound::Secret(secret) => lookups.push(of("secrets", &self.namespace, &secret.name)),
            Bound::Legacy { secret } => lookups.push(of("secrets", &self.namespace, secret)),
        }
        lookups
    }

    /// The user, if what was found (in the order of [`VerifiedToken::lookups`]) is what the token names.
    /// `token` is the token itself, which a legacy Secret must hold.
    pub fn user(
        &self,
        token: &str,
        found: &[Option<&Value>],
        now: Timestamp,
    ) -> Result<UserInfo, TokenError> {
        let (namespace, name) = (&self.namespace, &self.service_account.name);
        let account = found
            .first()
            .copied()
            .flatten()
            .ok_or_else(|| TokenError::Gone(format!("serviceaccounts {name:?} not found")))?;
        let (has, says) = (objects::meta::uid(account), &self.service_account.uid);
        if has != says {
            return Err(TokenError::Gone(format!(
                "service account UID ({has}) does not match claim ({says})"
            )));
        }
        if deleted_before(account, now - LEEWAY) {
            return Err(TokenError::Gone(format!("service account {namespace}/{name} has been deleted")));
        }
        let bound = found.get(1).copied().flatten();
        match &self.bound {
            Bound::Nothing => {}
            Bound::Pod { pod, .. } => check_bound("pod", pod, bound, now)?,
            Bound::Node(node) => check_bound("node", node, bound, now)?,
            Bound::Secret(secret) => check_bound("secret", secret, bound, now)?,
            Bound::Legacy { .. } => self.check_legacy_secret(token, bound)?,
        }
        Ok(self.info())
    }

    fn check_legacy_secret(&self, token: &str, secret: Option<&Value>) -> Result<(), TokenError> {
        let secret = secret.filter(|secret| !objects::meta::is_deleting(secret));
        let secret = secret.ok_or_else(|| TokenError::Gone("Token has been invalidated".to_owned()))?;
        let kept = super::bootstrap::secret_data(secret, "token").unwrap_or_default();
        if !same_secret(&kept, token) {
            return Err(TokenError::Gone("Token does not match server's copy".to_owned()));
        }
        let invalid = objects::meta::labels(secret).and_then(|labels| labels.get(INVALID_SINCE));
        if invalid.and_then(Value::as_str).is_some_and(|since| !since.is_empty()) {
            let (namespace, account) = (&self.namespace, &self.service_account.name);
            return Err(TokenError::Gone(format!(
                "the token in secret {namespace}/{} for service account {namespace}/{account} has been marked \
                 invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove \
                 the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                objects::meta::name(secret),
            )));
        }
        Ok(())
    }

    fn info(&self) -> UserInfo {
        let mut info =
            UserInfo::service_account(&self.namespace, &self.service_account.name, &self.service_account.uid);
        let mut extra = |key: &str, value: String| {
            if !value.is_empty() {
                info.extra.insert(key.to_owned(), vec![value]);
            }
        };
        if !self.id.is_empty() {
            extra(user::EXTRA_CREDENTIAL_ID, format!("JTI={}", self.id));
        }
        let (pod, node) = match &self.bound {
            Bound::Pod { pod, node } => (Some(pod), node.as_ref()),
            Bound::Node(node) => (None, Some(node)),
            Bound::Nothing | Bound::Secret(_) | Bound::Legacy { .. } => (None, None),
        };
        if let Some(pod) = pod {
            extra(user::EXTRA_POD_NAME, pod.name.clone());
            extra(user::EXTRA_POD_UID, pod.uid.clone());
        }
        if let Some(node) = node {
            extra(user::EXTRA_NODE_NAME, node.name.clone());
            extra(user::EXTRA_NODE_UID, node.uid.clone());
        }
        info.authenticated()
    }
}

fn check_bound(
    what: &str,
    reference: &Reference,
    found: Option<&Value>,
    now: Timestamp,
) -> Result<(), TokenError> {
    let object = found.ok_or_else(|| TokenError::Gone(INVALIDATED.to_owned()))?;
    let (has, says) = (objects::meta::uid(object), &reference.uid);
    if has != says {
        return Err(TokenError::Gone(format!(
            "{what} UID ({has}) does not match service account {what} ref claim ({says})"
        )));
    }
    if deleted_before(object, now - LEEWAY) {
        return Err(TokenError::Gone(INVALIDATED.to_owned()));
    }
    Ok(())
}

fn deleted_before(object: &Value, limit: Timestamp) -> bool {
    let stamp = objects::meta::text(object, "deletionTimestamp");
    stamp.parse::<Timestamp>().is_ok_and(|at| at < limit)
}
