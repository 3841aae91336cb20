//! The host that is an existing Kubernetes: control planes are pods of it, and this operator keeps them right.
//!
//! For each control plane there are, in `NAME-system`: the Secret with its keys ([`keys`]), its store ([`backend`]),
//! the workload that serves it and what is looked for beside it ([`workload`]), Services, and whatever passes connections
//! on from outside ([`exposure`], [`settings`]). [`manifests`] is what the operator itself needs in the cluster.
//!
//! **Invariants:** nothing is remembered between two passes but the installation's own key and what the cluster
//! serves; what is there is read, compared and mended. Private keys go into Secrets and nowhere else.

mod backend;
#[cfg(test)]
mod chart_tests;
mod exposure;
mod keys;
pub mod manifests;
mod policy;
mod settings;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::Secret;
use auth::pki::{Authority, Issued};
use jiff::Timestamp;
use objects::{Value, meta, time};
use runtime::{Controller, Error};
use serde_json::json;

use crate::api::{self, Place};
use crate::conditions::Condition;
use crate::elsewhere::Inline;
use crate::furniture::{self, Wanted};
use crate::host::{Doors, Host, HostError, Settings, Subject};
use crate::kubeconfig::secret_value;
use crate::names;
use crate::operator::Operator;
use crate::plane::{Plane, Type};
use crate::types::{self, Hosted};
use backend::{Choice, Found};
use keys::MasterKey;
use workload::Pods;

pub use exposure::{Expose, Exposure, Gateway};
pub use settings::{Overrides, default_settings};

/// What the operator is told about the cluster, beside `kubeflex-config`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image of this program.
    pub image: String,
    pub image_pull_policy: String,
    pub image_pull_secret: Option<String>,
    pub expose: Expose,
    pub ingress_class: String,
    pub gateway: Option<Gateway>,
    /// `NodePort`, `ClusterIP` or `LoadBalancer`.
    pub service_type: String,
    /// Of volumes; none is the cluster's own choice.
    pub storage_class: Option<String>,
    pub volume_size: String,
    /// The Secret in `kubeflex-system` that names the shared store.
    pub store_secret: String,
    /// Destinations that control planes may have their servers connect to.
    pub egress_allow: egress::Ranges,
    /// Whether to make a password for a PostgreSQL that was installed with the operator, if it has none.
    pub make_postgresql_password: bool,
    /// Said on the command line, these are stronger than `kubeflex-config`.
    pub overrides: Overrides,
    /// Whether this process is in the cluster, where the names of Services lead somewhere.
    pub in_cluster: bool,
    /// PEM: whom clients of the cluster's own API trust.
    pub hosting_authority: String,
}

/// What is left of a control plane in a store that others use too, and how it goes.
#[async_trait]
pub trait Rooms: Send + Sync + 'static {
    /// Takes everything out of one part of a server. An error says why in one sentence.
    async fn empty(&self, url: &Secret<String>, room: &str) -> Result<(), String>;
}

pub struct Kubernetes {
    client: kube::Client,
    options: Options,
    exposure: Exposure,
    master: MasterKey,
    rooms: Arc<dyn Rooms>,
}

/// How long the data of a control plane may be out of reach before it goes without them.
const PATIENCE: Duration = Duration::from_secs(300);

fn failed(error: Error) -> HostError {
    match error.code() {
        // Who asks is not allowed to, or what is asked for cannot be: nothing changes by asking again.
        Some(400 | 403 | 422) => HostError::Refused(error.to_string()),
        _ => HostError::Failed(error.to_string()),
    }
}

fn odd(error: impl std::fmt::Display) -> HostError {
    HostError::Failed(error.to_string())
}

impl Kubernetes {
    /// Installs what control planes need in the cluster, and looks at what it has; any number of times.
    pub async fn prepare(
        client: kube::Client,
        options: Options,
        rooms: Arc<dyn Rooms>,
    ) -> Result<Kubernetes, HostError> {
        let settings = settings::read(&client, &options.overrides).await?;
        crate::install(&client, &settings).await.map_err(failed)?;
        let master = master(&client).await?;
        if options.make_postgresql_password {
            make_postgresql_password(&client).await?;
        }
        let (class, gateway) = (options.ingress_class.as_str(), options.gateway.as_ref());
        let exposure = Exposure::find(&client, options.expose, class, gateway, &settings).await?;
        Ok(Kubernetes { client, options, exposure, master, rooms })
    }

    /// The loops of an installation on this cluster, which the fleet calls by this name.
    pub fn controllers(self, hosting: &str) -> Vec<Box<dyn Controller>> {
        vec![Box::new(Operator::new(Arc::new(self), hosting))]
    }

    async fn get(&self, plane: &Plane, plural: &str, name: &str) -> Result<Option<Value>, HostError> {
        let place = Place::new("v1", plural, &plane.namespace, name);
        api::get(&self.client, &place).await.map_err(failed)
    }

    /// Makes an object right, and does nothing if it is.
    async fn put(&self, wanted: &Wanted) -> Result<Value, HostError> {
        let live = api::get(&self.client, &wanted.place).await.map_err(failed)?;
        if let Some(live) = live {
            if meta::is_deleting(&live) {
                let what = format!("{} {:?} is being deleted", meta::kind(&live), wanted.place.name);
                return Err(HostError::Failed(what));
            }
            if api::covers(&live, &wanted.object) {
                return Ok(live);
            }
        }
        api::apply(&self.client, &wanted.place, &wanted.object, names::MANAGER, true).await.map_err(failed)
    }

    async fn settings(&self) -> Result<Settings, HostError> {
        settings::read(&self.client, &self.options.overrides).await
    }

    async fn keys(&self, plane: &Plane) -> Result<Value, HostError> {
        let found = self.get(plane, "secrets", keys::SECRET).await?;
        found.ok_or_else(|| HostError::Failed(format!("Secret {:?} is not there yet", keys::SECRET)))
    }

    async fn authority(&self, plane: &Plane) -> Result<Authority, HostError> {
        let secret = self.keys(plane).await?;
        keys::authority(&secret).ok_or_else(|| odd(format!("Secret {:?} cannot be used", keys::SECRET)))
    }

    async fn found(&self, plane: &Plane) -> Result<Found, HostError> {
        let named = match plane.spec.store.as_str() {
            "" => &self.options.store_secret,
            name => name,
        };
        let look =
            async |name: &str| api::get(&self.client, &backend::server_place(name)).await.map_err(failed);
        Ok(Found {
            claim: self.get(plane, "persistentvolumeclaims", backend::CLAIM).await?,
            secret: self.get(plane, "secrets", backend::SECRET).await?,
            server: look(named).await?,
            postgres: look(backend::POSTGRES).await?,
        })
    }

    async fn choice(&self, plane: &Plane) -> Result<(Choice, Found), HostError> {
        let found = self.found(plane).await?;
        Ok((backend::choose(plane, &found)?, found))
    }

    /// The host that the cluster has chosen, where it is the one to choose.
    async fn route_host(&self, plane: &Plane) -> Result<Option<String>, HostError> {
        if self.exposure != Exposure::Route {
            return Ok(None);
        }
        let row = row(plane)?;
        let Some(wanted) = self.exposure.object(plane, row, &self.settings().await?) else { return Ok(None) };
        let route = self.put(&wanted).await?;
        match exposure::route_host(&route) {
            Some(host) => Ok(Some(host.to_owned())),
            None => Err(HostError::Failed(format!("waiting for the host of Route {}", plane.name))),
        }
    }

    /// Takes an Ingress back that is not what this control plane is reached by any more.
    async fn drop_ingress(&self, plane: &Plane) -> Result<(), HostError> {
        if matches!(self.exposure, Exposure::Ingress { .. }) {
            return Ok(());
        }
        let place = Place::new("networking.k8s.io/v1", "ingresses", &plane.namespace, &plane.name);
        let live = api::get(&self.client, &place).await.map_err(failed)?;
        if let Some(live) = live.filter(|live| plane.owns(live)) {
            api::delete(&self.client, &place, Some(meta::uid(&live))).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn workload(&self, plane: &Plane) -> Result<(Place, Option<Value>), HostError> {
        let Some(first) = row(plane)?.workloads.first() else {
            return Err(odd("this type of control plane has no workload"));
        };
        let (kind, name) = workload::kind_of(*first);
        let plural = if kind == "StatefulSet" { "statefulsets" } else { "deployments" };
        let place = Place::new("apps/v1", plural, &plane.namespace, name);
        let live = api::get(&self.client, &place).await.map_err(failed)?;
        Ok((place, live))
    }

    /// Stops its pods and takes its data out of a shared store.
    async fn stop(&self, plane: &Plane) -> Result<(), HostError> {
        let (place, live) = self.workload(plane).await?;
        if let Some(live) = live.filter(|live| plane.owns(live)) {
            api::delete(&self.client, &place, Some(meta::uid(&live))).await.map_err(failed)?;
        }
        let app = row(plane)?.app;
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector=app%3D{app}&limit=1", plane.namespace);
        let pods = api::get_path(&self.client, &path).await.map_err(failed)?;
        if pods["items"].as_array().is_some_and(|pods| !pods.is_empty()) {
            return Err(HostError::Failed("its pods have not ended yet".to_owned()));
        }
        let secret = self.get(plane, "secrets", backend::SECRET).await?.filter(|secret| plane.owns(secret));
        let value = |key| {
            let bytes = secret.as_ref().and_then(|secret| secret_value(secret, key))?;
            String::from_utf8(bytes).ok()
        };
        if let (Some(url), Some(room)) = (value(backend::URL), value(backend::ROOM)) {
            self.rooms.empty(&Secret::new(url), &room).await.map_err(HostError::Failed)?;
        }
        Ok(())
    }
}

fn row(plane: &Plane) -> Result<&'static Hosted, HostError> {
    types::hosted(plane.spec.r#type).ok_or_else(|| odd("a control plane of this type is not made here"))
}

/// The installation's own key: made once, by whoever comes first.
async fn master(client: &kube::Client) -> Result<MasterKey, HostError> {
    let place = Place::new("v1", "secrets", names::SYSTEM_NAMESPACE, keys::MASTER);
    let mut found = api::get(client, &place).await.map_err(failed)?;
    if found.is_none() {
        match api::create(client, &place, &keys::master_secret(&MasterKey::generate())).await {
            Err(error) if error.code() != Some(409) => return Err(failed(error)),
            _ => found = api::get(client, &place).await.map_err(failed)?,
        }
    }
    let text = found.and_then(|secret| String::from_utf8(secret_value(&secret, keys::MASTER_KEY)?).ok());
    let unusable = || {
        let why = format!(
            "Secret {}/{} holds no key of 64 hexadecimal digits under {:?}: restore it, no data can be read without it",
            names::SYSTEM_NAMESPACE,
            keys::MASTER,
            keys::MASTER_KEY
        );
        HostError::Refused(why)
    };
    text.and_then(|text| MasterKey::parse(&text)).ok_or_else(unusable)
}

/// What PostgreSQL is started with, and what control planes reach it by.
pub async fn make_postgresql_password(client: &kube::Client) -> Result<(), HostError> {
    let place = backend::server_place(backend::POSTGRES);
    if api::get(client, &place).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    let password = MasterKey::generate().to_text();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": place.name, "namespace": place.namespace},
        "stringData": {backend::POSTGRES_PASSWORD: password.expose()},
    });
    match api::create(client, &place, &secret).await {
        Err(error) if error.code() != Some(409) => Err(failed(error)),
        _ => Ok(()),
    }
}

#[async_trait]
impl Host for Kubernetes {
    async fn ensure(&self, plane: &Plane) -> Result<(), HostError> {
        if plane.spec.source.is_some() {
            let why =
                "spec.source: control planes in pods of their own are not copied; use backup and restore";
            return Err(HostError::Refused(why.to_owned()));
        }
        crate::embedded::ranges(plane)?;
        let (row, settings) = (row(plane)?, self.settings().await?);
        let mut outside = vec![format!("{}.{}", plane.name, settings.domain), settings.host_container];
        outside.extend(self.route_host(plane).await?);
        self.drop_ingress(plane).await?;
        let service = furniture::service_name(plane, row);
        let live = self.get(plane, "secrets", keys::SECRET).await?.unwrap_or_default();
        let dns_names = keys::dns_names(plane, service, &outside);
        let wanted = keys::wanted(plane, &live, &dns_names, &self.master, Timestamp::now()).map_err(odd)?;
        self.put(&wanted).await.map(drop)
    }

    async fn serves(&self, plane: &Plane) -> Result<bool, HostError> {
        Ok(self.workload(plane).await?.1.is_some_and(|live| workload::is_ready(&live)))
    }

    async fn remove(&self, plane: &Plane) -> Result<(), HostError> {
        let stopped = self.stop(plane).await;
        let since = time::parse(meta::text(&plane.object, "deletionTimestamp"));
        let overdue = since.is_ok_and(|at| Timestamp::now().duration_since(at).unsigned_abs() > PATIENCE);
        match stopped {
            Err(error) if overdue => {
                tracing::warn!(control_plane = plane.name, %error, "a control plane goes without being emptied");
                Ok(())
            }
            stopped => stopped,
        }
    }

    async fn objects(&self, plane: &Plane, row: &Hosted) -> Result<Vec<Wanted>, HostError> {
        let (settings, (choice, found)) = (self.settings().await?, self.choice(plane).await?);
        let keys = keys::digest_of(&self.keys(plane).await?);
        let Choice { backend, .. } = &choice;
        let pods = Pods { plane, row, options: &self.options, settings: &settings, backend, keys };
        let class = self.options.storage_class.as_deref();
        let mut objects = choice.objects(plane, &found, class, &self.options.volume_size);
        objects.extend(furniture::services(plane, row, &self.options.service_type));
        objects.extend(self.exposure.object(plane, row, &settings));
        objects.extend(pods.workloads());
        Ok(objects)
    }

    fn stands_in(&self) -> bool {
        false
    }

    async fn store_note(&self, plane: &Plane) -> Result<Option<Condition>, HostError> {
        Ok(self.choice(plane).await?.0.note)
    }

    fn kinds(&self) -> Vec<&'static str> {
        ["persistentvolumeclaims"].into_iter().chain(self.exposure.kind()).collect()
    }

    fn follows_settings(&self) -> bool {
        true
    }

    async fn doors(&self, plane: &Plane) -> Result<Doors, HostError> {
        let settings = self.settings().await?;
        let off_cluster = match self.route_host(plane).await? {
            Some(host) => format!("https://{host}"),
            None => format!("https://{}.{}:{}", plane.name, settings.domain, settings.external_port),
        };
        let (service, namespace) = (furniture::service_name(plane, row(plane)?), &plane.namespace);
        // As each of them has it elsewhere.
        let end = match plane.spec.r#type {
            Type::Vcluster => "",
            Type::K3s => ".svc",
            _ => ".svc.cluster.local",
        };
        let in_cluster = format!("https://{service}.{namespace}{end}");
        Ok(Doors { off_cluster, in_cluster, server_name: None })
    }

    async fn serving_authority(&self, plane: &Plane) -> Result<String, HostError> {
        Ok(self.authority(plane).await?.certificate_pem())
    }

    async fn certificates(&self, _: &Plane) -> Result<Vec<(&'static str, String)>, HostError> {
        // They are this host's own; see `ensure`.
        Ok(Vec::new())
    }

    async fn issue(
        &self,
        plane: &Plane,
        subject: Subject<'_>,
        lifetime: Duration,
    ) -> Result<Issued, HostError> {
        let authority = self.authority(plane).await?;
        authority.issue_client(subject.user, subject.groups, Timestamp::now(), lifetime).map_err(odd)
    }

    async fn trusts(
        &self,
        plane: &Plane,
        certificate: &[u8],
        subject: Subject<'_>,
        after: Duration,
    ) -> Result<bool, HostError> {
        let later = Timestamp::now() + after;
        Ok(self.authority(plane).await?.verify_client(&[certificate], later).is_ok_and(|user| {
            user.name == subject.user && subject.groups.iter().all(|group| user.is_in(group))
        }))
    }

    async fn revoke(&self, _: &Plane, _: u64) -> Result<(), HostError> {
        // The keys are of a generation; `ensure` has made new ones, and its pods are started with them.
        Ok(())
    }

    async fn client(&self, plane: &Plane) -> Result<kube::Client, HostError> {
        let row = row(plane)?;
        let key = match row.in_cluster_key {
            key if self.options.in_cluster && !key.is_empty() => key,
            _ => row.key,
        };
        let secret = self.get(plane, "secrets", row.secret).await?.unwrap_or_default();
        let text = secret_value(&secret, key)
            .ok_or_else(|| odd(format!("Secret {:?} has no kubeconfig yet", row.secret)))?;
        Inline::read(&text)?.client().await
    }

    fn hosting_door(&self) -> String {
        "https://kubernetes.default.svc".to_owned()
    }

    fn hosting_authority(&self) -> String {
        self.options.hosting_authority.clone()
    }
}
