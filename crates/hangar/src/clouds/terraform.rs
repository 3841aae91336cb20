//! Terraform providers in `hangar up`: the driver on the cloud engine, `Provider` objects, and their kinds offered to
//! all control planes.
//!
//! Only where a directory of plugins is named: providers are programs, and an operator decides whether any are run.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::terraform::backend::Backends;
use ::terraform::driver::Terraform;
use ::terraform::memory::Memory;
use ::terraform::module::{Modules, Part};
use ::terraform::plugin::{Pool, PoolSettings};
use ::terraform::providers::{self, Programs, Providers};
use ::terraform::queries::Queries;
use ::terraform::registry::Registry;
use anyhow::Context;
use apiserver::catalog::Offer;
use apiserver::{Engine, Engines};
use async_trait::async_trait;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use objects::{CompactString, meta};
use provision::{Failure, Limits, Metrics, Preview, Reviewing, Settings};
use runtime::{
    Changes, Controller, Cursor, Fleet, FleetError, Identity, InProcessFleet, Key, Kinds, Leases, Options,
    Position, Revision, Runtime, Stream,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::foresight::OfClouds;
use super::providers::ProviderOptions;
use super::{Cloud, s3_state};
use crate::controlling::{self, Running};
use crate::stores::InUse;

/// The lease of this driver on a store that several processes share.
const LEASE: &str = "terraform";
/// Until a store that was away is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// Where the controllers' place in the stream of changes is kept.
const CURSOR: &str = "_terraform";

pub struct Wanted {
    /// A filesystem mirror, and programs that are served without an object.
    pub directory: PathBuf,
    /// Modules that objects may name by their path.
    pub modules: Option<PathBuf>,
    /// Where archives of providers are unpacked.
    pub cache: PathBuf,
    /// Where it is kept which kinds providers have.
    pub memory: PathBuf,
    pub hosting: String,
    pub key: [u8; 32],
    pub providers: ProviderOptions,
    /// What no provider ever sees.
    pub hidden: Vec<PathBuf>,
}

/// The backends that states can be kept in.
pub fn backends() -> Backends {
    Backends::default().with(s3_state::NAME, s3_state::opener())
}

/// Serves providers until `stop`, to the control planes of all stores, from when there are any.
pub async fn start(
    engines: &Engines,
    in_use: Vec<InUse>,
    leases: Option<&Leases>,
    wanted: Wanted,
    stop: CancellationToken,
) -> anyhow::Result<Running> {
    let identity = Identity::administrator("hangar:terraform", "hangar");
    let engine = engines.default_store();
    let fleet = InProcessFleet::with_cursor(engine.clone(), CURSOR);
    define(fleet.client(&wanted.hosting, &identity)).await?;
    // Sockets have short names, and data directories may be deep.
    let sockets = std::env::temp_dir().join(format!("hangar-{}", std::process::id()));
    let policy = engine.config.egress.clone();
    let isolation = wanted.providers.isolation(&sockets, wanted.hidden.clone(), policy).await?;
    let isolation = isolation.with_policies(Arc::new(engines.clone()));
    let pool = Pool::new(PoolSettings::new(isolation));
    let registry = Arc::new(Registry::remembering(Memory::new(&wanted.memory)));
    let leases = leases.cloned();
    let key = wanted.key;
    let driver = Terraform::new(registry.clone(), pool.clone(), &key)?;
    let driver = driver.with_backends(backends()).with_egress(super::egress(engines));
    let clouds = provision::Engine::new(
        Arc::new(driver),
        Settings::new(&key),
        Arc::new(Limits::default()),
        Arc::new(Metrics::default()),
    );
    let (engines, changed) = (engines.clone(), Arc::default());
    let serving = Serving { engines, in_use, registry, pool, wanted, clouds, sockets, changed };
    let planning: Vec<Box<dyn Cloud>> = vec![Box::new(Resources(serving.clouds.clone(), serving.modules()))];
    let planning = Arc::new(planning);
    for engine in serving.engines.iter() {
        engine.foresee_with(Arc::new(OfClouds::new(engine, planning.clone())));
    }
    // Before anybody asks: what is stored of these kinds is there all the time.
    serving.offer();
    Ok(tokio::spawn(async move {
        let mut programs = Programs::default();
        programs.serve(&serving.registry, &serving.pool, &serving.wanted.directory).await;
        serving.forget_others(&fleet).await;
        serving.offer();
        let looking = tokio::spawn(serving.look(programs, stop.clone()));
        let ended = match leases {
            None => serving.run(serving.engines.clone(), stop).await,
            Some(leases) => {
                let run = |fence, ending| serving.run(serving.engines.fenced(&fence), ending);
                let working = controlling::by_turns(&leases, LEASE, None, stop.clone(), run);
                let (worked, ()) = tokio::join!(working, serving.follow(stop));
                worked
            }
        };
        looking.abort();
        ended
    }))
}

/// Resources of all providers, as one cloud; and modules of them.
struct Resources(provision::Engine<Terraform>, Modules);

#[async_trait]
impl Cloud for Resources {
    fn name(&self) -> &'static str {
        "terraform"
    }

    fn offers(&self) -> Vec<Offer> {
        offers(self.0.driver().registry())
    }

    fn definitions(&self) -> anyhow::Result<Vec<Value>> {
        Ok(self.0.driver().registry().offers().iter().map(|offer| offer.whole()).collect())
    }

    fn knows(&self, object: &Value) -> bool {
        Modules::knows(object)
            || self.0.driver().registry().find(meta::api_version(object), meta::kind(object)).is_some()
    }

    fn controllers(&self) -> Vec<Box<dyn Controller>> {
        vec![Box::new(self.0.clone())]
    }

    async fn plan(&self, fleet: &dyn Fleet, control_plane: &str, object: &Value) -> Result<Preview, Failure> {
        self.0.plan(fleet, control_plane, object).await
    }

    async fn plans(
        &self,
        fleet: &dyn Fleet,
        control_plane: &str,
        object: &Value,
    ) -> Result<Vec<Part>, Failure> {
        match Modules::knows(object) {
            true => self.1.plan(fleet, control_plane, object).await,
            false => Ok(vec![(String::new(), self.plan(fleet, control_plane, object).await?)]),
        }
    }
}

struct Serving {
    engines: Engines,
    /// Whether each of their stores is.
    in_use: Vec<InUse>,
    registry: Arc<Registry>,
    pool: Pool,
    wanted: Wanted,
    clouds: provision::Engine<Terraform>,
    sockets: PathBuf,
    /// Kinds came or went.
    changed: Arc<watch::Sender<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Each process removes its own; this is what was around them.
        let _ = std::fs::remove_dir(&self.sockets);
    }
}

fn offers(registry: &Registry) -> Vec<Offer> {
    let offers = registry.offers().into_iter().map(|offer| Offer {
        definition: offer.definition,
        schema: Arc::new(move |_| (offer.schema)()),
        fingerprint: offer.fingerprint,
    });
    offers.collect()
}

/// Offers the kinds that are served now to all control planes.
fn offer(engine: &Arc<Engine>, clouds: &provision::Engine<Terraform>) {
    let review = Arc::new(Reviewing::new(clouds.clone(), engine));
    engine.planes.catalogs.offer_reviewed("terraform", offers(clouds.driver().registry()), review);
}

impl Serving {
    fn offer(&self) {
        offer(self.engines.default_store(), &self.clouds);
    }

    fn modules(&self) -> Modules {
        Modules::new(self.clouds.clone(), self.wanted.modules.clone())
    }

    fn providers(&self, tells: bool) -> Providers {
        let engine = self.engines.default_store().clone();
        let (clouds, changed) = (self.clouds.clone(), self.changed.clone());
        Providers {
            registry: self.registry.clone(),
            pool: self.pool.clone(),
            hosting: self.wanted.hosting.clone(),
            cache: self.wanted.cache.clone(),
            directory: Some(self.wanted.directory.clone()),
            changed: Arc::new(move || {
                offer(&engine, &clouds);
                changed.send_replace(());
            }),
            fleets: self
                .engines
                .iter()
                .map(|engine| Arc::new(InProcessFleet::new(engine.clone())) as Arc<dyn Fleet>)
                .collect(),
            tells,
        }
    }

    /// Serves programs that come into the directory, or another one in the place of one.
    fn look(&self, mut programs: Programs, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        let (registry, pool, changed) =
            (self.registry.clone(), self.pool.clone(), self.providers(false).changed);
        let directory = self.wanted.directory.clone();
        async move {
            while stop.run_until_cancelled(tokio::time::sleep(providers::LOOK)).await.is_some() {
                if programs.serve(&registry, &pool, &directory).await {
                    changed();
                }
            }
        }
    }

    /// What was remembered of providers that no program and no object stands for any more is forgotten.
    async fn forget_others(&self, fleet: &InProcessFleet) {
        match fleet.list(&self.wanted.hosting, providers::RESOURCE, "").await {
            Ok(objects) => {
                let names = objects.iter().map(|object| meta::name(object).to_owned()).collect();
                self.registry.forget_all_but(&names);
            }
            Err(error) => tracing::warn!(%error, "it is not known which providers there are"),
        }
    }

    /// Serves the kinds of providers that another process of the same store looks after.
    async fn follow(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let fleet = Arc::new(Forgetful(InProcessFleet::new(self.engines.default_store().clone())));
            let controllers: Vec<Box<dyn Controller>> = vec![Box::new(self.providers(false))];
            if let Err(error) = Runtime::new(fleet, controllers, Options::default()).run(stop.clone()).await {
                tracing::warn!(%error, "providers are not followed for a moment");
                stop.run_until_cancelled(tokio::time::sleep(AGAIN)).await;
            }
        }
    }

    /// The engine and the controller of providers, for one term.
    async fn run(&self, engines: Engines, stop: CancellationToken) -> Result<(), FleetError> {
        // Providers are objects of the hosting control plane, which is in the first store.
        let mut providers: Option<Box<dyn Controller>> = Some(Box::new(self.providers(true)));
        let parts: Vec<_> = engines
            .iter()
            .zip(&self.in_use)
            .map(|(engine, in_use)| {
                let queries = Queries::new(self.clouds.clone());
                let everywhere: [Box<dyn Controller>; 3] =
                    [Box::new(self.clouds.clone()), Box::new(self.modules()), Box::new(queries)];
                let all: Vec<_> = everywhere.into_iter().chain(providers.take()).collect();
                (engine.clone(), in_use.clone(), all)
            })
            .collect();
        let running = parts.into_iter().map(async |(engine, in_use, all)| {
            if stop.run_until_cancelled(in_use.begun()).await.is_none() {
                return Ok(());
            }
            // One that is away keeps nobody from the others.
            while engine.store.position().await.is_err() && !stop.is_cancelled() {
                stop.run_until_cancelled(tokio::time::sleep(AGAIN)).await;
            }
            let mut changed = self.changed.subscribe();
            let fleet = Arc::new(InProcessFleet::with_cursor(engine, CURSOR).leaving_copies());
            let runtime = Runtime::new(fleet, all, Options::default());
            let handle = runtime.handle();
            let telling = async {
                while changed.changed().await.is_ok() {
                    handle.kinds_changed().await;
                }
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                ended = runtime.run(stop.clone()) => ended,
                never = telling => match never {},
            }
        });
        let running = futures::future::try_join_all(running);
        let ended = self.pool.until_ended(stop.cancelled(), running).await.map(drop);
        self.clouds.driver().openings().close().await;
        self.pool.close();
        ended
    }
}

/// A fleet that every process of a store follows for itself, from the beginning: nobody's place in it is kept.
struct Forgetful(InProcessFleet);

#[async_trait]
impl Fleet for Forgetful {
    async fn follow(&self, kinds: &Kinds, from: Position) -> Result<Changes, FleetError> {
        self.0.follow(kinds, from).await
    }

    fn sweep(
        &self,
        kinds: &Kinds,
        control_plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream {
        self.0.sweep(kinds, control_plane, after)
    }

    fn replay(&self, kinds: &Kinds, control_plane: CompactString, after: Revision, to: Revision) -> Stream {
        self.0.replay(kinds, control_plane, after, to)
    }

    async fn position(&self) -> Result<Position, FleetError> {
        self.0.position().await
    }

    async fn get(&self, control_plane: &str, key: &Key) -> Result<Option<Value>, FleetError> {
        self.0.get(control_plane, key).await
    }

    async fn list(&self, control_plane: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError> {
        self.0.list(control_plane, kind, namespace).await
    }

    fn client(&self, control_plane: &str, identity: &Identity) -> kube::Client {
        self.0.client(control_plane, identity)
    }

    async fn load(&self) -> Result<Option<Cursor>, FleetError> {
        Ok(None)
    }

    async fn save(&self, _: &Cursor) -> Result<(), FleetError> {
        Ok(())
    }

    async fn has(&self, control_plane: &str) -> bool {
        self.0.has(control_plane).await
    }
}

/// The kind `Provider`, in the hosting control plane.
async fn define(client: kube::Client) -> anyhow::Result<()> {
    let definition = providers::definition();
    let kind = kube::api::ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let parameters = PatchParams::apply("hangar").force();
    let applied = api.patch(providers::RESOURCE, &parameters, &Patch::Apply(&definition)).await;
    applied.map(drop).context("the kind Provider cannot be defined")
}
