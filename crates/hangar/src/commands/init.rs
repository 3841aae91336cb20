//! `init`: somewhere to create control planes.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;

use super::Session;
use super::machine::{self, Where};
use crate::api::Api;
use crate::configuration::{HostOptions, UpOptions};
use crate::installing::{self, Installing, Reached};
use crate::kubeconfig::Kubeconfig;
use crate::{files, hosting};

/// KubeFlex's flags.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Init {
    /// name of the kind cluster
    cluster_name: Option<String>,
    /// Create and configure a kind cluster for installing Kubeflex
    #[arg(short, long)]
    create_kind: bool,
    /// domain for FQDN
    #[arg(short, long)]
    domain: Option<String>,
    /// Name of the hosting cluster container (kind or k3d only)
    #[arg(short = 'n', long, default_value = "kubeflex-control-plane")]
    host_container_name: String,
    /// external port used by ingress
    #[arg(short = 'p', long, value_name = "PORT")]
    external_port: Option<u16>,
}

/// Our own.
#[derive(Args, Clone, Debug, Default)]
pub struct Extras {
    /// start on this machine, even if the current context is a cluster's
    #[arg(long)]
    embedded: bool,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    installing: Installing,
}

/// What the current context leads to.
enum AtHand {
    Nothing,
    Hosting,
    Cluster(Api),
}

async fn at_hand(kubeconfig: &Kubeconfig) -> AtHand {
    let current = kubeconfig.current();
    // A control plane of ours is no place for others; what hosts it is asked for below.
    if !kubeconfig.has_context(current) || kubeconfig.control_plane_of(current).is_some() {
        return AtHand::Nothing;
    }
    let Ok(api) = Api::of_context(kubeconfig, current).await else { return AtHand::Nothing };
    match api.is_hosting().await {
        Ok(true) if installing::is_installed(&api).await => AtHand::Hosting,
        // Nothing of it is there, or an installation did not come to its end.
        Ok(_) => AtHand::Cluster(api),
        // It refuses us, but it is there.
        Err(error) if error.code().is_some() => AtHand::Cluster(api),
        Err(_) => AtHand::Nothing,
    }
}

pub async fn run(session: &Session, init: Init, extras: Extras) -> anyhow::Result<()> {
    if init.create_kind {
        bail!(
            "kind clusters are not created by this version: leave --create-kind out to use the embedded host"
        );
    }
    let kubeconfig = session.files.load()?;
    let dir = extras.place.dir();
    // What runs on this machine may be told something new.
    let is_ours = dir.as_ref().is_ok_and(|dir| hosting::is_embedded(&kubeconfig, dir));
    let at_hand = if extras.embedded || is_ours { AtHand::Nothing } else { at_hand(&kubeconfig).await };
    let now = Timestamp::now();
    match at_hand {
        AtHand::Hosting => {
            let step = session.progress.step("Setting hosting cluster preference in kubeconfig");
            prefer(session, now)?;
            step.done();
            Ok(())
        }
        AtHand::Cluster(api) => {
            let reached = Reached {
                domain: init.domain,
                external_port: init.external_port,
                host_container: init.host_container_name,
            };
            let prefer = || prefer(session, now);
            installing::install(session, &api, extras.installing, reached, prefer).await
        }
        AtHand::Nothing => embedded(session, init, extras.host, &dir?, now).await,
    }
}

/// The current context is the hosting one from now on.
fn prefer(session: &Session, now: Timestamp) -> anyhow::Result<()> {
    session.files.change(|kubeconfig| {
        let current = kubeconfig.current().to_owned();
        kubeconfig
            .set_hosting(&current, now)
            .map_err(anyhow::Error::msg)
            .context("error setting hosting cluster context")
    })
}

async fn embedded(
    session: &Session,
    init: Init,
    host: HostOptions,
    dir: &Path,
    now: Timestamp,
) -> anyhow::Result<()> {
    let told = UpOptions {
        domain: init.domain,
        listen: init.external_port.map(|port| format!("127.0.0.1:{port}")),
        host: host.with_whole_paths()?,
        ..UpOptions::default()
    };
    files::private_dir(dir)?;
    let file = machine::config_file(dir);
    let before = std::fs::read(&file).ok();
    let is_new = told.remember(&file)?;
    let found = match machine::running(dir)? {
        Some(pid) => {
            session.progress.note(format!("Hangar is already running on this machine (pid {pid})"));
            if is_new {
                session.progress.note("What is new is for its next start: `hangar stop`, then `hangar init`");
            }
            hosting::embedded(dir).with_context(|| format!("{} has no kubeconfig", dir.display()))?
        }
        None => {
            let step = session.progress.step("Starting Hangar on this machine...");
            let started = machine::start(dir).await;
            if started.is_err() && is_new {
                // The next start is not to fail of it as well.
                files::write_private(&file, &before.unwrap_or_default())?;
            }
            let found = started?;
            step.done();
            found
        }
    };
    let step = session.progress.step("Setting hosting cluster preference in kubeconfig");
    session.files.settle(|kubeconfig| {
        hosting::enter(kubeconfig, &found)?;
        kubeconfig.set_hosting(found.current(), now).map_err(anyhow::Error::msg)?;
        // Somebody's terminal may be working in the current context.
        if !kubeconfig.has_context(kubeconfig.current()) {
            kubeconfig.set_current(found.current());
        }
        Ok(())
    })?;
    step.done();
    let kubeconfig = session.files.load()?;
    if kubeconfig.current() != found.current() {
        let (current, program) = (kubeconfig.current(), session.program.name());
        session.progress.note(format!(
            "The current context is still {current}; `{program} ctx` switches to the hosting control plane"
        ));
    }
    Ok(())
}
