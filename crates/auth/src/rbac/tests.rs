use serde_json::{Value, json};

use super::escalation::covers;
use super::*;
use crate::authorize::{Attributes, Authorizer};
use crate::user::UserInfo;

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

fn binding(kind: &str, namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1}, "subjects": subjects,
    })
}

fn policy() -> PolicySnapshot {
    let read_pods = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let grant = json!([
        {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["free"]},
        {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["everything"]},
    ]);
    let objects = [
        role("ClusterRole", "", "read-pods", read_pods.clone()),
        role("ClusterRole", "", "everything", all),
        role("ClusterRole", "", "grant", grant),
        role("Role", "a", "local", read_pods),
        binding(
            "ClusterRoleBinding",
            "",
            "z",
            ("ClusterRole", "read-pods"),
            json!([{"kind": "Group", "name": "readers"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "m",
            ("ClusterRole", "everything"),
            json!([{"kind": "User", "name": "root"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "g",
            ("ClusterRole", "grant"),
            json!([{"kind": "User", "name": "granter"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "lost",
            ("ClusterRole", "gone"),
            json!([{"kind": "User", "name": "lost"}]),
        ),
        binding("RoleBinding", "a", "here", ("Role", "local"), json!([{"kind": "User", "name": "jane"}])),
        binding(
            "RoleBinding",
            "a",
            "sa",
            ("ClusterRole", "read-pods"),
            json!([
                {"kind": "User", "name": "nobody"}, {"kind": "ServiceAccount", "name": "bot"},
                {"kind": "ServiceAccount", "name": "far", "namespace": "b"},
            ]),
        ),
    ];
    PolicySnapshot::new(&objects)
}

#[test]
fn decisions_and_their_reasons() {
    let policy = policy();
    let check = |user: UserInfo, attributes: Attributes<'_>, expected: Result<&str, &str>| {
        let decision = policy.authorize(&user, &attributes);
        let got =
            if decision.allowed() { Ok(decision.reason.as_str()) } else { Err(decision.reason.as_str()) };
        assert_eq!(got, expected, "{} {attributes:?}", user.name);
    };
    let none: [&str; 0] = [];
    let pods = |namespace| Attributes::resource("list", "", "pods").namespace(namespace);
    let by_group = r#"RBAC: allowed by ClusterRoleBinding "z" of ClusterRole "read-pods" to Group "readers""#;
    check(UserInfo::new("x", ["readers"]), pods("a"), Ok(by_group));
    check(UserInfo::new("x", ["readers"]), pods(""), Ok(by_group));
    check(UserInfo::new("x", ["writers"]), pods("a"), Err(""));
    let local = r#"RBAC: allowed by RoleBinding "here/a" of Role "local" to User "jane""#;
    check(UserInfo::new("jane", none), pods("a"), Ok(local));
    check(UserInfo::new("jane", none), pods("b"), Err(""));
    check(UserInfo::new("jane", none), pods(""), Err(""));
    let bot = r#"RBAC: allowed by RoleBinding "sa/a" of ClusterRole "read-pods" to ServiceAccount "bot/a""#;
    check(UserInfo::service_account("a", "bot", ""), pods("a"), Ok(bot));
    check(UserInfo::service_account("b", "bot", ""), pods("a"), Err(""));
    let far = r#"RBAC: allowed by RoleBinding "sa/a" of ClusterRole "read-pods" to ServiceAccount "far/b""#;
    check(UserInfo::service_account("b", "far", ""), pods("a"), Ok(far));
    check(UserInfo::new("x", ["system:masters"]), pods("a"), Ok(""));
    let missing = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    check(UserInfo::new("lost", none), pods("a"), Err(missing));
    check(
        UserInfo::new("root", none),
        Attributes::path("get", "/metrics"),
        Ok(r#"RBAC: allowed by ClusterRoleBinding "m" of ClusterRole "everything" to User "root""#),
    );
}

#[test]
fn policies_share_what_is_the_same() {
    let pool = RulePool::new();
    let objects = crate::bootstrap::objects();
    let first = PolicySnapshot::sharing(&objects, &pool);
    let held = pool.len();
    let second = PolicySnapshot::sharing(&objects, &pool);
    assert_eq!(pool.len(), held);
    let rules = |policy: &PolicySnapshot| policy.rules_of_role("ClusterRole", "edit", "").unwrap().as_ptr();
    assert_eq!(rules(&first), rules(&second));
}

fn rules(value: Value) -> Vec<Rule> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn coverage() {
    fn check(owner: Value, requested: Value, missing: &[&str]) {
        let got = covers(&rules(owner), &rules(requested)).err().unwrap_or_default();
        let got: Vec<String> = got.iter().map(Rule::to_string).collect();
        assert_eq!(got, missing);
    }
    let read = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "services"]}]);
    check(read.clone(), read.clone(), &[]);
    check(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]), read.clone(), &[]);
    check(
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
        read.clone(),
        &[
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list"]}"#,
            r#"{APIGroups:[""], Resources:["services"], Verbs:["get" "list"]}"#,
        ],
    );
    // Several rules together may cover one.
    check(
        json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["services"]},
        ]),
        read,
        &[],
    );
    let named = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]);
    let all_names = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    check(all_names.clone(), named.clone(), &[]);
    check(named, all_names, &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#]);
    let scale = json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]}]);
    check(
        scale.clone(),
        json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}]),
        &[],
    );
    check(
        scale,
        json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*"]}]),
        &[r#"{APIGroups:["apps"], Resources:["*"], Verbs:["get"]}"#],
    );
    let urls = json!([{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]);
    check(urls.clone(), json!([{"verbs": ["get"], "nonResourceURLs": ["/a/b"]}]), &[]);
    check(
        urls,
        json!([{"verbs": ["get"], "nonResourceURLs": ["/b"]}]),
        &[r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#],
    );
}

#[test]
fn nobody_grants_what_they_do_not_hold() {
    let policy = policy();
    let none: [&str; 0] = [];
    let check_role = |user: &UserInfo, role: &Value, expected: Result<(), &str>| {
        let got = policy.check_role(&policy, user, role, None);
        assert_eq!(got.map_err(|why| why.to_string()), expected.map_err(str::to_owned), "{}", user.name);
    };
    let pods = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    let secrets = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}]);
    let jane = UserInfo::new("jane", ["dev", "ops"]);
    check_role(&jane, &role("Role", "a", "r", pods.clone()), Ok(()));
    check_role(
        &jane,
        &role("Role", "a", "r", secrets.clone()),
        Err(
            "user \"jane\" (groups=[\"dev\" \"ops\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}",
        ),
    );
    check_role(&UserInfo::new("x", ["system:masters"]), &role("Role", "a", "r", secrets.clone()), Ok(()));
    let granter = UserInfo::new("granter", none);
    check_role(&granter, &role("ClusterRole", "", "free", secrets.clone()), Ok(()));
    assert!(
        policy
            .check_role(&policy, &granter, &role("ClusterRole", "", "other", secrets.clone()), None)
            .is_err()
    );

    let mut aggregated = role("ClusterRole", "", "agg", json!([]));
    aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    check_role(&UserInfo::new("root", none), &aggregated, Ok(()));
    check_role(&jane, &aggregated, Err("must have cluster-admin privileges to use the aggregationRule"));

    let mut finalized = role("Role", "a", "r", secrets.clone());
    finalized["metadata"]["finalizers"] = json!(["x"]);
    let plain = role("Role", "a", "r", secrets);
    assert_eq!(policy.check_role(&policy, &jane, &plain, Some(&finalized)), Ok(()));
}

#[test]
fn bindings_need_the_rights_they_give() {
    let policy = policy();
    let check = |user: &str, kind: &str, namespace: &str, role: (&str, &str), expected: bool| {
        let user = UserInfo::new(user, ["g"]);
        let binding = binding(kind, namespace, "new", role, json!([]));
        let got = policy.check_binding(&policy, &user, &binding, None);
        assert_eq!(got.is_ok(), expected, "{} {got:?}", user.name);
    };
    check("jane", "RoleBinding", "a", ("Role", "local"), true);
    check("jane", "RoleBinding", "a", ("ClusterRole", "read-pods"), true);
    check("jane", "RoleBinding", "b", ("ClusterRole", "read-pods"), false);
    check("jane", "ClusterRoleBinding", "", ("ClusterRole", "read-pods"), false);
    check("root", "ClusterRoleBinding", "", ("ClusterRole", "everything"), true);
    check("granter", "ClusterRoleBinding", "", ("ClusterRole", "everything"), true);
    check("granter", "ClusterRoleBinding", "", ("ClusterRole", "read-pods"), false);
    check("root", "ClusterRoleBinding", "", ("ClusterRole", "gone"), true);
    check("jane", "ClusterRoleBinding", "", ("ClusterRole", "gone"), false);
}

#[test]
fn aggregation_gathers_in_order_and_once() {
    let labelled = |name: &str, label: &str, rules: Value| json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": {label: "true"}}, "rules": rules});
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
    let mut target = labelled("target", "to-x", json!([rule("own")]));
    target["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to-x": "true"}}, {"matchLabels": {"to-y": "true"}}]});
    let roles = [
        target.clone(),
        labelled("b", "to-x", json!([rule("get"), rule("list")])),
        labelled("a", "to-x", json!([rule("list")])),
        labelled("c", "to-y", json!([rule("watch"), rule("get")])),
        labelled("d", "to-z", json!([rule("delete")])),
    ];
    let verbs: Vec<String> = aggregation::aggregate(&target, &roles)
        .unwrap()
        .unwrap()
        .into_iter()
        .flat_map(|rule| rule.verbs)
        .collect();
    assert_eq!(verbs, ["list", "get", "watch"]);
    assert!(aggregation::aggregate(&roles[1], &roles).is_none());
}

#[test]
fn validation_messages() {
    fn check(object: Value, expected: &[&str]) {
        let kind = objects::meta::kind(&object).to_owned();
        let errors =
            if kind.ends_with("Binding") { validation::binding(&object) } else { validation::role(&object) };
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, expected);
    }
    check(
        role("Role", "a", "r", json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}])),
        &[
            r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#,
        ],
    );
    check(
        role("ClusterRole", "", "r", json!([{"verbs": [], "resources": ["pods"]}])),
        &[
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ],
    );
    check(binding("RoleBinding", "a", "b", ("Role", "r"), json!([])), &[]);
    check(
        binding(
            "ClusterRoleBinding",
            "",
            "b",
            ("Role", "r"),
            json!([{"kind": "ServiceAccount", "name": "x"}]),
        ),
        &[
            r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
            "subjects[0].namespace: Required value",
        ],
    );
    check(
        binding("RoleBinding", "a", "b", ("Role", ""), json!([{"kind": "Robot", "name": "x"}])),
        &[
            "roleRef.name: Required value",
            r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
        ],
    );
    let old = binding("RoleBinding", "a", "b", ("Role", "r"), json!([]));
    let new = binding("RoleBinding", "a", "b", ("Role", "s"), json!([]));
    let errors = validation::binding_update(&new, &old);
    assert!(errors[0].to_string().ends_with("cannot change roleRef"), "{errors:?}");
}

mod properties {
    use proptest::prelude::*;

    use super::super::escalation::covers;
    use super::super::rule::tests::any_rule;
    use crate::authorize::Attributes;

    proptest! {
        /// If a set of rules covers another, then whatever the other allows it allows too.
        #[test]
        fn covering_means_allowing(
            owner in proptest::collection::vec(any_rule(), 0..4),
            asked in any_rule(),
            verb in "get|list", group in "|apps", resource in "pods|jobs", subresource in "|scale|log", name in "|a|b",
        ) {
            let attributes = Attributes::resource(&verb, &group, &resource).subresource(&subresource).name(&name);
            if covers(&owner, std::slice::from_ref(&asked)).is_ok() && asked.allows(&attributes) {
                prop_assert!(owner.iter().any(|rule| rule.allows(&attributes)), "{owner:?} {asked:?}");
            }
        }

        /// What is missing, added to what is held, is enough.
        #[test]
        fn missing_rules_complete(owner in proptest::collection::vec(any_rule(), 0..4), asked in any_rule()) {
            if let Err(missing) = covers(&owner, std::slice::from_ref(&asked)) {
                let all: Vec<_> = owner.into_iter().chain(missing).collect();
                prop_assert!(covers(&all, std::slice::from_ref(&asked)).is_ok());
            }
        }
    }
}
