//! Revisions, ranges and watches over one of several engines.
//!
//! Everything above this crate sees [`Store`]; nothing above it knows which engine runs.
//! A key is always (tenant, type, namespace, name), so whatever is done to a tenant is done to a range.
//!
//! [`embedded`] is the engine of one machine, [`dedicated`] many of it, one for each tenant; [`cached`] answers reads of engines elsewhere from memory; [`late`] is a store
//! that is away at first, and [`claimed`] one behind the fence of another store. What every
//! engine needs is beside them: [`fanout`] (watches),
//! [`codec`] (keys as bytes), [`checksum`] (of records), [`export`] (a tenant as a file), and `conformance` (what every engine must pass; a
//! feature).
//!
//! Not here: objects. This crate moves bytes and knows nothing of Kubernetes.

pub mod cached;
pub mod checksum;
mod claim;
pub mod codec;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod dedicated;
pub mod embedded;
pub mod export;
pub mod fanout;
mod interface;
mod late;
mod stand_in;

pub use cached::Cached;
pub use claim::claimed;
pub use dedicated::Dedicated;
pub use embedded::Embedded;
pub use interface::*;
pub use late::{Arrival, late};
