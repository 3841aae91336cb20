//! Nobody grants what they do not hold.
//!
//! Writing a role needs every permission in it, or the verb `escalate` on it; writing a binding needs
//! every permission of the role it names, or the verb `bind` on that. `system:masters` may do anything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::policy::{RoleRef, named, rules_of};
use super::{GROUP, PolicySnapshot, Rule};
use crate::authorize::{Attributes, Authorizer};
use crate::user::UserInfo;

/// Whether `owner` holds everything in `requested`; if not, the rules that are missing.
pub fn covers(owner: &[Rule], requested: &[Rule]) -> Result<(), Vec<Rule>> {
    let parts = requested.iter().flat_map(Rule::parts);
    let missing: Vec<Rule> = parts.filter(|part| !owner.iter().any(|rule| rule.covers(part))).collect();
    if missing.is_empty() { Ok(()) } else { Err(compacted(missing)) }
}

/// Rules about the same resource become one rule with several verbs.
fn compacted(parts: Vec<Rule>) -> Vec<Rule> {
    let mut others = Vec::new();
    let mut by_resource: BTreeMap<[Vec<String>; 3], Rule> = BTreeMap::new();
    for part in parts {
        if !part.non_resource_urls.is_empty() {
            others.push(part);
            continue;
        }
        let key = [part.api_groups.clone(), part.resources.clone(), part.resource_names.clone()];
        match by_resource.get_mut(&key) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => {
                by_resource.insert(key, part);
            }
        }
    }
    others.extend(by_resource.into_values());
    others
}

impl PolicySnapshot {
    /// Whether a user may give away these rules in a namespace (empty: in all of them); if not, why.
    pub fn confirm_no_escalation(
        &self,
        user: &UserInfo,
        namespace: &str,
        requested: &[Rule],
    ) -> Result<(), String> {
        let held = self.rules_for(user, namespace);
        let Err(missing) = covers(&held.rules, requested) else { return Ok(()) };
        let shown: BTreeSet<String> = missing.iter().map(Rule::to_string).collect();
        let shown: Vec<String> = shown.into_iter().collect();
        let mut message = format!(
            "{} is attempting to grant RBAC permissions not currently held:\n{}",
            named(user),
            shown.join("\n")
        );
        if !held.errors.is_empty() {
            message.push_str(&format!("; resolution errors: [{}]", held.errors.join(", ")));
        }
        Err(message)
    }

    /// Whether a user may write this Role or ClusterRole; if not, why. `authorizer` decides about
    /// `escalate`, `old` is what the write replaces.
    pub fn check_role(
        &self,
        authorizer: &dyn Authorizer,
        user: &UserInfo,
        role: &Value,
        old: Option<&Value>,
    ) -> Result<(), String> {
        let cluster = objects::meta::kind(role) == "ClusterRole";
        let namespace = if cluster { "" } else { objects::meta::namespace(role) };
        let escalate =
            Attributes::resource("escalate", GROUP, if cluster { "clusterroles" } else { "roles" })
                .namespace(namespace)
                .name(objects::meta::name(role));
        let exempt = user.is_master()
            || old.is_some_and(|old| only_garbage_collection_changes(old, role))
            || authorizer.authorize(user, &escalate).allowed();
        if exempt {
            return Ok(());
        }
        self.confirm_no_escalation(user, namespace, &rules_of(role))?;
        // An aggregated role can gather anything, now or later.
        if cluster && (aggregates(role) || old.is_some_and(aggregates)) {
            let all = self.confirm_no_escalation(user, "", &everything());
            return all
                .map_err(|_| "must have cluster-admin privileges to use the aggregationRule".to_owned());
        }
        Ok(())
    }

    /// Whether a user may write this RoleBinding or ClusterRoleBinding; if not, why. `authorizer` decides
    /// about `bind`, `old` is what the write replaces.
    pub fn check_binding(
        &self,
        authorizer: &dyn Authorizer,
        user: &UserInfo,
        binding: &Value,
        old: Option<&Value>,
    ) -> Result<(), String> {
        if user.is_master() || old.is_some_and(|old| only_garbage_collection_changes(old, binding)) {
            return Ok(());
        }
        let cluster = objects::meta::kind(binding) == "ClusterRoleBinding";
        let namespace = if cluster { "" } else { objects::meta::namespace(binding) };
        let role = RoleRef::of(binding);
        let resource = match role.kind.as_str() {
            "ClusterRole" => Some("clusterroles"),
            "Role" => Some("roles"),
            _ => None,
        };
        let may_bind = resource.is_some_and(|resource| {
            let bind = Attributes::resource("bind", GROUP, resource).namespace(namespace).name(&role.name);
            authorizer.authorize(user, &bind).allowed()
        });
        if may_bind {
            return Ok(());
        }
        let rules = self.rules_of_role(&role.kind, &role.name, namespace)?;
        self.confirm_no_escalation(user, namespace, rules)
    }
}

fn aggregates(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// The garbage collector must be able to finish off roles that it could not have written.
fn only_garbage_collection_changes(old: &Value, new: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            objects::meta::set(&mut object, field, Value::Null);
        }
        object
    };
    without(old) == without(new)
}
