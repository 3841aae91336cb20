//! One look at one module: what it says, what is there, and what is done about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use objects::{Value as Json, meta};
use provision::dialect::Verdict;
use provision::{Failure, Reader};
use runtime::Error;
use serde::Deserialize;
use serde_json::json;

use super::children::{self, SECRET_KEY, Saying};
use super::config::Module;
use super::course::{self, Course, Situation, There, Wanted};
use super::expression::Budget;
use super::files::{self, ModuleRef};
use super::graph::Graph;
use super::inputs;
use super::kinds::{DEFINITIONS, FINALIZER};
use super::problem::Problem;
use super::writing::Write;
use crate::driver::wanted::Secrets;
use crate::registry::{Registry, Served};
use crate::schema::Schema;

/// Woken when something goes; looked at all the same.
const LEAVING: Duration = Duration::from_secs(30);
/// Named in the Secret that is made for outputs, where Kubeform names a provider.
pub(super) const SECRET_WORD: &str = "module";

/// Why a look ended early.
pub enum Stop {
    /// To be told on the object.
    Failed(Failure),
    /// To be tried again, with nothing to tell.
    Unable(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Unable(error)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Stop {
        Stop::Failed(Failure::terminal(problem.to_string()))
    }
}

pub enum Outcome {
    Told(Verdict),
    /// There is nothing left to tell it on.
    Gone,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    module_def: Option<String>,
    module_ref: Option<ModuleRef>,
    provider_ref: Named,
    provider_refs: BTreeMap<String, Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl Named {
    fn given(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// What a `ModuleDefinition` says, or the module itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Definition {
    schema: Option<Json>,
    module_ref: ModuleRef,
    provider: Named,
}

pub struct Pass<'a> {
    pub registry: &'a Registry,
    pub directory: Option<&'a Path>,
    pub reader: &'a Reader<'a>,
    pub client: &'a kube::Client,
    /// The module, as it was last read or written.
    pub object: Json,
    /// What is told of its resources.
    pub resources: Option<Json>,
}

impl Pass<'_> {
    pub(super) fn namespace(&self) -> &str {
        meta::namespace(&self.object)
    }

    /// Everything that the module declares is made so, as far as it can be by now.
    pub async fn run(&mut self) -> Result<Outcome, Stop> {
        let wrong = |error: serde_json::Error| Failure::terminal(format!("spec: {error}"));
        let spec: Spec = serde_json::from_value(self.object["spec"].clone()).map_err(wrong)?;
        let definition = self.definition(&spec).await?;
        let secrets = Secrets::read(self.reader, &self.object, SECRET_WORD).await?;
        self.validate(&definition, &secrets)?;
        let files =
            files::load(self.reader, self.namespace(), self.directory, &definition.module_ref).await?;
        let module = Module::parse(&files)?;
        let graph = Graph::of(&module)?;
        let none = json!({});
        let shown = self.object.pointer("/spec/resource/input").unwrap_or(&none);
        let budget = Budget::default();
        let given = inputs::inputs(&module, shown, secrets.input.as_ref(), &budget)?;
        let providers = self.providers(&module, &definition)?;
        let children = self.children().await?;
        let there = self.there(&children, &providers).await?;
        let configuration = |type_name: &str| {
            let word = word(type_name);
            let own = spec.provider_refs.get(word).and_then(Named::given);
            let meant = definition.provider.given().is_none_or(|name| name == word);
            own.or_else(|| spec.provider_ref.given().filter(|_| meant)).map(str::to_owned)
        };
        let saying = |wanted: &Wanted, tell: &mut dyn FnMut(&Saying<'_>)| {
            let configuration = configuration(&wanted.type_name);
            let provider = providers.get(&wanted.type_name).map_or("", |(served, _)| served.name.as_str());
            tell(&Saying { module: &self.object, wanted, provider, configuration: configuration.as_deref() });
        };
        let fits = |wanted: &Wanted| {
            let mut fits = false;
            if let Some(child) = children.get(&wanted.address) {
                saying(wanted, &mut |saying| fits = saying.fits(&child.object));
            }
            fits && children.get(&wanted.address).is_some_and(|child| child.input == wanted.secret)
        };
        let schema = |type_name: &str| -> Result<Arc<Schema>, Problem> {
            let found = providers.get(type_name).map(|(_, schema)| schema.clone());
            found.ok_or_else(|| Problem::new(format!("there is no type {type_name}")))
        };
        let course = course::course(&Situation {
            module: &module,
            graph: &graph,
            inputs: &given,
            schema: &schema,
            there: &there,
            fits: &fits,
            budget: &budget,
        })?;
        let mut writes = Vec::new();
        for wanted in &course.wanted {
            let child = children.get(&wanted.address).filter(|child| !meta::is_deleting(&child.object));
            saying(wanted, &mut |saying| {
                let kept = child.is_some_and(|child| child.input == wanted.secret && child.owns_secret);
                let owner = child.map_or(&self.object, |child| &child.object);
                let owner = crate::driver::owner(owner, false);
                let secret = wanted.secret.clone().filter(|_| !kept).map(|secret| (secret, owner));
                let change = match child {
                    None => Some(Write::Create(saying.created())),
                    Some(child) => saying.patch(&child.object).map(Write::Patch),
                };
                // What still goes by this name has to be gone first.
                let change = change.filter(|_| child.is_some() || !children.contains_key(&wanted.address));
                writes.push((saying.name(), secret, change));
            });
        }
        self.mark().await?;
        for (name, secret, change) in writes {
            if let Some((secret, owner)) = secret {
                self.keep_secret(&children::secret_name(&name), &secret, owner).await?;
            }
            self.write(&name, change).await?;
        }
        self.take_away(&children, &course.going).await?;
        self.describe(&children);
        self.conclude(course, &there, &secrets).await
    }

    /// What is as it should be is told with outputs; what failed is told before what only waits.
    async fn conclude(
        &mut self,
        course: Course,
        there: &BTreeMap<String, There>,
        secrets: &Secrets,
    ) -> Result<Outcome, Stop> {
        let Some(first) = course.waiting.first() else {
            self.give(course, secrets).await?;
            return Ok(Outcome::Told(Verdict::Synced));
        };
        let mut failed = there.iter().filter_map(|(address, one)| Some((address, one.failure.as_ref()?)));
        let verdict = match failed.next() {
            Some((address, why)) => Verdict::Failed(Failure::recoverable(format!("{address}: {why}"))),
            None => Verdict::NotSynced { message: first.clone(), after: None },
        };
        Ok(Outcome::Told(verdict))
    }

    /// Everything goes, in the reverse order of what stands on what.
    pub async fn leave(&mut self) -> Result<Outcome, Stop> {
        if !meta::finalizers(&self.object).any(|one| one == FINALIZER) {
            return Ok(Outcome::Gone);
        }
        let children = self.children().await?;
        if children.is_empty() {
            let left: Vec<&str> = meta::finalizers(&self.object).filter(|one| *one != FINALIZER).collect();
            let patch = json!({"metadata": {
                "resourceVersion": meta::resource_version(&self.object), "finalizers": left,
            }});
            self.patch_module(&patch).await?;
            return Ok(Outcome::Gone);
        }
        let there: BTreeMap<String, There> = children
            .iter()
            .map(|(address, child)| {
                (address.clone(), children::there(&child.object, None, &Secrets::default()))
            })
            .collect();
        self.take_away(&children, &course::departure(&there)).await?;
        self.describe(&children);
        let failed = there.iter().find_map(|(address, one)| Some((address, one.failure.as_ref()?)));
        Ok(Outcome::Told(match failed {
            Some((address, why)) => Verdict::Failed(Failure::recoverable(format!("{address}: {why}"))),
            None => {
                let message = format!("{} resources are not gone yet", children.len());
                Verdict::Deleting { message, after: LEAVING }
            }
        }))
    }

    /// Nothing is done with the resources either.
    pub async fn pause(&mut self) -> Result<Outcome, Stop> {
        for child in self.children().await?.values() {
            let mut annotations = children::passed(&self.object);
            annotations.retain(|name, value| meta::annotation(&child.object, name) != value.as_str());
            if !annotations.is_empty() {
                let patch = json!({"metadata": {"annotations": annotations}});
                self.write(meta::name(&child.object), Some(Write::Patch(patch))).await?;
            }
        }
        Ok(Outcome::Told(Verdict::Paused))
    }

    async fn definition(&self, spec: &Spec) -> Result<Definition, Failure> {
        let name = match (&spec.module_def, &spec.module_ref) {
            (Some(name), None) => name,
            (None, Some(own)) => {
                let elsewhere = own.config_map.as_ref().and_then(|place| place.namespace.as_deref());
                if elsewhere.is_some_and(|namespace| namespace != self.namespace()) {
                    let message = "the ConfigMap of a Module is in the namespace of the Module";
                    return Err(Failure::terminal(message).at("spec.moduleRef.configMap.namespace"));
                }
                return Ok(Definition { module_ref: own.clone(), ..Definition::default() });
            }
            _ => return Err(Failure::terminal("one of spec.moduleDef and spec.moduleRef is required")),
        };
        let object = self.reader.get(DEFINITIONS, "", name).await?;
        let missing = || Failure::recoverable(format!("ModuleDefinition {name} does not exist"));
        let object = object.ok_or_else(|| missing().at("spec.moduleDef"))?;
        let wrong = |error| Failure::recoverable(format!("ModuleDefinition {name}: spec: {error}"));
        serde_json::from_value(object["spec"].clone()).map_err(wrong)
    }

    /// The input against the schema of the definition. What is in the Secret is not looked at, and not missed.
    fn validate(&self, definition: &Definition, secrets: &Secrets) -> Result<(), Failure> {
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

    /// The provider and the schema of every type that the module uses.
    fn providers(&self, module: &Module, definition: &Definition) -> Result<Providers, Stop> {
        let mut found = Providers::new();
        for resource in module.resources.values() {
            let type_name = &resource.type_name;
            if found.contains_key(type_name) {
                continue;
            }
            let word = word(type_name);
            let first = definition.provider.given().filter(|name| *name == word).unwrap_or(word);
            let Some(served) = self.registry.of_type(type_name, first) else {
                let message =
                    format!("{}: no Provider that is ready has the type {type_name}", resource.place);
                return Err(Failure::recoverable(message).into());
            };
            let schema = served.catalogue.resource(type_name);
            let schema =
                schema.map_err(|error| Failure::recoverable(format!("{}: {error}", resource.place)))?;
            found.insert(type_name.clone(), (served, schema));
        }
        Ok(found)
    }

    /// The objects of the module's resources, by address.
    async fn children(&self) -> Result<BTreeMap<String, Child>, Stop> {
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

    async fn there(
        &self,
        children: &BTreeMap<String, Child>,
        providers: &Providers,
    ) -> Result<BTreeMap<String, There>, Stop> {
        let mut there = BTreeMap::new();
        for (address, child) in children {
            let type_name = child.object.pointer("/spec/type").and_then(Json::as_str).unwrap_or_default();
            // A Secret that is not there yet is the engine's to complain of.
            let secrets =
                Secrets::read(self.reader, &child.object, word(type_name)).await.unwrap_or_default();
            let schema = providers.get(type_name).map(|(_, schema)| &**schema);
            there.insert(address.clone(), children::there(&child.object, schema, &secrets));
        }
        Ok(there)
    }

    fn describe(&mut self, children: &BTreeMap<String, Child>) {
        let line = |(address, child): (&String, &Child)| {
            let phase = child.object.pointer("/status/phase").cloned().unwrap_or_default();
            json!({"address": address, "name": meta::name(&child.object), "phase": phase})
        };
        self.resources = Some(children.iter().map(line).collect());
    }
}

/// By type: who has it, and how it looks.
type Providers = BTreeMap<String, (Arc<Served>, Arc<Schema>)>;

pub(super) struct Child {
    pub object: Json,
    /// What its Secret says.
    pub input: Option<Json>,
    /// The Secret goes with it; until the object is there, it would go with the module.
    owns_secret: bool,
}

/// The first word of a type: what a module calls the provider.
fn word(type_name: &str) -> &str {
    type_name.split('_').next().unwrap_or_default()
}
