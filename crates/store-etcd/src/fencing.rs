//! Transactions that commit, for a fenced handle only while the fence stands.

use store::{Fence, StoreError};

use crate::engine::Engine;
use crate::transaction::{Answer, exists};
use crate::wire::{Compare, Txn};
use crate::write::written_by;

impl Engine {
    pub(crate) async fn commit(&self, fence: Option<&Fence>, txn: Txn) -> Result<Answer, StoreError> {
        let Some(fence) = fence else { return Ok(Answer::new(self.link.write(txn).await?)) };
        let response = self.link.write(txn.behind(self.standing(fence).await?)).await?;
        Answer::within_fence(response)?.ok_or(StoreError::Fenced)
    }

    /// What holds while a fence stands.
    async fn standing(&self, fence: &Fence) -> Result<Vec<Compare>, StoreError> {
        let about = match self.about(fence.tenant).await {
            Err(StoreError::NoTenant) => return Err(StoreError::Fenced),
            about => about?,
        };
        let mut compares = written_by(&about, &self.keys.object(fence.tenant, &fence.key)?, fence.modified);
        compares.push(exists(&self.keys.head(fence.tenant)));
        Ok(compares)
    }
}
