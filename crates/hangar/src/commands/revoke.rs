//! `revoke`: all kubeconfigs of a control plane that were handed out so far become worthless, and its tokens if that is asked
//! for. Open watches of those who had them end at once.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::create::{Waiting, check_name};
use super::{Session, ctx, rotation, type_of, waiting};
use crate::kubeconfig::Kubeconfig;
use crate::{api, up};

#[derive(Args, Clone, Debug)]
pub struct Revoke {
    /// name of the control plane
    #[arg(required_unless_present = "hosting")]
    name: Option<String>,
    /// revoke the certificates of the hosting control plane's administrators
    #[arg(long, conflicts_with = "name")]
    hosting: bool,
    /// revoke the tokens of all service accounts, too; programs that run with them have to get new ones
    #[arg(long)]
    tokens: bool,
    #[command(flatten)]
    waiting: Waiting,
}

fn in_force(object: &Value) -> u64 {
    object["status"]["credentialsGeneration"].as_u64().unwrap_or(0)
}

pub async fn run(session: &Session, revoke: Revoke) -> anyhow::Result<()> {
    let kubeconfig = session.files.load()?;
    let Some(name) = revoke.name.as_deref() else { return of_hosting(session, &kubeconfig, &revoke).await };
    check_name(name)?;
    let hosting = session.hosting(&kubeconfig).await?;
    let api = &hosting.api;
    let object = ctx::on_server(api, name).await?;
    if matches!(type_of(&object), "host" | "external") {
        bail!(
            "control plane {name:?} is of type {}: it is entered with a token, which goes with its service account",
            type_of(&object)
        );
    }
    let step = session.progress.step(format!("Revoking the credentials of control plane {name}..."));
    let asked = object["spec"]["credentials"]["generation"].as_u64().unwrap_or(0);
    let generation = asked.max(in_force(&object)) + 1;
    if revoke.tokens {
        rotation::change(api, name, "tokens", "revoke").await?;
    }
    let version = &object["metadata"]["resourceVersion"];
    let patch = json!({
        "metadata": {"resourceVersion": version}, "spec": {"credentials": {"generation": generation}},
    });
    api.merge(api::CONTROL_PLANES, "", name, &patch).await.context("error revoking credentials")?;
    step.done();
    if !revoke.waiting.wait {
        return Ok(());
    }

    let step = session.progress.step("Waiting for new credentials...");
    let timeout = revoke.waiting.timeout;
    let watched = api.follow(api::CONTROL_PLANES, name, None, |object| {
        object.is_none_or(|object| in_force(object) >= generation).then_some(())
    });
    match tokio::time::timeout(timeout, watched).await {
        Ok(watched) => watched.context("error waiting for new credentials")?,
        Err(_) => bail!("control plane {name:?} has no new credentials after {timeout:?}"),
    }
    let ready = waiting::usable(api, name, None, false, timeout).await?;
    let access = waiting::access(api, &ready).await.context("error loading kubeconfig")?;
    let now = jiff::Timestamp::now();
    session.files.change(|kubeconfig| {
        // Only where it is known already: whoever keeps no context of it gets none.
        if kubeconfig.control_plane_of(name) == Some(name) {
            kubeconfig.admit(name, &access, now);
        }
        Ok(())
    })?;
    step.done();
    Ok(())
}

/// Tokens first: afterwards we are nobody there.
async fn of_hosting(session: &Session, kubeconfig: &Kubeconfig, revoke: &Revoke) -> anyhow::Result<()> {
    let hosting = session.hosting(kubeconfig).await?;
    let step = session.progress.step("Revoking the credentials of the hosting control plane...");
    if revoke.tokens {
        rotation::change(&hosting.api, up::HOSTING, "tokens", "revoke").await?;
    }
    rotation::change(&hosting.api, up::HOSTING, "clients", "revoke").await?;
    step.done();
    if !revoke.waiting.wait {
        return Ok(());
    }
    let step = session.progress.step("Waiting for new credentials...");
    rotation::enter_hosting(session, kubeconfig, &hosting.context, revoke.waiting.timeout).await?;
    step.done();
    Ok(())
}
