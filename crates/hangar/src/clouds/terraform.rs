//! Terraform providers in `hangar up`: the driver on the cloud engine, `Provider` objects, and their kinds offered to
//! all control planes.
//!
//! Only where a directory of plugins is named: providers are programs, and an operator decides whether any are run.

use std::path::PathBuf;
use std::sync::Arc;

use ::terraform::driver::Terraform;
use ::terraform::plugin::{Pool, PoolSettings};
use ::terraform::providers::{self, Providers};
use ::terraform::registry::Registry;
use anyhow::Context;
use apiserver::Engine;
use apiserver::catalog::Offer;
use auth::user::{MASTERS, UserInfo};
use http::HeaderValue;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use provision::{Limits, Metrics, Settings};
use runtime::{Controller, Fleet, FleetError, Identity, InProcessFleet, Options, Runtime};
use tokio_util::sync::CancellationToken;

use crate::controlling::{self, Running};
use crate::stores::Place;

/// The lease of this driver on a store that several processes share.
const LEASE: &str = "terraform";
/// Where the controllers' place in the stream of changes is kept.
const CURSOR: &str = "_terraform";

pub struct Wanted {
    /// A filesystem mirror, and programs that are served without an object.
    pub directory: PathBuf,
    /// Where archives of providers are unpacked.
    pub cache: PathBuf,
    pub hosting: String,
    pub key: [u8; 32],
}

/// Serves providers until `stop`.
pub async fn start(
    engine: &Arc<Engine>,
    place: &Place,
    wanted: Wanted,
    stop: CancellationToken,
) -> anyhow::Result<Running> {
    let identity = Identity {
        user: Arc::new(UserInfo::new("hangar:terraform", [MASTERS]).authenticated()),
        agent: HeaderValue::from_static("hangar"),
    };
    let fleet = InProcessFleet::with_cursor(engine.clone(), CURSOR);
    define(fleet.client(&wanted.hosting, &identity)).await?;
    // Sockets have short names, and data directories may be deep.
    let sockets = std::env::temp_dir().join(format!("hangar-{}", std::process::id()));
    let pool = Pool::new(PoolSettings::new(&sockets));
    let registry = Arc::new(Registry::default());
    let leases = controlling::leases(engine, place);
    let key = wanted.key;
    let driver = Terraform::new(registry.clone(), pool.clone(), &key)?;
    let clouds = provision::Engine::new(
        Arc::new(driver),
        Settings::new(&key),
        Arc::new(Limits::default()),
        Arc::new(Metrics::default()),
    );
    let serving = Serving { engine: engine.clone(), registry, pool, wanted, clouds, sockets };
    Ok(tokio::spawn(async move {
        providers::serve_directory(&serving.registry, &serving.pool, &serving.wanted.directory).await;
        serving.offer();
        match leases {
            None => serving.run(serving.engine.clone(), stop).await,
            Some(leases) => {
                let run = |fence, ending| serving.run(serving.engine.fenced(fence), ending);
                controlling::by_turns(&leases, LEASE, stop, run).await
            }
        }
    }))
}

struct Serving {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    pool: Pool,
    wanted: Wanted,
    clouds: provision::Engine<Terraform>,
    sockets: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Each process removes its own; this is what was around them.
        let _ = std::fs::remove_dir(&self.sockets);
    }
}

/// Offers the kinds that are served now to all control planes.
fn offer(engine: &Engine, registry: &Registry) {
    let offers = registry.offers().into_iter().map(|offer| Offer {
        definition: offer.definition,
        schema: Arc::new(move |_| (offer.schema)()),
        fingerprint: offer.fingerprint,
    });
    engine.planes.catalogs.offer("terraform", offers.collect());
}

impl Serving {
    fn offer(&self) {
        offer(&self.engine, &self.registry);
    }

    /// The engine and the controller of providers, for one term.
    async fn run(&self, engine: Arc<Engine>, stop: CancellationToken) -> Result<(), FleetError> {
        let fleet = Arc::new(InProcessFleet::with_cursor(engine, CURSOR));
        let changed = Arc::new(tokio::sync::Notify::new());
        let providers = Providers {
            registry: self.registry.clone(),
            pool: self.pool.clone(),
            hosting: self.wanted.hosting.clone(),
            cache: self.wanted.cache.clone(),
            directory: Some(self.wanted.directory.clone()),
            changed: {
                let (engine, registry, changed) =
                    (self.engine.clone(), self.registry.clone(), changed.clone());
                Arc::new(move || {
                    offer(&engine, &registry);
                    changed.notify_one();
                })
            },
        };
        let controllers: Vec<Box<dyn Controller>> = vec![Box::new(self.clouds.clone()), Box::new(providers)];
        let runtime = Runtime::new(fleet, controllers, Options::default());
        let handle = runtime.handle();
        let telling = tokio::spawn(async move {
            loop {
                changed.notified().await;
                handle.kinds_changed().await;
            }
        });
        let ended = runtime.run(stop).await;
        telling.abort();
        self.pool.close();
        ended
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
