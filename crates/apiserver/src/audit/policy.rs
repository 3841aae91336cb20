//! How much is told of which request: `audit.k8s.io/v1` Policy. The first rule that matches decides.

use auth::user::UserInfo;
use objects::Value;
use serde::{Deserialize, Serialize};

use crate::route::Target;

/// How much of a request is told; each level tells all of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when, and how it ended.
    Metadata,
    /// And the body of the request.
    Request,
    /// And the body of the answer.
    RequestResponse,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Its user is known; nothing has been done.
    RequestReceived,
    /// The head of the answer is out, the body goes on: watches only.
    ResponseStarted,
    ResponseComplete,
    /// The server failed in the middle of it.
    Panic,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stages(u8);

impl Stages {
    fn of(stages: &[Stage]) -> Stages {
        Stages(stages.iter().fold(0, |bits, stage| bits | 1 << *stage as u8))
    }

    fn and(self, other: Stages) -> Stages {
        Stages(self.0 | other.0)
    }

    fn has(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }
}

/// What the policy says about one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    omit_stages: Stages,
    pub omit_managed_fields: bool,
}

impl Verdict {
    pub fn tells(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omit_stages.has(stage)
    }
}

#[derive(thiserror::Error, Debug)]
pub enum PolicyError {
    #[error("{0}")]
    Unreadable(String),
    #[error("it is {kind:?} of {api_version:?}, not Policy of audit.k8s.io/v1")]
    NotAPolicy { api_version: String, kind: String },
    #[error("it has no rules; to tell nothing, run without an audit log")]
    NoRules,
    #[error("rules[{rule}].{field}: {why}")]
    BadRule { rule: usize, field: &'static str, why: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyFile {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

/// A rule as it is written; an empty list means any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// Which requests are told of, and how much.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Stages,
    omit_managed_fields: bool,
}

/// What a policy looks at.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// None where authentication failed.
    pub user: Option<&'a UserInfo>,
    pub verb: &'a str,
    pub target: &'a Target,
}

impl Policy {
    /// What is told where nobody has said otherwise: writes, and all that happens to secrets, without contents.
    #[must_use]
    pub fn standard() -> Policy {
        // That the file can be read is a test's business.
        Policy::parse(include_bytes!("default-policy.yaml")).unwrap_or_default()
    }

    /// Reads a policy file, YAML or JSON.
    pub fn parse(bytes: &[u8]) -> Result<Policy, PolicyError> {
        let decoded =
            wire::yaml::decode(bytes).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if let Some(field) = decoded.duplicates.first() {
            return Err(PolicyError::Unreadable(format!("{field} is given twice")));
        }
        let file: PolicyFile = serde_json::from_value(decoded.value)
            .map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if file.api_version != "audit.k8s.io/v1" || file.kind != "Policy" {
            return Err(PolicyError::NotAPolicy { api_version: file.api_version, kind: file.kind });
        }
        if file.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        for (number, rule) in file.rules.iter().enumerate() {
            rule.check().map_err(|(field, why)| PolicyError::BadRule { rule: number, field, why })?;
        }
        Ok(Policy {
            rules: file.rules,
            omit_stages: Stages::of(&file.omit_stages),
            omit_managed_fields: file.omit_managed_fields,
        })
    }

    /// The word of the first rule that matches; nothing is told of what no rule mentions.
    #[must_use]
    pub fn verdict(&self, subject: &Subject<'_>) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(subject)) else {
            return Verdict { omit_stages: self.omit_stages, ..Verdict::default() };
        };
        let secret = is_secret(subject.target) && !rule.names(subject.target);
        Verdict {
            level: if secret { rule.level.min(Level::Metadata) } else { rule.level },
            omit_stages: self.omit_stages.and(Stages::of(&rule.omit_stages)),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

/// Resources whose bodies are credentials. A rule tells them only if it names them: one that says `Request` for
/// everything did not mean to write passwords down. (Upstream takes such a rule at its word.)
const SECRET: [(&str, &str, &str); 3] =
    [("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")];

fn is_secret(target: &Target) -> bool {
    let Target::Resource(target) = target else { return false };
    SECRET.contains(&(&target.group, &target.resource, &target.subresource))
}

impl Rule {
    fn check(&self) -> Result<(), (&'static str, String)> {
        let about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if about_resources && !self.non_resource_urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs".to_owned();
            return Err(("nonResourceURLs", why));
        }
        for url in &self.non_resource_urls {
            let body = url.strip_suffix('*').unwrap_or(url);
            if url != "*" && (!url.starts_with('/') || body.contains('*')) {
                let why =
                    format!("{url:?} must be \"*\", or begin with \"/\" and have \"*\" at its end only");
                return Err(("nonResourceURLs", why));
            }
        }
        for group in &self.resources {
            if group.group.contains('/') {
                return Err((
                    "resources.group",
                    format!("{:?} must be a group without a version", group.group),
                ));
            }
            if group.resources.is_empty() && !group.resource_names.is_empty() {
                let why = "using resourceNames requires at least one resource".to_owned();
                return Err(("resources.resourceNames", why));
            }
        }
        Ok(())
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        let any = |list: &[String], wanted: &str| list.is_empty() || list.iter().any(|one| one == wanted);
        let user_matches = |user: &UserInfo| {
            any(&self.users, &user.name)
                && (self.user_groups.is_empty() || self.user_groups.iter().any(|group| user.is_in(group)))
        };
        let anyone = self.users.is_empty() && self.user_groups.is_empty();
        if !subject.user.map_or(anyone, user_matches) || !any(&self.verbs, subject.verb) {
            return false;
        }
        let about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        match subject.target {
            Target::Resource(target) if about_resources => {
                any(&self.namespaces, &target.namespace)
                    && (self.resources.is_empty() || self.resources.iter().any(|group| group.matches(target)))
            }
            Target::Resource(_) => self.non_resource_urls.is_empty(),
            Target::Path(_) if about_resources => false,
            Target::Path(path) => {
                self.non_resource_urls.is_empty()
                    || self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                        Some(prefix) => path.starts_with(prefix),
                        None => path == url,
                    })
            }
        }
    }

    /// Whether the rule is about this very resource, and not about all that there are.
    fn names(&self, target: &Target) -> bool {
        let Target::Resource(target) = target else { return false };
        self.resources.iter().filter(|group| group.group == target.group).any(|group| {
            group.resources.iter().any(|name| {
                let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
                resource == target.resource && subresource == target.subresource
            })
        })
    }
}

impl GroupResources {
    fn matches(&self, target: &crate::route::ResourceTarget) -> bool {
        if self.group != target.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.iter().any(|name| *name == target.name) {
            return false;
        }
        // `pods` is the resource itself and not its parts; those are `pods/log`, `pods/*` or `*/log`.
        self.resources.iter().any(|wanted| match wanted.split_once('/') {
            None => wanted == "*" || (target.subresource.is_empty() && *wanted == target.resource),
            Some(("*", part)) => !target.subresource.is_empty() && target.subresource == part,
            Some((resource, "*")) => target.resource == resource,
            Some((resource, part)) => target.resource == resource && target.subresource == part,
        })
    }
}
