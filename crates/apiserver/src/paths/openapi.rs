//! OpenAPI: the built-in documents are made once for all; those of custom resources are put together when somebody
//! asks, and kept by what they are made of, so that control planes that serve the same share them.

use std::collections::BTreeMap;
use std::sync::Arc;

use builtins::openapi::{self, Dialect, Document, Fragment, V2_PROTOBUF_ACCEPT, V2_PROTOBUF_TYPE};
use http::{HeaderValue, Response, StatusCode, header};
use objects::GroupVersion;
use quick_cache::sync::Cache;

use crate::body::{self, Body};
use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::{Engine, no_control_plane};
use crate::service::Answer;
use crate::surface::Surface;

/// Surfaces whose documents are kept. A version 2 document is some megabytes.
const KEPT: usize = 8;

/// Documents by the hash of the surface they describe.
pub struct Documents {
    v2: Cache<[u8; 32], Document>,
    v3: Cache<[u8; 32], Arc<BTreeMap<String, Document>>>,
}

impl Default for Documents {
    fn default() -> Self {
        Documents { v2: Cache::new(KEPT), v3: Cache::new(KEPT * 8) }
    }
}

pub async fn answer(engine: &Engine, plane: &ControlPlane, head: &Head, parts: &[&str]) -> Answer {
    let surface = engine.planes.surface(plane).await?;
    match parts {
        ["v2"] => {
            let document = v2(engine, &surface);
            // kubectl still asks by the old name, whose `@` no parser of media types takes back.
            let names = [V2_PROTOBUF_ACCEPT, V2_PROTOBUF_TYPE];
            let protobuf = |accept: &str| names.iter().any(|name| accept.contains(name));
            if head.header(header::ACCEPT).is_some_and(protobuf) {
                let bytes = openapi::v2_protobuf(&document);
                return Ok(sent(head, bytes, &format!("{}P", document.hash), V2_PROTOBUF_TYPE));
            }
            Ok(sent(head, document.bytes, &document.hash, "application/json"))
        }
        ["v3"] => {
            let custom = v3_custom(engine, &surface);
            let documents = openapi::v3_builtin().iter().chain(custom.iter());
            let documents = documents.map(|(path, document)| (path.as_str(), document.hash.as_str()));
            Ok(body::json(200, &openapi::v3_index(&head.door.prefix, documents)))
        }
        ["v3", rest @ ..] => {
            let path = rest.join("/");
            let custom = v3_custom(engine, &surface);
            let document = openapi::v3_builtin().get(&path).or_else(|| custom.get(&path));
            let document = document.ok_or_else(no_control_plane)?;
            let mut response = sent(head, document.bytes.clone(), &document.hash, "application/json");
            if head.query.text("hash") == document.hash {
                // Whoever asks by the hash will always get the same.
                let forever = HeaderValue::from_static("public, immutable");
                response.headers_mut().insert(header::CACHE_CONTROL, forever);
            }
            Ok(response)
        }
        _ => Err(no_control_plane().into()),
    }
}

fn v2(engine: &Engine, surface: &Surface) -> Document {
    if let Some(document) = engine.documents.v2.get(&surface.hash) {
        return document;
    }
    let document = openapi::v2_document(&fragments(surface, Dialect::V2, |_| true));
    engine.documents.v2.insert(surface.hash, document.clone());
    document
}

fn v3_custom(engine: &Engine, surface: &Surface) -> Arc<BTreeMap<String, Document>> {
    if let Some(documents) = engine.documents.v3.get(&surface.hash) {
        return documents;
    }
    let mut versions: Vec<GroupVersion> = surface.custom_rows().map(|row| row.ty.group_version()).collect();
    versions.sort_unstable();
    versions.dedup();
    let document = |version: GroupVersion| {
        let fragments = fragments(surface, Dialect::V3, |row| *row == version);
        (openapi::v3_path(&version), openapi::v3_document(&version, &fragments))
    };
    let documents: Arc<BTreeMap<_, _>> = Arc::new(versions.into_iter().map(document).collect());
    engine.documents.v3.insert(surface.hash, documents.clone());
    documents
}

fn fragments(surface: &Surface, dialect: Dialect, wanted: impl Fn(&GroupVersion) -> bool) -> Vec<Fragment> {
    let mut rows: Vec<_> = surface.custom_rows().filter(|row| wanted(&row.ty.group_version())).collect();
    rows.sort_unstable_by(|a, b| (&a.api_version, &a.ty.plural).cmp(&(&b.api_version, &b.ty.plural)));
    let custom = rows.iter().filter_map(|row| Some((row, row.custom()?)));
    custom
        .map(|(row, custom)| openapi::custom_fragment(dialect, &row.ty, Some(&*custom.schema.source())))
        .collect()
}

fn sent(head: &Head, bytes: bytes::Bytes, hash: &str, content_type: &'static str) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let known =
        head.header(header::IF_NONE_MATCH).is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == etag));
    let mut response = body::response(200, HeaderValue::from_static(content_type), bytes);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = body::full(bytes::Bytes::new());
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}
