//! The table of types of one control plane: the built-in rows that all share, and those its definitions add.
//!
//! **Invariant:** a schema is compiled once per content, however many control planes have it, and not before an
//! object of it is written or read in need of it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use builtins::Behaviour;
use objects::field::ErrorList;
use objects::{CompactString, GroupKind, GroupResource, GroupVersionKind, Path, ResourceType, Value, meta};
use parking_lot::Mutex;
use rules::CompiledRules;
use schemas::{Cursor, Schema};
use sha2::{Digest, Sha256};
use wire::protobuf::Kind;

use crate::catalog::{Offered, Reviewer};
use crate::codec::SchemaTag;

/// One resource in one version, with what the server knows to do about it.
pub struct Row {
    pub ty: Arc<ResourceType>,
    /// How the type is named in storage keys: the same for every version of it.
    pub storage_kind: CompactString,
    /// The `apiVersion` objects of the type are stored in.
    pub storage_api_version: CompactString,
    /// This row's own.
    pub api_version: CompactString,
    pub behaviour: &'static Behaviour,
    pub source: Source,
}

#[derive(Debug)]
pub enum Source {
    BuiltIn(Option<Cursor<'static>>),
    Custom(CustomVersion),
}

/// A version of a custom resource definition.
#[derive(Debug)]
pub struct CustomVersion {
    pub definition: Arc<Definition>,
    /// The version's own part of the definition: schema, columns, subresources.
    pub version: Value,
    pub schema: Arc<CustomSchema>,
    /// Who else has a say in writes, where the definition is offered.
    pub reviewer: Reviewer,
}

/// A definition as its rows share it.
#[derive(Debug)]
pub struct Definition {
    pub name: CompactString,
    pub uid: CompactString,
    pub object: Value,
    /// Being deleted: what is there can be read and deleted, nothing created.
    pub terminating: bool,
}

impl Row {
    pub fn group_resource(&self) -> GroupResource {
        self.ty.group_resource()
    }

    pub fn group_kind(&self) -> GroupKind {
        self.ty.group_kind()
    }

    /// As the objects say it.
    pub fn kind(&self) -> Kind<'_> {
        Kind { api_version: &self.api_version, kind: &self.ty.kind }
    }

    pub fn key(&self, namespace: &str, name: &str) -> store::Key {
        store::Key::new(self.storage_kind.clone(), namespace, name)
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom(_))
    }

    pub fn custom(&self) -> Option<&CustomVersion> {
        match &self.source {
            Source::Custom(custom) => Some(custom),
            Source::BuiltIn(_) => None,
        }
    }

    /// The schema at its root, for walks along an object.
    pub fn cursor(&self) -> Option<Cursor<'_>> {
        match &self.source {
            Source::BuiltIn(cursor) => *cursor,
            Source::Custom(custom) => custom.schema.compiled().map(Schema::root),
        }
    }

    /// What objects of this type are marked with when they are stored.
    pub fn tag(&self) -> SchemaTag {
        match &self.source {
            Source::BuiltIn(_) => SchemaTag::default(),
            Source::Custom(custom) => custom.schema.tag,
        }
    }
}

/// A compiled schema, shared by content.
#[derive(Debug)]
pub struct CustomSchema {
    pub tag: SchemaTag,
    source: SchemaSource,
    compiled: OnceLock<Option<Schema>>,
    rules: OnceLock<Option<CompiledRules>>,
}

enum SchemaSource {
    Held(Value),
    /// Of a catalogue: most are never asked for.
    Made(Box<dyn Fn() -> Value + Send + Sync>),
}

impl std::fmt::Debug for SchemaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("schema")
    }
}

impl CustomSchema {
    fn new(hash: &[u8; 32], source: SchemaSource) -> Arc<CustomSchema> {
        let tag = SchemaTag(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]).max(1));
        Arc::new(CustomSchema { tag, source, compiled: OnceLock::new(), rules: OnceLock::new() })
    }

    /// Shared with every other definition whose schema is the same.
    pub fn shared(source: &Value) -> Arc<CustomSchema> {
        static ALL: LazyLock<Mutex<HashMap<[u8; 32], Weak<CustomSchema>>>> = LazyLock::new(Default::default);
        let hash: [u8; 32] = Sha256::digest(source.to_string()).into();
        let mut all = ALL.lock();
        if let Some(schema) = all.get(&hash).and_then(Weak::upgrade) {
            return schema;
        }
        // The map forgets schemas that no control plane in memory uses any more.
        if all.len() % 256 == 255 {
            all.retain(|_, schema| schema.strong_count() > 0);
        }
        let schema = CustomSchema::new(&hash, SchemaSource::Held(source.clone()));
        all.insert(hash, Arc::downgrade(&schema));
        schema
    }

    /// One that is made when it is needed; the hash stands for its content.
    pub(crate) fn made(hash: &[u8; 32], make: Box<dyn Fn() -> Value + Send + Sync>) -> Arc<CustomSchema> {
        CustomSchema::new(hash, SchemaSource::Made(make))
    }

    pub fn compiled(&self) -> Option<&Schema> {
        // A definition whose schema does not compile is refused when it is written.
        self.compiled.get_or_init(|| Schema::from_crd(&self.source()).ok()).as_ref()
    }

    pub fn rules(&self) -> Option<&CompiledRules> {
        let compile = || CompiledRules::compile(self.compiled()?, &Path::root()).ok();
        self.rules.get_or_init(compile).as_ref()
    }

    pub fn source(&self) -> Cow<'_, Value> {
        match &self.source {
            SchemaSource::Held(source) => Cow::Borrowed(source),
            SchemaSource::Made(make) => Cow::Owned(make()),
        }
    }
}

pub(crate) type ByResource = HashMap<(CompactString, CompactString, CompactString), Arc<Row>>;

/// What one control plane serves.
#[derive(Default)]
pub struct Surface {
    /// Rows of the control plane's own definitions.
    custom: ByResource,
    /// Groups and plurals that those define, in whatever version: what is offered under such a name is not served.
    own: HashSet<(CompactString, CompactString)>,
    offered: Arc<Offered>,
    /// Equal for control planes that serve the same: what documents made of the surface are cached by.
    pub hash: [u8; 32],
}

static BUILT_IN: LazyLock<ByResource> = LazyLock::new(|| {
    let rows = builtins::types().iter().map(|ty| {
        let group_resource = ty.group_resource();
        let (storage, storage_version) =
            builtins::storage_type(&group_resource).unwrap_or((group_resource, ty.version.clone()));
        let storage_api_version = objects::GroupVersion::new(storage.group.clone(), storage_version);
        let row = Row {
            storage_kind: storage.to_string().into(),
            storage_api_version: storage_api_version.to_string().into(),
            api_version: ty.api_version().into(),
            behaviour: builtins::behaviour(&ty.group, &ty.kind),
            source: Source::BuiltIn(builtins::cursor(&ty.gvk())),
            ty: ty.clone(),
        };
        (id(ty), Arc::new(row))
    });
    rows.collect()
});

fn id(ty: &ResourceType) -> (CompactString, CompactString, CompactString) {
    (ty.group.clone(), ty.version.clone(), ty.plural.clone())
}

impl Surface {
    /// The surface of a control plane with these definitions of its own.
    pub(crate) fn new(definitions: impl IntoIterator<Item = Value>, offered: Arc<Offered>) -> Surface {
        let mut surface = Surface::default();
        let mut hash = Sha256::new();
        for object in definitions {
            surface.add(object, &mut hash);
        }
        for catalog in &offered.catalogs {
            hash.update(catalog.hash);
        }
        surface.offered = offered;
        surface.hash = hash.finalize().into();
        surface
    }

    /// Whether it was made of what is offered now.
    pub(crate) fn is_of(&self, offered: &Offered) -> bool {
        self.offered.generation == offered.generation
    }

    fn add(&mut self, object: Value, hash: &mut Sha256) {
        if !condition_is_true(&object, "Established") {
            return;
        }
        hash.update(object.get("spec").map(Value::to_string).unwrap_or_default());
        hash.update(object.pointer("/status/acceptedNames").map(Value::to_string).unwrap_or_default());
        let schema = |version: &str| {
            let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
            let mut of_name = versions.filter(|v| v.get("name").and_then(Value::as_str) == Some(version));
            let source = of_name.next().and_then(|version| version.pointer("/schema/openAPIV3Schema"));
            CustomSchema::shared(source.unwrap_or(&Value::Null))
        };
        for (id, row) in definition_rows(&object, &Reviewer::default(), schema) {
            self.own.insert((id.0.clone(), id.2.clone()));
            self.custom.insert(id, row);
        }
    }

    /// Rows of what is offered, where the control plane has no definition of its own.
    fn offered_rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        let rows = self.offered.catalogs.iter().flat_map(|catalog| catalog.rows.values());
        rows.filter(|row| !self.is_own(&row.ty.group, &row.ty.plural))
    }

    fn is_own(&self, group: &CompactString, plural: &CompactString) -> bool {
        !self.own.is_empty() && self.own.contains(&(group.clone(), plural.clone()))
    }

    fn offered_row(&self, id: &(CompactString, CompactString, CompactString)) -> Option<&Arc<Row>> {
        let row = self.offered.catalogs.iter().find_map(|catalog| catalog.rows.get(id))?;
        (!self.is_own(&id.0, &id.2)).then_some(row)
    }

    /// Whether a row is of a catalogue, and not of a definition of the control plane's own.
    pub fn is_offered(&self, row: &Row) -> bool {
        row.is_custom() && self.offered_row(&id(&row.ty)).is_some()
    }

    pub fn row(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Row>> {
        let id = (group.into(), version.into(), resource.into());
        BUILT_IN.get(&id).or_else(|| self.custom.get(&id)).or_else(|| self.offered_row(&id))
    }

    pub fn row_of_kind(&self, gvk: &GroupVersionKind) -> Option<&Arc<Row>> {
        self.rows()
            .find(|row| row.ty.kind == gvk.kind && row.ty.group == gvk.group && row.ty.version == gvk.version)
    }

    /// Every row, built in and custom.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        BUILT_IN.values().chain(self.custom_rows())
    }

    /// Rows of definitions: the control plane's own, and those that are offered to all.
    pub fn custom_rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.custom.values().chain(self.offered_rows())
    }

    /// One row for each stored type, in its storage version where that is served.
    pub fn storage_rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows().filter(|row| row.api_version == row.storage_api_version)
    }

    pub fn serves_group_version(&self, group: &str, version: &str) -> bool {
        self.rows().any(|row| row.ty.group == group && row.ty.version == version)
    }
}

/// The rows a definition makes: one for each served version.
pub(crate) fn definition_rows(
    object: &Value,
    reviewer: &Reviewer,
    schema: impl Fn(&str) -> Arc<CustomSchema>,
) -> Vec<((CompactString, CompactString, CompactString), Arc<Row>)> {
    let none = Vec::new();
    let versions = object.pointer("/spec/versions").and_then(Value::as_array).unwrap_or(&none);
    let storage = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.and_then(|version| version.get("name")).and_then(Value::as_str).unwrap_or("");
    let definition = Arc::new(Definition {
        name: meta::name(object).into(),
        uid: meta::uid(object).into(),
        terminating: meta::is_deleting(object),
        object: slim(object),
    });
    let mut rows = Vec::new();
    for ty in schemas::crd::resource_types(object) {
        let version = versions.iter().find(|v| v.get("name").and_then(Value::as_str) == Some(&ty.version));
        let Some(version) = version else { continue };
        let storage = objects::GroupVersion::new(ty.group.clone(), storage);
        let row = Row {
            storage_kind: ty.group_resource().to_string().into(),
            storage_api_version: storage.to_string().into(),
            api_version: ty.api_version().into(),
            behaviour: builtins::custom(ty.subresource("status").is_some()),
            source: Source::Custom(CustomVersion {
                definition: definition.clone(),
                version: without_schema(version),
                schema: schema(&ty.version),
                reviewer: reviewer.clone(),
            }),
            ty: Arc::new(ty),
        };
        rows.push((id(&row.ty), Arc::new(row)));
    }
    rows
}

pub fn condition_is_true(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| {
        all.iter().any(|c| {
            c.get("type").and_then(Value::as_str) == Some(kind)
                && c.get("status").and_then(Value::as_str) == Some("True")
        })
    })
}

/// The definition without its schemas, which are kept once per content.
fn slim(object: &Value) -> Value {
    let mut object = object.clone();
    meta::set(&mut object, "managedFields", Value::Null);
    meta::set(&mut object, "annotations", Value::Null);
    if let Some(versions) = object.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        for version in versions {
            *version = without_schema(version);
        }
    }
    object
}

fn without_schema(version: &Value) -> Value {
    let mut version = version.clone();
    if let Some(version) = version.as_object_mut() {
        version.remove("schema");
    }
    version
}

/// What is wrong with a custom resource, by its schema and its rules. A write to its status is judged by its status.
pub fn validate_custom(
    custom: &CustomVersion,
    object: &Value,
    old: Option<&Value>,
    status_only: bool,
) -> ErrorList {
    let Some(schema) = custom.schema.compiled() else { return ErrorList::new() };
    let mut errors = match (status_only, schema.root().property("status"), object.get("status")) {
        (true, Some(cursor), Some(status)) => {
            schemas::validate(cursor, status, old.and_then(|old| old.get("status")), &Path::new("status"))
        }
        (true, ..) => ErrorList::new(),
        (false, ..) => schemas::validate(schema.root(), object, old, &Path::root()),
    };
    if let Some(scale) = custom.version.pointer("/subresources/scale") {
        errors.extend(schemas::crd::validate_scale(scale, object, status_only));
    }
    // As upstream: rules are not evaluated on what does not fit the schema in ways they could trip over.
    match schemas::blocks_rules(&errors) {
        Some(blocked) => errors.push(blocked),
        None => {
            if let Some(rules) = custom.schema.rules() {
                errors.extend(rules.validate(object, old, &Path::root(), &mut rules::Budget::default()));
            }
        }
    }
    errors
}

/// What is wrong with the rules of a definition's schemas.
pub fn validate_rules(definition: &Value) -> ErrorList {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut errors = ErrorList::new();
    for (index, version) in versions.enumerate() {
        let Some(source) = version.pointer("/schema/openAPIV3Schema") else { continue };
        // What is no schema has been told already.
        let Ok(schema) = Schema::from_crd(source) else { continue };
        let path = Path::new("spec").child("versions").index(index).child("schema").child("openAPIV3Schema");
        errors.extend(CompiledRules::compile(&schema, &path).err().into_iter().flatten());
    }
    errors
}
