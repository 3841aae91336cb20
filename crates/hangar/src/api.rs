//! A control plane as the command line talks to it: any objects, by path, over the network.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use futures::TryStreamExt;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::core::WatchEvent;
use serde_json::{Value, json};

use crate::kubeconfig::{Access, Kubeconfig, List};

/// A server that is there answers at once; one that is not is not worth more of somebody's time.
const CONNECT: Duration = Duration::from_secs(5);
const WATCH_SECONDS: u32 = 300;
/// Between two watches, so that a server that ends them at once is not asked without pause.
const PAUSE: Duration = Duration::from_millis(100);

/// Fields of entries that are paths, relative to the file they are in.
const CLUSTER_PATHS: [&str; 1] = ["certificate-authority"];
const USER_PATHS: [&str; 3] = ["client-certificate", "client-key", "tokenFile"];

/// Why a server did not do what was asked.
#[derive(thiserror::Error, Debug)]
pub enum ApiError {
    /// Its own words.
    #[error("{message}")]
    Refused { code: u16, message: String },
    #[error("{0}")]
    NoAnswer(String),
}

impl ApiError {
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Refused { code, .. } => Some(*code),
            ApiError::NoAnswer(_) => None,
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => ApiError::Refused { code: status.code, message: status.message },
            error => ApiError::NoAnswer(innermost(&error)),
        }
    }
}

/// The layers of a client say little; what happened is said at the bottom.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// A kind of objects, and where they are.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `api/v1`, `apis/apps/v1`.
    pub api: &'static str,
    pub plural: &'static str,
}

pub const CONTROL_PLANES: Kind =
    Kind { api: "apis/tenancy.kflex.kubestellar.org/v1alpha1", plural: "controlplanes" };
pub const NAMESPACES: Kind = Kind { api: "api/v1", plural: "namespaces" };
pub const SECRETS: Kind = Kind { api: "api/v1", plural: "secrets" };

impl Kind {
    fn collection(self, namespace: &str) -> String {
        match namespace {
            "" => format!("/{}/{}", self.api, self.plural),
            namespace => format!("/{}/namespaces/{namespace}/{}", self.api, self.plural),
        }
    }

    fn object(self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}

#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    pub server: String,
}

impl Api {
    /// Through a context of a kubeconfig.
    pub async fn of_context(kubeconfig: &Kubeconfig, context: &str) -> anyhow::Result<Api> {
        let mut access = kubeconfig.access(context).map_err(anyhow::Error::msg)?;
        let body = kubeconfig.get(List::Contexts, context).cloned().unwrap_or_default();
        let dir = |list, key: &str| kubeconfig.dir_of(list, body[key].as_str().unwrap_or_default());
        resolve(&mut access.cluster, &CLUSTER_PATHS, dir(List::Clusters, "cluster"));
        resolve(&mut access.user, &USER_PATHS, dir(List::Users, "user"));
        Api::of(&access).await
    }

    pub async fn of(access: &Access) -> anyhow::Result<Api> {
        let config: ClientConfig =
            serde_json::from_value(access.kubeconfig("it")).context("the context's entries make no sense")?;
        let mut config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
            .await
            .map_err(|error| anyhow::anyhow!("{}", innermost(&error)))?;
        config.connect_timeout = Some(CONNECT);
        // A watch may be silent for as long as it likes.
        config.read_timeout = None;
        let local = config.cluster_url.host().is_some_and(|host| {
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        });
        if local {
            config.proxy_url = None;
        }
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client =
            kube::Client::try_from(config).map_err(|error| anyhow::anyhow!("{}", innermost(&error)))?;
        Ok(Api { client, server })
    }

    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ApiError> {
        let request =
            Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|error| ApiError::NoAnswer(error.to_string()))?;
        Ok(self.client.request(request).await?)
    }

    pub async fn get_path(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, None).await
    }

    pub async fn post_path(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::POST, path, None).await
    }

    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        optional(self.send(Method::GET, &kind.object(namespace, name), None).await)
    }

    /// All of them, in pages of what a server likes to answer.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Value>, ApiError> {
        let (mut items, mut token) = (Vec::new(), String::new());
        loop {
            let path = format!("{}?limit=500&continue={token}", kind.collection(""));
            let mut page = self.get_path(&path).await?;
            token = page["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .replace('+', "%2B")
                .replace('=', "%3D");
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            if token.is_empty() {
                return Ok(items);
            }
        }
    }

    pub async fn create(&self, kind: Kind, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        self.send(Method::POST, &kind.collection(namespace), Some(object)).await
    }

    pub async fn replace(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        self.send(Method::PUT, &kind.object(namespace, name), Some(object)).await
    }

    pub async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let request = Request::patch(kind.object(namespace, name))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(patch.to_string().into_bytes());
        let request = request.map_err(|error| ApiError::NoAnswer(error.to_string()))?;
        Ok(self.client.request(request).await?)
    }

    /// False if there was nothing to delete.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<bool, ApiError> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let deleted = self.send(Method::DELETE, &kind.object(namespace, name), Some(&options)).await;
        Ok(optional(deleted)?.is_some())
    }

    /// Deletes this object of no namespace, and no other that has taken its name meanwhile.
    pub async fn delete_this(&self, kind: Kind, object: &Value) -> Result<bool, ApiError> {
        let metadata = &object["metadata"];
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": metadata["uid"]},
        });
        let path = kind.object("", metadata["name"].as_str().unwrap_or_default());
        Ok(optional(self.send(Method::DELETE, &path, Some(&options)).await)?.is_some())
    }

    /// Looks at an object of no namespace until what is seen is enough. `seen` is what is known of it already.
    pub async fn follow<T>(
        &self,
        kind: Kind,
        name: &str,
        mut seen: Option<Value>,
        mut judge: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T, ApiError> {
        let mut too_old = false;
        loop {
            let (object, version) = match seen.take() {
                Some(object) => versioned(object),
                None if too_old => self.look(kind, name).await?,
                None => self.get(kind, "", name).await?.map(versioned).unwrap_or_default(),
            };
            too_old = false;
            if let Some(enough) = judge(object.as_ref()) {
                return Ok(enough);
            }
            let from = version.map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
            let path = format!(
                "{}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}{from}",
                kind.collection("")
            );
            let request = Request::builder().uri(path).body(Vec::new());
            let request = request.map_err(|error| ApiError::NoAnswer(error.to_string()))?;
            let events = match self.client.request_events::<Value>(request).await.map_err(ApiError::from) {
                // The object has not changed for longer than the server remembers.
                Err(error) if error.code() == Some(410) => {
                    too_old = true;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                events => events?,
            };
            let mut events = std::pin::pin!(events);
            // An error ends the watch, and a fresh look tells what it missed.
            while let Ok(Some(event)) = events.try_next().await {
                let enough = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => judge(Some(&object)),
                    WatchEvent::Deleted(_) => judge(None),
                    WatchEvent::Bookmark(_) => None,
                    WatchEvent::Error(status) => {
                        too_old = status.code == 410;
                        break;
                    }
                };
                if let Some(enough) = enough {
                    return Ok(enough);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// An object of no namespace, and the version of the server that it was seen in, which is newer than its own.
    async fn look(&self, kind: Kind, name: &str) -> Result<(Option<Value>, Option<String>), ApiError> {
        let path = format!("{}?fieldSelector=metadata.name%3D{name}", kind.collection(""));
        let list = self.get_path(&path).await?;
        let version = list["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        Ok((list["items"].as_array().and_then(|items| items.first()).cloned(), version))
    }

    /// Everything that a path answers with, to somewhere.
    pub async fn download(&self, path: &str, to: &mut impl Write) -> anyhow::Result<()> {
        let request = Request::get(path).body(Body::empty()).context("no request")?;
        let response = self.client.send(request).await.map_err(ApiError::from)?;
        let code = response.status();
        let mut body = response.into_body();
        if !code.is_success() {
            let answer = body.collect().await.map_err(ApiError::from)?.to_bytes();
            let status: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let message = status["message"].as_str().map_or_else(|| code.to_string(), str::to_owned);
            return Err(ApiError::Refused { code: code.as_u16(), message }.into());
        }
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(ApiError::from)?.into_data() {
                to.write_all(&data)?;
            }
        }
        Ok(())
    }

    pub async fn upload(&self, path: &str, contents: Vec<u8>) -> Result<Value, ApiError> {
        let request =
            Request::post(path).header(header::CONTENT_TYPE, "application/octet-stream").body(contents);
        let request = request.map_err(|error| ApiError::NoAnswer(error.to_string()))?;
        Ok(self.client.request(request).await?)
    }

    /// Whether this is a hosting control plane: one that serves `ControlPlane`s.
    pub async fn is_hosting(&self) -> Result<bool, ApiError> {
        let served = optional(self.get_path(&format!("/{}", CONTROL_PLANES.api)).await)?;
        let resources = served.as_ref().and_then(|list| list["resources"].as_array());
        Ok(resources.into_iter().flatten().any(|one| one["name"] == CONTROL_PLANES.plural))
    }

    /// Its version of Kubernetes.
    pub async fn version(&self) -> Result<String, ApiError> {
        let version = self.get_path("/version").await?;
        Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
    }
}

fn optional(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An object, and its own version to go on from.
fn versioned(object: Value) -> (Option<Value>, Option<String>) {
    let version = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    (Some(object), version)
}

fn resolve(body: &mut Value, fields: &[&str], dir: Option<&Path>) {
    let (Some(dir), Some(body)) = (dir, body.as_object_mut()) else { return };
    for field in fields {
        if let Some(Value::String(path)) = body.get_mut(*field)
            && !path.is_empty()
        {
            *path = dir.join(&path).to_string_lossy().into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;

    use super::*;

    /// A server that has forgotten everything before its revision 900.
    async fn forgetful(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let query = request.uri().query().unwrap_or_default();
        let one = |value: &str| json!({"metadata": {"name": "one", "resourceVersion": "5"}, "value": value});
        let (code, answer) = match query {
            "" => (200, one("old")),
            _ if query.contains("watch=true") && query.ends_with("resourceVersion=900") => {
                (200, json!({"type": "MODIFIED", "object": one("new")}))
            }
            _ if query.contains("watch=true") => (
                410,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
                    "message": "too old resource version: 5 (900)",
                }),
            ),
            _ => (200, json!({"metadata": {"resourceVersion": "900"}, "items": [one("old")]})),
        };
        let body = Body::from(format!("{answer}\n").into_bytes());
        Ok(Response::builder().status(code).body(body).unwrap())
    }

    #[tokio::test]
    async fn an_object_that_was_quiet_for_long_is_followed_all_the_same() {
        let client = kube::Client::new(tower::service_fn(forgetful), "default");
        let api = Api { client, server: String::new() };
        let followed = api.follow(CONTROL_PLANES, "one", None, |object| {
            object.filter(|object| object["value"] == "new").map(|_| ())
        });
        tokio::time::timeout(Duration::from_secs(10), followed).await.unwrap().unwrap();
    }
}
