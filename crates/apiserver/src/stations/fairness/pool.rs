//! Threads for heavy work, shared fairly between control planes.
//!
//! A task is polled on these threads in slices: from one `await` that is not ready to the next. The control plane that
//! has used the least time goes first, and within it the user who has used the least, so a queue of a thousand slices
//! delays others by one slice. The threads have a lower priority than those of the reactor, which answers small requests.
//!
//! **Invariant:** a control plane has an entry here only while it has tasks that wait or run.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_task::{Runnable, Task};
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;

use super::{Flow, Owner, too_many};
use crate::service::Failure;

/// Work of this many bytes and more leaves the reactor's threads. Smaller work takes less than a millisecond.
pub const HEAVY: usize = 64 << 10;

/// Tasks of a control plane that may wait for a thread. A user may have as many as are left.
const MAX_QUEUED: usize = 2_048;

/// The nice value of the threads: the reactor gets the processor first, and heavy work about a quarter of a full one.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// One queue for each control plane, and the order in which they are served.
#[derive(Default)]
struct State {
    queues: HashMap<Owner, Queue>,
    /// Control planes with a waiting task and fewer running ones than `max_running`, by the time they have used.
    ready: BTreeSet<(Duration, u64, Owner)>,
    /// The used time of the control plane that was served last. A new one starts here.
    clock: Duration,
    sequence: u64,
    started: bool,
    closed: bool,
}

#[derive(Default)]
struct Queue {
    /// Of the users with tasks that wait or run.
    flows: HashMap<Flow, FlowQueue>,
    waiting: usize,
    running: usize,
    used: Duration,
    /// The used time of the user who was served last. A new one starts here.
    clock: Duration,
    /// Its entry in `ready`.
    place: Option<(Duration, u64)>,
}

#[derive(Default)]
struct FlowQueue {
    waiting: VecDeque<Runnable>,
    running: usize,
    used: Duration,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Threads that one control plane may occupy: one is always left for the others.
    max_running: usize,
}

/// The pool of one process. The threads start with the first task.
pub struct Pool {
    shared: Arc<Shared>,
    threads: usize,
}

impl Pool {
    pub fn new(cores: usize) -> Self {
        let shared = Shared { state: Mutex::default(), wake: Condvar::new(), max_running: cores.max(1) };
        Pool { shared: Arc::new(shared), threads: cores.max(1) + 1 }
    }

    /// Runs a future in slices, in the turn of its control plane and of the current user. Dropping the task cancels it.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        owner: Owner,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        self.start();
        let (shared, flow) = (self.shared.clone(), FLOW.get());
        let schedule = move |runnable| shared.push(owner, flow, runnable);
        let builder = async_task::Builder::new().propagate_panic(true);
        let (runnable, task) = builder.spawn(|()| future, schedule);
        runnable.schedule();
        task
    }

    /// Refuses with 429 if too many tasks of the control plane or of the current user wait already.
    pub(super) fn check_room(&self, owner: Owner) -> Result<(), Failure> {
        let state = self.shared.state.lock();
        let Some(queue) = state.queues.get(&owner) else { return Ok(()) };
        let own = queue.flows.get(&FLOW.get()).map_or(0, |flow| flow.waiting.len());
        if own + queue.waiting < MAX_QUEUED { Ok(()) } else { Err(too_many()) }
    }

    fn start(&self) {
        if std::mem::replace(&mut self.shared.state.lock().started, true) {
            return;
        }
        let handle = Handle::current();
        for number in 0..self.threads {
            let (shared, handle) = (self.shared.clone(), handle.clone());
            let thread = std::thread::Builder::new().name(format!("heavy-{number}"));
            if let Err(error) = thread.spawn(move || shared.work(&handle)) {
                tracing::error!(%error, "failed to start a thread for heavy work");
            }
        }
    }

    /// Tasks of a control plane that wait and that run.
    #[cfg(test)]
    pub fn tasks(&self, owner: Owner) -> (usize, usize) {
        let state = self.shared.state.lock();
        state.queues.get(&owner).map_or((0, 0), |queue| (queue.waiting, queue.running))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let queues = {
            let mut state = self.shared.state.lock();
            state.closed = true;
            state.ready.clear();
            std::mem::take(&mut state.queues)
        };
        self.shared.wake.notify_all();
        drop(queues);
    }
}

impl Shared {
    fn push(&self, owner: Owner, flow: Flow, runnable: Runnable) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return drop(runnable);
        }
        let clock = state.clock;
        let queue = state.queues.entry(owner).or_insert_with(|| Queue { used: clock, ..Queue::default() });
        let started = queue.clock;
        let own =
            queue.flows.entry(flow).or_insert_with(|| FlowQueue { used: started, ..FlowQueue::default() });
        own.waiting.push_back(runnable);
        queue.waiting += 1;
        state.arrange(owner, self.max_running);
        drop(state);
        self.wake.notify_one();
    }

    /// The next slice, of the control plane that has used the least time. None when the pool is closed.
    fn next(&self) -> Option<(Owner, Flow, Runnable)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.take(self.max_running) {
                return Some(next);
            }
            self.wake.wait(&mut state);
        }
    }

    fn finished(&self, owner: Owner, flow: Flow, used: Duration) {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&owner) else { return };
        queue.running -= 1;
        queue.used += used;
        if let Some(own) = queue.flows.get_mut(&flow) {
            own.running -= 1;
            own.used += used;
            if own.running == 0 && own.waiting.is_empty() {
                queue.flows.remove(&flow);
            }
        }
        if queue.flows.is_empty() {
            state.queues.remove(&owner);
            return;
        }
        let waits = queue.waiting > 0;
        state.arrange(owner, self.max_running);
        drop(state);
        if waits {
            self.wake.notify_one();
        }
    }

    fn work(&self, handle: &Handle) {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "failed to lower the priority of a thread for heavy work");
        }
        let _runtime = handle.enter();
        PLACE.set(Place::Pool);
        while let Some((owner, flow, runnable)) = self.next() {
            let began = Instant::now();
            FLOW.set(flow);
            runnable.run();
            self.finished(owner, flow, began.elapsed());
        }
    }
}

impl State {
    /// Brings a control plane's entry in `ready` up to date.
    fn arrange(&mut self, owner: Owner, max_running: usize) {
        let Some(queue) = self.queues.get_mut(&owner) else { return };
        if let Some((used, sequence)) = queue.place.take() {
            self.ready.remove(&(used, sequence, owner));
        }
        if queue.waiting > 0 && queue.running < max_running {
            self.sequence += 1;
            queue.place = Some((queue.used, self.sequence));
            self.ready.insert((queue.used, self.sequence, owner));
        }
    }

    fn take(&mut self, max_running: usize) -> Option<(Owner, Flow, Runnable)> {
        let (used, _, owner) = self.ready.pop_first()?;
        self.clock = self.clock.max(used);
        let queue = self.queues.get_mut(&owner)?;
        queue.place = None;
        let waiting = queue.flows.iter_mut().filter(|(_, own)| !own.waiting.is_empty());
        let (flow, own) = waiting.min_by_key(|(_, own)| own.used)?;
        let (flow, runnable) = (*flow, own.waiting.pop_front()?);
        own.running += 1;
        queue.clock = queue.clock.max(own.used);
        queue.waiting -= 1;
        queue.running += 1;
        self.arrange(owner, max_running);
        Some((owner, flow, runnable))
    }
}

/// Where the current future is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not within [`Placed`].
    Unknown,
    /// Within [`Placed`] on a thread of the reactor.
    Reactor,
    /// The same, and it asked to be moved.
    Leaving(Owner),
    Pool,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Unknown) };
    /// The user whose request is polled.
    static FLOW: Cell<Flow> = const { Cell::new(0) };
}

/// Says whose request the current future is, from here on.
pub(super) fn set_flow(flow: Flow) {
    FLOW.set(flow);
}

/// Polls something in the name of a user.
pub(super) fn with_flow<T>(flow: Flow, poll: impl FnOnce() -> T) -> T {
    let outer = FLOW.replace(flow);
    let polled = poll();
    FLOW.set(outer);
    polled
}

/// A future that starts on the reactor's threads and moves to the pool at its first [`slice`].
pub struct Placed<T> {
    pool: Arc<Pool>,
    flow: Flow,
    stage: Stage<T>,
}

enum Stage<T> {
    Reactor(BoxFuture<'static, T>),
    Pool(Task<T>),
    Done,
}

impl<T> Placed<T> {
    pub fn new(pool: Arc<Pool>, future: BoxFuture<'static, T>) -> Self {
        Placed { pool, flow: 0, stage: Stage::Reactor(future) }
    }
}

impl<T: Send + 'static> Future for Placed<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        loop {
            let this = &mut *self;
            match &mut this.stage {
                Stage::Done => return Poll::Pending,
                Stage::Pool(task) => return Pin::new(task).poll(cx),
                Stage::Reactor(future) => {
                    let outer = (PLACE.replace(Place::Reactor), FLOW.replace(this.flow));
                    let polled = future.as_mut().poll(cx);
                    let place = PLACE.replace(outer.0);
                    this.flow = FLOW.replace(outer.1);
                    let (Poll::Pending, Place::Leaving(owner)) = (&polled, place) else { return polled };
                    let Stage::Reactor(future) = std::mem::replace(&mut this.stage, Stage::Done) else {
                        return Poll::Pending;
                    };
                    this.stage = Stage::Pool(with_flow(this.flow, || this.pool.spawn(owner, future)));
                }
            }
        }
    }
}

/// Begins a slice of heavy work within a request: what follows runs on the pool, and other control planes get their
/// turn first. Refuses with 429 if too many tasks of the control plane wait already.
pub(super) async fn slice(pool: &Pool, owner: Owner) -> Result<(), Failure> {
    pool.check_room(owner)?;
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        match PLACE.get() {
            Place::Unknown | Place::Leaving(_) => return Poll::Ready(()),
            Place::Reactor => PLACE.set(Place::Leaving(owner)),
            Place::Pool => cx.waker().wake_by_ref(),
        }
        Poll::Pending
    })
    .await;
    Ok(())
}
