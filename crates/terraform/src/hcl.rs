//! Configurations in Terraform's language, made of values: what a user would have written for a resource.

use std::collections::BTreeMap;

use hcl_edit::expr::{Array, Expression, Object, ObjectKey, ObjectValue, ObjectValueTerminator};
use hcl_edit::structure::{Attribute, Block as HclBlock, BlockLabel, Body};
use hcl_edit::{Decorate as _, Ident, parser};

use crate::change;
use crate::registry::Served;
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Value};

/// A configuration, and the values of its variables.
pub struct Files {
    pub main: String,
    /// None if there is nothing sensitive.
    pub variables: Option<String>,
}

/// A `resource` block, and which provider it needs. What is sensitive is given by variables, so that what is there is
/// what is planned.
pub fn resource(provider: &Served, type_name: &str, name: &str, block: &Block, value: &Value) -> Files {
    let word = type_name.split('_').next().unwrap_or(type_name);
    let source = Value::Fields(Fields::from([("source".to_owned(), Value::string(&provider.address))]));
    let required: Body = [attribute(word, expression(&source, 2), 2)].into_iter().collect();
    let required: Body = [nested("required_providers", [], required, 1)].into_iter().collect();
    let mut value = change::without_write_only(block, value.clone());
    // The provider names what it makes.
    if let (Value::Fields(fields), false) =
        (&mut value, block.members.get("id").is_some_and(|id| id.required))
    {
        fields.remove("id");
    }
    let mut variables = Variables::default();
    let mut own = nested("resource", [type_name, name], variables.body(block, &value, "", 1), 0);
    own.decor_mut().set_prefix("\n");
    let declared = variables.0.keys().map(|name| {
        let sensitive: Body = [attribute("sensitive", Expression::from(true), 1)].into_iter().collect();
        let mut variable = nested("variable", [name.as_str()], sensitive, 0);
        variable.decor_mut().set_prefix("\n");
        variable
    });
    let whole: Body =
        [nested("terraform", [], required, 0)].into_iter().chain(declared).chain([own]).collect();
    let given: Body =
        variables.0.iter().map(|(name, value)| attribute(name, expression(value, 0), 0)).collect();
    let variables = (!variables.0.is_empty()).then(|| given.to_string());
    Files { main: whole.to_string(), variables }
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

fn attribute(name: &str, value: Expression, depth: usize) -> Attribute {
    let mut attribute = Attribute::new(Ident::new_sanitized(name), value);
    attribute.decor_mut().set_prefix(indent(depth));
    attribute
}

/// What is sensitive of a configuration, by the names of the variables that stand for it.
#[derive(Default)]
struct Variables(BTreeMap<String, Value>);

impl Variables {
    fn reference(&mut self, name: &str, value: &Value) -> Expression {
        let plain = Ident::new_sanitized(name).to_string();
        let mut name = plain.clone();
        for number in 2.. {
            if !self.0.contains_key(&name) {
                break;
            }
            name = format!("{plain}_{number}");
        }
        let reference = parser::parse_expr(&format!("var.{name}")).unwrap_or_else(|_| Expression::null());
        self.0.insert(name, value.clone());
        reference
    }

    /// Attributes first, then blocks, as the formatter of Terraform has them. `around` is what the names of variables
    /// begin with.
    fn body(&mut self, block: &Block, value: &Value, around: &str, depth: usize) -> Body {
        let members = block.members.iter().map(|(name, member)| (name, member, value.field(name)));
        let members: Vec<(&String, &Member, &Value)> =
            members.filter(|(_, _, value)| !value.is_null()).collect();
        let is_block = |member: &Member| matches!(&member.shape, Shape::Nested(nested) if nested.is_block);
        let mut body = Body::new();
        for (name, member, value) in members.iter().filter(|(_, member, _)| !is_block(member)) {
            let value = match member.has_secrets() {
                true => self.reference(&format!("{around}{name}"), value),
                false => expression(value, depth),
            };
            body.push(attribute(name, value, depth));
        }
        for (name, member, value) in members.iter().filter(|(_, member, _)| is_block(member)) {
            if let Shape::Nested(nested) = &member.shape {
                let blocks = self.blocks(name, nested, value, &format!("{around}{name}_"), depth);
                blocks.into_iter().for_each(|block| body.push(block));
            }
        }
        body
    }

    /// Each after an empty line.
    fn blocks(
        &mut self,
        name: &str,
        shape: &Nested,
        value: &Value,
        around: &str,
        depth: usize,
    ) -> Vec<HclBlock> {
        let mut one = |label: Option<&str>, value: &Value, around: &str| {
            let mut block = nested(name, label, self.body(&shape.block, value, around, depth + 1), depth);
            block.decor_mut().set_prefix(format!("\n{}", indent(depth)));
            block
        };
        match (shape.nesting, value) {
            (Nesting::Map, Value::Fields(entries)) => {
                let entries = entries.iter();
                entries.map(|(key, value)| one(Some(key), value, &format!("{around}{key}_"))).collect()
            }
            (_, Value::Sequence(elements)) => {
                let elements = elements.iter().enumerate();
                elements.map(|(index, element)| one(None, element, &format!("{around}{index}_"))).collect()
            }
            (_, value @ Value::Fields(fields)) if fields.values().any(|field| !field.is_null()) => {
                vec![one(None, value, around)]
            }
            _ => Vec::new(),
        }
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
        let text = Variables::default().body(&schema.block, &value, "", 1).to_string();
        let expected = "  name = \"a$${b}\\\"\"\n  size = 3\n  tags = {\n    \"a b\" = \"c\"\n  }\n\n  rule {\n    port = 1\n  }\n\n  rule {\n    port = 2\n  }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_sensitive_is_given_by_variables() {
        let schema = thing();
        let draft =
            shape::Draft::read(&schema.block, &json!({"name": "a", "rule": [{"port": 1}, {"port": 2}]}));
        let secrets = json!({"root_pass": "p", "rule": [{}, {"key": "k\"${x}"}]});
        let value = draft.unwrap().with_secrets(&schema.block, &secrets).unwrap().value(&schema.block);
        let mut variables = Variables::default();
        let text = variables.body(&schema.block, &value, "", 1).to_string();
        let expected = "  name = \"a\"\n  root_pass = var.root_pass\n\n  rule {\n    port = 1\n  }\n\n  rule {\n    key = var.rule_1_key\n    port = 2\n  }\n";
        assert_eq!(text, expected);
        let given: Vec<(&str, &Value)> =
            variables.0.iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(given, [("root_pass", &Value::string("p")), ("rule_1_key", &Value::string("k\"${x}"))]);
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
