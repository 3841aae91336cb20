//! Changes that a user does not want to be made, as Terraform's `ignore_changes`.

use objects::{Value as Json, meta};
use provision::Failure;
use serde::Deserialize;

use super::wanted;
use crate::dialect::IGNORE_CHANGES;
use crate::schema::Block;
use crate::value::Value;

#[derive(Deserialize)]
#[serde(untagged)]
enum Ignored {
    Name(String),
    Path(Vec<String>),
}

/// The configuration with what is there in place of what is not to be changed.
pub fn without_ignored(object: &Json, block: &Block, prior: &Value, config: Value) -> Result<Value, Failure> {
    let Some(text) = meta::annotation(object, IGNORE_CHANGES) else { return Ok(config) };
    let ignored: Vec<Ignored> = serde_json::from_str(text).map_err(|_| {
        Failure::terminal(format!("annotation {IGNORE_CHANGES}: a JSON list of attributes is required"))
    })?;
    let there = wanted::stripped(block, prior);
    let paths = ignored.into_iter().map(|one| match one {
        Ignored::Name(name) => vec![name],
        Ignored::Path(path) => path,
    });
    Ok(paths.fold(config, |config, path| replaced(config, &there, &path)))
}

/// What a path leads to, as it is there. What is there neither here nor there stays so.
fn replaced(config: Value, there: &Value, path: &[String]) -> Value {
    let Some((step, rest)) = path.split_first() else { return there.clone() };
    match (config, there) {
        (Value::Fields(mut fields), there) => {
            let own = fields.remove(step).unwrap_or(Value::Null);
            let made = replaced(own, there.field(step), rest);
            // A key of a map that is not there must not be there.
            if !made.is_null() || there.as_fields().is_some_and(|fields| fields.contains_key(step)) {
                fields.insert(step.clone(), made);
            }
            Value::Fields(fields)
        }
        (Value::Sequence(mut elements), Value::Sequence(others)) => {
            let at = step.parse::<usize>().ok();
            if let Some((own, other)) = at.and_then(|at| elements.get_mut(at).zip(others.get(at))) {
                *own = replaced(std::mem::replace(own, Value::Null), other, rest);
            }
            Value::Sequence(elements)
        }
        (Value::Typed(typed), Value::Typed(there)) if typed.0 == there.0 => {
            let (ty, value) = *typed;
            Value::Typed(Box::new((ty, replaced(value, &there.1, path))))
        }
        (Value::Null, Value::Fields(others)) => match others.get(step) {
            Some(_) => replaced(Value::Fields(Default::default()), there, path),
            None => Value::Null,
        },
        (config, _) => config,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::{self, tests::thing};

    #[test]
    fn what_is_there_stays() {
        let block = thing().block;
        let value = |json: Json| shape::desired(&block, &json).unwrap();
        let there =
            value(json!({"name": "x", "size": 1, "tags": {"a": "1", "b": "2"}, "rule": [{"port": 1}]}));
        let check = |ignored: &str, wanted: Json, expected: Json| {
            let object = json!({"metadata": {"annotations": {IGNORE_CHANGES: ignored}}});
            let made = without_ignored(&object, &block, &there, value(wanted)).unwrap();
            assert!(made == value(expected.clone()), "{ignored}: {made:?} is not {expected}");
        };
        check("[\"size\"]", json!({"name": "y", "size": 2}), json!({"name": "y", "size": 1}));
        check(
            "[[\"tags\", \"a\"], [\"tags\", \"c\"]]",
            json!({"name": "x", "tags": {"a": "9", "b": "9", "c": "9"}}),
            json!({"name": "x", "tags": {"a": "1", "b": "9"}}),
        );
        check("[[\"tags\", \"a\"]]", json!({"name": "x"}), json!({"name": "x", "tags": {"a": "1"}}));
        check(
            "[[\"rule\", \"0\", \"port\"]]",
            json!({"name": "x", "rule": [{"port": 5}, {"port": 6}]}),
            json!({"name": "x", "rule": [{"port": 1}, {"port": 6}]}),
        );
        let all = json!({"name": "x", "size": 1, "tags": {"a": "1", "b": "2"}, "rule": [{"port": 1}]});
        check("[[]]", json!({"name": "y"}), all);
        let object = json!({"metadata": {"annotations": {IGNORE_CHANGES: "size"}}});
        assert!(without_ignored(&object, &block, &there, Value::Null).is_err());
    }
}
