//! A state in a Secret of the object's own namespace, as Terraform's backend `kubernetes` keeps it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::Caller;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use objects::{Value as Json, meta};
use provision::Failure;
use serde::Deserialize;
use serde_json::json;

use super::{Access, Backend, Held, Lock, WORKSPACE, away, locked, settings};

const NAME: &str = "kubernetes";
const KEY: &str = "tfstate";
const LOCK_INFO: &str = "app.terraform.io/lock-info";
/// What a Secret can hold, unpacked, and more.
const LARGEST: u64 = 64 << 20;

#[derive(Clone, Deserialize)]
struct Settings {
    secret_suffix: String,
    namespace: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Clone)]
struct Kubernetes(Settings);

pub fn open(config: &Json, _: &Caller) -> Result<Arc<dyn Backend>, Failure> {
    Ok(Arc::new(Kubernetes(settings(NAME, config)?)))
}

impl Kubernetes {
    fn name(&self) -> String {
        format!("{KEY}-{WORKSPACE}-{}", self.0.secret_suffix)
    }

    fn labels(&self) -> Json {
        let mut labels = json!({
            KEY: "true", "tfstateSecretSuffix": self.0.secret_suffix, "tfstateWorkspace": WORKSPACE,
            "app.kubernetes.io/managed-by": "terraform",
        });
        for (name, value) in &self.0.labels {
            labels[name] = json!(value);
        }
        labels
    }

    /// Whoever may write an object in a namespace need not be one who may write to others.
    fn check(&self, access: &Access<'_>) -> Result<(), Failure> {
        match self.0.namespace.as_deref() {
            Some(other) if !other.is_empty() && other != access.namespace => {
                let message = format!(
                    "the backend kubernetes names namespace {other:?}; it can only be the object's own, {:?}",
                    access.namespace
                );
                Err(Failure::terminal(message).at("spec.backendRef"))
            }
            _ => Ok(()),
        }
    }

    async fn secret(&self, access: &Access<'_>) -> Result<Option<Json>, Failure> {
        self.check(access)?;
        let secret = access.reader.peek("secrets", access.namespace, &self.name()).await?;
        let Some(secret) = secret else { return Ok(None) };
        // Not one that only has the name.
        if meta::labels(&secret).and_then(|labels| labels.get(KEY)?.as_str()) != Some("true") {
            let message =
                format!("Secret {}/{} is not a state: it has no label {KEY}", access.namespace, self.name());
            return Err(Failure::terminal(message).at("spec.backendRef"));
        }
        Ok(Some(secret))
    }
}

fn client<'a>(access: &Access<'a>) -> Result<&'a kube::Client, Failure> {
    access.client.ok_or_else(|| away(NAME, "nothing is written while only a plan is made"))
}

/// What the control plane says of a write.
fn refused(error: kube::Error) -> Failure {
    away(NAME, runtime::Error::from(error))
}

#[async_trait]
impl Backend for Kubernetes {
    async fn read(&self, access: &Access<'_>) -> Result<Option<Vec<u8>>, Failure> {
        let Some(secret) = self.secret(access).await? else { return Ok(None) };
        let Some(text) = secret.pointer("/data/tfstate").and_then(Json::as_str) else { return Ok(None) };
        let packed = STANDARD.decode(text).map_err(|error| away(NAME, error))?;
        let mut state = Vec::new();
        let unpacked = GzDecoder::new(packed.as_slice()).take(LARGEST).read_to_end(&mut state);
        unpacked.map_err(|error| away(NAME, error))?;
        Ok(Some(state))
    }

    async fn write(&self, access: &Access<'_>, state: Vec<u8>, _: &Lock) -> Result<(), Failure> {
        self.secret(access).await?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&state).map_err(|error| away(NAME, error))?;
        let packed = packed.finish().map_err(|error| away(NAME, error))?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": self.name(), "labels": self.labels(), "annotations": {"encoding": "gzip"}},
            "data": {KEY: STANDARD.encode(packed)},
        });
        let api: Api<Secret> = Api::namespaced(client(access)?.clone(), access.namespace);
        let parameters = PatchParams::apply("hangar-terraform-backend").force();
        let written = api.patch(&self.name(), &parameters, &Patch::Apply(&secret)).await;
        written.map(drop).map_err(refused)
    }

    async fn delete(&self, access: &Access<'_>) -> Result<(), Failure> {
        if self.secret(access).await?.is_none() {
            return Ok(());
        }
        let client = client(access)?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), access.namespace);
        let leases: Api<Lease> = Api::namespaced(client.clone(), access.namespace);
        let options = DeleteParams::default();
        let gone = |result: Result<(), kube::Error>| match result {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map_err(refused),
        };
        gone(secrets.delete(&self.name(), &options).await.map(drop))?;
        gone(leases.delete(&format!("lock-{}", self.name()), &options).await.map(drop))
    }

    async fn lock(&self, access: &Access<'_>, lock: &Lock) -> Result<Option<Box<dyn Held>>, Failure> {
        self.check(access)?;
        let name = format!("lock-{}", self.name());
        let leases: Api<Lease> = Api::namespaced(client(access)?.clone(), access.namespace);
        let info = serde_json::to_string(lock).map_err(|error| away(NAME, error))?;
        let holder = json!({"holderIdentity": lock.id});
        match leases.get_opt(&name).await.map_err(refused)? {
            None => {
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": name, "labels": self.labels(), "annotations": {LOCK_INFO: info}},
                    "spec": holder,
                });
                let lease: Lease = serde_json::from_value(lease).map_err(|error| away(NAME, error))?;
                leases.create(&PostParams::default(), &lease).await.map_err(refused)?;
            }
            Some(lease) => {
                let held = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                match held.filter(|held| !held.is_empty()) {
                    // One of ours that a crash left behind.
                    Some(held) if held == lock.id => {}
                    Some(_) => {
                        let annotations = lease.metadata.annotations.unwrap_or_default();
                        let info = annotations.get(LOCK_INFO).map(String::as_str).unwrap_or_default();
                        let info: Json = serde_json::from_str(info).unwrap_or_default();
                        return Err(locked(NAME, info["Who"].as_str().unwrap_or_default()));
                    }
                    None => {
                        // Only if nobody was quicker.
                        let version = lease.metadata.resource_version;
                        let metadata = json!({"resourceVersion": version, "annotations": {LOCK_INFO: info}});
                        let patch = json!({"metadata": metadata, "spec": holder});
                        let parameters = PatchParams::default();
                        leases.patch(&name, &parameters, &Patch::Merge(&patch)).await.map_err(refused)?;
                    }
                }
            }
        }
        Ok(Some(Box::new(HeldLease { leases, name })))
    }
}

struct HeldLease {
    leases: Api<Lease>,
    name: String,
}

#[async_trait]
impl Held for HeldLease {
    async fn release(self: Box<Self>) -> Result<(), Failure> {
        let patch = json!({"metadata": {"annotations": {LOCK_INFO: null}}, "spec": {"holderIdentity": null}});
        match self.leases.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            // It went with the state.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            released => released.map(drop).map_err(refused),
        }
    }
}
