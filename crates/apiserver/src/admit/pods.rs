//! What is decided about pods besides what they say themselves.

use admission::{limit_ranger, pod_security, priority, runtime_class, service_account, tolerations};
use objects::{Value, meta};

use super::{Change, STORAGE_CLASSES, refused};
use crate::call::Call;
use crate::service::Failure;
use crate::write::Part;
use crate::{lifecycle, read};

pub const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const RUNTIME_CLASSES: &str = "runtimeclasses.node.k8s.io";

pub async fn mutate(call: &Call, pod: &mut Value, change: Change<'_>) -> Result<(), Failure> {
    let (engine, plane, namespace) = (&call.engine, &call.plane, &call.target.namespace);
    match change {
        Change::Create => {
            let ranges = limit_ranges(call).await?;
            limit_ranger::default_pod(pod, &ranges);
            let account = match service_account::needed_by(pod) {
                Some(name) => read::object(engine, plane, "serviceaccounts", namespace, name).await?,
                None => None,
            };
            service_account::admit_pod(pod, namespace, account.as_ref(), rand::random())
                .map_err(|refusal| refused(call, pod, refusal))?;
            let class = match priority::class_of(pod) {
                Some(name) => read::object(engine, plane, PRIORITY_CLASSES, "", name).await?,
                None => {
                    let classes = read::objects(engine, plane, PRIORITY_CLASSES, "").await?;
                    priority::default_class(classes.iter().map(|(class, _)| class)).cloned()
                }
            };
            priority::admit_pod(pod, class.as_ref()).map_err(|refusal| refused(call, pod, refusal))?;
            let class = runtime(call, pod).await?;
            runtime_class::admit_pod(pod, class.as_ref()).map_err(|refusal| refused(call, pod, refusal))?;
            tolerations::default_pod(pod);
        }
        Change::Update { old, part: Part::Main } => {
            priority::keep_on_update(pod, old);
            tolerations::default_pod(pod);
        }
        Change::Update { .. } => {}
    }
    Ok(())
}

async fn runtime(call: &Call, pod: &Value) -> Result<Option<Value>, Failure> {
    match runtime_class::class_of(pod) {
        Some(name) => read::object(&call.engine, &call.plane, RUNTIME_CLASSES, "", name).await,
        None => Ok(None),
    }
}

async fn limit_ranges(call: &Call) -> Result<Vec<Value>, Failure> {
    let ranges = read::objects(&call.engine, &call.plane, "limitranges", &call.target.namespace).await?;
    Ok(ranges.into_iter().map(|(range, _)| range).collect())
}

/// Pods and claims against the rules of their namespace.
pub async fn validate(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    let kind = call.row.ty.kind.as_str();
    let subresource = match change {
        Change::Create => "",
        Change::Update { part, .. } => part.subresource(),
    };
    if limit_ranger::handles(kind, subresource, change.operation(), change.old()) {
        let ranges = limit_ranges(call).await?;
        limit_ranger::validate(object, &ranges).map_err(|refusal| refused(call, object, refusal))?;
    }
    if kind == "PersistentVolumeClaim" {
        return validate_claim(call, object, change).await;
    }
    if let Change::Create = change {
        let class = runtime(call, object).await?;
        runtime_class::validate_pod(object, class.as_ref())
            .map_err(|refusal| refused(call, object, refusal))?;
    }
    let concerns = change.old().is_none_or(|old| pod_security::concerns_update(object, old));
    if concerns && (change.is_main() || subresource == "ephemeralcontainers") {
        let policy = pod_security::Policy::of(&namespace(call).await?);
        let notes =
            pod_security::check_pod(&policy, object).map_err(|refusal| refused(call, object, refusal))?;
        tell(call, notes);
    }
    Ok(())
}

async fn validate_claim(call: &Call, claim: &Value, change: Change<'_>) -> Result<(), Failure> {
    let Change::Update { old, part: Part::Main } = change else { return Ok(()) };
    let class = match claim.pointer("/spec/storageClassName").and_then(Value::as_str) {
        Some(name) => read::object(&call.engine, &call.plane, STORAGE_CLASSES, "", name).await?,
        None => None,
    };
    let checked = admission::storage::check_resize(claim, old, class.as_ref());
    checked.map_err(|refusal| refused(call, claim, refusal))
}

async fn namespace(call: &Call) -> Result<Value, Failure> {
    let found =
        read::object(&call.engine, &call.plane, lifecycle::NAMESPACES, "", &call.target.namespace).await?;
    Ok(found.unwrap_or_default())
}

/// Workloads whose pods the namespace would refuse are accepted with a warning.
pub async fn warn_workload(call: &Call, object: &Value) -> Result<(), Failure> {
    let makes_pods = matches!(call.row.ty.group.as_str(), "apps" | "batch")
        || meta::kind(object) == "ReplicationController";
    if !makes_pods {
        return Ok(());
    }
    let policy = pod_security::Policy::of(&namespace(call).await?);
    tell(call, pod_security::check_workload(&policy, object));
    Ok(())
}

fn tell(call: &Call, notes: pod_security::Notes) {
    notes.warnings.into_iter().for_each(|warning| call.warn(warning));
    notes
        .audit
        .into_iter()
        .for_each(|(key, text)| call.note(format!("pod-security.kubernetes.io/{key}"), text));
}
