//! Whether a recorded history of one register is linearizable: whether there is an order of its operations, each at
//! one moment between its call and its return, in which a register that does one thing at a time would have answered
//! as was answered.
//!
//! The search is Wing and Gong's, and remembers where it has been as Lowe's does. It is exponential in what goes on
//! at the same time, so histories are to be short: one key, a few hundred operations.

use std::collections::HashSet;

/// Values of a register; whoever records a history writes no value twice.
pub type Value = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Read {
        found: Value,
    },
    Write {
        value: Value,
    },
    /// Writes if it finds what it expects, and says whether it did.
    Swap {
        expected: Value,
        value: Value,
        done: bool,
    },
}

impl Action {
    /// What the register holds afterwards, if it can have answered like this.
    fn apply(self, state: Value) -> Option<Value> {
        match self {
            Action::Read { found } => (found == state).then_some(state),
            Action::Write { value } => Some(value),
            Action::Swap { expected, value, done: true } => (expected == state).then_some(value),
            Action::Swap { expected, done: false, .. } => (expected != state).then_some(state),
        }
    }
}

/// Something that was asked of the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    pub call: u64,
    /// None where no answer came: it was done at any moment after its call, or never.
    pub returned: Option<u64>,
    pub action: Action,
}

impl Operation {
    /// What it leaves behind, if it is done.
    fn writes(&self) -> Option<Value> {
        match self.action {
            Action::Write { value } | Action::Swap { value, done: true, .. } => Some(value),
            Action::Read { .. } | Action::Swap { done: false, .. } => None,
        }
    }

    /// What it must have found, as its answer says.
    fn found(&self) -> Option<Value> {
        match self.action {
            Action::Read { found } => Some(found),
            Action::Swap { expected, done: true, .. } if self.returned.is_some() => Some(expected),
            Action::Write { .. } | Action::Swap { .. } => None,
        }
    }
}

/// Whether there is such an order, for a register that held `initial` at first. What was not answered is recorded as
/// if it were to succeed.
pub fn is_linearizable(history: &[Operation], initial: Value) -> bool {
    let tight = tighten(history, initial);
    // What was neither answered nor seen by anybody need not have been done. Only if that explains nothing.
    let seen: Vec<Operation> =
        tight.iter().filter(|operation| operation.returned.is_some()).copied().collect();
    has_order(&seen, initial) || (seen.len() < tight.len() && has_order(&tight, initial))
}

/// What was not answered, but whose value somebody found, was done before that somebody was answered.
fn tighten(history: &[Operation], initial: Value) -> Vec<Operation> {
    let tightened = |operation: &Operation| {
        let mut operation = *operation;
        if let (None, Some(value)) = (operation.returned, operation.writes()) {
            let nobody_else = history.iter().filter(|other| other.writes() == Some(value)).count() == 1;
            if nobody_else && value != initial {
                let finders = history.iter().filter(|other| other.found() == Some(value));
                operation.returned = finders.filter_map(|finder| finder.returned).min();
            }
        }
        operation
    };
    history.iter().map(tightened).collect()
}

fn has_order(history: &[Operation], initial: Value) -> bool {
    let mut search = Search { history, placed: vec![0; history.len().div_ceil(64)], known: HashSet::new() };
    let first = search.step(None, initial);
    let mut stack = Vec::from_iter(first);
    while let Some(step) = stack.last_mut() {
        if search.is_complete() {
            return true;
        }
        let Some(next) = step.candidates.pop() else {
            step.via.iter().for_each(|index| search.take_back(*index));
            stack.pop();
            continue;
        };
        if let Some(state) = history[next].action.apply(step.state) {
            stack.extend(search.step(Some(next), state));
        }
    }
    false
}

struct Step {
    state: Value,
    /// What can come next and was not tried yet.
    candidates: Vec<usize>,
    /// What got its place by this step.
    via: Vec<usize>,
}

struct Search<'a> {
    history: &'a [Operation],
    /// A bit for each operation that has its place.
    placed: Vec<u64>,
    known: HashSet<(Vec<u64>, Value)>,
}

impl Search<'_> {
    /// Places an operation, and with it whatever changes nothing and can come right after it: later it could only
    /// fit worse. None if the search has been there.
    fn step(&mut self, next: Option<usize>, state: Value) -> Option<Step> {
        let mut via = Vec::from_iter(next);
        via.iter().for_each(|index| self.place(*index));
        loop {
            let fits = |index: &usize| {
                let operation = &self.history[*index];
                operation.writes().is_none() && operation.action.apply(state).is_some()
            };
            let fitting: Vec<usize> = self.candidates().into_iter().filter(fits).collect();
            if fitting.is_empty() {
                break;
            }
            fitting.iter().for_each(|index| self.place(*index));
            via.extend(fitting);
        }
        if self.known.insert((self.placed.clone(), state)) {
            return Some(Step { state, candidates: self.candidates(), via });
        }
        via.iter().for_each(|index| self.take_back(*index));
        None
    }

    fn is_placed(&self, index: usize) -> bool {
        self.placed[index / 64] >> (index % 64) & 1 == 1
    }

    fn place(&mut self, index: usize) {
        self.placed[index / 64] |= 1 << (index % 64);
    }

    fn take_back(&mut self, index: usize) {
        self.placed[index / 64] &= !(1 << (index % 64));
    }

    fn is_complete(&self) -> bool {
        let answered =
            |(index, operation): (usize, &Operation)| operation.returned.is_some().then_some(index);
        self.history.iter().enumerate().filter_map(answered).all(|index| self.is_placed(index))
    }

    /// What was called before anything else that waits for its place had returned. The last is tried first: what
    /// was answered, the earliest answer before the others.
    fn candidates(&self) -> Vec<usize> {
        let waiting = || (0..self.history.len()).filter(|index| !self.is_placed(*index));
        let first_return = waiting().filter_map(|index| self.history[index].returned).min();
        let possible = |index: &usize| first_return.is_none_or(|first| self.history[*index].call <= first);
        let mut found: Vec<usize> = waiting().filter(possible).collect();
        found.sort_by_key(|index| std::cmp::Reverse(self.history[*index].returned.unwrap_or(u64::MAX)));
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn done(call: u64, returned: u64, action: Action) -> Operation {
        Operation { call, returned: Some(returned), action }
    }

    fn lost(call: u64, action: Action) -> Operation {
        Operation { call, returned: None, action }
    }

    fn read(found: Value) -> Action {
        Action::Read { found }
    }

    fn write(value: Value) -> Action {
        Action::Write { value }
    }

    fn swap(expected: Value, value: Value, done: bool) -> Action {
        Action::Swap { expected, value, done }
    }

    #[test]
    fn histories() {
        let check = |expected: bool, history: &[Operation]| {
            assert_eq!(is_linearizable(history, 0), expected, "{history:#?}");
        };
        check(true, &[]);
        check(true, &[done(0, 1, write(1)), done(2, 3, read(1))]);
        // A read that is late.
        check(false, &[done(0, 1, write(1)), done(2, 3, read(0))]);
        check(true, &[done(0, 3, write(1)), done(1, 2, read(0))]);
        // Two reads during a write see it come, not go.
        check(true, &[done(0, 9, write(1)), done(1, 2, read(0)), done(3, 4, read(1))]);
        check(false, &[done(0, 9, write(1)), done(1, 2, read(1)), done(3, 4, read(0))]);
        // What was not answered may be done, late or never, but once.
        check(true, &[lost(0, write(1)), done(1, 2, read(0)), done(3, 4, read(0))]);
        check(true, &[lost(0, write(1)), done(1, 2, read(0)), done(3, 4, read(1))]);
        let twice = [lost(0, write(1)), done(1, 2, read(1)), done(3, 4, write(2)), done(5, 6, read(1))];
        check(false, &twice);
        // Only one of two that expect the same can have it.
        check(true, &[done(0, 9, swap(0, 1, true)), done(1, 8, swap(0, 2, false))]);
        check(false, &[done(0, 9, swap(0, 1, true)), done(1, 8, swap(0, 2, true))]);
        check(false, &[done(0, 1, swap(0, 1, false))]);
        check(true, &[done(0, 1, swap(0, 1, true)), done(2, 3, read(1))]);
        // A lost update.
        let update = [done(0, 1, swap(0, 1, true)), done(2, 3, swap(1, 2, true)), done(4, 5, read(1))];
        check(false, &update);
        // What nobody wrote.
        check(false, &[done(0, 1, read(7))]);
    }

    /// Every order of every choice of what was not answered, one after the other.
    fn by_force(history: &[Operation], placed: &mut Vec<usize>, state: Value) -> bool {
        if (0..history.len()).all(|index| placed.contains(&index) || history[index].returned.is_none()) {
            return true;
        }
        (0..history.len()).any(|next| {
            let waits = |index: &usize| !placed.contains(index);
            let too_late = |index: usize| history[index].returned.is_some_and(|end| end < history[next].call);
            if !waits(&next) || (0..history.len()).filter(waits).any(too_late) {
                return false;
            }
            let Some(state) = history[next].action.apply(state) else { return false };
            placed.push(next);
            let found = by_force(history, placed, state);
            placed.pop();
            found
        })
    }

    fn any_action() -> impl Strategy<Value = Action> {
        prop_oneof![
            (0..4u64).prop_map(read),
            (1..4u64).prop_map(write),
            (0..4u64, 1..4u64, any::<bool>()).prop_map(|(expected, value, done)| swap(expected, value, done)),
        ]
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        (0..12u64, 1..6u64, prop::bool::weighted(0.8), any_action()).prop_map(
            |(call, takes, answered, action)| Operation {
                call,
                returned: answered.then_some(call + takes),
                action,
            },
        )
    }

    /// A register that does one thing at a time, at a moment between call and return.
    fn honest(steps: &[(u64, u64, u8)]) -> Vec<Operation> {
        let mut state = 0;
        let step = |(at, (before, after, choice)): (usize, &(u64, u64, u8))| {
            let (moment, fresh) = (at as u64 * 10 + 100, at as u64 + 1);
            let action = match choice % 4 {
                0 | 1 => read(state),
                2 => write(fresh),
                _ if choice % 8 == 3 => swap(state, fresh, true),
                _ => swap(u64::MAX, fresh, false),
            };
            state = action.apply(state).unwrap();
            done(moment - before, moment + after, action)
        };
        steps.iter().enumerate().map(step).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_trying_everything(history in prop::collection::vec(any_operation(), 0..7)) {
            prop_assert_eq!(is_linearizable(&history, 0), by_force(&history, &mut Vec::new(), 0));
        }

        #[test]
        fn what_an_honest_register_did_is_accepted(
            steps in prop::collection::vec((0..60u64, 0..60u64, any::<u8>()), 0..120),
        ) {
            prop_assert!(is_linearizable(&honest(&steps), 0));
        }

        #[test]
        fn a_read_of_what_was_overwritten_is_not(
            steps in prop::collection::vec((0..60u64, 0..60u64, any::<u8>()), 0..80),
        ) {
            let mut history = honest(&steps);
            let end = history.iter().filter_map(|operation| operation.returned).max().unwrap_or(0);
            history.push(done(end + 1, end + 2, write(5_000)));
            history.push(done(end + 3, end + 4, write(5_001)));
            history.push(done(end + 5, end + 6, read(5_000)));
            prop_assert!(!is_linearizable(&history, 0));
        }
    }
}
