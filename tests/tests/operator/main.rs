//! The operator on an existing Kubernetes. A control plane of a running server is that cluster: it has everything but
//! nodes, so that what pods would do is done here by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "a log is shown when a test fails")]

mod cluster;
mod hooks;
mod init;
mod leaders;
mod pod;

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::binary;
use serde_json::{Value, json};

use cluster::{CONTROL_PLANES, Cluster, SYSTEM, eventually, keys, manifests};
use pod::Pod;

const NS: &str = "/api/v1/namespaces/cp1-system";
const APPS: &str = "/apis/apps/v1/namespaces/cp1-system/deployments";
const INGRESS: &str = "/apis/networking.k8s.io/v1/namespaces/cp1-system/ingresses/cp1";

#[test]
fn every_object_is_made_and_kept_right_and_goes() {
    let cluster = Cluster::installed(&["--domain", "planes.example.com", "--external-port", "8443"]);
    let _operator = cluster.operator(&["--storage-class", "fast"]);
    cluster.create("cp1", json!({"type": "k8s", "backend": "dedicated", "quota": {"objects": 1000}}));
    cluster.await_condition("cp1", "Synced", "True");
    assert_eq!(cluster.await_condition("cp1", "Ready", "False").0, "Unavailable");

    // All of it is there and is the control plane's.
    let plane = cluster.get(&format!("{CONTROL_PLANES}/cp1"));
    assert_eq!(plane["metadata"]["finalizers"], json!(["kflex.kubestellar.org/finalizer"]));
    assert_eq!(
        plane["status"]["secretRef"],
        json!({
            "namespace": "cp1-system", "name": "admin-kubeconfig", "key": "kubeconfig",
            "inClusterKey": "kubeconfig-incluster",
        })
    );
    assert_eq!(plane["status"]["endpoint"], "https://cp1.planes.example.com:8443");
    for path in [
        "/api/v1/namespaces/cp1-system".to_owned(),
        format!("{NS}/services/cp1"),
        format!("{NS}/secrets/k8s-certs"),
        format!("{NS}/secrets/admin-kubeconfig"),
        format!("{NS}/secrets/cm-kubeconfig"),
        format!("{NS}/persistentvolumeclaims/data"),
        format!("{APPS}/kube-apiserver"),
        format!("{APPS}/kube-controller-manager"),
        INGRESS.to_owned(),
    ] {
        let owner = &cluster.get(&path)["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], plane["metadata"]["uid"], "{path}");
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(true), &json!(true)),
            "{path}"
        );
    }
    let service = &cluster.get(&format!("{NS}/services/cp1"))["spec"];
    assert_eq!(
        (&service["type"], &service["selector"]),
        (&json!("NodePort"), &json!({"app": "kube-apiserver"}))
    );
    let port = &service["ports"][0];
    assert_eq!(
        (&port["name"], &port["port"], &port["targetPort"]),
        (&json!("https"), &json!(443), &json!(9444))
    );
    let ingress = cluster.get(INGRESS);
    assert_eq!(ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/ssl-passthrough"], "true");
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    assert_eq!(ingress["spec"]["rules"][0]["host"], "cp1.planes.example.com");
    let claim = cluster.get(&format!("{NS}/persistentvolumeclaims/data"));
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    let certificates = cluster.get(&format!("{NS}/secrets/k8s-certs"));
    let expected = ["apiserver.crt", "apiserver.key", "ca.crt", "ca.key", "data.key", "sa.key", "sa.pub"];
    assert_eq!(keys(&certificates["data"]), expected);
    for (key, server) in [
        ("kubeconfig", "https://cp1.planes.example.com:8443"),
        ("kubeconfig-incluster", "https://cp1.cp1-system.svc.cluster.local"),
    ] {
        let config = cluster.kubeconfig("cp1-system", "admin-kubeconfig", key);
        assert_eq!(config["clusters"][0]["name"], "cp1-cluster");
        assert_eq!(config["clusters"][0]["cluster"]["server"], server);
        assert_eq!(config["users"][0]["name"], "cp1-admin");
        assert_eq!(config["current-context"], "cp1");
    }
    let manager = cluster.get(&format!("{APPS}/kube-controller-manager"));
    assert_eq!(manager["spec"]["replicas"], 0, "the controllers run beside the API server");
    let pod = cluster.get(&format!("{APPS}/kube-apiserver"))["spec"]["template"]["spec"].clone();
    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], &pod["automountServiceAccountToken"]),
        (&json!(true), &json!(false))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "example/hangar:1");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert!(
        container["args"].as_array().unwrap().contains(&json!("--quota={\"objects\":1000}")),
        "{container}"
    );

    // Its pods make it ready, and their end makes it unready.
    cluster.run_pods(&format!("{APPS}/kube-apiserver"));
    assert_eq!(cluster.await_condition("cp1", "Ready", "True").0, "Available");
    cluster.patch(
        &format!("{APPS}/kube-apiserver/status"),
        json!({"status": {"readyReplicas": 0, "availableReplicas": 0}}),
    );
    cluster.await_condition("cp1", "Ready", "False");

    drift(&cluster);

    // What is said in the system's configuration concerns all of them at once.
    cluster.patch(
        &format!("{SYSTEM}/configmaps/kubeflex-config"),
        json!({"data": {"domain": "other.example.com"}}),
    );
    eventually("the new domain", || {
        let host = cluster.get(INGRESS)["spec"]["rules"][0]["host"].clone();
        let config = cluster.kubeconfig("cp1-system", "admin-kubeconfig", "kubeconfig");
        let server = config["clusters"][0]["cluster"]["server"].clone();
        (host == "cp1.other.example.com" && server == "https://cp1.other.example.com:8443").then_some(())
    });

    cluster.delete(&format!("{CONTROL_PLANES}/cp1"));
    eventually("the end of the control plane", || {
        cluster.find(&format!("{CONTROL_PLANES}/cp1")).is_none().then_some(())
    });
    assert_eq!(cluster.find(NS), None, "the namespace goes first");
}

/// Whatever is changed or taken away comes back.
fn drift(cluster: &Cluster) {
    let before = cluster.get(&format!("{NS}/secrets/k8s-certs"));
    let uid = |path: &str| cluster.find(path).map(|found| found["metadata"]["uid"].clone());
    for path in [
        format!("{NS}/services/cp1"),
        format!("{NS}/secrets/admin-kubeconfig"),
        format!("{NS}/secrets/cm-kubeconfig"),
        format!("{APPS}/kube-apiserver"),
        format!("{APPS}/kube-controller-manager"),
        INGRESS.to_owned(),
    ] {
        let old = uid(&path);
        cluster.delete(&path);
        eventually(&format!("{path} again"), || uid(&path).filter(|new| Some(new) != old.as_ref()));
    }
    assert_eq!(cluster.get(&format!("{NS}/secrets/k8s-certs")), before, "what is good is not touched");

    let edits: [(String, Value, &str, Value); 5] = [
        (
            format!("{NS}/services/cp1"),
            json!({"spec": {"selector": {"app": "other"}}}),
            "/spec/selector/app",
            json!("kube-apiserver"),
        ),
        (format!("{APPS}/kube-apiserver"), json!({"spec": {"replicas": 3}}), "/spec/replicas", json!(1)),
        (
            format!("{APPS}/kube-apiserver"),
            json!({"spec": {"template": {"spec": {"automountServiceAccountToken": true}}}}),
            "/spec/template/spec/automountServiceAccountToken",
            json!(false),
        ),
        (
            INGRESS.to_owned(),
            json!({"spec": {"ingressClassName": "other"}}),
            "/spec/ingressClassName",
            json!("nginx"),
        ),
        (
            format!("{NS}/secrets/k8s-certs"),
            json!({"data": {"data.key": "AAAA"}}),
            "/data/data.key",
            before["data"]["data.key"].clone(),
        ),
    ];
    for (path, edit, pointer, expected) in edits {
        cluster.patch(&path, edit);
        let right = || cluster.find(&path).filter(|found| found.pointer(pointer) == Some(&expected));
        eventually(&format!("{pointer} of {path}"), right);
    }

    // A lost authority is made anew, and everything with it: kubeconfigs are signed by it, and pods start with it.
    let authority = || cluster.secret("cp1-system", "k8s-certs", "ca.crt");
    let started_with = || {
        let live = cluster.get(&format!("{APPS}/kube-apiserver"));
        live["spec"]["template"]["metadata"]["annotations"]["hangar.dev/started-with"].clone()
    };
    let (old, old_start) = (authority(), started_with());
    cluster.delete(&format!("{NS}/secrets/k8s-certs"));
    eventually("a new authority", || {
        cluster.find(&format!("{NS}/secrets/k8s-certs")).filter(|_| authority() != old)
    });
    eventually("kubeconfigs and pods of it", || {
        let config = cluster.kubeconfig("cp1-system", "admin-kubeconfig", "kubeconfig");
        let trusted = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str()?.to_owned();
        (trusted == STANDARD.encode(authority()) && started_with() != old_start).then_some(())
    });
    assert_eq!(
        cluster.get(&format!("{NS}/secrets/k8s-certs"))["data"]["data.key"],
        before["data"]["data.key"],
        "what is stored can still be read"
    );
}

#[test]
fn the_command_line_of_the_pod_serves_a_control_plane() {
    let cluster = Cluster::installed(&[]);
    let _operator = cluster.operator(&[]);
    cluster.create("cp1", json!({"type": "k8s", "backend": "dedicated"}));
    cluster.await_condition("cp1", "Synced", "True");
    let deployment = cluster.get(&format!("{APPS}/kube-apiserver"));
    let dir = tempfile::tempdir().unwrap();
    let pod = Pod::run(&cluster, dir.path(), &deployment, "cp1-system");
    let config = |key: &str| cluster.kubeconfig("cp1-system", "admin-kubeconfig", key);
    let names = |pod: &Pod, key: &str| {
        eventually("an answer of the control plane", || {
            let output = pod.kubectl(config(key), &["get", "namespaces", "-o", "name"]);
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        })
    };
    for key in ["kubeconfig", "kubeconfig-incluster"] {
        assert!(names(&pod, key).contains("namespace/kube-system"));
    }
    assert!(pod.kubectl(config("kubeconfig"), &["create", "namespace", "kept"]).status.success());
    // Controllers run beside it.
    eventually("the account of a new namespace", || {
        let arguments = ["-n", "kept", "get", "serviceaccount", "default"];
        pod.kubectl(config("kubeconfig"), &arguments).status.success().then_some(())
    });

    // A pod that is started anew has what the last one had; certificates of another generation are worth nothing.
    drop(pod);
    let old = config("kubeconfig");
    cluster.patch(&format!("{CONTROL_PLANES}/cp1"), json!({"spec": {"credentials": {"generation": 1}}}));
    eventually("new certificates", || (config("kubeconfig") != old).then_some(()));
    let pod = Pod::run(&cluster, dir.path(), &cluster.get(&format!("{APPS}/kube-apiserver")), "cp1-system");
    assert!(names(&pod, "kubeconfig").contains("namespace/kept"));
    let mut forged = config("kubeconfig");
    forged["users"] = old["users"].clone();
    assert!(
        !pod.kubectl(forged, &["get", "namespaces"]).status.success(),
        "revoked certificates still open the door"
    );
}

#[test]
fn every_type_has_its_names() {
    let cluster = Cluster::installed(&["--allow-host-type"]);
    let _operator = cluster.operator(&["--service-type", "ClusterIP"]);
    // Type, workload, Secret, keys, in-cluster server, what else is there.
    type Row<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a str, &'a [&'a str]);
    let rows: [Row<'_>; 3] = [
        (
            "vcluster",
            "statefulsets/vcluster",
            "vc-vcluster",
            &["config", "config-incluster"],
            "https://vcluster.a-vcluster-system",
            &[
                "/apis/batch/v1/namespaces/NS/jobs/update-cluster-info",
                "/api/v1/namespaces/NS/services/vcluster-nodeport",
            ],
        ),
        (
            "k3s",
            "statefulsets/k3s-server",
            "k3s-config",
            &["config", "config-incluster", "token"],
            "https://k3s.a-k3s-system.svc",
            &[
                "/apis/batch/v1/namespaces/NS/jobs/k3s-bootstrap-kubeconfig",
                "/api/v1/namespaces/NS/services/k3s",
            ],
        ),
        (
            "ocm",
            "deployments/multicluster-controlplane",
            "multicluster-controlplane-kubeconfig",
            &["kubeconfig"],
            "",
            &["/api/v1/namespaces/NS/services/multicluster-controlplane"],
        ),
    ];
    for (kind, workload, secret, secret_keys, in_cluster, others) in rows {
        let (name, namespace) = (format!("a-{kind}"), format!("a-{kind}-system"));
        cluster.create(&name, json!({"type": kind, "backend": "shared"}));
        cluster.await_condition(&name, "Synced", "True");
        let live = cluster.get(&format!("/apis/apps/v1/namespaces/{namespace}/{workload}"));
        assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["args"][0], "serve", "{kind}");
        let found = cluster.get(&format!("/api/v1/namespaces/{namespace}/secrets/{secret}"));
        assert_eq!(keys(&found["data"]), secret_keys, "{kind}");
        if !in_cluster.is_empty() {
            let config = cluster.kubeconfig(&namespace, secret, "config-incluster");
            assert_eq!(config["clusters"][0]["cluster"]["server"], in_cluster);
        }
        for other in others {
            cluster.get(&other.replace("NS", &namespace));
        }
        // There is no shared store, and that is said.
        let (reason, _) = cluster.await_condition(&name, "StoreShared", "False");
        assert_eq!(reason, "NoSharedStore");
    }
    // The cluster as one of its own control planes: the right to make one is asked for when it is installed.
    cluster.create("itself", json!({"type": "host"}));
    cluster.await_condition("itself", "Ready", "True");
    let config = cluster.kubeconfig("itself-system", "admin-kubeconfig", "kubeconfig-incluster");
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://kubernetes.default.svc");
}

#[test]
fn a_shared_store_is_one_that_a_secret_names() {
    let cluster = Cluster::installed(&[]);
    let url = "postgres://me:secret@127.0.0.1:1/db?connect_timeout=1";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hangar-store"}, "stringData": {"url": url},
    });
    cluster.client.post(&cluster.plane.path(&format!("{SYSTEM}/secrets")), &secret).ok();
    let _operator = cluster.operator(&[]);
    cluster.create("cp1", json!({"type": "k8s", "backend": "shared"}));
    cluster.await_condition("cp1", "Synced", "True");
    assert_eq!(cluster.secret("cp1-system", "store", "url"), url);
    let room = cluster.secret("cp1-system", "store", "room");
    let uid = cluster.get(&format!("{CONTROL_PLANES}/cp1"))["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(room, format!("cp_cp1_{}", &uid[..8]));
    let deployment = cluster.get(&format!("{APPS}/kube-apiserver"));
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(!container.to_string().contains("me:secret"), "a password in a pod: {container}");
    let names: Vec<&str> =
        container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["POD_IP", "HANGAR_STORE", "HANGAR_STORE_ROOM"]);
    assert_eq!(deployment["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(cluster.find(&format!("{NS}/persistentvolumeclaims/data")), None);
    // It stays where it was made, whatever is asked for later.
    cluster.patch(&format!("{CONTROL_PLANES}/cp1"), json!({"spec": {"backend": "dedicated"}}));
    assert_eq!(cluster.await_condition("cp1", "StoreDedicated", "False").0, "NotMoved");
    // A store that is away is waited for, and the status says so.
    cluster.delete(&format!("{CONTROL_PLANES}/cp1"));
    let message = eventually("what it waits for", || {
        let (_, reason, message) = cluster.condition("cp1", "Ready")?;
        (reason == "Deleting").then_some(message)
    });
    assert!(message.starts_with("waiting for the control plane itself to be deleted: "), "{message}");
    assert!(!message.contains("secret"), "a password in a status: {message}");
}

/// Kinds that some clusters have, as far as they matter here.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Vec<u8> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Who defines kinds in the group of Kubernetes has to say who allowed it.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"},
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
    .to_string()
    .into_bytes()
}

#[test]
fn routes_on_openshift() {
    let cluster = Cluster::installed(&[]);
    cluster.apply(&definition("route.openshift.io", "v1", "Route", "routes"));
    let _operator = cluster.operator(&[]);
    cluster.create("cp1", json!({"type": "k8s", "backend": "dedicated"}));
    let path = "/apis/route.openshift.io/v1/namespaces/cp1-system/routes/cp1";
    let route = eventually("the route", || cluster.find(path));
    assert_eq!(route["spec"]["tls"]["termination"], "passthrough");
    assert_eq!(route["spec"]["to"]["name"], "cp1");
    let (_, message) = cluster.await_condition("cp1", "Synced", "False");
    assert_eq!(message, "waiting for the host of Route cp1");
    // The cluster chooses it.
    cluster.patch(path, json!({"spec": {"host": "cp1-cp1-system.apps.example.com"}}));
    cluster.await_condition("cp1", "Synced", "True");
    let config = cluster.kubeconfig("cp1-system", "admin-kubeconfig", "kubeconfig");
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://cp1-cp1-system.apps.example.com");
    let serves = cluster.get(&format!("{NS}/secrets/k8s-certs"));
    let serves = serves["metadata"]["annotations"]["hangar.dev/serves"].as_str().unwrap().to_owned();
    assert!(serves.contains("cp1-cp1-system.apps.example.com"), "{serves}");
    assert_eq!(cluster.find(INGRESS), None);
}

#[test]
fn tls_routes_of_a_gateway() {
    let cluster = Cluster::installed(&[]);
    cluster.apply(&definition("gateway.networking.k8s.io", "v1alpha3", "TLSRoute", "tlsroutes"));
    {
        let _operator = cluster.operator(&[]);
        cluster.create("cp1", json!({"type": "k8s", "backend": "dedicated"}));
        cluster.await_condition("cp1", "Synced", "True");
        cluster.get(INGRESS);
    }
    // What is decided otherwise later is done otherwise, and a new version is rolled out.
    let options =
        ["--gateway", "infra/main/tls", "--domain", "planes.example.com", "--image", "example/hangar:2"];
    let _operator = cluster.operator(&options);
    let path = "/apis/gateway.networking.k8s.io/v1alpha3/namespaces/cp1-system/tlsroutes/cp1";
    let route = eventually("the route", || cluster.find(path));
    assert_eq!(
        route["spec"],
        json!({
            "parentRefs": [{"name": "main", "namespace": "infra", "sectionName": "tls"}],
            "hostnames": ["cp1.planes.example.com"],
            "rules": [{"backendRefs": [{"name": "cp1", "port": 443}]}],
        })
    );
    eventually("the new image", || {
        let live = cluster.get(&format!("{APPS}/kube-apiserver"));
        (live["spec"]["template"]["spec"]["containers"][0]["image"] == "example/hangar:2").then_some(())
    });
    eventually("the end of the Ingress", || cluster.find(INGRESS).is_none().then_some(()));
}

#[test]
fn manifests_can_be_applied_again_and_changed() {
    let cluster = Cluster::installed(&[]);
    let said = cluster.apply(&manifests(&[]));
    assert!(said.contains("deployment.apps/kubeflex-controller-manager serverside-applied"), "{said}");
    let options = [
        "--namespace",
        "elsewhere",
        "--install-postgresql",
        "--is-openshift",
        "--image",
        "example/hangar:2",
        "--gateway",
        "infra/main",
        "--allow-host-type",
    ];
    cluster.apply(&manifests(&options));
    let path = "/apis/apps/v1/namespaces/elsewhere/deployments/kubeflex-controller-manager";
    let deployment = cluster.get(path);
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["labels"],
        json!({"control-plane": "controller-manager"})
    );
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("manager"), &json!("example/hangar:2")));
    cluster.get("/apis/apps/v1/namespaces/kubeflex-system/statefulsets/postgres-postgresql");
    let config = cluster.get(&format!("{SYSTEM}/configmaps/kubeflex-config"));
    assert_eq!(config["data"]["isOpenShift"], "true");
    // Nobody's command line is half understood.
    let wrong =
        Command::new(binary()).args(["operator", "manifests", "--namespace", "No!"]).output().unwrap();
    assert!(!wrong.status.success());
    assert!(wrong.stdout.is_empty());
}
