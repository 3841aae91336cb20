//! Structural schemas: parse, prune, default, validate.
//!
//! One [`Schema`] serves both worlds: the built-in kinds (an arena made from the published definitions) and
//! custom resources (one arena per version of a definition, shared by every tenant that has the same one).
//!
//! Not here: CEL (see `rules`) and what a kind means (see `builtins`).

mod schema;

pub use schema::*;
