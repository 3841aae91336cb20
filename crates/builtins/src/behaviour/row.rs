//! A row of the table, built up word by word.

use objects::{ErrorList, Value};

use super::{Behaviour, Generation, PartRule, Selectable, StatusSplit};
use crate::columns::Columns;

pub(super) struct Row {
    pub group: &'static str,
    pub kind: &'static str,
    pub behaviour: Behaviour,
}

pub(super) const fn kind(group: &'static str, kind: &'static str) -> Row {
    Row { group, kind, behaviour: Behaviour::plain() }
}

impl Row {
    pub(super) const fn name(mut self, rule: fn(&str) -> Vec<String>) -> Self {
        self.behaviour.name = rule;
        self
    }

    pub(super) const fn generation(mut self, when: Generation) -> Self {
        self.behaviour.generation = when;
        self
    }

    /// Has a status endpoint; a new object starts with this status.
    pub(super) const fn status(mut self, split: StatusSplit, initial: fn() -> Value) -> Self {
        self.behaviour.status = split;
        self.behaviour.initial_status = Some(initial);
        self
    }

    /// A new object may bring its status along: kubelets register their nodes so.
    pub(super) const fn status_from_client(mut self) -> Self {
        self.behaviour.initial_status = None;
        self
    }

    pub(super) const fn defaults(mut self, defaults: fn(&mut Value)) -> Self {
        self.behaviour.defaults = defaults;
        self
    }

    pub(super) const fn on_create(mut self, create: fn(&mut Value)) -> Self {
        self.behaviour.create = create;
        self
    }

    pub(super) const fn on_update(mut self, update: fn(&mut Value, &Value)) -> Self {
        self.behaviour.update = update;
        self
    }

    pub(super) const fn on_status(mut self, update: fn(&mut Value, &Value)) -> Self {
        self.behaviour.status_update = update;
        self
    }

    pub(super) const fn validate(mut self, validate: fn(&Value) -> ErrorList) -> Self {
        self.behaviour.validate = validate;
        self
    }

    pub(super) const fn validate_new(mut self, validate: fn(&Value) -> ErrorList) -> Self {
        self.behaviour.validate_new = validate;
        self
    }

    pub(super) const fn validate_update(mut self, validate: fn(&Value, &Value) -> ErrorList) -> Self {
        self.behaviour.validate_update = validate;
        self
    }

    pub(super) const fn validate_status(mut self, validate: fn(&Value, &Value) -> ErrorList) -> Self {
        self.behaviour.validate_status_update = validate;
        self
    }

    pub(super) const fn validate_parts(mut self, rules: &'static [(&'static str, PartRule)]) -> Self {
        self.behaviour.validate_parts = rules;
        self
    }

    pub(super) const fn warnings(mut self, warnings: fn(&Value) -> Vec<String>) -> Self {
        self.behaviour.warnings = warnings;
        self
    }

    pub(super) const fn selectable(mut self, fields: &'static [Selectable]) -> Self {
        self.behaviour.selectable = fields;
        self
    }

    pub(super) const fn columns(mut self, columns: &'static Columns) -> Self {
        self.behaviour.columns = columns;
        self
    }
}
