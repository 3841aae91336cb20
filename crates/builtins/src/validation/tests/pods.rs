//! Pods and what is in them.

use super::*;

fn spec(spec: Value, expected: &[&str]) {
    let mut full = json!({"containers": [{"name": "a", "image": "x"}]});
    for (field, value) in spec.as_object().unwrap() {
        full[field] = value.clone();
    }
    check("", "Pod", json!({"spec": full}), expected);
}

fn container(fields: Value, expected: &[&str]) {
    let mut container = json!({"name": "a", "image": "x"});
    for (field, value) in fields.as_object().unwrap() {
        container[field] = value.clone();
    }
    let volumes = json!([{"name": "v"}, {"name": "w"}]);
    check("", "Pod", json!({"spec": {"containers": [container], "volumes": volumes}}), expected);
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn the_spec() {
    spec(json!({}), &[]);
    spec(json!({"containers": []}), &["spec.containers: Required value"]);
    spec(
        json!({"restartPolicy": "Sometimes"}),
        &[
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
    spec(
        json!({"dnsPolicy": "Magic"}),
        &[
            "spec.dnsPolicy: Unsupported value: \"Magic\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
        ],
    );
    spec(
        json!({"dnsPolicy": "None"}),
        &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    );
    spec(json!({"hostname": "A_b"}), &[&format!("spec.hostname: Invalid value: \"A_b\": {LABEL}")]);
    spec(
        json!({"activeDeadlineSeconds": 0}),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    );
    spec(
        json!({"shareProcessNamespace": true, "hostPID": true}),
        &[
            "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
        ],
    );
    spec(
        json!({"ephemeralContainers": [{"name": "e", "image": "x"}]}),
        &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    );
    spec(
        json!({"nodeName": "n", "schedulingGates": [{"name": "a"}]}),
        &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
    spec(
        json!({"hostAliases": [{"ip": "nope"}]}),
        &[
            "spec.hostAliases[0].ip: Invalid value: \"nope\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ],
    );
    spec(
        json!({"os": {"name": "plan9"}}),
        &["spec.os.name: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
    );
}

#[test]
fn containers() {
    container(json!({}), &[]);
    container(json!({"name": ""}), &["spec.containers[0].name: Required value"]);
    container(json!({"name": "A"}), &[&format!("spec.containers[0].name: Invalid value: \"A\": {LABEL}")]);
    container(json!({"image": ""}), &["spec.containers[0].image: Required value"]);
    container(
        json!({"image": " x"}),
        &["spec.containers[0].image: Invalid value: \" x\": must not have leading or trailing whitespace"],
    );
    container(
        json!({"imagePullPolicy": "Now"}),
        &[
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Now\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ],
    );
    container(
        json!({"ports": [{"containerPort": 70000}]}),
        &[
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    );
    container(json!({"ports": [{}]}), &["spec.containers[0].ports[0].containerPort: Required value"]);
    container(
        json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}),
        &["spec.containers[0].ports[1].name: Duplicate value: \"a\""],
    );
    container(
        json!({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]}),
        &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
    );
    container(
        json!({"ports": [{"containerPort": 1, "protocol": "ICMP"}]}),
        &[
            "spec.containers[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ],
    );
    container(json!({"env": [{"name": ""}]}), &["spec.containers[0].env[0].name: Required value"]);
    container(
        json!({"env": [{"name": "a=b"}]}),
        &[
            "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ],
    );
    container(
        json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        &[
            "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
        ],
    );
    container(
        json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}),
        &["spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value"],
    );
    container(
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}]}),
        &[],
    );
    container(
        json!({"envFrom": [{}]}),
        &[
            "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
        ],
    );
    container(
        json!({"terminationMessagePolicy": "X"}),
        &[
            "spec.containers[0].terminationMessagePolicy: Unsupported value: \"X\": supported values: \"File\", \"FallbackToLogsOnError\"",
        ],
    );
}

#[test]
fn mounts() {
    container(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}), &[]);
    container(
        json!({"volumeMounts": [{"name": "u", "mountPath": "/a"}]}),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"u\""],
    );
    container(
        json!({"volumeMounts": [{"name": "v"}]}),
        &["spec.containers[0].volumeMounts[0].mountPath: Required value"],
    );
    container(
        json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}]}),
        &["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"],
    );
    container(
        json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../x"}]}),
        &["spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'"],
    );
}

#[test]
fn resources() {
    container(
        json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
        &[
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ],
    );
    container(
        json!({"resources": {"limits": {"cpu": "-1"}}}),
        &[
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ],
    );
    container(
        json!({"resources": {"requests": {"flux": "1"}}}),
        &[
            "spec.containers[0].resources.requests[flux]: Invalid value: \"flux\": must be a standard resource type or fully qualified",
            "spec.containers[0].resources.requests[flux]: Invalid value: \"flux\": must be a standard resource for containers",
        ],
    );
    container(
        json!({"resources": {"requests": {"example.com/gpu": "1"}}}),
        &[
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    );
    container(
        json!({"resources": {"limits": {"example.com/gpu": "500m"}}}),
        &[
            "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer",
            "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer",
        ],
    );
    container(
        json!({"resources": {"claims": [{"name": "c"}]}}),
        &[
            "spec.containers[0].resources.claims[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims which is empty",
        ],
    );
    container(
        json!({"resources": {"limits": {"cpu": "lots"}, "requests": {"cpu": "1"}}}),
        &[
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"lots\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ],
    );
}

#[test]
fn probes() {
    let path = "spec.containers[0].livenessProbe";
    container(json!({"livenessProbe": {"httpGet": {"port": 80}}}), &[]);
    container(
        json!({"livenessProbe": {}}),
        &[&format!("{path}: Required value: must specify a handler type")],
    );
    container(
        json!({"livenessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}}),
        &[&format!("{path}.tcpSocket: Forbidden: may not specify more than 1 handler type")],
    );
    container(
        json!({"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}}),
        &[&format!("{path}.successThreshold: Invalid value: 2: must be 1")],
    );
    container(
        json!({"livenessProbe": {"tcpSocket": {"port": 0}}}),
        &[&format!("{path}.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive")],
    );
    container(json!({"livenessProbe": {"exec": {}}}), &[&format!("{path}.exec.command: Required value")]);
    container(
        json!({"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": -1}}),
        &[&format!("{path}.periodSeconds: Invalid value: -1: must be greater than or equal to 0")],
    );
    container(
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
        &[
            "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
        ],
    );
}

#[test]
fn several_containers() {
    let two = |a: Value, b: Value| json!({"containers": [a, b]});
    let named = |name: &str| json!({"name": name, "image": "x"});
    spec(two(named("a"), named("a")), &["spec.containers[1].name: Duplicate value: \"a\""]);
    spec(json!({"initContainers": [named("a")]}), &["spec.initContainers[0].name: Duplicate value: \"a\""]);
    let mut probed = named("i");
    probed["readinessProbe"] = json!({"exec": {"command": ["x"]}});
    spec(
        json!({"initContainers": [probed.clone()]}),
        &[
            "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ],
    );
    probed["restartPolicy"] = "Always".into();
    spec(json!({"initContainers": [probed]}), &[]);
}

#[test]
fn volumes() {
    let volume = |volume: Value, expected: &[&str]| spec(json!({"volumes": [volume]}), expected);
    volume(json!({"name": "v", "emptyDir": {}}), &[]);
    volume(json!({"name": "v", "secret": {}}), &["spec.volumes[0].secret.secretName: Required value"]);
    volume(
        json!({"name": "v", "configMap": {"name": "c"}, "emptyDir": {}}),
        &["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
    );
    volume(json!({"name": "", "emptyDir": {}}), &["spec.volumes[0].name: Required value"]);
    volume(
        json!({"name": "v", "hostPath": {"path": "/a/../b"}}),
        &["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
    );
    volume(
        json!({"name": "v", "secret": {"secretName": "s", "defaultMode": 5000}}),
        &[
            "spec.volumes[0].secret.defaultMode: Invalid value: 5000: must be a number between 0 and 0777 (octal), both inclusive",
        ],
    );
    volume(
        json!({"name": "v", "persistentVolumeClaim": {}}),
        &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    );
    volume(
        json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}),
        &[
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
        ],
    );
    volume(
        json!({"name": "v", "downwardAPI": {"items": [{"path": "p"}]}}),
        &[
            "spec.volumes[0].downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required",
        ],
    );
    spec(
        json!({"volumes": [{"name": "v"}, {"name": "v"}]}),
        &["spec.volumes[1].name: Duplicate value: \"v\""],
    );
}

#[test]
fn scheduling() {
    spec(
        json!({"tolerations": [{"operator": "Equal", "value": "x"}]}),
        &[
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ],
    );
    spec(
        json!({"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]}),
        &[
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
    );
    spec(
        json!({"tolerations": [{"key": "a", "effect": "Maybe"}]}),
        &[
            "spec.tolerations[0].effect: Unsupported value: \"Maybe\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ],
    );
    spec(
        json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
        &["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
    );
    spec(
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
        &[
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, DoNotSchedule}\"",
        ],
    );
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    spec(
        json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": []}}}}),
        &[&format!(
            "spec.affinity.nodeAffinity.{required}.nodeSelectorTerms: Required value: must have at least one node selector term"
        )],
    );
    spec(
        json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}}),
        &[&format!(
            "spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
        )],
    );
    spec(
        json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}}}),
        &[
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
        ],
    );
}

#[test]
fn security() {
    spec(
        json!({"securityContext": {"runAsUser": -1}}),
        &["spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
    );
    spec(
        json!({"securityContext": {"sysctls": [{"name": "a.b"}, {"name": "a.b"}]}}),
        &["spec.securityContext.sysctls[1].name: Duplicate value: \"a.b\""],
    );
    spec(
        json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
        &[
            "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
        ],
    );
    container(
        json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
        &[
            "spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ],
    );
}
