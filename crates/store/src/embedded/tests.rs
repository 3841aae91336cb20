//! What is the embedded engine's own: opening, disks that misbehave, kills, bounded memory. The rest is
//! `conformance`.

mod conformance;
mod crash;
mod damage;
mod disk;
mod scale;
mod size;
