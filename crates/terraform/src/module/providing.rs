//! The providers of a module: which has a type, how each is configured, what it says of data, and what its functions make.

use std::collections::BTreeMap;
use std::sync::Arc;

use objects::{Value as Json, meta};
use provision::{Calls, Failure, OperationType};
use serde_json::json;

use super::config::{Module, Sort};
use super::course::{Answer, Asked, Calling, Schemas};
use super::graph::Graph;
use super::pass::Stop;
use super::problem::Problem;
use super::term::Term;
use super::tree::{Tree, plain};
use super::view::{Definition, Spec, View};
use crate::driver::wanted::{self, Secrets};
use crate::driver::{failures, limit};
use crate::openings;
use crate::plugin::{Function, Launch, Lease, PluginError, Told};
use crate::protocol::Call;
use crate::registry::Served;
use crate::schema::Schema;
use crate::value::Value;

/// By its sort, what the root calls its provider without an alias, and its name.
type Type = (Sort, String, String);

/// Everything that the modules of a tree name of providers.
#[derive(Default)]
pub(super) struct Providers {
    types: BTreeMap<Type, (Arc<Served>, Arc<Schema>)>,
    functions: BTreeMap<(String, String), (Arc<Served>, Arc<Function>)>,
}

fn key(provider: &str, type_name: &str) -> (String, String) {
    (plain(provider).to_owned(), type_name.to_owned())
}

fn type_key(sort: Sort, provider: &str, type_name: &str) -> Type {
    (sort, plain(provider).to_owned(), type_name.to_owned())
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
        self.types.get(&type_key(Sort::Managed, provider, type_name)).map_or("", |(served, _)| &served.name)
    }

    /// How a resource looks that is there, by the name of its `Provider` object.
    pub fn of_child(&self, provider: &str, type_name: &str) -> Option<Arc<Schema>> {
        let own = |((sort, _, named), (served, _)): &(&Type, &(Arc<Served>, _))| {
            *sort == Sort::Managed && named == type_name && served.name == provider
        };
        self.types.iter().find(own).map(|(_, (_, schema))| schema.clone())
    }
}

impl Schemas for Providers {
    fn resource(&self, sort: Sort, provider: &str, type_name: &str) -> Result<Arc<Schema>, Problem> {
        let found = self.types.get(&type_key(sort, provider, type_name));
        found.map(|(_, schema)| schema.clone()).ok_or_else(|| missing(type_name))
    }

    fn provider(&self, name: &str) -> Result<Arc<Schema>, Problem> {
        let typed = self.types.iter().map(|((_, word, _), (served, _))| (word, served));
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
pub(super) fn made_name(module: &Json, provider: &str) -> String {
    let provider = provider.replace(['.', '_'], "-").to_lowercase();
    format!("{}-{provider}-provider", meta::name(module))
}

impl View<'_> {
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
                let (type_name, sort) = (&resource.type_name, resource.sort);
                let provider = tree.root_provider(&path, &resource.provider).unwrap_or_default();
                let failed = |why: String| Failure::recoverable(format!("{}: {why}", resource.place));
                if !configurations.knows(&provider) {
                    let why = format!("nothing configures the provider {provider}; spec.providerRefs can");
                    return Err(failed(why).into());
                }
                let key = type_key(sort, &provider, type_name);
                if found.types.contains_key(&key) {
                    continue;
                }
                let has = |served: &Served| match sort {
                    Sort::Managed => served.catalogue.has_resource(type_name),
                    Sort::Data => served.catalogue.has_data_source(type_name),
                    Sort::Ephemeral => served.catalogue.has_ephemeral(type_name),
                };
                let Some(served) = self.engine.driver().registry().having(&key.1, has) else {
                    let why = format!("no Provider that is ready has the {} {type_name}", sort.name());
                    return Err(failed(why).into());
                };
                let schema = match sort {
                    Sort::Managed => served.catalogue.resource(type_name),
                    Sort::Data => served.catalogue.data_source(type_name),
                    Sort::Ephemeral => served.catalogue.ephemeral(type_name),
                };
                let schema = schema.map_err(|error| failed(error.to_string()))?;
                found.types.insert(key, (served, schema));
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

    /// What a provider is configured with: what the user gives for it, and over that what the module makes.
    pub(super) async fn configuration(
        &self,
        configurations: &Configurations<'_>,
        provider: &str,
        made: Option<&Json>,
    ) -> Result<Json, Failure> {
        let mut whole = match configurations.given(provider) {
            Some(name) => self.given(name).await?,
            None => json!({}),
        };
        if let (Json::Object(whole), Some(Json::Object(made))) = (&mut whole, made) {
            whole.extend(made.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        Ok(whole)
    }

    async fn given(&self, name: &str) -> Result<Json, Failure> {
        let namespace = self.namespace();
        let failed = |why: String| Failure::recoverable(why).at("spec.providerRef");
        let secret = self.reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| failed(format!("Secret {namespace}/{name} does not exist")))?;
        let missing = || failed(format!("Secret {namespace}/{name} has no key \"provider\""));
        wanted::key(&secret, "provider")?.ok_or_else(missing)
    }

    /// What a provider says of a data source, or what it opens. What it complains of is an answer too.
    pub(super) async fn ask(
        &self,
        asked: &Asked,
        config: &Json,
        providers: &Providers,
        secrets: &Secrets,
    ) -> Result<Answer, Stop> {
        let found = providers.types.get(&type_key(asked.sort, &asked.provider, &asked.type_name));
        let Some((served, schema)) = found else { return Err(missing(&asked.type_name).into()) };
        let Some(program) = &served.program else { return Err(missing(&asked.type_name).into()) };
        let (config, redactions) = wanted::configuration(&served.catalogue.provider.block, config)?;
        let redacted =
            |text: String| failures::redacted(failures::redacted(text, &redactions), &secrets.texts());
        let asking =
            Asking { view: self, asked, served, schema, program, config: &config, redacted: &redacted };
        let said = match asked.sort {
            Sort::Ephemeral => Box::pin(asking.open()).await,
            Sort::Managed | Sort::Data => Box::pin(asking.read()).await,
        };
        let said = said.map_err(|failure| redacted(failure.message));
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
            let program = program.on_behalf_of(self.reader.control_plane());
            let lease = self.pool().lease_bare(&program, &served.digest).await?;
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

/// One question about something that is no resource object.
struct Asking<'a> {
    view: &'a View<'a>,
    asked: &'a Asked,
    served: &'a Served,
    schema: &'a Schema,
    program: &'a Launch,
    config: &'a Value,
    redacted: &'a (dyn Fn(String) -> String + Sync),
}

impl Asking<'_> {
    async fn lease(&self) -> Result<(Lease, Calls), Failure> {
        let program = self.program.on_behalf_of(self.view.reader.control_plane());
        let lease = self.view.pool().lease(&program, &self.served.digest, self.config).await;
        let lease = lease.map_err(|error| failures::failure(error, None, false))?;
        let calls = self.view.engine.calls(&limit(self.served, &lease), plain(&self.asked.provider));
        Ok((lease, calls))
    }

    /// A call that the provider answers by asking its cloud.
    async fn call<T>(
        &self,
        lease: &Lease,
        calls: &Calls,
        which: Call,
        call: impl Future<Output = Result<Told<T>, PluginError>>,
    ) -> Result<T, Failure> {
        let called = async {
            let told = lease.judge(call.await);
            let told = told.inspect(|_| self.view.pool().succeeded(lease));
            told.map_err(|error| failures::failure(error, None, false))
        };
        let told = calls.make(OperationType::ReadOne, which.name(), called).await?;
        let own = lease.warnings().warnings().map(ToString::to_string);
        let of_it = told.warnings.warnings().map(|warning| format!("{}: {warning}", self.asked.address));
        own.chain(of_it).for_each(|warning| self.view.warn((self.redacted)(warning)));
        Ok(told.answer)
    }

    async fn read(&self) -> Result<Value, Failure> {
        let (lease, calls) = self.lease().await?;
        let read = lease.read_data(&self.asked.type_name, &self.asked.config);
        self.call(&lease, &calls, Call::ReadDataSource, read).await
    }

    /// It stays open while the view is there.
    async fn open(&self) -> Result<Value, Failure> {
        let opening = async {
            let (lease, calls) = self.lease().await?;
            let open = lease.open_ephemeral(&self.asked.type_name, &self.asked.config);
            let ephemeral = self.call(&lease, &calls, Call::OpenEphemeralResource, open).await?;
            Ok(openings::Opening { ephemeral, lease, calls })
        };
        let openings = self.view.engine.driver().openings();
        let held = openings.get(self.key()?, Box::pin(opening)).await?;
        let value = held.value().clone();
        self.view.held.lock().push(held);
        Ok(value)
    }

    /// Of one module, and never of another control plane: what is open is nobody else's.
    fn key(&self) -> Result<openings::Key, Failure> {
        let unfit = |error| failures::failure(PluginError::Value(error), None, false);
        let config = self.asked.config.to_msgpack(self.schema.ty()).map_err(unfit)?;
        let provider = self.served.catalogue.provider.ty();
        let provider = self.config.to_msgpack(provider).map_err(unfit)?;
        let module = &self.view.object;
        let texts = [
            self.view.reader.control_plane(),
            self.view.namespace(),
            meta::name(module),
            meta::uid(module),
            &self.asked.address,
            &self.served.name,
            &self.served.digest,
        ];
        Ok(openings::Key::of(texts.map(str::as_bytes).into_iter().chain([&*provider, &*config])))
    }
}
