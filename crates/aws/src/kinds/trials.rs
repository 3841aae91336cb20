//! What emulators of AWS lack or do wrong, as far as our tests meet it: `data/emulators.txt`.
//!
//! The one table of it. A test that fails where a row says so is as expected; one that does not fail there says that
//! the row must go. Nothing in the engine knows of emulators.

use std::sync::LazyLock;

use super::KindFacts;

/// The emulator that all kinds are tried on.
pub const MOTO: &str = "moto";
/// A second opinion, and what tells the stories and takes the trials that the first one cannot.
pub const MINISTACK: &str = "ministack";

/// A step of a kind's life that an emulator does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub emulator: &'static str,
    pub service: &'static str,
    /// `*`: all of the service.
    pub kind: &'static str,
    /// `make`, `change`, `rest`, `drift`, `adopt` or `delete`; those before it are taken.
    pub step: &'static str,
    pub why: &'static str,
}

impl Shortfall {
    /// A line: emulator, kind, step, and the reason in many words.
    fn of(line: &'static str) -> Option<Shortfall> {
        let mut words = line.splitn(4, ' ');
        let (emulator, named, step, why) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (service, kind) = named.split_once('/')?;
        Some(Shortfall { emulator, service, kind, step, why })
    }

    pub fn concerns(&self, kind: &KindFacts) -> bool {
        self.service == kind.service && (self.kind == "*" || self.kind == kind.kind)
    }
}

/// All rows, in their order.
pub fn shortfalls() -> &'static [Shortfall] {
    static ROWS: LazyLock<Vec<Shortfall>> = LazyLock::new(|| {
        let table = include_str!("../../data/emulators.txt");
        table.lines().filter(|line| !line.starts_with('#')).filter_map(Shortfall::of).collect()
    });
    &ROWS
}

/// Where an emulator falls short of a kind.
pub fn shortfall(emulator: &str, kind: &KindFacts) -> Option<&'static Shortfall> {
    shortfalls().iter().find(|row| row.emulator == emulator && row.concerns(kind))
}

/// Whether a kind without a story goes the whole way from being made to being deleted on one of them.
pub(super) fn is_tried(kind: &KindFacts) -> bool {
    [MOTO, MINISTACK].iter().any(|emulator| shortfall(emulator, kind).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_what_there_is() {
        let lines = include_str!("../../data/emulators.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), shortfalls().len(), "a line is no row");
        const STEPS: &[&str] = &["make", "change", "rest", "drift", "adopt", "delete"];
        for row in shortfalls() {
            assert!([MOTO, MINISTACK].contains(&row.emulator) && STEPS.contains(&row.step), "{row:?}");
            let concerned = super::super::all().iter().filter(|kind| row.concerns(kind));
            assert!(concerned.clone().count() > 0, "{row:?}");
            for kind in concerned {
                assert_eq!(shortfall(row.emulator, kind), Some(row), "two rows for {kind:?}");
            }
        }
    }
}
