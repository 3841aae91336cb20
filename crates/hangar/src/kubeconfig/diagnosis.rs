//! What is to be said of a kubeconfig's extensions.

use serde::Serialize;
use serde_json::{Value, json};

use super::document::List;
use super::extension;
use super::files::Kubeconfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Critical,
    Warning,
    Ok,
}

/// In KubeFlex's form; the findings are ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    pub status: Status,
    pub message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl Kubeconfig {
    /// The state of the global extension, as KubeFlex sees it.
    pub fn diagnose(&self) -> Diagnosis {
        let found = self.wholes().find_map(extension::find);
        let data = found.map(|extension| &extension["data"]);
        let (status, message, data) = match data {
            None => (Status::Critical, "Global kubeflex extension is not present in kubeconfig", None),
            Some(data) if data.as_object().is_none_or(|map| map.is_empty()) => {
                (Status::Warning, "Global kubeflex extension is present but empty", None)
            }
            Some(data) => {
                let hosting = data.get(extension::HOSTING).filter(|name| name.as_str() != Some(""));
                let shown = hosting.map_or_else(|| json!({}), |name| json!({extension::HOSTING: name}));
                (Status::Ok, "Global kubeflex extension is present and properly configured", Some(shown))
            }
        };
        Diagnosis { status, message, data, findings: Vec::new() }
    }

    /// Everything that [`Kubeconfig::tidy`] would put right, and what it cannot.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        match self.stored_hosting() {
            None => findings.push("no hosting context is stored".to_owned()),
            Some(name) => {
                if let Err(why) = self.hosting() {
                    findings.push(format!("hosting context {name:?}: {why}"));
                }
            }
        }
        let current = self.current();
        if !current.is_empty() && !self.has_context(current) {
            findings.push(format!("current context {current:?} does not exist"));
        }
        for name in self.names(List::Contexts) {
            let Some(body) = self.get(List::Contexts, name) else { continue };
            let flagged = extension::get(body, extension::IS_HOSTING) == Some("true");
            if flagged != (self.stored_hosting() == Some(name)) {
                let is = if flagged { "says that it is" } else { "does not say that it is" };
                findings.push(format!("context {name:?} {is} the hosting context"));
            }
            if self.is_managed(name)
                && let Err(why) = self.access(name)
            {
                findings.push(format!("context {name:?} cannot be used: {why}"));
            }
        }
        if self
            .wholes()
            .any(|whole| extension::named(&whole["preferences"], extension::NAME_BEFORE).is_some())
        {
            findings.push("an extension of a release before 0.9 is in preferences".to_owned());
        }
        findings
    }
}
