//! Schemas of fields: shapes of the model, as the rules want them seen, in the words of OpenAPI.

use serde_json::{Map, Value, json};

use super::names;
use crate::kinds::sites::{Literal, Overlay, Site, Told};
use crate::kinds::{Field, Home, Type};
use crate::model::Kind as ShapeKind;

/// Deeper than any published kind goes; a structure inside itself ends there too.
const DEEPEST: usize = 40;

/// A value that cannot be changed.
pub(crate) const IMMUTABLE_RULE: &str = "self == oldSelf";
const IMMUTABLE_MESSAGE: &str = "Value is immutable once set";

/// Makes the schemas of one service.
pub(super) struct Schemas<'a> {
    pub overlay: &'a Overlay,
}

impl Schemas<'_> {
    /// The schema of the spec, or that of the status without what all kinds have there.
    pub fn of_home(&self, fields: &[Field], home: Home) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in fields.iter().filter(|field| field.home == home) {
            let mut schema = self.of_field(field);
            if field.immutable {
                make_immutable(&mut schema);
            }
            if field.required {
                required.push(Value::from(field.name.as_str()));
            }
            properties.insert(field.name.clone(), schema);
        }
        let mut schema = object(properties);
        if !required.is_empty() {
            schema["required"] = Value::Array(required);
        }
        schema
    }

    fn of_field(&self, field: &Field) -> Value {
        let mut inside = Vec::new();
        match &field.kind {
            Type::Model(site) => self.of_site(*site, field.secret, &mut inside),
            Type::ListOf(site) => list(self.of_site(*site, field.secret, &mut inside)),
            Type::MapOf(site) => map(self.of_site(*site, field.secret, &mut inside)),
            Type::Literal(literal) => of_literal(literal, field.secret),
            Type::Reference { of_list } => reference(*of_list),
        }
    }

    fn of_site(&self, site: Site, secret: bool, inside: &mut Vec<u32>) -> Value {
        match site.shape.kind() {
            ShapeKind::Structure | ShapeKind::Union => self.of_structure(site, inside),
            ShapeKind::List => match site.shape.element() {
                Some(element) => list(self.of_site(Site::of(element.shape()), secret, inside)),
                None => list(json!({"type": "string"})),
            },
            ShapeKind::Map => match site.shape.entry() {
                Some((_, value)) => map(self.of_site(Site::of(value.shape()), secret, inside)),
                None => map(json!({"type": "string"})),
            },
            _ if secret => secret_reference(),
            ShapeKind::String => json!({"type": "string"}),
            ShapeKind::Boolean => json!({"type": "boolean"}),
            ShapeKind::Integer | ShapeKind::Long => json!({"type": "integer", "format": "int64"}),
            ShapeKind::Float | ShapeKind::Double => json!({"type": "number"}),
            ShapeKind::Blob => json!({"type": "string", "format": "byte"}),
            ShapeKind::Timestamp => json!({"type": "string", "format": "date-time"}),
            ShapeKind::Document => json!({"x-kubernetes-preserve-unknown-fields": true}),
        }
    }

    fn of_structure(&self, site: Site, inside: &mut Vec<u32>) -> Value {
        if self.overlay.is_opaque(site.shape) {
            return map(json!({"type": "string"}));
        }
        inside.push(site.shape.id());
        let told = self.overlay.told(site.place);
        let mut properties = Map::new();
        for (word, member) in self.overlay.members(site) {
            // A structure inside itself has no end, and a structural schema needs one.
            if inside.contains(&member.content().shape.id()) || inside.len() > DEEPEST {
                continue;
            }
            let secret = told.secret.iter().any(|secret| secret == word);
            let schema = self.of_site(member, secret, inside);
            self.insert(&mut properties, told, word, schema);
        }
        for (word, literal) in &told.added {
            self.insert(&mut properties, told, word, of_literal(literal, false));
        }
        inside.pop();
        object(properties)
    }

    fn insert(&self, properties: &mut Map<String, Value>, told: &Told, word: &str, mut schema: Value) {
        if told.immutable.iter().any(|immutable| immutable == word) {
            make_immutable(&mut schema);
        }
        if let Some(of_list) = told.referring.get(word) {
            properties.insert(
                self.overlay.published(&names::reference(word, *of_list)).to_string(),
                reference(*of_list),
            );
        }
        let name =
            told.published.get(word).cloned().unwrap_or_else(|| self.overlay.published(word).to_string());
        properties.insert(name, schema);
    }
}

fn make_immutable(schema: &mut Value) {
    schema["x-kubernetes-validations"] = json!([{"rule": IMMUTABLE_RULE, "message": IMMUTABLE_MESSAGE}]);
}

fn object(properties: Map<String, Value>) -> Value {
    if properties.is_empty() {
        return json!({"type": "object"});
    }
    json!({"type": "object", "properties": properties})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn of_literal(literal: &Literal, secret: bool) -> Value {
    match literal {
        Literal::List(element) => list(of_literal(element, secret)),
        Literal::Map(value) => map(of_literal(value, secret)),
        _ if secret => secret_reference(),
        Literal::String => json!({"type": "string"}),
        Literal::Boolean => json!({"type": "boolean"}),
        Literal::Integer => json!({"type": "integer", "format": "int64"}),
        Literal::Number => json!({"type": "number"}),
        Literal::Time => json!({"type": "string", "format": "date-time"}),
        Literal::Bytes => json!({"type": "string", "format": "byte"}),
    }
}

fn reference(of_list: bool) -> Value {
    let text = || json!({"type": "string"});
    let name = Map::from_iter([("name".to_owned(), text()), ("namespace".to_owned(), text())]);
    let one = object(Map::from_iter([("from".to_owned(), object(name))]));
    if of_list { list(one) } else { one }
}

fn secret_reference() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {"key": text(), "name": text(), "namespace": text()},
        "required": ["key"],
        "x-kubernetes-map-type": "atomic",
    })
}

/// What the status of every kind has.
pub(super) fn add_common_status(status: &mut Value) {
    let text = || json!({"type": "string"});
    let metadata = json!({
        "type": "object",
        "properties": {"arn": text(), "ownerAccountID": text(), "partition": text(), "region": text()},
        "required": ["ownerAccountID", "region"],
    });
    let condition = json!({
        "type": "object",
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": text(), "reason": text(), "status": text(), "type": text(),
        },
        "required": ["status", "type"],
    });
    if !status["properties"].is_object() {
        status["properties"] = json!({});
    }
    status["properties"]["ackResourceMetadata"] = metadata;
    status["properties"]["conditions"] = list(condition);
}
