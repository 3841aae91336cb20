//! `kubeconfig`: a control plane's kubeconfig on standard output, for whoever keeps files elsewhere.

use clap::Args;

use super::{Session, ctx, type_of, waiting};
use crate::hosting::Found;

#[derive(Args, Clone, Debug)]
pub struct Kubeconfig {
    /// name of the control plane
    name: String,
    #[command(flatten)]
    waiting: super::create::Waiting,
}

pub async fn run(session: &Session, command: Kubeconfig) -> anyhow::Result<()> {
    let name = command.name.as_str();
    super::create::check_name(name)?;
    let kubeconfig = session.files.load()?;
    let hosting = session.hosting(&kubeconfig).await?;
    let mut object = ctx::on_server(&hosting.api, name).await?;
    if command.waiting.wait {
        object = waiting::usable(&hosting.api, name, Some(object), false, command.waiting.timeout).await?;
    }
    let mut access = waiting::access(&hosting.api, &object).await?;
    if type_of(&object) == "host" {
        // The way to the hosting control plane is that of whoever asks; the key is its account's, never their own.
        let known = match &hosting.found {
            Found::Embedded(embedded) => embedded,
            Found::Current | Found::Stored => &kubeconfig,
        };
        access.cluster = known.access(&hosting.context).map_err(anyhow::Error::msg)?.cluster;
    }
    super::list::print(&wire::yaml::encode(&access.kubeconfig(name)))
}
