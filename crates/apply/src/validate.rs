//! Whether an applied configuration fits its type, in structured-merge-diff's words.
//!
//! Only what apply itself cannot work with is refused here: wrong types, undeclared fields, list items that
//! cannot be told apart. What values mean is validated after the merge, by others.

use std::fmt;

use serde_json::Value;

use crate::element::PathElement;
use crate::place::{ItemKey, Items, Known, Place, Scalar, Shape};
use crate::values::{go_plain, go_syntax, go_type};

/// One thing wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    pub path: String,
    pub message: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// All errors as one message.
pub(crate) fn joined(errors: &[TypeError]) -> String {
    match errors {
        [one] => one.to_string(),
        many => many.iter().fold("errors:".to_owned(), |text, error| format!("{text}\n  {error}")),
    }
}

/// Checks a whole configuration.
pub(crate) fn validate(config: &Value, place: Place<'_>) -> Vec<TypeError> {
    let mut walk = Walk { path: Vec::new(), errors: Vec::new() };
    walk.check(config, place);
    walk.errors
}

struct Walk {
    path: Vec<String>,
    errors: Vec<TypeError>,
}

impl Walk {
    fn error(&mut self, message: String) {
        self.errors.push(TypeError { path: self.path.concat(), message });
    }

    fn below(&mut self, element: &PathElement, check: impl FnOnce(&mut Self)) {
        self.path.push(element.to_string());
        check(self);
        self.path.pop();
    }

    fn check(&mut self, value: &Value, place: Place<'_>) {
        if value.is_null() {
            return;
        }
        match (place.resolve(value), value) {
            (Shape::Map { .. }, Value::Object(fields)) => {
                for (name, field) in fields {
                    let (place, known) = place.field(name);
                    self.below(&PathElement::field(name.as_str()), |walk| match known {
                        Known::Unknown => walk.error("field not declared in schema".to_owned()),
                        Known::Declared | Known::Entry => walk.check(field, place),
                    });
                }
            }
            (Shape::Map { .. }, other) => self.error(format!("expected map, got &{{{}}}", go_plain(other))),
            (Shape::List(items), Value::Array(list)) => self.check_items(list, items, place.item()),
            (Shape::List(_), other) => self.error(format!("expected list, got &{{{}}}", go_plain(other))),
            (Shape::Scalar(scalar), value) => {
                if let Some(message) = mismatch(scalar, value) {
                    self.error(message);
                }
            }
        }
    }

    fn check_items(&mut self, list: &[Value], items: Items<'_>, place: Place<'_>) {
        if matches!(items, Items::Atomic) {
            for (i, item) in list.iter().enumerate() {
                self.below(&PathElement::Index(i as i64), |walk| walk.check(item, place));
            }
            return;
        }
        let mut elements: Vec<PathElement> = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            match ItemKey::of(item, items, place) {
                Ok(key) => elements.push(key.element()),
                Err(error) => return self.error(format!("element {i}: {error}")),
            }
        }
        let mut sorted: Vec<&PathElement> = elements.iter().collect();
        sorted.sort();
        for run in sorted.chunk_by(|a, b| a == b).filter(|run| run.len() > 1) {
            for element in run.iter().skip(1) {
                self.error(format!("duplicate entries for key {element}"));
            }
        }
        for (item, element) in list.iter().zip(&elements) {
            self.below(element, |walk| walk.check(item, place));
        }
    }
}

fn mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::Numeric if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Text if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)))
        }
        Scalar::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_plain(value)))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            Some(format!("expected any scalar, got &{{{}}}", go_plain(value)))
        }
        _ => None,
    }
}
