//! Owner references, and what became of those they name.

use objects::{GroupVersion, Value, meta};
use runtime::{Error, Key};

use super::{FOREGROUND, ORPHAN, Scene};
use crate::resource::Propagation;

/// One entry of `ownerReferences`.
pub(super) struct Owner<'a> {
    pub reference: &'a Value,
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl<'a> Owner<'a> {
    pub fn all(object: &'a Value) -> Vec<Owner<'a>> {
        meta::owner_references(object).iter().map(Owner::of).collect()
    }

    pub fn of(reference: &'a Value) -> Owner<'a> {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        Owner {
            reference,
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        }
    }
}

/// What an owner is to its dependant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There, and staying (or at least not waiting for its dependants to go).
    Solid,
    /// Being deleted, and waiting for its dependants to be gone first.
    Waiting,
    /// Not there; or there under the name, but another.
    Absent,
    /// A thing of a namespace cannot own a thing of none: nobody can say whether it is there.
    Unresolvable,
    /// Of a kind that the control plane does not have. It may come yet: as upstream, nothing is deleted for it.
    Unknown,
}

/// Whether a reference holds its owner back from being gone.
pub(super) fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false)
}

/// The same reference, holding nobody back.
pub(super) fn unblocking(reference: &Value) -> Value {
    let mut reference = reference.clone();
    reference["blockOwnerDeletion"] = Value::Bool(false);
    reference
}

/// How the object itself wants its dependants treated, said by a finalizer.
pub(super) fn wish(object: &Value) -> Option<Propagation> {
    let has = |finalizer: &str| meta::finalizers(object).any(|one| one == finalizer);
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Some(Propagation::Orphan),
        (false, true) => Some(Propagation::Foreground),
        (false, false) => None,
    }
}

/// Whether an object waits in the foreground for its dependants.
pub(super) fn is_waiting(object: &Value) -> bool {
    meta::is_deleting(object) && meta::finalizers(object).any(|one| one == FOREGROUND)
}

impl Scene<'_> {
    /// Where an owner of this kind and name is, seen from a namespace (or, empty, from none).
    pub(super) fn owner_key(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Option<(Key, bool)> {
        let version = GroupVersion::parse(api_version)?;
        let row = self.surface.row_of_kind(&version.with_kind(kind))?;
        let namespaced = row.ty.is_namespaced();
        Some((row.key(if namespaced { namespace } else { "" }, name), namespaced))
    }

    pub(super) async fn standing(
        &self,
        owner: &Owner<'_>,
        key: &Key,
        object: &Value,
    ) -> Result<Standing, Error> {
        let Some((at, namespaced)) =
            self.owner_key(owner.api_version, owner.kind, owner.name, &key.namespace)
        else {
            return Ok(Standing::Unknown);
        };
        if namespaced && key.namespace.is_empty() {
            self.report_invalid(owner, key, object).await;
            return Ok(Standing::Unresolvable);
        }
        match self.get(&at).await? {
            Some(found) if meta::uid(&found) == owner.uid => {
                Ok(if is_waiting(&found) { Standing::Waiting } else { Standing::Solid })
            }
            _ => {
                if namespaced && self.is_elsewhere(owner, &at).await? {
                    self.report_invalid(owner, key, object).await;
                }
                Ok(Standing::Absent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wishes() {
        let object = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        assert_eq!(wish(&object(json!([]))), None);
        assert_eq!(wish(&object(json!(["x", "orphan"]))), Some(Propagation::Orphan));
        assert_eq!(wish(&object(json!(["foregroundDeletion"]))), Some(Propagation::Foreground));
    }

    #[test]
    fn blocking() {
        let reference = json!({"uid": "u", "blockOwnerDeletion": true});
        assert!(blocks(&reference));
        assert!(!blocks(&unblocking(&reference)));
        assert!(!blocks(&json!({"uid": "u"})));
    }
}
