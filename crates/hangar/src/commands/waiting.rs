//! Waiting for a control plane to be of use, by watching it.

use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{condition, condition_status, name_of, type_of};
use crate::api::{self, Api};
use crate::kubeconfig::Access;

/// How long an error may last before it is told: many heal themselves at the next try.
const TOLERANCE: Duration = Duration::from_secs(10);

/// Nothing will come of it as it is.
#[derive(thiserror::Error, Debug)]
#[error("control plane {name:?} is not ready: {why}")]
pub struct Refused {
    name: String,
    why: String,
}

/// What one look at a control plane says.
#[derive(Clone, Debug, PartialEq)]
enum Look {
    /// Its API serves, and its kubeconfig is there.
    Usable(Box<Value>),
    /// The operator reports an error.
    Failing(String),
    /// It reports one that only a change can help.
    Refused(String),
    Gone,
}

fn look(object: Option<&Value>, for_hooks: bool) -> Result<Look, String> {
    let Some(object) = object else { return Ok(Look::Gone) };
    let ready = condition(object, "Ready");
    let serves = condition_status(object, "Ready") == "True"
        || !for_hooks && ready.is_some_and(|one| one["reason"] == "WaitingForPostCreateHooks");
    let reachable = type_of(object) == "host" || object["status"]["secretRef"]["name"].is_string();
    if serves && reachable {
        return Ok(Look::Usable(Box::new(object.clone())));
    }
    let said =
        |one: Option<&Value>| one.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned();
    if condition_status(object, "Refused") == "True" {
        return Ok(Look::Refused(said(condition(object, "Refused"))));
    }
    if condition_status(object, "Synced") == "False" {
        return Ok(Look::Failing(said(condition(object, "Synced"))));
    }
    let hooks = said(condition(object, "HooksCompleted").filter(|one| one["status"] == "False"));
    let ready = said(ready);
    Err(if ready.is_empty() || hooks.is_empty() { ready } else { format!("{ready}: {hooks}") })
}

/// Waits until a control plane is of use. `seen` is what is known of it already.
pub async fn usable(
    api: &Api,
    name: &str,
    seen: Option<Value>,
    for_hooks: bool,
    timeout: Duration,
) -> anyhow::Result<Value> {
    let mut waiting_for = String::new();
    let watched = tokio::time::timeout(timeout, async {
        let first = api.follow(api::CONTROL_PLANES, name, seen, |object| match look(object, for_hooks) {
            Ok(look) => Some(look),
            Err(why) => {
                waiting_for = why;
                None
            }
        });
        let mut error = match first.await? {
            Look::Failing(error) => error,
            other => return Ok(other),
        };
        let healed = api.follow(api::CONTROL_PLANES, name, None, |object| match look(object, for_hooks) {
            Ok(Look::Failing(why)) => {
                error = why;
                None
            }
            Ok(look) => Some(look),
            Err(_) => None,
        });
        match tokio::time::timeout(TOLERANCE, healed).await {
            Ok(healed) => healed,
            Err(_) => Ok(Look::Failing(error)),
        }
    });
    match watched.await {
        Ok(Ok(Look::Usable(object))) => Ok(*object),
        Ok(Ok(Look::Failing(why))) => bail!("control plane {name:?} is not ready: {why}"),
        Ok(Ok(Look::Refused(why))) => Err(Refused { name: name.to_owned(), why }.into()),
        Ok(Ok(Look::Gone)) => bail!("control plane {name:?} was deleted meanwhile"),
        Ok(Err(error)) => Err(error).with_context(|| format!("error waiting for control plane {name:?}")),
        Err(_) if waiting_for.is_empty() => bail!("control plane {name:?} is not ready after {timeout:?}"),
        Err(_) => bail!("control plane {name:?} is not ready after {timeout:?}: {waiting_for}"),
    }
}

/// Waits until a control plane and what it had in the hosting one are gone.
pub async fn gone(api: &Api, object: &Value, timeout: Duration) -> anyhow::Result<()> {
    let (name, uid) = (name_of(object), object["metadata"]["uid"].clone());
    let mut waiting_for = String::new();
    let watched = async {
        api.follow(api::CONTROL_PLANES, name, None, |object| {
            // One of the same name may have been made by somebody else meanwhile.
            let Some(object) = object.filter(|object| object["metadata"]["uid"] == uid) else {
                return Some(());
            };
            let deleting = condition(object, "Ready").filter(|one| one["reason"] == "Deleting");
            waiting_for = deleting.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned();
            None
        })
        .await?;
        let namespace = format!("{name}-system");
        let is_its = |owner: &Value| owner["uid"] == uid;
        let owned = |object: &&Value| {
            object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(is_its))
        };
        api.follow(api::NAMESPACES, &namespace, None, |object| object.filter(owned).is_none().then_some(()))
            .await
    };
    match tokio::time::timeout(timeout, watched).await {
        Ok(watched) => {
            watched.with_context(|| format!("error waiting for control plane {name:?} to be deleted"))
        }
        Err(_) if waiting_for.is_empty() => bail!("control plane {name:?} is not deleted after {timeout:?}"),
        Err(_) => bail!("control plane {name:?} is not deleted after {timeout:?}: {waiting_for}"),
    }
}

/// What is needed to reach a control plane, from the Secret that its status names.
pub async fn access(api: &Api, object: &Value) -> anyhow::Result<Access> {
    let name = name_of(object);
    let reference = &object["status"]["secretRef"];
    let field = |key: &str| reference[key].as_str().filter(|value| !value.is_empty());
    let (Some(namespace), Some(secret)) = (field("namespace"), field("name")) else {
        bail!("control plane {name:?} does not say where its kubeconfig is");
    };
    let found = api.get(api::SECRETS, namespace, secret).await.context("error loading kubeconfig")?;
    let found = found
        .with_context(|| format!("the Secret {namespace}/{secret} of control plane {name:?} is not there"))?;
    // Those of adopted clusters may have the in-cluster one only.
    let encoded = [field("key"), field("inClusterKey")]
        .into_iter()
        .flatten()
        .find_map(|key| found["data"][key].as_str().filter(|value| !value.is_empty()));
    let encoded = encoded.with_context(|| format!("the Secret {namespace}/{secret} has no kubeconfig"))?;
    let text =
        STANDARD.decode(encoded).with_context(|| format!("the Secret {namespace}/{secret} is damaged"))?;
    Access::read(&text)
        .with_context(|| format!("the kubeconfig in the Secret {namespace}/{secret} is of no use"))
}
