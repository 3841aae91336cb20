use super::*;
use store::Key;

fn item(plane: &str, name: &str) -> Item {
    let request = Request { control_plane: plane.into(), key: Key::new("things", "", name) };
    Item { controller: 0, request }
}

struct Fixture {
    queue: Queue,
    now: Instant,
}

impl Fixture {
    fn new(share: usize) -> Self {
        Fixture { queue: Queue::new(share, 1_000), now: Instant::now() }
    }

    fn add(&mut self, plane: &str, names: &[&str]) {
        for name in names {
            assert!(self.queue.add(item(plane, name), Position(1), Duration::ZERO, self.now));
        }
    }

    fn pop(&mut self) -> Option<Arc<Item>> {
        self.queue.pop(self.now)
    }

    fn popped(&mut self) -> String {
        self.pop().map_or("-".to_owned(), |item| {
            format!("{}/{}", item.request.control_plane, item.request.key.name)
        })
    }

    fn end(&mut self, plane: &str, name: &str, outcome: Option<Next>) {
        self.queue.done(&Arc::new(item(plane, name)), outcome, self.now, 0.0);
    }
}

#[test]
fn control_planes_take_turns() {
    let mut f = Fixture::new(10);
    f.add("noisy", &["1", "2", "3", "4"]);
    f.add("quiet", &["1"]);
    f.add("other", &["1", "2"]);
    let order: Vec<String> = (0..8).map(|_| f.popped()).collect();
    let expected = ["noisy/1", "quiet/1", "other/1", "noisy/2", "other/2", "noisy/3", "noisy/4", "-"];
    assert_eq!(order, expected);
}

#[test]
fn a_change_ends_a_growing_wait() {
    let mut f = Fixture::new(10);
    f.add("a", &["1"]);
    assert_eq!(f.popped(), "a/1");
    f.end("a", "1", Some(Next::Backoff));
    assert_eq!(f.popped(), "-", "it waits");
    f.add("a", &["1"]);
    assert_eq!(f.popped(), "a/1", "until something changes");
    // Or if it changed meanwhile.
    f.add("a", &["1"]);
    f.end("a", "1", Some(Next::Backoff));
    assert_eq!(f.popped(), "a/1");
}

#[test]
fn a_share_is_not_exceeded() {
    let mut f = Fixture::new(2);
    f.add("a", &["1", "2", "3"]);
    f.add("b", &["1"]);
    assert_eq!([f.popped(), f.popped(), f.popped(), f.popped()], ["a/1", "b/1", "a/2", "-"]);
    f.end("a", "1", Some(Next::Done));
    assert_eq!(f.popped(), "a/3");
    for (plane, name) in [("a", "2"), ("a", "3"), ("b", "1")] {
        f.end(plane, name, Some(Next::Done));
    }
    assert_eq!(f.queue.len(), 0);
    assert!(f.queue.lines.is_empty() && f.queue.turns.is_empty());
}

#[test]
fn a_key_is_worked_on_once_at_a_time() {
    let mut f = Fixture::new(10);
    f.add("a", &["1", "1"]);
    assert_eq!([f.popped(), f.popped()], ["a/1", "-"]);
    f.add("a", &["1", "1"]);
    assert_eq!(f.popped(), "-");
    f.end("a", "1", Some(Next::Done));
    assert_eq!([f.popped(), f.popped()], ["a/1", "-"]);
    f.end("a", "1", Some(Next::Done));
    assert_eq!(f.popped(), "-");
    assert_eq!(f.queue.len(), 0);
}

#[test]
fn outcomes_decide_when_again() {
    fn check(outcome: Option<Next>, before: Duration, after: Duration) {
        let mut f = Fixture::new(10);
        f.add("a", &["1"]);
        f.popped();
        f.end("a", "1", outcome);
        let start = f.now;
        f.now = start + before;
        if !before.is_zero() {
            assert_eq!(f.popped(), "-", "{outcome:?}");
        }
        f.now = start + after;
        assert_eq!(f.popped(), "a/1", "{outcome:?}");
    }
    let ms = Duration::from_millis;
    check(Some(Next::Again), ms(0), ms(0));
    check(Some(Next::After(ms(500))), ms(499), ms(500));
    check(None, ms(9), ms(10));
}

#[test]
fn failures_wait_longer_each_time_until_one_succeeds() {
    let waits: Vec<u128> = [1, 2, 3, 10, 15, 40].map(|failures| backoff(failures, 0.0).as_millis()).into();
    assert_eq!(waits, [10, 20, 40, 5_120, 150_000, 150_000]);
    assert_eq!(backoff(1, 1.0).as_millis(), 20);
    let mut f = Fixture::new(1);
    f.add("a", &["1"]);
    for _ in 0..5 {
        f.pop().unwrap();
        f.end("a", "1", None);
        f.now += Duration::from_secs(1);
    }
    f.pop().unwrap();
    f.end("a", "1", Some(Next::Again));
    f.pop().unwrap();
    f.end("a", "1", None);
    assert_eq!(f.queue.next_due(), Some(f.now + Duration::from_millis(10)));
}

#[test]
fn a_change_does_not_wait_for_a_parked_key() {
    let mut f = Fixture::new(1);
    assert!(f.queue.add(item("a", "1"), Position(5), Duration::from_secs(60), f.now));
    assert_eq!(f.popped(), "-");
    assert!(f.queue.add(item("a", "1"), Position(6), Duration::from_secs(90), f.now));
    assert_eq!(f.queue.next_due(), Some(f.now + Duration::from_secs(60)));
    assert!(f.queue.add(item("a", "1"), Position(7), Duration::ZERO, f.now));
    assert_eq!(f.popped(), "a/1");
    assert_eq!(f.queue.next_due(), None);
}

#[test]
fn the_oldest_change_is_kept_until_it_is_done() {
    let mut f = Fixture::new(1);
    let now = f.now;
    assert!(f.queue.add(item("a", "1"), Position(5), Duration::ZERO, now));
    assert!(f.queue.add(item("a", "1"), Position(8), Duration::ZERO, now));
    assert_eq!(f.queue.oldest(), Some(Position(5)));
    f.pop().unwrap();
    assert!(f.queue.add(item("a", "1"), Position(9), Duration::ZERO, now));
    f.end("a", "1", None);
    assert_eq!(f.queue.oldest(), Some(Position(5)));
    f.now += Duration::from_secs(1);
    f.pop().unwrap();
    assert!(f.queue.add(item("a", "1"), Position(12), Duration::ZERO, now));
    f.end("a", "1", Some(Next::Done));
    assert_eq!(f.queue.oldest(), Some(Position(12)));
    f.pop().unwrap();
    f.end("a", "1", Some(Next::Done));
    assert_eq!(f.queue.oldest(), None);
}

#[test]
fn a_line_is_bounded() {
    let mut f = Fixture { queue: Queue::new(1, 2), now: Instant::now() };
    let mut add =
        |plane: &str, name: &str| f.queue.add(item(plane, name), Position(1), Duration::ZERO, f.now);
    assert_eq!(
        [add("a", "1"), add("a", "2"), add("a", "3"), add("a", "1"), add("b", "1")],
        [true, true, false, true, true]
    );
    f.popped();
    assert_eq!(f.queue.ready_of("a"), 1);
    assert!(f.queue.add(item("a", "3"), Position(1), Duration::ZERO, f.now));
}
