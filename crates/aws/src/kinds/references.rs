//! Fields of a kind that name other objects, fields that name keys of Secrets, and others that the engine must know of, by
//! path. No model is read for them.

use super::KindFacts;
use super::places::place;
use crate::rules::vocabulary::Field as FieldRule;

/// A field that can be given by naming an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceFact {
    /// Where the value stands: `spec.vpcConfig.subnetIDs`, `spec.rules[].groupID`.
    pub field: String,
    /// Where the name stands: `spec.vpcConfig.subnetRefs`.
    pub reference: String,
    pub service: String,
    pub kind: String,
    /// Where the value is in the named object: `status.subnetID`.
    pub target: String,
    /// One of the two must be given.
    pub required: bool,
    /// The named object need not be ready.
    pub unready: bool,
    /// The object is made without it.
    pub later: bool,
}

impl KindFacts {
    /// Every field that can name an object.
    pub fn references(&self) -> Vec<ReferenceFact> {
        let mut references = Vec::new();
        for (path, rule) in &self.rules.fields {
            let Some(told) = &rule.value.reference else { continue };
            let parts = told.split_once(' ').and_then(|(kind, target)| Some((kind.split_once('/')?, target)));
            let (Some(((service, kind), target)), Some(place)) = (parts, place(self, path)) else { continue };
            references.push(ReferenceFact {
                field: place.field,
                reference: place.reference,
                service: service.to_owned(),
                kind: kind.to_owned(),
                target: target.to_owned(),
                required: place.required,
                unready: rule.value.ref_unready,
                later: rule.value.ref_unready && self.is_put_later(path),
            });
        }
        references
    }

    /// Whether calls after the creating one put what stands at a path.
    fn is_put_later(&self, path: &str) -> bool {
        let word = path.split('.').next().unwrap_or(path);
        let part = self.rules.parts.get(word).map(|part| part.value.on_create);
        let collection = self.rules.collections.get(word).map(|collection| collection.value.on_create);
        part.or(collection) == Some(false)
    }

    /// Paths of the fields that hold references to keys of Secrets.
    pub fn secret_fields(&self) -> Vec<String> {
        self.places(|rule| rule.secret)
    }

    /// Paths of the fields that AWS takes and never shows.
    pub fn hidden_fields(&self) -> Vec<String> {
        self.places(|rule| rule.hidden)
    }

    /// Paths of the fields that are brought to their wanted values before the object is deleted.
    pub fn fields_before_delete(&self) -> Vec<String> {
        self.places(|rule| rule.before_delete)
    }

    fn places(&self, told: impl Fn(&FieldRule) -> bool) -> Vec<String> {
        let told = self.rules.fields.iter().filter(|(_, rule)| told(&rule.value));
        told.filter_map(|(path, _)| place(self, path)).map(|place| place.field).collect()
    }
}
