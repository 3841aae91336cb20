//! What holds on the embedded store holds on etcd: the same tests, of what is close to the store.

#[path = "bad_input.rs"]
mod bad_input;
#[path = "durability/main.rs"]
mod durability;
#[path = "isolation.rs"]
mod isolation;
#[path = "watch.rs"]
mod watch;
