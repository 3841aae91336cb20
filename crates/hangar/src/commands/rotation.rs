//! `keys rotate tokens` and `clients`: the keys of a control plane are replaced while they are used.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

use super::create::{Waiting, check_name};
use super::{Session, ctx, waiting, whole};
use crate::api::Api;
use crate::hosting;
use crate::kubeconfig::{Access, Kubeconfig};
use crate::up::HOSTING;

const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args, Clone, Debug)]
pub struct Rotation {
    /// name of the control plane [default: the hosting one]
    name: Option<String>,
    /// replace nothing: end what was begun, so that keys that were replaced before verify nothing any more
    #[arg(long, conflicts_with = "now")]
    finish: bool,
    /// let the old key verify nothing any more
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    waiting: Waiting,
}

impl Rotation {
    fn change(&self) -> &'static str {
        match (self.finish, self.now) {
            (true, _) => "finish",
            (false, true) => "revoke",
            (false, false) => "rotate",
        }
    }
}

/// Has the server change a key of a control plane.
pub async fn change(api: &Api, name: &str, kind: &str, change: &str) -> anyhow::Result<()> {
    let path = format!("{}/{name}/keys/{kind}?change={change}", whole::ROOT);
    api.post_path(&path).await.with_context(|| format!("error changing the keys of control plane {name}"))?;
    Ok(())
}

pub async fn run(session: &Session, kind: &str, rotation: &Rotation) -> anyhow::Result<()> {
    let kubeconfig = session.files.load()?;
    let hosting = session.hosting(&kubeconfig).await?;
    let api = &hosting.api;
    let Some(name) = rotation.name.as_deref().filter(|name| *name != HOSTING) else {
        let step = session.progress.step("Changing keys of the hosting control plane...");
        change(api, HOSTING, kind, rotation.change()).await?;
        step.done();
        if kind == "clients" && !rotation.finish && rotation.waiting.wait {
            let step = session.progress.step("Waiting for new credentials...");
            enter_hosting(session, &kubeconfig, &hosting.context, rotation.waiting.timeout).await?;
            step.done();
        }
        return Ok(());
    };
    check_name(name)?;
    let object = ctx::on_server(api, name).await?;
    let before = waiting::access(api, &object).await.ok();
    let step = session.progress.step(format!("Changing keys of control plane {name}..."));
    change(api, name, kind, rotation.change()).await?;
    step.done();
    if kind == "tokens" || rotation.finish || !rotation.waiting.wait {
        return Ok(());
    }
    let step = session.progress.step("Waiting for new credentials...");
    let began = Instant::now();
    let access = loop {
        let now = waiting::access(api, &object).await.ok();
        if let Some(access) = now.filter(|access| Some(access) != before.as_ref()) {
            break access;
        }
        if began.elapsed() > rotation.waiting.timeout {
            bail!("control plane {name:?} has no new credentials after {:?}", rotation.waiting.timeout);
        }
        tokio::time::sleep(PAUSE).await;
    };
    session.files.change(|kubeconfig| {
        // Only where it is known already: whoever keeps no context of it gets none.
        if kubeconfig.control_plane_of(name) == Some(name) {
            kubeconfig.admit(name, &access, jiff::Timestamp::now());
        }
        Ok(())
    })?;
    step.done();
    Ok(())
}

/// Waits until the server has written new credentials of its administrator, on this machine, and takes them over.
/// `before` is what was known when they were asked for.
pub async fn enter_hosting(
    session: &Session,
    before: &Kubeconfig,
    context: &str,
    timeout: Duration,
) -> anyhow::Result<()> {
    let old = before.access(context).ok();
    let began = Instant::now();
    loop {
        // The file may be the one that the server keeps.
        if is_new(&session.files.load()?, context, old.as_ref()).await {
            return Ok(());
        }
        let kept = hosting::data_dir(None).and_then(|dir| hosting::embedded(&dir));
        if let Some(kept) = kept
            && is_new(&kept, kept.current(), old.as_ref()).await
        {
            session.files.settle(|kubeconfig| hosting::enter(kubeconfig, &kept))?;
            return Ok(());
        }
        if began.elapsed() > timeout {
            bail!(
                "the new credentials are not on this machine: get the context {context:?} from the kubeconfig that the \
                 server keeps"
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns true if a context has other credentials than before, and they are good.
async fn is_new(kubeconfig: &Kubeconfig, context: &str, old: Option<&Access>) -> bool {
    let user = kubeconfig.access(context).ok().map(|access| access.user);
    if user.is_none() || user.as_ref() == old.map(|old| &old.user) {
        return false;
    }
    match Api::of_context(kubeconfig, context).await {
        Ok(api) => api.is_hosting().await.is_ok_and(|hosting| hosting),
        Err(_) => false,
    }
}
