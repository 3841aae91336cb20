//! `kubeconfig`: a control plane's kubeconfig on standard output, for whoever keeps files elsewhere.

use clap::Args;

use super::{Session, ctx, type_of, waiting};
use crate::kubeconfig::Access;

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
    let access: Access = match (type_of(&object), &hosting.found) {
        ("host", crate::hosting::Found::Embedded(embedded)) => access(embedded, &hosting.context)?,
        ("host", _) => access(&kubeconfig, &hosting.context)?,
        _ => waiting::access(&hosting.api, &object).await?,
    };
    super::list::print(&wire::yaml::encode(&access.kubeconfig(name)))
}

fn access(kubeconfig: &crate::kubeconfig::Kubeconfig, context: &str) -> anyhow::Result<Access> {
    kubeconfig.access(context).map_err(anyhow::Error::msg)
}
