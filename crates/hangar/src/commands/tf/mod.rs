//! Resources of Terraform providers in and out of a control plane: as state files, and by their ids.

pub mod export;
mod listing;
pub mod plan;
pub mod resource;
pub mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use ::terraform::definition::{GENERIC_KIND, GENERIC_PLURAL, GROUP};
use ::terraform::names::{API_VERSION, DOMAIN, KindName};
use anyhow::{Context, bail};
use http::{Method, Request, header};
use serde_json::{Value, json};

use crate::operator::cluster;

/// Between two looks at an object.
const PAUSE: Duration = Duration::from_millis(200);

fn block_on(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(Box::pin(task))
}

/// A kind as it is served, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    group: String,
    kind: String,
    plural: String,
}

impl Kind {
    fn of_type(type_name: &str) -> Kind {
        let KindName { group, kind, plural, .. } = KindName::of_type(type_name);
        Kind { group, kind, plural }
    }

    fn generic() -> Kind {
        Kind { group: GROUP.into(), kind: GENERIC_KIND.into(), plural: GENERIC_PLURAL.into() }
    }

    fn is_generic(&self) -> bool {
        self.group == GROUP
    }

    fn api_version(&self) -> String {
        format!("{}/{API_VERSION}", self.group)
    }

    fn collection(&self, namespace: &str) -> String {
        format!("/apis/{}/namespaces/{namespace}/{}", self.api_version(), self.plural)
    }
}

/// A control plane, spoken to as a person does.
struct Plane(kube::Client);

impl Plane {
    async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Plane> {
        let (config, _) = cluster(kubeconfig).await?;
        Ok(Plane(kube::Client::try_from(config).context("cannot use the kubeconfig")?))
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
        let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
        self.0.request(request).await
    }

    /// The same, with a refusal in the server's own words.
    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(method, path, body).await.map_err(told)
    }

    async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.ask(Method::GET, path, &Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some).map_err(told),
        }
    }

    /// Makes an object, or changes the one that is there.
    async fn put(&self, collection: &str, name: &str, object: &Value) -> anyhow::Result<Value> {
        match self.ask(Method::POST, collection, object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                self.send(Method::PATCH, &format!("{collection}/{name}"), object).await
            }
            answer => answer.map_err(told),
        }
    }

    /// The Secret with the configuration of a provider: the given one, the usual one if there is one, or none.
    async fn configuration(
        &self,
        given: Option<&str>,
        provider: &str,
        namespace: &str,
    ) -> anyhow::Result<String> {
        if let Some(name) = given {
            return Ok(name.to_owned());
        }
        let usual = usual_secret(provider);
        let there = self.get(&format!("/api/v1/namespaces/{namespace}/secrets/{usual}")).await?;
        Ok(there.map_or_else(String::new, |_| usual))
    }

    /// Whether a kind is served.
    async fn serves(&self, kind: &Kind) -> anyhow::Result<bool> {
        let found = self.get(&format!("/apis/{}", kind.api_version())).await?;
        let resources = found.as_ref().and_then(|found| found["resources"].as_array());
        Ok(resources.into_iter().flatten().any(|one| one["name"] == kind.plural.as_str()))
    }

    /// The kind that a user means: `things.thing.shelf.kubeform.com`, or a plural, singular or kind that is the only one.
    async fn kind(&self, text: &str) -> anyhow::Result<Kind> {
        let (name, group) = text.split_once('.').map_or((text, None), |(name, group)| (name, Some(group)));
        let groups = self.send(Method::GET, "/apis", &Value::Null).await?;
        let groups = groups["groups"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
        let of_terraform = |one: &&str| *one == GROUP || one.ends_with(&format!(".{DOMAIN}"));
        let mut found = Vec::new();
        for group in groups.filter(of_terraform).filter(|one| group.is_none_or(|group| group == *one)) {
            let list = self.get(&format!("/apis/{group}/{API_VERSION}")).await?.unwrap_or_default();
            for one in list["resources"].as_array().into_iter().flatten() {
                let texts =
                    ["name", "singularName", "kind"].map(|field| one[field].as_str().unwrap_or_default());
                if texts.iter().any(|text| text.eq_ignore_ascii_case(name)) && !texts[0].contains('/') {
                    found.push(Kind { group: group.into(), kind: texts[2].into(), plural: texts[0].into() });
                }
            }
        }
        found.dedup();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => bail!("the server has no kind {text:?} of a Terraform provider"),
            [one, ..] => {
                bail!("{text:?} is more than one kind; say which, such as {}.{}", one.plural, one.group)
            }
        }
    }

    /// Waits until something holds of an object, and says why if it fails instead.
    async fn until(
        &self,
        path: &str,
        patience: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            let object = self.get(path).await?.with_context(|| format!("{path} is gone"))?;
            if holds(&object) {
                return Ok(object);
            }
            if began.elapsed() > patience {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let mut messages = conditions.filter_map(|one| one["message"].as_str());
                bail!("it takes too long: {}", messages.next().unwrap_or("nothing has been said of it yet"));
            }
            if object["status"]["phase"] == "Failed" {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                // What is said of an earlier try is not about this one.
                let now = &object["metadata"]["generation"];
                let mut stalled =
                    conditions.filter(|one| one["type"] == "Stalled" && one["observedGeneration"] == *now);
                if let Some(reason) = stalled.next() {
                    bail!("{}", reason["message"].as_str().unwrap_or("it failed"));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn delete(&self, path: &str) -> anyhow::Result<()> {
        match self.ask(Method::DELETE, path, &json!({})).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop).map_err(told),
        }
    }
}

fn told(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!(status.message),
        other => other.into(),
    }
}

fn usual_secret(provider: &str) -> String {
    format!("{provider}-provider-secret")
}

/// What a user may have forgotten, where a provider got no configuration.
fn unconfigured<T>(result: anyhow::Result<T>, reference: &str, provider: &str) -> anyhow::Result<T> {
    match reference {
        "" => result.with_context(|| {
            format!("no --provider-secret is given, and there is no Secret {}", usual_secret(provider))
        }),
        _ => result,
    }
}

/// A name that an object can have, of parts that are names elsewhere.
fn object_name<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let joined = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = joined.chars().map(fits).collect();
    name.trim_matches('-').to_owned()
}

/// Settled, with the resource taken over.
fn is_current(object: &Value) -> bool {
    let (status, metadata) = (&object["status"], &object["metadata"]);
    status["phase"] == "Current" && status["observedGeneration"] == metadata["generation"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (parts, expected) in [
            (vec!["web_server", "", "eu-1"], "web-server-eu-1"),
            (vec!["Main"], "main"),
            (vec!["_a.b_"], "a-b"),
        ] {
            assert_eq!(object_name(parts), expected);
        }
        assert_eq!(
            Kind::of_type("linode_instance").collection("n"),
            "/apis/instance.linode.kubeform.com/v1alpha1/namespaces/n/instances"
        );
    }
}
