//! Who runs the controllers: this process, or, on a store that several share, one of them at a time for each shard.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use apiserver::{Engine, Engines};
use futures::future::{join_all, try_join, try_join_all};
use runtime::{Controller, FleetError, InProcessFleet, Leases, Options, Runtime, Shard, Terms};
use store::Fence;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::numbers::Numbers;
use crate::stores::{InUse, Opened};

/// Controllers at work: how they ended.
pub type Running = JoinHandle<Result<(), FleetError>>;

/// Makes controllers, anew for every term, on the engine that they may write through, and for whatever else they write to
/// with the fence that it has.
pub type Make = Box<dyn Fn(&Arc<Engine>, Option<&Fence>) -> Vec<Box<dyn Controller>> + Send + Sync>;

/// Controllers that run together. Processes on one store that have the same sets take turns; what only some of them
/// have waits for nobody else, and remembers for itself how far it has come.
pub struct Set {
    lease: &'static str,
    /// Where it remembers how far it has come.
    cursor: &'static str,
    /// In how many parts the processes of a store share its work, each part with a lease of its own.
    shards: u64,
    make: Make,
}

/// Enough that a handful of processes have about as much to do each, and few enough that one can have all.
const SHARDS: u64 = 8;

impl Set {
    /// What every control plane needs, in a process that serves many.
    pub fn controllers(make: Make) -> Set {
        Set { lease: "controllers", cursor: "_controllers", shards: SHARDS, make }
    }

    /// The same, in a process that serves one.
    pub fn controllers_of_one(make: Make) -> Set {
        Set { shards: 1, ..Set::controllers(make) }
    }

    /// What makes control planes, and what else only a hosting process does.
    pub fn operator(make: Make) -> Set {
        Set { lease: "operator", cursor: "_operator", shards: 1, make }
    }

    /// What looks after cloud resources: not divided, because a cloud counts the calls of all.
    pub fn clouds(make: Make) -> Set {
        Set { lease: CLOUDS, cursor: "_clouds", shards: 1, make }
    }

    fn fleet(&self, engine: Arc<Engine>) -> InProcessFleet {
        let fleet = InProcessFleet::with_cursor(engine, self.cursor);
        if self.lease == CLOUDS { fleet.leaving_copies() } else { fleet }
    }

    /// What one process runs of it.
    fn parts(self) -> impl Iterator<Item = Part> {
        let set = Arc::new(self);
        let shards: Vec<Option<Shard>> = match set.shards {
            1 => vec![None],
            shards => Shard::all(shards).map(Some).collect(),
        };
        shards.into_iter().map(move |shard| Part { set: set.clone(), shard })
    }
}

/// A set for one shard, or for all there is.
struct Part {
    set: Arc<Set>,
    shard: Option<Shard>,
}

impl Part {
    fn lease(&self) -> String {
        match self.shard {
            Some(shard) => format!("{}-{shard}", self.set.lease),
            None => self.set.lease.to_owned(),
        }
    }

    /// Its controllers, for one term.
    fn runtime(&self, engine: &Engine, fence: Fence) -> Runtime {
        let engine = engine.fenced(fence.clone());
        let controllers = (self.set.make)(&engine, Some(&fence));
        let fleet = self.set.fleet(engine);
        match self.shard {
            Some(shard) => Runtime::new(Arc::new(fleet.only(shard)), controllers, options_of_shard()),
            None => Runtime::new(Arc::new(fleet), controllers, Options::default()),
        }
    }
}

/// One process may have all shards: together they take about as much as one that has everything.
fn options_of_shard() -> Options {
    Options { workers: 48, keys: 25_000, ..Options::default() }
}

/// Calls to clouds are slow: their loops run apart from the others, so that nobody waits for them.
const CLOUDS: &str = "clouds";

/// Where this process works: one of its stores, and its place among the processes that share it.
pub struct Seat {
    engine: Arc<Engine>,
    is_shared: bool,
    in_use: InUse,
    /// Whoever asks for leases is counted among those who share the work.
    leases: OnceLock<Leases>,
    numbers: Numbers,
}

/// Takes a seat at each store, and begins to hear of the other processes there: to be called before anything is served.
/// What is away is joined when it is there; the default store is not.
pub async fn join(engines: &Engines, stores: &Opened, numbers: &Numbers) -> anyhow::Result<Vec<Seat>> {
    let mut seats: Vec<Seat> = Vec::new();
    for ((engine, place), in_use) in engines.iter().zip(stores.places()).zip(stores.in_use()) {
        if place.is_shared() {
            match engine.join().await {
                Ok(following) => drop(tokio::spawn(following)),
                Err(_) if !seats.is_empty() => drop(tokio::spawn(engine.clone().join_when_there())),
                Err(error) => return Err(error).context("the store cannot be followed"),
            }
        }
        let (engine, is_shared, numbers) = (engine.clone(), place.is_shared(), numbers.clone());
        seats.push(Seat { engine, is_shared, in_use, leases: OnceLock::new(), numbers });
    }
    Ok(seats)
}

impl Seat {
    /// Who takes turns on a store that several processes share; none on one that is this process's alone.
    pub fn leases(&self) -> Option<&Leases> {
        let leases = || {
            let process = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
            let leases = Leases::new(self.engine.store.clone(), process, Terms::default());
            self.numbers.add_leases(&self.engine.name, leases.clone());
            leases
        };
        self.is_shared.then(|| self.leases.get_or_init(leases))
    }

    /// Runs controllers until `stop`, by turns if there are leases.
    pub fn start(&self, sets: Vec<Set>, stop: CancellationToken) -> Running {
        if sets.is_empty() {
            return tokio::spawn(async move {
                stop.cancelled().await;
                Ok(())
            });
        }
        match self.leases() {
            None => tokio::spawn(alone(self.engine.clone(), self.in_use.clone(), sets, stop)),
            Some(leases) => tokio::spawn(among_others(self.engine.clone(), leases.clone(), sets, stop)),
        }
    }

    /// When nothing is done here any more.
    async fn leave(&self) {
        if let Some(leases) = self.leases.get() {
            leases.leave().await;
        }
    }
}

/// One reader of what happens for all that is quick, from when anything can happen.
async fn alone(
    engine: Arc<Engine>,
    in_use: InUse,
    sets: Vec<Set>,
    stop: CancellationToken,
) -> Result<(), FleetError> {
    if stop.run_until_cancelled(in_use.begun()).await.is_none() {
        return Ok(());
    }
    let (slow, quick): (Vec<Set>, Vec<Set>) = sets.into_iter().partition(|set| set.lease == CLOUDS);
    let all = quick.iter().flat_map(|set| (set.make)(&engine, None)).collect();
    let quick = runtime::run(Arc::new(InProcessFleet::new(engine.clone())), all, stop.clone());
    let slow = slow.into_iter().map(|set| {
        let fleet = Arc::new(set.fleet(engine.clone()));
        runtime::run(fleet, (set.make)(&engine, None), stop.clone())
    });
    try_join(quick, try_join_all(slow)).await.map(drop)
}

async fn among_others(
    engine: Arc<Engine>,
    leases: Leases,
    sets: Vec<Set>,
    stop: CancellationToken,
) -> Result<(), FleetError> {
    let parts = sets.into_iter().flat_map(Set::parts).map(async |part| {
        let run = |fence, ending| part.runtime(&engine, fence).run(ending);
        by_turns(&leases, &part.lease(), part.shard, stop.clone(), run).await
    });
    try_join_all(parts).await.map(drop)
}

/// Several that run and end together, after which the seats are left; the first that fails is the failure of all.
pub fn together(all: Vec<Running>, seats: Vec<Seat>) -> Running {
    let whole = async |running: Running| match running.await {
        Ok(ended) => ended,
        Err(error) => Err(FleetError::Failed(error.to_string())),
    };
    tokio::spawn(async move {
        let ended = try_join_all(all.into_iter().map(whole)).await.map(drop);
        join_all(seats.iter().map(Seat::leave)).await;
        ended
    })
}

/// Term after term, as the lease comes and goes: `run` ends when what it is given is cancelled, and writes only behind
/// the fence of its term.
pub async fn by_turns<R>(
    leases: &Leases,
    lease: &str,
    shard: Option<Shard>,
    stop: CancellationToken,
    run: impl Fn(Fence, CancellationToken) -> R,
) -> Result<(), FleetError>
where
    R: Future<Output = Result<(), FleetError>>,
{
    while let Some(term) = stop.run_until_cancelled(leases.acquire(lease, shard)).await {
        let ending = stop.child_token();
        let giving_up = async {
            term.ended.cancelled().await;
            ending.cancel();
            std::future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            ended = run(term.fence.clone(), ending.clone()) => ended,
            never = giving_up => match never {},
        };
        match ended {
            Ok(()) => {}
            // The store was away: the next term may find it again.
            Err(error) if !stop.is_cancelled() => tracing::warn!(lease, %error, "the controllers broke off"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
