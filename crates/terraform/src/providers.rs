//! Providers as objects: `Provider` in the hosting control plane names where a program comes from, and its kinds are
//! there for all control planes as soon as it is ready.
//!
//! Only in the hosting control plane: whoever may name a program may run it on this machine. What was found the first
//! time is locked in the status, by version and checksum; another content under the same version is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use futures::TryStreamExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use objects::{Value as Json, meta};
use runtime::{Context, Controller, Error, Event, Fleet, Kinds, Next, Request, Triggers};
use serde::Deserialize;
use serde_json::{Map, json};

use crate::definition::{GENERIC_PLURAL, GROUP, api_resource};
use crate::names::API_VERSION;
use crate::plugin::{Launch, Pool, Stamp};
use crate::registry::{Registry, Served};
use crate::source::{self, Address, Constraint, Found, Mirror, SourceError, Wanted};

pub const KIND: &str = "Provider";
pub const RESOURCE: &str = "providers.terraform.hangar.dev";

/// How often a mirror is looked at again, for what is not known by any event.
const AGAIN: Duration = Duration::from_secs(600);
/// How often it is looked whether a program on this machine is still the same.
pub const LOOK: Duration = Duration::from_secs(5);
/// The same while it waits for objects to go.
const WAITING: Duration = Duration::from_secs(2);
/// Without it nobody could see or delete the objects of its kinds.
const FINALIZER: &str = "terraform.hangar.dev/provider";

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
    /// Where objects of its kinds may be.
    pub fleets: Vec<Arc<dyn Fleet>>,
    /// Whether it says in the status what it finds. One of all processes on a store does; the others serve what that
    /// one found.
    pub tells: bool,
}

/// The definition of the kind.
pub fn definition() -> Json {
    let text = |what: &str| json!({"type": "string", "description": what});
    let texts = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "has(self.path) != has(self.source)", "message": "one of path and source is required"},
                ],
                "properties": {
                    "path": text("A program on the machine of the server."),
                    "arguments": texts("Arguments of the program at path."),
                    "source": text("A provider in a mirror: name, namespace/name or host/namespace/name."),
                    "version": text("Versions of the source that will do, such as ~> 2.0; the newest is taken."),
                    "hashes": texts("Checksums that are accepted (h1, zh); any, if none are given."),
                    "mirror": {
                        "type": "object",
                        "description": "Where the source is; by default in the server's directory of plugins.",
                        "properties": {
                            "directory": text("A filesystem mirror in Terraform's layout."),
                            "url": text("A network mirror."),
                        },
                    },
                    "memoryLimit": {
                        "type": "integer", "format": "int64", "minimum": 1,
                        "description": "Bytes of data that a process may take.",
                    },
                    "logLevel": {
                        "type": "string", "enum": ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"],
                        "description": "Of the provider's own log, which is in that of the server.",
                    },
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
                "additionalPrinterColumns": crate::definition::columns([
                    ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
                    ("Version", "string", ".status.version"),
                    ("Types", "integer", ".status.types"),
                ]),
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
    let launch = Launch { provider: Some(name.to_owned()), ..launch };
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

/// The programs of a directory, as they were when they were last looked at.
#[derive(Default)]
pub struct Programs(BTreeMap<PathBuf, Option<Stamp>>);

impl Programs {
    /// Serves what is new or another one since the last time; what cannot be served is told in the log. Whether
    /// anything is served now that was not.
    pub async fn serve(&mut self, registry: &Registry, pool: &Pool, directory: &Path) -> bool {
        let mut changed = false;
        for (name, program) in programs(directory) {
            let stamp = Stamp::of(&program);
            if self.0.insert(program.clone(), stamp.clone()).is_some_and(|before| before == stamp) {
                continue;
            }
            // An object of the same name goes before it.
            let anothers = |launch: &Launch| launch.program != program;
            if registry.provider(&name).and_then(|one| one.program.clone()).is_some_and(|one| anothers(&one))
            {
                continue;
            }
            let served = async {
                let found = source::at_path(&program).await.map_err(|error| error.to_string())?;
                let launch = Launch { stamp: found.stamp, ..Launch::new(found.program) };
                let served = serve(registry, pool, &name, None, launch, found.digest).await;
                served.map_err(|error| error.to_string())
            };
            match served.await {
                Ok(types) => {
                    changed = true;
                    tracing::info!(provider = name, types, "provider served");
                }
                Err(error) => tracing::warn!(provider = name, error, "provider cannot be served"),
            }
        }
        changed
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

    /// How many objects of its kinds there are, in all control planes.
    async fn objects_of(&self, name: &str) -> Result<usize, Error> {
        let generic = format!("{GENERIC_PLURAL}.{GROUP}");
        let own = self.registry.kinds_of(name).into_iter().chain([generic.as_str().into()]);
        let kinds = Kinds::These(own.collect());
        let mut count = 0;
        for fleet in &self.fleets {
            let mut found = fleet.sweep(&kinds, None, None);
            while let Some(event) = found.try_next().await? {
                let anothers = |object: &Json| object.pointer("/spec/provider") != Some(&json!(name));
                let is_generic = event.key.kind == generic.as_str();
                count += usize::from(event.object().is_some_and(|object| !is_generic || !anothers(object)));
            }
        }
        Ok(count)
    }

    /// Whether the object says all there is to say, as far as a look at the program can tell.
    fn is_told(&self, object: &Json) -> bool {
        let program = self.registry.provider(meta::name(object)).and_then(|served| served.program.clone());
        says_ready(object) && program.is_some_and(|launch| !launch.is_replaced())
    }

    /// It is no longer served.
    fn withdraw(&self, name: &str) {
        if self.registry.remove(name) {
            tracing::info!(provider = %name, "provider is no longer served");
            (self.changed)();
        }
    }

    /// Serves what another process found and said.
    async fn follow(&self, object: &Json) -> Next {
        if !says_ready(object) {
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
        let mut launch = Launch { stamp: found.stamp.clone(), ..Launch::new(&found.program) };
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
        let Some(object) = object else {
            self.withdraw(name);
            return Ok(Next::Done);
        };
        if !self.tells {
            return Ok(self.follow(&object).await);
        }
        let kind = api_resource(GROUP, KIND, "providers");
        let api: Api<DynamicObject> = Api::all_with(context.client().clone(), &kind);
        let going = meta::is_deleting(&object);
        let left = if going { self.objects_of(name).await? } else { 0 };
        if (going && left == 0) || (!going && !meta::finalizers(&object).any(|one| one == FINALIZER)) {
            let others = meta::finalizers(&object).filter(|one| *one != FINALIZER);
            let finalizers: Vec<&str> = others.chain((!going).then_some(FINALIZER)).collect();
            let version = meta::resource_version(&object);
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        if going && left == 0 {
            self.withdraw(name);
            return Ok(Next::Done);
        }
        let by_path = object.pointer("/spec/path").is_some();
        if by_path && !going && self.is_told(&object) {
            return Ok(Next::After(LOOK));
        }
        let outcome = self.ready(&object).await;
        let (mut status, ready, message) = match outcome {
            Ok(status) => {
                let served = "The kinds of the provider are served".to_owned();
                let reached = |reason| format!("{served}, but it has no network: {reason}");
                let message = self.pool.isolation().no_network().map_or_else(|| served.clone(), reached);
                (status, "True", message)
            }
            Err(message) => (Json::Object(Map::new()), "False", message),
        };
        if ready == "True" {
            (self.changed)();
        }
        status["observedGeneration"] = meta::generation(&object).into();
        let served = if ready == "True" { "Served" } else { "NotServed" };
        let mut conditions = vec![condition(&object, "Ready", ready, served, &message, context.now)];
        if going {
            let message =
                format!("objects of its kinds are still there ({left}); it goes when they are gone");
            conditions.push(condition(&object, "InUse", "True", "ObjectsRemain", &message, context.now));
        }
        status["conditions"] = json!(conditions);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(match ready {
            _ if going => Next::After(WAITING),
            "True" if by_path => Next::After(LOOK),
            "True" => Next::After(AGAIN),
            _ => Next::Backoff,
        })
    }
}

/// Whether the status says that it is served as it is.
fn says_ready(object: &Json) -> bool {
    let mut conditions = object.pointer("/status/conditions").and_then(Json::as_array).into_iter().flatten();
    let ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
    ready && object.pointer("/status/observedGeneration") == Some(&json!(meta::generation(object)))
}

fn condition(
    object: &Json,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Json {
    let before = object.pointer("/status/conditions").and_then(Json::as_array).into_iter().flatten();
    let same = before.filter(|one| one["type"] == kind).find(|one| one["status"] == status);
    let time = same.and_then(|one| one["lastTransitionTime"].as_str()).map(str::to_owned);
    json!({
        "type": kind, "status": status, "message": message, "reason": reason,
        "lastTransitionTime": time.unwrap_or_else(|| objects::time::format(now)),
    })
}
