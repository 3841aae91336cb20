//! The providers of a module: which has a type, how each is configured, what it says of data, and what its functions make.

use std::collections::BTreeMap;
use std::sync::Arc;

use objects::{Value as Json, meta};
use provision::{Failure, OperationType};
use serde_json::json;

use super::config::Module;
use super::course::{Answer, Asked, Calling, Schemas};
use super::graph::Graph;
use super::pass::{Definition, Pass, Spec, Stop};
use super::problem::Problem;
use super::term::Term;
use super::tree::{Tree, plain};
use crate::driver::wanted::{self, Secrets};
use crate::driver::{failures, limit};
use crate::plugin::{Function, PluginError};
use crate::protocol::Call;
use crate::registry::Served;
use crate::schema::Schema;

/// A type, by what the root calls its provider without an alias.
type Typed = BTreeMap<(String, String), (Arc<Served>, Arc<Schema>)>;

/// Everything that the modules of a tree name of providers.
#[derive(Default)]
pub(super) struct Providers {
    resources: Typed,
    data: Typed,
    functions: BTreeMap<(String, String), (Arc<Served>, Arc<Function>)>,
}

fn key(provider: &str, type_name: &str) -> (String, String) {
    (plain(provider).to_owned(), type_name.to_owned())
}

fn missing(type_name: &str) -> Problem {
    Problem::new(format!("there is no type {type_name}"))
}

fn no_function(name: &str) -> Problem {
    Problem::new(format!("there is no function {name}"))
}

impl Providers {
    /// The `Provider` object of a resource.
    pub fn name(&self, provider: &str, type_name: &str) -> &str {
        self.resources.get(&key(provider, type_name)).map_or("", |(served, _)| &served.name)
    }

    /// How a resource looks that is there, by the name of its `Provider` object.
    pub fn of_child(&self, provider: &str, type_name: &str) -> Option<Arc<Schema>> {
        let own = |((_, named), (served, _)): &(&(String, String), &(Arc<Served>, _))| {
            named == type_name && served.name == provider
        };
        self.resources.iter().find(own).map(|(_, (_, schema))| schema.clone())
    }
}

impl Schemas for Providers {
    fn resource(&self, provider: &str, type_name: &str) -> Result<Arc<Schema>, Problem> {
        let found = self.resources.get(&key(provider, type_name));
        found.map(|(_, schema)| schema.clone()).ok_or_else(|| missing(type_name))
    }

    fn data(&self, provider: &str, type_name: &str) -> Result<Arc<Schema>, Problem> {
        let found = self.data.get(&key(provider, type_name));
        found.map(|(_, schema)| schema.clone()).ok_or_else(|| missing(type_name))
    }

    fn provider(&self, name: &str) -> Result<Arc<Schema>, Problem> {
        let typed = self.resources.iter().chain(&self.data).map(|((word, _), (served, _))| (word, served));
        let called = self.functions.iter().map(|((word, _), (served, _))| (word, served));
        match typed.chain(called).find(|(word, _)| *word == plain(name)) {
            Some((_, served)) => Ok(served.catalogue.provider.clone()),
            None => {
                let message = format!("the provider {name} is configured, and nothing of it is used");
                Err(Problem::new(message))
            }
        }
    }

    fn function(&self, provider: &str, name: &str) -> Result<Arc<Function>, Problem> {
        let found = self.functions.get(&key(provider, name));
        found.map(|(_, function)| function.clone()).ok_or_else(|| no_function(name))
    }
}

/// Which Secret holds a provider's configuration.
pub(super) struct Configurations<'a> {
    pub module: &'a Json,
    pub spec: &'a Spec,
    pub definition: &'a Definition,
    pub root: &'a Module,
}

impl Configurations<'_> {
    /// What a user gives for it: by its own name, or the one for all.
    fn given(&self, provider: &str) -> Option<&str> {
        let word = plain(provider);
        let meant = self.definition.provider.given().is_none_or(|name| name == word);
        let own = |name: &str| self.spec.provider_refs.get(name).and_then(|named| named.given());
        own(provider).or_else(|| own(word)).or_else(|| self.spec.provider_ref.given().filter(|_| meant))
    }

    /// An alias is somebody's to explain.
    fn knows(&self, provider: &str) -> bool {
        !provider.contains('.')
            || self.root.providers.contains_key(provider)
            || self.spec.provider_refs.contains_key(provider)
    }

    /// One that the module configures itself has a Secret that is written for it.
    pub fn secret(&self, provider: &str) -> Option<String> {
        match self.root.providers.contains_key(provider) {
            true => Some(made_name(self.module, provider)),
            false => self.given(provider).map(str::to_owned),
        }
    }
}

/// The Secret for a configuration that the module makes.
fn made_name(module: &Json, provider: &str) -> String {
    let provider = provider.replace(['.', '_'], "-").to_lowercase();
    format!("{}-{provider}-provider", meta::name(module))
}

impl Pass<'_> {
    /// The provider and the schema of every type that the modules use, and of every function.
    pub(super) fn providers(
        &self,
        tree: &Tree,
        graph: &Graph,
        configurations: &Configurations<'_>,
    ) -> Result<Providers, Stop> {
        let mut found = Providers::default();
        for (path, module) in tree.all() {
            for resource in module.module.resources.values() {
                let (type_name, is_data) = (&resource.type_name, resource.is_data);
                let provider = tree.root_provider(&path, &resource.provider).unwrap_or_default();
                let failed = |why: String| Failure::recoverable(format!("{}: {why}", resource.place));
                if !configurations.knows(&provider) {
                    let why = format!("nothing configures the provider {provider}; spec.providerRefs can");
                    return Err(failed(why).into());
                }
                let typed = if is_data { &mut found.data } else { &mut found.resources };
                let key = key(&provider, type_name);
                if typed.contains_key(&key) {
                    continue;
                }
                let has = |served: &Served| match is_data {
                    true => served.catalogue.has_data_source(type_name),
                    false => served.catalogue.has_resource(type_name),
                };
                let Some(served) = self.engine.driver().registry().having(&key.0, has) else {
                    let what = if is_data { "data source" } else { "type" };
                    return Err(
                        failed(format!("no Provider that is ready has the {what} {type_name}")).into()
                    );
                };
                let schema = match is_data {
                    true => served.catalogue.data_source(type_name),
                    false => served.catalogue.resource(type_name),
                };
                let schema = schema.map_err(|error| failed(error.to_string()))?;
                typed.insert(key, (served, schema));
            }
        }
        for ((provider, name), place) in &graph.functions {
            let failed = |why: String| Failure::recoverable(format!("{place}: {why}"));
            let is_it = |served: &Served| {
                served.name == *provider || served.address.ends_with(&format!("/{provider}"))
            };
            let has = |served: &Served| served.catalogue.has_function(name) && is_it(served);
            let Some(served) = self.engine.driver().registry().having(provider, has) else {
                let why = format!("no Provider that is ready is {provider} and has the function {name}");
                return Err(failed(why).into());
            };
            let function = served.catalogue.function(name).map_err(|error| failed(error.to_string()))?;
            found.functions.insert(key(provider, name), (served, Arc::new(function)));
        }
        Ok(found)
    }

    /// The configurations that the module makes, over what the user gives for the same provider.
    pub(super) async fn configure(
        &self,
        configurations: &Configurations<'_>,
        made: &BTreeMap<String, Json>,
    ) -> Result<(), Stop> {
        for (provider, own) in made {
            let mut whole = match configurations.given(provider) {
                Some(name) => self.configuration(name).await?,
                None => json!({}),
            };
            if let (Json::Object(whole), Json::Object(own)) = (&mut whole, own) {
                whole.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            let name = made_name(&self.object, provider);
            let before = self.reader.peek("secrets", self.namespace(), &name).await?;
            let before = before.map(|secret| wanted::key(&secret, "provider")).transpose()?.flatten();
            if before.as_ref() == Some(&whole) {
                continue;
            }
            match self.over {
                Some(over) => over.put(self.namespace(), &name, "provider", &whole),
                None => {
                    let owner = crate::driver::owner(&self.object, false);
                    self.keep_secret(&name, "provider", &whole, owner).await?;
                }
            }
        }
        Ok(())
    }

    async fn configuration(&self, name: &str) -> Result<Json, Failure> {
        let namespace = self.namespace();
        let failed = |why: String| Failure::recoverable(why).at("spec.providerRef");
        let secret = self.reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| failed(format!("Secret {namespace}/{name} does not exist")))?;
        let missing = || failed(format!("Secret {namespace}/{name} has no key \"provider\""));
        wanted::key(&secret, "provider")?.ok_or_else(missing)
    }

    /// What a provider says of a data source. What it complains of is an answer too.
    pub(super) async fn read(
        &self,
        asked: &Asked,
        configurations: &Configurations<'_>,
        providers: &Providers,
        secrets: &Secrets,
    ) -> Result<Answer, Stop> {
        let Some((served, _)) = providers.data.get(&key(&asked.provider, &asked.type_name)) else {
            return Err(missing(&asked.type_name).into());
        };
        let Some(program) = &served.program else { return Err(missing(&asked.type_name).into()) };
        let json = match configurations.secret(&asked.provider) {
            Some(name) => self.configuration(&name).await?,
            None => json!({}),
        };
        let (config, redactions) = wanted::configuration(&served.catalogue.provider.block, &json)?;
        let redacted =
            |text: String| failures::redacted(failures::redacted(text, &redactions), &secrets.texts());
        let failed = |error: PluginError| failures::failure(error, None, false);
        let said = async {
            let lease = self.pool().lease(program, &served.digest, &config).await.map_err(failed)?;
            let read = async {
                let told = lease.judge(lease.read_data(&asked.type_name, &asked.config).await);
                told.inspect(|_| self.pool().succeeded(&lease)).map_err(failed)
            };
            let calls = self.engine.calls(&limit(served, &lease), plain(&asked.provider));
            let told = calls.make(OperationType::ReadOne, Call::ReadDataSource.name(), read).await?;
            let own = lease.warnings().warnings().map(ToString::to_string);
            let of_it = told.warnings.warnings().map(|warning| format!("{}: {warning}", asked.address));
            own.chain(of_it).for_each(|warning| self.warn(redacted(warning)));
            Ok::<_, Failure>(told.answer)
        };
        let said = said.await.map_err(|failure| redacted(failure.message));
        Ok(Answer { config: asked.config.clone(), said })
    }

    /// What a function of a provider makes of its arguments. What it complains of is an answer too.
    pub(super) async fn call(
        &self,
        calling: &Calling,
        providers: &Providers,
        secrets: &Secrets,
    ) -> Result<Result<Term, String>, Stop> {
        let found = providers.functions.get(&key(&calling.provider, &calling.name));
        let Some((served, function)) = found else { return Err(no_function(&calling.name).into()) };
        let Some(program) = &served.program else { return Err(no_function(&calling.name).into()) };
        let redacted = |text: String| failures::redacted(text, &secrets.texts());
        let made = async {
            let lease = self.pool().lease_bare(program, &served.digest).await?;
            let made = lease.judge(lease.call_function(&calling.name, &calling.arguments).await)?;
            self.pool().succeeded(&lease);
            Ok(made)
        };
        match made.await {
            Ok(value) => Ok(Ok(Term::of_value(&value, &function.returns))),
            Err(PluginError::Failed { reason, .. }) => Ok(Err(redacted(reason))),
            Err(error) => {
                let failure = failures::failure(error, None, false);
                Err(Failure { message: redacted(failure.message), ..failure }.into())
            }
        }
    }
}
