//! The providers that are served, and the kinds they bring.
//!
//! One table for all tenants, replaced as a whole when a provider comes, changes or goes. A kind costs a row; its
//! schema stays in the provider's catalogue until somebody uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use objects::CompactString;
use parking_lot::Mutex;
use provision::Facts;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::definition::{self, GENERIC_KIND, GENERIC_PLURAL, GROUP};
use crate::dialect::Kubeform;
use crate::memory::Memory;
use crate::module;
use crate::names::KindName;
use crate::plugin::{Catalogue, Launch};
use crate::queries;

/// A provider whose kinds are there.
pub struct Served {
    /// As its `Provider` object is called.
    pub name: String,
    /// As Terraform calls it: `registry.terraform.io/linode/linode`.
    pub address: String,
    /// None as long as it was not looked at since the start: its kinds are remembered, and it cannot be used.
    pub program: Option<Launch>,
    /// Of the content of its program.
    pub digest: String,
    pub catalogue: Arc<Catalogue>,
}

/// A kind that is served, and what it stands for.
pub struct ServedKind {
    /// None for the kind of all types.
    pub of: Option<(Arc<Served>, String)>,
    pub facts: Arc<Facts>,
}

impl ServedKind {
    fn is_usable(&self) -> bool {
        self.of.as_ref().is_none_or(|(provider, _)| provider.program.is_some())
    }
}

#[derive(Default)]
struct Table {
    providers: BTreeMap<String, Arc<Served>>,
    kinds: BTreeMap<CompactString, Arc<ServedKind>>,
}

/// A definition for others to serve.
pub struct Offer {
    pub definition: Json,
    /// Makes the `openAPIV3Schema`; an object of anything if the provider's schema cannot be read.
    pub schema: Arc<dyn Fn() -> Json + Send + Sync>,
    pub fingerprint: [u8; 32],
}

pub struct Registry {
    table: ArcSwap<Table>,
    /// The types that become kinds; none is all.
    only: Option<BTreeSet<String>>,
    /// Held while the table is made anew.
    writing: Mutex<()>,
    memory: Option<Memory>,
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new(None)
    }
}

/// For a resource of whatever provider, where its kind does not say it.
pub const GENERIC_FINALIZER: &str = "terraform.hangar.dev/finalizer";

impl Registry {
    /// One in which only these types become kinds of their own, where a kind costs more than a row.
    pub fn only(types: impl IntoIterator<Item = String>) -> Registry {
        Registry::new(Some(types.into_iter().collect()))
    }

    /// One that begins with what was served when the process ended.
    pub fn remembering(memory: Memory) -> Registry {
        let known = memory.recall().into_iter().map(|served| (served.name.clone(), Arc::new(served)));
        let registry = Registry { memory: Some(memory), ..Registry::new(None) };
        registry.rebuild(known.collect());
        registry
    }

    fn new(only: Option<BTreeSet<String>>) -> Registry {
        let registry = Registry { table: ArcSwap::default(), only, writing: Mutex::new(()), memory: None };
        registry.rebuild(BTreeMap::new());
        registry
    }

    /// Where it is kept what is served.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Forgets what is only remembered, of providers that are not among these.
    pub fn forget_all_but(&self, names: &BTreeSet<String>) {
        let table = self.table.load();
        let remembered = table.providers.values().filter(|served| served.program.is_none());
        for served in remembered.filter(|served| !names.contains(&served.name)) {
            self.remove(&served.name);
        }
    }

    pub fn set(&self, provider: Served) {
        let _writing = self.writing.lock();
        let mut providers = self.table.load().providers.clone();
        providers.insert(provider.name.clone(), Arc::new(provider));
        self.rebuild(providers);
    }

    /// Whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        let _writing = self.writing.lock();
        let mut providers = self.table.load().providers.clone();
        let removed = providers.remove(name).is_some();
        if removed {
            self.rebuild(providers);
            self.memory.iter().for_each(|memory| memory.forget(name));
        }
        removed
    }

    fn rebuild(&self, providers: BTreeMap<String, Arc<Served>>) {
        let mut kinds = BTreeMap::new();
        let dialect = Arc::new(Kubeform);
        let resource = format!("{GENERIC_PLURAL}.{GROUP}");
        let facts =
            Facts::new(resource.as_str(), GENERIC_KIND, "terraform", GENERIC_FINALIZER, dialect.clone());
        kinds.insert(resource.into(), Arc::new(ServedKind { of: None, facts: Arc::new(facts) }));
        for provider in providers.values() {
            let wanted = |name: &&str| self.only.as_ref().is_none_or(|only| only.contains(*name));
            for type_name in provider.catalogue.resource_types().filter(wanted) {
                let name = KindName::of_type(type_name);
                let resource = CompactString::from(name.resource());
                // Of two providers with the same types (a fork, another version), the first by name has the kind.
                kinds.entry(resource).or_insert_with_key(|resource| {
                    let facts = Facts::new(
                        resource.clone(),
                        name.kind.as_str(),
                        name.provider.as_str(),
                        name.finalizer(),
                        dialect.clone(),
                    );
                    let of = Some((provider.clone(), type_name.to_owned()));
                    Arc::new(ServedKind { of, facts: Arc::new(facts) })
                });
            }
        }
        self.table.store(Arc::new(Table { providers, kinds }));
    }

    /// One that can be used.
    pub fn provider(&self, name: &str) -> Option<Arc<Served>> {
        self.table.load().providers.get(name).filter(|served| served.program.is_some()).cloned()
    }

    /// A provider that can be used and has what is wanted: the one of this name, or else the first.
    pub fn having(&self, name: &str, has: impl Fn(&Served) -> bool) -> Option<Arc<Served>> {
        let table = self.table.load();
        let fits = |served: &&Arc<Served>| served.program.is_some() && has(served);
        let named = table.providers.get(name).filter(fits);
        named.or_else(|| table.providers.values().find(fits)).cloned()
    }

    pub fn kind(&self, resource: &str) -> Option<Arc<ServedKind>> {
        self.table.load().kinds.get(resource).cloned()
    }

    /// The facts of a kind by the names that users know it by.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Facts>> {
        let (group, _) = api_version.split_once('/')?;
        let table = self.table.load();
        let found = table.kinds.values().find(|one| one.facts.group() == group && one.facts.kind == kind);
        found.map(|one| one.facts.clone())
    }

    /// All kinds, also those that are only remembered.
    pub fn all_kinds(&self) -> Vec<CompactString> {
        self.table.load().kinds.keys().cloned().collect()
    }

    /// The kinds that a provider brings.
    pub fn kinds_of(&self, provider: &str) -> Vec<CompactString> {
        let table = self.table.load();
        let own = |kind: &ServedKind| kind.of.as_ref().is_some_and(|(served, _)| served.name == provider);
        table.kinds.iter().filter(|(_, kind)| own(kind)).map(|(resource, _)| resource.clone()).collect()
    }

    /// Kinds whose providers can be used.
    pub fn kinds(&self) -> Vec<CompactString> {
        let table = self.table.load();
        let usable = table.kinds.iter().filter(|(_, kind)| kind.is_usable());
        usable.map(|(resource, _)| resource.clone()).collect()
    }

    /// The definitions of all kinds that are served.
    pub fn offers(&self) -> Vec<Offer> {
        let table = self.table.load();
        if table.providers.is_empty() {
            return Vec::new();
        }
        let modules = module::kinds::KINDS.iter().map(|kind| Offer {
            definition: (kind.definition)(),
            schema: Arc::new(kind.schema),
            fingerprint: Sha256::digest((kind.schema)().to_string()).into(),
        });
        let queries = Offer {
            definition: queries::kinds::definition(),
            schema: Arc::new(queries::kinds::schema),
            fingerprint: Sha256::digest(queries::kinds::schema().to_string()).into(),
        };
        table.kinds.values().map(|kind| offer(kind)).chain(modules).chain([queries]).collect()
    }
}

impl Offer {
    /// The definition with its schema in it, for servers that are not ours.
    pub fn whole(&self) -> Json {
        let mut definition = self.definition.clone();
        definition["spec"]["versions"][0]["schema"] = serde_json::json!({"openAPIV3Schema": (self.schema)()});
        definition
    }
}

/// Another one whenever other schemas are made of what a provider says: clients keep them by their hash.
const FORM: &str = "described";

fn offer(kind: &ServedKind) -> Offer {
    let Some((provider, type_name)) = kind.of.clone() else {
        return Offer {
            definition: definition::generic(),
            schema: Arc::new(definition::generic_schema),
            fingerprint: Sha256::digest(definition::generic_schema().to_string()).into(),
        };
    };
    let mut hash = Sha256::new();
    hash.update(FORM);
    hash.update(&provider.digest);
    hash.update(&type_name);
    let definition = definition::of_type(&KindName::of_type(&type_name));
    let schema = move || match provider.catalogue.resource(&type_name) {
        Ok(schema) => definition::schema_of_type(&schema),
        Err(error) => {
            tracing::warn!(provider = provider.name, type_name, %error, "the schema of a type cannot be read");
            definition::generic_schema()
        }
    };
    Offer { definition, schema: Arc::new(schema), fingerprint: hash.finalize().into() }
}
