//! The store on PostgreSQL: one schema for all tenants, any number of replicas of the server on it.
//!
//! Reads in this order: [`schema`] (what is stored), [`connection`] and [`readers`] (how it is reached), [`snapshot`]
//! (how it is read), [`batch`] and [`writer`] (how writes of many become one transaction), [`tenants`] (how tenants
//! are made, copied and ended), [`tail`] (how watches hear of what other replicas wrote), [`chores`] and
//! [`compaction`] (what is done later, by whichever replica comes first).
//!
//! **Order without gaps.** A reader that has read up to a position must never find a line before it later. A
//! sequence cannot promise that: its numbers are taken in one order and committed in another. Positions here come
//! from one row, `counter`, which a transaction changes as its last act. Its lock is held from there through the
//! commit, so positions are committed in their order, without holes, and whoever sees one sees all before it. All
//! that is sent under that lock leaves in one piece with the COMMIT, so it is held for the database's own work and
//! no trip over the network. The price is that commits stand in line; group commit makes each of them carry all
//! writes that wait. The other way, to read only below the oldest running transaction, lets any forgotten
//! transaction of the database hold back every watch.
//!
//! **What was acknowledged.** A connection that is lost during a commit leaves it unknown whether it happened. Each
//! process has a row of its own (`writer`), locked at the beginning of its transactions and numbered by them, so the
//! next connection waits for the end of the lost transaction and reads what became of it.
//!
//! **Nothing belongs to an idle tenant**: a process has one connection that listens and asks one question every few
//! seconds, for all tenants together.
//!
//! Not here: a cache. Reads ask the database, so that a read after a write through any replica sees it.

mod address;
mod batch;
mod chores;
mod compaction;
mod connection;
mod fault;
mod fencing;
mod hosts;
pub mod kine;
mod log;
mod partitions;
mod passfile;
mod readers;
mod schema;
mod session;
mod snapshot;
mod statements;
mod store;
mod tail;
mod tenants;
mod tls;
mod writer;

pub use address::{AddressError, Surroundings};
pub use connection::OpenError;
pub use session::{Session, SessionError, connect, is_answer, needs_files, words};
pub use store::{Options, Postgres};
