//! Lists, written item by item: what is held is one item as a value, and what has been written and not been sent.

use bytes::{BufMut, BytesMut};
use http::HeaderValue;
use objects::Value;
use serde_json::{Map, json};
use wire::negotiate::{Format, Shape};
use wire::protobuf::{self, Kind};
use wire::table::{IncludeObject, Row};

use super::{Columns, PROTOBUF, YAML, partial, unencodable};
use crate::body;
use crate::call::Call;
use crate::codec::Stored;
use crate::read;
use crate::service::Failure;

/// The metadata of a list.
pub type Metadata = Map<String, Value>;

/// Writes a list in the representation that the client accepts: the head, the items, the tail.
pub struct ListWriter {
    shape: Items,
    format: Encoding,
    kind: String,
    api_version: String,
    /// Whether an item has been written.
    begun: bool,
}

enum Items {
    Objects,
    Metadata,
    Rows { columns: Columns, include: IncludeObject },
}

enum Encoding {
    Json,
    Yaml,
    Protobuf(protobuf::List),
}

impl ListWriter {
    pub fn new(call: &Call) -> Result<Self, Failure> {
        let meta_version = || format!("meta.k8s.io/{}", call.accepted.version);
        let (shape, kind, api_version) = match call.accepted.shape {
            Shape::Table => {
                let include = IncludeObject::parse(call.head.query.text("includeObject"))?;
                (Items::Rows { columns: Columns::of(call), include }, "Table".into(), meta_version())
            }
            Shape::PartialMetadata | Shape::PartialMetadataList => {
                (Items::Metadata, "PartialObjectMetadataList".into(), meta_version())
            }
            Shape::Object | Shape::Discovery => {
                (Items::Objects, call.row.ty.list_kind.to_string(), call.row.api_version.to_string())
            }
        };
        let format = match call.accepted.format {
            Format::Json => Encoding::Json,
            Format::Yaml => Encoding::Yaml,
            Format::Protobuf => {
                let kind = Kind { api_version: &api_version, kind: &kind };
                Encoding::Protobuf(protobuf::List::new(kind).map_err(unencodable)?)
            }
        };
        Ok(ListWriter { shape, format, kind, api_version, begun: false })
    }

    /// Whether the head tells the length of the items: they have to be written, or counted, before it.
    pub fn begins_with_length(&self) -> bool {
        matches!(self.format, Encoding::Protobuf(_))
    }

    pub fn content_type(&self) -> HeaderValue {
        match self.format {
            Encoding::Json => body::JSON,
            Encoding::Yaml => YAML,
            Encoding::Protobuf(_) => PROTOBUF,
        }
    }

    /// What stands before the items. The metadata stand there if they are known by then, else after the items; `length`
    /// is that of all items, where the head [tells it](Self::begins_with_length).
    pub fn head(&self, metadata: Option<&Metadata>, length: usize) -> Result<Vec<u8>, Failure> {
        match &self.format {
            Encoding::Protobuf(list) => {
                list.head(metadata.unwrap_or(&Map::new()), length).map_err(unencodable)
            }
            Encoding::Json => {
                let mut out = br#"{"kind":"#.to_vec();
                json_into(&mut out, &self.kind);
                out.extend_from_slice(br#","apiVersion":"#);
                json_into(&mut out, &self.api_version);
                if let Some(metadata) = metadata {
                    out.extend_from_slice(br#","metadata":"#);
                    json_into(&mut out, metadata);
                }
                if let Items::Rows { columns, .. } = &self.shape {
                    out.extend_from_slice(br#","columnDefinitions":"#);
                    json_into(&mut out, &columns.heads());
                }
                out.extend_from_slice(format!(r#","{}":["#, self.items_member()).as_bytes());
                Ok(out)
            }
            Encoding::Yaml => {
                let mut head = json!({"kind": self.kind, "apiVersion": self.api_version});
                if let Some(metadata) = metadata {
                    head["metadata"] = Value::Object(metadata.clone());
                }
                if let Items::Rows { columns, .. } = &self.shape {
                    head["columnDefinitions"] = json!(columns.heads());
                }
                Ok(wire::yaml::encode(&head).into_bytes())
            }
        }
    }

    /// What stands after the items, with the metadata if the head has been written without.
    pub fn tail(&self, metadata: Option<&Metadata>) -> Vec<u8> {
        match &self.format {
            Encoding::Protobuf(_) => protobuf::ENVELOPE_END.to_vec(),
            Encoding::Json => {
                let mut out = b"]".to_vec();
                if let Some(metadata) = metadata {
                    out.extend_from_slice(br#","metadata":"#);
                    json_into(&mut out, metadata);
                }
                out.push(b'}');
                out
            }
            Encoding::Yaml => {
                let mut out = String::new();
                if !self.begun {
                    out.push_str(self.items_member());
                    out.push_str(": []\n");
                }
                if let Some(metadata) = metadata {
                    out.push_str(&wire::yaml::encode(&json!({ "metadata": metadata })));
                }
                out.into_bytes()
            }
        }
    }

    fn items_member(&self) -> &'static str {
        match self.shape {
            Items::Rows { .. } => "rows",
            Items::Objects | Items::Metadata => "items",
        }
    }

    /// Appends items. Those that have to be converted are converted together.
    pub async fn items(
        &mut self,
        call: &Call,
        objects: &[(store::Key, Stored)],
        out: &mut BytesMut,
    ) -> Result<(), Failure> {
        let objects = objects.iter().map(|(_, stored)| stored);
        let outdated = objects.clone().filter(|stored| !read::is_current(&call.row, stored));
        let mut converted = read::all_in_version(call, &call.row, outdated).await?.into_iter();
        let mut scratch = Vec::new();
        for stored in objects {
            if read::is_current(&call.row, stored) {
                if matches!((&self.format, &self.shape), (Encoding::Json, Items::Objects)) {
                    self.separate(out);
                    stored.write_to(out);
                    continue;
                }
                self.item(call, &stored.to_value().map_err(read::unreadable)?, &mut scratch, out)?;
            } else {
                self.item(call, &converted.next().unwrap_or_default(), &mut scratch, out)?;
            }
        }
        Ok(())
    }

    /// Between items, and before the first.
    fn separate(&mut self, out: &mut BytesMut) {
        let first = !std::mem::replace(&mut self.begun, true);
        match (&self.format, first) {
            (Encoding::Json, false) => out.put_u8(b','),
            (Encoding::Yaml, true) => {
                out.put_slice(self.items_member().as_bytes());
                out.put_slice(b":\n");
            }
            _ => {}
        }
    }

    fn item(
        &mut self,
        call: &Call,
        object: &Value,
        scratch: &mut Vec<u8>,
        out: &mut BytesMut,
    ) -> Result<(), Failure> {
        self.separate(out);
        let shown = match &self.shape {
            Items::Objects => None,
            Items::Metadata => Some(partial(&call.accepted, object)),
            Items::Rows { columns, include } => {
                let version = call.accepted.version;
                Some(json!(Row::new(columns.cells(object, call.now), object, *include, version)))
            }
        };
        let shown = shown.as_ref().unwrap_or(object);
        scratch.clear();
        match &self.format {
            Encoding::Json => json_into(scratch, shown),
            Encoding::Protobuf(list) => list.item(shown, scratch).map_err(unencodable)?,
            Encoding::Yaml => {
                // Written as the member it stands in, without the line that names it.
                let item = wire::yaml::encode(&json!({ "items": [shown] }));
                scratch.extend_from_slice(item.split_once('\n').map_or("", |(_, item)| item).as_bytes());
            }
        }
        out.put_slice(scratch);
        Ok(())
    }
}

fn json_into(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    // What is written here always serializes, and a vector always takes it.
    let _ = serde_json::to_writer(out, value);
}
