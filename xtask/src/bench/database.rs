//! What the measured server stores in: its own directory, or a database on the same machine.

use clap::ValueEnum;
use databases::{etcd, postgres};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    Embedded,
    Postgres,
    Etcd,
}

impl Store {
    pub const ALL: [Store; 3] = [Store::Embedded, Store::Postgres, Store::Etcd];

    pub fn name(self) -> &'static str {
        match self {
            Store::Embedded => "the embedded store",
            Store::Postgres => "PostgreSQL",
            Store::Etcd => "etcd",
        }
    }

    /// As a sentence goes on about it.
    pub fn told(self) -> &'static str {
        match self {
            Store::Embedded => "the embedded store that syncs before it acknowledges",
            Store::Postgres => {
                "PostgreSQL with its own defaults on the same machine, which syncs before it acknowledges and whose \
                 CPU time is not counted"
            }
            Store::Etcd => {
                "etcd, one member with its own defaults on the same machine, which syncs before it acknowledges and \
                 whose CPU time is not counted"
            }
        }
    }

    pub fn page(self) -> &'static str {
        match self {
            Store::Embedded => "docs/benchmarks.md",
            Store::Postgres => "docs/benchmarks-postgres.md",
            Store::Etcd => "docs/benchmarks-etcd.md",
        }
    }

    pub fn option(self) -> &'static str {
        match self {
            Store::Embedded => "",
            Store::Postgres => " --store postgres",
            Store::Etcd => " --store etcd",
        }
    }
}

/// A running one; it goes when this does.
pub enum Database {
    None,
    Postgres(postgres::Server),
    Etcd(etcd::Server),
}

impl Database {
    pub fn start(store: Store) -> Database {
        match store {
            Store::Embedded => Database::None,
            Store::Postgres => Database::Postgres(postgres::Server::new(&[])),
            Store::Etcd => Database::Etcd(etcd::Server::start()),
        }
    }

    /// What it was asked so far, by everybody.
    pub fn asked(&self) -> Option<u64> {
        match self {
            Database::None => None,
            Database::Postgres(server) => Some(server.transactions()),
            Database::Etcd(server) => Some(server.messages()),
        }
    }

    pub fn url(&self) -> Option<String> {
        match self {
            Database::None => None,
            Database::Postgres(server) => Some(server.url()),
            Database::Etcd(server) => Some(server.url()),
        }
    }
}
