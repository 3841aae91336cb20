//! Threads for heavy work, shared fairly between control planes.
//!
//! A task is polled on these threads in slices: from one `await` that is not ready to the next. The control plane that
//! has used the least time goes first, so a queue of a thousand slices delays others by one slice. The threads have a
//! lower priority than those of the reactor, which answers small requests.
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

use super::{Owner, too_many};
use crate::service::Failure;

/// Work of this many bytes and more leaves the reactor's threads. Smaller work takes less than a millisecond.
pub const HEAVY: usize = 64 << 10;

/// Tasks of a control plane that may wait for a thread. Seats keep the number far below this.
const MAX_QUEUED: usize = 1_024;

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
    waiting: VecDeque<Runnable>,
    running: usize,
    used: Duration,
    /// Its entry in `ready`.
    place: Option<(Duration, u64)>,
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

    /// Runs a future in slices, in its control plane's turn. Dropping the task cancels it.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        owner: Owner,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Task<T>, Failure> {
        if !self.has_room(owner) {
            return Err(too_many());
        }
        self.start();
        let shared = self.shared.clone();
        let schedule = move |runnable| shared.push(owner, runnable);
        let builder = async_task::Builder::new().propagate_panic(true);
        let (runnable, task) = builder.spawn(|()| future, schedule);
        runnable.schedule();
        Ok(task)
    }

    fn has_room(&self, owner: Owner) -> bool {
        let state = self.shared.state.lock();
        state.queues.get(&owner).is_none_or(|queue| queue.waiting.len() < MAX_QUEUED)
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
        state.queues.get(&owner).map_or((0, 0), |queue| (queue.waiting.len(), queue.running))
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
    fn push(&self, owner: Owner, runnable: Runnable) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return drop(runnable);
        }
        let clock = state.clock;
        let queue = state.queues.entry(owner).or_insert_with(|| Queue { used: clock, ..Queue::default() });
        queue.waiting.push_back(runnable);
        state.arrange(owner, self.max_running);
        drop(state);
        self.wake.notify_one();
    }

    /// The next slice, of the control plane that has used the least time. None when the pool is closed.
    fn next(&self) -> Option<(Owner, Runnable)> {
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

    fn finished(&self, owner: Owner, used: Duration) {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&owner) else { return };
        queue.running -= 1;
        queue.used += used;
        if queue.running == 0 && queue.waiting.is_empty() {
            state.queues.remove(&owner);
            return;
        }
        let waits = !queue.waiting.is_empty();
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
        while let Some((owner, runnable)) = self.next() {
            let began = Instant::now();
            runnable.run();
            self.finished(owner, began.elapsed());
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
        if !queue.waiting.is_empty() && queue.running < max_running {
            self.sequence += 1;
            queue.place = Some((queue.used, self.sequence));
            self.ready.insert((queue.used, self.sequence, owner));
        }
    }

    fn take(&mut self, max_running: usize) -> Option<(Owner, Runnable)> {
        let (used, _, owner) = self.ready.pop_first()?;
        self.clock = self.clock.max(used);
        let queue = self.queues.get_mut(&owner)?;
        queue.place = None;
        let runnable = queue.waiting.pop_front()?;
        queue.running += 1;
        self.arrange(owner, max_running);
        Some((owner, runnable))
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
}

/// A future that starts on the reactor's threads and moves to the pool at its first [`slice`].
pub struct Placed<T> {
    pool: Arc<Pool>,
    stage: Stage<T>,
}

enum Stage<T> {
    Reactor(BoxFuture<'static, T>),
    Pool(Task<T>),
    Done,
}

impl<T> Placed<T> {
    pub fn new(pool: Arc<Pool>, future: BoxFuture<'static, T>) -> Self {
        Placed { pool, stage: Stage::Reactor(future) }
    }
}

impl<T: Send + 'static> Future for Placed<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        loop {
            match &mut self.stage {
                Stage::Done => return Poll::Pending,
                Stage::Pool(task) => return Pin::new(task).poll(cx),
                Stage::Reactor(future) => {
                    let outer = PLACE.replace(Place::Reactor);
                    let polled = future.as_mut().poll(cx);
                    let place = PLACE.replace(outer);
                    let (Poll::Pending, Place::Leaving(owner)) = (&polled, place) else { return polled };
                    let Stage::Reactor(future) = std::mem::replace(&mut self.stage, Stage::Done) else {
                        return Poll::Pending;
                    };
                    match self.pool.spawn(owner, future) {
                        Ok(task) => self.stage = Stage::Pool(task),
                        // `slice` has looked for room a moment ago; a task that lost its place is polled here.
                        Err(_) => return Poll::Pending,
                    }
                }
            }
        }
    }
}

/// Begins a slice of heavy work within a request: what follows runs on the pool, and other control planes get their
/// turn first. Refuses with 429 if too many tasks of the control plane wait already.
pub(super) async fn slice(pool: &Pool, owner: Owner) -> Result<(), Failure> {
    if !pool.has_room(owner) {
        return Err(too_many());
    }
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
