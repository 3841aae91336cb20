//! Behaviour of the whole crate: sequences of writes by several managers, and what they leave behind.

mod appliers;
mod comparing;
mod conflicts;
mod fixture;
mod kubectl;
mod merging;
mod owners;
mod properties;
mod real;
mod speed;
mod updaters;
mod versions;
