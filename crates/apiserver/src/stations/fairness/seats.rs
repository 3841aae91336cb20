//! Seats of the requests of one control plane: who has one, and who waits for one.
//!
//! Requests are in levels, each with seats of its own, and within a level in flows: one for each user. A flow may take as
//! many seats as are left, so one alone can have half of them, two a third each, and there is always one for the next
//! user. Seats that come free go to the flows that wait, in turn.
//!
//! No I/O and no clock here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Flow;

/// Of a control plane.
pub type LevelId = u64;

/// Where a request waits, and how much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    pub level: LevelId,
    pub flow: Flow,
    /// Seats of the level.
    pub seats: u32,
    /// Requests of the level beyond those, which wait.
    pub queue: u32,
    /// Leaves seats for others. Without this a flow may take all of them.
    pub shared: bool,
    /// How long they wait.
    pub patience: Duration,
}

#[derive(Default)]
pub struct Levels {
    levels: HashMap<LevelId, Level>,
    next: u64,
}

#[derive(Default)]
struct Level {
    /// Requests, with a seat or without.
    open: u32,
    taken: u32,
    seats: u32,
    shared: bool,
    flows: HashMap<Flow, FlowState>,
    /// Flows that wait, in the order of their turns.
    turns: VecDeque<Flow>,
}

#[derive(Default)]
struct FlowState {
    open: u32,
    taken: u32,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A seat, or what is to be waited for.
pub enum Turn {
    Now,
    /// A number to give up waiting with.
    Later(u64, oneshot::Receiver<()>),
}

impl Levels {
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Counts a request, unless there are too many of its level or its flow.
    pub fn enter(&mut self, class: &Class) -> bool {
        let level = self.levels.entry(class.level).or_default();
        (level.seats, level.shared) = (class.seats, class.shared);
        let most = class.seats.saturating_add(class.queue);
        let of_flow = if class.shared { level.flows.get(&class.flow).map_or(0, |flow| flow.open) } else { 0 };
        if of_flow >= most.saturating_sub(level.open) {
            if level.open == 0 {
                self.levels.remove(&class.level);
            }
            return false;
        }
        level.open += 1;
        level.flows.entry(class.flow).or_default().open += 1;
        true
    }

    /// A seat for a request that was counted.
    pub fn take(&mut self, class: &Class) -> Turn {
        let number = self.next;
        self.next += 1;
        let level = self.levels.entry(class.level).or_default();
        if level.fits(class.flow) {
            level.give(class.flow);
            return Turn::Now;
        }
        let (sender, receiver) = oneshot::channel();
        let flow = level.flows.entry(class.flow).or_default();
        if flow.waiting.is_empty() {
            level.turns.push_back(class.flow);
        }
        flow.waiting.push_back((number, sender));
        Turn::Later(number, receiver)
    }

    /// Gives up waiting. A seat that was given meanwhile goes to the next.
    pub fn give_up(&mut self, class: &Class, number: u64) {
        let Some(level) = self.levels.get_mut(&class.level) else { return };
        let Some(flow) = level.flows.get_mut(&class.flow) else { return };
        match flow.waiting.iter().position(|(one, _)| *one == number) {
            Some(place) => {
                flow.waiting.remove(place);
                if flow.waiting.is_empty() {
                    level.turns.retain(|flow| *flow != class.flow);
                }
            }
            None => level.free(class.flow),
        }
    }

    /// The end of a request that was counted, and of its seat if it had one.
    pub fn leave(&mut self, class: &Class, seated: bool) {
        let Some(level) = self.levels.get_mut(&class.level) else { return };
        if seated {
            level.free(class.flow);
        }
        level.open -= 1;
        if let Some(flow) = level.flows.get_mut(&class.flow) {
            flow.open -= 1;
            if flow.open == 0 {
                level.flows.remove(&class.flow);
            }
        }
        if level.open == 0 {
            self.levels.remove(&class.level);
        }
    }
}

impl Level {
    /// Returns true if a flow may have one more seat: as many as are left.
    fn fits(&self, flow: Flow) -> bool {
        let taken = if self.shared { self.flows.get(&flow).map_or(0, |flow| flow.taken) } else { 0 };
        taken < self.seats.saturating_sub(self.taken)
    }

    fn give(&mut self, flow: Flow) {
        self.taken += 1;
        self.flows.entry(flow).or_default().taken += 1;
    }

    /// Takes a seat back, and gives those that are free to those that wait.
    fn free(&mut self, flow: Flow) {
        self.taken -= 1;
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.taken -= 1;
        }
        let mut passed = 0;
        while passed < self.turns.len() && self.taken < self.seats {
            let Some(next) = self.turns.pop_front() else { return };
            if !self.fits(next) {
                self.turns.push_back(next);
                passed += 1;
                continue;
            }
            let Some(waiting) = self.flows.get_mut(&next).map(|flow| &mut flow.waiting) else { continue };
            let Some((_, sender)) = waiting.pop_front() else { continue };
            if !waiting.is_empty() {
                self.turns.push_back(next);
            }
            self.give(next);
            // One that has given up in this moment passes the seat on itself.
            let _ = sender.send(());
            passed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(flow: Flow) -> Class {
        Class { level: 0, flow, seats: 6, queue: 60, shared: true, patience: Duration::ZERO }
    }

    /// As many requests of a flow as there are seats for at once.
    fn seated(levels: &mut Levels, flow: Flow, asked: usize) -> usize {
        let turns = (0..asked).map(|_| {
            assert!(levels.enter(&class(flow)), "it may wait");
            levels.take(&class(flow))
        });
        turns.filter(|turn| matches!(turn, Turn::Now)).count()
    }

    #[test]
    fn there_is_a_seat_for_the_next_user() {
        let mut levels = Levels::default();
        assert_eq!(seated(&mut levels, 1, 10), 3);
        assert_eq!(seated(&mut levels, 2, 5), 2);
        assert_eq!(seated(&mut levels, 3, 5), 1);
        assert_eq!(seated(&mut levels, 4, 2), 0, "all are taken");
    }

    #[test]
    fn a_level_that_is_not_shared_may_be_taken_by_one() {
        let mut levels = Levels::default();
        let alone = Class { queue: 0, shared: false, ..class(1) };
        let entered = (0..10).filter(|_| levels.enter(&alone) && matches!(levels.take(&alone), Turn::Now));
        assert_eq!(entered.count(), 6);
    }

    #[test]
    fn seats_go_to_users_in_turn() {
        let mut levels = Levels::default();
        let only = |flow| Class { seats: 1, ..class(flow) };
        let mut later = Vec::new();
        for flow in [1, 1, 1, 1, 2, 3] {
            assert!(levels.enter(&only(flow)));
            match levels.take(&only(flow)) {
                Turn::Now => assert!(later.is_empty()),
                Turn::Later(_, receiver) => later.push((flow, receiver)),
            }
        }
        let mut order = Vec::new();
        let mut seated = 1;
        while !later.is_empty() {
            levels.leave(&only(seated), true);
            let next = later.iter_mut().position(|(_, receiver)| receiver.try_recv().is_ok()).unwrap();
            seated = later.remove(next).0;
            order.push(seated);
        }
        assert_eq!(order, [1, 2, 3, 1, 1]);
        levels.leave(&only(seated), true);
        assert!(levels.is_empty());
    }

    #[test]
    fn a_user_leaves_room_to_wait_for_others() {
        let mut levels = Levels::default();
        let entered = (0..100).filter(|_| levels.enter(&class(1))).count();
        assert_eq!(entered, 33);
        assert!(levels.enter(&class(2)));
    }

    #[test]
    fn a_seat_that_nobody_waits_for_any_more_goes_to_the_next() {
        let mut levels = Levels::default();
        let only = |flow| Class { seats: 1, ..class(flow) };
        for flow in [1, 2, 3] {
            assert!(levels.enter(&only(flow)));
        }
        assert!(matches!(levels.take(&only(1)), Turn::Now));
        let Turn::Later(second, received) = levels.take(&only(2)) else { panic!("there is one seat") };
        let Turn::Later(_, mut third) = levels.take(&only(3)) else { panic!("there is one seat") };
        levels.leave(&only(1), true);
        drop(received);
        assert!(third.try_recv().is_err());
        levels.give_up(&only(2), second);
        levels.leave(&only(2), false);
        assert!(third.try_recv().is_ok());
        levels.leave(&only(3), true);
        assert!(levels.is_empty());
    }
}
