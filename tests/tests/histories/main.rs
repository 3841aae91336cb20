//! What clients were told about single objects while servers and databases were killed and paused, held against what a register
//! that does one thing at a time could have told them ([`end_to_end::linearizable`]).
//!
//! An object is a register: a GET reads it, a LIST reads all of them, a merge patch writes it, and a PUT that names a resourceVersion swaps
//! it. `HANGAR_SEED=N` repeats a run's choices, `HANGAR_LONG=1` makes it longer.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "the seed is said, so that a failure can be tried again")]

mod client;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Recorder, Register};
use end_to_end::linearizable::{Operation, is_linearizable};
use end_to_end::{Client, Engine, Server, chance};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CLIENTS: u64 = 6;
/// Registers that all clients use at once; each has a history of its own.
const REGISTERS: usize = 3;
/// New registers, and new trouble.
const ROUNDS: usize = 3;
const MANY_ROUNDS: usize = 100;
/// A paused server is as good as gone for a client.
const PATIENCE: Duration = Duration::from_millis(700);

#[test]
fn embedded_killed() {
    run(Engine::Embedded, 1, &[Trouble::Kill]);
}

#[test]
fn postgres_killed_and_paused() {
    run(Engine::Postgres, 3, &EVERYTHING);
}

#[test]
fn etcd_killed_and_paused() {
    run(Engine::Etcd, 3, &EVERYTHING);
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Pause,
    KillDatabase,
    PauseDatabase,
}

const EVERYTHING: [Trouble; 4] =
    [Trouble::Kill, Trouble::Pause, Trouble::KillDatabase, Trouble::PauseDatabase];

fn run(engine: Engine, count: usize, troubles: &[Trouble]) {
    let mut rng = chance::seeded();
    let rounds = if chance::is_long() { MANY_ROUNDS } else { ROUNDS };
    let first = Server::start_on(engine);
    let others: Vec<Server> = (1..count).map(|_| first.beside()).collect();
    let servers: Vec<Mutex<Server>> = [first].into_iter().chain(others).map(Mutex::new).collect();
    servers.iter().for_each(|server| server.lock().unwrap().forgive("the store is unavailable"));
    let (mut answered, mut unanswered) = (0, 0);
    for round in 0..rounds {
        let histories = one_round(&servers, round, troubles, &mut rng);
        for history in &histories {
            answered += history.iter().filter(|operation| operation.returned.is_some()).count();
            unanswered += history.iter().filter(|operation| operation.returned.is_none()).count();
            assert!(is_linearizable(history, 0), "no register behaves like this: {history:#?}");
        }
    }
    println!("{engine:?}: {rounds} rounds, {answered} answers, {unanswered} requests without one");
    assert!(answered > rounds * REGISTERS * 10, "too few answers to prove anything");
}

/// The histories of new registers, used by all clients through all servers while those are in trouble.
fn one_round(
    servers: &[Mutex<Server>],
    round: usize,
    troubles: &[Trouble],
    rng: &mut StdRng,
) -> Vec<Vec<Operation>> {
    let clients: Vec<Client> =
        servers.iter().map(|server| server.lock().unwrap().client().patient_for(PATIENCE)).collect();
    let registers: Vec<Register> = (0..REGISTERS)
        .map(|number| Register::make(&servers[0].lock().unwrap().client(), round, number))
        .collect();
    let (clock, over) = (AtomicU64::new(1), AtomicBool::new(false));
    let recorders: Vec<Recorder> = std::thread::scope(|scope| {
        let spawn = |number: u64, rng: StdRng| {
            let mut recorder = Recorder::new(number, rng, &clock);
            let (clients, registers, over) = (&clients, &registers, &over);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    recorder.act(clients, registers);
                }
                recorder
            })
        };
        let running: Vec<_> =
            (0..CLIENTS).map(|number| spawn(number, StdRng::seed_from_u64(rng.random()))).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(rng.random_range(50..400)));
            let victim = &servers[rng.random_range(0..servers.len())];
            trouble(&mut victim.lock().unwrap(), troubles[rng.random_range(0..troubles.len())], rng);
        }
        std::thread::sleep(Duration::from_millis(200));
        over.store(true, Ordering::SeqCst);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let of =
        |register: usize| recorders.iter().flat_map(move |recorder| recorder.history(register)).collect();
    (0..REGISTERS).map(of).collect()
}

fn trouble(victim: &mut Server, trouble: Trouble, rng: &mut StdRng) {
    let meanwhile = Duration::from_millis(rng.random_range(0..1_500));
    match trouble {
        Trouble::Kill => {
            victim.kill();
            std::thread::sleep(meanwhile);
            victim.restart();
        }
        Trouble::Pause => {
            victim.signal("STOP");
            std::thread::sleep(meanwhile);
            victim.signal("CONT");
        }
        Trouble::KillDatabase => {
            let database = victim.database().unwrap();
            database.kill();
            std::thread::sleep(meanwhile);
            database.start_again();
        }
        Trouble::PauseDatabase => {
            let database = victim.database().unwrap();
            database.signal("STOP");
            std::thread::sleep(meanwhile);
            database.signal("CONT");
        }
    }
}
