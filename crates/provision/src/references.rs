//! References between objects: replaced by values before anything is planned, and never written back.

use objects::{Value, meta};
use runtime::Key;

use crate::dialect::{Advisory, Dependable, ReferencesState};
use crate::facts::{Facts, Reference};
use crate::failure::Failure;
use crate::paths;
use crate::reading::Reader;

/// Upstream says it whenever a reference crosses namespaces.
const CROSS_NAMESPACE: &str = "CrossNamespaceOptInRequired";

/// What became of the references of an object.
pub(crate) struct Resolved {
    /// The object with values in place of references.
    pub desired: Value,
    pub state: ReferencesState,
    /// All that is waited for is needed only once the resource is there.
    pub later: bool,
    pub advisories: Vec<Advisory>,
}

/// Why one reference has no value.
enum Unresolved {
    Waiting(String),
    Broken(String),
}

pub(crate) struct Resolver<'a> {
    pub reader: &'a Reader<'a>,
    pub facts: &'a Facts,
    pub object: &'a Value,
    pub cross_namespace: bool,
    /// What the dialect of a kind says of one of its objects.
    pub dependable: &'a (dyn Fn(&str, &Value) -> Dependable + Sync),
}

impl Resolver<'_> {
    /// All references are followed even when one of them cannot be, so that each of them wakes the object.
    pub async fn resolve(&self) -> Result<Resolved, Failure> {
        let mut resolved = Resolved {
            desired: self.object.clone(),
            state: ReferencesState::None,
            later: true,
            advisories: Vec::new(),
        };
        for reference in &self.facts.references {
            self.check_required(reference)?;
            for pointer in paths::places(self.object, &reference.reference) {
                if resolved.state == ReferencesState::None {
                    resolved.state = ReferencesState::Resolved;
                }
                self.one(reference, &pointer, &mut resolved).await?;
            }
        }
        Ok(resolved)
    }

    fn check_required(&self, reference: &Reference) -> Result<(), Failure> {
        let given = |path: &str| !paths::places(self.object, path).is_empty();
        if reference.required && !given(&reference.field) && !given(&reference.reference) {
            let (field, other) = (&reference.field, &reference.reference);
            return Err(Failure::terminal(format!("one of {field} and {other} must be given")));
        }
        Ok(())
    }

    async fn one(
        &self,
        reference: &Reference,
        pointer: &str,
        resolved: &mut Resolved,
    ) -> Result<(), Failure> {
        let value_pointer = paths::sibling(pointer, paths::last(&reference.field));
        let path = paths::dotted(self.object, pointer);
        let given = self.object.pointer(&value_pointer);
        if given.is_some_and(|value| {
            !value.is_null() && *value != "" && value.as_array().is_none_or(|list| !list.is_empty())
        }) {
            let field = paths::dotted(self.object, &value_pointer);
            return Err(Failure::terminal(format!("{field} and {path} must not both be given")));
        }
        let names = self.object.pointer(pointer).unwrap_or(&Value::Null);
        let values = match names.as_array() {
            Some(list) => {
                let mut values = Vec::with_capacity(list.len());
                for name in list {
                    values.push(self.value(reference, name, resolved).await?);
                }
                values.into_iter().collect::<Result<Vec<Value>, _>>().map(Value::Array)
            }
            None => self.value(reference, names, resolved).await?,
        };
        match values {
            Ok(value) => paths::set(&mut resolved.desired, &value_pointer, value),
            // What is broken stays broken whatever else is waited for.
            Err(Unresolved::Broken(why)) => {
                resolved.state = ReferencesState::Broken(format!("{path}: {why}"))
            }
            Err(Unresolved::Waiting(why)) => {
                resolved.later &= reference.later;
                if !matches!(resolved.state, ReferencesState::Broken(_)) {
                    resolved.state = ReferencesState::Waiting(format!("{path}: {why}"));
                }
            }
        }
        paths::remove(&mut resolved.desired, pointer);
        Ok(())
    }

    /// The value that `{from: {name, namespace}}` stands for.
    async fn value(
        &self,
        reference: &Reference,
        name: &Value,
        resolved: &mut Resolved,
    ) -> Result<Result<Value, Unresolved>, Failure> {
        let text = |field: &str| {
            let text = name.get("from").and_then(|from| from.get(field)).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
        };
        let Some(name) = text("name") else {
            return Ok(Err(Unresolved::Broken("a reference needs from.name".to_owned())));
        };
        let own = meta::namespace(self.object);
        let namespace = text("namespace").unwrap_or(own);
        if namespace != own {
            if !self.cross_namespace {
                let why = format!("{namespace}/{name} is in another namespace, which is not allowed");
                return Ok(Err(Unresolved::Broken(why)));
            }
            let message =
                format!("{namespace}/{name} is in another namespace; this will have to be allowed one day");
            resolved.advisories.retain(|one| one.reason != CROSS_NAMESPACE);
            resolved.advisories.push(Advisory { reason: CROSS_NAMESPACE, message });
        }
        let place = format!("{} {namespace}/{name}", reference.kind);
        let Some(target) = self.reader.get(&reference.kind, namespace, name).await? else {
            return Ok(Err(Unresolved::Waiting(format!("{place} does not exist"))));
        };
        if meta::is_deleting(&target) {
            return Ok(Err(Unresolved::Waiting(format!("{place} is being deleted"))));
        }
        let dependable =
            if reference.unready { Dependable::Yes } else { (self.dependable)(&reference.kind, &target) };
        Ok(match (dependable, paths::get(&target, &reference.target)) {
            (Dependable::Never(why), _) => Err(Unresolved::Broken(why)),
            (Dependable::NotYet(why), _) => Err(Unresolved::Waiting(why)),
            (Dependable::Yes, Some(value)) if !value.is_null() && *value != "" => Ok(value.clone()),
            (Dependable::Yes, _) => {
                Err(Unresolved::Waiting(format!("{place} has no {} yet", reference.target)))
            }
        })
    }
}

/// The objects that the references of an object name.
pub(crate) fn targets(facts: &Facts, object: &Value) -> Vec<Key> {
    let mut found = Vec::new();
    for reference in &facts.references {
        for pointer in paths::places(object, &reference.reference) {
            let names = object.pointer(&pointer).unwrap_or(&Value::Null);
            let each = names.as_array().map_or(std::slice::from_ref(names), Vec::as_slice);
            found.extend(each.iter().filter_map(|one| {
                let text =
                    |field: &str| one.get("from")?.get(field)?.as_str().filter(|text| !text.is_empty());
                let namespace = text("namespace").unwrap_or_else(|| meta::namespace(object));
                Some(Key::new(reference.kind.clone(), namespace, text("name")?))
            }));
        }
    }
    found
}

/// What references stood for, by the path of the field that it belongs to.
pub(crate) fn values(facts: &Facts, object: &Value, desired: &Value) -> Vec<(String, Value)> {
    let places = facts.references.iter().flat_map(|reference| {
        let places = paths::places(object, &reference.reference);
        places.into_iter().map(move |pointer| paths::sibling(&pointer, paths::last(&reference.field)))
    });
    places.filter_map(|pointer| desired.pointer(&pointer).cloned().map(|value| (pointer, value))).collect()
}

/// Takes out of a patch of the spec what came from references and secrets: the object keeps the reference.
pub(crate) fn strip(facts: &Facts, object: &Value, spec: &mut Value) {
    let references = facts.references.iter().map(|one| (&one.field, &one.reference));
    let secrets = facts.secrets.iter().map(|one| (&one.field, &one.field));
    for (field, reference) in references.chain(secrets) {
        if paths::places(object, reference).is_empty() {
            continue;
        }
        // A merge patch replaces lists as a whole: one with references in it stays as the user wrote it.
        let whole = field.split('[').next().unwrap_or(field);
        let pointer = format!("/{}", whole.replace('.', "/"));
        if let Some(inner) = pointer.strip_prefix("/spec") {
            paths::remove(spec, inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::dialect::ack::Ack;
    use crate::facts::SecretField;

    #[test]
    fn what_came_from_elsewhere_is_not_written() {
        let mut facts = Facts::new("things.example.com", "Thing", "example", "f", Arc::new(Ack::default()));
        let reference = |field: &str, reference: &str| Reference {
            field: field.to_owned(),
            reference: reference.to_owned(),
            kind: "keys.example.com".into(),
            target: "status.id".to_owned(),
            required: false,
            unready: false,
            later: false,
        };
        facts.references = vec![
            reference("spec.keyID", "spec.keyRef"),
            reference("spec.otherID", "spec.otherRef"),
            reference("spec.rules[].id", "spec.rules[].idRef"),
        ];
        facts.secrets = vec![SecretField { field: "spec.password".to_owned() }];
        let object = json!({"spec": {"keyRef": {"from": {"name": "k"}}, "password": {"name": "s", "key": "k"},
            "rules": [{"idRef": {"from": {"name": "k"}}}]}});
        let mut patch =
            json!({"keyID": "1", "otherID": "2", "size": 3, "password": "x", "rules": [{"id": "1"}]});
        strip(&facts, &object, &mut patch);
        assert_eq!(patch, json!({"otherID": "2", "size": 3}));
    }
}
