//! Control planes that are there already: the hosting one itself, and clusters elsewhere.
//!
//! Both are reached with the token of a service account that may do everything there. A token is asked for as long as
//! `spec.tokenExpirationSeconds` says, and a new one when two thirds of what was granted have passed.

use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta, time};
use runtime::{Context, Error, Next};
use serde_json::json;

use crate::api::{self, Place};
use crate::conditions::{self, Condition};
use crate::elsewhere::{CALL_PATIENCE, CONNECT_PATIENCE, Inline, told};
use crate::host::{Host, HostError};
use crate::kubeconfig::{self, Credential, Entry};
use crate::plane::{BootstrapSecret, Plane};
use crate::sync::{self, SyncError};
use crate::{credentials, furniture, names};

const SECRET: &str = "admin-kubeconfig";
const KEY: &str = "kubeconfig";
const IN_CLUSTER_KEY: &str = "kubeconfig-incluster";

/// How often an adopted cluster is asked whether it is there.
const PROBE_EVERY: Duration = Duration::from_secs(60);
/// However little a cluster grants, and whatever its clock says, it is not asked for tokens more often than this.
const RENEW_EVERY: i64 = 120;

/// On the adopted cluster.
const ACCOUNT: &str = "kubeflex";
const ACCOUNT_NAMESPACE: &str = "kube-system";
const BINDING: &str = "kubeflex-clusterrolebinding";
/// On that account, with the uid of each control plane that uses it: the last one to leave takes it away.
const USED_BY: &str = "adopted-by.hangar.dev/";

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn secret_ref(plane: &Plane) -> Value {
    json!({"namespace": plane.namespace, "name": SECRET, "key": KEY, "inClusterKey": IN_CLUSTER_KEY})
}

fn admin_of(namespace: &str, account: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    })
}

struct Token {
    text: String,
    expires: Timestamp,
    /// When to ask for the next one.
    renewal: Timestamp,
}

impl Token {
    fn record(&self, status: &mut Value) {
        status["tokenExpirationTime"] = time::format(self.expires).into();
        status["tokenRenewalTime"] = time::format(self.renewal).into();
    }
}

async fn request_token(
    client: &kube::Client,
    account: &Place,
    plane: &Plane,
    now: Timestamp,
) -> Result<Token, Error> {
    let seconds = plane.spec.token_expiration_seconds.unwrap_or(31_536_000);
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        // Shorter ones are refused by every server.
        "spec": {"expirationSeconds": seconds.max(600)},
    });
    let answer = api::post(client, account, "token", &body).await?;
    let text = answer["status"]["token"].as_str().unwrap_or_default().to_owned();
    let expires = time::parse(answer["status"]["expirationTimestamp"].as_str().unwrap_or_default());
    match expires {
        Ok(expires) if !text.is_empty() => Ok(Token { text, expires, renewal: renewal(now, expires) }),
        _ => Err(Error::failed("the answer to a token request has no token in it")),
    }
}

/// When a third of what was granted is left. That may be less than was asked for: clusters have limits of their own.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let granted = expires.as_second() - now.as_second();
    let wait = (granted - granted / 3).max(RENEW_EVERY);
    Timestamp::from_second(now.as_second().saturating_add(wait)).unwrap_or(expires)
}

/// How long the token is good enough; none if it is to be renewed.
fn is_fresh_for(status: &Value, now: Timestamp) -> Option<Duration> {
    let renewal = time::parse(status["tokenRenewalTime"].as_str().unwrap_or_default()).ok()?;
    let left = u64::try_from(renewal.as_second() - now.as_second()).ok().filter(|left| *left > 0)?;
    Some(Duration::from_secs(left))
}

/// The hosting control plane as one of its own.
pub async fn hosting(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    status: &mut Value,
) -> Result<Next, SyncError> {
    let account = furniture::owned(plane, "ServiceAccount", &plane.name, json!({}));
    sync::ensure(context, plane, &account).await?;
    let binding = admin_of(&plane.namespace, &plane.name);
    let binding = furniture::owned(plane, "ClusterRoleBinding", &format!("{}-binding", plane.name), binding);
    sync::ensure(context, plane, &binding).await?;
    // Where KubeFlex keeps a token that never expires. Whoever fills such Secrets in may; nothing here needs it.
    let annotations = json!({"annotations": {"kubernetes.io/service-account.name": plane.name}});
    let lasting = json!({"metadata": annotations, "type": "kubernetes.io/service-account-token"});
    sync::ensure(context, plane, &furniture::owned(plane, "Secret", &plane.name, lasting)).await?;

    let (server, authority) = (host.hosting_door(), host.hosting_authority());
    let name = plane.name.as_str();
    let entry = Entry {
        cluster: name,
        user: name,
        context: name,
        server: &server,
        server_name: None,
        authority: &authority,
    };
    let live = context.get("secrets", &plane.namespace, SECRET).await?.unwrap_or_default();
    let kept = kubeconfig::secret_value(&live, IN_CLUSTER_KEY).filter(|text| entry.user_in(text).is_some());
    let same = kept.is_some() && kubeconfig::secret_value(&live, KEY) == kept;
    if !same || is_fresh_for(status, context.now).is_none() {
        let token = request_token(context.client(), &account.place, plane, context.now).await?;
        let text = entry.write(&Credential::Token(&token.text));
        write_secret(context, plane, &text).await?;
        token.record(status);
    }
    status["secretRef"] = secret_ref(plane);
    status["endpoint"] = server.into();
    Ok(Next::After(is_fresh_for(status, context.now).unwrap_or(Duration::from_secs(1))))
}

async fn write_secret(context: &Context, plane: &Plane, text: &str) -> Result<(), SyncError> {
    let data = [KEY, IN_CLUSTER_KEY].map(|key| (key.to_owned(), text.as_bytes().to_vec())).to_vec();
    sync::ensure(context, plane, &credentials::secret(plane, SECRET, data)).await.map(drop)
}

/// A cluster that was adopted: its account there is made with the bootstrap kubeconfig, which is then thrown away.
pub async fn external(context: &Context, plane: &Plane, status: &mut Value) -> Result<Next, SyncError> {
    status["secretRef"] = secret_ref(plane);
    match client(context, plane).await {
        Ok(client) => {
            if is_fresh_for(status, context.now).is_none()
                && let Err(error) = renew(context, plane, &client, status).await
            {
                tracing::warn!(control_plane = plane.name, %error, "the token of an adopted cluster cannot be renewed");
            }
            let condition = match probe(&client).await {
                Ok(()) => Condition::new("Reachable", true, "Answered", ""),
                Err(why) => Condition::new("Reachable", false, "NoAnswer", why),
            };
            conditions::set(status, &condition, context.now);
        }
        Err(SyncError::Waiting(_)) => adopt(context, plane, status).await?,
        Err(error) => return Err(error),
    }
    Ok(Next::After(PROBE_EVERY))
}

/// A client by the kubeconfig that adoption left; waiting if there is none yet.
pub async fn client(context: &Context, plane: &Plane) -> Result<kube::Client, SyncError> {
    let secret = context.get("secrets", &plane.namespace, SECRET).await?.unwrap_or_default();
    let Some(text) = kubeconfig::secret_value(&secret, IN_CLUSTER_KEY).filter(|text| !text.is_empty()) else {
        return Err(SyncError::Waiting(format!("control plane {:?} is not adopted yet", plane.name)));
    };
    Ok(Inline::read(&text)?.client().await?)
}

async fn probe(client: &kube::Client) -> Result<(), String> {
    match tokio::time::timeout(CONNECT_PATIENCE, api::get_path(client, "/api/v1")).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(format!("no answer within {CONNECT_PATIENCE:?}")),
    }
}

async fn adopt(context: &Context, plane: &Plane, status: &mut Value) -> Result<(), SyncError> {
    let Some(bootstrap) = &plane.spec.bootstrap_secret_ref else {
        let why = "spec.bootstrapSecretRef: required for a control plane of type external".to_owned();
        return Err(SyncError::Host(HostError::Refused(why)));
    };
    let BootstrapSecret { namespace, name, in_cluster_key } = bootstrap;
    let key = if in_cluster_key.is_empty() { IN_CLUSTER_KEY } else { in_cluster_key };
    let Some(secret) = context.get("secrets", namespace, name).await? else {
        return Err(SyncError::Waiting(format!("waiting for the bootstrap secret {namespace}/{name}")));
    };
    if let Some(owner) = meta::owner_references(&secret).iter().find(|owner| owner["controller"] == true) {
        let why = format!(
            "spec.bootstrapSecretRef: the Secret {namespace}/{name} is that of {} {}, and is not thrown away",
            owner["kind"].as_str().unwrap_or_default(),
            owner["name"]
        );
        return Err(SyncError::Host(HostError::Refused(why)));
    }
    let Some(text) = kubeconfig::secret_value(&secret, key) else {
        return Err(SyncError::Waiting(format!(
            "the bootstrap secret {namespace}/{name} has no key {key:?}"
        )));
    };
    let config = Inline::read(&text)?;
    let client = config.client().await?;
    let account = async {
        let account = ensure_account(&client, plane).await?;
        request_token(&client, &account, plane, context.now).await
    };
    let token = account.await.map_err(|error| match error.code() {
        Some(409) => SyncError::Api(error),
        _ => SyncError::Host(HostError::Failed(format!(
            "the cluster at {} cannot be adopted: {}",
            config.server(),
            told(&error)
        ))),
    })?;
    let written = with_token(config.value(), plane, &token.text)?;
    write_secret(context, plane, &written).await?;
    token.record(status);
    status["endpoint"] = endpoint(&written).into();
    conditions::set(status, &Condition::new("Reachable", true, "Answered", ""), context.now);
    throw_away(context, &secret, key).await?;
    Ok(())
}

/// It may do everything there for ever, and is not needed any more. What else is in the Secret is somebody's own.
async fn throw_away(context: &Context, secret: &Value, key: &str) -> Result<(), Error> {
    let place = Place::new("v1", "secrets", meta::namespace(secret), meta::name(secret));
    if secret["data"].as_object().is_none_or(|data| data.len() <= 1) {
        return api::delete(context.client(), &place, Some(meta::uid(secret))).await.map(drop);
    }
    // The version guards it: what was put there meanwhile is another one.
    let mut patch = json!({"metadata": {"resourceVersion": meta::resource_version(secret)}, "data": {}});
    patch["data"][key] = Value::Null;
    api::merge(context.client(), &place, "", &patch).await.map(drop)
}

async fn renew(
    context: &Context,
    plane: &Plane,
    client: &kube::Client,
    status: &mut Value,
) -> Result<(), SyncError> {
    let account = Place::new("v1", "serviceaccounts", ACCOUNT_NAMESPACE, ACCOUNT);
    let token = request_token(client, &account, plane, context.now).await?;
    let secret = context.get("secrets", &plane.namespace, SECRET).await?.unwrap_or_default();
    let text = kubeconfig::secret_value(&secret, IN_CLUSTER_KEY).unwrap_or_default();
    let written = with_token(Inline::read(&text)?.value(), plane, &token.text)?;
    write_secret(context, plane, &written).await?;
    token.record(status);
    status["endpoint"] = endpoint(&written).into();
    Ok(())
}

/// The account on the adopted cluster and its rights, made or found. The binding owns the account: who deletes the one
/// has no right left to delete the other, so that the cluster's own garbage collector does.
async fn ensure_account(client: &kube::Client, plane: &Plane) -> Result<Place, Error> {
    let binding = Place::new(RBAC, "clusterrolebindings", "", BINDING);
    let bound = match api::get(client, &binding).await? {
        Some(found) => found,
        None => {
            let mut object = admin_of(ACCOUNT_NAMESPACE, ACCOUNT);
            object["apiVersion"] = RBAC.into();
            object["kind"] = "ClusterRoleBinding".into();
            object["metadata"] = json!({ "name": BINDING });
            api::create(client, &binding, &object).await?
        }
    };
    let account = Place::new("v1", "serviceaccounts", ACCOUNT_NAMESPACE, ACCOUNT);
    let mark = json!({format!("{USED_BY}{}", plane.uid): plane.name});
    if api::get(client, &account).await?.is_some() {
        api::merge(client, &account, "", &json!({"metadata": {"annotations": mark}})).await?;
    } else {
        let owner = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "name": BINDING, "uid": meta::uid(&bound)});
        let metadata = json!({
            "name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE, "annotations": mark, "ownerReferences": [owner],
        });
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        api::create(client, &account, &object).await?;
    }
    Ok(account)
}

/// The bootstrap kubeconfig's own cluster, with the control plane's user and context.
fn with_token(config: &Value, plane: &Plane, token: &str) -> Result<String, SyncError> {
    let named = |list: &str, name: &str| -> Option<Value> {
        config[list].as_array()?.iter().find(|one| one["name"] == name).cloned()
    };
    let current = config["current-context"].as_str().unwrap_or_default();
    let old = named("contexts", current).unwrap_or_default();
    let cluster = old["context"]["cluster"].as_str().and_then(|cluster| named("clusters", cluster));
    let Some(cluster) = cluster else {
        let why = format!("the kubeconfig has no cluster for its current context {current:?}");
        return Err(SyncError::Host(HostError::Refused(why)));
    };
    let mut context = old["context"].clone();
    context["user"] = plane.name.as_str().into();
    Ok(wire::yaml::encode(&json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": plane.name, "user": {"token": token}}],
        "contexts": [{"name": plane.name, "context": context}],
        "current-context": plane.name,
    })))
}

fn endpoint(config: &str) -> String {
    let config = wire::yaml::decode(config.as_bytes()).map(|decoded| decoded.value).unwrap_or_default();
    config.pointer("/clusters/0/cluster/server").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Throws away the kubeconfig that a cluster was to be adopted with, if it is still there: the Secret that the command
/// line makes. Others are somebody's own.
pub async fn forget_bootstrap(context: &Context, plane: &Plane) -> Result<(), Error> {
    let Some(BootstrapSecret { namespace, name, .. }) = &plane.spec.bootstrap_secret_ref else {
        return Ok(());
    };
    if namespace != names::SYSTEM_NAMESPACE || *name != names::bootstrap(&plane.name) {
        return Ok(());
    }
    if let Some(secret) = context.get("secrets", namespace, name).await? {
        let place = Place::new("v1", "secrets", namespace, name);
        api::delete(context.client(), &place, Some(meta::uid(&secret))).await?;
    }
    Ok(())
}

/// Takes back what adoption left on the cluster. It may be gone for good, so that nothing depends on this.
pub async fn release(context: &Context, plane: &Plane) {
    if let Err(error) = tokio::time::timeout(CALL_PATIENCE, leave(context, plane))
        .await
        .unwrap_or_else(|_| Err(SyncError::Waiting(format!("no answer within {CALL_PATIENCE:?}"))))
    {
        let why = "the account on an adopted cluster is left behind";
        tracing::warn!(control_plane = plane.name, namespace = ACCOUNT_NAMESPACE, account = ACCOUNT, %error, "{why}");
    }
}

async fn leave(context: &Context, plane: &Plane) -> Result<(), SyncError> {
    let client = match client(context, plane).await {
        // Never adopted: there is nothing to take back.
        Err(SyncError::Waiting(_)) => return Ok(()),
        client => client?,
    };
    let account = Place::new("v1", "serviceaccounts", ACCOUNT_NAMESPACE, ACCOUNT);
    let Some(found) = api::get(&client, &account).await? else { return Ok(()) };
    let own = format!("{USED_BY}{}", plane.uid);
    let marks = meta::map(&found, "annotations").into_iter().flatten().map(|(name, _)| name);
    let users: Vec<&String> = marks.filter(|name| name.starts_with(USED_BY)).collect();
    if !users.iter().any(|name| **name == own) {
        return Ok(());
    }
    // An account that was there before us stays.
    let ours = meta::owner_references(&found).iter().any(|owner| owner["name"] == BINDING);
    if users.len() > 1 || !ours {
        let mut patch = json!({"metadata": {"annotations": {}}});
        patch["metadata"]["annotations"][&own] = Value::Null;
        api::merge(&client, &account, "", &patch).await?;
        return Ok(());
    }
    // The account goes with it, and every token that was given out is worth nothing.
    api::delete(&client, &Place::new(RBAC, "clusterrolebindings", "", BINDING), None).await?;
    tracing::info!(control_plane = plane.name, "left the adopted cluster");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_by_what_was_granted() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let check = |granted: i64, expected: u64| {
            let expires = Timestamp::from_second(now.as_second() + granted).unwrap();
            let mut status = json!({});
            Token { text: "t".to_owned(), expires, renewal: renewal(now, expires) }.record(&mut status);
            let left = is_fresh_for(&status, now);
            assert_eq!(left, Some(Duration::from_secs(expected)), "{granted}");
            let later = Timestamp::from_second(now.as_second() + expected.cast_signed()).unwrap();
            assert_eq!(is_fresh_for(&status, later), None, "{granted}");
        };
        check(31_536_000, 21_024_000);
        // A cluster that grants less than was asked for is not asked again and again.
        check(3_600, 2_400);
        check(600, 400);
        // Nor is one whose clock is behind.
        check(60, 120);
        check(-7_200, 120);
        assert_eq!(is_fresh_for(&json!({}), now), None);
    }
}
