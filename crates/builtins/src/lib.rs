//! The built-in kinds as data, and the documents that tell clients what a server offers.
//!
//! [`types()`] is the table of resources; [`cursor`] finds the schema of a kind; [`behaviour()`] tells what it does:
//! defaults, validation, columns, selectable fields, and what changes on the way into the store. [`discovery`] and
//! [`openapi`] write the documents for any surface, built in and custom. [`storage_type`] and [`convert`] know the
//! few resources that are one set of objects under two names.
//!
//! Not here: the server's verbs, who may use them, and anything that a tenant owns.

mod behaviour;
mod columns;
mod convert;
mod defaults;
pub mod discovery;
mod dotted;
pub mod openapi;
pub mod priority;
mod resources;
mod schema;
mod storage;
mod types;
mod validation;

pub use behaviour::{Behaviour, Generation, Selectable, StatusSplit, behaviour, custom};
pub use columns::{Column, Columns};
pub use convert::convert;
pub use schema::{cursor, definitions};
pub use storage::storage_type;
pub use types::types;
