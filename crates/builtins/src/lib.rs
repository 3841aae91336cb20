//! The built-in kinds as data, and the documents that tell clients what a server offers.
//!
//! [`types()`] is the table of resources; [`cursor`] finds the schema of a kind; [`discovery`] and `openapi`
//! write the documents for any surface, built in and custom. [`storage_type`] and `convert` know the few
//! resources that are one set of objects under two names.
//!
//! Not here: the server's verbs, who may use them, and anything that a tenant owns.

pub mod discovery;
pub mod priority;
mod schema;
mod storage;
mod types;

pub use schema::{cursor, definitions};
pub use storage::storage_type;
pub use types::types;
