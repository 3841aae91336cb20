//! Role-based access control over one control plane's policy objects, as values.
//!
//! A [`PolicySnapshot`] is built from the four kinds of objects and answers requests; [`Rule`] is what
//! one line of a role means; [`escalation`] keeps people from granting what they do not hold;
//! [`aggregation`] fills in the rules of aggregated cluster roles.

pub mod aggregation;
pub mod escalation;
mod policy;
mod pool;
mod rule;
#[cfg(test)]
mod tests;
pub mod validation;

pub use policy::{PolicySnapshot, ResolvedRules};
pub use pool::RulePool;
pub use rule::Rule;

pub const GROUP: &str = "rbac.authorization.k8s.io";
