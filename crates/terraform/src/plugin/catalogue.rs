//! What a provider has: its schemas, kept as it sent them and decoded one at a time when somebody asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use prost::bytes::Bytes;
use quick_cache::sync::Cache;

use super::PluginError;
use crate::diagnostic::Diagnostics;
use crate::protocol::Version;
use crate::protocol::messages::{self, GetProviderSchemaResponse, ServerCapabilities};
use crate::schema::Schema;
use crate::value::Type;

/// Decoded schemas that are kept; whoever uses one holds it anyway.
const DECODED: usize = 256;

/// The schemas of one provider binary, shared by all of its processes and by all tenants.
pub struct Catalogue {
    version: Version,
    pub capabilities: ServerCapabilities,
    pub provider: Arc<Schema>,
    /// Where the provider wants to know who asks.
    pub meta: Option<Arc<Schema>>,
    resources: BTreeMap<String, Vec<u8>>,
    data_sources: BTreeMap<String, Vec<u8>>,
    ephemeral: BTreeMap<String, Vec<u8>>,
    lists: BTreeMap<String, Vec<u8>>,
    functions: BTreeMap<String, messages::Function>,
    identities: BTreeMap<String, Arc<IdentitySchema>>,
    decoded: Cache<(Section, String), Arc<Schema>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Section {
    Resource,
    DataSource,
    Ephemeral,
    List,
}

/// What tells one resource of a type from another, for providers that say so.
#[derive(Clone, Debug, PartialEq)]
pub struct IdentitySchema {
    pub version: i64,
    pub attributes: BTreeMap<String, IdentityAttribute>,
    pub ty: Type,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityAttribute {
    pub ty: Type,
    pub required_for_import: bool,
}

/// What a function takes, and what it makes of that.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub parameters: Vec<Parameter>,
    /// What all further arguments are, if there may be any.
    pub variadic: Option<Parameter>,
    pub returns: Type,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub ty: Type,
    pub takes_null: bool,
}

impl Catalogue {
    pub(super) fn decode(
        answer: GetProviderSchemaResponse,
        identities: HashMap<String, messages::IdentitySchema>,
        version: Version,
    ) -> Result<Catalogue, PluginError> {
        Diagnostics::decode(answer.diagnostics).check().map_err(PluginError::Refused)?;
        let provider = match answer.provider.as_ref() {
            [] => Schema::empty(),
            bytes => Schema::decode(bytes, version)?,
        };
        let meta = answer.provider_meta.as_ref().filter(|bytes: &&Bytes| !bytes.is_empty());
        // Some send a message with nothing in it for "none".
        let meta = meta.and_then(|bytes| Schema::decode(bytes, version).ok());
        let mut known = BTreeMap::new();
        for (name, schema) in identities {
            known.insert(name, Arc::new(IdentitySchema::decode(schema)?));
        }
        Ok(Catalogue {
            version,
            capabilities: answer.server_capabilities.unwrap_or_default(),
            provider: Arc::new(provider),
            meta: meta.map(Arc::new),
            resources: answer.resource_schemas.into_iter().collect(),
            data_sources: answer.data_source_schemas.into_iter().collect(),
            ephemeral: answer.ephemeral_resource_schemas.into_iter().collect(),
            lists: answer.list_resource_schemas.into_iter().collect(),
            functions: answer.functions.into_iter().collect(),
            identities: known,
            decoded: Cache::new(DECODED),
        })
    }

    /// What is known of a provider that was not asked yet.
    pub fn of_resources(
        version: Version,
        resources: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Catalogue {
        Catalogue {
            version,
            capabilities: ServerCapabilities::default(),
            provider: Arc::new(Schema::empty()),
            meta: None,
            resources: resources.into_iter().collect(),
            data_sources: BTreeMap::new(),
            ephemeral: BTreeMap::new(),
            lists: BTreeMap::new(),
            functions: BTreeMap::new(),
            identities: BTreeMap::new(),
            decoded: Cache::new(DECODED),
        }
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// Schemas of resource types, as the provider sent them.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.resources.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    pub fn resource_types(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().map(String::as_str)
    }

    pub fn has_resource(&self, name: &str) -> bool {
        self.resources.contains_key(name)
    }

    pub fn data_source_types(&self) -> impl Iterator<Item = &str> {
        self.data_sources.keys().map(String::as_str)
    }

    pub fn has_data_source(&self, name: &str) -> bool {
        self.data_sources.contains_key(name)
    }

    pub fn resource(&self, name: &str) -> Result<Arc<Schema>, PluginError> {
        self.schema(Section::Resource, &self.resources, name, "resource type")
    }

    pub fn data_source(&self, name: &str) -> Result<Arc<Schema>, PluginError> {
        self.schema(Section::DataSource, &self.data_sources, name, "data source")
    }

    pub fn has_ephemeral(&self, name: &str) -> bool {
        self.ephemeral.contains_key(name)
    }

    /// Of what is opened for a while.
    pub fn ephemeral(&self, name: &str) -> Result<Arc<Schema>, PluginError> {
        self.schema(Section::Ephemeral, &self.ephemeral, name, "ephemeral resource type")
    }

    /// Of what a list of resources is asked with.
    pub fn list(&self, name: &str) -> Result<Arc<Schema>, PluginError> {
        self.schema(Section::List, &self.lists, name, "list of type")
    }

    /// The same with what the resources in it are told apart by: without that none of them could be taken over.
    pub fn listed(&self, name: &str) -> Result<(Arc<Schema>, Arc<IdentitySchema>), PluginError> {
        // Asked for, so that an unknown type is said to be one.
        self.resource(name)?;
        let schema = self.list(name)?;
        let missing = || PluginError::NoSuch { what: "identity of type", name: name.to_owned() };
        Ok((schema, self.identity(name).cloned().ok_or_else(missing)?))
    }

    pub fn identity(&self, type_name: &str) -> Option<&Arc<IdentitySchema>> {
        self.identities.get(type_name)
    }

    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    pub fn function(&self, name: &str) -> Result<Function, PluginError> {
        let missing = || PluginError::NoSuch { what: "function", name: name.to_owned() };
        Function::decode(name, self.functions.get(name).ok_or_else(missing)?)
    }

    /// What all of it takes as it is kept, about.
    pub fn bytes(&self) -> usize {
        let sections = [&self.resources, &self.data_sources, &self.ephemeral, &self.lists];
        sections.into_iter().flatten().map(|(name, bytes)| name.len() + bytes.len()).sum()
    }

    fn schema(
        &self,
        section: Section,
        schemas: &BTreeMap<String, Vec<u8>>,
        name: &str,
        what: &'static str,
    ) -> Result<Arc<Schema>, PluginError> {
        let bytes = schemas.get(name).ok_or_else(|| PluginError::NoSuch { what, name: name.to_owned() })?;
        self.decoded.get_or_insert_with(&(section, name.to_owned()), || {
            Ok(Arc::new(Schema::decode(bytes, self.version)?))
        })
    }
}

impl IdentitySchema {
    fn decode(schema: messages::IdentitySchema) -> Result<IdentitySchema, PluginError> {
        let mut attributes = BTreeMap::new();
        for attribute in schema.identity_attributes {
            let wrong = |error| {
                PluginError::Schema(crate::schema::SchemaError::Type { name: attribute.name.clone(), error })
            };
            let ty = Type::parse(&attribute.r#type).map_err(wrong)?;
            let required_for_import = attribute.required_for_import;
            attributes.insert(attribute.name, IdentityAttribute { ty, required_for_import });
        }
        let ty =
            Type::object(attributes.iter().map(|(name, attribute)| (name.clone(), attribute.ty.clone())));
        Ok(IdentitySchema { version: schema.version, attributes, ty })
    }
}

impl Function {
    fn decode(name: &str, function: &messages::Function) -> Result<Function, PluginError> {
        let ty = |bytes: &[u8]| {
            let wrong = |error| {
                PluginError::Schema(crate::schema::SchemaError::Type { name: name.to_owned(), error })
            };
            Type::parse(bytes).map_err(wrong)
        };
        let parameter = |one: &messages::Parameter| -> Result<Parameter, PluginError> {
            Ok(Parameter { name: one.name.clone(), ty: ty(&one.r#type)?, takes_null: one.allow_null_value })
        };
        let returned = function.r#return.as_ref().map(|returned| &*returned.r#type).unwrap_or_default();
        Ok(Function {
            parameters: function.parameters.iter().map(parameter).collect::<Result<_, _>>()?,
            variadic: function.variadic_parameter.as_ref().map(parameter).transpose()?,
            returns: ty(returned)?,
        })
    }

    /// What an argument is.
    pub fn parameter(&self, at: usize) -> Option<&Parameter> {
        self.parameters.get(at).or(self.variadic.as_ref())
    }
}
