//! Several servers on one database, under load: what one acknowledges all others show at once, watches miss nothing
//! and repeat nothing, and neither killed servers nor a killed database lose a write.
//!
//! Writers keep exact books of what they were told, and find out what became of what they were not told
//! ([`writers`]); watchers go on at another server when theirs ends ([`watchers`]). In the end both have to say
//! the same. `HANGAR_SEED=N` repeats a run's choices; `HANGAR_LONG=1` or `HANGAR_KILLS=N` makes it longer.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "the seed and the delays are said")]

mod churn;
mod keys;
mod leases;
mod load;
mod readiness;
mod watchers;
mod writers;

use std::time::Duration;

use end_to_end::Engine;
use end_to_end::chance::seeded;
use load::{Fleet, Load, between, kills_wanted};

/// Each case on each engine that several can share.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod postgres {
            $(#[test] fn $case() { super::$case(end_to_end::Engine::Postgres); })*
        }
        mod etcd {
            $(#[test] fn $case() { super::$case(end_to_end::Engine::Etcd); })*
        }
    };
}

on_both!(
    what_one_acknowledges_all_show,
    killed_servers_lose_nothing,
    a_killed_database_loses_nothing,
    a_rolling_restart_leaves_no_write_unanswered,
    a_rolling_restart_behind_a_load_balancer_fails_no_request,
    the_controllers_go_on_elsewhere,
    a_frozen_holder_writes_nothing_later,
    shards_go_to_whoever_is_there,
    readiness_follows_the_database,
    other_keys_are_refused,
    all_learn_of_rotated_keys,
);

use keys::all_learn_of_rotated_keys;

/// Writes of each writer where nothing is killed.
const WRITES: usize = 60;

fn what_one_acknowledges_all_show(engine: Engine) {
    for servers in [2, 3] {
        let rng = &mut seeded();
        let mut load = Load::begin(Fleet::start(engine, servers), rng);
        load.write(WRITES);
        let end = load.finish();
        assert_eq!((end.cut, end.refused), (0, 0), "requests failed while nothing happened to anybody");
        println!("{engine:?}, {servers} servers: {end}");
    }
}

fn killed_servers_lose_nothing(engine: Engine) {
    let rng = &mut seeded();
    let kills = kills_wanted();
    let mut load = Load::begin(Fleet::start(engine, 3), rng);
    load.write_while(rng, |fleet, rng| {
        for kill in 0..kills {
            std::thread::sleep(between(rng, 100..800));
            let mut victim = fleet.server(kill);
            victim.kill();
            std::thread::sleep(between(rng, 0..500));
            victim.restart();
        }
    });
    let end = load.finish();
    println!("{engine:?}, {kills} kills of servers: {end}");
}

fn a_killed_database_loses_nothing(engine: Engine) {
    let rng = &mut seeded();
    let kills = kills_wanted().div_ceil(2);
    let mut load = Load::begin(Fleet::start(engine, 2), rng);
    load.write_while(rng, |fleet, rng| {
        (0..fleet.len()).for_each(|number| fleet.server(number).forgive("the store is unavailable"));
        for _ in 0..kills {
            std::thread::sleep(between(rng, 300..1_500));
            fleet.server(0).database().unwrap().restart();
            // The next one comes when writes are acknowledged again.
            fleet.wait_for_a_write();
        }
    });
    let end = load.finish();
    println!("{engine:?}, {kills} kills of the database: {end}");
}

/// As many servers as there are, one after the other, stopped as a service manager stops them.
fn a_rolling_restart_leaves_no_write_unanswered(engine: Engine) {
    let rng = &mut seeded();
    let mut load = Load::begin(Fleet::start(engine, 3), rng);
    load.write_while(rng, |fleet, _| {
        for number in 0..fleet.len() {
            std::thread::sleep(Duration::from_millis(300));
            fleet.server(number).restart();
        }
    });
    let end = load.finish();
    println!("{engine:?}, a rolling restart: {end}");
    assert_eq!(end.done_and_not_told, 0, "a write was done and its client cut off: none would try again");
}

/// Seconds in which a load balancer notices that a server is about to end.
const DELAY: u64 = 3;

/// The same for clients who are sent to servers that say they are ready: nothing of it reaches them.
fn a_rolling_restart_behind_a_load_balancer_fails_no_request(engine: Engine) {
    let rng = &mut seeded();
    let fleet = Fleet::start(engine, 3).balanced();
    for number in 0..fleet.len() {
        let mut server = fleet.server(number);
        server.leave_slowly(DELAY);
        server.restart();
    }
    let mut load = Load::begin(fleet, rng);
    load.write_while(rng, |fleet, _| {
        for number in 0..fleet.len() {
            std::thread::sleep(Duration::from_millis(300));
            fleet.server(number).restart();
        }
    });
    let end = load.finish();
    println!("{engine:?}, a rolling restart behind a load balancer: {end}");
    assert_eq!((end.cut, end.refused), (0, 0), "requests failed");
}

fn a_frozen_holder_writes_nothing_later(engine: Engine) {
    leases::a_frozen_holder_writes_nothing_later(engine);
}

fn shards_go_to_whoever_is_there(engine: Engine) {
    leases::shards_go_to_whoever_is_there(engine);
}

fn other_keys_are_refused(engine: Engine) {
    readiness::other_keys_are_refused(engine);
}

fn readiness_follows_the_database(engine: Engine) {
    readiness::readiness_follows_the_database(engine);
}

fn the_controllers_go_on_elsewhere(engine: Engine) {
    leases::the_controllers_go_on_elsewhere(engine);
}
