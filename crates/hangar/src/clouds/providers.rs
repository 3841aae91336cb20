//! How programs of Terraform providers are run: in sandboxes, or as the operator of this server wants it.

use std::path::{Path, PathBuf};

use ::terraform::plugin::{Isolation, ProviderPath};
use anyhow::anyhow;
use clap::Args;
use egress::Policy;
use sandbox::{Launcher, Sandbox};
use serde::{Deserialize, Serialize};

#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderOptions {
    /// Run Terraform providers with all rights of this server where the machine allows no sandbox
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trust_terraform_providers: bool,
    /// Let one process of this provider serve several control planes; any number of times
    #[arg(long, value_name = "NAME")]
    pub terraform_provider_trusted: Vec<String>,
    /// Show a file or directory to a provider, or to all: [NAME=]PATH, or [NAME=]PATH:rw to write it; any number of times
    #[arg(long, value_name = "[NAME=]PATH[:rw]", value_parser = provider_path)]
    pub terraform_provider_path: Vec<String>,
}

/// Refuses what is not a path where it is said.
fn provider_path(text: &str) -> Result<String, String> {
    text.parse::<ProviderPath>().map(|_| text.to_owned())
}

impl ProviderOptions {
    /// These, and where they say nothing, the others.
    pub fn over(self, other: ProviderOptions) -> ProviderOptions {
        let or = |own: Vec<String>, others: Vec<String>| if own.is_empty() { others } else { own };
        ProviderOptions {
            trust_terraform_providers: self.trust_terraform_providers || other.trust_terraform_providers,
            terraform_provider_trusted: or(self.terraform_provider_trusted, other.terraform_provider_trusted),
            terraform_provider_path: or(self.terraform_provider_path, other.terraform_provider_path),
        }
    }

    /// Tries whether this machine allows sandboxes, and says so in the log. `hidden` is what no provider ever sees.
    pub async fn isolation(
        &self,
        sockets: &Path,
        hidden: Vec<PathBuf>,
        policy: Policy,
    ) -> anyhow::Result<Isolation> {
        let paths = self.terraform_provider_path.iter().map(|text| text.parse::<ProviderPath>());
        let paths: Vec<ProviderPath> = paths.collect::<Result<_, _>>().map_err(|why| anyhow!(why))?;
        let sandbox = match Sandbox::probe(Launcher::own(), hidden).await {
            Ok(sandbox) => {
                let parts = sandbox.parts().map(ToString::to_string).unwrap_or_default();
                tracing::info!(parts, "terraform providers run in sandboxes");
                let no_network = sandbox.parts().and_then(|parts| parts.no_network.as_deref());
                if let Some(reason) = no_network {
                    tracing::warn!(reason, "terraform providers have no network");
                }
                Ok(sandbox)
            }
            Err(error) if self.trust_terraform_providers => {
                tracing::warn!(%error, "terraform providers run with all rights of this server");
                Ok(Sandbox::none(Launcher::own()))
            }
            Err(error) => {
                tracing::error!(%error, "no terraform provider is started: see --trust-terraform-providers");
                Err(error.to_string())
            }
        };
        let isolation = Isolation::new(sandbox, sockets, policy);
        Ok(isolation.with_paths(paths).trusting(self.terraform_provider_trusted.iter().cloned()))
    }
}
