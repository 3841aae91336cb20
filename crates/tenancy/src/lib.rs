//! KubeFlex's whole job: `ControlPlane`s and `PostCreateHook`s, and the operator that makes them true.
//!
//! [`controllers`] gives the runtime its loops; [`install`] prepares the hosting control plane. [`Operator`] is the
//! state machine; [`Host`] is what it asks of wherever control planes are made, and [`Embedded`] makes them tenants of
//! this process or of children of it ([`processes`]), [`kubernetes`] pods of a cluster. [`operations`] copy, compare, back up and restore whole control
//! planes, by the paths of [`Endpoints`]. [`types`] is the table of what each type of control plane looks like.
//!
//! **Invariants:** every pass may be killed anywhere and run again from the top. A tenant is taken away only for the
//! object it was made for. Names, keys, reasons and messages are KubeFlex's; what is ours is optional and additional.
//!
//! Not here: the command line, and controllers inside of control planes (see `controllers`).

mod adopted;
mod apart;
mod api;
mod backup;
mod cluster_info;
mod conditions;
mod credentials;
mod elsewhere;
mod embedded;
mod endpoints;
mod events;
mod furniture;
mod history;
mod hooks;
mod host;
mod hub;
mod importing;
mod install;
mod kubeconfig;
pub mod kubernetes;
pub mod names;
pub mod operations;
mod operator;
mod operator_stand_in;
pub mod plane;
pub mod processes;
mod removal;
mod rights;
mod stores;
mod sync;
#[cfg(test)]
mod tests;
pub mod types;

use std::sync::Arc;

use apiserver::Engines;
use runtime::Controller;

pub use embedded::{Embedded, is_local};
pub use endpoints::Endpoints;
pub use host::{Doors, Host, HostError, Settings, Subject};
pub use install::{built_in_hooks, definitions, install};
pub use kubeconfig::certificate_of;
pub use operator::Operator;
pub use processes::Processes;

/// Prepares the hosting control plane of this process; any number of times.
pub async fn prepare(
    engines: impl Into<Engines>,
    settings: &Settings,
    processes: Option<&Arc<Processes>>,
) -> Result<(), runtime::Error> {
    let engines = engines.into();
    let engine = engines.default_store();
    engine.extend(Arc::new(Endpoints::new(engines.clone(), processes.cloned())));
    if let Some(processes) = processes {
        engine.pass_on(processes.clone());
    }
    let client = embedded::client(engine.clone(), &engine.config.hosting);
    install(&client, settings).await?;
    operator_stand_in::show(&client, engine.now()).await
}

/// The loops of an installation whose control planes are tenants of this process, or of its own processes.
pub fn controllers(
    engines: impl Into<Engines>,
    settings: Settings,
    processes: Option<Arc<Processes>>,
) -> Vec<Box<dyn Controller>> {
    let engines = engines.into();
    let hosting = engines.default_store().config.hosting.clone();
    let host = Arc::new(Embedded::new(engines, settings, processes));
    vec![Box::new(Operator::new(host, hosting))]
}
