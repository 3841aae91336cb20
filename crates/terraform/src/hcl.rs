//! Configurations in Terraform's language, written of values: what a user would have written for a resource.

use std::fmt::Write as _;

use crate::change;
use crate::registry::Served;
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Value};

/// A `resource` block, and which provider it needs. What is secret is left out, and said so.
pub fn resource(provider: &Served, type_name: &str, name: &str, block: &Block, value: &Value) -> String {
    let word = type_name.split('_').next().unwrap_or(type_name);
    let mut text = String::new();
    let _ = writeln!(text, "terraform {{\n  required_providers {{\n    {word} = {{");
    let _ = writeln!(text, "      source = {}\n    }}\n  }}\n}}\n", quoted(&provider.address));
    let _ = writeln!(text, "resource {} {} {{", quoted(type_name), quoted(name));
    for (name, _) in
        block.members.iter().filter(|(name, one)| one.is_secret() && !value.field(name).is_null())
    {
        let _ = writeln!(text, "  # {name} is sensitive and not written here");
    }
    let mut value = change::without_secrets(block, value.clone());
    // The provider names what it makes.
    if let (Value::Fields(fields), false) =
        (&mut value, block.members.get("id").is_some_and(|id| id.required))
    {
        fields.remove("id");
    }
    body(block, &value, 1, &mut text);
    text.push_str("}\n");
    text
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// Attributes first, then blocks, as the formatter of Terraform has them.
fn body(block: &Block, value: &Value, depth: usize, text: &mut String) {
    let members = block.members.iter().map(|(name, member)| (name, member, value.field(name)));
    let members: Vec<(&String, &Member, &Value)> = members.filter(|(_, _, value)| !value.is_null()).collect();
    let is_block = |member: &Member| matches!(&member.shape, Shape::Nested(nested) if nested.is_block);
    for (name, _, value) in members.iter().filter(|(_, member, _)| !is_block(member)) {
        let _ = writeln!(text, "{}{name} = {}", indent(depth), expression(value, depth));
    }
    for (name, member, value) in members.iter().filter(|(_, member, _)| is_block(member)) {
        let Shape::Nested(nested) = &member.shape else { continue };
        blocks(name, nested, value, depth, text);
    }
}

fn blocks(name: &str, nested: &Nested, value: &Value, depth: usize, text: &mut String) {
    let mut one = |label: Option<&str>, value: &Value| {
        let label = label.map(|label| format!(" {}", quoted(label))).unwrap_or_default();
        let _ = writeln!(text, "\n{}{name}{label} {{", indent(depth));
        body(&nested.block, value, depth + 1, text);
        let _ = writeln!(text, "{}}}", indent(depth));
    };
    match (nested.nesting, value) {
        (Nesting::Map, Value::Fields(entries)) => {
            entries.iter().for_each(|(key, value)| one(Some(key), value));
        }
        (_, Value::Sequence(elements)) => elements.iter().for_each(|element| one(None, element)),
        (_, value @ Value::Fields(fields)) if fields.values().any(|field| !field.is_null()) => {
            one(None, value)
        }
        _ => {}
    }
}

fn expression(value: &Value, depth: usize) -> String {
    match value {
        Value::Null | Value::Unknown(_) => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Sequence(elements) => {
            let inner: Vec<String> = elements.iter().map(|element| expression(element, depth)).collect();
            format!("[{}]", inner.join(", "))
        }
        Value::Fields(fields) => object(fields, depth),
        Value::Typed(typed) => expression(&typed.1, depth),
    }
}

fn object(fields: &Fields, depth: usize) -> String {
    if fields.is_empty() {
        return "{}".to_owned();
    }
    let mut text = "{\n".to_owned();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let name = if is_name(name) { name.clone() } else { quoted(name) };
        let _ = writeln!(text, "{}{name} = {}", indent(depth + 1), expression(value, depth + 1));
    }
    text.push_str(&indent(depth));
    text.push('}');
    text
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// A text between quotes; `${` and `%{` would begin a template.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if characters.peek() == Some(&'{') => {
                out.push(c);
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::{self, tests::thing};

    #[test]
    fn a_block() {
        let schema = thing();
        let value =
            json!({"name": "a${b}\"", "size": 3, "tags": {"a b": "c"}, "rule": [{"port": 1}, {"port": 2}]});
        let value = shape::desired(&schema.block, &value).unwrap();
        let mut text = String::new();
        body(&schema.block, &value, 1, &mut text);
        let expected = "  name = \"a$${b}\\\"\"\n  size = 3\n  tags = {\n    \"a b\" = \"c\"\n  }\n\n  rule {\n    port = 1\n  }\n\n  rule {\n    port = 2\n  }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn texts() {
        for (text, expected) in
            [("a\nb\\", r#""a\nb\\""#), ("$5 %{x}", r#""$5 %%{x}""#), ("\u{1}", "\"\\u0001\"")]
        {
            assert_eq!(quoted(text), expected);
        }
    }
}
