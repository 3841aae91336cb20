//! Configurations in Terraform's language, made of values: what a user would have written for a resource.

use hcl_edit::expr::{Array, Expression, Object, ObjectKey, ObjectValue, ObjectValueTerminator};
use hcl_edit::structure::{Attribute, Block as HclBlock, BlockLabel, Body};
use hcl_edit::{Decorate as _, Ident, parser};

use crate::change;
use crate::registry::Served;
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Value};

/// A `resource` block, and which provider it needs. What is secret is left out, and said so.
pub fn resource(provider: &Served, type_name: &str, name: &str, block: &Block, value: &Value) -> String {
    let word = type_name.split('_').next().unwrap_or(type_name);
    let source = Value::Fields(Fields::from([("source".to_owned(), Value::string(&provider.address))]));
    let required: Body = [attribute(word, &source, 2)].into_iter().collect();
    let required: Body = [nested("required_providers", [], required, 1)].into_iter().collect();
    let secrets = block.members.iter().filter(|(name, one)| one.is_secret() && !value.field(name).is_null());
    let said: String = secrets
        .map(|(name, _)| format!("\n{}# {name} is sensitive and not written here", indent(1)))
        .collect();
    let mut value = change::without_secrets(block, value.clone());
    // The provider names what it makes.
    if let (Value::Fields(fields), false) =
        (&mut value, block.members.get("id").is_some_and(|id| id.required))
    {
        fields.remove("id");
    }
    let mut own = body(block, &value, 1);
    own.decor_mut().set_prefix(said);
    let mut own = nested("resource", [type_name, name], own, 0);
    own.decor_mut().set_prefix("\n");
    let whole: Body = [nested("terraform", [], required, 0), own].into_iter().collect();
    whole.to_string()
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn nested<'a>(
    name: &str,
    labels: impl IntoIterator<Item = &'a str>,
    mut body: Body,
    depth: usize,
) -> HclBlock {
    body.decor_mut().set_suffix(indent(depth));
    let mut block = HclBlock::new(Ident::new_sanitized(name));
    block.labels = labels.into_iter().map(BlockLabel::from).collect();
    block.body = body;
    block.decor_mut().set_prefix(indent(depth));
    block
}

fn attribute(name: &str, value: &Value, depth: usize) -> Attribute {
    let mut attribute = Attribute::new(Ident::new_sanitized(name), expression(value, depth));
    attribute.decor_mut().set_prefix(indent(depth));
    attribute
}

/// Attributes first, then blocks, as the formatter of Terraform has them.
fn body(block: &Block, value: &Value, depth: usize) -> Body {
    let members = block.members.iter().map(|(name, member)| (name, member, value.field(name)));
    let members: Vec<(&String, &Member, &Value)> = members.filter(|(_, _, value)| !value.is_null()).collect();
    let is_block = |member: &Member| matches!(&member.shape, Shape::Nested(nested) if nested.is_block);
    let mut body = Body::new();
    for (name, _, value) in members.iter().filter(|(_, member, _)| !is_block(member)) {
        body.push(attribute(name, value, depth));
    }
    for (name, member, value) in members.iter().filter(|(_, member, _)| is_block(member)) {
        if let Shape::Nested(nested) = &member.shape {
            blocks(name, nested, value, depth).into_iter().for_each(|block| body.push(block));
        }
    }
    body
}

/// Each after an empty line.
fn blocks(name: &str, shape: &Nested, value: &Value, depth: usize) -> Vec<HclBlock> {
    let one = |label: Option<&str>, value: &Value| {
        let mut block = nested(name, label, body(&shape.block, value, depth + 1), depth);
        block.decor_mut().set_prefix(format!("\n{}", indent(depth)));
        block
    };
    match (shape.nesting, value) {
        (Nesting::Map, Value::Fields(entries)) => {
            entries.iter().map(|(key, value)| one(Some(key), value)).collect()
        }
        (_, Value::Sequence(elements)) => elements.iter().map(|element| one(None, element)).collect(),
        (_, value @ Value::Fields(fields)) if fields.values().any(|field| !field.is_null()) => {
            vec![one(None, value)]
        }
        _ => Vec::new(),
    }
}

fn expression(value: &Value, depth: usize) -> Expression {
    match value {
        Value::Null | Value::Unknown(_) => Expression::null(),
        Value::Bool(bool) => Expression::from(*bool),
        // Read, so that it is written with all its digits.
        Value::Number(number) => {
            parser::parse_expr(&number.to_string()).unwrap_or_else(|_| Expression::from(number.nearest_f64()))
        }
        Value::String(text) => Expression::from(text.as_str()),
        Value::Sequence(elements) => {
            let elements: Array = elements.iter().map(|element| expression(element, depth)).collect();
            Expression::from(elements)
        }
        Value::Fields(fields) => Expression::from(object(fields, depth)),
        Value::Typed(typed) => expression(&typed.1, depth),
    }
}

fn object(fields: &Fields, depth: usize) -> Object {
    let mut object = Object::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let first = if object.is_empty() { "\n" } else { "" };
        let prefix = format!("{first}{}", indent(depth + 1));
        let mut key = match Ident::try_new(name.as_str()) {
            Ok(name) => ObjectKey::from(name),
            Err(_) => ObjectKey::from(Expression::from(name.as_str())),
        };
        key.decor_mut().set_prefix(prefix);
        key.decor_mut().set_suffix(" ");
        let mut value = ObjectValue::new(expression(value, depth + 1));
        value.set_terminator(ObjectValueTerminator::Newline);
        object.insert(key, value);
    }
    if !object.is_empty() {
        object.set_trailing(indent(depth));
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::{self, tests::thing};
    use crate::value::Number;

    #[test]
    fn a_block() {
        let schema = thing();
        let value =
            json!({"name": "a${b}\"", "size": 3, "tags": {"a b": "c"}, "rule": [{"port": 1}, {"port": 2}]});
        let value = shape::desired(&schema.block, &value).unwrap();
        let text = body(&schema.block, &value, 1).to_string();
        let expected = "  name = \"a$${b}\\\"\"\n  size = 3\n  tags = {\n    \"a b\" = \"c\"\n  }\n\n  rule {\n    port = 1\n  }\n\n  rule {\n    port = 2\n  }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn texts_and_numbers() {
        for (value, expected) in [
            (Value::string("a\nb\\"), r#""a\nb\\""#),
            (Value::string("$5 %{x}"), r#""$5 %%{x}""#),
            (Value::string("\u{1}"), "\"\\u0001\""),
            (Value::Number(Number::parse("12345678901234567890123.5").unwrap()), "12345678901234567890123.5"),
            (Value::Number((-3_i64).into()), "-3"),
        ] {
            assert_eq!(expression(&value, 0).to_string(), expected);
        }
    }
}
