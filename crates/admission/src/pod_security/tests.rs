use serde_json::{Value, json};

use super::*;

fn namespace(labels: Value) -> Value {
    let labels: serde_json::Map<String, Value> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), value.clone()))
        .collect();
    json!({"metadata": {"labels": labels}})
}

#[test]
fn labels() {
    fn check(labels: Value, expected: [&str; 3]) {
        let policy = Policy::of(&namespace(labels));
        assert_eq!([policy.enforce, policy.audit, policy.warn].map(|one| one.to_string()), expected);
    }
    check(json!({}), ["privileged:latest"; 3]);
    check(json!({"enforce": "baseline"}), ["baseline:latest", "privileged:latest", "baseline:latest"]);
    check(
        json!({"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted", "audit": "restricted"}),
        ["baseline:v1.30", "restricted:latest", "restricted:latest"],
    );
    check(
        json!({"enforce": "restricted", "enforce-version": "v1.30"}),
        ["restricted:v1.30", "privileged:latest", "restricted:v1.30"],
    );
    // What cannot be read is strict where it is enforced and silent elsewhere.
    check(
        json!({"enforce": "typo", "audit": "typo", "warn": "typo", "enforce-version": "v1.x"}),
        ["restricted:latest", "privileged:latest", "privileged:latest"],
    );
    check(json!({"enforce": "typo"}), ["restricted:latest", "privileged:latest", "privileged:latest"]);
}

#[test]
fn versions() {
    for (text, expected) in [
        ("latest", Some(Version::Latest)),
        ("v1.0", Some(Version::Minor(0))),
        ("v1.36", Some(Version::Minor(36))),
        ("v1.01", None),
        ("v1.+1", None),
        ("v2.1", None),
        ("v1.", None),
        ("1.3", None),
    ] {
        assert_eq!(Version::read(text), expected, "{text}");
    }
}

fn check(level: &str, spec: Value, expected: &str) {
    let (level, version) = level.split_once(':').unwrap_or((level, "latest"));
    let standard = Standard { level: Level::named(level).unwrap(), version: Version::read(version).unwrap() };
    let got = violations(standard, &json!({"spec": spec})).unwrap_or_default();
    assert_eq!(got, expected, "{level} {spec}");
}

fn one(context: Value) -> Value {
    json!({"containers": [{"name": "a", "securityContext": context}]})
}

#[test]
fn baseline() {
    check("privileged", one(json!({"privileged": true})), "");
    check("baseline", one(json!({})), "");
    check(
        "baseline",
        one(json!({"privileged": true})),
        r#"privileged (container "a" must not set securityContext.privileged=true)"#,
    );
    check(
        "baseline",
        json!({"hostNetwork": true, "hostIPC": true}),
        "host namespaces (hostNetwork=true, hostIPC=true)",
    );
    check(
        "baseline",
        one(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}})),
        r#"non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
    );
    check(
        "baseline",
        json!({"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]}),
        r#"hostPath volumes (volumes "v", "w")"#,
    );
    let ports = json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"containerPort": 1}]}, {"name": "b", "ports": [{"hostPort": 443}]}]});
    check("baseline", ports, r#"hostPort (containers "a", "b" use hostPorts 443, 80)"#);
    let probe = json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "1.2.3.4"}}}]});
    check(
        "baseline",
        probe.clone(),
        r#"probe or lifecycle host (container "a" uses probe or lifecycle host "1.2.3.4")"#,
    );
    check("baseline:v1.33", probe, "");
    check(
        "baseline",
        json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
    );
    check(
        "baseline",
        json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}]}}),
        "forbidden sysctls (kernel.msgmax)",
    );
    check(
        "baseline:v1.31",
        json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}),
        "forbidden sysctls (net.ipv4.tcp_rmem)",
    );
    check(
        "baseline",
        one(json!({"seLinuxOptions": {"type": "spc_t", "user": "u"}})),
        r#"seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)"#,
    );
    check(
        "baseline",
        one(json!({"appArmorProfile": {"type": "Unconfined"}})),
        r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#,
    );
    check(
        "baseline",
        one(json!({"procMount": "Unmasked"})),
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
    );
    check(
        "baseline",
        json!({"securityContext": {"windowsOptions": {"hostProcess": true}}, "containers": [{"name": "a", "securityContext": {"windowsOptions": {"hostProcess": true}}}]}),
        r#"hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)"#,
    );
}

fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}],
        "volumes": [{"name": "t", "projected": {}}],
    })
}

#[test]
fn restricted() {
    check("restricted", hardened(), "");
    // The message every user of Kubernetes has met.
    check(
        "restricted",
        json!({"containers": [{"name": "nginx"}]}),
        "allowPrivilegeEscalation != false (container \"nginx\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"nginx\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"nginx\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"nginx\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
    );
    let with = |path: &str, value: Value| {
        let mut spec = hardened();
        *spec.pointer_mut(path).unwrap() = value;
        spec
    };
    check(
        "restricted",
        with("/volumes", json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {}}])),
        r#"restricted volume types (volumes "v", "n" use restricted volume types "hostPath", "nfs")"#,
    );
    check(
        "restricted",
        with("/securityContext/runAsNonRoot", json!(false)),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
    );
    let mut root = hardened();
    root["containers"][0]["securityContext"]["runAsUser"] = json!(0);
    check("restricted", root.clone(), r#"runAsUser=0 (container "a" must not set runAsUser=0)"#);
    root["hostUsers"] = json!(false);
    check("restricted", root.clone(), "");
    check("restricted:v1.34", root, r#"runAsUser=0 (container "a" must not set runAsUser=0)"#);
    check(
        "restricted",
        with("/containers/0/securityContext/capabilities", json!({"drop": ["ALL"], "add": ["CHOWN"]})),
        r#"unrestricted capabilities (container "a" must not include "CHOWN" in securityContext.capabilities.add)"#,
    );
    let mut windows = json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}]});
    check("restricted", windows.clone(), "");
    windows["os"]["name"] = json!("linux");
    assert!(
        violations(
            Standard { level: Level::Restricted, version: Version::Latest },
            &json!({"spec": windows})
        )
        .is_some()
    );
}

#[test]
fn pods_are_refused_and_workloads_warned_about() {
    let policy = Policy::of(&namespace(json!({"enforce": "baseline", "audit": "restricted"})));
    let bad = json!({"spec": one(json!({"privileged": true}))});
    assert_eq!(
        check_pod(&policy, &bad).unwrap_err().message,
        r#"violates PodSecurity "baseline:latest": privileged (container "a" must not set securityContext.privileged=true)"#
    );
    let notes = check_pod(&policy, &json!({"spec": one(json!({}))})).unwrap();
    assert_eq!(notes.warnings, [] as [&str; 0]);
    let keys: Vec<&str> = notes.audit.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, ["audit-violations", "enforce-policy"]);
    let deployment = json!({"kind": "Deployment", "spec": {"template": bad}});
    assert_eq!(
        check_workload(&policy, &deployment).warnings,
        [
            r#"would violate PodSecurity "baseline:latest": privileged (container "a" must not set securityContext.privileged=true)"#
        ]
    );
    assert_eq!(check_workload(&policy, &json!({"kind": "ConfigMap"})), Notes::default());
}

#[test]
fn changes_that_matter() {
    let pod = |image: &str, label: &str, ephemeral: Value| {
        json!({"metadata": {"labels": {"l": label}}, "spec": {
            "containers": [{"name": "a", "image": image}], "ephemeralContainers": ephemeral,
        }})
    };
    let old = pod("i1", "x", json!([]));
    for (new, expected) in [
        (pod("i1", "y", json!([])), false),
        (pod("i2", "x", json!([])), true),
        (pod("i1", "x", json!([{"name": "debug", "image": "d"}])), true),
    ] {
        assert_eq!(concerns_update(&new, &old), expected, "{new}");
    }
}

#[test]
fn labels_of_namespaces() {
    let check = |new: Value, old: Option<Value>, expected: &[&str]| {
        let errors = namespace::check_namespace(&namespace(new), old.map(namespace).as_ref());
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    };
    check(json!({"enforce": "baseline", "enforce-version": "v1.30"}), None, &[]);
    let typo = r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "typo": must be one of privileged, baseline, restricted"#;
    check(json!({"enforce": "typo"}), None, &[typo]);
    check(json!({"enforce": "typo"}), Some(json!({})), &[typo]);
    check(json!({"enforce": "typo"}), Some(json!({"enforce": "typo"})), &[]);
    check(
        json!({"warn-version": "1.30"}),
        None,
        &[
            r#"metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.30": must be "latest" or "v1.x""#,
        ],
    );
}

#[test]
fn pods_left_behind() {
    let with = |labels: Value| {
        let mut object = namespace(labels);
        object["metadata"]["name"] = json!("ns");
        object
    };
    let (loose, strict) = (with(json!({})), with(json!({"enforce": "baseline"})));
    assert!(namespace::demands_more(&strict, &loose));
    assert!(!namespace::demands_more(&loose, &strict));
    assert!(!namespace::demands_more(&strict, &strict));
    let pod = |name: &str, context: Value| json!({"metadata": {"name": name}, "spec": one(context)});
    let pods = [
        pod("b", json!({"privileged": true})),
        pod("a", json!({"privileged": true})),
        pod("fine", json!({})),
        pod("c", json!({"procMount": "Unmasked"})),
    ];
    assert_eq!(
        namespace::warnings(&strict, &pods),
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): privileged",
            "c: procMount",
        ]
    );
    assert_eq!(namespace::warnings(&strict, &pods[2..3]), [] as [&str; 0]);
}
