//! Contexts of control planes: what they are called, which of them is the hosting one, and how they come and go.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::document::List;
use super::extension;
use super::files::Kubeconfig;

/// What somebody needs to reach a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub cluster: Value,
    pub user: Value,
    pub namespace: Option<String>,
}

/// Why the hosting context cannot be used.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum HostingError {
    #[error("hosting cluster context data not set")]
    NotSet,
    #[error("hosting cluster context data is set to a non-existing context")]
    NoContext,
    #[error("hosting cluster context '{0}' does not reference a cluster")]
    NoCluster(String),
    #[error("cluster '{cluster}' referenced by context '{context}' does not exist")]
    ClusterMissing { cluster: String, context: String },
    #[error("cluster '{cluster}' referenced by context '{context}' has no server defined")]
    NoServer { cluster: String, context: String },
}

/// What a renaming did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    pub cluster: Option<String>,
    pub user: Option<String>,
}

/// Names of a control plane's entries; its context has its own name.
pub fn cluster_name(name: &str) -> String {
    format!("{name}-cluster")
}

pub fn user_name(name: &str) -> String {
    format!("{name}-admin")
}

fn text<'a>(context: &'a Value, key: &str) -> &'a str {
    context[key].as_str().unwrap_or_default()
}

impl Access {
    /// What the current context of a kubeconfig stands for, or its only one.
    pub fn read(text: &[u8]) -> anyhow::Result<Access> {
        let kubeconfig = Kubeconfig::parse(text)?;
        let name = match (kubeconfig.current(), kubeconfig.names(List::Contexts).as_slice()) {
            ("", [only]) => (*only).to_owned(),
            (current, _) => current.to_owned(),
        };
        kubeconfig.access(&name).map_err(anyhow::Error::msg)
    }

    /// A kubeconfig of its own, under the names that a control plane's entries have.
    pub fn kubeconfig(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster_name(name), "cluster": self.cluster}],
            "users": [{"name": user_name(name), "user": self.user}],
            "contexts": [{"name": name, "context": self.context(name)}],
            "current-context": name,
        })
    }

    fn context(&self, name: &str) -> Value {
        let mut context = json!({"cluster": cluster_name(name), "user": user_name(name)});
        if let Some(namespace) = &self.namespace {
            context["namespace"] = namespace.as_str().into();
        }
        context
    }
}

impl Kubeconfig {
    pub fn has_context(&self, name: &str) -> bool {
        self.get(List::Contexts, name).is_some()
    }

    /// What a context stands for, or why it stands for nothing.
    pub fn access(&self, context: &str) -> Result<Access, String> {
        let Some(body) = self.get(List::Contexts, context) else {
            return Err(format!("context {context} not found in the kubeconfig"));
        };
        let (cluster, user) = (text(body, "cluster"), text(body, "user"));
        let Some(cluster) = self.get(List::Clusters, cluster) else {
            return Err(format!("cluster {cluster} not found for context {context}"));
        };
        let Some(user) = self.get(List::Users, user) else {
            return Err(format!("authInfo {user} not found for context {context}"));
        };
        let namespace = body["namespace"].as_str().map(str::to_owned);
        Ok(Access { cluster: cluster.clone(), user: user.clone(), namespace })
    }

    /// The control plane that a context is of.
    pub fn control_plane_of(&self, context: &str) -> Option<&str> {
        extension::get(self.get(List::Contexts, context)?, extension::CONTROL_PLANE)
    }

    /// Whether a context has anything of KubeFlex's.
    pub fn is_managed(&self, context: &str) -> bool {
        self.get(List::Contexts, context).is_some_and(|body| extension::find(body).is_some())
    }

    pub fn server_of(&self, context: &str) -> Option<&str> {
        let cluster = text(self.get(List::Contexts, context)?, "cluster");
        self.get(List::Clusters, cluster)?["server"].as_str()
    }

    /// The hosting context by name, whether there is such a context or not.
    pub fn stored_hosting(&self) -> Option<&str> {
        let stored = |key| self.wholes().find_map(|whole| extension::get(whole, key));
        stored(extension::HOSTING).or_else(|| stored(extension::HOSTING_BEFORE))
    }

    /// The hosting context, if it can be used.
    pub fn hosting(&self) -> Result<String, HostingError> {
        let name = self.stored_hosting().ok_or(HostingError::NotSet)?;
        let context = self.get(List::Contexts, name).ok_or(HostingError::NoContext)?;
        let cluster = text(context, "cluster");
        if cluster.is_empty() {
            return Err(HostingError::NoCluster(name.to_owned()));
        }
        let (cluster, context) = (cluster.to_owned(), name.to_owned());
        match self.get(List::Clusters, &cluster) {
            None => Err(HostingError::ClusterMissing { cluster, context }),
            Some(body) if text(body, "server").is_empty() => Err(HostingError::NoServer { cluster, context }),
            Some(_) => Ok(context),
        }
    }

    /// Stores which context is the hosting one. There is one: whichever was it before is it no more.
    pub fn set_hosting(&mut self, name: &str, now: Timestamp) -> Result<(), String> {
        if !self.has_context(name) {
            return Err(format!("context '{name}' must exist within kubeconfig"));
        }
        let others: Vec<String> =
            self.names(List::Contexts).into_iter().filter(|one| *one != name).map(str::to_owned).collect();
        for other in others {
            if let Some(body) = self.get_mut(List::Contexts, &other) {
                extension::unset(body, extension::IS_HOSTING);
            }
        }
        if let Some(body) = self.get_mut(List::Contexts, name) {
            extension::set(body, extension::IS_HOSTING, "true", now);
        }
        if let Some(whole) = self.whole_with(|whole| extension::find(whole).is_some()) {
            extension::set(whole, extension::HOSTING, name, now);
        }
        Ok(())
    }

    pub fn unset_hosting(&mut self) {
        for whole in self.wholes_mut() {
            extension::unset(whole, extension::HOSTING);
            extension::unset(whole, extension::HOSTING_BEFORE);
        }
    }

    /// Why a control plane's entries would take the place of somebody else's.
    pub fn taken(&self, name: &str) -> Option<String> {
        if let Some(body) = self.get(List::Contexts, name) {
            let named_so =
                text(body, "cluster") == cluster_name(name) && text(body, "user") == user_name(name);
            if !named_so && self.control_plane_of(name).is_none() {
                return Some(format!("context {name:?} of the kubeconfig is not a control plane's"));
            }
        }
        let entries =
            [(List::Clusters, "cluster", cluster_name(name)), (List::Users, "user", user_name(name))];
        entries.into_iter().find_map(|(list, key, entry)| {
            self.get(list, &entry)?;
            let others = self.users_of(key, &entry, name);
            let other = others.first()?;
            Some(format!("{key} {entry:?} of the kubeconfig is used by context {other:?}"))
        })
    }

    /// Contexts besides one that refer to a cluster or a user.
    fn users_of(&self, key: &str, entry: &str, besides: &str) -> Vec<&str> {
        let refers =
            |name: &&str| self.get(List::Contexts, name).is_some_and(|body| text(body, key) == entry);
        self.names(List::Contexts).into_iter().filter(|name| *name != besides).filter(refers).collect()
    }

    /// Enters a control plane, in the place of what was there under its names.
    pub fn admit(&mut self, name: &str, access: &Access, now: Timestamp) {
        let mut context = access.context(name);
        // Whatever other programs keep with the context, and a namespace that somebody chose.
        if let Some(before) = self.get(List::Contexts, name).and_then(Value::as_object) {
            for (key, value) in before.iter().filter(|(key, _)| !matches!(key.as_str(), "cluster" | "user")) {
                context[key] = value.clone();
            }
        }
        extension::set(&mut context, extension::CONTROL_PLANE, name, now);
        self.put(List::Clusters, &cluster_name(name), access.cluster.clone());
        self.put(List::Users, &user_name(name), access.user.clone());
        self.put(List::Contexts, name, context);
    }

    /// Removes a context, and its cluster and user if they are named after it and nobody else uses them.
    pub fn forget(&mut self, name: &str) -> Result<(), String> {
        if !self.has_context(name) {
            return Err(format!("context {name} not found for control plane {name}"));
        }
        for (list, key, entry) in
            [(List::Clusters, "cluster", cluster_name(name)), (List::Users, "user", user_name(name))]
        {
            if self.users_of(key, &entry, name).is_empty() {
                self.remove(list, &entry);
            }
        }
        if self.stored_hosting() == Some(name) {
            self.unset_hosting();
        }
        self.remove(List::Contexts, name);
        if self.current() == name {
            let hosting = self.hosting().unwrap_or_default();
            self.set_current(&hosting);
        }
        Ok(())
    }

    /// Gives a context another name, and the cluster and user that are named after it theirs.
    pub fn rename(&mut self, old: &str, new: &str, now: Timestamp) -> Result<Renamed, String> {
        let Some(mut context) = self.get(List::Contexts, old).cloned() else {
            return Err(format!("no context '{old}' is found in the kubeconfig"));
        };
        if new.is_empty() {
            return Err("a context needs a name".to_owned());
        }
        let mut renamed = Renamed::default();
        if old == new {
            return Ok(renamed);
        }
        if self.has_context(new) {
            return Err(format!("context '{new}' is already in the kubeconfig"));
        }
        let moves = [
            (List::Clusters, "cluster", cluster_name(old), cluster_name(new), &mut renamed.cluster),
            (List::Users, "user", user_name(old), user_name(new), &mut renamed.user),
        ];
        for (list, key, from, to, said) in moves {
            // One that is called otherwise, or that others use too, keeps its name.
            if text(&context, key) != from || !self.users_of(key, &from, old).is_empty() {
                continue;
            }
            let Some(body) = self.get(list, &from).cloned() else { continue };
            if self.get(list, &to).is_some() {
                return Err(format!("{key} '{to}' is already in the kubeconfig"));
            }
            self.put_beside(list, &from, &to, body);
            self.remove(list, &from);
            context[key] = to.as_str().into();
            *said = Some(to);
        }
        self.put_beside(List::Contexts, old, new, context);
        let was_hosting = self.stored_hosting() == Some(old);
        self.remove(List::Contexts, old);
        if was_hosting {
            self.set_hosting(new, now)?;
        }
        Ok(renamed)
    }
}
