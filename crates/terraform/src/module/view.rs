//! What can be seen of a module: its object, what it names, and what there is of it. Nothing is written here.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use parking_lot::Mutex;
use provision::{Engine, Failure, Reader};
use serde::Deserialize;
use serde_json::json;

use super::children::{self, SECRET_KEY};
use super::course::There;
use super::files::{Archives, ModuleRef};
use super::kinds::DEFINITIONS;
use super::pass::Stop;
use super::providing::Providers;
use super::takeover::{self, KEY, KEY_FROM};
use crate::backend::file::Instance;
use crate::driver::Terraform;
use crate::driver::wanted::Secrets;
use crate::openings::Held;
use crate::plugin::Pool;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    module_def: Option<String>,
    module_ref: Option<ModuleRef>,
    pub provider_ref: Named,
    /// By the names that the module has for providers, with or without an alias.
    pub provider_refs: BTreeMap<String, Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    name: String,
}

impl Named {
    pub fn given(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// What a `ModuleDefinition` says, or the module itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Definition {
    schema: Option<Json>,
    pub module_ref: ModuleRef,
    pub provider: Named,
}

pub struct View<'a> {
    pub engine: &'a Engine<Terraform>,
    pub archives: &'a Archives,
    pub directory: Option<&'a Path>,
    pub reader: &'a Reader<'a>,
    /// The module, as it was last read or written.
    pub object: Json,
    /// What providers say is amiss although they answered. No secrets.
    pub warnings: Mutex<Vec<String>>,
    /// What was opened on the way; it stays so while this is there.
    pub held: Mutex<Vec<Held>>,
}

/// Warnings of one look that are told; who warns of more warns of nothing.
const MOST_WARNINGS: usize = 20;

impl<'a> View<'a> {
    pub fn new(
        (engine, archives, directory): (&'a Engine<Terraform>, &'a Archives, Option<&'a Path>),
        reader: &'a Reader<'a>,
        object: Json,
    ) -> View<'a> {
        let (warnings, held) = (Mutex::default(), Mutex::default());
        View { engine, archives, directory, reader, object, warnings, held }
    }

    pub(super) fn namespace(&self) -> &str {
        meta::namespace(&self.object)
    }

    pub(super) fn pool(&self) -> &Pool {
        self.engine.driver().pool()
    }

    pub(super) fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock();
        if warnings.len() < MOST_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// What Kubeform's controller made and left in its state.
    pub(super) async fn left_behind(&self) -> Result<BTreeMap<String, Instance>, Failure> {
        let sealed = self.object.pointer("/spec/state").and_then(Json::as_str).unwrap_or_default();
        if sealed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let failed = |why: String| Failure::recoverable(why).at("spec.state");
        let name = meta::annotation(&self.object, KEY_FROM).ok_or_else(|| {
            failed(format!(
                "there are resources that Kubeform made; name the Secret with its key in the annotation {KEY_FROM}"
            ))
        })?;
        let namespace = self.namespace();
        let secret = self.reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| failed(format!("Secret {namespace}/{name} does not exist")))?;
        let key = secret.pointer(&format!("/data/{KEY}")).and_then(Json::as_str).unwrap_or_default();
        let key = STANDARD.decode(key).unwrap_or_default();
        let key = String::from_utf8(key).unwrap_or_default();
        takeover::open(meta::name(&self.object), sealed, &key)
            .map_err(|why| failed(format!("the state that Kubeform left: {why}")))
    }

    pub(super) async fn definition(&self, spec: &Spec) -> Result<Definition, Failure> {
        let name = match (&spec.module_def, &spec.module_ref) {
            (Some(name), None) => name,
            (None, Some(own)) => {
                let cred = own.git.as_ref().and_then(|git| git.cred.as_ref());
                for (what, field, place) in
                    [("ConfigMap", "configMap", own.config_map.as_ref()), ("Secret", "git.cred", cred)]
                {
                    let elsewhere = place.and_then(|place| place.namespace.as_deref());
                    if elsewhere.is_some_and(|namespace| namespace != self.namespace()) {
                        let message = format!("the {what} of a Module is in the namespace of the Module");
                        return Err(
                            Failure::terminal(message).at(format!("spec.moduleRef.{field}.namespace"))
                        );
                    }
                }
                return Ok(Definition { module_ref: own.clone(), ..Definition::default() });
            }
            _ => return Err(Failure::terminal("one of spec.moduleDef and spec.moduleRef is required")),
        };
        let object = self.reader.get(DEFINITIONS, "", name).await?;
        let missing = || Failure::recoverable(format!("ModuleDefinition {name} does not exist"));
        let object = object.ok_or_else(|| missing().at("spec.moduleDef"))?;
        let wrong = |error| Failure::recoverable(format!("ModuleDefinition {name}: spec: {error}"));
        let mut definition: Definition = serde_json::from_value(object["spec"].clone()).map_err(wrong)?;
        if let Some(cred) = definition.module_ref.git.as_mut().and_then(|git| git.cred.as_mut()) {
            cred.namespace.get_or_insert_with(|| "default".to_owned());
        }
        Ok(definition)
    }

    /// The input against the schema of the definition. What is in the Secret is not looked at, and not missed.
    pub(super) fn validate(&self, definition: &Definition, secrets: &Secrets) -> Result<(), Failure> {
        let schema = definition.schema.as_ref().and_then(|schema| schema.pointer("/properties/input"));
        let Some(mut schema) = schema.cloned() else { return Ok(()) };
        if let Some(Json::Array(required)) = schema.get_mut("required") {
            let given = |name: &Json| secrets.input.as_ref()?.get(name.as_str()?);
            required.retain(|name| given(name).is_none());
        }
        let whole = json!({"type": "object", "properties": {"input": schema}});
        let schema = schemas::Schema::from_crd(&whole).map_err(|errors| {
            let why = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Failure::recoverable(format!("the schema of the ModuleDefinition: {why}"))
        })?;
        let input = self.object.pointer("/spec/resource/input").cloned().unwrap_or_else(|| json!({}));
        let path = objects::field::Path::new("spec").child("resource");
        let errors = schemas::validate(schema.root(), &json!({"input": input}), None, &path);
        match errors.first() {
            Some(error) => Err(Failure::terminal(error.to_string())),
            None => Ok(()),
        }
    }

    /// The objects of the module's resources, by address.
    pub(super) async fn children(&self) -> Result<BTreeMap<String, Child>, Stop> {
        let mut found = BTreeMap::new();
        for object in self.reader.list(&children::resource(), self.namespace()).await? {
            if !children::is_of(&object, &self.object) {
                continue;
            }
            let name = children::secret_name(meta::name(&object));
            let secret = self.reader.peek("secrets", self.namespace(), &name).await?;
            let input = match &secret {
                Some(secret) => crate::driver::wanted::key(secret, SECRET_KEY)?,
                None => None,
            };
            let owners = secret.as_ref().map(meta::owner_references).unwrap_or_default();
            let owns_secret = owners.iter().any(|owner| owner["uid"].as_str() == Some(meta::uid(&object)));
            found.insert(children::address(&object).to_owned(), Child { object, input, owns_secret });
        }
        Ok(found)
    }

    pub(super) async fn there(
        &self,
        children: &BTreeMap<String, Child>,
        providers: &Providers,
    ) -> Result<BTreeMap<String, There>, Stop> {
        let mut there = BTreeMap::new();
        for (address, child) in children {
            let type_name = child.object.pointer("/spec/type").and_then(Json::as_str).unwrap_or_default();
            // A Secret that is not there yet is the engine's to complain of.
            let secrets = Secrets::read(self.reader, &child.object, type_name).await.unwrap_or_default();
            let provider = child.object.pointer("/spec/provider").and_then(Json::as_str).unwrap_or_default();
            let schema = providers.of_child(provider, type_name);
            let found = children::there(address, &child.object, schema.as_deref(), &secrets);
            there.insert(address.clone(), found);
        }
        Ok(there)
    }
}

pub(super) struct Child {
    pub object: Json,
    /// What its Secret says.
    pub input: Option<Json>,
    /// The Secret goes with it; until the object is there, it would go with the module.
    pub owns_secret: bool,
}
