//! What KubeFlex's documents and scripts tell people to do, with kubectl.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Kubectl, Server};

/// The shape of KubeFlex's sample, of KubeStellar's chart, and of its hook.
const SAMPLES: &str = r#"
apiVersion: tenancy.kflex.kubestellar.org/v1alpha1
kind: PostCreateHook
metadata:
  name: hello
  labels: {kflex.kubestellar.io/cptype: wds}
spec:
  defaultVars:
  - {name: MESSAGE, value: Hello}
  templates:
  - apiVersion: batch/v1
    kind: Job
    metadata: {name: hello}
    spec:
      backoffLimit: 1
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: hello, image: "busybox:1.36", command: [echo, "{{.MESSAGE}}", "{{.ControlPlaneName}}"]}
---
apiVersion: tenancy.kflex.kubestellar.org/v1alpha1
kind: ControlPlane
metadata:
  name: cp1
  labels: {app.kubernetes.io/managed-by: kustomize}
spec:
  type: k8s
  backend: shared
---
apiVersion: tenancy.kflex.kubestellar.org/v1alpha1
kind: ControlPlane
metadata:
  name: wds1
spec:
  type: k8s
  backend: shared
  waitForPostCreateHooks: false
  globalVars: {ControlPlaneName: ignored}
  postCreateHooks:
  - hookName: hello
    vars: {MESSAGE: Bonjour}
---
apiVersion: tenancy.kflex.kubestellar.org/v1alpha1
kind: ControlPlane
metadata:
  name: its1
spec:
  type: vcluster
  backend: shared
"#;

fn kubectl(server: &Server, line: &str) -> String {
    let output = Command::new(Kubectl::all().pop().expect("a kubectl on this machine").path)
        .args(line.split_whitespace())
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.dir())
        .output()
        .unwrap();
    assert!(output.status.success(), "kubectl {line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_its_documents_tell_people_to_do() {
    let server = Server::start();
    let file = server.dir().join("samples.yaml");
    std::fs::write(&file, SAMPLES).unwrap();
    let said = kubectl(&server, &format!("apply -f {}", file.display()));
    assert_eq!(
        said,
        "postcreatehook.tenancy.kflex.kubestellar.org/hello created\n\
         controlplane.tenancy.kflex.kubestellar.org/cp1 created\n\
         controlplane.tenancy.kflex.kubestellar.org/wds1 created\n\
         controlplane.tenancy.kflex.kubestellar.org/its1 created\n"
    );
    kubectl(&server, "wait --for=condition=Ready cp/cp1 cp/wds1 cp/its1 --timeout=120s");
    kubectl(&server, "wait --for=jsonpath={.status.postCreateHooks.hello}=true cp/wds1 --timeout=120s");
    kubectl(
        &server,
        "wait --for=condition=available deployment/kube-apiserver deployment/kube-controller-manager -n cp1-system --timeout=60s",
    );
    kubectl(
        &server,
        "wait --for=jsonpath={.status.availableReplicas}=1 statefulset/vcluster -n its1-system --timeout=60s",
    );
    kubectl(&server, "wait --for=condition=complete job/update-cluster-info -n its1-system --timeout=60s");
    kubectl(
        &server,
        "wait --for=condition=available deployment/kubeflex-controller-manager -n kubeflex-system --timeout=60s",
    );
    kubectl(
        &server,
        "wait --for=jsonpath={.metadata.labels.kflex\\.kubestellar\\.io/cptype}=wds cp/wds1 --timeout=60s",
    );

    // As a list, under every name the kind has.
    for name in ["controlplanes", "controlplane", "cp", "cps"] {
        let listed = kubectl(&server, &format!("get {name}"));
        let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "SYNCED", "READY", "TYPE", "AGE"], "{name}");
        assert_eq!(rows[1][..4], ["cp1", "True", "True", "k8s"], "{name}");
        assert_eq!(rows[2][..4], ["its1", "True", "True", "vcluster"], "{name}");
    }
    for name in ["pch", "pchs"] {
        assert!(kubectl(&server, &format!("get {name} -o name")).contains("/hello\n"));
    }

    // The recipe for kubeconfigs: status.secretRef says where.
    for (name, key, context) in [("cp1", "key", "cp1"), ("its1", "inClusterKey", "my-vcluster")] {
        let field = |field: &str| {
            kubectl(&server, &format!("get controlplane {name} -o jsonpath={{.status.secretRef.{field}}}"))
        };
        let (secret, namespace, key) = (field("name"), field("namespace"), field(key));
        let encoded =
            kubectl(&server, &format!("get secret {secret} -n {namespace} -o jsonpath={{.data.{key}}}"));
        let file = server.dir().join(format!("{name}.yaml"));
        std::fs::write(&file, STANDARD.decode(encoded).unwrap()).unwrap();
        let namespaces =
            kubectl(&server, &format!("--kubeconfig {} --context {context} get ns -o name", file.display()));
        assert!(namespaces.contains("namespace/kube-system"), "{namespaces}");
    }
    let job = "get job hello -n wds1-system -o jsonpath={.spec.template.spec.containers[0].command}";
    assert_eq!(kubectl(&server, job), "[\"echo\",\"Bonjour\",\"wds1\"]");

    // A hook that is added later runs too, as the end-to-end tests upstream want it.
    kubectl(&server, "patch cp cp1 --type=merge -p {\"spec\":{\"postCreateHook\":\"hello\"}}");
    kubectl(&server, "wait --for=jsonpath={.status.postCreateHooks.hello}=true cp/cp1 --timeout=120s");
    kubectl(&server, "delete cp cp1 wds1 its1 --timeout=120s");
    assert!(!kubectl(&server, "get namespaces -o name").contains("cp1-system"));
}
