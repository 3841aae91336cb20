use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value, meta};
use serde_json::{Value as Json, json};

use super::fixture::{Fixture, config};
use crate::api::{self, Place};
use crate::conditions;

/// Type, secret, key, in-cluster key, cluster, user, context, workloads (group version, plural, name), service, claims.
type Row = (
    &'static str,
    [&'static str; 3],
    [&'static str; 3],
    &'static [(&'static str, &'static str, &'static str)],
    &'static str,
    &'static [&'static str],
);

const ROWS: [Row; 3] = [
    (
        "vcluster",
        ["vc-vcluster", "config", "config-incluster"],
        ["my-vcluster", "my-vcluster", "my-vcluster"],
        &[("apps/v1", "statefulsets", "vcluster"), ("batch/v1", "jobs", "update-cluster-info")],
        "vcluster",
        &["data-vcluster-0"],
    ),
    (
        "k3s",
        ["k3s-config", "config", "config-incluster"],
        ["default", "default", "default"],
        &[("apps/v1", "statefulsets", "k3s-server"), ("batch/v1", "jobs", "k3s-bootstrap-kubeconfig")],
        "k3s",
        &["k3s-config", "k3s-data"],
    ),
    (
        "ocm",
        ["multicluster-controlplane-kubeconfig", "kubeconfig", ""],
        ["multicluster-controlplane", "user", "multicluster-controlplane"],
        &[
            ("apps/v1", "deployments", "multicluster-controlplane"),
            ("batch/v1", "jobs", "update-cluster-info"),
        ],
        "multicluster-controlplane",
        &[],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_hosted_type_has_its_own_names() {
    let f = Fixture::new().await;
    for (kind, [secret, key, in_cluster_key], [cluster, user, context], workloads, service, claims) in ROWS {
        let name = format!("a-{kind}");
        let namespace = format!("{name}-system");
        f.create_plane(&name, json!({ "type": kind })).await;
        let cp = f.until_ready(&name).await;
        let expected =
            json!({"name": secret, "namespace": namespace, "key": key, "inClusterKey": in_cluster_key});
        assert_eq!(cp["status"]["secretRef"], expected, "{kind}");
        // What it cannot do yet is said.
        assert_eq!(conditions::find(&cp["status"], "WorkloadsSupported").unwrap()["status"], "False");
        let found = f.get("v1", "secrets", &namespace, secret).await.unwrap();
        for key in [key, in_cluster_key].iter().filter(|key| !key.is_empty()) {
            let config = config(&found, key);
            let shown =
                [&config["clusters"][0]["name"], &config["users"][0]["name"], &config["current-context"]];
            assert_eq!(shown, [cluster, user, context], "{kind}");
        }
        let door = f.get("v1", "services", &namespace, service).await.unwrap();
        if kind == "vcluster" {
            let outward = f.get("v1", "services", &namespace, "vcluster-nodeport").await.unwrap();
            assert_eq!(outward["spec"]["ports"], door["spec"]["ports"]);
            assert_eq!(door["metadata"]["labels"], json!({"app": "vcluster", "release": "vcluster"}));
        }
        let ingress = f.get("networking.k8s.io/v1", "ingresses", &namespace, &name).await.unwrap();
        let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
        assert_eq!((&backend["name"], &backend["port"]["number"]), (&json!(service), &json!(443)));
        for (version, plural, name) in workloads {
            let status = f.get(version, plural, &namespace, name).await.unwrap()["status"].clone();
            if *plural == "jobs" {
                assert!(status["succeeded"] == 1 && conditions::is_true(&status, "Complete"), "{status}");
            } else {
                assert!(status["readyReplicas"] == 1 && status["availableReplicas"] == 1, "{status}");
            }
        }
        // What the job stands for has been done.
        if workloads.iter().any(|(_, _, name)| *name == "update-cluster-info") {
            let place = Place::new("v1", "configmaps", "kube-public", "cluster-info");
            let info = api::get(&f.tenant(&name), &place).await.unwrap().unwrap();
            let config =
                wire::yaml::decode(info["data"]["kubeconfig"].as_str().unwrap().as_bytes()).unwrap().value;
            let server = format!("https://{}/control-planes/{name}", f.engine.config.address);
            assert_eq!(config["clusters"][0]["name"], "");
            assert_eq!(config["clusters"][0]["cluster"]["server"], server);
            assert_eq!(config["users"], json!([]), "nobody's secret");
            assert_eq!(
                (&info["immutable"], meta::annotation(&info, "kubestellar.io/generated")),
                (&json!(true), Some("true"))
            );
        }
        if kind == "k3s" {
            let token = crate::kubeconfig::secret_value(&found, "token").unwrap();
            assert!(token.starts_with(b"K10"));
            f.settle().await;
            let again = f.get("v1", "secrets", &namespace, secret).await.unwrap();
            assert_eq!(crate::kubeconfig::secret_value(&again, "token"), Some(token), "it stays the same");
            let scripts = f.get("v1", "configmaps", &namespace, "k3s-scripts").await.unwrap();
            let names: Vec<&String> = scripts["data"].as_object().unwrap().keys().collect();
            assert_eq!(names, ["save-k3s-kubeconfig.sh", "save-k3s-token.sh"]);
            let accounts = format!("system:serviceaccount:{namespace}:default");
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": accounts, "resourceAttributes": {"verb": "patch", "resource": "secrets", "namespace": "kube-system"}},
            });
            let place = Place::new("authorization.k8s.io/v1", "subjectaccessreviews", "", "");
            let said = api::create(&f.client, &place, &review).await.unwrap();
            assert_eq!(said["status"]["allowed"], false, "nobody needs KubeFlex's right to all Secrets");
        }
        for claim in claims {
            let found = f.get("v1", "persistentvolumeclaims", &namespace, claim).await.unwrap();
            assert_eq!(
                (&found["status"]["phase"], &found["spec"]["accessModes"]),
                (&json!("Bound"), &json!(["ReadWriteOnce"]))
            );
            f.delete("v1", "persistentvolumeclaims", &namespace, claim).await;
            f.until(&format!("{claim} is back"), async |f| {
                let back = f.get("v1", "persistentvolumeclaims", &namespace, claim).await?;
                (meta::uid(&back) != meta::uid(&found) && back["status"]["phase"] == "Bound").then_some(())
            })
            .await;
        }
        f.delete_plane(&name).await;
        f.until_gone(&name).await;
    }
    f.close().await;
}

/// A client by a kubeconfig, over the network.
pub async fn connect(config: &Json) -> kube::Client {
    let config = kube::config::Kubeconfig::from_yaml(&config.to_string()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_work_over_the_network_and_only_for_their_own_control_plane() {
    let f = Fixture::new().await;
    let mut configs = Vec::new();
    for name in ["one", "two"] {
        f.create_plane(name, json!({"type": "k8s"})).await;
        f.until_ready(name).await;
        let secret = f.get("v1", "secrets", &format!("{name}-system"), "admin-kubeconfig").await.unwrap();
        configs.push(config(&secret, "kubeconfig"));
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    let client = connect(&configs[0]).await;
    api::create(&client, &Place::new("v1", "namespaces", "", ""), &namespace).await.unwrap();
    assert!(api::get(&f.tenant("two"), &Place::new("v1", "namespaces", "", "mine")).await.unwrap().is_none());
    // One's certificate at two's door is nobody's.
    let mut stranger = configs[0].clone();
    stranger["clusters"] = configs[1]["clusters"].clone();
    stranger["contexts"][0]["context"]["cluster"] = configs[1]["contexts"][0]["context"]["cluster"].clone();
    let refused = api::get_path(&connect(&stranger).await, "/api/v1/namespaces").await.unwrap_err();
    assert!(matches!(refused.code(), Some(401 | 403)), "{refused}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosting_control_plane_can_be_one_of_its_own() {
    let f = Fixture::new().await;
    f.create_plane("its1", json!({"type": "host"})).await;
    let cp = f.until_ready("its1").await;
    let expected = json!({
        "name": "admin-kubeconfig", "namespace": "its1-system",
        "key": "kubeconfig", "inClusterKey": "kubeconfig-incluster",
    });
    assert_eq!(cp["status"]["secretRef"], expected);
    assert!(f.get("v1", "serviceaccounts", "its1-system", "its1").await.is_some());
    let token = f.get("v1", "secrets", "its1-system", "its1").await.unwrap();
    assert_eq!(token["type"], "kubernetes.io/service-account-token");
    let binding =
        f.get("rbac.authorization.k8s.io/v1", "clusterrolebindings", "", "its1-binding").await.unwrap();
    assert_eq!(binding["roleRef"]["name"], "cluster-admin");
    let secret = f.get("v1", "secrets", "its1-system", "admin-kubeconfig").await.unwrap();
    for key in ["kubeconfig", "kubeconfig-incluster"] {
        let config = config(&secret, key);
        let shown = [&config["clusters"][0]["name"], &config["users"][0]["name"], &config["current-context"]];
        assert_eq!(shown, ["its1", "its1", "its1"]);
        let planes = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
        assert!(api::get_path(&connect(&config).await, planes).await.is_ok());
    }
    f.settle().await;
    let again = f.get("v1", "secrets", "its1-system", "admin-kubeconfig").await.unwrap();
    assert_eq!(meta::resource_version(&again), meta::resource_version(&secret), "a good token is kept");
    f.delete_plane("its1").await;
    f.until_gone("its1").await;
    f.until("the binding goes too", async |f| {
        let found = f.get("rbac.authorization.k8s.io/v1", "clusterrolebindings", "", "its1-binding").await;
        found.is_none().then_some(())
    })
    .await;
    f.close().await;
}

/// A kubeconfig of another control plane in the Secret that a cluster is adopted with.
pub async fn bootstrap(f: &Fixture, of: &str, name: &str, key: &str) -> Value {
    let secret = f.get("v1", "secrets", &format!("{of}-system"), "admin-kubeconfig").await.unwrap();
    let text = crate::kubeconfig::secret_value(&secret, "kubeconfig").unwrap();
    f.create(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-bootstrap"), "namespace": "kubeflex-system"},
        "data": {key: STANDARD.encode(text)},
    }))
    .await
}

/// The spec of a control plane that is adopted by it.
fn external(name: &str) -> Value {
    let bootstrap =
        json!({"name": format!("{name}-bootstrap"), "namespace": "kubeflex-system", "inClusterKey": ""});
    json!({"type": "external", "bootstrapSecretRef": bootstrap, "tokenExpirationSeconds": 7200})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_adopted_and_left() {
    let f = Fixture::new().await;
    f.create_plane("elsewhere", json!({"type": "k8s"})).await;
    f.until_ready("elsewhere").await;
    f.create_plane("ext", external("ext")).await;
    let waiting = f.until_condition("ext", "Synced", "False", "ReconcileError").await;
    assert_eq!(waiting["message"], "waiting for the bootstrap secret kubeflex-system/ext-bootstrap");
    bootstrap(&f, "elsewhere", "ext", "kubeconfig-incluster").await;
    let cp = f.until_ready("ext").await;
    assert!(f.get("v1", "secrets", "kubeflex-system", "ext-bootstrap").await.is_none(), "it is thrown away");
    let expires = objects::time::parse(cp["status"]["tokenExpirationTime"].as_str().unwrap()).unwrap();
    let left = expires.as_second() - jiff::Timestamp::now().as_second();
    assert!((7_000..=7_300).contains(&left), "{left}");
    let secret = f.get("v1", "secrets", "ext-system", "admin-kubeconfig").await.unwrap();
    let config = config(&secret, "kubeconfig-incluster");
    assert_eq!(config["current-context"], "ext");
    assert_eq!(config["clusters"][0]["name"], "elsewhere-cluster", "the cluster keeps its name");
    assert_eq!(config["users"][0]["name"], "ext");
    assert!(config["users"][0]["user"]["token"].is_string());
    assert!(api::get_path(&connect(&config).await, "/api/v1/namespaces/kube-system").await.is_ok());
    let elsewhere = f.tenant("elsewhere");
    let account = Place::new("v1", "serviceaccounts", "kube-system", "kubeflex");
    let binding =
        Place::new("rbac.authorization.k8s.io/v1", "clusterrolebindings", "", "kubeflex-clusterrolebinding");
    assert!(api::get(&elsewhere, &account).await.unwrap().is_some());

    // A second one shares the account, and the last to leave takes it away.
    f.create_plane("ext2", external("ext2")).await;
    bootstrap(&f, "elsewhere", "ext2", "kubeconfig-incluster").await;
    f.until_ready("ext2").await;
    f.delete_plane("ext").await;
    f.until_gone("ext").await;
    assert!(api::get(&elsewhere, &account).await.unwrap().is_some());
    f.delete_plane("ext2").await;
    f.until_gone("ext2").await;
    assert!(api::get(&elsewhere, &binding).await.unwrap().is_none());
    f.until("the account goes with its binding", async |_| {
        api::get(&elsewhere, &account).await.unwrap().is_none().then_some(())
    })
    .await;
    let refused = api::get_path(&connect(&config).await, "/api/v1/namespaces").await.unwrap_err();
    assert_eq!(refused.code(), Some(401), "its tokens are worth nothing: {refused}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_kubeconfig_runs_no_program_and_reads_no_file() {
    let f = Fixture::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (ran, program) = (dir.path().join("ran"), dir.path().join("program"));
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = program.to_str().unwrap();
    let exec =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "command": path, "interactiveMode": "Never"});
    for (index, (list, field, value)) in [
        ("users", "exec", exec),
        ("users", "auth-provider", json!({"name": "gcp", "config": {"cmd-path": path}})),
        ("users", "tokenFile", json!(path)),
        ("users", "client-certificate", json!(path)),
        ("users", "client-key", json!(path)),
        ("clusters", "certificate-authority", json!(path)),
        ("clusters", "proxy-url", json!("http://127.0.0.1:1")),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut cluster, mut user) = (json!({"server": "https://127.0.0.1:1"}), json!({}));
        let entry = if list == "users" { &mut user } else { &mut cluster };
        entry[field] = value;
        let config = json!({
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        });
        let name = format!("ext{index}");
        f.create(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-bootstrap"), "namespace": "kubeflex-system"},
            "stringData": {"kubeconfig-incluster": config.to_string()},
        }))
        .await;
        f.create_plane(&name, external(&name)).await;
        let found = f.until_condition(&name, "Refused", "True", "NeedsChange").await;
        assert!(found["message"].as_str().unwrap().contains(&format!(".{field}: ")), "{found}");

        // Credentials that were never used go with their control plane.
        f.delete_plane(&name).await;
        f.until_gone(&name).await;
        let left = f.get("v1", "secrets", "kubeflex-system", &format!("{name}-bootstrap")).await;
        assert!(left.is_none(), "{left:?}");
    }
    assert!(!ran.exists());
    f.close().await;
}

/// What is somebody else's is not told, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_secret_is_a_kubeconfig_and_nobodys() {
    let f = Fixture::new().await;
    f.create_plane("elsewhere", json!({"type": "k8s"})).await;
    f.until_ready("elsewhere").await;
    let reference = |namespace: &str, name: &str, key: &str| {
        let bootstrap = json!({"namespace": namespace, "name": name, "inClusterKey": key});
        json!({"type": "external", "bootstrapSecretRef": bootstrap})
    };
    f.create(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "default"},
        "stringData": {"password": "hunter2", "list": "[hunter2]", "map": "clusters: hunter2"},
    }))
    .await;
    for (index, (spec, expected)) in [
        (reference("default", "mine", "password"), "the kubeconfig cannot be read: it is none"),
        (reference("default", "mine", "list"), "the kubeconfig cannot be read: it is none"),
        (reference("default", "mine", "map"), "the kubeconfig cannot be read: it is none"),
        (
            reference("elsewhere-system", "admin-kubeconfig", "kubeconfig"),
            "spec.bootstrapSecretRef: the Secret elsewhere-system/admin-kubeconfig is that of ControlPlane \"elsewhere\"",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("ext{index}");
        f.create_plane(&name, spec).await;
        let found = f.until_condition(&name, "Refused", "True", "NeedsChange").await;
        assert!(found["message"].as_str().unwrap().starts_with(expected), "{found}");
        let told = format!("{} {:?}", f.plane(&name).await.unwrap(), f.events(&name).await);
        assert!(!told.contains("hunter2"), "{told}");
        f.delete_plane(&name).await;
        f.until_gone(&name).await;
    }
    let kept = f.get("v1", "secrets", "default", "mine").await.unwrap();
    assert_eq!(kept["data"].as_object().unwrap().len(), 3);
    assert!(f.get("v1", "secrets", "elsewhere-system", "admin-kubeconfig").await.is_some());

    // Beside other things it goes alone.
    let admin = f.get("v1", "secrets", "elsewhere-system", "admin-kubeconfig").await.unwrap();
    let place = Place::new("v1", "secrets", "default", "mine");
    let patch = json!({"data": {"config": admin["data"]["kubeconfig"]}});
    api::merge(&f.client, &place, "", &patch).await.unwrap();
    f.create_plane("ext", reference("default", "mine", "config")).await;
    f.until_ready("ext").await;
    let left = f.get("v1", "secrets", "default", "mine").await.unwrap();
    assert_eq!(left["data"], kept["data"]);
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_reached_is_named_with_the_cause() {
    let f = Fixture::new().await;
    let config = json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
    });
    f.create(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "ext-bootstrap", "namespace": "kubeflex-system"},
        "stringData": {"kubeconfig-incluster": config.to_string()},
    }))
    .await;
    f.create_plane("ext", external("ext")).await;
    let found = f.until_condition("ext", "Synced", "False", "ReconcileError").await;
    let message = found["message"].as_str().unwrap();
    assert!(message.starts_with("the cluster at https://127.0.0.1:1 cannot be adopted: "), "{message}");
    assert!(message.contains("refused"), "{message}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_cluster_that_is_gone_is_unavailable_and_can_be_deleted() {
    let f = Fixture::new().await;
    f.create_plane("elsewhere", json!({"type": "k8s"})).await;
    f.until_ready("elsewhere").await;
    bootstrap(&f, "elsewhere", "ext", "mine").await;
    let reference = json!({"name": "ext-bootstrap", "namespace": "kubeflex-system", "inClusterKey": "mine"});
    f.create_plane("ext", json!({"type": "external", "bootstrapSecretRef": reference})).await;
    f.until_ready("ext").await;
    f.delete_plane("elsewhere").await;
    f.until_gone("elsewhere").await;
    // Anything that wakes it lets it look.
    f.patch("ext", json!({"metadata": {"labels": {"look": "again"}}})).await.unwrap();
    f.until_condition("ext", "Ready", "False", "Unavailable").await;
    f.delete_plane("ext").await;
    f.until_gone("ext").await;
    f.create_plane("none", json!({"type": "external"})).await;
    let found = f.until_condition("none", "Synced", "False", "ReconcileError").await;
    assert!(found["message"].as_str().unwrap().contains("spec.bootstrapSecretRef: required"), "{found}");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_has_its_kinds_from_the_beginning() {
    let f = Fixture::new().await;
    f.create_plane("hub", json!({"type": "ocm"})).await;
    f.until_ready("hub").await;
    let hub = f.tenant("hub");
    for definition in crate::hub::definitions() {
        let place =
            Place::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "", meta::name(definition));
        let live = api::get(&hub, &place).await.unwrap().unwrap();
        assert!(conditions::is_true(&live["status"], "Established"), "{live}");
        let refused = conditions::find(&live["status"], "NonStructuralSchema");
        assert!(refused.is_none_or(|one| one["status"] == "False"), "{live}");
    }
    let (cluster_api, work_api) =
        ("cluster.open-cluster-management.io", "work.open-cluster-management.io/v1");
    let create = async |object: Value| {
        let place = api::place_of(&hub, &object, meta::namespace(&object)).await.unwrap().unwrap();
        api::create(&hub, &place, &object).await
    };
    let cluster = create(json!({
        "apiVersion": format!("{cluster_api}/v1"), "kind": "ManagedCluster", "metadata": {"name": "edge-1"},
        "spec": {"hubAcceptsClient": true, "taints": [{"key": "gpu", "effect": "NoSelect"}]},
    }))
    .await
    .unwrap();
    assert_eq!(cluster["spec"]["leaseDurationSeconds"], 60, "defaults are there");
    let set = create(json!({
        "apiVersion": format!("{cluster_api}/v1beta2"), "kind": "ManagedClusterSet", "metadata": {"name": "all"},
    }))
    .await
    .unwrap();
    assert_eq!(set["spec"]["clusterSelector"]["selectorType"], "ExclusiveClusterSetLabel");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
    let work = create(json!({
        "apiVersion": work_api, "kind": "ManifestWork", "metadata": {"name": "w", "namespace": "default"},
        "spec": {"workload": {"manifests": [map]}},
    }))
    .await
    .unwrap();
    assert_eq!(work["spec"]["workload"]["manifests"], json!([map]), "a manifest is kept as it is");
    for (wrong, why) in [
        (
            json!({
                "apiVersion": format!("{cluster_api}/v1"), "kind": "ManagedCluster", "metadata": {"name": "x"},
                "spec": {"taints": [{"key": "gpu", "effect": "Never"}]},
            }),
            "Unsupported value: \"Never\"",
        ),
        (
            json!({
                "apiVersion": format!("{cluster_api}/v1beta1"), "kind": "Placement",
                "metadata": {"name": "x", "namespace": "default"},
            }),
            "spec: Required value",
        ),
    ] {
        let error = create(wrong).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // What is taken away comes back with the next look.
    let name = "placements.cluster.open-cluster-management.io";
    let place = Place::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "", name);
    api::delete(&hub, &place, None).await.unwrap();
    f.until("it is gone", async |_| api::get(&hub, &place).await.unwrap().is_none().then_some(())).await;
    f.patch("hub", json!({"metadata": {"labels": {"look": "again"}}})).await.unwrap();
    f.until("it is back", async |_| api::get(&hub, &place).await.unwrap()).await;
    f.close().await;
}
