use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use super::mutate::{Random, mutated};
use super::{TARGETS, Target};

/// Per target; all of them together stay below half a minute.
const ROUNDS: usize = 20_000;
const TIME: Duration = Duration::from_millis(800);
/// One input may take no longer: it would be a way to keep a server busy. Generous, for busy machines.
const SLOWEST: Duration = Duration::from_secs(5);

/// What is wrong, if something is.
fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    let began = Instant::now();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let what = match outcome {
        Err(_) => "panicked".to_owned(),
        Ok(()) if began.elapsed() > SLOWEST => format!("took {:?}", began.elapsed()),
        Ok(()) => return Ok(()),
    };
    Err(format!("{} {what} on b\"{}\"", target.name, input.escape_ascii()))
}

fn fuzz(target: &Target, seed: u64, rounds: usize, time: Duration) -> Result<(), String> {
    let (began, mut random) = (Instant::now(), Random::new(seed));
    let mut pool: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
    pool.iter().try_for_each(|input| run(target, input))?;
    for round in 0..rounds {
        if began.elapsed() > time {
            break;
        }
        let input = mutated(&pool[random.below(pool.len())], target.seeds, &mut random);
        run(target, &input)?;
        // Now and then a mutation becomes one to begin from; those that only grow do not.
        if round % 16 == 0 && input.len() < 4_096 {
            let at = target.seeds.len() + random.below(64);
            if at < pool.len() { pool[at] = input } else { pool.push(input) }
        }
    }
    Ok(())
}

/// `FUZZ_SEED=n` tries other inputs than the last run, `FUZZ_SECONDS=n` for longer, `FUZZ_TARGET=name` one of them.
#[test]
fn no_input_breaks_a_parser() {
    let asked = |name: &str| std::env::var(name).ok();
    let number = |name: &str| asked(name).and_then(|text| text.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let (rounds, time) =
        number("FUZZ_SECONDS").map_or((ROUNDS, TIME), |seconds| (usize::MAX, Duration::from_secs(seconds)));
    let only = asked("FUZZ_TARGET");
    let chosen = TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name));
    let failures: Vec<String> = chosen.filter_map(|target| fuzz(target, seed, rounds, time).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn every_target_has_its_program() {
    for target in TARGETS {
        let program = format!("fuzz_targets/{}.rs", target.name);
        let text = std::fs::read_to_string(&program).unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(text.contains(&format!("fuzz!(\"{}\")", target.name)), "{program}");
        assert!(!target.seeds.is_empty());
    }
    assert_eq!(std::fs::read_dir("fuzz_targets").unwrap().count(), TARGETS.len());
}
