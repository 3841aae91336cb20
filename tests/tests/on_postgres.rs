//! What holds on the embedded store holds on PostgreSQL: the same tests. Transcripts of kubectl are followed there too
//! (`kubectl.rs`).

#[path = "bad_input.rs"]
mod bad_input;
#[path = "clients/main.rs"]
mod clients;
#[path = "durability/main.rs"]
mod durability;
#[path = "isolation.rs"]
mod isolation;
#[path = "watch.rs"]
mod watch;
