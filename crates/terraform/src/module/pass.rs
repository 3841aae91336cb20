//! One look at one module: what it says, what is there, and what is done about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use parking_lot::Mutex;
use provision::dialect::Verdict;
use provision::{Engine, Failure, Reader};
use runtime::Error;
use serde::Deserialize;
use serde_json::json;

use super::children::{self, SECRET_KEY, Saying};
use super::course::{self, Answer, Course, Returned, Situation, There, Wanted};
use super::expression::Budget;
use super::files::{Archives, Loader, ModuleRef};
use super::graph::Graph;
use super::inputs;
use super::kinds::{DEFINITIONS, FINALIZER};
use super::moving;
use super::planning::Overlay;
use super::problem::Problem;
use super::providing::{Configurations, Providers};
use super::takeover::{self, KEY, KEY_FROM};
use super::writing::Write;
use crate::backend::file::Instance;
use crate::driver::Terraform;
use crate::driver::wanted::Secrets;
use crate::plugin::Pool;

/// Woken when something goes; looked at all the same.
const LEAVING: Duration = Duration::from_secs(30);
/// Of the Secret with what is to be taken over.
pub(super) const IMPORT_KEY: &str = "instance";
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
    module_ref: ModuleRef,
    pub provider: Named,
}

pub struct Pass<'a> {
    pub engine: &'a Engine<Terraform>,
    pub archives: &'a Archives,
    pub directory: Option<&'a Path>,
    pub reader: &'a Reader<'a>,
    pub client: &'a kube::Client,
    /// While only a plan is asked for: what would be written is kept there.
    pub over: Option<&'a Overlay<'a>>,
    /// The module, as it was last read or written.
    pub object: Json,
    /// What is told of its resources.
    pub resources: Option<Json>,
    /// What providers say is amiss although they answered. No secrets.
    pub warnings: Mutex<Vec<String>>,
}

/// Warnings of one look that are told; who warns of more warns of nothing.
const MOST_WARNINGS: usize = 20;

impl Pass<'_> {
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

    /// Everything that the module declares is made so, as far as it can be by now.
    pub async fn run(&mut self) -> Result<Outcome, Stop> {
        let Foreseen { course, children, there, secrets, left, steps } = self.foresee().await?;
        self.mark().await?;
        for Step { address, name, secret, imports, change } in steps {
            if let Some(import) = left.get(&address).filter(|_| imports) {
                let owner = crate::driver::owner(&self.object, false);
                let import = serde_json::to_value(import).map_err(Error::failed)?;
                self.keep_secret(&children::import_name(&name), IMPORT_KEY, &import, owner).await?;
            }
            if let Some((secret, owner)) = secret {
                let secret_name = children::secret_name(&name);
                self.keep_secret(&secret_name, SECRET_KEY, &secret, owner).await?;
            }
            self.write(&name, change).await?;
        }
        self.take_away(&children, &course.going).await?;
        self.describe(&children);
        if course.waiting.is_empty() && !left.is_empty() {
            self.taken_over(&left, &course, &children).await?;
        }
        self.conclude(course, &there, &secrets).await
    }

    /// What is to be done, without doing any of it.
    pub(super) async fn foresee(&self) -> Result<Foreseen, Stop> {
        let wrong = |error: serde_json::Error| Failure::terminal(format!("spec: {error}"));
        let spec: Spec = serde_json::from_value(self.object["spec"].clone()).map_err(wrong)?;
        let definition = self.definition(&spec).await?;
        let secrets = Secrets::read(self.reader, &self.object, SECRET_WORD).await?;
        self.validate(&definition, &secrets)?;
        let loader = Loader {
            reader: self.reader,
            namespace: self.namespace(),
            directory: self.directory,
            archives: self.archives,
            credentials: Default::default(),
        };
        let tree = loader.load(&definition.module_ref).await?;
        let graph = Graph::of(&tree)?;
        let shown = self.object.pointer("/spec/resource/input").cloned().unwrap_or_else(|| json!({}));
        let given = inputs::inputs(&tree.module, &shown, secrets.input.as_ref(), &Budget::default())?;
        let module = &self.object;
        let configurations =
            Configurations { module, spec: &spec, definition: &definition, root: &tree.module };
        let providers = self.providers(&tree, &graph, &configurations)?;
        let children = moving::settled(&tree, self.children().await?);
        let there = self.there(&children, &providers).await?;
        let taken: BTreeSet<&str> = children.values().map(|child| meta::name(&child.object)).collect();
        let saying = |wanted: &Wanted, tell: &mut dyn FnMut(&Saying<'_>)| {
            let configuration = configurations.secret(&wanted.provider);
            let provider = providers.name(&wanted.provider, &wanted.type_name);
            let name = match children.get(&wanted.address) {
                Some(child) => meta::name(&child.object).to_owned(),
                None => children::new_name(meta::name(module), &wanted.address, &taken),
            };
            tell(&Saying { module, name, wanted, provider, configuration: configuration.as_deref() });
        };
        let fits = |wanted: &Wanted| {
            let mut fits = false;
            if let Some(child) = children.get(&wanted.address) {
                saying(wanted, &mut |saying| fits = saying.fits(&child.object));
            }
            fits && children.get(&wanted.address).is_some_and(|child| child.input == wanted.secret)
        };
        let left = self.left_behind().await?;
        let mut answers: BTreeMap<String, Answer> = BTreeMap::new();
        let mut returned = Returned::new();
        // What is read, or made by a function, may say what else is to be.
        let course = loop {
            let course = course::course(&Situation {
                tree: &tree,
                graph: &graph,
                inputs: &given,
                schemas: &providers,
                there: &there,
                answers: &answers,
                returned: &returned,
                fits: &fits,
                budget: &Budget::default(),
            })?;
            self.configure(&configurations, &course.providers).await?;
            if course.asked.is_empty() && course.calls.is_empty() {
                break course;
            }
            for calling in &course.calls {
                let made = self.call(calling, &providers, &secrets).await?;
                returned.insert(calling.clone(), made);
            }
            for asked in &course.asked {
                let answer = self.read(asked, &configurations, &providers, &secrets).await?;
                answers.insert(asked.address.clone(), answer);
            }
        };
        let mut steps = Vec::new();
        for wanted in &course.wanted {
            let child = children.get(&wanted.address).filter(|child| !meta::is_deleting(&child.object));
            saying(wanted, &mut |saying| {
                let kept = child.is_some_and(|child| child.input == wanted.secret && child.owns_secret);
                let owner = child.map_or(&self.object, |child| &child.object);
                let owner = crate::driver::owner(owner, false);
                let secret = wanted.secret.clone().filter(|_| !kept).map(|secret| (secret, owner));
                let change = match child {
                    None => Some(Write::Create(saying.created(left.contains_key(&wanted.address)))),
                    Some(child) => saying.patch(&child.object).map(Write::Patch),
                };
                // What still goes by this name has to be gone first.
                let change = change.filter(|_| child.is_some() || !children.contains_key(&wanted.address));
                let (address, imports) = (wanted.address.clone(), child.is_none());
                steps.push(Step { address, name: saying.name.clone(), secret, imports, change });
            });
        }
        Ok(Foreseen { course, children, there, secrets, left, steps })
    }

    /// What Kubeform's controller made and left in its state.
    async fn left_behind(&self) -> Result<BTreeMap<String, Instance>, Failure> {
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

    /// All of it is objects now; nothing of the old state is needed any more, unless something is only there.
    async fn taken_over(
        &mut self,
        left: &BTreeMap<String, Instance>,
        course: &Course,
        children: &BTreeMap<String, Child>,
    ) -> Result<(), Stop> {
        let known = |address: &String| course.wanted.iter().any(|wanted| wanted.address == *address);
        if let Some(other) = left.keys().find(|address| !known(address)) {
            let message = format!(
                "{other} was made by Kubeform, and the module does not declare it; remove spec.state to leave it alone"
            );
            return Err(Failure::recoverable(message).at("spec.state").into());
        }
        for child in children.values() {
            self.forget_secret(&children::import_name(meta::name(&child.object))).await?;
        }
        self.patch_module(&json!({"spec": {"state": null}})).await
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
        let mut failed =
            there.iter().filter_map(|(address, one)| Some(format!("{address}: {}", one.failure.as_ref()?)));
        let verdict = match failed.next().or(course.failed) {
            Some(why) => Verdict::Failed(Failure::recoverable(why)),
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
        let sealed = self.object.pointer("/spec/state").and_then(Json::as_str).unwrap_or_default();
        if children.is_empty() && !sealed.is_empty() {
            let message = "there are resources that Kubeform made and that were not taken over yet; remove \
                spec.state to leave them alone";
            return Err(Failure::recoverable(message).at("spec.state").into());
        }
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
                (address.clone(), children::there(address, &child.object, None, &Secrets::default()))
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

    async fn there(
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

    fn describe(&mut self, children: &BTreeMap<String, Child>) {
        let line = |(address, child): (&String, &Child)| {
            let phase = child.object.pointer("/status/phase").cloned().unwrap_or_default();
            json!({"address": address, "name": meta::name(&child.object), "phase": phase})
        };
        self.resources = Some(children.iter().map(line).collect());
    }
}

/// What is to be done about a module, before anything of it is done.
pub(super) struct Foreseen {
    pub course: Course,
    pub children: BTreeMap<String, Child>,
    pub there: BTreeMap<String, There>,
    pub secrets: Secrets,
    /// What Kubeform's controller left.
    pub left: BTreeMap<String, Instance>,
    pub steps: Vec<Step>,
}

/// What is done about one instance.
pub(super) struct Step {
    pub address: String,
    /// Of its object.
    pub name: String,
    /// What goes into its Secret, and who owns that.
    pub secret: Option<(Json, Json)>,
    /// It may be there already, if it was left by others.
    pub imports: bool,
    pub change: Option<Write>,
}

pub(super) struct Child {
    pub object: Json,
    /// What its Secret says.
    pub input: Option<Json>,
    /// The Secret goes with it; until the object is there, it would go with the module.
    owns_secret: bool,
}
