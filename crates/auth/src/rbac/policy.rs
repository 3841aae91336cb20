//! The policy of one control plane, indexed by subject.
//!
//! A decision looks at the bindings that name the user or one of the groups, and at nothing else, so it
//! costs the same whether a control plane has ten bindings or ten thousand.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Rule, RulePool, rule::quoted};
use crate::authorize::{Attributes, Authorizer, Decision};
use crate::user::{UserInfo, service_account_name};

/// Roles and bindings of one control plane, ready to answer.
#[derive(Debug, Default)]
pub struct PolicySnapshot {
    cluster_roles: HashMap<String, Arc<[Rule]>>,
    /// By namespace, then name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    cluster_bindings: Bindings,
    /// By namespace.
    bindings: HashMap<String, Bindings>,
}

/// Bindings of one scope, sorted by name; the position is their identity.
#[derive(Debug, Default)]
struct Bindings {
    all: Vec<Binding>,
    by_user: HashMap<String, Vec<usize>>,
    by_group: HashMap<String, Vec<usize>>,
}

#[derive(Debug)]
struct Binding {
    name: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleRef {
    pub kind: String,
    pub name: String,
}

#[derive(Debug)]
struct Subject {
    who: Who,
    /// `User "jane"`, as it is named in reasons.
    shown: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Who {
    User(String),
    Group(String),
}

/// The rules somebody has somewhere, and the roles that were bound but do not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedRules {
    pub rules: Vec<Rule>,
    pub errors: Vec<String>,
}

impl PolicySnapshot {
    /// Builds from objects of the kinds Role, ClusterRole, RoleBinding and ClusterRoleBinding, in any
    /// order; other kinds are ignored, and so are rules and subjects that are not well formed.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        PolicySnapshot::sharing(objects, &RulePool::new())
    }

    /// The same, sharing rules with all other policies of a pool.
    pub fn sharing<'a>(objects: impl IntoIterator<Item = &'a Value>, pool: &RulePool) -> Self {
        let mut policy = PolicySnapshot::default();
        for object in objects {
            let (namespace, name) = (objects::meta::namespace(object), objects::meta::name(object));
            match objects::meta::kind(object) {
                "ClusterRole" => {
                    policy.cluster_roles.insert(name.to_owned(), pool.shared(rules_of(object)));
                }
                "Role" => {
                    let roles = policy.roles.entry(namespace.to_owned()).or_default();
                    roles.insert(name.to_owned(), pool.shared(rules_of(object)));
                }
                "ClusterRoleBinding" => policy.cluster_bindings.all.push(Binding::new(object, "")),
                "RoleBinding" => {
                    let bindings = policy.bindings.entry(namespace.to_owned()).or_default();
                    bindings.all.push(Binding::new(object, namespace));
                }
                _ => {}
            }
        }
        policy.cluster_bindings.index();
        policy.bindings.values_mut().for_each(Bindings::index);
        policy
    }

    /// All rules of a user: those of the cluster and, if a namespace is given, those in it.
    #[must_use]
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> ResolvedRules {
        let mut resolved = ResolvedRules::default();
        self.visit(user, namespace, |_, rules| {
            match rules {
                Ok(rules) => resolved.rules.extend_from_slice(rules),
                Err(error) => resolved.errors.push(error),
            }
            None::<()>
        });
        resolved
    }

    /// The rules of a role that a binding in `namespace` (empty: of the cluster) refers to.
    pub fn rules_of_role(&self, kind: &str, name: &str, namespace: &str) -> Result<&[Rule], String> {
        let (found, what) = match kind {
            "ClusterRole" => (self.cluster_roles.get(name), "clusterrole"),
            "Role" => (self.roles.get(namespace).and_then(|roles| roles.get(name)), "role"),
            _ => return Err(format!("unsupported role reference kind: {kind:?}")),
        };
        found.map(AsRef::as_ref).ok_or_else(|| format!("{what}.{} {name:?} not found", super::GROUP))
    }

    /// Shows the rules of each binding that applies to the user, until the visitor answers something.
    fn visit<T>(
        &self,
        user: &UserInfo,
        namespace: &str,
        mut visitor: impl FnMut(Source<'_>, Result<&[Rule], String>) -> Option<T>,
    ) -> Option<T> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        let scopes = [Some(("", &self.cluster_bindings)), local.map(|bindings| (namespace, bindings))];
        for (namespace, bindings) in scopes.into_iter().flatten() {
            for binding in bindings.of(user) {
                let rules = self.rules_of_role(&binding.role.kind, &binding.role.name, namespace);
                let answer = visitor(Source { binding, namespace, user }, rules);
                if answer.is_some() {
                    return answer;
                }
            }
        }
        None
    }
}

impl Authorizer for PolicySnapshot {
    fn authorize(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Decision {
        if user.is_master() {
            return Decision::allow("");
        }
        let mut errors = Vec::new();
        let allowed = self.visit(user, attributes.in_namespace(), |source, rules| match rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                Some(Decision::allow(format!("RBAC: allowed by {}", source.shown())))
            }
            Ok(_) => None,
            Err(error) => {
                if !errors.contains(&error) {
                    errors.push(error);
                }
                None
            }
        });
        allowed.unwrap_or_else(|| match errors.as_slice() {
            [] => Decision::no_opinion(""),
            [one] => Decision::no_opinion(format!("RBAC: {one}")),
            many => Decision::no_opinion(format!("RBAC: [{}]", many.join(", "))),
        })
    }
}

/// Where a rule comes from.
struct Source<'a> {
    binding: &'a Binding,
    namespace: &'a str,
    user: &'a UserInfo,
}

impl Source<'_> {
    fn shown(&self) -> String {
        let Binding { name, role, subjects } = self.binding;
        let subject = subjects.iter().find(|subject| subject.who.is(self.user));
        let subject = subject.map_or("", |subject| &subject.shown);
        let (kind, role) = (&role.kind, &role.name);
        if self.namespace.is_empty() {
            return format!("ClusterRoleBinding {name:?} of {kind} {role:?} to {subject}");
        }
        format!("RoleBinding \"{name}/{}\" of {kind} {role:?} to {subject}", self.namespace)
    }
}

impl Bindings {
    fn index(&mut self) {
        self.all.sort_by(|a, b| a.name.cmp(&b.name));
        for (position, binding) in self.all.iter().enumerate() {
            for subject in &binding.subjects {
                let positions = match &subject.who {
                    Who::User(name) => self.by_user.entry(name.clone()).or_default(),
                    Who::Group(name) => self.by_group.entry(name.clone()).or_default(),
                };
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
    }

    /// Those that name the user or one of the user's groups, each once and in order of their names.
    fn of(&self, user: &UserInfo) -> impl Iterator<Item = &Binding> {
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let mut positions: Vec<usize> =
            self.by_user.get(&user.name).into_iter().chain(groups).flatten().copied().collect();
        positions.sort_unstable();
        positions.dedup();
        positions.into_iter().filter_map(|position| self.all.get(position))
    }
}

impl Binding {
    fn new(object: &Value, namespace: &str) -> Self {
        let subjects = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
        Binding {
            name: objects::meta::name(object).to_owned(),
            role: RoleRef::of(object),
            subjects: subjects.filter_map(|subject| Subject::new(subject, namespace)).collect(),
        }
    }
}

impl RoleRef {
    pub fn of(binding: &Value) -> Self {
        let text = |field: &str| {
            let value = binding.get("roleRef").and_then(|role| role.get(field)).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        RoleRef { kind: text("kind"), name: text("name") }
    }
}

impl Subject {
    /// A subject of a binding in `namespace`, where service accounts without a namespace are looked for.
    fn new(subject: &Value, namespace: &str) -> Option<Self> {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let own = text("namespace");
        match kind {
            "User" => Some(Subject { who: Who::User(name.to_owned()), shown: format!("User {name:?}") }),
            "Group" => Some(Subject { who: Who::Group(name.to_owned()), shown: format!("Group {name:?}") }),
            "ServiceAccount" => {
                let namespace = if own.is_empty() { namespace } else { own };
                if namespace.is_empty() {
                    return None;
                }
                let who = Who::User(service_account_name(namespace, name));
                Some(Subject { who, shown: format!("ServiceAccount \"{name}/{namespace}\"") })
            }
            _ => None,
        }
    }
}

impl Who {
    fn is(&self, user: &UserInfo) -> bool {
        match self {
            Who::User(name) => user.name == *name,
            Who::Group(name) => user.is_in(name),
        }
    }
}

/// The well-formed rules of a role.
pub(super) fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| Rule::deserialize_from(rule).ok()).collect()
}

impl Rule {
    pub fn deserialize_from(value: &Value) -> Result<Rule, serde_json::Error> {
        serde::Deserialize::deserialize(value)
    }
}

/// `user "u" (groups=["a" "b"])`, as messages about escalation begin.
pub(super) fn named(user: &UserInfo) -> String {
    format!("user {:?} (groups={})", user.name, quoted(&user.groups))
}
