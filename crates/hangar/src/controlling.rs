//! Who runs the controllers: this process, or, on a store that several share, one of them at a time.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use apiserver::Engine;
use runtime::{Controller, Fleet, FleetError, InProcessFleet, Leases, Terms};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stores::Place;

/// The lease of all controllers of a store.
const LEASE: &str = "controllers";

/// Makes the controllers, anew for every term.
pub type Make = Box<dyn Fn() -> Vec<Box<dyn Controller>> + Send + Sync>;

/// Runs controllers until `stop`. To be called before anything is served: on a shared store this is also where the
/// process begins to hear of the others.
pub async fn start(
    engine: &Arc<Engine>,
    place: &Place,
    make: Option<Make>,
    stop: CancellationToken,
) -> anyhow::Result<JoinHandle<Result<(), FleetError>>> {
    let leases = if place.is_shared() {
        tokio::spawn(engine.join().await.context("the store cannot be followed")?);
        let holder = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
        Some(Leases::open(engine.store.clone(), holder, Terms::default()).await?)
    } else {
        None
    };
    let Some(make) = make else {
        return Ok(tokio::spawn(async move {
            stop.cancelled().await;
            Ok(())
        }));
    };
    let fleet: Arc<dyn Fleet> = Arc::new(InProcessFleet::new(engine.clone()));
    Ok(tokio::spawn(async move {
        match leases {
            None => runtime::run(fleet, make(), stop).await,
            Some(leases) => by_turns(fleet, leases, &make, stop).await,
        }
    }))
}

/// Term after term, as the lease comes and goes.
async fn by_turns(
    fleet: Arc<dyn Fleet>,
    leases: Leases,
    make: &Make,
    stop: CancellationToken,
) -> Result<(), FleetError> {
    while let Some(term) = stop.run_until_cancelled(leases.acquire(LEASE)).await {
        let ending = stop.child_token();
        let giving_up = async {
            term.ended.cancelled().await;
            ending.cancel();
            std::future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            ended = runtime::run(fleet.clone(), make(), ending.clone()) => ended,
            never = giving_up => match never {},
        };
        match ended {
            Ok(()) => {}
            // The store was away: the next term may find it again.
            Err(error) if !stop.is_cancelled() => tracing::warn!(%error, "the controllers broke off"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
