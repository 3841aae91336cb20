//! Which store a process keeps control planes in, by what it was told: the only place that knows the engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use auth::Secret;
use store::cached;
use store::{Entry, Expect, Operation, Retention, Scope, Store, StoreError, TenantId};

use crate::files;

/// A store, as it is named on the command line.
#[derive(Clone, Debug)]
pub enum Place {
    Embedded(PathBuf),
    /// By its connection string; all tables are in one schema.
    Postgres {
        address: Secret<String>,
        schema: Option<String>,
    },
    Etcd(store_etcd::Config),
}

impl Place {
    /// Whether other processes may be using it at the same time.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Place::Embedded(_))
    }
}

/// What a store is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `embedded`, `embedded:DIR`, or the address of a server. It may hold a password.
    pub address: Option<Secret<String>>,
    /// The part of it that is this process's alone: a directory, a schema of PostgreSQL, a prefix of etcd.
    pub room: Option<String>,
}

const KNOWN: &str = "use embedded, embedded:DIR, postgres://... or etcd://...";

impl Wanted {
    pub fn new(address: Option<String>, room: Option<String>) -> Self {
        Wanted { address: address.map(Secret::new), room }
    }

    /// Where that is. Nothing is opened yet.
    pub fn place(&self, data_dir: &Path) -> anyhow::Result<Place> {
        let address = self.address.as_ref().map_or("embedded", |address| address.expose().as_str());
        let inside = |dir: PathBuf| match &self.room {
            Some(room) => dir.join(room),
            None => dir,
        };
        match address.split_once(':') {
            None if address == "embedded" => Ok(Place::Embedded(inside(data_dir.join("store")))),
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Place::Embedded(inside(dir.into()))),
            Some(("postgres" | "postgresql", _)) => {
                Ok(Place::Postgres { address: Secret::new(address.to_owned()), schema: self.room.clone() })
            }
            Some(("etcd" | "etcds", _)) => {
                let mut config = store_etcd::Config::parse(address)?;
                if let Some(room) = &self.room {
                    config.prefix = format!("{}/{room}", config.prefix.trim_end_matches('/'));
                }
                Ok(Place::Etcd(config))
            }
            // What comes after the name may be a password.
            Some((scheme, rest)) if rest.starts_with("//") => {
                bail!("--store {scheme}: this version has no store of that kind: {KNOWN}")
            }
            _ => bail!("--store {address:?} is not known: {KNOWN}"),
        }
    }
}

/// Opens a store and makes it if it is not there. What is read from another machine is also kept in memory, in so many
/// MiB or as many as are usual.
pub async fn open(place: &Place, read_cache: Option<usize>) -> anyhow::Result<Arc<dyn Store>> {
    let engine = open_engine(place).await?;
    let mut options = cached::Options::default();
    if let Some(mib) = read_cache {
        options.bytes = mib.saturating_mul(1 << 20);
    }
    if !place.is_shared() || options.bytes == 0 {
        return Ok(engine);
    }
    Ok(Arc::new(cached::Cached::new(engine, options)))
}

async fn open_engine(place: &Place) -> anyhow::Result<Arc<dyn Store>> {
    match place {
        Place::Embedded(dir) => {
            files::private_dir(dir)?;
            Ok(Arc::new(store::embedded::Embedded::open(dir, store::embedded::Options::default())?))
        }
        Place::Postgres { address, schema } => {
            let mut options = store_postgres::Options::default();
            if let Some(schema) = schema {
                options.schema.clone_from(schema);
            }
            Ok(Arc::new(store_postgres::Postgres::open(address.expose(), options).await?))
        }
        Place::Etcd(config) => {
            Ok(Arc::new(store_etcd::Etcd::open(config, store_etcd::Options::default()).await?))
        }
    }
}

/// Control planes, or entries of one, looked at together: as many as every engine takes in one transaction.
const PAGE: usize = 100;

/// Takes every control plane out of a part of a shared store, and what they were. Engines do so in the background,
/// and nobody will open this part again to let them.
pub async fn empty(wanted: &Wanted) -> anyhow::Result<()> {
    let store = open_engine(&wanted.place(Path::new("."))?).await?;
    let emptied = empty_store(store.as_ref()).await;
    store.close().await;
    Ok(emptied?)
}

async fn empty_store(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let page = store.tenants(None, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for tenant in page {
            match empty_tenant(store, tenant.id).await {
                Ok(()) | Err(StoreError::NoTenant) => {}
                Err(error) => return Err(error),
            }
        }
    }
    store.compact(Retention { age: Duration::ZERO, bytes: 0 }).await
}

async fn empty_tenant(store: &dyn Store, tenant: TenantId) -> Result<(), StoreError> {
    loop {
        let page = store.range(tenant, &Scope::All, None, None, PAGE).await?;
        if page.entries.is_empty() {
            return store.delete_tenant(tenant).await;
        }
        let delete = |entry: Entry| Operation::Delete { key: entry.key, expect: Expect::Any };
        store.write(tenant, page.entries.into_iter().map(delete).collect()).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_left_of_a_part_that_was_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("embedded:{}", dir.path().display());
        let wanted = Wanted::new(Some(address), Some("part".to_owned()));
        let store = open_engine(&wanted.place(Path::new("/")).unwrap()).await.unwrap();
        let entry = |number: usize| (store::Key::new("things", "", format!("{number}")), "x".into());
        for tenant in ["a", "b"] {
            store.create_tenant(tenant, "r".into(), (0..PAGE * 2 + 1).map(entry).collect()).await.unwrap();
        }
        let old = store.tenant("a").await.unwrap().unwrap().id;
        store.close().await;
        drop(store);
        empty(&wanted).await.unwrap();
        let store = open_engine(&wanted.place(Path::new("/")).unwrap()).await.unwrap();
        assert_eq!(store.tenants(None, PAGE).await.unwrap().len(), 0);
        assert!(matches!(store.count(old, &Scope::All).await, Err(StoreError::NoTenant)));
        store.close().await;
    }

    #[test]
    fn places() {
        let check = |address: Option<&str>, room: Option<&str>, expected: Result<&str, &str>| {
            let wanted = Wanted::new(address.map(str::to_owned), room.map(str::to_owned));
            let place = match wanted.place(Path::new("/data")) {
                Ok(Place::Embedded(dir)) => Ok(dir.display().to_string()),
                Ok(Place::Postgres { address, schema }) => Ok(format!("{} {schema:?}", address.expose())),
                Ok(Place::Etcd(config)) => Ok(format!("{:?} {}", config.endpoints, config.prefix)),
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(place.as_deref().map_err(String::as_str), expected, "{address:?}");
        };
        check(None, None, Ok("/data/store"));
        check(Some("embedded"), None, Ok("/data/store"));
        check(Some("embedded:/x/y"), None, Ok("/x/y"));
        check(Some("embedded:/x"), Some("a"), Ok("/x/a"));
        check(Some("postgres://me@db/x"), Some("a"), Ok("postgres://me@db/x Some(\"a\")"));
        check(Some("etcd://one:1,two:2"), None, Ok("[\"one:1\", \"two:2\"] /hangar"));
        check(Some("etcd://one:1/p"), Some("a"), Ok("[\"one:1\"] /p/a"));
        let known = "use embedded, embedded:DIR, postgres://... or etcd://...";
        check(Some("embedded:"), None, Err(&format!("--store \"embedded:\" is not known: {known}")));
        check(Some("elsewhere"), None, Err(&format!("--store \"elsewhere\" is not known: {known}")));
        let none = format!("--store mysql: this version has no store of that kind: {known}");
        check(Some("mysql://me:secret@there"), None, Err(&none));
    }
}
