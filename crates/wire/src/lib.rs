//! What goes over the wire around an object: media types, queries, the options of the verbs, YAML, protobuf, tables.
//!
//! In the order of a request: [`negotiate`] reads `Accept` and `Content-Type`, [`query`] and [`options`] what stands
//! after the `?`, [`yaml`] and [`protobuf`] the bodies that are no JSON; [`table`] (with [`jsonpath`] and [`duration`])
//! makes what kubectl prints. Everything is pure and takes text or values, and the time where it matters.
//!
//! Not here: the objects themselves and their JSON (see `objects`), schemas, discovery and OpenAPI documents (see
//! `builtins`), HTTP types, what a verb does.

pub mod duration;
pub mod jsonpath;
pub mod negotiate;
pub mod options;
pub mod protobuf;
pub mod query;
pub mod table;
pub mod yaml;
