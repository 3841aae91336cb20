//! What holds on the embedded store holds on etcd: the same attacks.

#[path = "isolation/main.rs"]
mod isolation;
