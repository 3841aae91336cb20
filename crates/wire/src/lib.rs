//! What goes over the wire around an object: media types, queries and options of the verbs.
//!
//! Everything is pure and takes text or values; HTTP types and sockets are the callers' business.
//!
//! Not here: the objects themselves and their JSON (see `objects`), schemas, what a verb does.

pub mod negotiate;
pub mod options;
pub mod query;
