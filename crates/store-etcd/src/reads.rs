//! Reads of one tenant. All are linearizable, and all look at the tenant's head in the same transaction: it says that
//! the tenant is there, and at which revision.

use bytes::Bytes;
use store::{Entry, Key, Page, Revision, Scope, StoreError, TenantId};

use crate::about::About;
use crate::engine::Engine;
use crate::keys::Span;
use crate::link::Fault;
use crate::transaction::{Answer, count, get, modified_at, range};
use crate::wire::{KeyValue, RangeResponse, Txn, unsigned};

/// Entries read from etcd at a time: a range of any size is read in pages of one revision.
pub(crate) const PAGE: usize = 500;
/// How often a read is begun anew when compaction overtakes it.
const TRIES: usize = 3;

/// The first page of a span, and how to read on.
pub(crate) struct First {
    /// The tenant's revision, now and on the page.
    pub current: Revision,
    pub revision: Revision,
    pub kvs: Vec<KeyValue>,
    /// All that the span has.
    pub count: u64,
    /// etcd's revision that shows the same.
    pub pinned: u64,
}

impl First {
    fn new(
        current: Revision,
        revision: Revision,
        found: RangeResponse,
        pinned: u64,
    ) -> Result<First, StoreError> {
        Ok(First { current, revision, count: unsigned(found.count), kvs: found.kvs, pinned })
    }
}

impl Engine {
    /// The head of a tenant that lives, from an answer that begins with it.
    pub(crate) fn head(&self, about: &About, answer: &mut Answer) -> Result<u64, StoreError> {
        match answer.get()? {
            Some(kv) => Ok(kv.modified()),
            None => {
                self.known.remove(&about.id);
                Err(StoreError::NoTenant)
            }
        }
    }

    /// etcd's revision of the tenant's last transaction.
    pub(crate) async fn read_head(&self, about: &About) -> Result<u64, StoreError> {
        let mut answer = self.link.read(Txn::read(vec![get(&self.keys.head(about.id))])).await?;
        self.head(about, &mut answer)
    }

    pub(crate) async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        let object = self.keys.object(tenant, key)?;
        let about = self.about(tenant).await?;
        let txn = Txn::read(vec![get(&self.keys.head(tenant)), get(&object)]);
        let mut answer = self.link.read(txn).await?;
        self.head(&about, &mut answer)?;
        Ok(answer.get()?.and_then(|kv| self.entry(&about, kv)))
    }

    pub(crate) async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        let span = self.keys.scope(tenant, scope)?;
        let about = self.about(tenant).await?;
        let txn = Txn::read(vec![get(&self.keys.head(tenant)), count(&span)]);
        let mut answer = self.link.read(txn).await?;
        self.head(&about, &mut answer)?;
        Ok(unsigned(answer.range()?.count))
    }

    pub(crate) async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut span = self.keys.scope(tenant, scope)?;
        if let Some(after) = after {
            span = span.after(&self.keys.object(tenant, after)?);
        }
        let about = self.about(tenant).await?;
        let mut tries = 0;
        loop {
            match self.whole_range(&about, &span, at, limit).await {
                // A page of the present that took so long that its revision is gone: there is a newer present.
                Err(StoreError::Compacted { .. }) if at.is_none() && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    async fn whole_range(
        &self,
        about: &About,
        span: &Span,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let wanted = if limit == 0 { usize::MAX } else { limit };
        let first = self.first_page(about, span, at, wanted.min(PAGE)).await?;
        let mut kvs = first.kvs;
        while kvs.len() < wanted && (kvs.len() as u64) < first.count {
            let Some(last) = kvs.last().map(|kv| kv.key.clone()) else { break };
            let limit = (wanted - kvs.len()).min(PAGE);
            let page = self.next_page(about, span, &last, first.pinned, limit).await?;
            if page.is_empty() {
                break;
            }
            kvs.extend(page);
        }
        let remaining = first.count.saturating_sub(kvs.len() as u64);
        let entries = kvs.into_iter().filter_map(|kv| self.entry(about, kv)).collect();
        Ok(Page { revision: first.revision, entries, more: remaining > 0, remaining: Some(remaining) })
    }

    /// Reads at a revision that is the tenant's, has happened, and is kept.
    pub(crate) async fn first_page(
        &self,
        about: &About,
        span: &Span,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<First, StoreError> {
        // etcd refuses a span that is none.
        let empty = Span { from: Bytes::from_static(b"\0"), to: Bytes::from_static(b"\0\0") };
        let span = if span.is_empty() { &empty } else { span };
        let head = self.keys.head(about.id);
        let now = vec![get(&head), range(span, limit, 0)];
        let Some(at) = at else {
            let mut answer = self.link.read_much(Txn::read(now)).await?;
            let current = about.revision(self.head(about, &mut answer)?);
            let pinned = answer.revision;
            return First::new(current, current, answer.range()?, pinned);
        };
        let Some(asked) = about.etcds(at) else { return Err(self.never_was(about, at).await) };
        let mut read_at = asked;
        for _ in 0..TRIES {
            let txn = Txn {
                // While the tenant stands where it is asked about, the present shows that, whatever was compacted.
                compare: vec![modified_at(&head, asked)],
                success: now.clone(),
                failure: vec![get(&head), range(span, limit, read_at)],
            };
            let mut answer = match self.link.read_much(txn).await {
                Err(Fault::Compacted) => {
                    read_at = self.same_state(about, asked).await?;
                    continue;
                }
                Err(Fault::Future) => return Err(self.never_was(about, at).await),
                answer => answer?,
            };
            let current = about.revision(self.head(about, &mut answer)?);
            if at > current {
                return Err(StoreError::Future { asked: at, current });
            }
            let pinned = if answer.succeeded { answer.revision } else { read_at };
            return First::new(current, at, answer.range()?, pinned);
        }
        Err(StoreError::Unavailable("etcd is compacted faster than it can be read".into()))
    }

    pub(crate) async fn next_page(
        &self,
        about: &About,
        span: &Span,
        after: &[u8],
        pinned: u64,
        limit: usize,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let txn = Txn::read(vec![range(&span.after(after), limit, pinned)]);
        match self.link.read_much(txn).await {
            Err(Fault::Compacted) => {
                let oldest = self.find_compaction().await?;
                Err(StoreError::Compacted { asked: about.revision(pinned), oldest: about.revision(oldest) })
            }
            answer => Ok(answer?.range()?.kvs),
        }
    }
}
