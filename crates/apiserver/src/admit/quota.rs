//! Quota: what an object uses is charged in the transaction that writes it, so that two writers cannot both have
//! the last of something.

use admission::quota;
use objects::Value;
use store::{Expect, Key, Operation, Scope};

use super::{Change, refused};
use crate::call::Call;
use crate::codec::SchemaTag;
use crate::read;
use crate::service::Failure;

pub const QUOTAS: &str = "resourcequotas";

pub async fn charge(
    call: &Call,
    object: &Value,
    change: Change<'_>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    if !call.row.ty.is_namespaced() {
        return Ok(());
    }
    // Most control planes have none, and a count is much cheaper than a look at all of nothing.
    if call.engine.store.count(call.plane.id, &Scope::Kind(QUOTAS.into())).await? == 0 {
        return Ok(());
    }
    let found = read::objects(&call.engine, &call.plane, QUOTAS, &call.target.namespace).await?;
    if found.is_empty() {
        return Ok(());
    }
    let (mut quotas, revisions): (Vec<Value>, Vec<_>) = found.into_iter().unzip();
    let resource = call.group_resource();
    let subresource = match change {
        Change::Create => "",
        Change::Update { part, .. } => part.subresource(),
    };
    let request = quota::Request {
        resource: &resource,
        subresource,
        operation: change.operation(),
        object,
        old: change.old(),
    };
    let charges =
        quota::check(&request, &quotas, call.now).map_err(|refusal| refused(call, object, refusal))?;
    for charge in charges {
        let Some(quota) = quotas.get_mut(charge.quota) else { continue };
        quota["status"]["used"] = charge.used.to_value();
        let key = Key::new(QUOTAS, call.target.namespace.clone(), objects::meta::name(quota));
        let value = call.plane.codec.encode(&key, quota, SchemaTag::default())?;
        operations.push(Operation::Put { key, expect: Expect::Modified(revisions[charge.quota]), value });
    }
    Ok(())
}
