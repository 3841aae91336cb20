//! OpenAPI documents: version 3 by group and version, and the one document of version 2.
//!
//! A document is put together from [`Fragment`]s, one per resource. Those of the built-in kinds are joined once;
//! those of custom resources depend only on the row and its schema, so a server makes them once for all
//! tenants that have the same definition. There is no prose of ours in them; what the author of a custom
//! resource wrote is kept.

mod custom;
mod definitions;
mod operations;
mod protobuf;
mod render;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use objects::{GroupVersion, ResourceType};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::types;
use definitions::Published;
use operations::Entry;

pub use protobuf::{V2_PROTOBUF_ACCEPT, V2_PROTOBUF_TYPE, v2_protobuf};

/// The version of Kubernetes whose API this is.
pub const KUBERNETES_VERSION: &str = "v1.36.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/openapi/v2`: Swagger 2.0
    V2,
    /// `/openapi/v3/...`: OpenAPI 3.0
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> Value {
        json!({ "$ref": format!("{}{name}", self.prefix()) })
    }

    fn prefix(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }
}

/// A finished document.
#[derive(Clone, Debug)]
pub struct Document {
    pub bytes: Bytes,
    /// Of the bytes, in hexadecimal: the `ETag`, and what the index puts behind `?hash=`.
    pub hash: String,
}

impl Document {
    fn new(bytes: Vec<u8>) -> Document {
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        Document { bytes: bytes.into(), hash }
    }
}

/// What one resource adds to a document: its schemas and its paths, as members of JSON objects. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fragment {
    schemas: Bytes,
    paths: Bytes,
    /// Whether it refers to `Scale`.
    scales: bool,
}

impl Fragment {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.schemas.len() + self.paths.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The fragment of a custom resource in one version, from its row and its `openAPIV3Schema` as written.
pub fn custom_fragment(dialect: Dialect, row: &ResourceType, schema: Option<&Value>) -> Fragment {
    let entries = operations::custom_entries(row);
    Fragment {
        schemas: members(&custom::schemas(dialect, row, schema)),
        paths: members(&render::paths(dialect, &entries)),
        scales: entries.iter().flat_map(Entry::definitions).any(|name| name == operations::SCALE),
    }
}

/// `/openapi/v3/apis/GROUP/VERSION` of custom resources: all fragments of that version (made for [`Dialect::V3`]).
pub fn v3_document<'a>(
    version: &GroupVersion,
    fragments: impl IntoIterator<Item = &'a Fragment>,
) -> Document {
    let (mut schemas, mut paths, mut scales) = (Vec::new(), Vec::new(), false);
    for fragment in fragments {
        schemas.push(fragment.schemas.clone());
        paths.push(fragment.paths.clone());
        scales |= fragment.scales;
    }
    schemas.push(shared_schemas(scales));
    paths.push(members(&render::paths(Dialect::V3, &[operations::resource_list_entry(version)])));
    v3_joined(&schemas, &paths)
}

/// The published definitions that custom resources refer to.
fn shared_schemas(scales: bool) -> Bytes {
    static SHARED: LazyLock<(Bytes, Bytes)> = LazyLock::new(|| {
        let published = Published::read();
        let meta = ["APIResourceList", "DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status"];
        let meta = meta.map(|name| format!("{}.{name}", definitions::META));
        let reached = |scale: Option<&'static str>| {
            let names = meta.iter().map(String::as_str).chain(scale).collect();
            members(&published.in_dialect(Dialect::V3, names))
        };
        (reached(None), reached(Some(operations::SCALE)))
    });
    if scales { SHARED.1.clone() } else { SHARED.0.clone() }
}

/// The documents of the built-in groups by their path below `/openapi/v3/`, such as `apis/apps/v1`.
pub fn v3_builtin() -> &'static BTreeMap<String, Document> {
    static DOCUMENTS: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
        let published = Published::read();
        let document = |(path, entries): (String, Vec<Entry>)| {
            let uses = entries.iter().flat_map(Entry::definitions).collect();
            let schemas = members(&published.in_dialect(Dialect::V3, uses));
            (path, v3_joined(&[schemas], &[members(&render::paths(Dialect::V3, &entries))]))
        };
        builtin_entries(&published).into_iter().map(document).collect()
    });
    &DOCUMENTS
}

/// Where the document of a version is, below `/openapi/v3/`.
pub fn v3_path(version: &GroupVersion) -> String {
    operations::base_path(version).trim_start_matches('/').to_owned()
}

/// `/openapi/v3`: where the documents are. Clients take the URLs as they are, so they must carry the prefix
/// under which a tenant is reached (empty, or `/control-planes/NAME`).
pub fn v3_index<'a>(prefix: &str, documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let entry = |(path, hash): (&str, &str)| {
        let url = format!("{prefix}/openapi/v3/{path}?hash={hash}");
        (path.to_owned(), json!({ "serverRelativeURL": url }))
    };
    let paths: Map<String, Value> = documents.into_iter().map(entry).collect();
    json!({ "paths": paths })
}

/// `/openapi/v2`: the built-in kinds, and the fragments of custom resources (made for [`Dialect::V2`]).
pub fn v2_document<'a>(custom: impl IntoIterator<Item = &'a Fragment>) -> Document {
    static BUILTIN: LazyLock<Fragment> = LazyLock::new(|| {
        let published = Published::read();
        let entries: Vec<Entry> = builtin_entries(&published).into_values().flatten().collect();
        let uses = entries.iter().flat_map(Entry::definitions).collect();
        Fragment {
            schemas: members(&published.in_dialect(Dialect::V2, uses)),
            paths: members(&render::paths(Dialect::V2, &entries)),
            scales: true,
        }
    });
    let (mut schemas, mut paths) = (vec![BUILTIN.schemas.clone()], vec![BUILTIN.paths.clone()]);
    for fragment in custom {
        schemas.push(fragment.schemas.clone());
        paths.push(fragment.paths.clone());
    }
    let head = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "securityDefinitions": {"BearerToken": render::bearer_token()},
        "security": [{"BearerToken": []}],
    });
    let mut out = head.to_string().into_bytes();
    out.pop();
    out.extend(b",\"definitions\":{");
    join(&mut out, &schemas);
    out.extend(b"},\"paths\":{");
    join(&mut out, &paths);
    out.extend(b"}}");
    Document::new(out)
}

fn v3_joined(schemas: &[Bytes], paths: &[Bytes]) -> Document {
    let info = json!({"title": "Kubernetes", "version": KUBERNETES_VERSION});
    let security = json!({"BearerToken": render::bearer_token()});
    let mut out = format!("{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{{").into_bytes();
    join(&mut out, paths);
    out.extend(b"},\"components\":{\"schemas\":{");
    join(&mut out, schemas);
    out.extend(format!("}},\"securitySchemes\":{security}}}}}").into_bytes());
    Document::new(out)
}

/// The entries of the built-in surface by the document they belong to.
fn builtin_entries(published: &Published) -> BTreeMap<String, Vec<Entry>> {
    let mut documents: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for row in types() {
        let version = row.group_version();
        let document = documents
            .entry(v3_path(&version))
            .or_insert_with(|| vec![operations::resource_list_entry(&version)]);
        document.extend(operations::builtin_entries(row, |kind| published.name_of(kind)));
        if !row.group.is_empty() {
            let group = documents.entry(format!("apis/{}", row.group)).or_default();
            if group.is_empty() {
                group.push(operations::group_entry(&row.group));
            }
        }
    }
    for (path, entry) in operations::root_entries() {
        documents.insert(path.to_owned(), vec![entry]);
    }
    documents
}

/// The members of a JSON object, without its braces.
fn members(map: &Map<String, Value>) -> Bytes {
    let mut text = serde_json::to_vec(map).unwrap_or_default();
    text.pop();
    Bytes::from(text).slice(1..)
}

fn join(out: &mut Vec<u8>, parts: &[Bytes]) {
    for (i, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
