//! Paths into a schema, as rules (`fieldPath`) and selectable fields name them: `.spec.a['b.c']`.
//!
//! Mirrors `ValidFieldPath` of `apiextensions-apiserver/pkg/apiserver/schema/cel`.

use objects::field::Path;
use serde_json::Value;

/// The field that a path names, and its schema; or why it names none.
pub(super) fn resolve<'a>(
    path: &str,
    schema: &'a Value,
    allow_brackets: bool,
) -> Result<(Path, Option<&'a Value>), String> {
    let mut found = Path::root();
    let mut schema = Some(schema);
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let name = match first {
            '.' => {
                rest = &rest[1..];
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                // A delimiter where a name should be is taken for the name, and no field is called that.
                rest = if end == 0 { rest.get(1..).unwrap_or("") } else { after };
                if end == 0 && after.is_empty() {
                    return Err("unexpected end of JSON path".to_owned());
                }
                name.to_owned()
            }
            '[' if !allow_brackets => return Err("array notation is not allowed".to_owned()),
            '[' => {
                let (name, after) = quoted(&rest[1..])?;
                rest = after.strip_prefix(']').ok_or_else(|| match after.chars().next() {
                    None => "unexpected end of JSON path".to_owned(),
                    Some(other) => format!("expected ] but got {other}"),
                })?;
                name
            }
            _ => {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
                let token: String = rest.chars().take(end).collect();
                return Err(format!("expected [ or . but got: {token}"));
            }
        };
        let known = schema.ok_or("does not refer to a valid field")?;
        let properties = known.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty());
        let additional = known.get("additionalProperties").filter(|entry| !entry.is_null());
        match (properties, additional) {
            (Some(properties), _) => {
                schema = Some(properties.get(&name).ok_or("does not refer to a valid field")?);
                found = found.child(&name);
            }
            (None, Some(entry)) => {
                schema = Some(entry).filter(|entry| entry.is_object());
                found = found.key(&name);
            }
            (None, None) => return Err("does not refer to a valid field".to_owned()),
        }
    }
    Ok((found, schema))
}

/// A name in single quotes at the start of the text, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let Some(inside) = text.strip_prefix('\'') else {
        if text.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        return Err(format!("expected single quoted string but got {}", &text[..end]));
    };
    let mut name = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Ok((name, &inside[at + 1..])),
            '\\' => match chars.next() {
                Some((_, escaped @ ('\'' | '\\'))) => name.push(escaped),
                Some((_, other)) => return Err(format!("invalid string literal: unknown escape \\{other}")),
                None => break,
            },
            other => name.push(other),
        }
    }
    Err(format!("expected single quoted string but got {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(path: &str, expected: Result<&str, &str>) {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a.b": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "n": {"type": "integer"},
        }});
        let found = resolve(path, &schema, true).map(|(path, _)| path.as_str().to_owned());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
    }

    #[test]
    fn paths() {
        check(".n", Ok("n"));
        check(".spec.m.key", Ok("spec.m[key]"));
        check(".spec['a.b']", Ok("spec.a.b"));
        check(".spec.m['k']", Ok("spec.m[k]"));
        check(".nope", Err("does not refer to a valid field"));
        check(".n.x", Err("does not refer to a valid field"));
        check("n", Err("expected [ or . but got: n"));
        check(".", Err("unexpected end of JSON path"));
        check("..", Err("does not refer to a valid field"));
        check(".spec[0]", Err("expected single quoted string but got 0"));
        check(".spec['m", Err("expected single quoted string but got 'm"));
        check(".spec['m'", Err("unexpected end of JSON path"));
        check(".spec['m'x", Err("expected ] but got x"));
        assert_eq!(resolve("['m']", &json!({}), false).unwrap_err(), "array notation is not allowed");
    }
}
