//! Server-side apply: who owns which field, and what happens when two want the same one.
//!
//! - [`track_update`] is called on every write that is no apply; it keeps `metadata.managedFields` right.
//! - [`apply`] merges a configuration into an object, finds conflicts, and prunes what its applier gave up.
//! - [`FieldSet`] is a set of paths, read from and written as `FieldsV1`; [`set_of`] and [`compare`] make sets
//!   of objects.
//! - [`Versions`] is what the caller knows of the kind: the schema of each version, and how to convert.
//!
//! The behaviour is Kubernetes' structured-merge-diff, and the managers that the API server wraps around it.
//! Everything is pure: time comes in as text, and no input makes it panic.
//!
//! Not here: defaulting, validation and admission of the merged object, and what an endpoint may write at all
//! (it is told by [`Write::reset`]).

mod apply;
mod compare;
mod conflict;
mod element;
mod entries;
mod fields;
mod fields_v1;
mod last_applied;
mod merge;
mod place;
mod remove;
mod set;
mod update;
mod validate;
mod values;
mod versions;

pub use apply::{Applied, apply};
pub use compare::{Comparison, compare};
pub use conflict::{ApplyError, Conflict};
pub use element::{ElementError, PathElement};
pub use entries::{Entry, EntryError, ManagedFields, Operation, owned_by};
pub use fields::set_of;
pub use fields_v1::FieldsError;
pub use place::ItemError;
pub use set::{FieldSet, shown_path};
pub use update::{Write, forget_new_times, track_update};
pub use validate::TypeError;
pub use versions::{ConversionError, Versions};

#[cfg(test)]
mod tests;
