//! What of a tenant's past can be read.
//!
//! etcd compacts all tenants at one revision. A tenant that did not change for a while before that has lost nothing by
//! it: its state then is its state at the revision compacted, which etcd keeps. So an idle tenant's watches resume,
//! and its pages are read on, however often the others made etcd compact.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use store::{Revision, StoreError, TenantId};

use crate::about::About;
use crate::engine::Engine;
use crate::keys::{Span, successor};
use crate::link::Fault;
use crate::transaction::range;
use crate::wire::Txn;

/// How often compaction may go on while it is looked at.
const TRIES: usize = 3;

/// What a head says: when it was written, in milliseconds of Unix time.
pub(crate) fn written_now() -> Bytes {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().to_string().into()
}

fn written_at(head: &[u8]) -> SystemTime {
    let millis = std::str::from_utf8(head).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_millis(millis)
}

impl Engine {
    /// etcd's revision that can be read and shows the tenant as it was at `etcds`, which is known to be compacted.
    pub(crate) async fn same_state(&self, about: &About, etcds: u64) -> Result<u64, StoreError> {
        let head = self.keys.head(about.id);
        let head = Span { to: successor(&head), from: head };
        let mut compacted = self.compacted();
        for _ in 0..TRIES {
            if compacted <= etcds {
                // Then it was somebody else who compacted.
                compacted = self.find_compaction().await?;
                if compacted <= etcds {
                    return Ok(etcds);
                }
            }
            let kv = match self.link.read(Txn::read(vec![range(&head, 1, compacted)])).await {
                Err(Fault::Compacted) => {
                    compacted = self.find_compaction().await?;
                    continue;
                }
                answer => answer?.get()?,
            };
            let last = kv.map_or(about.birth, |kv| kv.modified());
            if last <= etcds {
                return Ok(compacted);
            }
            return Err(StoreError::Compacted { asked: about.revision(etcds), oldest: about.revision(last) });
        }
        Err(StoreError::Unavailable("etcd is compacted faster than it can be read".into()))
    }

    /// Why a revision that is none of the tenant's cannot be read.
    pub(crate) async fn never_was(&self, about: &About, asked: Revision) -> StoreError {
        let current = match self.read_head(about).await {
            Ok(head) => about.revision(head),
            Err(error) => return error,
        };
        if asked > current {
            return StoreError::Future { asked, current };
        }
        // From before its beginning.
        if self.compacted() <= about.birth {
            return StoreError::Compacted { asked, oldest: about.first() };
        }
        match self.same_state(about, about.birth).await {
            Ok(_) => StoreError::Compacted { asked, oldest: about.first() },
            Err(StoreError::Compacted { oldest, .. }) => StoreError::Compacted { asked, oldest },
            Err(error) => error,
        }
    }

    /// The revision that was current at a moment: that of the last head written by then. Found by halving, since etcd
    /// reads a head as of any revision it keeps.
    pub(crate) async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Revision, StoreError> {
        let about = self.about(tenant).await?;
        let newest = self.read_head(&about).await?;
        let head = self.keys.head(tenant);
        let at = Span { to: successor(&head), from: head };
        // The oldest revision that can be read, and the last that may be the one.
        let (mut low, mut high) = (about.birth.max(self.compacted()), newest);
        let mut found = None;
        while low <= high {
            let middle = low + (high - low).div_ceil(2);
            // The present is readable whatever was compacted.
            let revision = if middle == newest { 0 } else { middle };
            let kv = match self.link.read(Txn::read(vec![range(&at, 1, revision)])).await {
                Err(Fault::Compacted) => {
                    low = self.find_compaction().await?.max(middle + 1);
                    continue;
                }
                answer => answer?.get()?.ok_or(StoreError::NoTenant)?,
            };
            if written_at(&kv.value) <= moment {
                found = Some(kv.modified());
                low = middle + 1;
            } else {
                high = kv.modified() - 1;
            }
        }
        let oldest = || StoreError::Compacted { asked: Revision(0), oldest: about.revision(low.min(newest)) };
        found.map(|etcds| about.revision(etcds)).ok_or_else(oldest)
    }
}
