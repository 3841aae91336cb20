//! Volumes and claims do not go while they are used.

use async_trait::async_trait;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};

use crate::resource::Resource;

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// What is to be done about the finalizer of an object.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Add,
    /// If it is not used any more.
    Remove,
}

fn wanted(object: &Value, finalizer: &str) -> Wanted {
    let has = meta::finalizers(object).any(|one| one == finalizer);
    match (meta::is_deleting(object), has) {
        (false, false) => Wanted::Add,
        (true, true) => Wanted::Remove,
        _ => Wanted::Nothing,
    }
}

/// Writes the object with its finalizer added or removed.
async fn write(
    resource: &Resource<'_>,
    mut object: Value,
    finalizer: &str,
    add: bool,
) -> Result<Next, Error> {
    let mut finalizers: Vec<Value> =
        meta::finalizers(&object).filter(|one| *one != finalizer).map(Value::from).collect();
    if add {
        finalizers.push(finalizer.into());
    }
    meta::set(&mut object, "finalizers", Value::Array(finalizers));
    let name = meta::name(&object).to_owned();
    match resource.replace(&name, "", &object).await {
        Err(error) if error.code() != Some(404) => Err(error),
        _ => Ok(Next::Done),
    }
}

/// Claims stay while a scheduled pod names them.
pub struct ClaimProtection;

#[async_trait]
impl Controller for ClaimProtection {
    fn name(&self) -> &'static str {
        "pvc-protection-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([CLAIMS, "pods"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let gone = event.change == Change::Deleted;
        let names_claims = || event.mentions("\"persistentVolumeClaim\"") || event.mentions("\"ephemeral\"");
        if event.is_of("pods") && !names_claims() {
            return;
        }
        let Some(object) = event.object() else { return };
        if event.is_of(CLAIMS) {
            if !gone && wanted(object, CLAIM_FINALIZER) != Wanted::Nothing {
                triggers.now(event.key.clone());
            }
        } else if gone || is_terminated(object) || !is_scheduled(object) {
            for (claim, _) in claims_of(object) {
                triggers.now(Key::new(CLAIMS, event.key.namespace.clone(), claim));
            }
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Key { namespace, name, .. } = &request.key;
        let Some(claim) = context.get(CLAIMS, namespace, name).await? else { return Ok(Next::Done) };
        let resource = Resource::core(context.client(), namespace, CLAIMS);
        match wanted(&claim, CLAIM_FINALIZER) {
            Wanted::Nothing => Ok(Next::Done),
            Wanted::Add => write(&resource, claim, CLAIM_FINALIZER, true).await,
            Wanted::Remove => {
                let pods = context.list("pods", namespace).await?;
                if pods.iter().any(|pod| uses(pod, &claim)) {
                    return Ok(Next::Done);
                }
                write(&resource, claim, CLAIM_FINALIZER, false).await
            }
        }
    }
}

/// The claims a pod names, and whether each is the pod's own, made for an ephemeral volume.
fn claims_of(pod: &Value) -> impl Iterator<Item = (String, bool)> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    volumes.into_iter().flatten().filter_map(|volume| {
        if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
            return Some((claim.to_owned(), false));
        }
        let name = volume.get("name").and_then(Value::as_str)?;
        let ephemeral = volume.get("ephemeral").is_some_and(|ephemeral| !ephemeral.is_null());
        ephemeral.then(|| (format!("{}-{name}", meta::name(pod)), true))
    })
}

fn is_scheduled(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

fn is_terminated(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed") || is_shut_down(pod)
}

/// The kubelet is done with it, or it was deleted by force.
fn is_shut_down(pod: &Value) -> bool {
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    meta::is_deleting(pod) && grace == Some(0)
}

fn uses(pod: &Value, claim: &Value) -> bool {
    let is_the_pods = || {
        meta::owner_references(claim).iter().any(|owner| {
            owner["uid"] == meta::uid(pod) && owner["controller"] == true && !meta::uid(pod).is_empty()
        })
    };
    is_scheduled(pod)
        && claims_of(pod)
            .filter(|(name, _)| name == meta::name(claim))
            .any(|(_, own)| !own || (!is_shut_down(pod) && is_the_pods()))
}

/// Volumes stay while a claim is bound to them.
pub struct VolumeProtection;

#[async_trait]
impl Controller for VolumeProtection {
    fn name(&self) -> &'static str {
        "pv-protection-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([VOLUMES])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let gone = event.change == Change::Deleted;
        if !gone && event.object().is_some_and(|volume| wanted(volume, VOLUME_FINALIZER) != Wanted::Nothing) {
            triggers.now(event.key.clone());
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Some(volume) = context.get(VOLUMES, "", &request.key.name).await? else { return Ok(Next::Done) };
        let resource = Resource::core(context.client(), "", VOLUMES);
        let bound = volume.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
        match wanted(&volume, VOLUME_FINALIZER) {
            Wanted::Add => write(&resource, volume, VOLUME_FINALIZER, true).await,
            Wanted::Remove if !bound => write(&resource, volume, VOLUME_FINALIZER, false).await,
            _ => Ok(Next::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finalizers_wanted() {
        let check = |deleting: bool, finalizers: Value, expected: Wanted| {
            let stamp = if deleting { json!("2030-01-01T00:00:00Z") } else { Value::Null };
            let object = json!({"metadata": {"deletionTimestamp": stamp, "finalizers": finalizers}});
            assert_eq!(wanted(&object, "x"), expected);
        };
        check(false, json!([]), Wanted::Add);
        check(false, json!(["y", "x"]), Wanted::Nothing);
        check(true, json!(["x"]), Wanted::Remove);
        check(true, json!(["y"]), Wanted::Nothing);
    }

    #[test]
    fn use_of_claims() {
        let check = |node: &str, volume: Value, owner: &str, expected: bool| {
            let pod = json!({
                "metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": node, "volumes": [volume]},
            });
            let owners = json!([{"uid": owner, "controller": true}]);
            let claim = json!({"metadata": {"name": "p-data", "ownerReferences": owners}});
            assert_eq!(uses(&pod, &claim), expected, "{node} {owner}");
        };
        let named = json!({"name": "v", "persistentVolumeClaim": {"claimName": "p-data"}});
        check("n", named.clone(), "", true);
        check("", named, "", false);
        check("n", json!({"name": "data", "ephemeral": {}}), "u", true);
        check("n", json!({"name": "data", "ephemeral": {}}), "other", false);
        check("n", json!({"name": "data", "emptyDir": {}}), "u", false);
    }
}
