//! Reading and writing a dynamic object by dotted paths, with Go's zero values for what is absent.
//!
//! Kubernetes' rules are written against structs in which an absent field is `""`, `0`, `false` or an
//! empty list. These accessors give the same view of a [`Value`], so that a rule reads like the rule.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

pub(crate) trait Dotted {
    /// What stands at `a.b.c`; null where nothing does.
    fn at(&self, path: &str) -> &Value;
    /// The same for writing. Missing objects on the way are made; `None` where something else is in the way.
    fn at_mut(&mut self, path: &str) -> Option<&mut Value>;

    fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or("")
    }

    fn int(&self, path: &str) -> Option<i64> {
        self.at(path).as_i64()
    }

    fn number(&self, path: &str) -> i64 {
        self.int(path).unwrap_or(0)
    }

    fn flag(&self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or(false)
    }

    fn list(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn texts(&self, path: &str) -> Vec<&str> {
        self.list(path).iter().filter_map(Value::as_str).collect()
    }

    fn entries(&self, path: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.at(path).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }

    fn count(&self, path: &str) -> usize {
        match self.at(path) {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    fn put(&mut self, path: &str, value: impl Into<Value>) {
        if let Some(place) = self.at_mut(path) {
            *place = value.into();
        }
    }

    /// Sets what is absent. An empty text counts as absent when the default is a text, as in Go.
    fn default(&mut self, path: &str, value: impl Into<Value>) {
        let value = value.into();
        let absent = match self.at(path) {
            Value::Null => true,
            Value::String(text) => text.is_empty() && value.is_string(),
            _ => false,
        };
        if absent {
            self.put(path, value);
        }
    }

    fn remove(&mut self, path: &str);

    /// Makes a field what it is in `old`, absent if it is absent there.
    fn keep(&mut self, path: &str, old: &Value) {
        match old.at(path) {
            Value::Null => self.remove(path),
            kept => {
                let kept = kept.clone();
                self.put(path, kept);
            }
        }
    }

    fn items_mut(&mut self, path: &str) -> impl Iterator<Item = &mut Value>;
}

impl Dotted for Value {
    fn at(&self, path: &str) -> &Value {
        let mut here = self;
        for field in path.split('.').filter(|field| !field.is_empty()) {
            match here.get(field) {
                Some(next) => here = next,
                None => return &NULL,
            }
        }
        here
    }

    fn at_mut(&mut self, path: &str) -> Option<&mut Value> {
        let mut here = self;
        for field in path.split('.').filter(|field| !field.is_empty()) {
            if here.is_null() {
                *here = Value::Object(Map::new());
            }
            here = here.as_object_mut()?.entry(field).or_insert(Value::Null);
        }
        Some(here)
    }

    fn remove(&mut self, path: &str) {
        let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
        let mut here = self;
        for step in parent.split('.').filter(|step| !step.is_empty()) {
            match here.get_mut(step) {
                Some(next) => here = next,
                None => return,
            }
        }
        if let Some(fields) = here.as_object_mut() {
            fields.remove(field);
        }
    }

    fn items_mut(&mut self, path: &str) -> impl Iterator<Item = &mut Value> {
        let mut here = Some(self);
        for step in path.split('.').filter(|step| !step.is_empty()) {
            here = here.and_then(|value| value.get_mut(step));
        }
        here.and_then(Value::as_array_mut).into_iter().flatten()
    }
}
