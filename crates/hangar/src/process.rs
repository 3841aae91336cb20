//! A process that serves until it is told to stop, and how it ends: nothing acknowledged is lost, nobody is cut off.

use std::sync::Arc;

use anyhow::Context;
use apiserver::Engine;
use runtime::FleetError;
use store::Store;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controlling;

/// Everything that has to end.
pub struct Running<T> {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn Store>,
    pub stop: CancellationToken,
    pub serving: JoinHandle<T>,
    pub controlling: controlling::Running,
}

impl<T> Running<T> {
    pub async fn until_stopped(mut self) -> anyhow::Result<()> {
        let ended = tokio::select! {
            interrupted = interrupted() => interrupted,
            // Control planes without controllers are no control planes: better to stop and be seen to.
            ended = &mut self.controlling => Err(controllers_ended(ended)),
        };
        tracing::info!("stopping");
        self.stop.cancel();
        if !self.controlling.is_finished() {
            let _ = self.controlling.await;
        }
        self.engine.stop();
        let _ = self.serving.await;
        if let Some(log) = &self.engine.config.audit {
            log.flush().await;
        }
        self.store.close().await;
        ended
    }
}

/// Why there are no controllers any more.
pub fn controllers_ended(ended: Result<Result<(), FleetError>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("the controllers ended by themselves"),
        Ok(Err(error)) => anyhow::Error::from(error).context("the controllers failed"),
        Err(error) => anyhow::Error::from(error).context("the controllers failed"),
    }
}

/// Resolves when somebody asks the process to end.
pub async fn interrupted() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped.context("cannot wait for signals"),
        _ = terminate.recv() => Ok(()),
    }
}
