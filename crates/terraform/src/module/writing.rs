//! What a look at a module writes: its resource objects, Secrets, and the module itself.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use objects::{Value as Json, meta};
use provision::Failure;
use runtime::Error;
use serde::Serialize;
use serde_json::json;

use super::course::Course;
use super::finding::Ground;
use super::kinds::{FINALIZER, GROUP, MODULE};
use super::pass::{Pass, SECRET_WORD, Stop};
use super::providing::made_name;
use super::view::Child;
use crate::definition::{self, api_resource};
use crate::driver::wanted::{self, OUTPUTS, Secrets, made_names, merge_patch};

const MANAGER: &str = "hangar-terraform-modules";

/// What is done to the object of an instance.
pub(super) enum Write {
    Create(Json),
    Patch(Json),
}

/// What the server answers to a write: what the user can help is told, the rest is tried again.
fn written<T>(what: &str, answer: Result<T, kube::Error>) -> Result<T, Stop> {
    answer.map_err(|error| match error {
        kube::Error::Api(status)
            if matches!(status.code, 400 | 403 | 422) || status.reason == "AlreadyExists" =>
        {
            Stop::Failed(Failure::recoverable(format!("{what}: {}", status.message)))
        }
        other => Stop::Unable(other.into()),
    })
}

impl Pass<'_> {
    /// Before anything is made: the module does not go without it.
    pub(super) async fn mark(&mut self) -> Result<(), Stop> {
        if meta::finalizers(&self.view.object).any(|one| one == FINALIZER) {
            return Ok(());
        }
        let all: Vec<&str> = meta::finalizers(&self.view.object).chain([FINALIZER]).collect();
        let version = meta::resource_version(&self.view.object);
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": all}});
        self.patch_module(&patch).await
    }

    pub(super) async fn write(&self, name: &str, write: Option<Write>) -> Result<(), Stop> {
        let api = self.resources_api();
        match write {
            None => Ok(()),
            Some(Write::Create(object)) => {
                let object = serde_json::from_value(object).map_err(Error::failed)?;
                written(name, api.create(&PostParams::default(), &object).await).map(drop)
            }
            Some(Write::Patch(patch)) => {
                written(name, api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await).map(drop)
            }
        }
    }

    pub(super) async fn take_away(
        &self,
        children: &BTreeMap<String, Child>,
        going: &BTreeSet<String>,
    ) -> Result<(), Stop> {
        for child in going.iter().filter_map(|address| children.get(address)) {
            let name = meta::name(&child.object);
            let deleted = self.resources_api().delete(name, &DeleteParams::default()).await;
            match deleted {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => written(name, other).map(drop)?,
            }
        }
        Ok(())
    }

    pub(super) async fn keep_secret(
        &self,
        name: &str,
        key: &str,
        value: &(impl Serialize + Sync),
        owner: Json,
    ) -> Result<(), Stop> {
        // Not by way of a value: numbers of a state must not be rounded.
        let value = serde_json::to_string(value).map_err(Error::failed)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "data": {key: STANDARD.encode(value)},
        });
        let parameters = PatchParams::apply(MANAGER).force();
        written(name, self.secrets_api().patch(name, &parameters, &Patch::Apply(&secret)).await).map(drop)
    }

    /// The configurations of providers that the module makes, in Secrets of their own. Without what is ephemeral.
    pub(super) async fn configure(&self, ground: &Ground, made: &BTreeMap<String, Json>) -> Result<(), Stop> {
        for (provider, own) in made {
            let whole = self.view.configuration(&ground.configurations(), provider, Some(own)).await?;
            let name = made_name(&self.view.object, provider);
            let before = self.view.reader.peek("secrets", self.view.namespace(), &name).await?;
            let before = before.map(|secret| wanted::key(&secret, "provider")).transpose()?.flatten();
            if before.as_ref() == Some(&whole) {
                continue;
            }
            match self.over {
                Some(over) => over.put_secret(self.view.namespace(), &name, "provider", &whole),
                None => {
                    let owner = crate::driver::owner(&self.view.object, false);
                    self.keep_secret(&name, "provider", &whole, owner).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn forget_secret(&self, name: &str) -> Result<(), Stop> {
        match self.secrets_api().delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => written(name, other).map(drop),
        }
    }

    /// Outputs: what may be seen into the object, what is sensitive into its Secret.
    pub(super) async fn give(&mut self, course: Course, secrets: &Secrets) -> Result<(), Stop> {
        let hidden = Json::Object(course.secret_outputs);
        let nothing = hidden == json!({}) && secrets.output.is_none();
        if !nothing && secrets.output.as_ref() != Some(&hidden) {
            let (key, encoded) = (output_key(secrets), STANDARD.encode(hidden.to_string()));
            match &secrets.name {
                Some(name) => {
                    let patch = json!({"data": {key: encoded}});
                    let api = self.secrets_api();
                    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                    written(name, patched)?;
                }
                None => {
                    let [name, _] = made_names(&self.view.object, SECRET_WORD);
                    let secret = json!({
                        "apiVersion": "v1", "kind": "Secret",
                        "metadata": {"name": name, "ownerReferences": [crate::driver::owner(&self.view.object, true)]},
                        "data": {key: encoded},
                    });
                    let parameters = PatchParams::apply(MANAGER).force();
                    written(
                        &name,
                        self.secrets_api().patch(&name, &parameters, &Patch::Apply(&secret)).await,
                    )?;
                }
            }
        }
        let shown = Json::Object(course.outputs);
        let before = self.view.object.pointer("/spec/resource/output");
        if before.unwrap_or(&json!({})) != &shown {
            let patch = json!({"spec": {"resource": {"output": merge_patch(before, &shown)}}});
            self.patch_module(&patch).await?;
        }
        Ok(())
    }

    fn resources_api(&self) -> Api<DynamicObject> {
        let (group, kind, plural) = (definition::GROUP, definition::GENERIC_KIND, definition::GENERIC_PLURAL);
        Api::namespaced_with(self.client.clone(), self.view.namespace(), &api_resource(group, kind, plural))
    }

    fn secrets_api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.view.namespace())
    }

    fn modules_api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.client.clone(),
            self.view.namespace(),
            &api_resource(GROUP, MODULE, "modules"),
        )
    }

    pub(super) async fn patch_module(&mut self, patch: &Json) -> Result<(), Stop> {
        let name = meta::name(&self.view.object);
        let patched = self.modules_api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let patched = written("the module", patched)?;
        self.view.object = serde_json::to_value(patched).map_err(Error::failed)?;
        Ok(())
    }

    pub async fn patch_status(&self, patch: Json) -> Result<(), Error> {
        let name = meta::name(&self.view.object);
        let api = self.modules_api();
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// In the words that the Secret uses already; else those of Kubeform's documentation.
fn output_key(secrets: &Secrets) -> &'static str {
    let named = secrets.name.is_some() && (secrets.input.is_some() || secrets.output.is_some());
    if named { OUTPUTS[secrets.output_word] } else { OUTPUTS[1] }
}
