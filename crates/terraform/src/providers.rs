//! Providers as objects: `Provider` in the hosting control plane names where a program comes from, and its kinds are
//! there for all control planes as soon as it is ready.
//!
//! Only in the hosting control plane: whoever may name a program may run it on this machine. What was found the first
//! time is locked in the status, by version and checksum; another content under the same version is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use objects::{Value as Json, meta};
use runtime::{Context, Controller, Error, Event, Kinds, Next, Request, Triggers};
use serde::Deserialize;
use serde_json::{Map, json};

use crate::definition::GROUP;
use crate::names::API_VERSION;
use crate::plugin::{Launch, Pool};
use crate::registry::{Registry, Served};
use crate::source::{self, Address, Constraint, Found, Mirror, SourceError, Wanted};

pub const KIND: &str = "Provider";
pub const RESOURCE: &str = "providers.terraform.hangar.dev";

/// How often a mirror or a path is looked at again, for what is not known by any event.
const AGAIN: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    /// A program on this machine.
    path: Option<PathBuf>,
    arguments: Vec<String>,
    /// `namespace/name`, in a mirror.
    source: Option<String>,
    mirror: MirrorSpec,
    version: String,
    hashes: Vec<String>,
    /// In bytes.
    memory_limit: Option<u64>,
    log_level: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MirrorSpec {
    directory: Option<PathBuf>,
    url: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lock {
    version: String,
    hashes: Vec<String>,
}

/// Told whenever kinds came or went.
pub type Changed = Arc<dyn Fn() + Send + Sync>;

/// The controller of `Provider` objects.
pub struct Providers {
    pub registry: Arc<Registry>,
    pub pool: Pool,
    /// The control plane whose objects count.
    pub hosting: String,
    /// Where archives are unpacked.
    pub cache: PathBuf,
    /// The mirror of those that name none.
    pub directory: Option<PathBuf>,
    pub changed: Changed,
    /// Whether it says in the status what it finds. One of all processes on a store does; the others serve what that
    /// one found.
    pub tells: bool,
}

/// The definition of the kind.
pub fn definition() -> Json {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "path": text(), "arguments": texts(), "source": text(), "version": text(), "hashes": texts(),
                    "mirror": {"type": "object", "properties": {"directory": text(), "url": text()}},
                    "memoryLimit": {"type": "integer", "format": "int64", "minimum": 1},
                    "logLevel": {"type": "string", "enum": ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"]},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": RESOURCE},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"kind": KIND, "listKind": "ProviderList", "plural": "providers", "singular": "provider"},
            "versions": [{
                "name": API_VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
                    {"name": "Version", "type": "string", "jsonPath": ".status.version"},
                    {"name": "Types", "type": "integer", "jsonPath": ".status.types"},
                ],
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Programs in a directory, by the name of the provider: `terraform-provider-NAME` with or without a version.
pub fn programs(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("terraform-provider-")?;
        let name = rest.split("_v").next().unwrap_or(rest);
        entry.path().is_file().then(|| (name.to_owned(), entry.path()))
    };
    let mut found: Vec<_> = entries.filter_map(named).collect();
    found.sort();
    found
}

/// Asks a program what it has, and serves it.
pub async fn serve(
    registry: &Registry,
    pool: &Pool,
    name: &str,
    source: Option<&str>,
    launch: Launch,
    digest: String,
) -> Result<usize, crate::plugin::PluginError> {
    let catalogue = pool.catalogue(&launch, &digest).await?;
    let types = catalogue.resource_types().count();
    let address =
        Address::parse(source.unwrap_or(name)).map_or_else(|_| name.to_owned(), |one| one.to_string());
    registry.set(Served { name: name.to_owned(), address, program: Some(launch), digest, catalogue });
    remember(registry, name).await;
    Ok(types)
}

/// Its kinds are there from the beginning after the next start.
async fn remember(registry: &Registry, name: &str) {
    let (Some(memory), Some(served)) = (registry.memory().cloned(), registry.provider(name)) else { return };
    let kept = tokio::task::spawn_blocking(move || memory.keep(&served)).await;
    if let Err(error) = kept.map_err(std::io::Error::other).and_then(|kept| kept) {
        tracing::warn!(provider = name, %error, "what a provider said cannot be kept");
    }
}

/// Serves all programs of a directory; those that cannot be served are told in the log.
pub async fn serve_directory(registry: &Registry, pool: &Pool, directory: &Path) {
    for (name, program) in programs(directory) {
        let served = async {
            let found = source::at_path(&program).await.map_err(|error| error.to_string())?;
            let launch = Launch::new(found.program);
            serve(registry, pool, &name, None, launch, found.digest).await.map_err(|error| error.to_string())
        };
        match served.await {
            Ok(types) => tracing::info!(provider = name, types, "provider served"),
            Err(error) => tracing::warn!(provider = name, error, "provider cannot be served"),
        }
    }
}

impl Providers {
    async fn find(&self, spec: &Spec, lock: Option<&Lock>) -> Result<Found, SourceError> {
        if let Some(path) = &spec.path {
            return source::at_path(path).await;
        }
        let source = spec.source.as_deref().unwrap_or_default();
        let address = Address::parse(source)?;
        let mirror = match (&spec.mirror.url, spec.mirror.directory.as_ref().or(self.directory.as_ref())) {
            (Some(url), _) => Mirror::network(url)?,
            (None, Some(directory)) => Mirror::Directory(directory.clone()),
            (None, None) => {
                let what = "spec.mirror".to_owned();
                return Err(SourceError::Unreadable { what, reason: "no mirror is named".into() });
            }
        };
        let mut wanted =
            Wanted { address, constraint: Constraint::parse(&spec.version)?, hashes: spec.hashes.clone() };
        if let Some(lock) = lock {
            wanted.constraint = Constraint::parse(&format!("= {}", lock.version))?;
            wanted.hashes.extend(lock.hashes.clone());
        }
        source::from_mirror(&mirror, &wanted, &self.cache).await
    }

    /// Serves what another process found and said.
    async fn follow(&self, object: &Json) -> Next {
        let conditions = object.pointer("/status/conditions").and_then(Json::as_array);
        let ready =
            conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
        let same = object.pointer("/status/observedGeneration") == Some(&json!(meta::generation(object)));
        if !ready || !same {
            return Next::Done;
        }
        match self.ready(object).await {
            Ok(_) => {
                (self.changed)();
                Next::Done
            }
            Err(error) => {
                tracing::warn!(
                    provider = meta::name(object),
                    error,
                    "a provider that others serve cannot be served"
                );
                Next::Backoff
            }
        }
    }

    async fn ready(&self, object: &Json) -> Result<Json, String> {
        let wrong = |error: serde_json::Error| format!("spec: {error}");
        let spec: Spec = serde_json::from_value(object["spec"].clone()).map_err(wrong)?;
        // The lock holds as long as nobody asks for something else.
        let same = object.pointer("/status/observedGeneration") == Some(&json!(meta::generation(object)));
        let lock = object.pointer("/status/lock").filter(|_| same).cloned();
        let lock: Option<Lock> = lock.and_then(|lock| serde_json::from_value(lock).ok());
        let found = self.find(&spec, lock.as_ref()).await.map_err(|error| error.to_string())?;
        let mut launch = Launch::new(&found.program);
        launch.arguments = spec.arguments;
        launch.memory = spec.memory_limit;
        launch.log = spec.log_level;
        let (name, source) = (meta::name(object), spec.source.as_deref());
        let types = serve(&self.registry, &self.pool, name, source, launch, found.digest.clone()).await;
        let types = types.map_err(|error| error.to_string())?;
        let mut status = json!({"digest": format!("sha256:{}", found.digest), "types": types});
        if let Some(version) = &found.version {
            status["version"] = json!(version.to_string());
            status["lock"] = json!({"version": version.to_string(), "hashes": found.hashes});
        }
        Ok(status)
    }
}

#[async_trait]
impl Controller for Providers {
    fn name(&self) -> &'static str {
        "terraform-providers"
    }

    fn identity(&self) -> UserInfo {
        UserInfo::new("hangar:terraform-providers", [MASTERS]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([RESOURCE])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let edited = |event: &Event| match (event.previous(), event.object()) {
            (Some(before), Some(now)) => {
                meta::generation(before) != meta::generation(now) || meta::is_deleting(now)
            }
            _ => true,
        };
        if event.control_plane == self.hosting.as_str() && (!self.tells || edited(event)) {
            triggers.now(event.key.clone());
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let name = &request.key.name;
        let object = context.get(RESOURCE, "", name).await?;
        let Some(object) = object.filter(|object| !meta::is_deleting(object)) else {
            if self.registry.remove(name) {
                tracing::info!(provider = %name, "provider is no longer served");
                (self.changed)();
            }
            return Ok(Next::Done);
        };
        if !self.tells {
            return Ok(self.follow(&object).await);
        }
        let outcome = self.ready(&object).await;
        let (mut status, ready, message) = match outcome {
            Ok(status) => (status, "True", "The kinds of the provider are served".to_owned()),
            Err(message) => (Json::Object(Map::new()), "False", message),
        };
        if ready == "True" {
            (self.changed)();
        }
        status["observedGeneration"] = meta::generation(&object).into();
        status["conditions"] = json!([condition(&object, ready, &message, context.now)]);
        let kind = ApiResource {
            group: GROUP.into(),
            version: API_VERSION.into(),
            api_version: format!("{GROUP}/{API_VERSION}"),
            kind: KIND.into(),
            plural: "providers".into(),
        };
        let api: Api<DynamicObject> = Api::all_with(context.client().clone(), &kind);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(if ready == "True" { Next::After(AGAIN) } else { Next::Backoff })
    }
}

fn condition(object: &Json, status: &str, message: &str, now: jiff::Timestamp) -> Json {
    let before = object.pointer("/status/conditions").and_then(Json::as_array).into_iter().flatten();
    let same = before.filter(|one| one["type"] == "Ready").find(|one| one["status"] == status);
    let time = same.and_then(|one| one["lastTransitionTime"].as_str()).map(str::to_owned);
    json!({
        "type": "Ready", "status": status, "message": message,
        "reason": if status == "True" { "Served" } else { "NotServed" },
        "lastTransitionTime": time.unwrap_or_else(|| objects::time::format(now)),
    })
}
