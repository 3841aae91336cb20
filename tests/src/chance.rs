//! What a run of a test leaves to chance, and how a person takes that back: `HANGAR_SEED=N` repeats a run's choices,
//! `HANGAR_LONG=1` makes it long, `HANGAR_KILLS=N` says how often something is killed.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;

pub fn seeded() -> StdRng {
    let seed: u64 = from_environment("HANGAR_SEED").unwrap_or_else(rand::random);
    println!("seed {seed}; repeat with HANGAR_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

pub fn is_long() -> bool {
    from_environment("HANGAR_LONG") == Some(1)
}

/// `usual`, where nothing is said.
pub fn kills_wanted(usual: usize) -> usize {
    from_environment("HANGAR_KILLS").map_or(usual, |kills| kills as usize)
}

pub fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Says that something is over, also when it fails.
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
