//! What a whole control plane may keep, decided by whoever made it.
//!
//! Unlike a `ResourceQuota` it is not charged in the transaction: writers at the same moment may pass the limit by
//! as many objects as there are writers, and the next one is refused.

use objects::{Status, Value, meta};
use store::Scope;

use super::Change;
use crate::call::Call;
use crate::owners;
use crate::service::Failure;

/// Kinds without which a control plane that is full could not be worked with: they are short-lived and bounded.
const EXEMPT: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

pub async fn check(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    let quota = &call.plane.charter.quota;
    if (quota.objects.is_none() && quota.bytes.is_none())
        || !change.is_main()
        || EXEMPT.contains(&call.row.storage_kind.as_str())
    {
        return Ok(());
    }
    let (store, plane) = (&call.engine.store, call.plane.id);
    if let Some(limit) = quota.objects
        && matches!(change, Change::Create)
    {
        let all = store.count(plane, &Scope::All).await?;
        let index = store.count(plane, &Scope::Kind(owners::KIND.into())).await?;
        let used = all.saturating_sub(index);
        if used >= limit {
            return Err(exceeded(call, object, format!("objects used: {used}, limited: {limit}")));
        }
    }
    if let Some(limit) = quota.bytes
        && grows(object, change)
    {
        let used = store.size(plane).await?;
        if used >= limit {
            return Err(exceeded(call, object, format!("bytes used: {used}, limited: {limit}")));
        }
    }
    Ok(())
}

/// Making something smaller is how one gets below a limit again.
fn grows(object: &Value, change: Change<'_>) -> bool {
    change.old().is_none_or(|old| object.to_string().len() > old.to_string().len())
}

fn exceeded(call: &Call, object: &Value, what: String) -> Failure {
    let why = format!("exceeded quota of control plane {:?}: {what}", call.plane.name);
    Status::forbidden(&call.group_resource(), meta::name(object), why).into()
}
