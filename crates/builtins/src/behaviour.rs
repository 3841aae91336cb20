//! What a built-in kind does that its schema does not tell.
//!
//! [`behaviour`] finds the row of a kind; a kind without one gets the plain behaviour that every object has.
//! `table` is meant to be read; the functions its rows name are in `defaults`, `validation`, `columns`, and
//! beside this file.
//!
//! The order in which a server calls them, with what else happens in between:
//! 1. on decoding, after every patch, and again after admission has changed an object: [`Behaviour::defaults`]
//! 2. (mutating admission; allocation of what a Service is given, and of names and uids)
//! 3. [`Behaviour::prepare_create`], [`Behaviour::prepare_update`] or [`Behaviour::prepare_status_update`]
//! 4. [`Behaviour::validate`], [`Behaviour::validate_update`] or [`Behaviour::validate_status_update`]
//!
//! Preparation after admission matters: the class of a pod follows from the limits that admission gives it, and
//! a generation counts what admission changed.

pub(crate) mod names;
mod prepare;
mod row;
mod selectable;
mod service;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use objects::{ErrorList, Value, equal, meta};

pub use self::selectable::Selectable;
pub(crate) use self::service::is_reachable_from_outside;
use crate::columns::{self, Columns};
use crate::dotted::Dotted;

/// When `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// One at creation and for ever.
    Once,
    /// With every change to anything but metadata and status.
    Body,
    /// With annotations too: deployments hand theirs to their replica sets.
    BodyAndAnnotations,
    /// With labels too: they say whose endpoint slice it is.
    BodyAndLabels,
}

/// How the kind treats `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSplit {
    /// No `status` apart: the main endpoint writes the whole object.
    None,
    /// A status endpoint that also lets labels, annotations and finalizers through.
    WithMetadata,
    /// A status endpoint that lets annotations through but keeps labels.
    KeepLabels,
    /// A status endpoint that writes nothing but `status`.
    StatusOnly,
}

/// The behaviour of a kind; see the module for the order of calls.
pub struct Behaviour {
    pub generation: Generation,
    pub status: StatusSplit,
    /// Fields that may be selected by besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [Selectable],
    /// What `kubectl get` shows.
    pub columns: &'static Columns,
    name: fn(&str) -> Vec<String>,
    defaults: fn(&mut Value),
    /// The status of a new object; `None` leaves what the client sent.
    initial_status: Option<fn() -> Value>,
    create: fn(&mut Value),
    update: fn(&mut Value, &Value),
    status_update: fn(&mut Value, &Value),
    validate: fn(&Value) -> ErrorList,
    /// What more is asked of a new object only.
    validate_new: fn(&Value) -> ErrorList,
    validate_update: fn(&Value, &Value) -> ErrorList,
    validate_status_update: fn(&Value, &Value) -> ErrorList,
    validate_parts: &'static [(&'static str, PartRule)],
    warnings: fn(&Value) -> Vec<String>,
}

/// What is wrong with a change by an endpoint that writes a part of an object: the new state, and the old.
type PartRule = fn(&Value, &Value) -> ErrorList;

/// The behaviour of a built-in kind, whatever its version.
pub fn behaviour(group: &str, kind: &str) -> &'static Behaviour {
    static INDEX: LazyLock<HashMap<(&str, &str), &Behaviour>> =
        LazyLock::new(|| table::ROWS.iter().map(|row| ((row.group, row.kind), &row.behaviour)).collect());
    INDEX.get(&(group, kind)).copied().unwrap_or(&PLAIN)
}

/// Group and kind of every row of the table.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    table::ROWS.iter().map(|row| (row.group, row.kind))
}

/// The behaviour of a custom resource, with or without the status subresource.
pub fn custom(with_status: bool) -> &'static Behaviour {
    if with_status { &CUSTOM_WITH_STATUS } else { &CUSTOM }
}

static PLAIN: Behaviour = Behaviour::plain();
static CUSTOM: Behaviour = Behaviour { generation: Generation::Body, ..Behaviour::plain() };
static CUSTOM_WITH_STATUS: Behaviour = Behaviour {
    generation: Generation::Body,
    status: StatusSplit::StatusOnly,
    // Nobody but its controllers says how a new object is.
    create: |object| {
        object.as_object_mut().map(|members| members.remove("status"));
    },
    ..Behaviour::plain()
};

impl Behaviour {
    const fn plain() -> Self {
        Behaviour {
            generation: Generation::None,
            status: StatusSplit::None,
            selectable: &[],
            columns: &columns::PLAIN,
            name: names::subdomain,
            defaults: |_| {},
            initial_status: None,
            create: |_| {},
            update: |_, _| {},
            status_update: |_, _| {},
            validate: |_| ErrorList::new(),
            validate_new: |_| ErrorList::new(),
            validate_update: |_, _| ErrorList::new(),
            validate_status_update: |_, _| ErrorList::new(),
            validate_parts: &[],
            warnings: |_| Vec::new(),
        }
    }

    pub fn has_status(&self) -> bool {
        self.status != StatusSplit::None
    }

    /// What is wrong with a name; nothing if it may be used.
    pub fn name(&self, name: &str) -> Vec<String> {
        (self.name)(name)
    }

    /// Fills in what clients may leave out. Doing it twice changes nothing.
    pub fn defaults(&self, object: &mut Value) {
        (self.defaults)(object);
    }

    /// Takes away what a client may not set on a new object and sets what every new object has.
    pub fn prepare_create(&self, object: &mut Value) {
        if let Some(initial) = self.initial_status {
            object.put("status", initial());
        }
        (self.create)(object);
        match self.generation {
            Generation::None => {}
            _ => meta::set(object, "generation", 1),
        }
    }

    /// Carries over from the old object what an update may not change, and counts the generation.
    pub fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status() {
            new.keep("status", old);
        }
        (self.update)(new, old);
        self.count_generation(new, old);
    }

    /// Keeps everything from the old object but the status and the metadata that may come with it.
    pub fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        let kept: &[&str] = match self.status {
            StatusSplit::None | StatusSplit::WithMetadata => &[],
            StatusSplit::KeepLabels => &["labels"],
            StatusSplit::StatusOnly => {
                &["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"]
            }
        };
        for field in ["generation"].iter().chain(kept) {
            new.keep(&format!("metadata.{field}"), old);
        }
        (self.status_update)(new, old);
    }

    /// What is wrong with a new object. Its metadata is checked elsewhere, for all kinds alike.
    pub fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = (self.validate)(object);
        errors.extend((self.validate_new)(object));
        errors
    }

    /// What is wrong with the new state of an object, in itself or as a change of the old one.
    pub fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = (self.validate)(new);
        errors.extend((self.validate_update)(new, old));
        errors
    }

    pub fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        (self.validate_status_update)(new, old)
    }

    /// What is wrong with a change by another endpoint than the object's and its status': `ephemeralcontainers` and
    /// `resize` of pods, `approval` of signing requests, `finalize` of namespaces.
    pub fn validate_part(&self, subresource: &str, new: &Value, old: &Value) -> ErrorList {
        let rule = self.validate_parts.iter().find(|(name, _)| *name == subresource);
        rule.map_or_else(ErrorList::new, |(_, rule)| rule(new, old))
    }

    /// What the writer of an object should be warned of, in `Warning` headers.
    pub fn warnings(&self, object: &Value) -> Vec<String> {
        (self.warnings)(object)
    }

    /// Finds a selectable field, `metadata.name` and `metadata.namespace` excepted.
    pub fn selectable(&self, field: &str) -> Option<&'static Selectable> {
        self.selectable.iter().find(|selectable| selectable.field == field)
    }

    /// Counts what differs from the old object. Part of [`Behaviour::prepare_update`]; endpoints that write a part of
    /// the spec call it themselves.
    pub fn count_generation(&self, new: &mut Value, old: &Value) {
        let counted: &[&str] = match self.generation {
            Generation::None => return,
            Generation::Once | Generation::Body => &[],
            Generation::BodyAndAnnotations => &["metadata.annotations"],
            Generation::BodyAndLabels => &["metadata.labels"],
        };
        let changed = self.generation != Generation::Once
            && (!same_body(new, old, self.has_status())
                || counted.iter().any(|path| !same(new.at(path), old.at(path))));
        let generation = meta::generation(old);
        meta::set(new, "generation", if changed { generation.saturating_add(1) } else { generation });
    }
}

/// Equal as Go's semantic equality has it: null, empty objects and empty lists are alike.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let within = |a: &Value, b: Option<&Value>| same(a, b.unwrap_or(&Value::Null));
            one.iter().all(|(key, value)| within(value, other.get(key)))
                && other.iter().all(|(key, value)| one.contains_key(key) || empty(value))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (one, other) => equal::semantic(one, other) || (empty(one) && empty(other)),
    }
}

fn same_body(new: &Value, old: &Value, has_status: bool) -> bool {
    let (Some(one), Some(other)) = (new.as_object(), old.as_object()) else { return new == old };
    let counts = |field: &str| {
        !matches!(field, "metadata" | "apiVersion" | "kind") && (field != "status" || !has_status)
    };
    let mut fields = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
    fields.all(|field| !counts(field) || same(new.at(field), old.at(field)))
}

fn keep_all_but(new: &mut Value, old: &Value, free: &[&str]) {
    let (Some(fields), Some(kept)) = (new.as_object_mut(), old.as_object()) else { return };
    fields.retain(|field, _| free.contains(&field.as_str()));
    for (field, value) in kept.iter().filter(|(field, _)| !free.contains(&field.as_str())) {
        fields.insert(field.clone(), value.clone());
    }
}
