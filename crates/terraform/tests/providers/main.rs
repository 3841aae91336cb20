//! Providers as real processes: one of our own that can misbehave, and some that others wrote the frameworks of.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod adopting;
mod backends;
mod beyond;
mod calls;
mod conditions;
mod crashes;
mod ephemeral;
mod faults;
mod following;
mod frameworks;
mod functions;
mod identities;
mod kubeform;
mod lasting;
mod modules;
mod moves;
mod objects;
mod pace;
mod plane;
mod postgres;
mod pyvider;
mod queries;
mod repositories;
mod sandboxes;
mod saying;
mod shelf;
mod ssh;
mod steps;
mod sweep;
mod world;
