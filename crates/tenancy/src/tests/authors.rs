//! Who may have what made in the hosting control plane: hooks act as their authors.

use objects::{Value, meta};
use serde_json::json;

use super::fixture::{Fixture, plane};
use crate::api::{self, Place};
use crate::{names, operator};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// What a self-service portal gives: control planes, hooks, and the right to use all hooks.
fn tenancy(verbs: &[&str]) -> Vec<Value> {
    vec![
        rule(names::GROUP, &["controlplanes"], verbs),
        rule(names::GROUP, &["postcreatehooks"], verbs),
        rule(names::GROUP, &["postcreatehooks"], &["use"]),
    ]
}

const WRITE: [&str; 4] = ["get", "create", "update", "patch"];

/// Gives a user these rights in the whole hosting control plane.
async fn allow(f: &Fixture, user: &str, rules: Vec<Value>) -> kube::Client {
    let role = Place::new(RBAC, "clusterroles", "", user);
    let object =
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    api::apply(&f.client, &role, &object, "test", true).await.unwrap();
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let place = Place::new(RBAC, "clusterrolebindings", "", user);
    api::apply(&f.client, &place, &binding, "test", true).await.unwrap();
    f.user(user)
}

fn to_admin(user: &str) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

fn hook(name: &str, templates: &[Value]) -> Value {
    let metadata = json!({"name": name, "annotations": {
        // Nobody says of themselves who they are.
        names::AUTHORS: json!([{"username": "root", "groups": ["system:masters"]}]).to_string(),
    }});
    json!({
        "apiVersion": names::API_VERSION, "kind": "PostCreateHook", "metadata": metadata,
        "spec": {"templates": templates},
    })
}

fn hook_place(name: &str) -> Place {
    Place::new(names::API_VERSION, "postcreatehooks", "", name)
}

async fn error_of(f: &Fixture, plane: &str, hook: &str) -> String {
    f.until("the hook is refused", async |f| {
        f.plane(plane).await?["status"]["postCreateHookErrors"][hook].as_str().map(str::to_owned)
    })
    .await
}

async fn completed(f: &Fixture, plane: &str) {
    f.until("hooks are completed", async |f| {
        (f.plane(plane).await?["status"]["postCreateHookCompleted"] == true).then_some(())
    })
    .await;
}

async fn is_admin(client: &kube::Client) -> bool {
    api::get_path(client, "/api/v1/secrets").await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_gives_nobody_more_than_its_author_has() {
    let f = Fixture::new().await;
    let eve = allow(&f, "eve", tenancy(&WRITE)).await;
    // Made by create, by apply, and turned into one by an update.
    api::create(&eve, &hook_place("created"), &hook("created", &[to_admin("eve")])).await.unwrap();
    api::apply(&eve, &hook_place("applied"), &hook("applied", &[to_admin("eve")]), "eve", true)
        .await
        .unwrap();
    api::create(&eve, &hook_place("updated"), &hook("updated", &[map("m")])).await.unwrap();
    // Its status is written once.
    f.settle().await;
    let mut large = api::get(&eve, &hook_place("updated")).await.unwrap().unwrap();
    large["spec"]["templates"] = json!([to_admin("eve")]);
    api::replace(&eve, &hook_place("updated"), &large).await.unwrap();
    // In the hosting control plane by a step too.
    let mut step = hook("step", &[]);
    step["spec"] = json!({"steps": [{"target": "HostingControlPlane", "templates": [to_admin("eve")]}]});
    api::create(&eve, &hook_place("step"), &step).await.unwrap();
    for name in ["created", "applied", "updated", "step"] {
        api::create(
            &eve,
            &operator::place(name),
            &plane(name, json!({"type": "k8s", "postCreateHook": name})),
        )
        .await
        .unwrap();
        let error = error_of(&f, name, name).await;
        let confined =
            "User \"eve\", cannot apply-cluster-wide postcreatehooks.tenancy.kflex.kubestellar.org";
        assert!(error.contains(confined), "{error}");
    }
    // Nor with the right to leave the namespace: what is made takes the right to make it, and to give it.
    let wide = rule(names::GROUP, &["postcreatehooks"], &["apply-cluster-wide"]);
    allow(&f, "eve", [tenancy(&WRITE), vec![wide.clone()]].concat()).await;
    let touch = json!({"metadata": {"labels": {"again": "1"}}});
    api::merge(&eve, &operator::place("created"), "", &touch).await.unwrap();
    f.until("it is refused by the policy", async |f| {
        let error = f.plane("created").await?["status"]["postCreateHookErrors"]["created"].to_string();
        error.contains("\\\"eve\\\" cannot get resource \\\"clusterrolebindings\\\"").then_some(())
    })
    .await;
    let rbac = rule("rbac.authorization.k8s.io", &["clusterrolebindings"], &["get", "create", "patch"]);
    allow(&f, "eve", [tenancy(&WRITE), vec![wide, rbac]].concat()).await;
    let touch = json!({"metadata": {"labels": {"again": "2"}}});
    api::merge(&eve, &operator::place("created"), "", &touch).await.unwrap();
    f.until("it is refused by the check of escalation", async |f| {
        let error = f.plane("created").await?["status"]["postCreateHookErrors"]["created"].to_string();
        error.contains("attempting to grant RBAC permissions not currently held").then_some(())
    })
    .await;
    assert!(!is_admin(&eve).await);
    assert!(f.get(RBAC, "clusterrolebindings", "", "everything").await.is_none());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_namespace_of_the_control_plane_a_hook_makes_what_its_author_may_make() {
    let f = Fixture::new().await;
    let maps = rule("", &["configmaps"], &["get", "create", "patch"]);
    let ann = allow(&f, "ann", [tenancy(&WRITE), vec![maps]].concat()).await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}});
    api::create(&ann, &hook_place("maps"), &hook("maps", &[map("m")])).await.unwrap();
    api::create(&ann, &hook_place("secrets"), &hook("secrets", &[secret])).await.unwrap();
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"a": "b"},
    });
    let mut inside = hook("inside", &[]);
    inside["spec"] = json!({"steps": [{"templates": [elsewhere]}]});
    api::create(&ann, &hook_place("inside"), &inside).await.unwrap();

    let uses = json!([{"hookName": "maps"}, {"hookName": "secrets"}, {"hookName": "inside"}]);
    api::create(
        &ann,
        &operator::place("cp1"),
        &plane("cp1", json!({"type": "k8s", "postCreateHooks": uses})),
    )
    .await
    .unwrap();
    let error = error_of(&f, "cp1", "secrets").await;
    assert!(error.contains("User \"ann\" cannot get resource \"secrets\""), "{error}");
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(cp["status"]["postCreateHooks"], json!({"maps": true, "inside": true}));
    let made = f.get("v1", "configmaps", "cp1-system", "m").await.unwrap();
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "kubeflex");
    // In the control plane itself a hook acts as its administrator, where that is not the hosting one.
    let tenant = f.tenant("cp1");
    assert!(api::get(&tenant, &Place::new("v1", "configmaps", "default", "m")).await.unwrap().is_some());
    let host = plane("cp2", json!({"type": "host", "postCreateHook": "inside"}));
    f.create(host).await;
    let error = error_of(&f, "cp2", "inside").await;
    assert!(error.contains("cannot apply-cluster-wide"), "{error}");
    assert!(f.get("v1", "configmaps", "default", "m").await.is_none());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_lends_rights_to_what_another_has_written() {
    let f = Fixture::new().await;
    let eve = allow(&f, "eve", tenancy(&WRITE)).await;
    // An administrator's hook that eve has changed, and one of eve's that the administrator has.
    f.create(hook("of-admin", &[map("m")])).await;
    let add = json!({"spec": {"steps": [{"target": "HostingControlPlane", "templates": [to_admin("eve")]}]}});
    api::merge(&eve, &hook_place("of-admin"), "", &add).await.unwrap();
    api::create(&eve, &hook_place("of-eve"), &hook("of-eve", &[to_admin("eve")])).await.unwrap();
    let noted = json!({"metadata": {"labels": {"seen": "yes"}, "annotations": {"a": "b"}}});
    api::merge(&f.client, &hook_place("of-eve"), "", &noted).await.unwrap();
    let vars = json!({"spec": {"defaultVars": [{"name": "A", "value": "1"}]}});
    api::merge(&f.client, &hook_place("of-eve"), "", &vars).await.unwrap();
    for name in ["of-admin", "of-eve"] {
        f.create_plane(name, json!({"type": "k8s", "postCreateHook": name})).await;
        let error = error_of(&f, name, name).await;
        assert!(error.contains("\"eve\""), "{error}");
    }
    assert!(!is_admin(&eve).await);
    // The built-in hook belongs to the server again as a whole when it starts.
    let built_in = &crate::built_in_hooks()[0];
    let place = hook_place(meta::name(built_in));
    api::merge(&eve, &place, "", &add).await.unwrap();
    crate::prepare(f.engine.clone(), &super::fixture::settings(), None).await.unwrap();
    let live = api::get(&f.client, &place).await.unwrap().unwrap();
    assert_eq!(live["spec"], built_in["spec"]);
    let authors = crate::hooks::authors::of(&live);
    assert_eq!(authors.len(), 1);
    assert!(authors[0].is_master(), "{authors:?}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_of_somebody_else_takes_the_right_to_use_it() {
    let f = Fixture::new().await;
    let planes = rule(names::GROUP, &["controlplanes"], &WRITE);
    let bob = allow(&f, "bob", vec![planes.clone()]).await;
    f.create(hook("h", &[to_admin("{{.User}}")])).await;
    let with = |vars: Value| json!({"type": "k8s", "postCreateHooks": [{"hookName": "h", "vars": vars}]});
    let named = plane("cp1", with(json!({"User": "bob"})));
    let place = operator::place("cp1");
    let refused = [
        api::create(&bob, &place, &named).await.unwrap_err(),
        api::apply(&bob, &place, &named, "bob", true).await.unwrap_err(),
    ];
    f.create_plane("cp1", with(json!({"User": "nobody"}))).await;
    completed(&f, "cp1").await;
    // What an administrator has said can be neither turned to somebody else, nor be said again.
    let vars = json!({"spec": {"postCreateHooks": [{"hookName": "h", "vars": {"User": "bob"}}]}});
    let global = json!({"spec": {"globalVars": {"Other": "bob"}}});
    let more = json!({"spec": {"postCreateHook": "h2"}});
    let mut later = Vec::from(refused);
    for patch in [vars, global, more] {
        later.push(api::merge(&bob, &place, "", &patch).await.unwrap_err());
    }
    for error in later {
        assert_eq!(error.code(), Some(403), "{error}");
        assert!(error.to_string().contains("cannot use resource \"postcreatehooks\""), "{error}");
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    api::merge(&bob, &place, "", &label).await.unwrap();
    let mut usable = rule(names::GROUP, &["postcreatehooks"], &["use"]);
    usable["resourceNames"] = json!(["h"]);
    allow(&f, "bob", vec![planes, usable]).await;
    api::create(&bob, &operator::place("cp2"), &plane("cp2", with(json!({"User": "ada"})))).await.unwrap();
    completed(&f, "cp2").await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_hand_out_what_is_the_operators_take_rights_of_their_own() {
    let f = Fixture::new().await;
    let planes = |verbs: &[&str]| rule(names::GROUP, &["controlplanes"], verbs);
    let bob = allow(&f, "bob", vec![planes(&WRITE)]).await;
    let limited = json!({"type": "k8s", "quota": {"objects": 5}});
    f.create_plane("limited", limited.clone()).await;
    f.until_ready("limited").await;
    f.settle().await;
    let place = operator::place("limited");
    let live = api::get(&bob, &place).await.unwrap().unwrap();
    let raised = json!({"spec": {"quota": {"objects": 999_999_999}}});
    let mut replaced = live.clone();
    replaced["spec"].as_object_mut().unwrap().remove("quota");
    for (verb, refused) in [
        ("host", api::create(&bob, &operator::place("h"), &plane("h", json!({"type": "host"}))).await),
        (
            "host",
            api::apply(&bob, &operator::place("h"), &plane("h", json!({"type": "host"})), "bob", true).await,
        ),
        ("quota", api::create(&bob, &operator::place("q"), &plane("q", limited)).await),
        ("quota", api::merge(&bob, &place, "", &raised).await),
        ("quota", api::replace(&bob, &place, &replaced).await),
        (
            "quota",
            api::apply(
                &bob,
                &place,
                &plane("limited", json!({"type": "k8s", "quota": {"objects": 9}})),
                "bob",
                true,
            )
            .await,
        ),
        ("store", api::merge(&bob, &place, "", &json!({"spec": {"store": "other"}})).await),
        (
            "isolation",
            api::create(
                &bob,
                &operator::place("p"),
                &plane("p", json!({"type": "k8s", "isolation": "process"})),
            )
            .await,
        ),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Some(403), "{refused}");
        let why = format!(
            "User \"bob\" cannot {verb} resource \"controlplanes\" in API group \"{}\"",
            names::GROUP
        );
        assert!(refused.to_string().contains(&why), "{refused}");
    }
    // Nor by a restored one, which the operator makes.
    let imports = json!({"nonResourceURLs": ["/hangar/v1/control-planes/*"], "verbs": ["get", "post"]});
    let carol = allow(&f, "carol", vec![imports]).await;
    let import = async |query: &str| {
        let path = format!("/hangar/v1/control-planes/restored/import?{query}");
        let request = http::Request::post(path).body(Vec::new()).unwrap();
        carol.request::<Value>(request).await.map_err(runtime::Error::from)
    };
    for (query, verb) in [("type=host", "host"), ("store=default", "store")] {
        let refused = import(query).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("cannot {verb} resource")), "{query}: {refused}");
    }
    assert!(f.plane("restored").await.is_none());
    // What is not changed needs nothing, and who has the right may.
    api::merge(&bob, &place, "", &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    let bob = allow(&f, "bob", vec![planes(&WRITE), planes(&["quota"])]).await;
    api::merge(&bob, &place, "", &raised).await.unwrap();
    assert!(f.plane("h").await.is_none());
    f.close().await;
}
