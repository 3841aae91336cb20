//! Objects of another API server's store as entries of a control plane: as they are, in the form that backups have.
//!
//! Their uids, times, owners and revisions stay. What a server keeps beside objects is made for them: the index of
//! owners, and who has which address and port. What only the other server had a use for is left out and told of.

use std::collections::BTreeMap;

use bytes::Bytes;
use objects::{GroupVersion, Value, meta};
use store::{Entry, Key, Operation, Revision};

use crate::admit::services;
use crate::codec::{Codec, CodecError, SchemaTag};
use crate::control_plane::CRD_KIND;
use crate::owners;
use crate::surface::{Row, Surface};

/// An object as the other server stored it.
pub struct Foreign {
    pub object: Value,
    pub created: Revision,
    pub modified: Revision,
}

/// What objects of another server come to.
#[derive(Default)]
pub struct Brought {
    /// In the order of their keys.
    pub entries: Vec<Entry>,
    pub objects: usize,
    /// What was left out, and how much of it: `Lease (coordination.k8s.io/v1)`.
    pub left_out: BTreeMap<String, usize>,
    pub not_served: BTreeMap<String, usize>,
}

/// Kinds that say how things stood with the other server, and nothing of what is wanted.
const PASSING: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];
/// Where the other server was found.
const ENDPOINTS: [&str; 2] = ["endpoints", "endpointslices.discovery.k8s.io"];
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// `authority` is the PEM by which this server is trusted.
pub fn bring(all: Vec<Foreign>, authority: &str) -> Result<Brought, CodecError> {
    let is_definition = |one: &&Foreign| {
        meta::kind(&one.object) == "CustomResourceDefinition"
            && meta::api_version(&one.object) == "apiextensions.k8s.io/v1"
    };
    let definitions = all.iter().filter(is_definition).map(|one| one.object.clone());
    let surface = Surface::new(definitions, Default::default());
    let mut entries: BTreeMap<Key, Entry> = BTreeMap::new();
    let mut beside: Vec<Entry> = Vec::new();
    let mut brought = Brought::default();
    for Foreign { mut object, created, modified } in all {
        let gv = GroupVersion::parse(meta::api_version(&object)).unwrap_or_default();
        let name = format!("{} ({})", meta::kind(&object), meta::api_version(&object));
        let Some(row) = surface.row_of_kind(&gv.with_kind(meta::kind(&object))) else {
            *brought.not_served.entry(name).or_default() += 1;
            continue;
        };
        if is_passing(row, &object) {
            *brought.left_out.entry(name).or_default() += 1;
            continue;
        }
        if row.storage_kind == "configmaps" && meta::name(&object) == ROOT_CERTIFICATE {
            object["data"] = serde_json::json!({"ca.crt": authority});
        }
        let Some(object) = as_stored(row, object) else {
            *brought.not_served.entry(name).or_default() += 1;
            continue;
        };
        let tag = if row.is_custom() { SchemaTag::UNKNOWN } else { SchemaTag::default() };
        let key = row.key(meta::namespace(&object), meta::name(&object));
        let entry = |key: Key, value: Bytes| Entry { key, created, modified, value };
        let mut index = Vec::new();
        owners::index(&key, None, Some(&object), &mut index);
        for operation in index {
            if let Operation::Put { key, value, .. } = operation {
                beside.push(entry(key, value));
            }
        }
        if key.kind == "services" {
            beside.extend(services::rows_of(&object)?.into_iter().map(|(key, value)| entry(key, value)));
        }
        let value = Codec::open(&object, tag)?;
        entries.insert(key.clone(), entry(key, value));
        brought.objects += 1;
    }
    for entry in beside {
        // The other server may have had an object for it as well.
        entries.entry(entry.key.clone()).or_insert(entry);
    }
    brought.entries = entries.into_values().collect();
    Ok(brought)
}

fn is_passing(row: &Row, object: &Value) -> bool {
    let kind = row.storage_kind.as_str();
    let of_the_server = meta::namespace(object) == "default" && meta::name(object) == "kubernetes";
    PASSING.contains(&kind) || (ENDPOINTS.contains(&kind) && of_the_server)
}

/// In the version that is stored here, with the defaults that readers expect. Definitions are kept as they are, for
/// they say of themselves what they were made to serve.
fn as_stored(row: &Row, mut object: Value) -> Option<Value> {
    if row.is_custom() {
        return Some(object);
    }
    if row.api_version != row.storage_api_version {
        let gv = GroupVersion::parse(&row.storage_api_version).unwrap_or_default();
        object = builtins::convert(&object, &gv.with_kind(row.ty.kind.clone()))?;
    }
    if row.storage_kind != CRD_KIND {
        row.behaviour.defaults(&mut object);
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn foreign(object: Value) -> Foreign {
        Foreign { object, created: Revision(3), modified: Revision(7) }
    }

    #[test]
    fn objects_come_with_what_is_kept_beside_them() {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u1"});
        let brought = bring(
            vec![
                foreign(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
                    {"name": "b", "namespace": "ns", "uid": "u2", "ownerReferences": [owner]}})),
                foreign(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
                    {"name": ROOT_CERTIFICATE, "namespace": "ns"}, "data": {"ca.crt": "old"}})),
                foreign(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "ns"},
                    "spec": {"type": "NodePort", "clusterIP": "10.96.3.4", "ports": [{"port": 80, "nodePort": 30100}]}})),
                foreign(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ns"}})),
                foreign(json!({"apiVersion": "v1", "kind": "RangeAllocation", "metadata": {}})),
            ],
            "new",
        )
        .unwrap();
        let keys: Vec<String> = brought
            .entries
            .iter()
            .map(|e| format!("{} {} {}", e.key.kind, e.key.namespace, e.key.name))
            .collect();
        assert_eq!(
            keys,
            [
                "_nodeports  30100",
                "_owners u1 configmaps/ns/b",
                "configmaps ns b",
                "configmaps ns kube-root-ca.crt",
                "ipaddresses.networking.k8s.io  10.96.3.4",
                "services ns s",
            ]
        );
        assert_eq!(brought.objects, 3);
        assert_eq!(brought.left_out, BTreeMap::from([("Event (v1)".to_owned(), 1)]));
        assert_eq!(brought.not_served, BTreeMap::from([("RangeAllocation (v1)".to_owned(), 1)]));
        let map = &brought.entries[3];
        let stored = Codec::decode_open(&map.key, &map.value, map.modified).unwrap().to_value().unwrap();
        assert_eq!(
            (&stored["data"]["ca.crt"], &stored["metadata"]["resourceVersion"]),
            (&json!("new"), &json!("7"))
        );
    }

    #[test]
    fn custom_resources_come_with_their_definitions() {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "toys.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}],
                "acceptedNames": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"}},
        });
        let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "t", "namespace": "ns"}});
        let both = bring(vec![foreign(toy.clone()), foreign(definition)], "").unwrap();
        let kinds: Vec<&str> = both.entries.iter().map(|entry| entry.key.kind.as_str()).collect();
        assert_eq!(kinds, [CRD_KIND, "toys.example.com"]);
        let alone = bring(vec![foreign(toy)], "").unwrap();
        assert_eq!((alone.objects, alone.not_served["Toy (example.com/v1)"]), (0, 1));
    }
}
