//! Tenants: made, found, listed, ended.

use bytes::{BufMut, Bytes, BytesMut};
use compact_str::CompactString;
use store::{Fence, Key, StoreError, Tenant, TenantId};

use crate::about::Row;
use crate::engine::Engine;
use crate::keys::Keys;
use crate::past::written_now;
use crate::reads::PAGE;
use crate::transaction::{absent, delete, exists, get, modified_at, put, range, value_is};
use crate::wire::{KeyValue, Step, Txn};

/// The id of the next tenant, as last seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    next: u64,
    /// The revision that wrote it; 0 while it was never written.
    modified: u64,
}

impl Counter {
    fn decode(kv: Option<KeyValue>) -> Result<Counter, StoreError> {
        let Some(kv) = kv else { return Ok(Counter { next: 1, modified: 0 }) };
        let next = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
        let next = next.ok_or_else(|| StoreError::Failed("the counter of tenants is damaged".into()))?;
        Ok(Counter { next, modified: kv.modified() })
    }
}

/// How often another replica may be first.
const TRIES: usize = 100;
/// What goes into one transaction: below etcd's 1.5 MiB with room for keys, and below its number of steps.
const LARGEST: usize = 1_200_000;
const LONGEST: usize = 20_000;

/// `ID newline RECORD`.
pub(crate) fn directory_row(id: TenantId, record: &[u8]) -> Bytes {
    let mut row = BytesMut::from(format!("{id}\n").as_bytes());
    row.put_slice(record);
    row.freeze()
}

fn tenant_of(name: &str, row: &Bytes) -> Result<Tenant, StoreError> {
    let damaged = || StoreError::Failed(format!("the directory's row of tenant {name:?} is damaged"));
    let end = row.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let id = std::str::from_utf8(&row[..end]).ok().and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
    Ok(Tenant { id: TenantId(id), name: name.into(), record: row.slice(end + 1..) })
}

impl Engine {
    pub(crate) async fn create(
        &self,
        fence: Option<&Fence>,
        name: &str,
        record: Bytes,
        mut entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(StoreError::Failed(format!("a tenant begins with {:?} twice", pair[0].0)));
        }
        let bytes: usize = entries.iter().map(|(key, value)| key.name.len() + value.len() + 100).sum();
        if bytes + record.len() > LARGEST || entries.len() > LONGEST {
            return self.create_in_steps(fence, name, record, entries).await;
        }
        let row = Row { name: name.into(), offset: 0, copied: false };
        let id = self
            .allocate(fence, name, |id| {
                let mut steps = vec![
                    put(&self.keys.name(name), directory_row(id, &record)),
                    put(&self.keys.about(id), row.encode()),
                ];
                for (key, value) in &entries {
                    steps.push(put(&self.keys.object(id, key)?, value.clone()));
                }
                steps.push(put(&self.keys.head(id), written_now()));
                Ok(steps)
            })
            .await?;
        Ok(Tenant { id, name: name.into(), record })
    }

    /// More than a transaction holds: as a copy, seen by nobody until it is whole. Like other copies it is not told
    /// key by key to those who follow all tenants.
    async fn create_in_steps(
        &self,
        fence: Option<&Fence>,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        let mut making = self.begin(name).await?;
        for (key, value) in entries {
            making.put(self.keys.object(making.id(), &key)?, value).await?;
        }
        making.publish(fence, name, record, 0).await
    }

    /// Takes a new id in the transaction that does `steps`, if the name is free.
    pub(crate) async fn allocate(
        &self,
        fence: Option<&Fence>,
        name: &str,
        steps: impl Fn(TenantId) -> Result<Vec<Step>, StoreError>,
    ) -> Result<TenantId, StoreError> {
        if name.is_empty() {
            return Err(StoreError::Failed("a tenant must have a name".into()));
        }
        let (taken, next) = (self.keys.name(name), self.keys.next());
        for _ in 0..TRIES {
            let mut counter = *self.counter.lock();
            if counter.next == 0 {
                let mut answer = self.link.read(Txn::read(vec![get(&next)])).await?;
                counter = Counter::decode(answer.get()?)?;
            }
            let id = TenantId(counter.next);
            let mut then = vec![put(&next, (counter.next + 1).to_string())];
            then.extend(steps(id)?);
            let compares = vec![absent(&taken), modified_at(&next, counter.modified)];
            let txn = Txn::new(compares, then, vec![get(&taken), get(&next)]);
            let txn =
                txn.ok_or_else(|| StoreError::Failed("the tenant begins with too many entries".into()))?;
            let mut answer = self.commit(fence, txn).await?;
            if answer.succeeded {
                *self.counter.lock() = Counter { next: counter.next + 1, modified: answer.revision };
                return Ok(id);
            }
            let exists = answer.get()?.is_some();
            *self.counter.lock() = Counter::decode(answer.get()?)?;
            if exists {
                return Err(StoreError::TenantExists { name: name.into() });
            }
        }
        Err(StoreError::Unavailable("too many tenants are being made at once".into()))
    }

    pub(crate) async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let mut answer = self.link.read(Txn::read(vec![get(&self.keys.name(name))])).await?;
        answer.get()?.map(|kv| tenant_of(name, &kv.value)).transpose()
    }

    pub(crate) async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        let about = match self.about(id).await {
            Err(StoreError::NoTenant) => return Ok(None),
            about => about?,
        };
        // Its name may have another tenant by now.
        Ok(self.tenant(&about.name).await?.filter(|tenant| tenant.id == id))
    }

    pub(crate) async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        let names = self.keys.names();
        let mut after: Option<CompactString> = after.map(Into::into);
        let wanted = if limit == 0 { usize::MAX } else { limit };
        let mut found = Vec::new();
        while found.len() < wanted {
            let span = after.as_ref().map_or(names.clone(), |after| names.after(&self.keys.name(after)));
            let page = PAGE.min(wanted - found.len());
            let mut answer = self.link.read_much(Txn::read(vec![range(&span, page, 0)])).await?;
            let kvs = answer.range()?.kvs;
            let last = kvs.len() < page;
            for kv in kvs {
                let name = std::str::from_utf8(&kv.key[names.from.len()..])
                    .map_err(|_| StoreError::Failed("a name in the directory is not UTF-8".into()))?;
                after = Some(name.into());
                found.push(tenant_of(name, &kv.value)?);
            }
            if last {
                break;
            }
        }
        Ok(found)
    }

    pub(crate) async fn update(
        &self,
        fence: Option<&Fence>,
        tenant: TenantId,
        record: Bytes,
    ) -> Result<(), StoreError> {
        let about = self.about(tenant).await?;
        let row = put(&self.keys.name(&about.name), directory_row(tenant, &record));
        let head = self.keys.head(tenant);
        let txn = Txn { compare: vec![exists(&head)], success: vec![row], failure: vec![get(&head)] };
        let mut answer = self.commit(fence, txn).await?;
        if answer.succeeded { Ok(()) } else { self.head(&about, &mut answer).map(drop) }
    }

    /// The same if the record is the one that is known.
    pub(crate) async fn replace(
        &self,
        fence: Option<&Fence>,
        tenant: &Tenant,
        record: Bytes,
    ) -> Result<bool, StoreError> {
        let about = self.about(tenant.id).await?;
        let name = self.keys.name(&about.name);
        let head = self.keys.head(tenant.id);
        let known = directory_row(tenant.id, &tenant.record);
        let compare = vec![exists(&head), value_is(&name, &known)];
        let row = put(&name, directory_row(tenant.id, &record));
        let txn = Txn { compare, success: vec![row], failure: vec![get(&head)] };
        let mut answer = self.commit(fence, txn).await?;
        if !answer.succeeded {
            // There is another record, or nobody any more.
            self.head(&about, &mut answer)?;
        }
        Ok(answer.succeeded)
    }

    /// Gone from the directory and for every reader at once; its objects go in the background.
    pub(crate) async fn delete(&self, fence: Option<&Fence>, tenant: TenantId) -> Result<(), StoreError> {
        let about = self.about(tenant).await?;
        let Keyed { name, about: row, head } = Keyed::new(&self.keys, &about.name, tenant);
        let success =
            vec![delete(&name), delete(&row), delete(&head), put(&self.keys.removing(tenant), Bytes::new())];
        let txn = Txn { compare: vec![exists(&head)], success, failure: vec![get(&head)] };
        let mut answer = self.commit(fence, txn).await?;
        if !answer.succeeded {
            return self.head(&about, &mut answer).map(drop);
        }
        self.known.remove(&tenant);
        self.chores.notify_one();
        Ok(())
    }
}

/// The keys that make a tenant one.
pub(crate) struct Keyed {
    pub name: Bytes,
    pub about: Bytes,
    pub head: Bytes,
}

impl Keyed {
    pub(crate) fn new(keys: &Keys, name: &str, tenant: TenantId) -> Keyed {
        Keyed { name: keys.name(name), about: keys.about(tenant), head: keys.head(tenant) }
    }
}
