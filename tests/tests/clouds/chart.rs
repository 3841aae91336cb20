//! The chart with the values of ACK's charts: what it says, and that the operator does as told, with the rights that the
//! chart gives it and no others.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use end_to_end::{ControlPlane, Server, binary, chart};
use serde_json::{Value, json};

use super::aws::Operator;
use super::moto::Moto;
use super::{condition, eventually, exists, good, is_true};

const NAMESPACE: &str = "ack-system";

fn container(objects: &[Value]) -> &Value {
    let deployment = objects.iter().find(|one| one["kind"] == "Deployment").unwrap();
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn arguments(objects: &[Value]) -> Vec<String> {
    let all = container(objects)["args"].as_array().unwrap();
    all.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// What has a value leads to which argument.
fn said() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"aws": {"region": "eu-west-1"}}), "--aws-region=eu-west-1"),
        (json!({"aws": {"endpoint_url": "http://localhost:1"}}), "--aws-endpoint-url=http://localhost:1"),
        (
            json!({"aws": {"identity_endpoint_url": "http://localhost:2"}}),
            "--aws-identity-endpoint-url=http://localhost:2",
        ),
        (json!({"aws": {"allow_unsafe_aws_endpoint_urls": true}}), "--allow-unsafe-aws-endpoint-urls"),
        (json!({"aws": {"endpoint_use_path_style": true}}), "--aws-endpoint-use-path-style"),
        (json!({"log": {"level": "warn"}}), "--log-level=warn"),
        (json!({"log": {"enable_development_logging": true}}), "--log-format=text"),
        (json!({"installScope": "namespace"}), "--watch-namespace=ack-system"),
        (json!({"installScope": "namespace", "watchNamespace": "a,b"}), "--watch-namespace=a,b"),
        (json!({"watchSelectors": "team=a"}), "--watch-selectors=team=a"),
        (json!({"resourceTags": ["team=%K8S_NAMESPACE%"]}), "--resource-tags=team=%K8S_NAMESPACE%"),
        (json!({"deletionPolicy": "retain"}), "--deletion-policy=retain"),
        (json!({"reconcile": {"defaultResyncPeriod": 36000}}), "--reconcile-default-resync-seconds=36000"),
        (
            json!({"reconcile": {"resourceResyncPeriods": {"Bucket": 60}}}),
            "--reconcile-resource-resync-seconds=Bucket=60",
        ),
        (json!({"reconcile": {"resources": ["Bucket"]}}), "--reconcile-resources=Bucket"),
        (json!({"enableCARM": false}), "--enable-carm=false"),
        (json!({"enableCrossNamespace": false}), "--enable-cross-namespace=false"),
        (
            json!({"featureGates": {"IAMRoleSelector": true}}),
            "--feature-gates=IAMRoleSelector=true,ReadOnlyResources=true,ResourceAdoption=true,\
             ServiceLevelCARM=false,TeamLevelCARM=false",
        ),
        (json!({"leaderElection": {"enabled": true}}), "--leader-elect"),
        (
            json!({"leaderElection": {"enabled": true, "namespace": "leases"}}),
            "--leader-elect-namespace=leases",
        ),
        (json!({"deployment": {"containerPort": 9000}}), "--metrics-bind-address=0.0.0.0:9000"),
    ]
}

/// Whether the program understands a command line: it then looks for the cluster, and finds none.
fn is_understood(arguments: &[String]) {
    let output = Command::new(binary())
        .args(arguments.iter().filter(|one| !one.contains("-bind-address=")))
        .args(["--kubeconfig", "/nowhere"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("/nowhere"), "{arguments:?}: {told}");
}

#[test]
fn values_become_arguments() {
    let usual = arguments(&chart::render("hangar-aws", NAMESPACE, &json!({})));
    is_understood(&usual);
    for (values, expected) in said() {
        assert!(!usual.iter().any(|one| one == expected), "{expected} is said anyway");
        let told = arguments(&chart::render("hangar-aws", NAMESPACE, &values));
        assert!(told.iter().any(|one| one == expected), "{values}: {told:?}");
        is_understood(&told);
    }
    // Beside arguments: what Kubernetes is told.
    let role = json!({"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"});
    let objects = chart::render(
        "hangar-aws",
        NAMESPACE,
        &json!({
            "serviceAccount": {"name": "aws", "annotations": role}, "metrics": {"service": {"create": true}},
            "deployment": {"replicas": 2, "tolerations": [{"key": "k", "operator": "Exists"}],
                "extraEnvVars": [{"name": "A", "value": "b"}]},
            "image": {"repository": "registry/hangar", "tag": "2", "pullSecrets": ["pull"]},
        }),
    );
    let of = |kind: &str| objects.iter().find(|one| one["kind"] == kind).unwrap();
    assert_eq!(of("ServiceAccount")["metadata"]["annotations"], role);
    assert_eq!(of("Service")["spec"]["ports"][0]["targetPort"], "http");
    let (spec, pod) = (&of("Deployment")["spec"], &of("Deployment")["spec"]["template"]["spec"]);
    assert_eq!((&spec["replicas"], &pod["serviceAccountName"]), (&json!(2), &json!("aws")));
    assert_eq!(pod["tolerations"], json!([{"key": "k", "operator": "Exists"}]));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(container(&objects)["env"], json!([{"name": "A", "value": "b"}]));
    assert_eq!(container(&objects)["image"], "registry/hangar:2");
}

/// Runs what the Deployment says as its pod would: with the token of its account, its environment and its Secrets as files.
fn run(server: &Server, cluster: &ControlPlane, objects: &[Value], files: &Path) -> Operator {
    let account = objects.iter().find(|one| one["kind"] == "ServiceAccount").unwrap();
    let account = account["metadata"]["name"].as_str().unwrap();
    let path = cluster.path(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = server.client_as(cluster.credentials()).post(&path, &request).ok();
    let mut config: Value = serde_json::from_slice(&std::fs::read(&cluster.kubeconfig).unwrap()).unwrap();
    config["users"][0]["user"] = json!({"token": token["status"]["token"]});
    let kubeconfig = files.join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    let mut command = Command::new(binary());
    for one in arguments(objects).iter().filter(|one| !one.starts_with("--health-probe")) {
        command.arg(one.replace("0.0.0.0", "127.0.0.1"));
    }
    for one in container(objects)["env"].as_array().unwrap() {
        let value = one["value"].as_str().unwrap();
        let mounted = value.strip_prefix("/var/run/secrets/aws/").map(|file| files.join(file));
        let value = mounted.map_or_else(|| value.into(), std::path::PathBuf::into_os_string);
        command.env(one["name"].as_str().unwrap(), value);
    }
    Operator(command.arg("--kubeconfig").arg(kubeconfig).stderr(Stdio::null()).spawn().unwrap())
}

fn bucket(namespace: &str, name: &str) -> String {
    json!({
        "apiVersion": "s3.services.k8s.aws/v1alpha1", "kind": "Bucket",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"name": name},
    })
    .to_string()
}

#[test]
fn the_operator_does_as_the_values_say() {
    let moto = Moto::start();
    let server = Server::start();
    let cluster = ControlPlane::create(&server, "cluster");
    let files = tempfile::tempdir().unwrap();
    std::fs::write(
        files.path().join("keys"),
        "[team]\naws_access_key_id = key\naws_secret_access_key = hidden\n",
    )
    .unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let values = json!({
        "aws": {"region": "us-east-1", "endpoint_url": moto.url(),
            "credentials": {"secretName": "aws", "secretKey": "keys", "profile": "team"}},
        "deployment": {"containerPort": port}, "leaderElection": {"enabled": true},
        "installScope": "namespace", "watchNamespace": "team", "resourceTags": ["team=%K8S_NAMESPACE%"],
        "deletionPolicy": "retain", "reconcile": {"resources": ["Bucket"]},
    });
    let objects = chart::render("hangar-aws", NAMESPACE, &values);
    for namespace in [NAMESPACE, "team", "other"] {
        good(&cluster, &["create", "namespace", namespace], "");
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    good(&cluster, &["apply", "-f", "-"], &list.to_string());
    let _operator = run(&server, &cluster, &objects, files.path());

    eventually("its kinds", || exists(&cluster, "crd", "buckets.s3.services.k8s.aws").then_some(()));
    assert!(!exists(&cluster, "crd", "queues.sqs.services.k8s.aws"), "only Buckets were asked for");
    for (namespace, name) in [("other", "not-seen"), ("team", "seen")] {
        eventually("the kind is served", || {
            super::kubectl(&cluster, &["apply", "-f", "-"], &bucket(namespace, name))
                .status
                .success()
                .then_some(())
        });
    }
    let get = |namespace: &str, name: &str| -> Value {
        let told = good(&cluster, &["-n", namespace, "get", "bucket", name, "-o", "json"], "");
        serde_json::from_str(&told).unwrap()
    };
    eventually("a bucket", || is_true(&get("team", "seen"), "ACK.ResourceSynced").then_some(()));
    assert!(moto.s3("GET", "seen?tagging").1.contains("<Value>team</Value>"));
    assert_eq!(condition(&get("other", "not-seen"), "ACK.ResourceSynced"), None);
    assert_eq!(moto.s3("HEAD", "not-seen").0, 404);
    good(&cluster, &["-n", "team", "delete", "bucket", "seen"], "");
    assert_eq!(moto.s3("HEAD", "seen").0, 200, "it is retained");

    let metrics = ureq::get(format!("http://127.0.0.1:{port}/metrics")).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert!(metrics.contains("ack_outbound_api_requests_total{"), "{metrics}");
    let leases = good(&cluster, &["-n", NAMESPACE, "get", "leases", "-o", "name"], "");
    assert!(!leases.trim().is_empty(), "whoever works holds a Lease");
}
