//! What can be done with a whole control plane, because it is a range of the store: copied, compared, taken out, put back.
//!
//! A copy is made by creating a `ControlPlane` with `spec.source`; the rest is reached by the paths of
//! [`crate::Endpoints`].

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::codec::Codec;
use apiserver::control_plane::{Charter, ControlPlane};
use apiserver::service::Failure;
use apiserver::{Beginning, Engine, backup};
use futures::StreamExt;
use objects::{CompactString, Status, Value};
use serde::Serialize;
use store::export::Decoder;
use store::{Entry, Export, Revision, Scope};

/// The control plane of this name, or 404.
pub async fn find(engine: &Engine, name: &str) -> Result<Arc<ControlPlane>, Failure> {
    engine.planes.find(name).await?.ok_or_else(|| no_such(name).into())
}

pub fn no_such(name: &str) -> Status {
    Status::new(objects::Reason::NotFound, format!("there is no control plane {name:?}"))
}

/// What a control plane takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub name: CompactString,
    pub objects: u64,
    pub bytes: u64,
    pub revision: u64,
    /// Those that came in since the answering process took it up.
    pub requests: u64,
    /// Those that are being worked on, or wait for it.
    pub requests_in_flight: u32,
    pub watches: u32,
}

pub async fn usage(engine: &Engine, name: &str) -> Result<Usage, Failure> {
    let plane = find(engine, name).await?;
    let (requests_in_flight, watches) = engine.fairness.open(plane.id);
    let revision = engine.store.revision(plane.id).await?.0;
    let (objects, bytes) =
        (engine.store.count(plane.id, &Scope::All).await?, engine.store.size(plane.id).await?);
    let (name, requests) = (plane.name.clone(), plane.asked());
    Ok(Usage { name, objects, bytes, revision, requests, requests_in_flight, watches })
}

/// An object that is not the same in two control planes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Such as `deployments.apps`.
    pub resource: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub namespace: CompactString,
    pub name: CompactString,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum What {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it; these members differ, as JSON pointers.
    Changed { paths: Vec<String> },
}

/// What the second control plane has other than the first, in the order of keys, by backups of both.
pub async fn diff(one: Export, other: Export) -> Result<Vec<Difference>, Failure> {
    let (mut left, mut right) = (Walk::new(one), Walk::new(other));
    let mut found = Vec::new();
    loop {
        let what = match (left.peek().await?, right.peek().await?) {
            (None, None) => return Ok(found),
            (Some(a), Some(b)) if a.key == b.key => {
                let paths = changed(&content(a)?, &content(b)?);
                let key = a.key.clone();
                left.skip();
                right.skip();
                (!paths.is_empty()).then_some((key, What::Changed { paths }))
            }
            (Some(a), b) if b.is_none_or(|b| a.key < b.key) => {
                let key = a.key.clone();
                left.skip();
                Some((key, What::Removed))
            }
            (_, Some(b)) => {
                let key = b.key.clone();
                right.skip();
                Some((key, What::Added))
            }
            // The arm above takes every other case with something on the left.
            (Some(_), None) => None,
        };
        if let Some((key, what)) = what {
            found.push(Difference { resource: key.kind, namespace: key.namespace, name: key.name, what });
        }
    }
}

/// The objects of a backup, as it comes.
struct Walk {
    backup: Export,
    decoder: Decoder,
    next: Option<Entry>,
    ended: bool,
}

impl Walk {
    fn new(backup: Export) -> Self {
        Walk { backup, decoder: Decoder::new(), next: None, ended: false }
    }

    async fn peek(&mut self) -> Result<Option<&Entry>, Failure> {
        while self.next.is_none() && !self.ended {
            if let Some(entry) = self.decoder.next_entry()? {
                // What is the server's own is no object.
                self.next = Some(entry).filter(|entry| !entry.key.kind.starts_with('_'));
            } else if let Some(chunk) = self.backup.next().await.transpose()? {
                self.decoder.push(&chunk);
            } else {
                // One that breaks off would pass for one in which the rest is missing.
                std::mem::take(&mut self.decoder).finish()?;
                self.ended = true;
            }
        }
        Ok(self.next.as_ref())
    }

    fn skip(&mut self) {
        self.next = None;
    }
}

/// Of the metadata, what the server gives to every object anew.
const INCIDENTAL: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];

fn content(entry: &Entry) -> Result<Value, Failure> {
    let stored = Codec::decode_open(&entry.key, &entry.value, entry.modified).map_err(Status::internal)?;
    let mut object = stored.to_value().map_err(Status::internal)?;
    if let Some(metadata) = objects::meta::metadata_mut(&mut object) {
        metadata.retain(|field, _| !INCIDENTAL.contains(&field.as_str()));
    }
    Ok(object)
}

/// Where two values differ: the innermost members of maps, lists as a whole.
fn changed(one: &Value, other: &Value) -> Vec<String> {
    fn walk(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let names: BTreeMap<&String, ()> =
                    one.keys().chain(other.keys()).map(|name| (name, ())).collect();
                for name in names.keys() {
                    let below = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let (one, other) = (one.get(*name), other.get(*name));
                    walk(one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null), &below, found);
                }
            }
            (one, other) if one != other => found.push(path.to_owned()),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(one, other, "", &mut found);
    found
}

/// Everything in a control plane, now or as it was, as bytes to keep elsewhere. Secrets are in it as they are, readable
/// by whoever has it; the control plane's own keys are not: what is restored is another control plane.
pub async fn backup(engine: &Arc<Engine>, name: &str, at: Option<Revision>) -> Result<Export, Failure> {
    let plane = find(engine, name).await?;
    let export = engine.store.export_tenant(plane.id, at).await?;
    Ok(backup::opened(export, plane.codec.clone()))
}

/// A new control plane from a backup.
pub async fn restore(
    engine: &Arc<Engine>,
    name: &str,
    charter: Charter,
    backup: Export,
) -> Result<Arc<ControlPlane>, Failure> {
    engine.establish(name, charter, Beginning::Export(backup)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_their_places() {
        let check = |one: Value, other: Value, expected: &[&str]| assert_eq!(changed(&one, &other), expected);
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(
            json!({"a": 1, "b": {"c": 1, "d": 2}}),
            json!({"a": 1, "b": {"c": 2, "e": 3}}),
            &["/b/c", "/b/d", "/b/e"],
        );
        check(json!({"a": [1]}), json!({"a": [1, 2]}), &["/a"]);
        check(json!({"x/y~": 1}), json!({}), &["/x~1y~0"]);
    }
}
