//! One object.

use crate::call::{Call, revision};
use crate::present;
use crate::read;
use crate::service::Answer;

pub async fn get(call: &Call) -> Answer {
    let options = call.list_options()?;
    let name = &call.target.name;
    if let Some(asked) = revision(&options.resource_version)?
        && asked > 0
    {
        let current = call.engine.store.revision(call.plane.id).await?;
        if asked > current.0 {
            return Err(crate::engine::too_large(asked, current.0).into());
        }
    }
    let entry = call.engine.store.get(call.plane.id, &call.key(name)).await?;
    let entry = entry.ok_or_else(|| call.not_found(name))?;
    let stored = read::stored(call, &entry)?;
    present::stored(call, 200, &stored).await
}
