//! Processes shared by all of one control plane who want the same program with the same configuration. A process serves
//! several control planes only if the operator trusts the provider.
//!
//! A process is started when the first one asks, stays while it is used, and is stopped when nobody has used it for a
//! while. There are never more than a bound; when it is reached, one that nobody uses at the moment makes room. One
//! that died or hung is forgotten and started anew on the next demand, with growing pauses when that goes on.
//!
//! Nothing runs for the pool itself but one task that looks for idle processes, and only while there are processes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::catalogue::Catalogue;
use super::isolation::Isolation;
use super::provider::Provider;
use super::{Launch, Limits, PluginError};
use crate::value::Value;

/// After the first failure, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// For calls that are under way when the server is to end: most need no more.
const GRACE: Duration = Duration::from_secs(3);
/// Configurations whose failures are remembered.
const REMEMBERED: usize = 4_096;
/// Binaries whose schemas are kept.
const CATALOGUES: usize = 64;

#[derive(Clone)]
pub struct PoolSettings {
    pub limits: Limits,
    /// Processes at the same time.
    pub most: usize,
    /// A process that was not used for so long is stopped.
    pub idle: Duration,
    pub isolation: Isolation,
}

impl PoolSettings {
    pub fn new(isolation: Isolation) -> PoolSettings {
        PoolSettings { limits: Limits::default(), most: 64, idle: Duration::from_secs(300), isolation }
    }
}

/// What makes two demands the same: control plane, program, environment and configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u8; 32]);

#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    settings: PoolSettings,
    state: Mutex<Running>,
    failures: Cache<Key, Failures>,
    /// By the binary's digest and its arguments.
    catalogues: Cache<String, Arc<Catalogue>>,
}

#[derive(Default)]
struct Running {
    slots: HashMap<Key, Arc<Slot>>,
    sweeping: bool,
}

struct Slot {
    key: Key,
    /// The control plane that it is for alone.
    tenant: Option<String>,
    provider: OnceCell<Arc<Provider>>,
    used: Mutex<Instant>,
}

#[derive(Clone)]
struct Failures {
    count: u32,
    until: Instant,
    last: String,
}

/// A configured provider in use. The process stays while this is held.
pub struct Lease {
    slot: Arc<Slot>,
    provider: Arc<Provider>,
    pool: Pool,
}

impl std::ops::Deref for Lease {
    type Target = Provider;

    fn deref(&self) -> &Provider {
        &self.provider
    }
}

impl Lease {
    /// Looks at how a call went: one that the process did not survive, or will not, is the last of this process.
    pub fn judge<T>(&self, result: Result<T, PluginError>) -> Result<T, PluginError> {
        if let Err(error) = &result
            && error.is_fatal()
        {
            self.pool.forget(&self.slot);
            self.pool.failed(self.slot.key, error);
        }
        result
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.slot.used.lock() = Instant::now();
    }
}

impl Pool {
    pub fn new(settings: PoolSettings) -> Pool {
        let shared = Shared {
            settings,
            state: Mutex::default(),
            failures: Cache::new(REMEMBERED),
            catalogues: Cache::new(CATALOGUES),
        };
        Pool { shared: Arc::new(shared) }
    }

    /// The schemas of a program, which is started for the purpose if nobody has before. `digest` names its content.
    pub async fn catalogue(&self, launch: &Launch, digest: &str) -> Result<Arc<Catalogue>, PluginError> {
        let settings = &self.shared.settings;
        // However many ask at once, one process is started.
        let asked = async {
            // It is asked what it has, and nothing of a tenant: it needs nobody for that.
            let provider = Provider::start(launch, settings.limits, &settings.isolation, None, None).await?;
            Ok(provider.catalogue().clone())
        };
        self.shared.catalogues.get_or_insert_async(&said_by(launch, digest), asked).await
    }

    /// A provider with this configuration: one that runs already, or a new one.
    pub async fn lease(&self, launch: &Launch, digest: &str, config: &Value) -> Result<Lease, PluginError> {
        self.running_with(launch, digest, Some(config)).await
    }

    /// The same without any configuration, for what needs none: functions.
    pub async fn lease_bare(&self, launch: &Launch, digest: &str) -> Result<Lease, PluginError> {
        self.running_with(launch, digest, None).await
    }

    async fn running_with(
        &self,
        launch: &Launch,
        digest: &str,
        config: Option<&Value>,
    ) -> Result<Lease, PluginError> {
        let catalogue = self.catalogue(launch, digest).await?;
        // No configuration is encoded as no bytes at all.
        let encoded = config.map(|config| config.to_msgpack(catalogue.provider.ty())).transpose()?;
        let tenant = self.shared.settings.isolation.tenant(launch);
        let key = key(launch, tenant, digest, &encoded.unwrap_or_default());
        let slot = self.slot(key, launch, tenant)?;
        let started = slot.provider.get_or_try_init(|| self.start(launch, digest, config)).await.cloned();
        match started {
            Ok(provider) => Ok(Lease { slot, provider, pool: self.clone() }),
            Err(error) => {
                self.forget(&slot);
                self.failed(key, &error);
                Err(error)
            }
        }
    }

    async fn start(
        &self,
        launch: &Launch,
        digest: &str,
        config: Option<&Value>,
    ) -> Result<Arc<Provider>, PluginError> {
        let settings = &self.shared.settings;
        let known = self.shared.catalogues.get(&said_by(launch, digest));
        let egress = Some(settings.isolation.egress(launch));
        let provider = Provider::start(launch, settings.limits, &settings.isolation, egress, known).await?;
        if let Some(config) = config {
            provider.configure(config).await?;
        }
        Ok(Arc::new(provider))
    }

    /// The place for a key, made if need be; with a bound on how many there are.
    fn slot(&self, key: Key, launch: &Launch, tenant: Option<&str>) -> Result<Arc<Slot>, PluginError> {
        let now = Instant::now();
        let mut running = self.shared.state.lock();
        if let Some(slot) = running.slots.get(&key) {
            if !slot.provider.get().is_some_and(|provider| provider.has_ended()) {
                *slot.used.lock() = now;
                return Ok(slot.clone());
            }
            // It ended while nobody was looking; that is no reason to wait, unless it happens all the time.
            running.slots.remove(&key);
        }
        if let Some(failures) = self.shared.failures.get(&key)
            && failures.until > now
        {
            return Err(PluginError::BackingOff {
                program: launch.name(),
                wait: failures.until - now,
                last: failures.last,
            });
        }
        let most = self.shared.settings.most;
        // One control plane leaves half of them to the others.
        let share = most.div_ceil(2);
        let own = |slot: &&Arc<Slot>| tenant.is_some() && slot.tenant.as_deref() == tenant;
        let is_full = running.slots.len() >= most;
        let has_its_share = running.slots.values().filter(own).count() >= share;
        if is_full || has_its_share {
            let unused = running.slots.values().filter(|slot| Arc::strong_count(slot) == 1);
            let unused = unused.filter(|slot| !has_its_share || own(slot));
            let oldest = unused.min_by_key(|slot| *slot.used.lock()).map(|slot| slot.key);
            match oldest {
                Some(oldest) => running.slots.remove(&oldest),
                None => return Err(PluginError::TooMany { most: if is_full { most } else { share } }),
            };
        }
        let tenant = tenant.map(str::to_owned);
        let slot = Arc::new(Slot { key, tenant, provider: OnceCell::new(), used: Mutex::new(now) });
        running.slots.insert(key, slot.clone());
        if !running.sweeping {
            running.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(&self.shared), self.shared.settings.idle));
        }
        Ok(slot)
    }

    /// The next one gets another process; those who hold this one keep it until they are done.
    fn forget(&self, slot: &Arc<Slot>) {
        let mut running = self.shared.state.lock();
        if running.slots.get(&slot.key).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            running.slots.remove(&slot.key);
        }
    }

    fn failed(&self, key: Key, error: &PluginError) {
        let before = self.shared.failures.get(&key).map_or(0, |failures| failures.count);
        let pause = FIRST_PAUSE.saturating_mul(1 << before.min(10)).min(LONGEST_PAUSE);
        let failures = Failures { count: before + 1, until: Instant::now() + pause, last: error.to_string() };
        self.shared.failures.insert(key, failures);
    }

    /// A process did what it was asked: earlier failures of it no longer count.
    pub fn succeeded(&self, lease: &Lease) {
        self.shared.failures.remove(&lease.slot.key);
    }

    pub fn isolation(&self) -> &Isolation {
        &self.shared.settings.isolation
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.settings.limits
    }

    /// How many processes there are at the moment.
    pub fn running(&self) -> usize {
        self.shared.state.lock().slots.len()
    }

    /// Does what uses the pool, until `stop` and until it has ended. Providers that are still at it a moment after the
    /// stop are asked to give up, so that they tell what became of it while there is somebody to note it.
    pub async fn until_ended<T>(&self, stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        let interrupted = async {
            stop.await;
            tokio::time::sleep(GRACE).await;
            self.interrupt();
        };
        tokio::select! {
            done = &mut work => return done,
            () = interrupted => {}
        }
        work.await
    }

    fn interrupt(&self) {
        let running = self.shared.state.lock();
        let used = running.slots.values().filter(|slot| Arc::strong_count(slot) > 1);
        for provider in used.filter_map(|slot| slot.provider.get().cloned()) {
            tokio::spawn(async move {
                if let Err(error) = provider.stop().await {
                    tracing::warn!(%error, "a provider that is at work cannot be asked to stop");
                }
            });
        }
    }

    /// Stops what nobody uses at the moment; for the end of the server.
    pub fn close(&self) {
        self.shared.state.lock().slots.clear();
    }
}

/// An interpreter is another program with every script.
fn said_by(launch: &Launch, digest: &str) -> String {
    [digest].into_iter().chain(launch.arguments.iter().map(String::as_str)).collect::<Vec<_>>().join("\0")
}

fn key(launch: &Launch, tenant: Option<&str>, digest: &str, config: &[u8]) -> Key {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(digest.as_bytes());
    add(launch.program.as_os_str().as_encoded_bytes());
    for argument in &launch.arguments {
        add(argument.as_bytes());
    }
    for (name, value) in &launch.environment {
        add(name.as_bytes());
        add(value.expose().as_bytes());
    }
    add(format!("{:?} {:?} {:?} {tenant:?}", launch.memory, launch.log, launch.provider).as_bytes());
    add(config);
    Key(hash.finalize().into())
}

/// Stops idle processes, and ends when there are none.
async fn sweep(shared: std::sync::Weak<Shared>, idle: Duration) {
    loop {
        tokio::time::sleep(idle / 4).await;
        let Some(shared) = shared.upgrade() else { return };
        let now = Instant::now();
        let mut running = shared.state.lock();
        running.slots.retain(|_, slot| {
            let unused = Arc::strong_count(slot) == 1 && now.duration_since(*slot.used.lock()) >= idle;
            !(unused || slot.provider.get().is_some_and(|provider| provider.has_ended()))
        });
        if running.slots.is_empty() {
            running.sweeping = false;
            return;
        }
    }
}
