//! The plugin protocol's messages and the names of its calls; nothing here does I/O.

pub mod messages;
mod methods;

pub use methods::{Call, Version};
