//! What a server stores in: a directory of its own, or a database that is started for it.

use std::sync::Mutex;

use databases::{etcd, postgres};

/// The engines that a server can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Embedded,
    Postgres,
    Etcd,
}

impl Engine {
    /// The one that this test binary stands for: `on_postgres` and `on_etcd` hold the same tests as the others.
    pub fn of_this_test() -> Engine {
        let test = std::env::current_exe().unwrap();
        let name = test.file_name().unwrap().to_string_lossy();
        if name.starts_with("on_postgres") {
            Engine::Postgres
        } else if name.starts_with("on_etcd") {
            Engine::Etcd
        } else {
            Engine::Embedded
        }
    }
}

/// A running database, gone when the last server that stores in it is.
pub struct Database {
    url: String,
    server: Program,
}

enum Program {
    Postgres(postgres::Server),
    Etcd(Mutex<etcd::Server>),
}

/// Nothing here loses power: what the kernel has is as good as on the disk.
const POSTGRES_SETTINGS: [&str; 2] = ["fsync=off", "full_page_writes=off"];

impl Database {
    /// None for an engine that needs no other process.
    pub fn start(engine: Engine) -> Option<Database> {
        match engine {
            Engine::Embedded => None,
            Engine::Postgres => {
                let server = postgres::Server::new(&POSTGRES_SETTINGS);
                Some(Database { url: server.url(), server: Program::Postgres(server) })
            }
            Engine::Etcd => {
                let server = etcd::Server::start();
                Some(Database { url: server.url(), server: Program::Etcd(Mutex::new(server)) })
            }
        }
    }

    /// As `--store` takes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it and starts it again on what it had.
    pub fn restart(&self) {
        self.kill();
        self.start_again();
    }

    pub fn kill(&self) {
        match &self.server {
            Program::Postgres(server) => server.kill(),
            Program::Etcd(server) => server.lock().unwrap().kill(),
        }
    }

    /// `STOP` freezes it, `CONT` lets it run again.
    pub fn signal(&self, signal: &str) {
        match &self.server {
            Program::Postgres(server) => server.signal(signal),
            Program::Etcd(server) => server.lock().unwrap().signal(signal),
        }
    }

    /// On what it had.
    pub fn start_again(&self) {
        match &self.server {
            Program::Postgres(server) => server.start(),
            Program::Etcd(server) => {
                let mut server = server.lock().unwrap();
                server.restart();
                server.wait();
            }
        }
    }
}
