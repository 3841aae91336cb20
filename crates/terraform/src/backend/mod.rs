//! States that are kept elsewhere: `spec.backendRef` names a Secret with the configuration of one of Terraform's backends,
//! under the name of the backend.
//!
//! What lies there is a state file as Terraform writes it (see [`file`]), with one resource in it, in the workspace
//! `default`: the terraform program can go on with it. Where a backend locks, it is locked while something changes.

pub mod file;
mod http;
mod kubernetes;
mod pg;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::Caller;
use objects::{Value as Json, meta};
use provision::{Failure, Reader};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The only one that Kubeform uses.
pub(crate) const WORKSPACE: &str = "default";

/// What a backend in the control plane itself is reached by.
pub struct Access<'a> {
    pub namespace: &'a str,
    pub reader: &'a Reader<'a>,
    /// None while only a plan is asked for.
    pub client: Option<&'a kube::Client>,
}

/// Who locks, in Terraform's form.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Lock {
    /// The same for the same object at any time: a lock that a crash left behind is known again.
    #[serde(rename = "ID")]
    pub id: String,
    pub operation: String,
    pub info: String,
    pub who: String,
    pub version: String,
    pub created: String,
    pub path: String,
}

/// A lock that is held.
#[async_trait]
pub trait Held: Send + Sync {
    async fn release(self: Box<Self>) -> Result<(), Failure>;
}

/// One place for one state.
#[async_trait]
pub trait Backend: Send + Sync {
    /// None if there is no state there.
    async fn read(&self, access: &Access<'_>) -> Result<Option<Vec<u8>>, Failure>;

    /// Called while the lock is held, if the backend has any.
    async fn write(&self, access: &Access<'_>, state: Vec<u8>, lock: &Lock) -> Result<(), Failure>;

    async fn delete(&self, access: &Access<'_>) -> Result<(), Failure>;

    /// None if the backend, or its configuration, knows no locks.
    async fn lock(&self, access: &Access<'_>, lock: &Lock) -> Result<Option<Box<dyn Held>>, Failure> {
        let _ = (access, lock);
        Ok(None)
    }
}

/// Makes a backend of its configuration, for the control plane that connects to it.
pub type Open = Arc<dyn Fn(&Json, &Caller) -> Result<Arc<dyn Backend>, Failure> + Send + Sync>;

/// The backends that can be named.
#[derive(Clone)]
pub struct Backends(BTreeMap<&'static str, Open>);

impl Default for Backends {
    fn default() -> Backends {
        let own: [(&str, Open); 3] = [
            ("http", Arc::new(http::open)),
            ("kubernetes", Arc::new(kubernetes::open)),
            ("pg", Arc::new(pg::open)),
        ];
        Backends(own.into())
    }
}

impl Backends {
    /// With one that is made elsewhere.
    #[must_use]
    pub fn with(mut self, name: &'static str, open: Open) -> Backends {
        self.0.insert(name, open);
        self
    }

    /// The backend that a Secret configures: its only key is the name of the backend.
    pub fn open(&self, secret: &Json, caller: &Caller) -> Result<Arc<dyn Backend>, Failure> {
        let place = format!("Secret {}/{}", meta::namespace(secret), meta::name(secret));
        let wrong = |why: String| Failure::terminal(format!("{place} {why}")).at("spec.backendRef");
        let known = || self.0.keys().copied().collect::<Vec<_>>().join(", ");
        let data = secret.get("data").and_then(Json::as_object).into_iter().flatten();
        let (name, text) = match data.collect::<Vec<_>>().as_slice() {
            [one] => *one,
            _ => return Err(wrong(format!("must have exactly one key, the name of a backend: {}", known()))),
        };
        let open = self.0.get(name.as_str());
        let open = open
            .ok_or_else(|| wrong(format!("names the backend {name:?}, which is not one of {}", known())))?;
        let text = text.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        let config: Option<Json> = serde_json::from_slice(&text).ok().filter(Json::is_object);
        let config = config.ok_or_else(|| wrong(format!("has no JSON object under {name:?}")))?;
        open(&config, caller).map_err(|failure| failure.at("spec.backendRef"))
    }
}

/// The fields of a configuration that are used; others mean something to other programs only.
pub fn settings<T: DeserializeOwned>(backend: &str, config: &Json) -> Result<T, Failure> {
    serde_json::from_value(config.clone())
        .map_err(|error| Failure::terminal(format!("the configuration of the backend {backend}: {error}")))
}

/// The backend could not be asked.
pub fn away(backend: &str, why: impl std::fmt::Display) -> Failure {
    Failure::recoverable(format!("the backend {backend} cannot be used: {why}")).at("spec.backendRef")
}

/// Somebody else holds the lock.
pub fn locked(backend: &str, who: &str) -> Failure {
    let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
    let message = format!("the state in the backend {backend} is locked{by}");
    Failure::recoverable(message).at("spec.backendRef")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(data: Json) -> String {
        let secret = json!({"metadata": {"name": "b", "namespace": "n"}, "data": data});
        let caller = egress::Egress::default().caller("a");
        Backends::default().open(&secret, &caller).err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn configurations() {
        let encoded = |config: Json| STANDARD.encode(config.to_string());
        assert!(refused(json!({})).contains("exactly one key"));
        assert!(refused(json!({"http": "", "pg": ""})).contains("exactly one key"));
        assert!(
            refused(json!({"consul": ""})).contains("\"consul\", which is not one of http, kubernetes, pg")
        );
        assert!(refused(json!({"pg": "!"})).contains("has no JSON object under \"pg\""));
        assert!(refused(json!({"http": encoded(json!({}))})).contains("missing field `address`"));
        assert_eq!(refused(json!({"http": encoded(json!({"address": "http://127.0.0.1:1/x"}))})), "");
        let socket = json!({"conn_str": "host=/run/postgresql user=x"});
        assert!(refused(json!({"pg": encoded(socket)})).contains("files of the server"));
        let other = json!({"secret_suffix": "x", "namespace": "other"});
        assert_eq!(refused(json!({"kubernetes": encoded(other)})), "");
    }
}
