//! Custom resource definitions: what writing one does to what is served.
//!
//! Names are accepted and the definition is established in the very write that makes it, so a custom resource
//! is accepted the moment its definition is seen.

use objects::{ErrorList, Status, Value, meta};
use serde_json::json;
use store::Revision;

use crate::call::Call;
use crate::control_plane::CRD_KIND;
use crate::read;
use crate::service::Failure;
use crate::surface::validate_rules;
use crate::write::Part;

/// Definitions of one control plane. Upstream has no limit, and no other tenants.
const MOST_DEFINITIONS: usize = 5_000;
/// Bytes of all of them as they are stored. What is served is made of all definitions whenever one has changed.
const MOST_BYTES: usize = 64 << 20;
/// Definitions read at once.
const PAGE: usize = 50;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_definition(call: &Call) -> bool {
    call.row.storage_kind == CRD_KIND
}

/// Completes a definition that is about to be validated and written.
pub async fn prepare(call: &Call, object: &mut Value, old: Option<&Value>) -> Result<(), Failure> {
    if !is_definition(call) {
        return Ok(());
    }
    schemas::crd::default(object);
    if !call.target.subresource.is_empty() {
        return Ok(());
    }
    let mut stored = Stored::default();
    let mut others = Vec::new();
    stored
        .each(call, |other, _| {
            if meta::name(&other) != meta::name(object) {
                others.push(names_of(&other));
            }
        })
        .await?;
    stored
        .has_room(object, old)
        .map_err(|why| Status::forbidden(&call.group_resource(), meta::name(object), why))?;
    schemas::crd::establish(object, old, &others, &call.timestamp());
    Ok(())
}

pub fn validate(call: &Call, object: &Value, old: Option<(&Value, Part)>) -> ErrorList {
    if !is_definition(call) {
        return ErrorList::new();
    }
    let mut errors = match old {
        None => schemas::crd::validate(object),
        Some((old, Part::Status)) => return schemas::crd::validate_status_update(object, old),
        Some((old, _)) if old.get("spec") == object.get("spec") => return ErrorList::new(),
        Some((old, _)) => schemas::crd::validate_update(object, old),
    };
    if errors.is_empty() {
        errors.extend(validate_rules(object));
        schemas::crd::warnings(object, old.map(|(old, _)| old))
            .into_iter()
            .for_each(|warning| call.warn(warning));
    }
    errors
}

/// A definition goes only after its objects: the finalizer has them deleted first.
pub fn before_delete(call: &Call, object: &mut Value) {
    if !is_definition(call) || meta::is_deleting(object) {
        return;
    }
    let mut finalizers: Vec<Value> = meta::finalizers(object).map(Value::from).collect();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.into());
        meta::set(object, "finalizers", Value::Array(finalizers));
    }
    schemas::crd::terminate(object, &call.timestamp());
}

/// After a definition was written: names that waited for it to go may be accepted now.
pub async fn written(call: &Call, gone: bool) -> Result<(), Failure> {
    if !is_definition(call) || !gone {
        return Ok(());
    }
    let (mut all, mut waiting) = (Vec::new(), Vec::new());
    Stored::default()
        .each(call, |definition, revision| {
            let index = all.len();
            all.push(names_of(&definition));
            let accepted = crate::surface::condition_is_true(&definition, "NamesAccepted");
            if !accepted && !meta::is_deleting(&definition) {
                waiting.push((index, definition, revision));
            }
        })
        .await?;
    for (index, waiting, revision) in waiting {
        let own = std::mem::take(&mut all[index]);
        let mut accepted = waiting.clone();
        schemas::crd::establish(&mut accepted, Some(&waiting), &all, &call.timestamp());
        all[index] = own;
        // There may be thousands.
        tokio::task::yield_now().await;
        if accepted == waiting {
            continue;
        }
        let key = call.row.key("", meta::name(&waiting));
        let value = call.plane.codec.encode(&key, &accepted, call.row.tag())?;
        let expect = store::Expect::Modified(revision);
        // Whoever changes it meanwhile establishes it by doing so.
        let _ = crate::write::commit(call, vec![store::Operation::Put { key, expect, value }]).await;
    }
    Ok(())
}

/// The definitions of a control plane, as far as they have been read.
#[derive(Default)]
struct Stored {
    count: usize,
    bytes: usize,
}

impl Stored {
    /// Reads them one after the other: they may be large, and are not held all at once.
    async fn each(&mut self, call: &Call, mut seen: impl FnMut(Value, Revision)) -> Result<(), Failure> {
        let scope = store::Scope::Kind(CRD_KIND.into());
        let mut after = None;
        loop {
            let page = call.engine.store.range(call.plane.id, &scope, after.as_ref(), None, PAGE).await?;
            for entry in &page.entries {
                let stored = call.plane.codec.decode(&entry.key, &entry.value, entry.modified)?;
                self.count += 1;
                self.bytes += entry.value.len();
                seen(stored.to_value().map_err(read::unreadable)?, entry.modified);
            }
            match page.entries.last().filter(|_| page.more) {
                Some(last) => after = Some(last.key.clone()),
                None => return Ok(()),
            }
        }
    }

    /// Whether a new definition fits, or one that grows.
    fn has_room(&self, object: &Value, old: Option<&Value>) -> Result<(), String> {
        let size = |value: &Value| value.to_string().len();
        let (more, bytes) = match old {
            None => (1, size(object)),
            Some(old) => (0, size(object).saturating_sub(size(old))),
        };
        let exceeded = |what: &str, used: usize, limit: usize| {
            Err(format!(
                "exceeded the limit of definitions of a control plane: {what} used: {used}, limited: {limit}"
            ))
        };
        if more > 0 && self.count >= MOST_DEFINITIONS {
            return exceeded("definitions", self.count, MOST_DEFINITIONS);
        }
        if bytes > 0 && self.bytes + bytes > MOST_BYTES {
            return exceeded("bytes", self.bytes, MOST_BYTES);
        }
        Ok(())
    }
}

/// What one definition has to know of another.
fn names_of(definition: &Value) -> Value {
    json!({
        "metadata": {"name": definition["metadata"]["name"]},
        "spec": {"group": definition["spec"]["group"], "names": definition["spec"]["names"]},
        "status": {"acceptedNames": definition["status"]["acceptedNames"], "conditions": definition["status"]["conditions"]},
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use store::{Expect, Key, Operation};

    use super::*;
    use crate::codec::SchemaTag;
    use crate::fixture::{Fixture, administrator};

    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    fn definition(name: &str) -> String {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{name}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": name.to_uppercase(), "plural": name},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
        .to_string()
    }

    /// Each write of a definition looks at all others, so that their number is bounded for each control plane.
    #[tokio::test]
    async fn thousands_of_definitions_are_bounded_and_nobody_elses_concern() {
        let f = Fixture::new().await;
        assert_eq!(f.ask("a", "POST", PATH, &definition("first")).await.0, 201);
        let plane = f.engine.planes.find("a").await.unwrap().unwrap();
        let key = |name: &str| Key::new(CRD_KIND, "", format!("{name}.example.com"));
        let first = f.engine.store.get(plane.id, &key("first")).await.unwrap().unwrap();
        // Made as what they are after thousands of requests.
        let first = plane.codec.decode(&key("first"), &first.value, first.modified).unwrap();
        let text = first.to_value().unwrap().to_string();
        let names: Vec<String> = (1..MOST_DEFINITIONS).map(|number| format!("things{number}")).collect();
        for names in names.chunks(500) {
            let puts = names.iter().map(|name| {
                let text = text.replace("first", name).replace("FIRST", &name.to_uppercase());
                let value = serde_json::from_str(&text).unwrap();
                let value = plane.codec.encode(&key(name), &value, SchemaTag::UNKNOWN).unwrap();
                Operation::Put { key: key(name), expect: Expect::Absent, value }
            });
            f.engine.store.write(plane.id, puts.collect()).await.unwrap();
        }
        f.engine.planes.written(&plane, CRD_KIND);
        let (code, said) = f.ask("a", "POST", PATH, &definition("last")).await;
        assert_eq!(code, 403, "{said}");
        assert!(said.contains("definitions used: 5000, limited: 5000"), "{said}");
        let apply = Request::patch(format!("{PATH}/last.example.com?fieldManager=x"));
        let apply = apply.header("content-type", "application/apply-patch+yaml");
        assert_eq!(f.send(administrator("a"), apply, definition("last")).await.status().as_u16(), 403);
        // What is there is served and can be changed, and others have their own room.
        let things = "/apis/example.com/v1/namespaces/default/things4999";
        assert_eq!(f.ask("a", "GET", things, "").await.0, 200);
        let label = Request::patch(format!("{PATH}/things1.example.com"));
        let label = label.header("content-type", "application/merge-patch+json");
        let label = f.send(administrator("a"), label, r#"{"metadata": {"labels": {"a": "b"}}}"#).await;
        assert_eq!(label.status().as_u16(), 200);
        assert_eq!(f.ask("host", "POST", PATH, &definition("last")).await.0, 201);
        assert_eq!(f.ask("host", "GET", things, "").await.0, 404);
    }

    #[test]
    fn bytes_of_definitions_are_bounded() {
        let object = |length: usize| json!({"a": "x".repeat(length)});
        let full = Stored { count: 10, bytes: MOST_BYTES };
        assert!(full.has_room(&object(1), None).is_err());
        assert!(full.has_room(&object(2), Some(&object(1))).is_err());
        assert!(full.has_room(&object(1), Some(&object(1))).is_ok(), "what does not grow can be changed");
        assert!(full.has_room(&object(1), Some(&object(2))).is_ok());
        assert!(Stored { count: 10, bytes: MOST_BYTES - 100 }.has_room(&object(1), None).is_ok());
    }
}
