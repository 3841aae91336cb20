//! What the operator decided about the programs of providers: whether they run in sandboxes, what they see besides,
//! whom they may reach, and which of them may serve several tenants.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egress::{Policies, Policy};
use sandbox::{Egress, Sandbox, Share};

use super::Launch;

/// Cheap to clone.
#[derive(Clone)]
pub struct Isolation {
    /// Or why no provider may be started.
    sandbox: Result<Sandbox, Arc<str>>,
    /// Where programs without a sandbox have their sockets, each in a directory of its own.
    directory: PathBuf,
    paths: Arc<[ProviderPath]>,
    trusted: Arc<BTreeSet<String>>,
    /// Of control planes.
    policies: Arc<dyn Policies>,
    /// Of programs that serve several.
    shared: Policy,
}

/// A path of this machine that a provider sees, or all of them do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPath {
    pub provider: Option<String>,
    pub share: Share,
}

impl std::str::FromStr for ProviderPath {
    type Err = String;

    /// `[NAME=]PATH[:rw]`.
    fn from_str(text: &str) -> Result<ProviderPath, String> {
        let (provider, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.is_empty() && !name.starts_with('/') => (Some(name.to_owned()), rest),
            _ => (None, text),
        };
        let (path, writable) = rest.strip_suffix(":rw").map_or((rest, false), |path| (path, true));
        let path = PathBuf::from(path);
        let plain = |part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            return Err(format!("{rest:?} is not an absolute path"));
        }
        if path == Path::new("/") || path == Path::new(sandbox::TEMPORARY) {
            return Err(format!("{rest:?} cannot be shared with a provider"));
        }
        Ok(ProviderPath { provider, share: Share { path, writable } })
    }
}

impl Isolation {
    /// In sandboxes. Without a policy of its own, a control plane has that of the installation.
    pub fn new(sandbox: Result<Sandbox, String>, directory: impl Into<PathBuf>, shared: Policy) -> Isolation {
        Isolation {
            sandbox: sandbox.map_err(Arc::from),
            directory: directory.into(),
            paths: Arc::default(),
            trusted: Arc::default(),
            policies: Arc::new(shared.clone()),
            shared,
        }
    }

    #[must_use]
    pub fn with_policies(self, policies: Arc<dyn Policies>) -> Isolation {
        Isolation { policies, ..self }
    }

    /// With further paths that providers see.
    #[must_use]
    pub fn with_paths(self, paths: impl IntoIterator<Item = ProviderPath>) -> Isolation {
        Isolation { paths: self.paths.iter().cloned().chain(paths).collect(), ..self }
    }

    /// Providers of which one process may serve several control planes.
    #[must_use]
    pub fn trusting(self, providers: impl IntoIterator<Item = String>) -> Isolation {
        Isolation { trusted: Arc::new(providers.into_iter().collect()), ..self }
    }

    pub(crate) fn sandbox(&self) -> Result<&Sandbox, String> {
        self.sandbox.as_ref().map_err(|why| why.to_string())
    }

    /// Why providers reach nobody, if so.
    pub(crate) fn no_network(&self) -> Option<&str> {
        self.sandbox.as_ref().ok()?.parts()?.no_network.as_deref()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn shares(&self, provider: Option<&str>) -> Vec<Share> {
        let its =
            self.paths.iter().filter(|path| path.provider.is_none() || path.provider.as_deref() == provider);
        its.map(|path| path.share.clone()).collect()
    }

    /// The control plane that a process is for alone. None if it may serve all of them.
    pub(crate) fn tenant<'a>(&self, launch: &'a Launch) -> Option<&'a str> {
        let is_trusted = launch.provider.as_ref().is_some_and(|name| self.trusted.contains(name));
        launch.control_plane.as_deref().filter(|_| !is_trusted)
    }

    /// Whom a process may reach.
    pub(crate) fn egress(&self, launch: &Launch) -> Egress {
        match self.tenant(launch) {
            Some(tenant) => self.egress_of(tenant),
            None => Egress { policies: Arc::new(self.shared.clone()), control_plane: String::new() },
        }
    }

    pub(crate) fn egress_of(&self, control_plane: &str) -> Egress {
        Egress { policies: self.policies.clone(), control_plane: control_plane.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_providers() {
        let parse = |text: &str| {
            let ProviderPath { provider, share } = text.parse().ok()?;
            Some((provider, share.path.display().to_string(), share.writable))
        };
        let name = Some("helm".to_owned());
        assert_eq!(parse("helm=/opt/charts"), Some((name.clone(), "/opt/charts".into(), false)));
        assert_eq!(parse("helm=/opt/charts:rw"), Some((name, "/opt/charts".into(), true)));
        assert_eq!(parse("/opt/a=b"), Some((None, "/opt/a=b".into(), false)));
        for wrong in ["", "opt", "helm=", "helm=opt", "/opt/../etc", "/", "helm=/", "/tmp", "=/opt"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
