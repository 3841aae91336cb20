//! Finding the hosting control plane: the one where `ControlPlane`s are.
//!
//! The current context if it is one, else the one that the kubeconfig stores, else the one that runs on this machine.
//! Nothing is written while looking; [`Hosting::record`] tells a kubeconfig what was found.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use crate::api::{Api, ApiError};
use crate::kubeconfig::{self, Kubeconfig, List};

/// How it was found.
#[derive(Clone, Debug)]
pub enum Found {
    /// The current context is it.
    Current,
    /// The kubeconfig says which context it is.
    Stored,
    /// It runs on this machine; these are its entries, which the kubeconfig may not have yet.
    Embedded(Kubeconfig),
}

pub struct Hosting {
    pub api: Api,
    pub context: String,
    pub found: Found,
}

#[derive(thiserror::Error, Debug)]
pub enum NotFound {
    #[error(
        "the hosting cluster context is not known! you can make it known by doing `kubectl config use-context` to set \
         the current context to the hosting cluster context and then using `{0} ctx --set-current-for-hosting`; or \
         start one on this machine with `{0} init`"
    )]
    Unknown(&'static str),
    #[error("error loading kubeconfig: {} does not exist", .0.display())]
    NoFile(PathBuf),
    #[error("the hosting control plane (context {context:?}) cannot be used: {why}")]
    Unusable { context: String, why: String },
    /// The current context may be the hosting one; only its server can tell.
    #[error("context {context:?} of the kubeconfig: {why}")]
    NoAnswer { context: String, why: String },
}

enum Probe {
    Hosting(Api),
    /// A control plane, but not a hosting one.
    Another,
    NoAnswer(String),
    No(String),
}

async fn probe(kubeconfig: &Kubeconfig, context: &str) -> Probe {
    match Api::of_context(kubeconfig, context).await {
        Err(error) => Probe::No(format!("{error:#}")),
        Ok(api) => match api.is_hosting().await {
            Ok(true) => Probe::Hosting(api),
            Ok(false) => Probe::Another,
            Err(ApiError::NoAnswer(why)) => {
                Probe::NoAnswer(format!("the server at {} does not answer: {why}", api.server))
            }
            Err(error) => Probe::No(format!("the server at {} refused the request: {error}", api.server)),
        },
    }
}

/// Where things are kept on this machine unless something else is said.
pub fn data_dir(flag: Option<&Path>) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    flag.map(Path::to_owned)
        .or_else(|| variable("HANGAR_DATA_DIR"))
        .or_else(|| variable("HOME").map(|home| home.join(".hangar")))
}

/// The kubeconfig of the control plane on this machine, if there is or was one. Its current context is the hosting one,
/// whichever it is in the file: people use that file too.
pub fn embedded(data_dir: &Path) -> Option<Kubeconfig> {
    let mut kubeconfig = Kubeconfig::parse(&std::fs::read(data_dir.join("kubeconfig")).ok()?).ok()?;
    if kubeconfig.has_context(kubeconfig::HOSTING) {
        kubeconfig.set_current(kubeconfig::HOSTING);
    }
    Some(kubeconfig)
}

/// Whether the current context of a kubeconfig is that control plane's.
pub fn is_embedded(kubeconfig: &Kubeconfig, data_dir: &Path) -> bool {
    let server = |config: &Kubeconfig| {
        let cluster = config.get(List::Contexts, config.current())?["cluster"].as_str()?.to_owned();
        Some(config.get(List::Clusters, &cluster)?["server"].as_str()?.to_owned())
    };
    embedded(data_dir).is_some_and(|own| {
        own.current() == kubeconfig.current() && server(&own).is_some() && server(&own) == server(kubeconfig)
    })
}

impl Hosting {
    pub async fn find(kubeconfig: &Kubeconfig, program: &'static str) -> Result<Hosting, NotFound> {
        let current = kubeconfig.current().to_owned();
        let stored = kubeconfig.stored_hosting().map(str::to_owned);
        // A control plane's context is no hosting one: if there is one to turn to, it need not be asked.
        let is_tenant = kubeconfig.control_plane_of(&current).is_some()
            && stored.as_ref().is_some_and(|name| *name != current);
        let (mut why, mut silent) = (None, None);
        if kubeconfig.has_context(&current) && !is_tenant {
            match probe(kubeconfig, &current).await {
                Probe::Hosting(api) => return Ok(Hosting { api, context: current, found: Found::Current }),
                Probe::NoAnswer(reason) | Probe::No(reason) if stored.as_deref() == Some(&current) => {
                    why = Some((current.clone(), reason))
                }
                Probe::NoAnswer(reason) => silent = Some((current.clone(), reason)),
                Probe::Another | Probe::No(_) => {}
            }
        }
        if let Some(name) = stored.filter(|name| *name != current) {
            let probed = match kubeconfig.hosting() {
                Ok(_) => probe(kubeconfig, &name).await,
                Err(error) => Probe::No(error.to_string()),
            };
            match probed {
                Probe::Hosting(api) => return Ok(Hosting { api, context: name, found: Found::Stored }),
                Probe::Another => why = Some((name, "it does not serve ControlPlanes".to_owned())),
                Probe::NoAnswer(reason) | Probe::No(reason) => why = Some((name, reason)),
            }
        }
        if let Some(embedded) = data_dir(None).and_then(|dir| embedded(&dir)) {
            let context = embedded.current().to_owned();
            match probe(&embedded, &context).await {
                Probe::Hosting(api) => return Ok(Hosting { api, context, found: Found::Embedded(embedded) }),
                Probe::Another => {}
                Probe::NoAnswer(reason) | Probe::No(reason) => why = why.or(Some((context, reason))),
            }
        }
        Err(match (why, silent) {
            (Some((context, why)), _) => NotFound::Unusable { context, why },
            (None, Some((context, why))) => NotFound::NoAnswer { context, why },
            (None, None) => NotFound::Unknown(program),
        })
    }

    /// Makes a kubeconfig know it, if it does not.
    pub fn record(&self, kubeconfig: &mut Kubeconfig, now: Timestamp) -> anyhow::Result<()> {
        let store = match &self.found {
            Found::Current => kubeconfig.stored_hosting().is_none(),
            Found::Stored => false,
            Found::Embedded(embedded) => {
                enter(kubeconfig, embedded)?;
                true
            }
        };
        if store {
            kubeconfig.set_hosting(&self.context, now).map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }
}

/// Enters the control plane of this machine under its own names.
pub fn enter(kubeconfig: &mut Kubeconfig, embedded: &Kubeconfig) -> anyhow::Result<()> {
    let name = embedded.current();
    for (list, key) in [(List::Clusters, "cluster"), (List::Users, "user"), (List::Contexts, "")] {
        let entry = match key {
            "" => name,
            key => embedded
                .get(List::Contexts, name)
                .and_then(|context| context[key].as_str())
                .unwrap_or_default(),
        };
        let Some(body) = embedded.get(list, entry).cloned() else { continue };
        match kubeconfig.get_mut(list, entry) {
            // What others and we ourselves keep with the context stays.
            Some(Value::Object(before)) if list == List::Contexts => {
                let known =
                    before.get("cluster") == body.get("cluster") && before.get("user") == body.get("user");
                anyhow::ensure!(
                    known,
                    "context {entry:?} of the kubeconfig is not Hangar's: rename it first"
                );
            }
            _ => kubeconfig.put(list, entry, body),
        }
    }
    Ok(())
}
