//! The entries of the hosting control plane of an installation on this machine, in a file that others may use too.

use anyhow::bail;
use auth::pki::Issued;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::document::List;
use super::files::Kubeconfig;

/// The name of its context, cluster and user.
pub const HOSTING: &str = "hangar";

/// How the hosting control plane is reached.
#[derive(Clone, Debug)]
pub struct Hosting<'a> {
    pub server: &'a str,
    /// PEM.
    pub authority: &'a str,
}

impl Hosting<'_> {
    fn authority_data(&self) -> String {
        STANDARD.encode(self.authority)
    }

    /// Returns true if the entries of a file lead to this server and verify it.
    pub fn is_reached_by(&self, kubeconfig: &Kubeconfig) -> bool {
        let context = kubeconfig.get(List::Contexts, HOSTING);
        let cluster = kubeconfig.get(List::Clusters, HOSTING);
        context.is_some_and(is_ours)
            && cluster.is_some_and(|cluster| {
                cluster["server"] == self.server
                    && cluster["certificate-authority-data"] == self.authority_data()
            })
    }

    /// Enters the server and its administrator. Every other entry stays, and so does the current context if there is
    /// one.
    pub fn enter(&self, kubeconfig: &mut Kubeconfig, user: Value) -> anyhow::Result<()> {
        self.check_names(kubeconfig)?;
        let mut cluster = kubeconfig.get(List::Clusters, HOSTING).cloned().unwrap_or_default();
        if !cluster.is_object() {
            cluster = json!({});
        }
        cluster["server"] = self.server.into();
        cluster["certificate-authority-data"] = self.authority_data().into();
        kubeconfig.put(List::Clusters, HOSTING, cluster);
        kubeconfig.put(List::Users, HOSTING, user);
        if !kubeconfig.has_context(HOSTING) {
            kubeconfig.put(List::Contexts, HOSTING, json!({"cluster": HOSTING, "user": HOSTING}));
        }
        if kubeconfig.current().is_empty() {
            kubeconfig.set_current(HOSTING);
        }
        Ok(())
    }

    /// Refuses to replace entries that another program made under the same name.
    fn check_names(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<()> {
        let remedy = "rename it, or name another file with --kubeconfig";
        if let Some(context) = kubeconfig.get(List::Contexts, HOSTING) {
            if !is_ours(context) {
                bail!("context {HOSTING:?} already exists and is not Hangar's: {remedy}");
            }
            return Ok(());
        }
        let known = kubeconfig.get(List::Clusters, HOSTING).is_some_and(|cluster| {
            cluster["server"] == self.server || cluster["certificate-authority-data"] == self.authority_data()
        });
        let uses = |key: &str| {
            let mut names = kubeconfig.names(List::Contexts).into_iter();
            names.find(|name| {
                kubeconfig.get(List::Contexts, name).is_some_and(|context| context[key] == HOSTING)
            })
        };
        match uses("cluster").or_else(|| uses("user")) {
            Some(context) if !known => {
                bail!(
                    "entries named {HOSTING:?} are used by context {context:?} and are not Hangar's: {remedy}"
                )
            }
            _ => Ok(()),
        }
    }
}

fn is_ours(context: &Value) -> bool {
    context["cluster"] == HOSTING && context["user"] == HOSTING
}

/// The user entry of a client certificate.
pub fn user_of(issued: &Issued) -> Value {
    json!({
        "client-certificate-data": STANDARD.encode(&issued.certificate),
        "client-key-data": STANDARD.encode(issued.key.expose()),
    })
}
