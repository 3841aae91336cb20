//! The schemas of the built-in kinds: one arena, made at first use from the committed definitions.
//!
//! The definitions are structure alone (`cargo xtask generate builtins` writes them): the shape that the
//! published OpenAPI v2 document gives them, one definition per line.

use std::sync::LazyLock;

use objects::GroupVersionKind;
use schemas::{Cursor, Definitions};
use serde_json::{Map, Value};

const LINES: &str = include_str!("../data/definitions.jsonl");

/// Kinds that are read under the version of any group: `kind: DeleteOptions, apiVersion: apps/v1`.
const IN_EVERY_GROUP: &[&str] = &["DeleteOptions", "WatchEvent"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schema of a built-in kind, of its list, or of a body that is never stored (`Scale`, `Eviction`,
/// `TokenRequest`, `DeleteOptions`, the reviews).
pub fn cursor(kind: &GroupVersionKind) -> Option<Cursor<'static>> {
    if IN_EVERY_GROUP.contains(&kind.kind.as_str()) {
        return definitions().root(&format!("{META}.{}", kind.kind));
    }
    definitions().kind(kind)
}

/// All definitions, by name and by kind.
pub fn definitions() -> &'static Definitions {
    static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
        Definitions::parse(lines()).expect("the committed definitions refer to one another and nothing else")
    });
    &DEFINITIONS
}

/// The definitions as JSON, parsed anew: they are needed only while a document is put together.
pub(crate) fn lines() -> impl Iterator<Item = (String, Value)> {
    let parse = |line| serde_json::from_str::<Map<String, Value>>(line).expect("each line is a definition");
    LINES.lines().flat_map(parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn every_row_has_a_definition() {
        for row in types() {
            let cursor = cursor(&row.gvk()).unwrap_or_else(|| panic!("no definition of {}", row.gvk()));
            assert!(cursor.field("metadata").is_some(), "{}", row.gvk());
            let list = row.group_version().with_kind(row.list_kind.clone());
            let is_listed = row.verbs.has(objects::Verb::List);
            assert_eq!(is_listed, self::cursor(&list).is_some(), "{list}");
        }
    }

    #[test]
    fn what_has_a_status_serves_it() {
        for row in types().iter().filter(|row| row.verbs.has(objects::Verb::Update)) {
            let has_status = cursor(&row.gvk()).unwrap().property("status").is_some();
            assert_eq!(has_status, row.subresource("status").is_some(), "{}", row.gvk());
        }
    }

    #[test]
    fn bodies_that_are_never_stored_have_definitions() {
        for (group, kind) in [
            ("autoscaling", "Scale"),
            ("policy", "Eviction"),
            ("authentication.k8s.io", "TokenRequest"),
            ("", "Status"),
            ("", "DeleteOptions"),
            ("apps", "DeleteOptions"),
            ("meta.k8s.io", "DeleteOptions"),
        ] {
            assert!(cursor(&GroupVersionKind::new(group, "v1", kind)).is_some(), "{group} {kind}");
        }
        assert!(cursor(&GroupVersionKind::new("example.com", "v1", "CronTab")).is_none());
    }

    #[test]
    fn definitions_are_structure_only_and_sorted() {
        let all: Vec<(String, Value)> = lines().collect();
        assert!(all.is_sorted_by(|(a, _), (b, _)| a < b));
        for (name, schema) in &all {
            let typed = schema.get("type").is_none_or(Value::is_string);
            assert!(typed && schema.get("description").is_none(), "{name}");
        }
    }

    #[test]
    fn merge_keys_and_defaults_of_keys() {
        let pod = cursor(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        let containers = pod.field("spec").unwrap().field("containers").unwrap();
        assert_eq!(containers.node().patch_merge_key.as_deref(), Some("name"));
        let ports = containers.items().unwrap().field("ports").unwrap();
        let keys = vec!["containerPort".into(), "protocol".into()];
        assert_eq!(ports.node().list_type, schemas::ListType::Map(keys));
        let protocol = ports.items().unwrap().field("protocol").unwrap();
        assert_eq!(protocol.node().default, Some("TCP".into()));
    }
}
