//! Control planes move between stores while clients write: nothing acknowledged is lost, resourceVersions never go
//! back, and watches that are resumed see everything.
//!
//! Writers keep exact books of what they were told ([`writers`]), watchers of what they saw ([`watchers`]); in the end
//! both are held against each other and against what is there. `HANGAR_SEED=N` repeats a run's choices,
//! `HANGAR_OBJECTS=N` says how much is moved, `HANGAR_LONG=1` or `HANGAR_KILLS=N` makes the kills more.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "the seed and the pauses are said")]

mod away;
mod fencing;
mod load;
mod several;
mod watchers;
mod writers;

use std::time::Duration;

use end_to_end::chance::{from_environment, seeded};
use end_to_end::{Engine, Server};
use load::Load;
use rand::RngExt;
use several::Stores;

/// In a debug build these take half a minute to make.
const OBJECTS: u64 = 10_000;
/// The stores, in an order in which every one follows every other.
const ROUND: [&str; 6] = ["pg", "default", "etcd", "pg", "etcd", "default"];
/// The same for moves that are killed, and with databases of this machine.
const KILLED: [&str; 6] = ["pg", "dedicated", "default", "dedicated", "etcd", "default"];

/// All six ways between the three engines, by the command line, while clients write.
#[test]
fn between_all_stores_under_load() {
    let rng = &mut seeded();
    let stores = Stores::start();
    let server = stores.server(Engine::Embedded);
    let objects = from_environment("HANGAR_OBJECTS").unwrap_or(OBJECTS);
    let mut load = Load::begin(&server, objects, rng);
    load.write_while(|plane| {
        for store in ROUND {
            println!("{}", plane.move_by_command_line(&server, store).trim_end());
            assert_eq!(plane.status(&server)["store"], store);
            // Watches and writers arrive there before it goes on.
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    load.finish(&server);
}

/// To a database of its own on this machine and back, which needs no other server.
#[test]
fn to_a_database_of_its_own_and_back_under_load() {
    let rng = &mut seeded();
    let server = Server::start_on(Engine::Embedded);
    let mut load = Load::begin(&server, 1_000, rng);
    load.write_while(|plane| {
        for store in ["dedicated", "default", "dedicated"] {
            println!("{}", plane.move_by_command_line(&server, store).trim_end());
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    load.finish(&server);
}

/// `kill -9` of the server at any moment of a move: it is called off or finished, and made in the end.
#[test]
fn a_move_that_is_killed_is_settled() {
    let rng = &mut seeded();
    let kills = load::kills_wanted();
    let stores = Stores::start();
    let mut server = stores.server(Engine::Embedded);
    let mut load = Load::begin(&server, 1_000, rng);
    load.write_while(|plane| {
        for (kill, store) in KILLED.iter().cycle().take(kills).enumerate() {
            plane.ask_to_move(&server, store);
            std::thread::sleep(Duration::from_millis(rng.random_range(0..1_200)));
            server.kill();
            server.restart();
            plane.await_store(&server, store);
            println!("kill {kill}: in {store}");
        }
    });
    load.finish(&server);
}

/// Two servers on two databases: the other one notices where a control plane went.
#[test]
fn with_replicas() {
    let rng = &mut seeded();
    let stores = Stores::start();
    let server = stores.server(Engine::Postgres);
    let beside: Server = server.beside();
    let mut load = Load::begin(&server, 500, rng);
    load.also_through(&beside);
    load.write_while(|plane| {
        for store in ["etcd", "default", "etcd"] {
            plane.ask_to_move(&server, store);
            plane.await_store(&server, store);
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    load.finish(&beside);
}

/// What the command line and the object say where a wish cannot be granted, and what a copy in another store is.
#[test]
fn wishes() {
    let stores = Stores::start();
    let server = stores.server(Engine::Embedded);
    several::wishes(&server);
}

/// An object that is more than etcd takes is refused there, and so is a move with it.
#[test]
fn what_a_store_does_not_take_is_refused() {
    let stores = Stores::start();
    let server = stores.server(Engine::Embedded);
    several::too_large(&server);
}

/// A store that is away when the server starts keeps nobody from the others.
#[test]
fn a_store_that_is_away_at_start_comes_by_itself() {
    for store in ["pg", "etcd"] {
        away::a_store_that_is_away_at_start_comes_by_itself(store);
    }
}

/// What only another configuration can mend is said at once.
#[test]
fn a_store_that_is_wrongly_configured_is_refused() {
    away::a_store_that_is_wrongly_configured_is_refused();
}

/// The server that made control planes is frozen at work; nothing that it had in hand comes to any store.
#[test]
fn an_old_operator_writes_to_no_store() {
    fencing::an_old_operator_writes_to_no_store();
}
