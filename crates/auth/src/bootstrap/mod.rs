//! The policy a control plane starts with: default roles and bindings, from the table in `policy.txt`.

use serde_json::{Map, Value, json};

use crate::rbac::{GROUP, aggregation};

const POLICY: &str = include_str!("policy.txt");
const CONTROLLER_PREFIX: &str = "system:controller:";

/// Every default Role, ClusterRole, RoleBinding and ClusterRoleBinding, in that shape in which they are
/// created. The rules of aggregated roles are filled in, so that nobody has to wait for the controller.
pub fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in POLICY.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["role", name, labels @ ..] => objects.push(role(name, labels)),
            ["controller", name] => {
                let full = format!("{CONTROLLER_PREFIX}{name}");
                let account = format!("sa:kube-system:{name}");
                objects.push(binding(&full, &format!("ClusterRole:{full}"), &[&account]));
                objects.push(role(&full, &[]));
            }
            ["bind", name, role, subjects @ ..] => objects.push(binding(name, role, subjects)),
            words => {
                let rules = objects.last_mut().and_then(|role| role.get_mut("rules"));
                if let (Some(rules), Some(rule)) = (rules.and_then(Value::as_array_mut), rule(words)) {
                    rules.push(rule);
                }
            }
        }
    }
    fill_aggregated(&mut objects);
    objects
}

/// `name` or `namespace/name`, of the cluster or of a namespace.
fn object(name: &str, kind: &str) -> (Map<String, Value>, Map<String, Value>) {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let prefix = if namespace.is_empty() { "Cluster" } else { "" };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    metadata.insert("labels".to_owned(), json!({"kubernetes.io/bootstrapping": "rbac-defaults"}));
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    metadata.insert("annotations".to_owned(), annotations);
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(format!("{GROUP}/v1")));
    object.insert("kind".to_owned(), json!(format!("{prefix}{kind}")));
    (object, metadata)
}

fn role(name: &str, labels: &[&str]) -> Value {
    let (mut role, mut metadata) = object(name, "Role");
    let label = |group: &str| format!("{GROUP}/aggregate-to-{group}");
    for group in labels.iter().filter_map(|word| word.strip_prefix("into=")) {
        if let Some(labels) = metadata.get_mut("labels") {
            labels[label(group)] = json!("true");
        }
    }
    let selectors: Vec<Value> = labels
        .iter()
        .filter_map(|word| word.strip_prefix("from="))
        .map(|group| json!({"matchLabels": {label(group): "true"}}))
        .collect();
    if !selectors.is_empty() {
        role.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": selectors}));
    }
    role.insert("metadata".to_owned(), Value::Object(metadata));
    role.insert("rules".to_owned(), json!([]));
    Value::Object(role)
}

fn rule(words: &[&str]) -> Option<Value> {
    let split = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<String>>();
    let (verbs, rest) = words.split_first()?;
    let mut rule = Map::new();
    rule.insert("verbs".to_owned(), json!(expand_verbs(verbs)));
    match rest {
        ["url", paths] => {
            rule.insert("nonResourceURLs".to_owned(), json!(split(paths)));
        }
        [groups, resources, names @ ..] => {
            let groups: Vec<String> = split(groups)
                .into_iter()
                .map(|group| if group == "core" { String::new() } else { group })
                .collect();
            rule.insert("apiGroups".to_owned(), json!(groups));
            rule.insert("resources".to_owned(), json!(split(resources)));
            match names {
                [] => {}
                ["named", names] => {
                    rule.insert("resourceNames".to_owned(), json!(split(names)));
                }
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(Value::Object(rule))
}

fn expand_verbs(words: &str) -> Vec<&str> {
    let mut verbs: Vec<&str> = words
        .split(',')
        .flat_map(|word| match word {
            "read" => vec!["get", "list", "watch"],
            "change" => vec!["create", "delete", "deletecollection", "patch", "update"],
            verb => vec![verb],
        })
        .collect();
    verbs.sort_unstable();
    verbs
}

fn binding(name: &str, role: &str, subjects: &[&str]) -> Value {
    let (mut binding, metadata) = object(name, "RoleBinding");
    let (kind, role) = role.split_once(':').unwrap_or(("", role));
    binding.insert("metadata".to_owned(), Value::Object(metadata));
    binding.insert("roleRef".to_owned(), json!({"apiGroup": GROUP, "kind": kind, "name": role}));
    let subjects: Vec<Value> = subjects.iter().filter_map(|text| subject(text)).collect();
    if !subjects.is_empty() {
        binding.insert("subjects".to_owned(), Value::Array(subjects));
    }
    Value::Object(binding)
}

/// `user:NAME`, `group:NAME` or `sa:NAMESPACE:NAME`.
fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(':')?;
    match kind {
        "user" => Some(json!({"apiGroup": GROUP, "kind": "User", "name": name})),
        "group" => Some(json!({"apiGroup": GROUP, "kind": "Group", "name": name})),
        "sa" => {
            let (namespace, name) = name.split_once(':')?;
            Some(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}))
        }
        _ => None,
    }
}

/// Aggregated roles may gather from aggregated roles, so this goes on until nothing changes.
fn fill_aggregated(objects: &mut [Value]) {
    loop {
        let mut changed = false;
        for i in 0..objects.len() {
            let Some(role) = objects.get(i) else { break };
            let roles = objects.iter().filter(|one| objects::meta::kind(one) == "ClusterRole");
            let Some(Ok(rules)) = aggregation::aggregate(role, roles) else { continue };
            let rules = json!(rules);
            if let Some(role) = objects.get_mut(i).filter(|role| role["rules"] != rules) {
                role["rules"] = rules;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorize::{Attributes, Authorizer};
    use crate::rbac::{PolicySnapshot, validation};
    use crate::user::UserInfo;

    fn check(user: &UserInfo, attributes: Attributes<'_>, expected: bool) {
        let objects = objects();
        let decision = PolicySnapshot::new(&objects).authorize(user, &attributes);
        assert_eq!(decision.allowed(), expected, "{} {attributes:?} {}", user.name, decision.reason);
    }

    #[test]
    fn every_line_is_understood() {
        let lines = POLICY.lines().filter(|line| line.starts_with("  ")).count();
        let own_rules = |object: &Value| {
            let aggregated = object.get("aggregationRule").is_some();
            if aggregated { 0 } else { object["rules"].as_array().map_or(0, Vec::len) }
        };
        let objects = objects();
        assert_eq!(objects.iter().map(own_rules).sum::<usize>(), lines);
        for object in &objects {
            let binding = objects::meta::kind(object).ends_with("Binding");
            let errors = if binding { validation::binding(object) } else { validation::role(object) };
            assert_eq!(errors, [], "{object}");
        }
    }

    #[test]
    fn bindings_find_their_roles() {
        let objects = objects();
        let policy = PolicySnapshot::new(&objects);
        for object in objects.iter().filter(|object| object.get("roleRef").is_some()) {
            let text = |field: &str| object["roleRef"][field].as_str().unwrap();
            let found = policy.rules_of_role(text("kind"), text("name"), objects::meta::namespace(object));
            assert!(found.is_ok(), "{object}");
        }
    }

    #[test]
    fn default_decisions() {
        let anonymous = UserInfo::anonymous();
        check(&anonymous, Attributes::path("get", "/version"), true);
        check(&anonymous, Attributes::path("get", "/healthz"), true);
        check(&anonymous, Attributes::path("get", "/api"), false);
        check(&anonymous, Attributes::resource("list", "", "pods"), false);
        let user = UserInfo::new("jane", ["system:authenticated"]);
        check(&user, Attributes::path("get", "/apis/apps/v1"), true);
        check(
            &user,
            Attributes::resource("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
            true,
        );
        check(&user, Attributes::resource("get", "", "secrets").namespace("default"), false);
        check(&UserInfo::new("root", ["system:masters"]), Attributes::resource("delete", "x", "y"), true);
        let account = UserInfo::service_account("kube-system", "namespace-controller", "");
        check(&account, Attributes::resource("delete", "", "namespaces"), true);
        let account = UserInfo::service_account("default", "namespace-controller", "");
        check(&account, Attributes::resource("delete", "", "namespaces"), false);
    }

    #[test]
    fn aggregated_roles_hold_those_below() {
        fn allows(role: &str, verb: &str, group: &str, resource: &str) -> bool {
            let objects = objects();
            let policy = PolicySnapshot::new(&objects);
            let rules = policy.rules_of_role("ClusterRole", role, "").unwrap();
            rules.iter().any(|rule| rule.allows(&Attributes::resource(verb, group, resource)))
        }
        for (resource, group, verb, view, edit, admin) in [
            ("pods", "", "list", true, true, true),
            ("pods", "", "create", false, true, true),
            ("secrets", "", "get", false, true, true),
            ("roles", "rbac.authorization.k8s.io", "create", false, false, true),
            ("nodes", "", "get", false, false, false),
            ("deployments", "apps", "patch", false, true, true),
        ] {
            let got = ["view", "edit", "admin"].map(|role| allows(role, verb, group, resource));
            assert_eq!(got, [view, edit, admin], "{verb} {resource}");
        }
    }
}
