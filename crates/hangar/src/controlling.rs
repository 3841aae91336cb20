//! Who runs the controllers: this process, or, on a store that several share, one of them at a time.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use apiserver::Engine;
use runtime::{Controller, FleetError, InProcessFleet, Leases, Terms};
use store::Fence;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stores::Place;

/// Controllers at work: how they ended.
pub type Running = JoinHandle<Result<(), FleetError>>;

/// Makes controllers, anew for every term, on the engine that they may write through.
pub type Make = Box<dyn Fn(&Arc<Engine>) -> Vec<Box<dyn Controller>> + Send + Sync>;

/// Controllers that run together. Processes on one store that have the same sets take turns; what only some of them
/// have waits for nobody else, and remembers for itself how far it has come.
pub struct Set {
    lease: &'static str,
    /// Where it remembers how far it has come.
    cursor: &'static str,
    make: Make,
}

impl Set {
    /// What every control plane needs.
    pub fn controllers(make: Make) -> Set {
        Set { lease: "controllers", cursor: "_controllers", make }
    }

    /// What makes control planes, and what else only a hosting process does.
    pub fn operator(make: Make) -> Set {
        Set { lease: "operator", cursor: "_operator", make }
    }

    /// What looks after cloud resources.
    pub fn clouds(make: Make) -> Set {
        Set { lease: CLOUDS, cursor: "_clouds", make }
    }

    fn fleet(&self, engine: Arc<Engine>) -> InProcessFleet {
        let fleet = InProcessFleet::with_cursor(engine, self.cursor);
        if self.lease == CLOUDS { fleet.leaving_copies() } else { fleet }
    }
}

/// Calls to clouds are slow: their loops run apart from the others, so that nobody waits for them.
const CLOUDS: &str = "clouds";

/// Runs controllers until `stop`. To be called before anything is served: on a shared store this is also where the
/// process begins to hear of the others.
pub async fn start(
    engine: &Arc<Engine>,
    place: &Place,
    sets: Vec<Set>,
    stop: CancellationToken,
) -> anyhow::Result<Running> {
    let leases = leases(engine, place);
    if leases.is_some() {
        tokio::spawn(engine.join().await.context("the store cannot be followed")?);
    }
    let engine = engine.clone();
    Ok(tokio::spawn(async move {
        if sets.is_empty() {
            stop.cancelled().await;
            return Ok(());
        }
        match leases {
            // One reader of what happens for all that is quick.
            None => {
                let (slow, quick): (Vec<Set>, Vec<Set>) =
                    sets.into_iter().partition(|set| set.lease == CLOUDS);
                let all = quick.iter().flat_map(|set| (set.make)(&engine)).collect();
                let quick = runtime::run(Arc::new(InProcessFleet::new(engine.clone())), all, stop.clone());
                let slow = slow.into_iter().map(|set| {
                    let fleet = Arc::new(set.fleet(engine.clone()));
                    runtime::run(fleet, (set.make)(&engine), stop.clone())
                });
                futures::future::try_join(quick, futures::future::try_join_all(slow)).await.map(drop)
            }
            Some(leases) => {
                let turns = sets.into_iter().map(|set| {
                    let (engine, leases, stop) = (engine.clone(), leases.clone(), stop.clone());
                    async move {
                        let run = |fence, ending| {
                            let engine = engine.fenced(fence);
                            let controllers = (set.make)(&engine);
                            runtime::run(Arc::new(set.fleet(engine)), controllers, ending)
                        };
                        by_turns(&leases, set.lease, stop, run).await
                    }
                });
                futures::future::try_join_all(turns).await.map(drop)
            }
        }
    }))
}

/// Several that run and end together; the first that fails is the failure of all.
pub fn together(all: Vec<Running>) -> Running {
    let whole = async |running: Running| match running.await {
        Ok(ended) => ended,
        Err(error) => Err(FleetError::Failed(error.to_string())),
    };
    tokio::spawn(async move { futures::future::try_join_all(all.into_iter().map(whole)).await.map(drop) })
}

/// Who takes turns on a store that several processes share; none on one that is this process's alone.
pub fn leases(engine: &Engine, place: &Place) -> Option<Leases> {
    let holder = || format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
    place.is_shared().then(|| Leases::new(engine.store.clone(), holder(), Terms::default()))
}

/// Term after term, as the lease comes and goes: `run` ends when what it is given is cancelled, and writes only behind
/// the fence of its term.
pub async fn by_turns<R>(
    leases: &Leases,
    lease: &str,
    stop: CancellationToken,
    run: impl Fn(Fence, CancellationToken) -> R,
) -> Result<(), FleetError>
where
    R: Future<Output = Result<(), FleetError>>,
{
    while let Some(term) = stop.run_until_cancelled(leases.acquire(lease)).await {
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
