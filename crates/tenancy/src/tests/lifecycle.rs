use std::time::Duration;

use objects::{Value, meta};
use serde_json::json;

use super::fixture::{Fixture, config, plane};
use crate::api::{self, Place};
use crate::conditions;

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_of_type_k8s_has_everything_its_users_look_for() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s", "backend": "shared"})).await;
    let cp = f.until_ready("cp1").await;

    // The object.
    assert!(meta::finalizers(&cp).any(|one| one == "kflex.kubestellar.org/finalizer"));
    assert_eq!(cp["spec"]["tokenExpirationSeconds"], 31_536_000);
    assert_eq!(cp["spec"]["waitForPostCreateHooks"], false);
    let status = &cp["status"];
    let expected = json!({
        "name": "admin-kubeconfig", "namespace": "cp1-system",
        "key": "kubeconfig", "inClusterKey": "kubeconfig-incluster",
    });
    assert_eq!(status["secretRef"], expected);
    assert_eq!(status["observedGeneration"], meta::generation(&cp));
    for (kind, reason) in [("Synced", "ReconcileSuccess"), ("Ready", "Available")] {
        let found = conditions::find(status, kind).unwrap();
        assert_eq!(
            (&found["status"], &found["reason"], &found["message"]),
            (&json!("True"), &json!(reason), &json!(""))
        );
        for time in ["lastUpdateTime", "lastTransitionTime"] {
            assert!(objects::time::parse(found[time].as_str().unwrap()).is_ok());
        }
    }

    // What it owns.
    for (version, plural, namespace, name) in [
        ("v1", "namespaces", "", "cp1-system"),
        ("v1", "services", "cp1-system", "cp1"),
        ("v1", "secrets", "cp1-system", "admin-kubeconfig"),
        ("v1", "secrets", "cp1-system", "cm-kubeconfig"),
        ("v1", "secrets", "cp1-system", "k8s-certs"),
        ("networking.k8s.io/v1", "ingresses", "cp1-system", "cp1"),
        ("apps/v1", "deployments", "cp1-system", "kube-apiserver"),
        ("apps/v1", "deployments", "cp1-system", "kube-controller-manager"),
    ] {
        let object =
            f.get(version, plural, namespace, name).await.unwrap_or_else(|| panic!("no {plural} {name}"));
        let owner = &meta::owner_references(&object)[0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&json!(meta::uid(&cp)), &json!(true)), "{name}");
    }
    for name in ["kube-apiserver", "kube-controller-manager"] {
        let deployment = f.get("apps/v1", "deployments", "cp1-system", name).await.unwrap();
        assert_eq!(deployment["status"]["readyReplicas"], 1);
        assert_eq!(deployment["status"]["replicas"], deployment["spec"]["replicas"]);
        assert!(conditions::is_true(&deployment["status"], "Available"));
    }
    let service = f.get("v1", "services", "cp1-system", "cp1").await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
    assert_eq!(service["spec"]["ports"][0]["name"], "https");
    let ingress = f.get("networking.k8s.io/v1", "ingresses", "cp1-system", "cp1").await.unwrap();
    assert_eq!(ingress["spec"]["rules"][0]["host"], "cp1.hangar.localhost");
    assert_eq!(ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"], "cp1");

    // The kubeconfigs, and that they are this control plane's.
    let secret = f.get("v1", "secrets", "cp1-system", "admin-kubeconfig").await.unwrap();
    let mut certificates = Vec::new();
    for key in ["kubeconfig", "kubeconfig-incluster"] {
        let config = config(&secret, key);
        assert_eq!(config["current-context"], "cp1");
        assert_eq!(config["contexts"][0]["name"], "cp1");
        let context = json!({"cluster": "cp1-cluster", "user": "cp1-admin", "namespace": "default"});
        assert_eq!(config["contexts"][0]["context"], context);
        assert_eq!(config["clusters"][0]["name"], "cp1-cluster");
        assert_eq!(config["users"][0]["name"], "cp1-admin");
        let server = format!("https://{}/control-planes/cp1", f.engine.config.address);
        assert_eq!(config["clusters"][0]["cluster"]["server"], server);
        assert_eq!(config["clusters"][0]["cluster"]["tls-server-name"], "cp1.hangar.localhost");
        let der = crate::kubeconfig::certificate_of(&config["users"][0]["user"]).unwrap();
        let tenant = f.engine.planes.find("cp1").await.unwrap().unwrap();
        let user = tenant.authority.verify_client(&[&der], jiff::Timestamp::now()).unwrap();
        assert_eq!(user.name, "kubernetes-admin");
        assert!(user.is_master());
        let hosting = f.engine.planes.find("host").await.unwrap().unwrap();
        assert!(hosting.authority.verify_client(&[&der], jiff::Timestamp::now()).is_err());
        certificates.push(der);
    }
    assert_ne!(certificates[0], certificates[1]);
    let secret = f.get("v1", "secrets", "cp1-system", "cm-kubeconfig").await.unwrap();
    assert_eq!(config(&secret, "kubeconfig")["users"][0]["name"], "system:kube-controller-manager");

    // It works.
    let tenant = f.tenant("cp1");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
    api::create(&tenant, &Place::new("v1", "namespaces", "", ""), &namespace).await.unwrap();
    assert_eq!(f.events("cp1").await, ["Normal SyncSuccess "]);

    // Quiet: nothing is written while nothing happens.
    let version = meta::resource_version(&f.plane("cp1").await.unwrap()).to_owned();
    f.settle().await;
    assert_eq!(meta::resource_version(&f.plane("cp1").await.unwrap()), version);

    f.delete_plane("cp1").await;
    f.until_gone("cp1").await;
    assert!(f.get("v1", "namespaces", "", "cp1-system").await.is_none());
    assert!(f.engine.planes.find("cp1").await.unwrap().is_none());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_away_or_changed_is_restored() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    f.until_ready("cp1").await;
    for (version, plural, name) in [
        ("v1", "secrets", "admin-kubeconfig"),
        ("v1", "secrets", "cm-kubeconfig"),
        ("v1", "services", "cp1"),
        ("networking.k8s.io/v1", "ingresses", "cp1"),
        ("apps/v1", "deployments", "kube-apiserver"),
    ] {
        let uid = meta::uid(&f.get(version, plural, "cp1-system", name).await.unwrap()).to_owned();
        f.delete(version, plural, "cp1-system", name).await;
        f.until(&format!("{name} is back"), async |f| {
            f.get(version, plural, "cp1-system", name).await.filter(|object| meta::uid(object) != uid)
        })
        .await;
    }
    // Contents too.
    let place = Place::new("v1", "secrets", "cp1-system", "admin-kubeconfig");
    api::merge(&f.client, &place, "", &json!({"data": {"kubeconfig": "e30="}})).await.unwrap();
    f.until("the kubeconfig is restored", async |f| {
        let secret = f.get("v1", "secrets", "cp1-system", "admin-kubeconfig").await?;
        (config(&secret, "kubeconfig")["current-context"] == "cp1").then_some(())
    })
    .await;
    let place = Place::new("apps/v1", "deployments", "cp1-system", "kube-apiserver");
    api::merge(&f.client, &place, "", &json!({"spec": {"replicas": 0}})).await.unwrap();
    f.until("the replicas are restored", async |f| {
        let deployment = f.get("apps/v1", "deployments", "cp1-system", "kube-apiserver").await?;
        (deployment["spec"]["replicas"] == 1
            && deployment["status"]["observedGeneration"] == meta::generation(&deployment))
        .then_some(())
    })
    .await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused() {
    let f = Fixture::new().await;
    let long = "a".repeat(57);
    for (name, spec, expected) in [
        ("a.b", json!({"type": "k8s"}), "without dots"),
        (&*long, json!({"type": "k8s"}), "at most 56 characters"),
        (
            "1a",
            json!({"type": "k8s"}),
            "is invalid: metadata.name: Invalid value: \"object\": the name must begin with a letter",
        ),
        ("1a", json!({"type": "vcluster"}), "must begin with a letter"),
        ("kube", json!({"type": "k8s"}), "metadata.name: Invalid value: \"object\": the name is taken"),
        ("kubeflex", json!({"type": "host"}), "the name is taken"),
        (
            "a",
            json!({"type": "k8s", "isolation": "process", "process": {"memoryLimit": "63Mi"}}),
            "spec.process.memoryLimit: Invalid value: \"string\": must be a size of at least 64Mi",
        ),
        (
            "a",
            json!({"type": "k8s", "process": {"memoryLimit": "64Mi"}}),
            "only a control plane with a process of its own",
        ),
        ("a", json!({"type": "k9s"}), "Unsupported value: \"k9s\""),
        ("a", json!({}), "spec.type: Required value"),
        ("a", json!({"type": "k8s", "backend": "none"}), "Unsupported value: \"none\""),
        ("a", json!({"type": "k8s", "postCreateHooks": [{}]}), "hookName: Required value"),
        ("a", json!({"type": "k8s", "quota": {"objects": -1}}), "should be greater than or equal to 0"),
        ("a", json!({"type": "k8s", "egress": {"allow": ["10.0.0.1"]}}), "must be a range in CIDR notation"),
        ("a", json!({"type": "k8s", "aws": {"roles": ["*"]}}), "spec.aws.roles[0]"),
    ] {
        let error = f.try_create(plane(name, spec)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let mut said = plane("1a", json!({"type": "k8s"}));
    said["status"] = json!({"conditions": [], "observedGeneration": 1});
    let error = f.try_create(said).await.unwrap_err().to_string();
    assert!(error.contains("must begin with a letter"), "a status that is sent makes no old object: {error}");
    let longest = "a".repeat(56);
    f.create_plane(&longest, json!({"type": "k8s"})).await;
    f.until_ready(&longest).await;
    let error = f.patch(&longest, json!({"spec": {"type": "vcluster"}})).await.unwrap_err().to_string();
    assert!(error.contains("the type of a control plane cannot be changed"), "{error}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosting_control_planes_name_is_taken() {
    let f = Fixture::new().await;
    f.create_plane("host", json!({"type": "k8s"})).await;
    let found = f.until_condition("host", "Synced", "False", "ReconcileError").await;
    assert!(found["message"].as_str().unwrap().contains("is taken"), "{found}");
    assert!(f.events("host").await[0].starts_with("Warning SyncFail the name"));
    f.delete_plane("host").await;
    f.until_gone("host").await;
    assert!(f.engine.planes.find("host").await.unwrap().is_some());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_granted_is_said_and_nothing_of_others_is_taken() {
    let f = Fixture::new().await;
    f.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine-system"}})).await;
    for (name, spec, expected) in [
        ("mine", json!({"type": "k8s"}), "Namespace \"mine-system\" is there already"),
        (
            "apart",
            json!({"type": "k8s", "isolation": "process"}),
            "spec.isolation: only a server with an embedded store",
        ),
        ("elsewhere", json!({"type": "k8s", "store": "big"}), "spec.store: there is no store \"big\""),
    ] {
        f.create_plane(name, spec).await;
        let found = f.until_condition(name, "Synced", "False", "ReconcileError").await;
        assert!(found["message"].as_str().unwrap().starts_with(expected), "{found}");
        f.delete_plane(name).await;
        f.until_gone(name).await;
    }
    let found = f.get("v1", "namespaces", "", "mine-system").await.unwrap();
    assert!(!meta::is_deleting(&found) && meta::owner_references(&found).is_empty());
    f.create_plane("own", json!({"type": "k8s", "backend": "dedicated"})).await;
    let cp = f.until_ready("own").await;
    assert_eq!(conditions::find(&cp["status"], "StoreDedicated").unwrap()["status"], "False");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_long_before_they_expire() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    f.until_ready("cp1").await;
    let place = Place::new("v1", "secrets", "cp1-system", "admin-kubeconfig");
    let certificate =
        |secret: &Value| crate::kubeconfig::certificate_of(&config(secret, "kubeconfig")["users"][0]["user"]);
    let secret = api::get(&f.client, &place).await.unwrap().unwrap();
    let kept = certificate(&secret);
    f.patch("cp1", json!({"metadata": {"labels": {"look": "again"}}})).await.unwrap();
    f.settle().await;
    let secret = api::get(&f.client, &place).await.unwrap().unwrap();
    assert_eq!(certificate(&secret), kept, "a good one is kept");

    // The same kubeconfig with a certificate that has a month left.
    let tenant = f.engine.planes.find("cp1").await.unwrap().unwrap();
    let month = Duration::from_secs(30 * 24 * 3_600);
    let issued = f.engine.issue_client(&tenant, "kubernetes-admin", &[auth::user::MASTERS], month);
    let issued = issued.map_err(|failure| failure.0).unwrap();
    let old = config(&secret, "kubeconfig");
    let cluster = &old["clusters"][0]["cluster"];
    let server = cluster["server"].as_str().unwrap();
    let authority = &f.engine.config.serving_authority;
    let entry = crate::kubeconfig::Entry {
        cluster: "cp1-cluster",
        user: "cp1-admin",
        context: "cp1",
        server,
        server_name: cluster["tls-server-name"].as_str(),
        authority,
    };
    let text = entry.write(&crate::kubeconfig::Credential::Certificate(&issued));
    api::merge(&f.client, &place, "", &json!({"stringData": {"kubeconfig": text}})).await.unwrap();
    // As it was written: it may be renewed before we look.
    let month_long = pem::parse(&issued.certificate).unwrap().into_contents();
    f.until("it is renewed", async |f| {
        let now = certificate(&api::get(&f.client, &place).await.unwrap()?)?;
        let later = jiff::Timestamp::now() + month * 2;
        (now != month_long && tenant.authority.verify_client(&[&now], later).is_ok()).then_some(())
    })
    .await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_says_what_it_waits_for() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    f.until_ready("cp1").await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "cp1-system", "finalizers": ["example.com/wait"]},
    });
    f.create(held).await;
    f.delete_plane("cp1").await;
    let found = f
        .until("it says what it waits for", async |f| {
            let plane = f.plane("cp1").await?;
            let found = conditions::find(&plane["status"], "Ready")?.clone();
            found["message"].as_str()?.contains("example.com/wait").then_some(found)
        })
        .await;
    assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("Deleting")));
    // The control plane itself is gone already.
    assert!(f.engine.planes.find("cp1").await.unwrap().is_none());
    let place = Place::new("v1", "configmaps", "cp1-system", "held");
    api::merge(&f.client, &place, "", &json!({"metadata": {"finalizers": null}})).await.unwrap();
    f.until_gone("cp1").await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_come_and_go_and_killing_the_operator_hurts_none() {
    let mut f = Fixture::new().await;
    let name = |index: usize| format!("cp{index}");
    for index in 0..100 {
        f.create_plane(&name(index), json!({"type": "k8s"})).await;
        if index % 20 == 10 {
            f.kill().await;
            f.start();
        }
    }
    for index in 0..100 {
        f.until_ready(&name(index)).await;
    }
    for index in 0..100 {
        f.delete_plane(&name(index)).await;
        if index % 20 == 10 {
            f.kill().await;
            f.start();
        }
    }
    for index in 0..100 {
        f.until_gone(&name(index)).await;
    }
    let tenants = f.engine.store.tenants(None, 1_000).await.unwrap();
    let left: Vec<&str> =
        tenants.iter().map(|one| one.name.as_str()).filter(|name| name.starts_with("cp")).collect();
    assert_eq!(left, [] as [&str; 0]);
    let namespaces = api::get_path(&f.client, "/api/v1/namespaces").await.unwrap();
    let left: Vec<&Value> = namespaces["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| meta::name(one).starts_with("cp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    f.close().await;
}
