//! `delete`: a control plane, and its context.

use anyhow::{Context, bail};
use clap::Args;

use super::create::{PATIENCE, Waiting};
use super::{Program, Session, type_of, waiting};
use crate::api;
use crate::kubeconfig::{Kubeconfig, List};

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Delete {
    /// name of the control plane
    pub name: String,
}

impl Waiting {
    /// As KubeFlex waits.
    pub fn as_kubeflex() -> Waiting {
        Waiting { wait: true, timeout: PATIENCE }
    }
}

pub async fn run(session: &Session, delete: Delete, waiting: Waiting) -> anyhow::Result<()> {
    let name = delete.name.as_str();
    super::create::check_name(name)?;
    let step = session.progress.step(format!("Deleting control plane {name}..."));
    let kubeconfig = session.files.load()?;
    let hosting = session.hosting(&kubeconfig).await?;
    let api = &hosting.api;
    let found = api.get(api::CONTROL_PLANES, "", name).await.context("control plane not found on server")?;
    let Some(object) = found else {
        bail!(
            "control plane not found on server: controlplanes.tenancy.kflex.kubestellar.org {name:?} not found"
        );
    };
    api.delete(api::CONTROL_PLANES, "", name).await.context("error deleting instance")?;
    step.done();

    let step = session.progress.step(format!("Waiting for control plane {name} to be deleted..."));
    if waiting.wait {
        waiting::gone(api, &object, waiting.timeout).await?;
    }
    let endpoint = object["status"]["endpoint"].as_str();
    let now = jiff::Timestamp::now();
    let had_context = session.files.change(|kubeconfig| {
        hosting.record(kubeconfig, now)?;
        kubeconfig.set_current(&hosting.context);
        // Of these there is a context only if somebody went there by `ctx`: any other one of that name is somebody else's.
        let seldom = matches!(type_of(&object), "host" | "external");
        let mut contexts = contexts_of(kubeconfig, name, endpoint);
        if seldom {
            contexts.retain(|context| kubeconfig.control_plane_of(context) == Some(name));
        }
        for context in &contexts {
            kubeconfig.forget(context).map_err(anyhow::Error::msg)?;
        }
        Ok(seldom || !contexts.is_empty())
    })?;
    // KubeFlex takes it for an error that there was nothing to remove.
    if !had_context && session.program == Program::Kflex {
        bail!(
            "no kubeconfig context for {name} was found: context {name} not found for control plane {name}"
        );
    }
    step.done();
    Ok(())
}

/// The context of its name, and those that were renamed but lead to it.
fn contexts_of(kubeconfig: &Kubeconfig, name: &str, endpoint: Option<&str>) -> Vec<String> {
    let leads_there = |context: &&str| {
        kubeconfig.control_plane_of(context) == Some(name)
            && endpoint.is_some()
            && kubeconfig.server_of(context) == endpoint
    };
    let own = |context: &&str| *context == name && kubeconfig.taken(name).is_none();
    let contexts = kubeconfig.names(List::Contexts).into_iter();
    contexts.filter(|context| own(context) || leads_there(context)).map(str::to_owned).collect()
}
