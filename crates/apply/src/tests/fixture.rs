//! A type with one field for everything that apply treats differently, and objects that several managers write.

use std::sync::LazyLock;

use schemas::{Cursor, Definitions};
use serde_json::{Value, json};

use crate::*;

pub const NOW: &str = "2024-02-29T12:00:00Z";

static TYPES: LazyLock<Definitions> = LazyLock::new(|| {
    let strings = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let item =
        |value: &Value| json!({"type": "object", "properties": {"name": {"type": "string"}, "value": value}});
    let keyed = |value: &Value| {
        json!({"type": "array", "items": item(value), "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"]})
    };
    let structure = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "numeric": {"type": "integer"}, "text": {"type": "string"},
        "inner": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}}});
    let atomic = |mut schema: Value| {
        schema["x-kubernetes-map-type"] = json!("atomic");
        schema
    };
    let types = json!({
        "Thing": {"type": "object", "properties": {
            "text": {"type": "string"}, "number": {"type": "integer"}, "flag": {"type": "boolean"},
            "intOrString": {"x-kubernetes-int-or-string": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "open": {"type": "object", "properties": {"known": {"type": "string"}},
                "x-kubernetes-preserve-unknown-fields": true},
            "map": map, "atomicMap": atomic(map.clone()),
            "struct": structure, "atomicStruct": atomic(structure.clone()),
            "set": strings, "numbers": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
            "atomicList": {"type": "array", "items": {"type": "string"}},
            "list": keyed(&json!({"type": "integer"})),
            "listOfLists": keyed(&strings), "listOfMaps": keyed(&map),
            "mapOfLists": {"type": "object", "additionalProperties": strings},
            "mapOfMaps": {"type": "object", "additionalProperties": map},
            "mapOfMapsRecursive": {"$ref": "#/definitions/Recursive"},
            "legacy": {"type": "array", "items": item(&json!({"type": "integer"})),
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        }},
        "Recursive": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Recursive"}},
        "Free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "Whole": {"type": "object", "properties": {"struct": atomic(structure.clone()),
            "list": {"type": "array", "items": item(&json!({"type": "integer"}))}}},
        "ConfigMap": {"type": "object", "properties": {"data": map, "binaryData": map}},
    });
    let Value::Object(types) = types else { unreachable!() };
    Definitions::parse(types).unwrap()
});

pub fn cursor(kind: &str) -> Option<Cursor<'static>> {
    let types: &'static Definitions = &TYPES;
    types.root(kind)
}

/// The same type in `v1` to `v4`. Where names end in `_vN`, they do so in each version's way.
pub struct Same(pub &'static str);

impl Versions for Same {
    fn cursor(&self, api_version: &str) -> Option<Cursor<'_>> {
        if ["v1", "v2", "v3", "v4"].contains(&api_version) { cursor(self.0) } else { None }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let from = objects::meta::api_version(object).to_owned();
        let text = object.to_string().replace(&format!("_{from}\""), &format!("_{api_version}\""));
        let mut object: Value = serde_json::from_str(&text).ok()?;
        object["apiVersion"] = json!(api_version);
        Some(object)
    }
}

/// An object under test.
pub struct Play {
    pub live: Option<Value>,
    pub kind: &'static str,
    pub now: String,
    pub reset: FieldSet,
}

pub fn play(kind: &'static str) -> Play {
    Play { live: None, kind, now: NOW.to_owned(), reset: FieldSet::new() }
}

pub fn thing() -> Play {
    play("Thing")
}

pub fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

impl Play {
    fn write<'a>(&'a self, manager: &'a str, api_version: &'a str) -> Write<'a> {
        Write { manager, api_version, subresource: "", now: &self.now, reset: &self.reset }
    }

    fn whole(&self, version: &str, body: &str) -> Value {
        let mut object = parsed(body);
        object["apiVersion"] = json!(version);
        object["kind"] = json!(self.kind);
        object["metadata"]["name"] = json!("x");
        object
    }

    pub fn try_apply(
        &self,
        manager: &str,
        version: &str,
        body: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let config = self.whole(version, body);
        apply(self.live.as_ref(), &config, force, &self.write(manager, version), &Same(self.kind))
    }

    fn stored(mut self, mut object: Value) -> Self {
        // What the server itself writes must survive everything.
        object["metadata"]["uid"] = json!("u-1");
        object["metadata"]["generation"] = json!(1);
        self.live = Some(object);
        self
    }

    pub fn apply_at(self, version: &str, manager: &str, body: &str) -> Self {
        let applied = self.try_apply(manager, version, body, false).unwrap_or_else(|error| panic!("{error}"));
        self.stored(applied.object)
    }

    pub fn apply(self, manager: &str, body: &str) -> Self {
        self.apply_at("v1", manager, body)
    }

    pub fn force(self, manager: &str, body: &str) -> Self {
        let applied = self.try_apply(manager, "v1", body, true).unwrap();
        self.stored(applied.object)
    }

    /// The apply conflicts, and with these: `manager .path`.
    pub fn conflicts_at(self, version: &str, manager: &str, body: &str, expected: &[&str]) -> Self {
        match self.try_apply(manager, version, body, false) {
            Err(ApplyError::Conflicts(conflicts)) => {
                let shown: Vec<_> =
                    conflicts.iter().map(|c| format!("{} {}", c.owner, shown_path(&c.path))).collect();
                assert_eq!(shown, expected);
            }
            other => panic!("{other:?}"),
        }
        self
    }

    pub fn conflicts(self, manager: &str, body: &str, expected: &[&str]) -> Self {
        self.conflicts_at("v1", manager, body, expected)
    }

    pub fn update_at(self, version: &str, manager: &str, body: &str) -> Self {
        let mut object = self.whole(version, body);
        if self.live.is_some() {
            object["metadata"]["uid"] = json!("u-1");
            object["metadata"]["generation"] = json!(1);
        }
        track_update(self.live.as_ref(), &mut object, &self.write(manager, version), &Same(self.kind));
        self.stored(object)
    }

    pub fn update(self, manager: &str, body: &str) -> Self {
        self.update_at("v1", manager, body)
    }

    pub fn now(mut self, now: &str) -> Self {
        self.now = now.to_owned();
        self
    }

    pub fn reset(mut self, fields: &[&str]) -> Self {
        self.reset = FieldSet::of_fields(fields.iter().copied());
        self
    }

    pub fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    /// The object without its type and metadata.
    pub fn holds(self, expected: &str) -> Self {
        let mut object = self.live().clone();
        assert_eq!(objects::meta::name(&object), "x", "{object}");
        let fields = object.as_object_mut().unwrap();
        fields.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        assert_eq!(object, parsed(expected));
        self
    }

    /// All owners, in any order: `manager Operation version: paths`.
    pub fn owned(self, expected: &[&str]) -> Self {
        let managed = ManagedFields::of(self.live()).unwrap();
        let mut shown: Vec<String> = managed.entries.iter().map(shown_entry).collect();
        shown.sort();
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(shown, expected, "{:#}", self.live());
        self
    }
}

pub fn shown_entry(entry: &Entry) -> String {
    let mut paths: Vec<_> = entry.fields.paths().iter().map(|path| shown_path(path)).collect();
    paths.sort();
    format!("{} {} {}: {}", entry.manager, entry.operation.as_str(), entry.api_version, paths.join(" "))
}

/// The paths of a set, sorted.
pub fn shown(set: &FieldSet) -> String {
    let mut paths: Vec<_> = set.paths().iter().map(|path| shown_path(path)).collect();
    paths.sort();
    paths.join(" ")
}
