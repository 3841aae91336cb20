//! Fields of a kind that name other objects, and fields that name keys of Secrets, by path.

use super::fields::{Home, Type};
use super::sites::Site;
use super::{KindFacts, KindsError, Plan};
use crate::crd::names;
use crate::model::Kind as ShapeKind;

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
    pub fn references(&self) -> Result<Vec<ReferenceFact>, KindsError> {
        let plan = self.plan()?;
        let mut references = Vec::new();
        for (path, rule) in &self.rules.fields {
            let Some(told) = &rule.value.reference else { continue };
            let parts = told.split_once(' ').and_then(|(kind, target)| Some((kind.split_once('/')?, target)));
            let (Some(((service, kind), target)), Some(place)) = (parts, place(plan, path)) else { continue };
            references.push(ReferenceFact {
                field: place.field,
                reference: place.reference,
                service: service.to_owned(),
                kind: kind.to_owned(),
                target: target.to_owned(),
                required: !path.contains('.') && self.needs(plan, path),
                unready: rule.value.ref_unready,
                later: rule.value.ref_unready && self.is_put_later(path),
            });
        }
        Ok(references)
    }

    /// Whether calls after the creating one put what stands at a path.
    fn is_put_later(&self, path: &str) -> bool {
        let word = path.split('.').next().unwrap_or(path);
        let part = self.rules.parts.get(word).map(|part| part.value.on_create);
        let collection = self.rules.collections.get(word).map(|collection| collection.value.on_create);
        part.or(collection) == Some(false)
    }

    /// Paths of the fields that hold references to keys of Secrets.
    pub fn secret_fields(&self) -> Result<Vec<String>, KindsError> {
        let plan = self.plan()?;
        let told = self.rules.fields.iter().filter(|(_, rule)| rule.value.secret);
        Ok(told.filter_map(|(path, _)| place(plan, path)).map(|place| place.field).collect())
    }

    /// Paths of the fields that AWS takes and never shows.
    pub fn hidden_fields(&self) -> Result<Vec<String>, KindsError> {
        let plan = self.plan()?;
        let told = self.rules.fields.iter().filter(|(_, rule)| rule.value.hidden);
        Ok(told.filter_map(|(path, _)| place(plan, path)).map(|place| place.field).collect())
    }

    fn needs(&self, plan: &Plan, word: &str) -> bool {
        if let Some(required) = self.rules.fields.get(word).and_then(|rule| rule.value.required) {
            return required;
        }
        let create = &self.rules.operations.create.value;
        let renames = self.rules.renames.get(create);
        let member = renames
            .and_then(|renames| renames.value.iter().find(|(_, field)| *field == word))
            .map_or(word, |(member, _)| member.as_str());
        let input = Site::input(plan.model(), create);
        input.and_then(|input| input.shape.member(member)).is_some_and(|member| member.is_required())
    }
}

struct Found {
    field: String,
    reference: String,
}

/// A path of words as it is published; `[]` where it goes through a list.
fn place(plan: &Plan, path: &str) -> Option<Found> {
    let mut words = path.split('.');
    let field = plan.field(words.next()?)?;
    let home = match field.home {
        Home::Spec => "spec",
        Home::Status => "status",
    };
    let mut parent = home.to_owned();
    let mut word = field.word.clone();
    let mut name = field.name.clone();
    let (mut site, mut of_list) = match &field.kind {
        Type::Model(site) => (Some(*site), site.shape.kind() == ShapeKind::List),
        Type::ListOf(site) => (Some(*site), true),
        Type::MapOf(site) => (Some(*site), false),
        Type::Literal(literal) => (None, matches!(literal, super::sites::Literal::List(_))),
        Type::Reference { .. } => return None,
    };
    for next in words {
        parent = format!("{parent}.{name}{}", if of_list { "[]" } else { "" });
        let inside = site?.content();
        let member = inside.shape.member(next)?;
        name = plan.overlay().name_in(inside.place, member.name()).to_string();
        word = next.to_owned();
        site = Some(Site::of(member.shape()));
        of_list = member.shape().kind() == ShapeKind::List;
    }
    let reference = names::published(&names::reference(&word, of_list));
    Some(Found { field: format!("{parent}.{name}"), reference: format!("{parent}.{reference}") })
}
