//! Any cloud as objects, by Terraform provider plugins.
//!
//! [`plugin`] runs providers and asks them; [`value`] and [`schema`] are what is exchanged with them. Everything a
//! provider can do is used over its wire protocol, version 5 or 6: there is no terraform program here, and nothing is
//! built for a provider.
//!
//! Not here: the reconcile (`provision` has one for all clouds), HTTP, and configuration files.

pub mod diagnostic;
pub mod plugin;
mod protocol;
pub mod schema;
pub mod value;
