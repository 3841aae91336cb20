//! CEL as Kubernetes speaks it: check against a schema, bound the cost, evaluate.
//!
//! - [`CompiledRules`]: the `x-kubernetes-validations` of a schema. Compile once per schema, validate every object.
//! - [`Expression`] and [`Bindings`]: one expression with declared variables, for admission policies.
//! - [`Budget`]: what the evaluation of one object may cost.
//!
//! The way of an expression: `syntax` (text to tree) -> `check` and `expand` (names, types, macros, estimated cost; the
//! tree becomes a `program`) -> `eval` (a walk over the program, with values borrowed from the object). The functions
//! are tables in `library`, which all three stages read. Why this is no dependency: docs/decisions/0003-cel-engine.md.
//!
//! **Invariant:** no input panics or overflows the stack. Expressions are bounded in length and depth when they are
//! parsed, every step of an evaluation is charged, and whatever can grow is charged before it is built.
//!
//! Not here: value validations of a schema (see `schemas`), what admission does with a verdict (see `admission`), clocks
//! and I/O. Authorization checks reach out through [`HostObject`], which the caller implements.

mod budget;
mod check;
mod compare;
mod error;
mod eval;
mod expand;
mod expression;
mod field_path;
mod host;
mod library;
mod program;
mod schema_rules;
mod syntax;
mod ty;
mod types;
mod validate;
mod value;

#[cfg(test)]
mod tests;

pub use budget::{Budget, ESTIMATED_RULE_LIMIT, ESTIMATED_SCHEMA_LIMIT, PER_CALL_LIMIT, PER_OBJECT_LIMIT};
pub use error::{CompileError, EvalError};
pub use expression::{Bindings, Definition, Expression, VariableType};
pub use host::{HostObject, HostValue};
pub use schema_rules::CompiledRules;
pub use validate::Review;
