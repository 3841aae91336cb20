//! `version`: of this program, and of the cluster it would talk to.

use std::time::Duration;

use super::{Program, Session};
use crate::api::Api;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The release of KubeFlex whose commands are spoken.
const KUBEFLEX: &str = "v0.9.3";
/// Set by whoever builds a release.
const BUILT: Option<&str> = option_env!("HANGAR_BUILD_DATE");
/// Who asks for a version does not want to wait for a cluster that is down.
const PATIENCE: Duration = Duration::from_secs(2);

/// As KubeFlex says its own: the release, and when it was built.
pub fn of_kubeflex() -> String {
    format!("{KUBEFLEX}.hangar-{VERSION} {}", BUILT.unwrap_or("unknown"))
}

pub async fn run(session: &Session) -> anyhow::Result<()> {
    let server = tokio::time::timeout(PATIENCE, server(session)).await;
    let server = server.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {PATIENCE:?}")));
    match session.program {
        Program::Hangar => {
            println!("hangar {VERSION}");
            if let Ok(server) = server {
                println!("Kubernetes {server}");
            }
            Ok(())
        }
        Program::Kflex => {
            println!("Kubeflex version: {}", of_kubeflex());
            match server {
                Ok(server) => println!("Kubernetes version: {server}"),
                Err(error) => anyhow::bail!("Could not connect to a Kubernetes cluster: {error:#}"),
            }
            Ok(())
        }
    }
}

async fn server(session: &Session) -> anyhow::Result<String> {
    let kubeconfig = session.files.load()?;
    let api = match kubeconfig.current() {
        "" => session.hosting(&kubeconfig).await?.api,
        current => Api::of_context(&kubeconfig, current).await?,
    };
    Ok(api.version().await?)
}
