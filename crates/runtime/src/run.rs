//! The loop: changes in, keys out, reconciles bounded, the cursor saved behind them.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::stream::{BoxStream, ReadyChunks, SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use http::HeaderValue;
use objects::CompactString;
use parking_lot::Mutex;
use store::{Position, Revision};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::aside::{self, Aside, Move};
use crate::controller::{Context, Controller, Error, Kinds, Next, Triggers};
use crate::cursor::{Cursor, LISTED, Parked, Pending};
use crate::event::{Event, Told};
use crate::fleet::{Changes, Fleet, FleetError, Identity};
use crate::metrics::{ControllerMetrics, Metrics, QueueDepth};
use crate::queue::{Item, Queue};
use crate::scan::{Scan, Scans};

/// Bounds of the runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// Reconciles at once, and of one control plane at once. They mostly wait for the store, which commits many
    /// writes in one go.
    pub workers: usize,
    pub share: usize,
    /// Reconciles that may wait for something slow without a worker.
    pub aside: aside::Bounds,
    /// Keys that may wait for a worker; with more, changes wait in the fleet's log.
    pub keys: usize,
    /// Keys of one control plane that may wait for a worker, and twice as many with those that reconciles ask for. With
    /// more, its changes are left in the log and read from there when half of them are done: so that it does not take
    /// the room of others, nor their time.
    pub line: usize,
    /// Keys that a scan may leave waiting, so that changes find room beside it.
    pub swept_keys: usize,
    /// How long after a change the cursor is saved.
    pub save_after: Duration,
    /// How long running reconciles may take to end after a stop.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 128,
            share: 32,
            aside: aside::Bounds::default(),
            keys: 100_000,
            line: 10_000,
            swept_keys: 2_000,
            save_after: Duration::from_secs(5),
            patience: Duration::from_secs(20),
        }
    }
}

/// Controllers at work on a fleet.
pub struct Runtime {
    fleet: Arc<dyn Fleet>,
    controllers: Vec<Member>,
    options: Options,
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Asked>,
    asking: mpsc::Sender<Asked>,
}

/// What a [`Handle`] asks for.
enum Asked {
    Sweep(CompactString),
    Kinds,
}

/// A controller with what the runtime knows of it.
#[derive(Clone)]
struct Member {
    controller: Arc<dyn Controller>,
    kinds: Kinds,
    identity: Identity,
}

struct Shared {
    metrics: Metrics,
    depth: Mutex<QueueDepth>,
    aside: Arc<Aside>,
}

/// Asks a running runtime for things, and looks at it.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    asking: mpsc::Sender<Asked>,
}

impl Handle {
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub fn depth(&self) -> QueueDepth {
        *self.shared.depth.lock()
    }

    /// Has everything in one control plane looked at: for those that came with objects but without a history,
    /// such as forks and imports.
    pub async fn sweep(&self, control_plane: impl Into<CompactString>) {
        // Nobody listens when the runtime has ended, and then the next one sweeps.
        let _ = self.asking.send(Asked::Sweep(control_plane.into())).await;
    }

    /// Has the controllers asked again which kinds they look at. What is there of new ones is looked at.
    pub async fn kinds_changed(&self) {
        let _ = self.asking.send(Asked::Kinds).await;
    }
}

/// Runs controllers on a fleet until told to stop.
pub async fn run(
    fleet: Arc<dyn Fleet>,
    controllers: Vec<Box<dyn Controller>>,
    stop: CancellationToken,
) -> Result<(), FleetError> {
    Runtime::new(fleet, controllers, Options::default()).run(stop).await
}

/// The name that upstream's controllers write under.
const AGENT: &str = "kube-controller-manager";
/// Sweeps of single control planes that may wait.
const SWEEPS: usize = 64;
/// Changes taken from the stream at once.
const CHUNK: usize = 128;
/// Before a stream that failed is opened again.
const PAUSE: Duration = Duration::from_secs(1);

impl Runtime {
    pub fn new(fleet: Arc<dyn Fleet>, controllers: Vec<Box<dyn Controller>>, options: Options) -> Runtime {
        let member = |controller: Box<dyn Controller>| Member {
            kinds: controller.kinds(),
            identity: Identity {
                user: Arc::new(controller.identity()),
                agent: HeaderValue::try_from(format!("{AGENT}/{}", controller.name()))
                    .unwrap_or(HeaderValue::from_static(AGENT)),
            },
            controller: controller.into(),
        };
        let controllers: Vec<Member> = controllers.into_iter().map(member).collect();
        let counters = controllers.iter().map(|member| ControllerMetrics::new(member.controller.name()));
        let metrics = Metrics { controllers: counters.collect(), ..Metrics::default() };
        let (asking, requests) = mpsc::channel(SWEEPS);
        let aside = Arc::new(Aside::new(options.aside));
        let shared = Arc::new(Shared { metrics, depth: Mutex::default(), aside });
        Runtime { fleet, controllers, options, shared, requests, asking }
    }

    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone(), asking: self.asking.clone() }
    }

    /// Runs until told to stop or until the fleet closes; ends when running reconciles have ended.
    pub async fn run(self, stop: CancellationToken) -> Result<(), FleetError> {
        let all = self.controllers.iter().map(|member| member.kinds.clone());
        let kinds = all.reduce(Kinds::and).unwrap_or(Kinds::These(Default::default()));
        let queue = Queue::new(self.options.share, self.options.line);
        let news = self.controllers.iter().enumerate().filter_map(|(controller, member)| {
            let news = member.controller.news()?;
            Some(news.map(move |request| Item { controller, request }).boxed())
        });
        let news = select_all(news);
        let mut turning = Loop {
            fleet: self.fleet,
            controllers: self.controllers,
            options: self.options,
            shared: self.shared,
            kinds,
            queue,
            tasks: JoinSet::new(),
            reconciles: 0,
            saving: false,
            read: Position::default(),
            feed: None,
            news,
            scans: Scans::default(),
            reopen: None,
            save: None,
        };
        turning.begin().await?;
        let ended = turning.turn(&stop, self.requests).await;
        turning.finish().await;
        ended
    }
}

/// What a spawned task ends with.
enum Ended {
    Reconciled { item: Arc<Item>, outcome: Option<Next>, more: Triggers },
    Saved,
}

struct Loop {
    fleet: Arc<dyn Fleet>,
    controllers: Vec<Member>,
    options: Options,
    shared: Arc<Shared>,
    kinds: Kinds,
    queue: Queue,
    tasks: JoinSet<Ended>,
    reconciles: usize,
    saving: bool,
    /// Changes up to here have been asked about.
    read: Position,
    feed: Option<ReadyChunks<Changes>>,
    /// What controllers are told otherwise.
    news: SelectAll<BoxStream<'static, Item>>,
    scans: Scans,
    /// When to open the feed again after it failed.
    reopen: Option<Instant>,
    /// When to save the cursor.
    save: Option<Instant>,
}

impl Loop {
    async fn begin(&mut self) -> Result<(), FleetError> {
        match self.fleet.load().await? {
            Some(cursor) => {
                self.read = cursor.position;
                self.restore(cursor.parked);
                for pending in cursor.pending {
                    self.restore_scan(pending);
                }
            }
            None => self.sweep_all().await?,
        }
        self.open().await
    }

    /// What was parked before the restart.
    fn restore(&mut self, parked: Vec<Parked>) {
        let (now, today) = (Instant::now(), jiff::Timestamp::now().as_second());
        for Parked { controller, request, due } in parked {
            let Some(controller) = self.controller_named(&controller) else { continue };
            let delay = Duration::from_secs(u64::try_from(due - today).unwrap_or(0));
            self.add(Item { controller, request }, (Position(0), Revision(0)), delay, now);
        }
    }

    fn controller_named(&self, name: &str) -> Option<usize> {
        self.controllers.iter().position(|member| member.controller.name() == name)
    }

    /// What was still to be looked at before the restart.
    fn restore_scan(&mut self, pending: Pending) {
        let controller = match &pending.controller {
            None => None,
            Some(name) => match self.controller_named(name) {
                // Nobody asks for it any more.
                None => return,
                found => found,
            },
        };
        let Pending { control_plane, kinds, changes, after, .. } = pending;
        let kinds = kinds.map(|kinds| Kinds::These(kinds.into_iter().collect()));
        self.scans.push(Scan { control_plane, kinds, controller, changes, after });
    }

    /// Asks for a key because of a change, which stands at a position of the fleet's log and at a revision of its
    /// control plane's; 0 where that is not known.
    fn add(&mut self, item: Item, change: (Position, Revision), delay: Duration, now: Instant) {
        let control_plane = item.request.control_plane.clone();
        if !self.queue.add(item, change.0, delay, now) {
            self.lose(&control_plane, change.1);
        }
    }

    fn lose(&mut self, control_plane: &CompactString, revision: Revision) {
        if self.scans.lose(control_plane, revision) {
            tracing::debug!(%control_plane, "the queue is full; the changes that follow are read again later");
        }
    }

    /// Everything is looked at, and changes are followed from now on.
    async fn sweep_all(&mut self) -> Result<(), FleetError> {
        Metrics::count(&self.shared.metrics.sweeps);
        self.read = self.fleet.position().await?;
        self.scans.all();
        Ok(())
    }

    /// Controllers are asked again; the feed carries what they want from now on, and a sweep what was there before.
    fn kinds_changed(&mut self) {
        let mut added = Kinds::These(BTreeSet::new());
        for member in &mut self.controllers {
            let kinds = member.controller.kinds();
            added = added.and(kinds.without(&member.kinds));
            member.kinds = kinds;
        }
        let all = self.controllers.iter().map(|member| member.kinds.clone());
        let kinds = all.reduce(Kinds::and).unwrap_or(Kinds::These(BTreeSet::new()));
        if kinds != self.kinds {
            self.kinds = kinds;
            self.feed = None;
            self.reopen = Some(Instant::now());
        }
        if !added.is_empty() {
            self.scans.push(Scan { kinds: Some(added), ..Scan::default() });
        }
    }

    async fn open(&mut self) -> Result<(), FleetError> {
        self.reopen = None;
        let stream = match self.fleet.follow(&self.kinds, self.read).await {
            Err(FleetError::Expired(_)) => {
                tracing::info!("changes were missed for too long; looking at everything");
                self.sweep_all().await?;
                self.fleet.follow(&self.kinds, self.read).await?
            }
            opened => opened?,
        };
        self.feed = Some(stream.ready_chunks(CHUNK));
        Ok(())
    }

    async fn turn(
        &mut self,
        stop: &CancellationToken,
        mut requests: mpsc::Receiver<Asked>,
    ) -> Result<(), FleetError> {
        loop {
            self.start_ready();
            self.next_scan();
            let due = self.queue.next_due().filter(|_| self.reconciles < self.options.workers);
            let wake = [due, self.save, self.reopen, self.scans.again()].into_iter().flatten().min();
            let room = self.queue.depth().ready < self.options.keys;
            let scan_room = self.has_room_for_scan();
            Metrics::count(&self.shared.metrics.wakeups);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => self.ended(ended.ok()),
                () = self.shared.aside.moved() => self.move_aside(),
                events = next(&mut self.feed), if room => self.changed(events)?,
                Some(item) = self.news.next(), if room && !self.news.is_empty() => {
                    self.add(item, (self.read, Revision(0)), Duration::ZERO, Instant::now());
                }
                event = next_found(&mut self.scans), if scan_room => self.scanned(event),
                Some(asked) = requests.recv() => match asked {
                    Asked::Sweep(plane) => self.scans.push(Scan::of(plane)),
                    Asked::Kinds => self.kinds_changed(),
                },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
            let now = Instant::now();
            if self.save.is_some_and(|at| at <= now) {
                self.save_cursor();
            }
            if self.reopen.is_some_and(|at| at <= now)
                && let Err(error) = self.open().await
            {
                tracing::warn!(%error, "changes cannot be followed");
                self.reopen = Some(Instant::now() + PAUSE);
            }
        }
    }

    /// Reconciles that wait for something slow give their workers to others. Those that come back are let in at once:
    /// nothing new begins while they are too many.
    fn move_aside(&mut self) {
        for step in self.shared.aside.moves() {
            match step {
                Move::Left(item) => {
                    self.reconciles = self.reconciles.saturating_sub(1);
                    self.queue.leave(&item);
                }
                Move::Returned(item) => {
                    self.reconciles += 1;
                    self.queue.return_to(&item);
                }
            }
        }
    }

    fn start_ready(&mut self) {
        let now = Instant::now();
        while self.reconciles < self.options.workers {
            let Some(item) = self.queue.pop(now) else { break };
            let Some(member) = self.controllers.get(item.controller) else { continue };
            self.reconciles += 1;
            self.tasks.spawn(reconcile(self.fleet.clone(), member.clone(), self.shared.clone(), item));
        }
        *self.shared.depth.lock() = self.queue.depth();
    }

    /// A scan of one control plane waits for that one only.
    fn has_room_for_scan(&self) -> bool {
        let ready = match self.scans.control_plane() {
            Some(control_plane) => self.queue.ready_of(control_plane),
            None => self.queue.depth().ready,
        };
        self.scans.is_active()
            && ready < self.options.swept_keys
            && self.queue.depth().ready < self.options.keys
    }

    fn next_scan(&mut self) {
        let Some(scan) = self.scans.next(Instant::now()) else { return };
        let kinds = scan.kinds.as_ref().unwrap_or(&self.kinds);
        let found = match (&scan.control_plane, scan.changes) {
            (Some(plane), Some((after, to))) => self.fleet.replay(kinds, plane.clone(), after, to),
            (plane, _) => self.fleet.sweep(kinds, plane.clone(), scan.after.clone()),
        };
        self.scans.begin(scan, found);
    }

    fn ended(&mut self, ended: Option<Ended>) {
        // Who has ended has come back before.
        self.move_aside();
        match ended {
            Some(Ended::Reconciled { item, outcome, more }) => {
                self.reconciles = self.reconciles.saturating_sub(1);
                let now = Instant::now();
                // What follows from a change is done when that change is.
                let since = self.queue.since(&item).unwrap_or(self.read);
                for (key, delay) in more.keys {
                    let request = crate::Request { control_plane: item.request.control_plane.clone(), key };
                    let more = Item { controller: item.controller, request };
                    if !self.queue.add_following(more, since, delay, now) {
                        self.lose(&item.request.control_plane, Revision(0));
                    }
                }
                for kind in more.kinds {
                    let kinds = Some(Kinds::These([kind].into()));
                    let control_plane = Some(item.request.control_plane.clone());
                    let controller = Some(item.controller);
                    self.scans.push(Scan { control_plane, kinds, controller, ..Scan::default() });
                }
                self.queue.done(&item, outcome, now, rand::random());
                self.queue.shrink();
                let control_plane = &item.request.control_plane;
                if self.queue.ready_of(control_plane) <= self.options.line / 2 {
                    self.scans.resume(control_plane);
                }
                self.save_soon();
            }
            Some(Ended::Saved) => self.saving = false,
            // Tasks catch their own panics, and nobody aborts them.
            None => {}
        }
    }

    fn changed(&mut self, told: Option<Vec<Result<Told, FleetError>>>) -> Result<(), FleetError> {
        let Some(told) = told else {
            self.feed = None;
            self.reopen = Some(Instant::now() + PAUSE);
            return Ok(());
        };
        for told in told {
            match told {
                Ok(Told::UpTo(position)) => self.read = self.read.max(position),
                Ok(Told::Event(event)) => {
                    Metrics::count(&self.shared.metrics.events);
                    if !self.scans.is_left_for_later(&event) {
                        self.dispatch(&event, (event.position, event.revision), None);
                    }
                    self.read = self.read.max(event.position);
                }
                Err(FleetError::Closed) => return Err(FleetError::Closed),
                Err(error) => {
                    tracing::warn!(%error, "the stream of changes broke and is opened again");
                    self.feed = None;
                    self.reopen = Some(Instant::now() + PAUSE);
                    return Ok(());
                }
            }
        }
        self.save_soon();
        Ok(())
    }

    fn scanned(&mut self, event: Option<Result<Event, FleetError>>) {
        match event {
            Some(Ok(event)) => {
                let scan = self.scans.active().map(|active| (active.scan.controller, active.scan.changes));
                let (only, changes) = scan.unwrap_or_default();
                // What is found as it is leaves no trace in the history.
                let change = match changes {
                    Some(_) => (event.position, event.revision),
                    None => (Position(0), Revision(0)),
                };
                self.dispatch(&event, change, only);
                self.scans.looked_at(&event);
            }
            Some(Err(FleetError::Expired(_))) => {
                tracing::info!("changes were missed for too long; looking at everything in a control plane");
                self.scans.expired();
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "a scan failed and is continued later");
                self.scans.failed(Instant::now() + PAUSE);
            }
            None => {
                self.scans.done();
                self.save_soon();
            }
        }
    }

    /// Asks the controllers, or only one of them, what an event means to them.
    fn dispatch(&mut self, event: &Event, change: (Position, Revision), only: Option<usize>) {
        let now = Instant::now();
        let mut triggers = Triggers::default();
        for controller in 0..self.controllers.len() {
            let Some(member) = self.controllers.get(controller) else { return };
            if !member.kinds.contains(&event.key.kind) || only.is_some_and(|only| only != controller) {
                continue;
            }
            member.controller.triggers(event, &mut triggers);
            for (key, delay) in triggers.keys.drain(..) {
                let request = crate::Request { control_plane: event.control_plane.clone(), key };
                self.add(Item { controller, request }, change, delay, now);
            }
        }
    }

    fn save_soon(&mut self) {
        self.save.get_or_insert_with(|| Instant::now() + self.options.save_after);
    }

    /// How far everything is done; none while that cannot be said.
    fn cursor(&self) -> Option<Cursor> {
        let pending = self.scans.pending().map(|scan| {
            let named = |index: usize| Some(self.controllers.get(index)?.controller.name().into());
            let kinds = match scan.kinds {
                Some(Kinds::These(kinds)) => Some(kinds.into_iter().collect()),
                Some(Kinds::All) | None => None,
            };
            let Scan { control_plane, controller, changes, after, .. } = scan;
            Pending { control_plane, kinds, controller: controller.and_then(named), changes, after }
        });
        let pending = pending.collect();
        if self.queue.len() > LISTED {
            let before = self.queue.oldest()?.0.checked_sub(1)?;
            return Some(Cursor { position: Position(before).min(self.read), parked: Vec::new(), pending });
        }
        let today = jiff::Timestamp::now().as_second();
        let parked = self.queue.all(Instant::now()).filter_map(|(item, wait)| {
            let controller = self.controllers.get(item.controller)?.controller.name().into();
            let due = today.saturating_add_unsigned(wait.as_secs());
            Some(Parked { controller, request: item.request.clone(), due })
        });
        Some(Cursor { position: self.read, parked: parked.collect(), pending })
    }

    fn save_cursor(&mut self) {
        self.save = None;
        if self.saving {
            return self.save_soon();
        }
        let Some(cursor) = self.cursor() else { return };
        self.saving = true;
        let (fleet, shared) = (self.fleet.clone(), self.shared.clone());
        self.tasks.spawn(async move {
            match fleet.save(&cursor).await {
                Ok(()) => Metrics::count(&shared.metrics.saves),
                // The next change saves it again; until then a restart has more to do, and nothing is lost.
                Err(error) => not_saved(&error),
            }
            Ended::Saved
        });
    }

    /// Lets what runs end, and remembers what did not.
    async fn finish(&mut self) {
        self.feed = None;
        let patience = tokio::time::sleep(self.options.patience);
        tokio::pin!(patience);
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended.ok()),
                () = &mut patience => break,
            }
        }
        self.tasks.abort_all();
        if let Some(cursor) = self.cursor()
            && let Err(error) = self.fleet.save(&cursor).await
        {
            not_saved(&error);
        }
    }
}

fn not_saved(error: &FleetError) {
    match error {
        // Said once already, and there are many cursors.
        FleetError::Away(why) => tracing::debug!(why, "the cursor cannot be saved yet"),
        error => tracing::warn!(%error, "the cursor cannot be saved"),
    }
}

/// The next item of a stream that may not be there.
async fn next<S: futures::Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn next_found(scans: &mut Scans) -> Option<Result<Event, FleetError>> {
    match scans.active() {
        Some(active) => active.found.next().await,
        None => std::future::pending().await,
    }
}

async fn reconcile(fleet: Arc<dyn Fleet>, member: Member, shared: Arc<Shared>, item: Arc<Item>) -> Ended {
    let began = Instant::now();
    let attempt = AssertUnwindSafe(attempt(&fleet, &member, &shared, &item)).catch_unwind().await;
    let (request, name) = (&item.request, member.controller.name());
    let (outcome, more) = match attempt {
        Ok(Ok((next, more))) => (Some(next), more),
        Ok(Err(error)) => {
            let (plane, key) = (&request.control_plane, &request.key);
            match error.code() {
                // Conflicts and the like are the normal way to learn that something else was quicker.
                Some(404 | 409 | 429) => {
                    tracing::debug!(controller = name, control_plane = %plane, ?key, %error, "reconcile will be retried");
                }
                // The control plane's own policy, quota or webhook refused it: for whoever administers that one.
                Some(400..500) => {
                    tracing::info!(controller = name, control_plane = %plane, ?key, %error, "reconcile was refused");
                }
                _ if !fleet.has(plane).await => {
                    tracing::debug!(controller = name, control_plane = %plane, ?key, %error, "control plane was deleted");
                }
                _ => {
                    tracing::warn!(controller = name, control_plane = %plane, ?key, %error, "reconcile failed");
                }
            }
            (None, Triggers::default())
        }
        Err(_) => {
            tracing::error!(controller = name, ?request, "a reconcile panicked");
            (None, Triggers::default())
        }
    };
    if let Some(counters) = shared.metrics.controllers.get(item.controller) {
        counters.observe(began.elapsed(), matches!(outcome, None | Some(Next::Backoff)));
    }
    Ended::Reconciled { item, outcome, more }
}

async fn attempt(
    fleet: &Arc<dyn Fleet>,
    member: &Member,
    shared: &Shared,
    item: &Arc<Item>,
) -> Result<(Next, Triggers), Error> {
    let context = Context {
        now: jiff::Timestamp::now(),
        client: OnceLock::new(),
        identity: member.identity.clone(),
        control_plane: item.request.control_plane.clone(),
        fleet: fleet.clone(),
        more: Mutex::default(),
        place: aside::Place::new(&shared.aside, item),
    };
    let next = member.controller.reconcile(&context, &item.request).await?;
    Ok((next, context.more.into_inner()))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
