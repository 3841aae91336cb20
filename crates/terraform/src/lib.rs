//! Any cloud as objects, by Terraform provider plugins.
//!
//! [`driver`] is what the cloud engine asks, [`registry`] knows which kinds there are, and [`dialect`] says what is the
//! case as Kubeform does. [`providers`] and [`source`] are where programs come from. [`shape`], [`names`] and
//! [`definition`] are Kubeform's objects, [`module`] its modules, and [`openings`] what providers hold open for those; [`queries`] find what
//! exists. [`plugin`] runs providers and asks them; [`value`] and [`schema`] are what is
//! exchanged with them. Everything a provider can do is used over its wire protocol, version 5 or 6: there is no
//! terraform program here, and nothing is built for a provider.
//!
//! Not here: the reconcile (`provision` has one for all clouds), HTTP, and configuration files.

pub mod backend;
pub mod change;
pub mod definition;
pub mod diagnostic;
pub mod dialect;
pub mod driver;
pub mod hcl;
pub mod memory;
pub mod module;
pub mod names;
pub mod openings;
pub mod plugin;
pub mod protocol;
pub mod providers;
pub mod queries;
pub mod registry;
pub mod schema;
pub mod shape;
pub mod source;
pub mod value;
mod web;
