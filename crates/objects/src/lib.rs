//! The vocabulary of the house: names, kinds, field errors, statuses, selectors, quantities, times and patches.
//!
//! An object is a [`serde_json::Value`]; nothing here makes it a typed struct, so fields that nobody
//! knows survive. Everything is pure: no I/O, no clock, no tasks, and no input makes it panic.
//!
//! Not here: schemas (see `schemas`), storage keys (see `store`), HTTP.

pub mod decode;
pub mod equal;
pub mod field;
pub mod kind;
pub mod meta;
pub mod metadata;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod raw;
pub mod resource;
pub mod selector;
pub mod status;
pub mod time;

pub use compact_str::CompactString;
pub use field::{ErrorList, Path};
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use quantity::Quantity;
pub use resource::{ResourceType, Scope, Subresource, Verb, Verbs};
pub use serde_json::Value;
pub use status::{Reason, Status};
