//! `config`: what the kubeconfig knows of control planes.

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::{Program, Session};
use crate::api;
use crate::kubeconfig::{Kubeconfig, List};

#[derive(Subcommand, Clone, Debug)]
pub enum Kflex {
    /// Set hosting cluster context
    #[command(name = "set-hosting")]
    SetHosting(SetHosting),
    /// Diagnose kubeflex extension status
    Diagnose(Diagnose),
}

#[derive(Subcommand, Clone, Debug)]
pub enum Hangar {
    /// Say which context is the hosting control plane's
    #[command(name = "set-hosting")]
    SetHosting(SetHosting),
    /// Say what is wrong with the kubeconfig, if anything
    Diagnose(Diagnose),
    /// Put right what `diagnose` finds, and remove contexts of control planes that are gone
    Tidy(Tidy),
}

#[derive(Args, Clone, Debug)]
pub struct SetHosting {
    ctx_name: String,
}

#[derive(Args, Clone, Debug)]
pub struct Diagnose {
    /// output format (json)
    #[arg(short, long, default_value = "json")]
    output: String,
}

#[derive(Args, Clone, Debug)]
pub struct Tidy {
    /// say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl From<Kflex> for Hangar {
    fn from(command: Kflex) -> Self {
        match command {
            Kflex::SetHosting(set) => Hangar::SetHosting(set),
            Kflex::Diagnose(diagnose) => Hangar::Diagnose(diagnose),
        }
    }
}

pub async fn run(session: &Session, command: Hangar) -> anyhow::Result<()> {
    match command {
        Hangar::SetHosting(SetHosting { ctx_name }) => set_hosting(session, &ctx_name),
        Hangar::Diagnose(Diagnose { output }) => diagnose(session, &output),
        Hangar::Tidy(Tidy { dry_run }) => tidy(session, dry_run).await,
    }
}

fn set_hosting(session: &Session, name: &str) -> anyhow::Result<()> {
    let now = Timestamp::now();
    session.files.change_existing(|kubeconfig| {
        let set = kubeconfig.set_hosting(name, now);
        set.map_err(|why| anyhow!("error while executing set hosting cluster ctx: {why}"))
    })?;
    println!("setting hosting cluster context name to '{name}' in {}", session.files.shown());
    Ok(())
}

fn diagnose(session: &Session, output: &str) -> anyhow::Result<()> {
    if output != "json" {
        bail!("unsupported output format: {output:?} (only 'json' is supported)");
    }
    let kubeconfig = session.files.load_existing()?;
    let mut diagnosis = kubeconfig.diagnose();
    if session.program == Program::Hangar {
        diagnosis.findings = kubeconfig.findings();
    }
    super::list::print(&format!("{}\n", serde_json::to_string_pretty(&diagnosis)?))
}

async fn tidy(session: &Session, dry_run: bool) -> anyhow::Result<()> {
    let mut kubeconfig = session.files.load_existing()?;
    let gone = gone(session, &kubeconfig).await;
    let now = Timestamp::now();
    let done = match dry_run {
        true => kubeconfig.tidy(&gone, now),
        false => session.files.change_existing(|kubeconfig| Ok(kubeconfig.tidy(&gone, now)))?,
    };
    match done.as_slice() {
        [] => println!("nothing to tidy"),
        done => super::list::print(&format!("{}\n", done.join("\n")))?,
    }
    Ok(())
}

/// Contexts that lead to control planes of the hosting one that it does not have any more. A hosting control plane
/// that does not answer knows of none; those of others are not its to judge.
async fn gone(session: &Session, kubeconfig: &Kubeconfig) -> Vec<String> {
    let Ok(hosting) = session.hosting(kubeconfig).await else { return Vec::new() };
    let Ok(there) = hosting.api.list(api::CONTROL_PLANES).await else { return Vec::new() };
    let prefix = format!("{}/control-planes/", hosting.api.server);
    let is_gone = |context: &&str| {
        let Some(name) = kubeconfig.control_plane_of(context) else { return false };
        let its_own =
            kubeconfig.server_of(context).and_then(|server| server.strip_prefix(&prefix)) == Some(name);
        its_own && !there.iter().any(|one| super::name_of(one) == name)
    };
    kubeconfig.names(List::Contexts).into_iter().filter(is_gone).map(str::to_owned).collect()
}
