//! What holds on the embedded store holds on PostgreSQL: the same attacks.

#[path = "isolation/main.rs"]
mod isolation;
