//! Which store a process keeps control planes in, by what it was told: the only place that knows the engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver::codec::CodecError;
use apiserver::control_plane::{ControlPlane, ControlPlaneError};
use apiserver::{Config, DEDICATED_STORE, DEFAULT_STORE, Engine, Engines};
use auth::Secret;
use store::cached::{self, Cached};
use store::{Arrival, Entry, Expect, Operation, Retention, Scope, Store, StoreError, TenantId};
use tokio::sync::watch;

use crate::files;
use crate::numbers::Numbers;

/// A store, as it is named on the command line.
#[derive(Clone, Debug)]
pub enum Place {
    Embedded(PathBuf),
    /// A database for each control plane, all in one directory.
    Dedicated(PathBuf),
    /// By its connection string; all tables are in one schema.
    Postgres {
        address: Secret<String>,
        schema: Option<String>,
    },
    Etcd(store_etcd::Config),
}

impl Place {
    /// On this machine.
    pub fn directory(&self) -> Option<PathBuf> {
        match self {
            Place::Embedded(directory) | Place::Dedicated(directory) => Some(directory.clone()),
            Place::Postgres { .. } | Place::Etcd(_) => None,
        }
    }

    /// Whether other processes may be using it at the same time.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Place::Embedded(_) | Place::Dedicated(_))
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

/// Whether an address begins as `host=... user=...` does, the other way to write one of PostgreSQL.
fn is_of_words(address: &str) -> bool {
    let option = address.split_once('=').map_or("", |(option, _)| option.trim());
    !option.is_empty() && option.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

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
            _ if is_of_words(address) => {
                Ok(Place::Postgres { address: Secret::new(address.to_owned()), schema: self.room.clone() })
            }
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
            // What comes after the name may be a password, and what has no name may be nothing else.
            Some((scheme, rest)) if rest.starts_with("//") => {
                bail!("--store {scheme}: this version has no store of that kind: {KNOWN}")
            }
            _ => bail!("--store is not the address of a store: {KNOWN}"),
        }
    }
}

/// What PostgreSQL's own clients would find here, too.
pub fn surroundings() -> store_postgres::Surroundings {
    let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let passfile = path("PGPASSFILE").or_else(|| Some(path("HOME")?.join(".pgpass")));
    store_postgres::Surroundings { user: own_name(), passfile }
}

/// Of whoever runs this process, where the machine itself knows.
fn own_name() -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, ..] = fields.as_slice() else { return None };
        (id.parse() == Ok(own)).then(|| (*name).to_owned())
    })
}

/// Opens a store and makes it if it is not there.
pub async fn open_engine(place: &Place) -> anyhow::Result<Arc<dyn Store>> {
    Ok(open(place).await?.0)
}

/// The same, with word of whether anything has been put into it.
async fn open(place: &Place) -> anyhow::Result<(Arc<dyn Store>, InUse)> {
    let store: Arc<dyn Store> = match place {
        Place::Embedded(dir) => {
            files::private_dir(dir)?;
            Arc::new(store::embedded::Embedded::open(dir, store::embedded::Options::default())?)
        }
        Place::Dedicated(dir) => {
            let dedicated = store::Dedicated::open(dir, store::dedicated::Options::default())?;
            let begun = dedicated.begun();
            return Ok((Arc::new(dedicated), InUse(Some(begun))));
        }
        Place::Postgres { address, schema } => {
            let mut options = store_postgres::Options {
                surroundings: surroundings(),
                ..store_postgres::Options::default()
            };
            if let Some(schema) = schema {
                options.schema.clone_from(schema);
            }
            Arc::new(store_postgres::Postgres::open(address.expose(), options).await?)
        }
        Place::Etcd(config) => {
            Arc::new(store_etcd::Etcd::open(config, store_etcd::Options::default()).await?)
        }
    };
    Ok((store, InUse::default()))
}

/// Whether there is, or was, anything in a store; of most of them it is taken for granted.
#[derive(Clone, Default)]
pub struct InUse(Option<watch::Receiver<bool>>);

impl InUse {
    /// Resolves when it is so. Before, there is nothing to look after.
    pub async fn begun(mut self) {
        if let Some(begun) = &mut self.0 {
            // An error is a store that is gone, which nobody needs to look after either.
            let _ = begun.wait_for(|begun| *begun).await;
        }
    }
}

/// A store that control planes can be in, under its name.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub place: Place,
}

/// The default store, those that were named beside it as `NAME=STORE`, and, where the default is this process's alone, the one
/// for control planes that share theirs with nobody. One that several processes share cannot have it: the others would
/// not reach what is in a directory of this one.
pub fn all(default: Place, others: &[String], data_dir: &Path) -> anyhow::Result<Vec<Named>> {
    let alone = !default.is_shared();
    let mut all = vec![Named { name: DEFAULT_STORE.to_owned(), place: default }];
    for other in others {
        // What comes after the name may be a password.
        let Some((name, address)) = other.split_once('=') else {
            bail!("--with-store takes NAME=STORE, where STORE is what --store takes");
        };
        if let Some(why) = objects::names::dns1123_label(name).first() {
            bail!("--with-store {name:?} cannot be the name of a store: {why}");
        }
        if name == DEDICATED_STORE || all.iter().any(|one| one.name == name) {
            bail!("--with-store {name:?}: there is a store of this name already");
        }
        let place = match address {
            "embedded" => Place::Embedded(data_dir.join("stores").join(name)),
            address => Wanted::new(Some(address.to_owned()), None)
                .place(data_dir)
                .with_context(|| format!("--with-store {name:?} cannot be used"))?,
        };
        all.push(Named { name: name.to_owned(), place });
    }
    if alone {
        let place = Place::Dedicated(data_dir.join(DEDICATED_STORE));
        all.push(Named { name: DEDICATED_STORE.to_owned(), place });
    }
    Ok(all)
}

/// How the stores of a process are opened.
#[derive(Clone)]
pub struct Opening {
    /// The control plane that only the default store has.
    pub hosting: &'static str,
    /// Memory for copies of what is read, of each store, in MiB; as much as is usual unless said.
    pub read_cache: Option<usize>,
    pub numbers: Numbers,
}

impl Opening {
    /// All of them; the first is the default. One of the others that is away is waited for in the background.
    pub async fn open(self, wanted: &[Named]) -> anyhow::Result<Opened> {
        let Some((default, others)) = wanted.split_first() else { bail!("there is no store") };
        let (store, in_use) = open(&default.place).await?;
        let mut opened = vec![One { named: default.clone(), store: self.kept(default, store), in_use }];
        // Those that are away take their time to be noticed.
        let others = futures::future::join_all(others.iter().map(async |named| {
            let (store, in_use) = match self.further(named).await {
                Err(error) if may_pass(&error) => (self.later(named, &error), InUse::default()),
                opened => opened.with_context(|| format!("the store {:?} cannot be used", named.name))?,
            };
            anyhow::Ok(One { named: named.clone(), store, in_use })
        }));
        for other in others.await {
            opened.push(other?);
        }
        Ok(Opened(opened))
    }

    /// With what is read from another machine, and what is large and listed again and again, also kept in memory.
    fn kept(&self, named: &Named, engine: Arc<dyn Store>) -> Arc<dyn Store> {
        let mut options = match named.place.is_shared() {
            true => cached::Options::default(),
            false => cached::Options::near(),
        };
        if let Some(mib) = self.read_cache {
            options.bytes = mib.saturating_mul(1 << 20);
        }
        if options.bytes == 0 {
            return engine;
        }
        let cached = Arc::new(Cached::new(engine, options));
        self.numbers.add_cache(&named.name, cached.clone());
        cached
    }

    /// One that is not the default.
    async fn further(&self, named: &Named) -> anyhow::Result<(Arc<dyn Store>, InUse)> {
        let (engine, in_use) = open(&named.place).await?;
        let why = match engine.tenant(self.hosting).await {
            Ok(None) => return Ok((self.kept(named, engine), in_use)),
            Ok(Some(_)) => anyhow!("it has a hosting control plane of its own: it is another installation's"),
            Err(error) => error.into(),
        };
        engine.close().await;
        Err(why)
    }

    /// A store that is away now. That this is so is told by whoever first asks it for something.
    fn later(&self, named: &Named, error: &anyhow::Error) -> Arc<dyn Store> {
        let (store, arrival) = store::late(error.to_string());
        tokio::spawn(self.clone().keep_trying(named.clone(), arrival));
        store
    }

    async fn keep_trying(self, named: Named, arrival: Arrival) {
        let mut pause = FIRST_PAUSE;
        loop {
            let trying = async {
                tokio::time::sleep(pause).await;
                self.further(&named).await
            };
            let tried = tokio::select! {
                tried = trying => tried,
                () = arrival.closed() => return,
            };
            match tried {
                Ok((store, _)) => return arrival.arrived(store).await,
                Err(error) => {
                    tracing::debug!(store = named.name, %error, "the store is still away");
                    arrival.still_away(error.to_string());
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
    }
}

/// Between attempts to open a store that is away: soon, then less often.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Whether a store may be opened later with nothing changed here.
fn may_pass(error: &anyhow::Error) -> bool {
    let passes = [
        error.downcast_ref().map(store_postgres::OpenError::may_pass),
        error.downcast_ref().map(store_etcd::OpenError::may_pass),
        error.downcast_ref().map(|error| matches!(error, StoreError::Unavailable(_))),
    ];
    passes.into_iter().flatten().any(|passes| passes)
}

/// A store of a process: open, or still away.
struct One {
    named: Named,
    store: Arc<dyn Store>,
    in_use: InUse,
}

/// All of them; the first is there.
pub struct Opened(Vec<One>);

impl Opened {
    /// An engine for each, which share all that is not the store's.
    pub fn engines(&self, config: Config) -> anyhow::Result<Engines> {
        let Some((one, others)) = self.0.split_first() else { bail!("there is no store") };
        let default = Engine::new(one.store.clone(), config);
        let others = others.iter().map(|one| default.beside(one.named.name.as_str(), one.store.clone()));
        let others = others.collect();
        Ok(Engines::new(default, others))
    }

    /// Whether other processes may be serving what is in the default store.
    pub fn is_shared(&self) -> bool {
        self.places().next().is_some_and(Place::is_shared)
    }

    /// Where each is, in the order of the engines.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().map(|one| &one.named.place)
    }

    /// Whether any of those that are there has a control plane.
    pub async fn is_used(&self) -> anyhow::Result<bool> {
        for one in &self.0 {
            let mut after: Option<String> = None;
            loop {
                let page = match one.store.tenants(after.as_deref(), PAGE).await {
                    Err(StoreError::Unavailable(_)) => break,
                    page => page?,
                };
                // Other rows are the server's own.
                if page.iter().any(|tenant| !tenant.name.starts_with('_')) {
                    return Ok(true);
                }
                let Some(last) = page.last() else { break };
                after = Some(last.name.to_string());
            }
        }
        Ok(false)
    }

    /// Whether each is used, in the same order.
    pub fn in_use(&self) -> Vec<InUse> {
        self.0.iter().map(|one| one.in_use.clone()).collect()
    }
}

/// The hosting control plane, if it has been made. It was sealed with the data key of whoever made it; another key opens
/// nothing that is in the store, and what it sealed nobody else could open.
pub async fn hosting(
    engine: &Engine,
    name: &str,
    data_dir: &Path,
) -> anyhow::Result<Option<Arc<ControlPlane>>> {
    match engine.planes.find(name).await {
        Err(ControlPlaneError::Codec(CodecError::WrongKey(_))) => bail!(
            "what is in the store was encrypted with another key than this server has: copy the keys of a server of this \
             installation to {keys}, or name its data.key with --encryption-key-file",
            keys = data_dir.join("keys").display(),
        ),
        found => Ok(found?),
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
                Ok(Place::Embedded(dir) | Place::Dedicated(dir)) => Ok(dir.display().to_string()),
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
        check(
            Some("host=db user=me password='a:b//c=d'"),
            Some("a"),
            Ok("host=db user=me password='a:b//c=d' Some(\"a\")"),
        );
        check(Some("user = me host = db"), None, Ok("user = me host = db None"));
        check(Some("embedded:/a=b"), None, Ok("/a=b"));
        let unknown = format!("--store is not the address of a store: {known}");
        for address in
            ["embedded:", "elsewhere", "secret", "me:secret@db", "Host=db password=secret", "=secret"]
        {
            check(Some(address), None, Err(&unknown));
        }
        let none = format!("--store mysql: this version has no store of that kind: {known}");
        check(Some("mysql://me:secret@there"), None, Err(&none));
    }

    #[test]
    fn several() {
        let shared = Place::Postgres { address: Secret::new("postgres://me@db/x".to_owned()), schema: None };
        let check_on = |default: &Place, others: &[&str], expected: Result<&[&str], &str>| {
            let others: Vec<String> = others.iter().map(|other| (*other).to_owned()).collect();
            let all = all(default.clone(), &others, Path::new("/data"));
            let names = all.map(|all| all.into_iter().map(|named| named.name).collect::<Vec<_>>());
            let names = names.map_err(|error| format!("{error:#}"));
            let names = names.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(names.as_deref().map_err(|error| error.as_str()), expected, "{others:?}");
        };
        let alone = Place::Embedded("/data/store".into());
        let check = |others: &[&str], expected: Result<&[&str], &str>| check_on(&alone, others, expected);
        check(&[], Ok(&["default", "dedicated"]));
        check(
            &["pg=postgres://me@db/x?sslmode=require", "near=embedded"],
            Ok(&["default", "pg", "near", "dedicated"]),
        );
        check_on(&shared, &["near=embedded"], Ok(&["default", "near"]));
        check(
            &["postgres://me:secret@db/x"],
            Err("--with-store takes NAME=STORE, where STORE is what --store takes"),
        );
        for taken in ["default", "dedicated"] {
            let why = format!("--with-store {taken:?}: there is a store of this name already");
            check(&[&format!("{taken}=embedded")], Err(&why));
        }
        check(
            &["a=embedded", "a=embedded"],
            Err("--with-store \"a\": there is a store of this name already"),
        );
        let why = objects::names::dns1123_label("A").remove(0);
        check(&["A=embedded"], Err(&format!("--with-store \"A\" cannot be the name of a store: {why}")));
    }
}
