//! Structural schemas: parse, prune, default, validate.
//!
//! One [`Schema`] serves both worlds: the built-in kinds (an arena made from the published definitions, see
//! [`Definitions`]) and custom resources (one arena per version of a definition, shared by every tenant that has
//! the same one, see [`Schema::from_crd`]). What is done with a value starts at a [`Cursor`]: [`decode_errors`],
//! [`prune`], [`default()`], [`validate`], in that order. [`crd`] is about definitions as objects of their own.
//!
//! Not here: CEL (see `rules`) and what a kind means (see `builtins`).

mod build;
pub mod crd;
mod custom;
mod decode;
mod default;
mod definitions;
mod object_meta;
mod patch;
mod pattern;
mod prune;
mod schema;
pub mod structural;
mod validate;

pub use decode::decode_errors;
pub use default::default;
pub use definitions::{Definitions, DefinitionsError};
pub use prune::{PruneOptions, prune, prune_nulls, unknown_fields};
pub use schema::*;
pub use validate::{blocks_rules, validate};

#[cfg(test)]
mod tests;
