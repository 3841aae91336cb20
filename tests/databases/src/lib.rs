//! Database servers of a test's own: real ones, as Debian packages them, on free ports, in temporary directories,
//! gone with the test.
//!
//! Not here: anything of Hangar's own crates. The engines' tests and the end-to-end tests both start from this.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

pub mod etcd;
pub mod postgres;

use std::net::TcpListener;
use std::path::PathBuf;

/// A port that nobody had a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// `target`, from `target/debug/deps/this-test` or `target/debug/program`.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let mut profile = program.parent().unwrap();
    if profile.ends_with("deps") {
        profile = profile.parent().unwrap();
    }
    profile.parent().unwrap().to_owned()
}
