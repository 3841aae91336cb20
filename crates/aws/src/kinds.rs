//! The kinds that models and rules make together.
//!
//! [`all`] lists them by their names alone; the [`Plan`] of one (its fields with their types, its operations) is
//! made when it is first asked for, and only then is the service's model unpacked.
//!
//! Not here: calls. A plan says what could be called; [`crate::driver`] calls.

pub mod calls;
pub mod compare;
pub mod fields;
pub mod functions;
mod grants;
pub mod listing;
pub mod paths;
pub mod places;
pub mod policy;
pub mod references;
pub mod send;
pub mod sites;
pub mod table;
pub mod tags;
pub mod translate;
pub mod trials;
pub mod unseen;

use std::sync::{LazyLock, OnceLock};

use fields::Derivation;
pub use fields::{Field, Home, Type};
use sites::Overlay;

use crate::crd::names;
use crate::model::{self, ModelError};
use crate::rules::vocabulary::{Field as FieldRule, Kind as KindRules, NotFound};
use crate::rules::{self, ServiceRules};

/// The end of every group.
pub const GROUP_SUFFIX: &str = "services.k8s.aws";

/// A kind cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KindsError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the rules of {service} name {word:?}, which its model does not have")]
    Unknown { service: String, word: String },
}

/// A kind by its names, and its rules.
pub struct KindFacts {
    pub service: &'static str,
    pub kind: &'static str,
    pub plural: String,
    pub rules: &'static KindRules,
    /// The rules of the whole service.
    pub of_service: &'static ServiceRules,
    plan: OnceLock<Plan>,
}

impl KindFacts {
    /// Every kind of a service.
    pub fn of_service(rules: &'static ServiceRules) -> impl Iterator<Item = KindFacts> {
        rules.rules.kinds.iter().map(move |(kind, told)| KindFacts {
            service: &rules.name,
            kind,
            plural: told.value.plural.clone().unwrap_or_else(|| names::plural(kind)),
            rules: &told.value,
            of_service: rules,
            plan: OnceLock::new(),
        })
    }

    pub fn group(&self) -> String {
        format!("{}.{GROUP_SUFFIX}", self.service)
    }

    /// The model's word for the kind.
    pub fn resource(&self) -> &'static str {
        self.rules.named.as_deref().unwrap_or(self.kind)
    }

    /// The finalizer that objects of the kind have while something of them may be in AWS.
    pub fn finalizer(&self) -> String {
        format!("finalizers.{}.{GROUP_SUFFIX}/{}", self.service, self.kind)
    }

    /// How much of the kind works.
    pub fn level(&self) -> Level {
        let operations = &self.rules.operations;
        let whole = self.reading_operation().is_some() && operations.delete.is_some();
        match (self.rules.full, whole || self.rules.function.is_some()) {
            (true, _) => Level::Full,
            (false, true) if trials::is_tried(self) => Level::Tried,
            (false, true) => Level::Basic,
            (false, false) => Level::SchemaOnly,
        }
    }

    /// The operation that reads an object, as far as one operation does.
    pub fn reading_operation(&self) -> Option<&'static str> {
        let operations = &self.rules.operations;
        let told = self.rules.read.as_ref().map(|call| &call.call);
        let told = told.or(operations.read.as_ref()).or(operations.get_attributes.as_ref());
        told.or(operations.list.as_ref()).map(|operation| operation.value.as_str())
    }

    /// Whether an error says that there is no such object: by the rules, or as one of the errors of the reading call that
    /// have the status 404 in the model, or, where models tell no status, say it by their names.
    pub fn is_not_found(&self, code: &str, message: &str) -> bool {
        let told = self.rules.errors.not_found.iter().any(|told| match told {
            NotFound::Code(told) => told == code,
            NotFound::Message(told) => {
                told.code == code
                    && told.starts.as_ref().is_none_or(|start| message.starts_with(start.as_str()))
                    && told.ends.as_ref().is_none_or(|end| message.ends_with(end.as_str()))
            }
        });
        if told {
            return true;
        }
        let operation = self
            .reading_operation()
            .and_then(|operation| self.plan().ok().and_then(|plan| plan.model().operation(operation)));
        operation.is_some_and(|operation| {
            operation.errors().any(|error| {
                let facts = error.error();
                let named = facts.and_then(|facts| facts.code.as_deref()).unwrap_or(error.name());
                let status = facts.and_then(|facts| facts.http_status);
                named == code && status.map_or_else(|| self.says_not_found(code), |status| status == 404)
            })
        })
    }

    /// Whether a code says that there is nothing, and not that something is missing which the object needs.
    fn says_not_found(&self, code: &str) -> bool {
        let what = ["NotFoundException", "NotFoundFault", "NotFound"];
        let what = what.into_iter().find_map(|end| code.strip_suffix(end));
        what.is_some_and(|what| matches!(what, "" | "Resource") || what == self.resource())
    }

    /// What the model and the rules make of the kind.
    pub fn plan(&self) -> Result<&Plan, KindsError> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let model = model::service(self.service)?;
        let plan = Plan::new(self, model);
        Ok(self.plan.get_or_init(|| plan))
    }
}

impl std::fmt::Debug for KindFacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.service, self.kind)
    }
}

/// How much of a kind works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Everything that its rules tell, tried against an emulator.
    Full,
    /// Created, read, at rest and deleted against an emulator; no changes were tried.
    Tried,
    /// Created, read, updated and deleted by its operations alone; no emulator could try it.
    Basic,
    /// Its objects can be stored; the operations to make and find what they stand for are not known.
    SchemaOnly,
}

/// All kinds, by service and kind.
pub fn all() -> &'static [KindFacts] {
    static ALL: LazyLock<Vec<KindFacts>> =
        LazyLock::new(|| rules::all().iter().flat_map(KindFacts::of_service).collect());
    &ALL
}

/// A kind by its service and name.
pub fn find(service: &str, kind: &str) -> Option<&'static KindFacts> {
    all().iter().find(|facts| facts.service == service && facts.kind == kind)
}

/// A kind by its group and plural.
pub fn by_resource(group: &str, plural: &str) -> Option<&'static KindFacts> {
    let service = group.strip_suffix(GROUP_SUFFIX)?.strip_suffix('.')?;
    all().iter().find(|facts| facts.service == service && facts.plural == plural)
}

/// What model and rules make of a kind.
#[derive(Debug)]
pub struct Plan {
    model: &'static model::Service,
    overlay: &'static Overlay,
    fields: Vec<Field>,
}

impl Plan {
    fn new(facts: &KindFacts, model: &'static model::Service) -> Plan {
        let overlay = facts.of_service.overlay.get_or_init(|| overlay(facts.of_service, model));
        let derivation = Derivation { model, overlay, resource: facts.resource(), rules: facts.rules };
        let fields = derivation.fields();
        Plan { model, overlay, fields }
    }

    pub fn model(&self) -> &'static model::Service {
        self.model
    }

    /// Those of the spec, then those of the status, each sorted by published name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// A field by its word.
    pub fn field(&self, word: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.word == word)
    }

    pub fn overlay(&self) -> &Overlay {
        self.overlay
    }
}

/// What the rules of all kinds say of the structures of a service.
fn overlay(rules: &ServiceRules, model: &'static model::Service) -> Overlay {
    let mut overlay = Overlay::new(model, rules);
    for (kind, told) in &rules.rules.kinds {
        let nested: Vec<(&String, &FieldRule)> = told
            .value
            .fields
            .iter()
            .filter(|(path, _)| path.contains('.'))
            .map(|(path, rule)| (path, &*rule.value))
            .collect();
        if nested.is_empty() {
            continue;
        }
        let resource = told.value.named.as_deref().unwrap_or(kind);
        let fields = Derivation { model, overlay: &overlay, resource, rules: &told.value }.fields();
        for (path, rule) in nested {
            let words: Vec<&str> = path.split('.').collect();
            let field = fields.iter().find(|field| field.word == words[0]);
            let site = match field.map(|field| &field.kind) {
                Some(Type::Model(site) | Type::ListOf(site) | Type::MapOf(site)) => *site,
                _ => continue,
            };
            overlay.tell(site, &words[1..], rule);
        }
    }
    overlay
}

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
