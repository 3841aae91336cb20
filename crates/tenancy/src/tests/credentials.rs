//! Who is let into control planes, who is not any more, and who may copy one.

use http::Request;
use objects::{Value, meta};
use serde_json::json;

use super::fixture::{Fixture, config, plane};
use super::types::connect;
use crate::api::{self, Place};
use crate::names;

async fn kubeconfig(f: &Fixture, name: &str, secret: &str) -> Value {
    let secret = f.get("v1", "secrets", &names::namespace(name), secret).await.unwrap();
    config(&secret, "kubeconfig")
}

async fn code(config: &Value) -> u16 {
    match api::get_path(&connect(config).await, "/api/v1/namespaces/default").await {
        Ok(_) => 200,
        Err(error) => error.code().unwrap_or_else(|| panic!("{error}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_revoked_lets_nobody_in() {
    let mut f = Fixture::new().await;
    for name in ["cp1", "other"] {
        f.create_plane(name, json!({"type": "k8s"})).await;
        f.until_ready(name).await;
    }
    let old = [kubeconfig(&f, "cp1", "admin-kubeconfig").await, kubeconfig(&f, "cp1", "cm-kubeconfig").await];
    let others = kubeconfig(&f, "other", "admin-kubeconfig").await;
    // Used a moment ago, and so remembered as good.
    assert_eq!(code(&old[0]).await, 200);
    let revoke = async |f: &Fixture, generation: u64| {
        f.patch("cp1", json!({"spec": {"credentials": {"generation": generation}}})).await.unwrap();
        f.until("it is revoked", async |f| {
            (f.plane("cp1").await?["status"]["credentialsGeneration"] == generation).then_some(())
        })
        .await;
    };
    revoke(&f, 1).await;
    for config in &old {
        assert_eq!(code(config).await, 401);
    }
    let new = kubeconfig(&f, "cp1", "admin-kubeconfig").await;
    assert_eq!(code(&new).await, 200, "the Secret has one that is good");
    assert_ne!(kubeconfig(&f, "cp1", "cm-kubeconfig").await["users"], old[1]["users"]);
    assert_eq!(code(&others).await, 200, "others are not concerned");
    assert!(f.events("cp1").await.iter().any(|event| event.starts_with("Normal Revoked ")));

    // Once: another look leaves the new ones as they are, also after a restart.
    f.kill().await;
    f.start();
    f.patch("cp1", json!({"metadata": {"labels": {"look": "again"}}})).await.unwrap();
    f.settle().await;
    assert_eq!(kubeconfig(&f, "cp1", "admin-kubeconfig").await, new);
    let error = f.patch("cp1", json!({"spec": {"credentials": {"generation": 0}}})).await.unwrap_err();
    assert!(error.to_string().contains("only grows"), "{error}");
    revoke(&f, 7).await;
    assert_eq!(code(&new).await, 401);
    assert_eq!(code(&kubeconfig(&f, "cp1", "admin-kubeconfig").await).await, 200);
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_takes_the_right_to_copy() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let rule = |verbs: &[&str], names: &[&str]| {
        let mut rule = json!({"apiGroups": [names::GROUP], "resources": ["controlplanes"], "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    let jane = f.user("jane");
    let role = |rules: Vec<Value>| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "jane"},
            "rules": rules,
        })
    };
    f.create(role(vec![rule(&["get", "list", "create", "patch"], &[])])).await;
    f.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }))
    .await;
    let copy = plane("two", json!({"type": "k8s", "source": {"controlPlane": "one"}}));
    let place = crate::operator::place("two");
    let refused = api::create(&jane, &place, &copy).await.unwrap_err();
    assert_eq!(refused.code(), Some(403));
    assert!(refused.to_string().contains("cannot fork resource \"controlplanes\""), "{refused}");
    let refused = api::apply(&jane, &place, &copy, "jane", true).await.unwrap_err();
    assert_eq!(refused.code(), Some(403), "by any way of writing: {refused}");
    assert!(f.plane("two").await.is_none());
    // Nor first without, and then with it.
    api::create(&jane, &place, &plane("two", json!({"type": "k8s"}))).await.unwrap();
    let patch = json!({"spec": {"source": {"controlPlane": "one"}}});
    assert_eq!(api::merge(&jane, &place, "", &patch).await.unwrap_err().code(), Some(403));
    // What is there already can be changed by whoever may change it.
    f.create_plane("three", json!({"type": "k8s", "source": {"controlPlane": "one"}})).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    api::merge(&jane, &crate::operator::place("three"), "", &label).await.unwrap();
    // The operator's network and accounts take rights of their own.
    for (field, value) in
        [("egress", json!({"allow": ["10.0.0.0/8"]})), ("aws", json!({"operatorCredentials": true}))]
    {
        let patch = json!({"spec": {field: value}});
        let refused = api::merge(&jane, &crate::operator::place("three"), "", &patch).await.unwrap_err();
        assert_eq!(refused.code(), Some(403));
        let words = format!("cannot {field} resource \"controlplanes\"");
        assert!(refused.to_string().contains(&words), "{refused}");
    }

    let rules = vec![rule(&["get", "list", "create", "patch"], &[]), rule(&["fork"], &["one"])];
    let place = Place::new("rbac.authorization.k8s.io/v1", "clusterroles", "", "jane");
    api::merge(&f.client, &place, "", &json!({ "rules": rules })).await.unwrap();
    let copy = plane("four", json!({"type": "k8s", "source": {"controlPlane": "one"}}));
    api::create(&jane, &crate::operator::place("four"), &copy).await.unwrap();
    f.until_ready("four").await;
    let other = plane("five", json!({"type": "k8s", "source": {"controlPlane": "two"}}));
    let refused = api::create(&jane, &crate::operator::place("five"), &other).await.unwrap_err();
    assert_eq!(refused.code(), Some(403), "of one, not of two: {refused}");
    f.close().await;
}

/// Nobody gets at a cluster by naming a Secret that only others may read.
#[tokio::test(flavor = "multi_thread")]
async fn who_names_a_bootstrap_secret_may_read_and_delete_it() {
    let f = Fixture::new().await;
    let jane = f.user("jane");
    let rules = |verbs: &[&str]| {
        json!([
            {"apiGroups": [names::GROUP], "resources": ["controlplanes"], "verbs": ["get", "create", "patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["theirs"], "verbs": verbs},
        ])
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "jane"},
        "rules": rules(&["get"]),
    });
    f.create(role).await;
    f.create(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }))
    .await;
    let external = |name: &str, secret: &str| {
        let bootstrap = json!({"namespace": "default", "name": secret, "inClusterKey": "k"});
        plane(name, json!({"type": "external", "bootstrapSecretRef": bootstrap}))
    };
    let create = async |name: &str, secret: &str| {
        let refused = api::create(&jane, &crate::operator::place(name), &external(name, secret)).await.err();
        refused.map(|refused| (refused.code(), refused.to_string()))
    };
    for (secret, verb) in [("theirs", "delete"), ("others", "get")] {
        let (code, why) = create("ext", secret).await.unwrap();
        assert_eq!(code, Some(403));
        assert!(why.contains(&format!("cannot {verb} resource \"secrets\"")), "{why}");
    }
    let place = Place::new("rbac.authorization.k8s.io/v1", "clusterroles", "", "jane");
    api::merge(&f.client, &place, "", &json!({"rules": rules(&["get", "delete"])})).await.unwrap();
    assert_eq!(create("ext", "theirs").await, None);
    // Nor later.
    let patch = json!({"spec": {"bootstrapSecretRef": {"name": "others"}}});
    let refused = api::merge(&jane, &crate::operator::place("ext"), "", &patch).await.unwrap_err();
    assert_eq!(refused.code(), Some(403), "{refused}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moments_have_revisions() {
    let f = Fixture::new().await;
    f.create_plane("one", json!({"type": "k8s"})).await;
    f.until_ready("one").await;
    let one = f.tenant("one");
    let pause = async || tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let put = async |value: &str| {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"v": value}});
        let place = Place::new("v1", "configmaps", "default", "m");
        api::apply(&one, &place, &object, "test", true).await.unwrap()
    };
    let written = put("before").await;
    pause().await;
    let then = jiff::Timestamp::now();
    pause().await;
    put("after").await;
    let path = |at: &str| format!("/hangar/v1/control-planes/one/revision?at={at}");
    let found = api::get_path(&f.client, &path(&then.to_string())).await.unwrap();
    let revision = found["revision"].as_u64().unwrap();
    assert!(revision >= meta::resource_version(&written).parse::<u64>().unwrap());
    f.create_plane("two", json!({"type": "k8s", "source": {"controlPlane": "one", "revision": revision}}))
        .await;
    f.until_ready("two").await;
    let copy = api::get(&f.tenant("two"), &Place::new("v1", "configmaps", "default", "m")).await.unwrap();
    assert_eq!(copy.unwrap()["data"]["v"], "before");
    for (at, code, why) in [
        ("1999-12-31T23:59:59Z", 410, "was not there at that time"),
        ("soon", 400, "must be a time"),
        ("", 400, "must be a time"),
    ] {
        let error = api::get_path(&f.client, &path(at)).await.unwrap_err();
        assert!(error.code() == Some(code) && error.to_string().contains(why), "{at}: {error}");
    }
    // Nobody is told about what is not written.
    let request = Request::get("/hangar/v1/control-planes/one/audit").body(Vec::new()).unwrap();
    let error = f.client.request::<Value>(request).await.unwrap_err().to_string();
    assert!(error.contains("start the server with --audit-log"), "{error}");
    f.close().await;
}
