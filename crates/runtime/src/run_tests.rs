//! The loop on a fleet that is only a list of changes, with the clock in our hands.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream;
use objects::Value;
use serde_json::json;
use store::Key;
use tokio::sync::{Notify, broadcast};

use super::*;
use crate::Request;
use crate::event::Change;
use crate::fleet::Stream;

struct FakeFleet {
    /// Every change so far, as a store keeps them.
    log: Mutex<Vec<(u64, &'static str, String)>>,
    swept: Mutex<Vec<Option<CompactString>>>,
    swept_after: Mutex<Vec<Option<(CompactString, Key)>>>,
    replayed: Mutex<Vec<(CompactString, Revision, Revision)>>,
    followed: Mutex<Vec<Kinds>>,
    swept_kinds: Mutex<Vec<Kinds>>,
    changes: broadcast::Sender<(u64, &'static str, String)>,
    existing: Vec<(&'static str, String)>,
    position: Mutex<u64>,
    cursor: Mutex<Option<Cursor>>,
    expired: bool,
}

fn event(plane: &str, name: &str, change: Change, position: u64) -> Event {
    let object = json!({"metadata": {"name": name}});
    let mut event =
        Event::plain(plane.into(), Key::new("things", "", name), change, Position(position), object);
    event.revision = Revision(position);
    event
}

impl FakeFleet {
    fn new() -> FakeFleet {
        let changes = broadcast::Sender::new(100_000);
        FakeFleet {
            log: Mutex::default(),
            swept: Mutex::default(),
            swept_after: Mutex::default(),
            replayed: Mutex::default(),
            followed: Mutex::default(),
            swept_kinds: Mutex::default(),
            changes,
            existing: Vec::new(),
            position: Mutex::new(0),
            cursor: Mutex::new(Some(Cursor::default())),
            expired: false,
        }
    }

    fn change(&self, plane: &'static str, name: impl Into<String>) {
        let mut position = self.position.lock();
        *position += 1;
        let change = (*position, plane, name.into());
        self.log.lock().push(change.clone());
        let _ = self.changes.send(change);
    }
}

#[async_trait]
impl Fleet for FakeFleet {
    async fn follow(&self, kinds: &Kinds, from: Position) -> Result<Changes, FleetError> {
        self.followed.lock().push(kinds.clone());
        if self.expired && from == Position(0) {
            return Err(FleetError::Expired(from));
        }
        let changes = self.changes.subscribe();
        Ok(Box::pin(stream::unfold(changes, async |mut changes| {
            let (position, plane, name) = changes.recv().await.ok()?;
            // Of nobody is nobody's here.
            let told = match plane {
                "" => Told::UpTo(Position(position)),
                plane => Told::Event(event(plane, &name, Change::Updated, position)),
            };
            Some((Ok(told), changes))
        })))
    }

    fn sweep(
        &self,
        kinds: &Kinds,
        plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream {
        self.swept.lock().push(plane);
        self.swept_kinds.lock().push(kinds.clone());
        self.swept_after.lock().push(after.clone());
        let behind = |name: &str| after.as_ref().is_none_or(|(_, key)| name > key.name.as_str());
        let all: Vec<_> = self
            .existing
            .iter()
            .filter(|(_, name)| behind(name))
            .map(|(plane, name)| Ok(event(plane, name, Change::Existing, 0)))
            .collect();
        Box::pin(stream::iter(all))
    }

    fn replay(&self, _: &Kinds, plane: CompactString, after: Revision, to: Revision) -> Stream {
        self.replayed.lock().push((plane.clone(), after, to));
        if self.expired {
            return Box::pin(stream::iter([Err(FleetError::Expired(Position(0)))]));
        }
        let wanted = |(at, of, _): &&(u64, &'static str, String)| {
            *of == plane.as_str() && *at > after.0 && *at <= to.0
        };
        let log = self.log.lock();
        let changes: Vec<_> = log
            .iter()
            .filter(wanted)
            .map(|(at, plane, name)| Ok(event(plane, name, Change::Updated, *at)))
            .collect();
        Box::pin(stream::iter(changes))
    }

    async fn position(&self) -> Result<Position, FleetError> {
        Ok(Position((*self.position.lock()).max(1)))
    }

    async fn get(&self, _: &str, _: &Key) -> Result<Option<Value>, FleetError> {
        Ok(None)
    }

    async fn list(&self, _: &str, _: &str, _: &str) -> Result<Vec<Value>, FleetError> {
        Ok(Vec::new())
    }

    fn client(&self, _: &str, _: &Identity) -> kube::Client {
        unreachable!("nobody asks")
    }

    async fn load(&self) -> Result<Option<Cursor>, FleetError> {
        Ok(self.cursor.lock().clone())
    }

    async fn save(&self, cursor: &Cursor) -> Result<(), FleetError> {
        *self.cursor.lock() = Some(cursor.clone());
        Ok(())
    }
}

/// Notes what it does, and does what the names say.
#[derive(Default)]
struct Scribe {
    done: Mutex<Vec<String>>,
    tries: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    gate: Notify,
    more_kinds: std::sync::atomic::AtomicBool,
    news: Mutex<Option<crate::News>>,
}

#[async_trait]
impl Controller for Arc<Scribe> {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn kinds(&self) -> Kinds {
        match self.more_kinds.load(Ordering::SeqCst) {
            true => Kinds::these(["things", "others"]),
            false => Kinds::these(["things"]),
        }
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        triggers.now(event.key.clone());
    }

    fn news(&self) -> Option<crate::News> {
        self.news.lock().take()
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let name = request.key.name.as_str();
        let tries = self.tries.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = match name {
            "fails thrice" if tries <= 3 => Err(Error::failed("not yet")),
            "panics once" if tries <= 1 => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                panic!("as told")
            }
            "waits for others" if tries <= 3 => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                return Ok(Next::Backoff);
            }
            "waits" => {
                self.gate.notified().await;
                Ok(Next::Done)
            }
            "parent" => {
                context.enqueue(Key::new("things", "", "child"));
                Ok(Next::Done)
            }
            "everything" => {
                context.look_at_all("things");
                Ok(Next::Done)
            }
            "later" if tries <= 1 => Ok(Next::After(Duration::from_secs(3_600))),
            name if name.starts_with("hangs") => {
                let account = name.split(' ').nth(1).unwrap_or_default();
                if context.is_crowded(account) {
                    self.running.fetch_sub(1, Ordering::SeqCst);
                    return Ok(Next::After(Duration::from_secs(10)));
                }
                context.aside(account, self.gate.notified()).await;
                Ok(Next::Done)
            }
            name if name.starts_with("slow") => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(Next::Done)
            }
            _ => Ok(Next::Done),
        };
        if outcome.is_ok() {
            self.done.lock().push(format!("{}/{name}", request.control_plane));
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

struct Scene {
    fleet: Arc<FakeFleet>,
    scribe: Arc<Scribe>,
    stop: CancellationToken,
    handle: Handle,
    running: tokio::task::JoinHandle<Result<(), FleetError>>,
}

impl Scene {
    async fn new(fleet: FakeFleet, options: Options) -> Scene {
        Scene::with(Scribe::default(), fleet, options).await
    }

    async fn with(scribe: Scribe, fleet: FakeFleet, options: Options) -> Scene {
        let (fleet, scribe, stop) = (Arc::new(fleet), Arc::new(scribe), CancellationToken::new());
        let runtime = Runtime::new(fleet.clone(), vec![Box::new(scribe.clone())], options);
        let handle = runtime.handle();
        let running = tokio::spawn(runtime.run(stop.clone()));
        let scene = Scene { fleet, scribe, stop, handle, running };
        scene.pass(1).await;
        scene
    }

    /// Time passes, and all that is due in it happens.
    async fn pass(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    fn done(&self) -> Vec<String> {
        self.scribe.done.lock().clone()
    }

    async fn end(self) -> Option<Cursor> {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.fleet.cursor.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_panics_are_tried_again() {
    for (name, tries) in [("fails thrice", 4), ("panics once", 2)] {
        let scene = Scene::new(FakeFleet::new(), Options::default()).await;
        scene.fleet.change("a", name);
        scene.pass(1_000).await;
        assert_eq!(scene.done(), [format!("a/{name}")]);
        assert_eq!(scene.scribe.tries.load(Ordering::SeqCst), tries, "{name}");
        let metrics = scene.handle.metrics().controller("scribe").unwrap();
        assert_eq!(metrics.failures.load(Ordering::Relaxed), tries as u64 - 1);
        assert_eq!(metrics.reconciles.load(Ordering::Relaxed), tries as u64);
        assert_eq!(scene.end().await, Some(Cursor { position: Position(1), ..Cursor::default() }));
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_change_tells_of_is_looked_at_too() {
    let (tell, told) = mpsc::channel::<&str>(8);
    let news = stream::unfold(told, async |mut told| {
        let name = told.recv().await?;
        Some((Request { control_plane: "a".into(), key: Key::new("things", "", name) }, told))
    });
    let scribe = Scribe { news: Mutex::new(Some(news.boxed())), ..Scribe::default() };
    let scene = Scene::with(scribe, FakeFleet::new(), Options::default()).await;
    tell.send("first").await.unwrap();
    scene.pass(1).await;
    scene.fleet.change("a", "changed");
    tell.send("second").await.unwrap();
    scene.pass(1).await;
    // Nobody is left to tell anything, and changes are followed all the same.
    drop(tell);
    scene.fleet.change("a", "last");
    scene.pass(1).await;
    let mut done = scene.done();
    done.sort_unstable();
    assert_eq!(done, ["a/changed", "a/first", "a/last", "a/second"]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn workers_are_bounded_and_a_noisy_control_plane_waits_for_itself() {
    let options = Options { workers: 4, share: 2, ..Options::default() };
    let scene = Scene::new(FakeFleet::new(), options).await;
    for index in 0..50 {
        scene.fleet.change("noisy", format!("slow {index}"));
    }
    scene.pass(15).await;
    assert_eq!(scene.scribe.most.load(Ordering::SeqCst), 2, "its share");
    scene.fleet.change("quiet", "slow");
    scene.pass(15).await;
    assert!(scene.done().contains(&"quiet/slow".to_owned()), "{:?}", scene.done());
    assert!(scene.done().len() < 15);
    scene.pass(500).await;
    assert_eq!(scene.done().len(), 51);
    assert!(scene.scribe.most.load(Ordering::SeqCst) <= 4);
    assert_eq!(scene.handle.depth(), QueueDepth::default());
}

/// Calls that hang keep nobody else from working: not elsewhere, and not behind another account.
#[tokio::test(start_paused = true)]
async fn what_hangs_gives_its_worker_to_others() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    let planes = ["a", "b", "c", "d", "e"];
    for index in 0..200 {
        planes.iter().for_each(|plane| scene.fleet.change(plane, format!("hangs sick {index}")));
    }
    scene.pass(5_000).await;
    let running = scene.scribe.running.load(Ordering::SeqCst);
    let (bounds, share) = (aside::Bounds::default(), Options::default().share);
    assert!((planes.len() * bounds.behind..=planes.len() * (bounds.behind + share)).contains(&running));
    assert_eq!(scene.handle.depth().running, 0, "none of them has a worker");
    for plane in ["a", "f"] {
        scene.fleet.change(plane, "well");
        scene.pass(1).await;
        assert_eq!(scene.done().pop(), Some(format!("{plane}/well")));
    }
    // What is at it already is not begun a second time.
    for index in 0..200 {
        scene.fleet.change("a", format!("hangs sick {index}"));
    }
    scene.pass(5_000).await;
    assert_eq!(scene.scribe.running.load(Ordering::SeqCst), running);
    for _ in 0..10 {
        scene.scribe.gate.notify_waiters();
        scene.pass(11_000).await;
    }
    let mut done = scene.done();
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), planes.len() * 200 + 2, "each in its time");
    assert_eq!(scene.handle.depth(), QueueDepth::default());
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_hangs_everywhere_leaves_room_for_others() {
    let bounds = aside::Bounds { behind: 4, plane: 10, all: 20 };
    let options = Options { workers: 4, share: 2, aside: bounds, ..Options::default() };
    let scene = Scene::new(FakeFleet::new(), options).await;
    for index in 0..100 {
        scene.fleet.change("a", format!("hangs {index}"));
    }
    scene.pass(30_000).await;
    let running = scene.scribe.running.load(Ordering::SeqCst);
    assert!((10..=12).contains(&running), "{running}");
    for index in 0..100 {
        ["b", "c", "d"].iter().for_each(|plane| scene.fleet.change(plane, format!("hangs {index}")));
    }
    scene.pass(30_000).await;
    let running = scene.scribe.running.load(Ordering::SeqCst);
    assert!((20..=40).contains(&running), "{running}");
    scene.fleet.change("e", "well");
    scene.pass(1).await;
    assert_eq!(scene.done(), ["e/well"]);
    // A stop does not wait for them longer than for others, and they are not forgotten.
    let cursor = scene.end().await.unwrap();
    assert_eq!(cursor.parked.len(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_what_runs_end() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "waits");
    scene.pass(10).await;
    scene.stop.cancel();
    scene.pass(1_000).await;
    assert!(!scene.running.is_finished());
    scene.scribe.gate.notify_one();
    let scribe = scene.scribe.clone();
    assert_eq!(scene.end().await, Some(Cursor { position: Position(1), ..Cursor::default() }));
    assert_eq!(*scribe.done.lock(), ["a/waits"]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_left_to_the_next_start() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "waits");
    scene.pass(10).await;
    let cursor = scene.end().await.unwrap();
    let names: Vec<_> = cursor.parked.iter().map(|parked| parked.request.key.name.as_str()).collect();
    assert_eq!((cursor.position, names), (Position(1), vec!["waits"]));
}

#[tokio::test(start_paused = true)]
async fn parked_keys_survive_a_restart() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "later");
    scene.pass(10).await;
    assert_eq!(scene.handle.depth().parked, 1);
    let cursor = scene.end().await;
    let fleet = FakeFleet { cursor: Mutex::new(cursor), ..FakeFleet::new() };
    let scene = Scene::new(fleet, Options::default()).await;
    scene.pass(10).await;
    assert_eq!(scene.done(), [] as [&str; 0]);
    scene.pass(3_601_000).await;
    assert_eq!(scene.done(), ["a/later"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_may_ask_for_more() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "parent");
    scene.pass(10).await;
    assert_eq!(scene.done(), ["a/parent", "a/child"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_swept() {
    let existing = (0..5_000).map(|index| ("a", format!("{index}"))).collect();
    let fleet = FakeFleet { expired: true, existing, ..FakeFleet::new() };
    let options = Options { swept_keys: 100, ..Options::default() };
    let scene = Scene::new(fleet, options).await;
    scene.pass(100).await;
    assert_eq!(scene.done().len(), 5_000);
    assert_eq!(scene.handle.metrics().sweeps.load(Ordering::Relaxed), 1);
    scene.handle.sweep("a").await;
    scene.pass(100).await;
    assert_eq!(scene.done().len(), 10_000);
    assert!(scene.end().await.unwrap().position > Position(0));
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_while_nothing_happens() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "thing");
    scene.pass(60_000).await;
    let before = scene.handle.metrics().wakeups.load(Ordering::Relaxed);
    scene.pass(3_600_000).await;
    assert_eq!(scene.handle.metrics().wakeups.load(Ordering::Relaxed), before);
    assert_eq!(scene.handle.metrics().saves.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_parked_keys_hold_the_position() {
    let scene = Scene::new(FakeFleet::new(), Options { workers: 1, share: 1, ..Options::default() }).await;
    scene.fleet.change("a", "done");
    scene.pass(10).await;
    scene.fleet.change("a", "waits");
    for index in 0..=LISTED {
        scene.fleet.change("a", format!("{index}"));
    }
    scene.pass(10_000).await;
    let cursor = scene.fleet.cursor.lock().clone().unwrap();
    assert_eq!(cursor, Cursor { position: Position(1), ..Cursor::default() });
}

/// Changes that there was no room for are read again, each once and no others.
#[tokio::test(start_paused = true)]
async fn an_overflow_costs_what_changed() {
    const CHANGES: usize = 2_000;
    let options = Options { workers: 2, share: 1, line: 10, swept_keys: 5, ..Options::default() };
    let scene = Scene::new(FakeFleet::new(), options).await;
    for index in 0..CHANGES {
        scene.fleet.change("noisy", format!("slow {index}"));
    }
    scene.fleet.change("quiet", "thing");
    scene.pass(5).await;
    assert_eq!(scene.done(), ["quiet/thing"], "nobody else waits");
    assert!(scene.handle.depth().ready <= 10);
    scene.pass(60_000).await;
    let done: std::collections::BTreeSet<String> = scene.done().into_iter().collect();
    assert_eq!(done.len(), CHANGES + 1);
    assert_eq!(scene.scribe.tries.load(Ordering::SeqCst), CHANGES + 1, "none is looked at twice");
    assert_eq!(*scene.fleet.swept.lock(), [], "what did not change is not looked at");
    let wakeups = scene.handle.metrics().wakeups.load(Ordering::Relaxed);
    scene.pass(3_600_000).await;
    assert_eq!(scene.handle.metrics().wakeups.load(Ordering::Relaxed), wakeups);
    let end = Position(CHANGES as u64 + 1);
    assert_eq!(scene.end().await, Some(Cursor { position: end, ..Cursor::default() }));
}

/// The same where the process ends in the middle, and once more.
#[tokio::test(start_paused = true)]
async fn a_restart_continues_where_an_overflow_was() {
    const CHANGES: usize = 500;
    let options = Options { workers: 1, share: 1, line: 20, swept_keys: 10, ..Options::default() };
    let scene = Scene::new(FakeFleet::new(), options.clone()).await;
    for index in 0..CHANGES {
        scene.fleet.change("a", format!("slow {index}"));
    }
    let (mut looks, mut done, mut fleet) = (0, std::collections::BTreeSet::new(), None);
    let mut scene = Some(scene);
    for pause in [600, 1_700, 60_000] {
        let now = match scene.take() {
            Some(scene) => scene,
            None => Scene::new(fleet.take().unwrap(), options.clone()).await,
        };
        now.pass(pause).await;
        assert_eq!(*now.fleet.swept.lock(), []);
        let (log, position) = (now.fleet.log.lock().clone(), *now.fleet.position.lock());
        let scribe = now.scribe.clone();
        let cursor = now.end().await;
        // With what was under way at the end.
        looks += scribe.tries.load(Ordering::SeqCst);
        done.extend(scribe.done.lock().drain(..));
        let next = FakeFleet { log: log.into(), position: position.into(), ..FakeFleet::new() };
        fleet = Some(FakeFleet { cursor: Mutex::new(cursor), ..next });
    }
    assert_eq!(done.len(), CHANGES);
    assert!(looks < CHANGES + 60, "{looks}: no more again than what was under way");
    let cursor = fleet.unwrap().cursor.into_inner();
    assert_eq!(cursor, Some(Cursor { position: Position(CHANGES as u64), ..Cursor::default() }));
}

#[tokio::test(start_paused = true)]
async fn changes_that_are_no_longer_known_are_found_by_looking() {
    let existing = (0..30).map(|index| ("a", format!("slow {index:02}"))).collect();
    let options = Options { workers: 1, share: 1, line: 10, swept_keys: 5, ..Options::default() };
    let fleet = FakeFleet { existing, expired: true, ..FakeFleet::new() };
    *fleet.cursor.lock() = Some(Cursor { position: Position(1), ..Cursor::default() });
    let scene = Scene::new(fleet, options).await;
    for index in 0..30 {
        scene.fleet.change("a", format!("slow {index:02}"));
    }
    scene.pass(5_000).await;
    let done: std::collections::BTreeSet<String> = scene.done().into_iter().collect();
    assert_eq!(done.len(), 30);
    assert_eq!(scene.fleet.replayed.lock().len(), 1);
    assert_eq!(*scene.fleet.swept.lock(), [Some("a".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_scan_goes_on_after_a_restart() {
    let existing = || (0..1_000).map(|index| ("a", format!("slow {index:04}"))).collect::<Vec<_>>();
    let fleet = FakeFleet { existing: existing(), cursor: Mutex::default(), ..FakeFleet::new() };
    let options = Options { workers: 1, share: 1, swept_keys: 10, ..Options::default() };
    let scene = Scene::new(fleet, options.clone()).await;
    scene.pass(5_000).await;
    let first = scene.scribe.tries.load(Ordering::SeqCst);
    assert!((400..600).contains(&first), "{first}");
    let cursor = scene.end().await;
    let fleet = FakeFleet { existing: existing(), cursor: Mutex::new(cursor), ..FakeFleet::new() };
    let scene = Scene::new(fleet, options).await;
    scene.pass(60_000).await;
    assert!(scene.fleet.swept_after.lock()[0].is_some());
    let all = first + scene.scribe.tries.load(Ordering::SeqCst);
    assert!((1_000..1_020).contains(&all), "{all}");
    assert_eq!(scene.end().await.unwrap().pending, []);
}

#[tokio::test(start_paused = true)]
async fn a_scan_does_not_wait_for_another_control_plane() {
    let existing = (0..20).map(|index| ("quiet", format!("{index}"))).collect();
    let options = Options { workers: 2, share: 1, swept_keys: 5, ..Options::default() };
    let scene = Scene::new(FakeFleet { existing, ..FakeFleet::new() }, options).await;
    scene.fleet.change("noisy", "waits");
    for index in 0..100 {
        scene.fleet.change("noisy", format!("{index}"));
    }
    scene.pass(1).await;
    scene.handle.sweep("quiet").await;
    scene.pass(10).await;
    assert_eq!(scene.done().iter().filter(|one| one.starts_with("quiet/")).count(), 20);
    scene.scribe.gate.notify_one();
    scene.pass(10).await;
    assert_eq!(scene.done().len(), 121);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_may_have_everything_looked_at() {
    let existing = (0..100).map(|index| ("a", format!("{index}"))).collect();
    let options = Options { line: 10, swept_keys: 5, workers: 1, ..Options::default() };
    let scene = Scene::new(FakeFleet { existing, ..FakeFleet::new() }, options).await;
    scene.fleet.change("a", "everything");
    scene.pass(1_000).await;
    assert_eq!(scene.scribe.tries.load(Ordering::SeqCst), 101, "however few fit into the queue");
    assert_eq!(*scene.fleet.swept_kinds.lock(), [Kinds::these(["things"])]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_others_is_tried_after_growing_waits() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("a", "waits for others");
    scene.pass(1_000).await;
    assert_eq!(scene.done(), ["a/waits for others"]);
    assert_eq!(scene.scribe.tries.load(Ordering::SeqCst), 4);
    let metrics = scene.handle.metrics().controller("scribe").unwrap();
    assert_eq!(metrics.failures.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn kinds_may_change() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.handle.kinds_changed().await;
    scene.pass(10).await;
    assert_eq!(*scene.fleet.followed.lock(), [Kinds::these(["things"])], "nothing is new");
    scene.scribe.more_kinds.store(true, Ordering::SeqCst);
    scene.handle.kinds_changed().await;
    scene.pass(10).await;
    let both = Kinds::these(["things", "others"]);
    assert_eq!(*scene.fleet.followed.lock(), [Kinds::these(["things"]), both]);
    assert_eq!(*scene.fleet.swept_kinds.lock(), [Kinds::these(["others"])], "only what is new is swept");
    scene.fleet.change("a", "thing");
    scene.pass(10).await;
    assert_eq!(scene.done(), ["a/thing"]);
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_to_do_comes_on() {
    let scene = Scene::new(FakeFleet::new(), Options::default()).await;
    scene.fleet.change("", "of another shard");
    scene.pass(6_000).await;
    assert!(scene.done().is_empty());
    assert_eq!(*scene.fleet.cursor.lock(), Some(Cursor { position: Position(1), ..Cursor::default() }));
}
