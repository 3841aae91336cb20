//! What a change would be: the proposal that a provider plans from, and the differences between two states.

use crate::diagnostic::{Path, Step};
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Value};

/// The configuration, with what the provider chose before where the user chooses nothing.
pub fn proposed(block: &Block, prior: &Value, config: &Value) -> Value {
    match config {
        Value::Fields(config) => Value::Fields(merge_block(block, prior.as_fields(), config)),
        // Nothing is wanted.
        other => other.clone(),
    }
}

fn merge_block(block: &Block, prior: Option<&Fields>, config: &Fields) -> Fields {
    let member = |(name, member): (&String, &Member)| {
        let before = prior.and_then(|prior| prior.get(name)).unwrap_or(&Value::Null);
        let wanted = config.get(name).unwrap_or(&Value::Null);
        (name.clone(), merge(member, before, wanted))
    };
    block.members.iter().map(member).collect()
}

fn merge(member: &Member, prior: &Value, config: &Value) -> Value {
    if member.write_only {
        return Value::Null;
    }
    match &member.shape {
        Shape::Nested(nested) if !config.is_null() => merge_nested(nested, prior, config),
        Shape::Nested(nested) if member.computed => {
            // What the user once chose and now does not is taken back, unless the provider chose all of it.
            if member.optional && has_choices(&nested.block, prior) { config.clone() } else { prior.clone() }
        }
        Shape::Plain(_) if member.computed && config.is_null() => prior.clone(),
        _ => config.clone(),
    }
}

/// Something in it can only have come from a user.
fn has_choices(block: &Block, value: &Value) -> bool {
    match value {
        Value::Sequence(elements) => elements.iter().any(|element| has_choices(block, element)),
        Value::Fields(fields) => fields.iter().any(|(name, value)| match block.members.get(name) {
            Some(member) if !value.is_null() => match &member.shape {
                Shape::Nested(nested) => !member.computed || has_choices(&nested.block, value),
                Shape::Plain(_) => !member.computed,
            },
            // An entry of a map.
            None => has_choices(block, value),
            Some(_) => false,
        }),
        _ => false,
    }
}

fn merge_nested(nested: &Nested, prior: &Value, config: &Value) -> Value {
    let block = &nested.block;
    match (nested.nesting, config) {
        (Nesting::Single | Nesting::Group, _) => proposed(block, prior, config),
        (Nesting::List, Value::Sequence(elements)) => {
            let before = prior.as_sequence().unwrap_or_default();
            let merged = elements
                .iter()
                .enumerate()
                .map(|(index, element)| proposed(block, before.get(index).unwrap_or(&Value::Null), element));
            Value::Sequence(merged.collect())
        }
        (Nesting::Map, Value::Fields(entries)) => {
            let merged = entries
                .iter()
                .map(|(key, element)| (key.clone(), proposed(block, prior.field(key), element)));
            Value::Fields(merged.collect())
        }
        (Nesting::Set, Value::Sequence(elements)) => {
            let mut before: Vec<&Value> = prior.as_sequence().unwrap_or_default().iter().collect();
            let merged = elements.iter().map(|element| {
                let same = before.iter().position(|candidate| could_be(block, candidate, element));
                let candidate = same.map_or(&Value::Null, |index| before.swap_remove(index));
                proposed(block, candidate, element)
            });
            Value::set(merged.collect())
        }
        _ => config.clone(),
    }
}

/// Whether an element of a set that exists is what this configuration made.
fn could_be(block: &Block, prior: &Value, config: &Value) -> bool {
    let (Some(prior), Some(config)) = (prior.as_fields(), config.as_fields()) else { return prior == config };
    block.members.iter().all(|(name, member)| {
        let before = prior.get(name).unwrap_or(&Value::Null);
        let wanted = config.get(name).unwrap_or(&Value::Null);
        if wanted.is_null() && member.computed || member.write_only {
            return true;
        }
        match (&member.shape, before, wanted) {
            (Shape::Nested(nested), Value::Sequence(before), Value::Sequence(wanted)) => {
                before.len() == wanted.len()
                    && before.iter().zip(wanted).all(|(a, b)| could_be(&nested.block, a, b))
            }
            (Shape::Nested(nested), Value::Fields(_), Value::Fields(_)) if nested.nesting != Nesting::Map => {
                could_be(&nested.block, before, wanted)
            }
            _ => before == wanted,
        }
    })
}

/// A value with all that is never kept taken out.
pub fn without_write_only(block: &Block, value: Value) -> Value {
    rewrite(block, value, &|member, value| if member.write_only { Value::Null } else { value })
}

/// Applies a change to every member, the inner ones first; what should be a set is one afterwards.
pub(crate) fn rewrite(block: &Block, value: Value, change: &dyn Fn(&Member, Value) -> Value) -> Value {
    let Value::Fields(fields) = value else { return value };
    let fields = fields.into_iter().map(|(name, value)| {
        let Some(member) = block.members.get(&name) else { return (name, value) };
        let value = match &member.shape {
            Shape::Plain(_) => value,
            Shape::Nested(nested) => rewrite_nested(nested, value, change),
        };
        (name, change(member, value))
    });
    Value::Fields(fields.collect())
}

fn rewrite_nested(nested: &Nested, value: Value, change: &dyn Fn(&Member, Value) -> Value) -> Value {
    let inner = |value| rewrite(&nested.block, value, change);
    match (nested.nesting, value) {
        (Nesting::Set, Value::Sequence(elements)) => Value::set(elements.into_iter().map(inner).collect()),
        (Nesting::List, Value::Sequence(elements)) => {
            Value::Sequence(elements.into_iter().map(inner).collect())
        }
        (Nesting::Map, Value::Fields(entries)) => {
            Value::Fields(entries.into_iter().map(|(key, value)| (key, inner(value))).collect())
        }
        (_, value) => inner(value),
    }
}

/// A field whose value would become another.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub path: Path,
    pub before: Value,
    pub after: Value,
    /// Nobody is to see either value.
    pub secret: bool,
}

/// Where a state is not what was planned. What was not known may be anything.
pub fn broken_promises(block: &Block, planned: &Value, state: &Value) -> Vec<Path> {
    let found = differences(block, planned, state).into_iter();
    let broken = found.filter(|found| !keeps(&found.before, &found.after));
    broken.map(|found| found.path).collect()
}

fn keeps(planned: &Value, state: &Value) -> bool {
    match (planned, state) {
        (Value::Unknown(_), _) => true,
        // Elements of a set are in another order once they are known.
        (Value::Sequence(planned), Value::Sequence(state)) => {
            planned.len() == state.len()
                && (planned.iter().any(|element| !element.known())
                    || planned.iter().zip(state).all(|(planned, state)| keeps(planned, state)))
        }
        (Value::Fields(planned), Value::Fields(state)) => {
            planned.len() == state.len()
                && planned
                    .iter()
                    .all(|(name, planned)| state.get(name).is_some_and(|own| keeps(planned, own)))
        }
        (Value::Typed(planned), Value::Typed(state)) => keeps(&planned.1, &state.1),
        (planned, state) => planned == state,
    }
}

/// Where two states of a resource differ, down to single attributes and to elements of lists.
pub fn differences(block: &Block, before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_block(block, before, after, &mut Path::default(), &mut found);
    found
}

/// What a resource that is made would have, field by field: all but what nobody chose.
pub fn settings(block: &Block, planned: &Value) -> Vec<Difference> {
    let mut found = differences(block, &Value::Null, planned);
    found.retain(|setting| !is_empty(&setting.after));
    found
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Sequence(elements) => elements.is_empty(),
        Value::Fields(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn compare_block(block: &Block, before: &Value, after: &Value, path: &mut Path, found: &mut Vec<Difference>) {
    for (name, member) in &block.members {
        let (a, b) = (before.field(name), after.field(name));
        if a == b || member.write_only {
            continue;
        }
        path.0.push(Step::Attribute(name.clone()));
        match &member.shape {
            Shape::Nested(nested) if !member.sensitive => compare_nested(nested, a, b, path, found),
            _ => found.push(Difference {
                path: path.clone(),
                before: a.clone(),
                after: b.clone(),
                secret: member.sensitive,
            }),
        }
        path.0.pop();
    }
}

fn compare_nested(
    nested: &Nested,
    before: &Value,
    after: &Value,
    path: &mut Path,
    found: &mut Vec<Difference>,
) {
    let so_far = found.len();
    let at = path.clone();
    let whole = || Difference {
        path: at.clone(),
        before: before.clone(),
        after: after.clone(),
        secret: nested.block.members.values().any(Member::has_secrets),
    };
    match (nested.nesting, before, after) {
        // What is new is told by its fields.
        (Nesting::Single | Nesting::Group, Value::Fields(_) | Value::Null, Value::Fields(_)) => {
            compare_block(&nested.block, before, after, path, found);
        }
        (Nesting::List, Value::Sequence(_) | Value::Null, Value::Sequence(b))
            if before.as_sequence().is_none_or(|a| a.len() == b.len()) =>
        {
            let a = before.as_sequence().unwrap_or_default();
            for (index, after) in b.iter().enumerate() {
                path.0.push(Step::Index(index));
                compare_block(&nested.block, a.get(index).unwrap_or(&Value::Null), after, path, found);
                path.0.pop();
            }
        }
        (Nesting::Map, Value::Fields(_) | Value::Null, Value::Fields(b))
            if before.as_fields().is_none_or(|a| a.keys().eq(b.keys())) =>
        {
            for (key, after) in b {
                path.0.push(Step::Key(key.clone()));
                compare_block(&nested.block, before.field(key), after, path, found);
                path.0.pop();
            }
        }
        // Sets, and what went as a whole.
        _ => found.push(whole()),
    }
    if before.is_null() && found.len() == so_far {
        // There is nothing in it, which is not the same as nothing.
        found.push(whole());
    }
}

/// What stands at a path, as far as it leads.
pub fn at<'a>(value: &'a Value, path: &Path) -> &'a Value {
    path.0.iter().fold(value, |value, step| match (step, value) {
        (Step::Attribute(name) | Step::Key(name), Value::Fields(_)) => value.field(name),
        (Step::Index(index), Value::Sequence(elements)) => elements.get(*index).unwrap_or(&Value::Null),
        // Into a set, or through null: the whole is what there is.
        _ => value,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;
    use crate::shape::{self, tests::thing};

    fn value(schema: &Schema, object: serde_json::Value) -> Value {
        shape::desired(&schema.block, &object).unwrap()
    }

    /// Prior state, configuration and proposal, as fields of an object.
    fn check(prior: serde_json::Value, config: serde_json::Value, expected: serde_json::Value) {
        let schema = thing();
        let prior = if prior.is_null() { Value::Null } else { value(&schema, prior) };
        let proposed = proposed(&schema.block, &prior, &value(&schema, config));
        assert_eq!(shape::shown(&schema.block, &proposed), expected);
    }

    #[test]
    fn proposals() {
        check(json!(null), json!({"name": "a"}), json!({"name": "a"}));
        // What the provider chose stays; what the user chose and no longer does goes.
        check(
            json!({"id": "1", "name": "a", "note": "n", "size": 3}),
            json!({"name": "b"}),
            json!({"id": "1", "name": "b", "note": "n"}),
        );
        check(
            json!({"name": "a", "rule": [{"port": 1, "ID": "r0"}, {"port": 2, "ID": "r1"}]}),
            json!({"name": "a", "rule": [{"port": 9}]}),
            json!({"name": "a", "rule": [{"port": 9, "ID": "r0"}]}),
        );
        // Elements of a set are known by what the user says of them.
        check(
            json!({"name": "a", "gate": [{"key": "x", "ID": "g0"}, {"key": "y", "ID": "g1"}]}),
            json!({"name": "a", "gate": [{"key": "y"}, {"key": "z"}]}),
            json!({"name": "a", "gate": [{"key": "z"}, {"key": "y", "ID": "g1"}]}),
        );
    }

    #[test]
    fn promises() {
        let schema = thing();
        let unknown = |name: &str, object: serde_json::Value| {
            let Value::Fields(mut fields) = value(&schema, object) else { unreachable!() };
            fields.insert(name.to_owned(), Value::Unknown(None));
            Value::Fields(fields)
        };
        let check = |planned: &Value, state: serde_json::Value, expected: &[&str]| {
            let found = broken_promises(&schema.block, planned, &value(&schema, state));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        let planned = unknown("id", json!({"name": "a", "size": 1, "gate": [{"key": "x"}, {"key": "y"}]}));
        check(
            &planned,
            json!({"id": "1", "name": "a", "size": 1, "gate": [{"key": "y"}, {"key": "x"}]}),
            &[],
        );
        check(
            &planned,
            json!({"id": "1", "name": "a", "size": 2, "gate": [{"key": "x"}]}),
            &["gate", "size"],
        );
        check(&planned, json!({"id": "1", "name": "a", "gate": [{"key": "x"}, {"key": "y"}]}), &["size"]);
        check(&unknown("tags", json!({"name": "a"})), json!({"name": "a", "tags": {"a": "b"}}), &[]);
    }

    #[test]
    fn differences_by_field() {
        let schema = thing();
        let before = value(&schema, json!({"name": "a", "size": 1, "rule": [{"port": 1}, {"port": 2}]}));
        let after = value(&schema, json!({"name": "a", "size": 2, "rule": [{"port": 1}, {"port": 3}]}));
        let found: Vec<String> =
            differences(&schema.block, &before, &after).iter().map(|found| found.path.to_string()).collect();
        assert_eq!(found, ["rule[1].port", "size"]);
        assert_eq!(differences(&schema.block, &before, &before), []);
        let found = settings(&schema.block, &after);
        let found: Vec<String> = found.iter().map(|found| found.path.to_string()).collect();
        assert_eq!(found, ["name", "rule[0].port", "rule[1].port", "size"]);
    }
}
