//! Terraform modules as objects, without the terraform program.
//!
//! A module's files ([`files`]) are read into what they declare ([`config`]), with the modules that they call
//! ([`tree`]); names are checked and put into order ([`graph`]); expressions are evaluated ([`expression`], [`template`], [`functions`]) to terms ([`term`], [`types`], [`unify`]);
//! arguments become values of a provider's schema ([`body`]). What is there is found by the addresses it has by now
//! ([`moving`]). [`course`] decides, without doing anything, which resource
//! objects ([`children`]) there should be now, of what can be seen ([`view`]) and what providers say ([`providing`]),
//! which [`finding`] brings together; [`controller`], [`pass`] and [`writing`] do it, or [`planning`] tells what would be
//! done; what Kubeform's controller left is taken over ([`takeover`]). What is ephemeral has no value in all of that; it is
//! opened for those who look after a resource that needs it ([`opening`]). Every resource of a module is an object of
//! the kind of all types, so that creation, drift, crashes and deletion are the cloud engine's, as for any other.

mod address;
mod arithmetic;
mod body;
pub(crate) mod children;
mod config;
mod controller;
mod course;
mod expression;
mod files;
mod finding;
mod functions;
mod graph;
mod inputs;
pub mod kinds;
mod moving;
mod opening;
mod pass;
mod planning;
mod problem;
mod providing;
mod reading;
mod references;
mod takeover;
mod template;
mod term;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod unify;
mod view;
mod writing;

pub use controller::Modules;
pub use planning::Part;
