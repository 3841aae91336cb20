//! What Go's decoder would say of a value of the wrong type, for built-in kinds.
//!
//! Custom resources are decoded into maps and refused by [`validate`](crate::validate) instead. Go names the type
//! it wanted; the published definitions do not tell the names of string types (`v1.PullPolicy`), which come out
//! as `string`.

use serde_json::Value;

use crate::pattern;
use crate::schema::{Additional, Cursor, Type};

/// The first thing that cannot be decoded, as clients know it: `json: cannot unmarshal string into Go struct
/// field DeploymentSpec.spec.replicas of type int32`. Null decodes to anything.
#[must_use]
pub fn decode_errors(cursor: Cursor<'_>, value: &Value) -> Option<String> {
    let mut walk = Walk { fields: Vec::new(), holder: cursor };
    walk.decode(cursor, value).err()
}

struct Walk<'v, 'c> {
    /// From the root to here; list indexes and map keys are not among them.
    fields: Vec<&'v str>,
    /// The struct that the last of the fields belongs to.
    holder: Cursor<'c>,
}

impl<'v, 'c> Walk<'v, 'c> {
    fn decode(&mut self, cursor: Cursor<'c>, value: &'v Value) -> Result<(), String> {
        if value.is_null() || cursor.is_free_form() && cursor.node().kind == Type::Any {
            return Ok(());
        }
        if let Some(special) = Special::of(cursor) {
            return special.decode(value);
        }
        match (cursor.node().kind, value) {
            (Type::Object, Value::Object(fields)) => {
                for (name, field) in fields {
                    self.decode_field(cursor, name, field)?;
                }
                Ok(())
            }
            (Type::Array, Value::Array(items)) => {
                let Some(schema) = cursor.items() else { return Ok(()) };
                items.iter().try_for_each(|item| self.decode(schema, item))
            }
            (Type::String, Value::String(text)) if is_bytes(cursor) => decode_base64(text),
            (Type::String, Value::String(_)) | (Type::Boolean, Value::Bool(_)) | (Type::Any, _) => Ok(()),
            (Type::Number, Value::Number(_)) => Ok(()),
            (Type::Integer, Value::Number(number)) => {
                let fits = number
                    .as_i64()
                    .is_some_and(|whole| format_of(cursor) != Some("int32") || i32::try_from(whole).is_ok());
                if fits { Ok(()) } else { Err(self.mismatch(&format!("number {number}"), cursor)) }
            }
            (_, value) => Err(self.mismatch(json_kind(value), cursor)),
        }
    }

    fn decode_field(&mut self, cursor: Cursor<'c>, name: &'v str, field: &'v Value) -> Result<(), String> {
        if let Some(property) = cursor.property(name) {
            let holder = std::mem::replace(&mut self.holder, cursor);
            self.fields.push(name);
            self.decode(property, field)?;
            self.fields.pop();
            self.holder = holder;
        } else if let Additional::Schema(id) = cursor.node().additional {
            self.decode(cursor.to(id), field)?;
        }
        Ok(())
    }

    fn mismatch(&self, found: &str, wanted: Cursor<'_>) -> String {
        let wanted = go_type(wanted);
        match self.fields.as_slice() {
            [] => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            fields => {
                let holder = self.holder.definition().map(last).unwrap_or("");
                let path = fields.join(".");
                format!(
                    "json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}"
                )
            }
        }
    }
}

/// Definitions whose Go types decode themselves.
#[derive(Clone, Copy)]
enum Special {
    IntOrString,
    Quantity,
    Time,
    MicroTime,
}

impl Special {
    fn of(cursor: Cursor<'_>) -> Option<Self> {
        match last(cursor.definition()?) {
            "IntOrString" => Some(Special::IntOrString),
            "Quantity" if cursor.node().int_or_string => Some(Special::Quantity),
            "Time" => Some(Special::Time),
            "MicroTime" => Some(Special::MicroTime),
            _ => None,
        }
    }

    fn decode(self, value: &Value) -> Result<(), String> {
        let of_type = |wanted: &str| {
            format!("json: cannot unmarshal {} into Go value of type {wanted}", json_kind(value))
        };
        match (self, value) {
            (Special::IntOrString, Value::String(_)) => Ok(()),
            (Special::IntOrString, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok());
                let error = || format!("json: cannot unmarshal number {number} into Go value of type int32");
                if fits { Ok(()) } else { Err(error()) }
            }
            (Special::IntOrString, _) => Err(of_type("int32")),
            (Special::Quantity, Value::String(text)) => decode_quantity(text),
            (Special::Quantity, other) => decode_quantity(&other.to_string()),
            (Special::Time, Value::String(text)) => decode_time(text, "2006-01-02T15:04:05Z07:00"),
            (Special::MicroTime, Value::String(text)) => {
                decode_time(text, "2006-01-02T15:04:05.000000Z07:00")
            }
            (Special::Time | Special::MicroTime, _) => Err(of_type("string")),
        }
    }
}

const QUANTITY: &str = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
const SUFFIX: &str = "^(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$";

fn decode_quantity(text: &str) -> Result<(), String> {
    let text = text.trim();
    let number = text.trim_start_matches(['+', '-']).len();
    let signs = text.len() - number;
    let digits =
        text.get(signs..).unwrap_or("").bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = text.split_at(signs + digits);
    if signs > 1 || !matches(QUANTITY, text) {
        return Err(format!("quantities must match the regular expression '{QUANTITY}'"));
    }
    if number.matches('.').count() > 1 || !number.contains(|c: char| c.is_ascii_digit()) {
        return Err("unable to parse numeric part of quantity".to_owned());
    }
    if matches(SUFFIX, suffix) { Ok(()) } else { Err("unable to parse quantity's suffix".to_owned()) }
}

/// Go tells how far it came; this tells the first part that is wrong, as far as a date goes.
fn decode_time(text: &str, layout: &str) -> Result<(), String> {
    let full = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}([.,]\d+)?(Z|[+-]\d{2}:\d{2})$";
    if matches(full, text) {
        return Ok(());
    }
    let parts: [(&str, &str); 6] =
        [("2006", r"^\d{4}"), ("-", "^-"), ("01", r"^\d{2}"), ("-", "^-"), ("02", r"^\d{2}"), ("T", "^T")];
    let mut rest = text;
    for (name, pattern) in parts {
        if !matches(pattern, rest) {
            return Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {name:?}"));
        }
        rest = rest.get(name.len()..).unwrap_or("");
    }
    Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as \"15\""))
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern::matches(pattern, text).unwrap_or(false)
}

/// Where Go's decoder would stumble, if it does.
fn decode_base64(text: &str) -> Result<(), String> {
    let is_symbol = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    // Line breaks are skipped.
    let given: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n')).collect();
    let symbols = given.iter().take_while(|(_, b)| is_symbol(b)).count();
    let padding = (4 - symbols % 4) % 4;
    let rest = given.get(symbols..).unwrap_or_default();
    let is_padded = rest.len() == padding && rest.iter().all(|(_, b)| *b == b'=') && padding < 3;
    if is_padded {
        return Ok(());
    }
    let at = match rest.iter().zip(0..).find(|((_, b), i)| *b != b'=' || *i >= padding || padding == 3) {
        Some(((at, _), _)) => *at,
        None => text.len(),
    };
    Err(format!("illegal base64 data at input byte {at}"))
}

fn format_of(cursor: Cursor<'_>) -> Option<&str> {
    cursor.node().constraints.as_ref().and_then(|limits| limits.format.as_deref())
}

fn is_bytes(cursor: Cursor<'_>) -> bool {
    format_of(cursor) == Some("byte")
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn last(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// The type that Go has for a node, as near as the definitions tell.
fn go_type(cursor: Cursor<'_>) -> String {
    if let Some(definition) = cursor.definition() {
        let mut parts = definition.rsplit('.');
        let (name, package) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        return format!("{package}.{name}");
    }
    match cursor.node().kind {
        Type::String if is_bytes(cursor) => "[]uint8".to_owned(),
        Type::String => "string".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Integer => format_of(cursor).unwrap_or("int").to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Array => format!("[]{}", cursor.items().map_or_else(|| "interface {}".to_owned(), go_type)),
        Type::Object => match cursor.node().additional {
            Additional::Schema(id) => format!("map[string]{}", go_type(cursor.to(id))),
            _ => "map[string]interface {}".to_owned(),
        },
        Type::Any => "interface {}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Definitions;
    use serde_json::json;

    fn definitions() -> Definitions {
        let apps = "io.k8s.api.apps.v1";
        let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let all = json!({
            (format!("{apps}.Deployment")): {"type": "object", "properties": {
                "kind": {"type": "string"},
                "metadata": reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
                "spec": reference(&format!("{apps}.DeploymentSpec")),
            }},
            (format!("{apps}.DeploymentSpec")): {"type": "object", "properties": {
                "replicas": {"type": "integer", "format": "int32"},
                "paused": {"type": "boolean"},
                "ports": {"type": "array", "items": reference("io.k8s.api.core.v1.Port")},
                "raw": reference("io.k8s.apimachinery.pkg.runtime.RawExtension"),
                "limits": {"type": "object", "additionalProperties": reference("io.k8s.apimachinery.pkg.api.resource.Quantity")},
                "at": reference("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
                "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
                "items": {"type": "array", "items": {"type": "string"}},
            }},
            "io.k8s.api.core.v1.Port": {"type": "object", "properties": {
                "target": reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString"), "name": {"type": "string"}}},
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "properties": {
                "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string"},
            "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
        });
        let Value::Object(all) = all else { panic!("not an object") };
        Definitions::parse(all).unwrap()
    }

    fn check(value: Value, expected: &str) {
        let all = definitions();
        let told = decode_errors(all.root("io.k8s.api.apps.v1.Deployment").unwrap(), &value);
        assert_eq!(told.as_deref().unwrap_or(""), expected, "{value}");
    }

    #[test]
    fn wrong_types_are_told_as_go_tells_them() {
        let go = |found: &str, field: &str, wanted: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
        };
        check(json!({"spec": {"replicas": "3"}}), &go("string", "DeploymentSpec.spec.replicas", "int32"));
        check(json!({"spec": {"replicas": 1.5}}), &go("number 1.5", "DeploymentSpec.spec.replicas", "int32"));
        check(
            json!({"spec": {"replicas": 2147483648_u32}}),
            &go("number 2147483648", "DeploymentSpec.spec.replicas", "int32"),
        );
        check(json!({"spec": {"paused": "yes"}}), &go("string", "DeploymentSpec.spec.paused", "bool"));
        check(json!({"spec": []}), &go("array", "Deployment.spec", "v1.DeploymentSpec"));
        check(json!({"spec": {"ports": {}}}), &go("object", "DeploymentSpec.spec.ports", "[]v1.Port"));
        check(json!({"spec": {"ports": [{"name": 1}]}}), &go("number", "Port.spec.ports.name", "string"));
        check(json!({"spec": {"items": "x"}}), &go("string", "DeploymentSpec.spec.items", "[]string"));
        check(
            json!({"metadata": {"labels": {"a": 1}}}),
            &go("number", "ObjectMeta.metadata.labels", "string"),
        );
        check(
            json!({"metadata": {"labels": "a"}}),
            &go("string", "ObjectMeta.metadata.labels", "map[string]string"),
        );
        check(json!([]), "json: cannot unmarshal array into Go value of type v1.Deployment");
    }

    #[test]
    fn types_that_decode_themselves() {
        let port = |target: Value| json!({"spec": {"ports": [{"target": target}]}});
        check(port(json!("http")), "");
        check(port(json!(80)), "");
        check(port(json!(true)), "json: cannot unmarshal bool into Go value of type int32");
        let limit = |quantity: Value| json!({"spec": {"limits": {"cpu": quantity}}});
        for good in [
            json!("1"),
            json!(1),
            json!(0.5),
            json!("100m"),
            json!("1Gi"),
            json!("1e3"),
            json!("-1.5"),
            json!("12E"),
        ] {
            check(limit(good), "");
        }
        let regex =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        check(limit(json!("lots")), regex);
        check(limit(json!({})), regex);
        check(limit(json!("1kk")), "unable to parse quantity's suffix");
        check(limit(json!("1.2.3")), "unable to parse numeric part of quantity");
        check(json!({"spec": {"at": "2006-01-02T15:04:05Z"}}), "");
        check(
            json!({"spec": {"at": "soon"}}),
            r#"parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006""#,
        );
        check(json!({"spec": {"at": 3}}), "json: cannot unmarshal number into Go value of type string");
        let data = |text: &str| json!({"spec": {"data": {"k": text}}});
        for good in ["", "YQ==", "YWI=", "YWJj", "YW\nJj"] {
            check(data(good), "");
        }
        check(data("not base64"), "illegal base64 data at input byte 3");
        check(data("YQ"), "illegal base64 data at input byte 2");
        check(data("YWJj="), "illegal base64 data at input byte 4");
    }

    #[test]
    fn what_decodes() {
        check(json!({"spec": {"replicas": null, "ports": [null], "raw": 1, "unknown": {"a": []}}}), "");
        check(json!({"spec": {"raw": {"any": ["thing"]}}}), "");
    }
}
