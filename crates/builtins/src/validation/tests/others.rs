//! Everything that runs no pods.

use super::*;

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

#[test]
fn configuration() {
    check("", "ConfigMap", json!({"data": {"a": "b"}}), &[]);
    check(
        "",
        "ConfigMap",
        json!({"data": {"a b": ""}}),
        &[&format!("data[a b]: Invalid value: \"a b\": {CONFIG_KEY}")],
    );
    check(
        "",
        "ConfigMap",
        json!({"data": {"a": ""}, "binaryData": {"a": ""}}),
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
    check("", "ConfigMap", json!({"data": {"a": "x".repeat(1 << 20)}}), &[]);
    check(
        "",
        "ConfigMap",
        json!({"data": {"a": "x".repeat((1 << 20) + 1)}}),
        &["[]: Too long: may not be more than 1048576 bytes"],
    );
    check("", "Secret", json!({"stringData": {"a": "b"}}), &[]);
    check(
        "",
        "Secret",
        json!({"data": {"a/b": ""}}),
        &[&format!("data[a/b]: Invalid value: \"a/b\": {CONFIG_KEY}")],
    );
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/tls"}),
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    );
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockerconfigjson"}),
        &["data[.dockerconfigjson]: Required value"],
    );
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}),
        &[],
    );
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/basic-auth"}),
        &["data[username]: Required value", "data[password]: Required value"],
    );
    check("", "Secret", json!({"type": "kubernetes.io/ssh-auth"}), &["data[ssh-privatekey]: Required value"]);
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/service-account-token"}),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    );
    check(
        "",
        "Namespace",
        json!({"spec": {"finalizers": ["odd"]}}),
        &[
            "spec.finalizers: Invalid value: \"odd\": name is neither a standard finalizer name nor is it fully qualified",
        ],
    );
}

fn service(fields: Value, expected: &[&str]) {
    let mut spec = json!({"ports": [{"port": 80}]});
    for (path, value) in fields.as_object().unwrap() {
        spec.put(path, value.clone());
    }
    check("", "Service", json!({"spec": spec}), expected);
}

#[test]
fn services() {
    service(json!({}), &[]);
    service(json!({"ports": []}), &["spec.ports: Required value"]);
    service(json!({"ports": [], "clusterIP": "None"}), &[]);
    service(
        json!({"type": "Door"}),
        &[
            "spec.type: Unsupported value: \"Door\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ],
    );
    service(
        json!({"ports": [{"port": 0, "targetPort": 1}]}),
        &["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    );
    service(
        json!({"ports": [{"port": 1}, {"port": 2}]}),
        &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    );
    service(
        json!({"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}),
        &["spec.ports[1].name: Duplicate value: \"a\""],
    );
    service(
        json!({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}),
        &["spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}"],
    );
    service(
        json!({"ports": [{"port": 1, "nodePort": 30000}]}),
        &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    );
    service(json!({"type": "ExternalName"}), &["spec.externalName: Required value"]);
    service(json!({"type": "ExternalName", "externalName": "a.example."}), &[]);
    service(
        json!({"type": "NodePort", "clusterIP": "None"}),
        &["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
    );
    service(
        json!({"clusterIP": "1.2.3"}),
        &[
            "spec.clusterIPs[0]: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ],
    );
    service(
        json!({"externalIPs": ["127.0.0.1"], "externalTrafficPolicy": "Cluster"}),
        &[
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ],
    );
    service(
        json!({"sessionAffinity": "Sticky"}),
        &["spec.sessionAffinity: Unsupported value: \"Sticky\": supported values: \"ClientIP\", \"None\""],
    );
    service(
        json!({"loadBalancerClass": "a"}),
        &["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    );
    service(
        json!({"externalTrafficPolicy": "Local"}),
        &[
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ],
    );
}

#[test]
fn endpoints() {
    check(
        "",
        "Endpoints",
        json!({"subsets": [{"ports": [{"port": 1}]}]}),
        &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    );
    check(
        "",
        "Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "169.254.0.1"}], "ports": [{"port": 1}]}]}),
        &[
            "subsets[0].addresses[0].ip: Invalid value: \"169.254.0.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ],
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        &[],
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"endpoints": [{"addresses": []}]}),
        &[
            "addressType: Required value",
            "endpoints[0].addresses: Required value: must contain at least 1 address",
        ],
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv6", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        &["endpoints[0].addresses[0]: Invalid value: \"10.0.0.1\": must be an IPv6 address"],
    );
}

#[test]
fn access() {
    let rbac = "rbac.authorization.k8s.io";
    check(
        rbac,
        "Role",
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        &[],
    );
    check(
        rbac,
        "Role",
        json!({"rules": [{}]}),
        &[
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    );
    check(
        rbac,
        "Role",
        json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
        &[
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ],
    );
    check(rbac, "ClusterRole", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}), &[]);
    check(
        rbac,
        "ClusterRole",
        json!({"aggregationRule": {}}),
        &[
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
        ],
    );
    check(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
        &[],
    );
    check(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "Roll", "name": ""}}),
        &[
            "roleRef.kind: Unsupported value: \"Roll\": supported values: \"Role\", \"ClusterRole\"",
            "roleRef.name: Required value",
        ],
    );
    check(
        rbac,
        "ClusterRoleBinding",
        json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}, {"kind": "Robot", "name": "x"}]}),
        &[
            "subjects[0].namespace: Required value",
            "subjects[1].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        ],
    );
}

#[test]
fn certificates() {
    let request = |fields: Value, expected: &[&str]| {
        // A PEM block that holds an ASN.1 sequence.
        let pem = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
        let mut spec = json!({"signerName": "example.com/s", "usages": ["client auth"]});
        spec["request"] = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem).into();
        for (path, value) in fields.as_object().unwrap() {
            spec.put(path, value.clone());
        }
        check("certificates.k8s.io", "CertificateSigningRequest", json!({"spec": spec}), expected);
    };
    request(json!({}), &[]);
    request(
        json!({"request": ""}),
        &["spec.request: Invalid value: \"\": PEM block type must be CERTIFICATE REQUEST"],
    );
    request(json!({"usages": []}), &["spec.usages: Required value"]);
    request(json!({"usages": ["signing", "signing"]}), &["spec.usages[1]: Duplicate value: \"signing\""]);
    request(
        json!({"signerName": "mine"}),
        &[
            "spec.signerName: Invalid value: \"mine\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ],
    );
    request(
        json!({"expirationSeconds": 599}),
        &[
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ],
    );
}

#[test]
fn networks() {
    let net = "networking.k8s.io";
    let path = |path: Value| json!({"spec": {"rules": [{"host": "a.example", "http": {"paths": [path]}}]}});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    check(net, "Ingress", path(json!({"path": "/", "pathType": "Prefix", "backend": backend})), &[]);
    check(
        net,
        "Ingress",
        json!({"spec": {}}),
        &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    );
    check(
        net,
        "Ingress",
        path(json!({"path": "/", "backend": backend})),
        &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
    );
    check(
        net,
        "Ingress",
        path(json!({"path": "x", "pathType": "Exact", "backend": backend})),
        &["spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path"],
    );
    check(
        net,
        "Ingress",
        path(json!({"path": "/", "pathType": "Exact", "backend": {}})),
        &[
            "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
        ],
    );
    check(
        net,
        "Ingress",
        path(json!({"path": "/", "pathType": "Exact", "backend": {"service": {"name": "s"}}})),
        &["spec.rules[0].http.paths[0].backend: Required value: port name or number is required"],
    );
    check(
        net,
        "Ingress",
        json!({"spec": {"defaultBackend": backend, "rules": [{"host": "1.2.3.4"}]}}),
        &["spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"],
    );
    check(
        net,
        "IngressClass",
        json!({"spec": {"controller": "x"}}),
        &["spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
    );
    check(
        net,
        "NetworkPolicy",
        json!({"spec": {"ingress": [{"from": [{}]}]}}),
        &["spec.ingress[0].from[0]: Required value: must specify a peer"],
    );
    check(
        net,
        "NetworkPolicy",
        json!({"spec": {"ingress": [{"ports": [{"port": "http", "endPort": 5}]}]}}),
        &[
            "spec.ingress[0].ports[0].endPort: Invalid value: 5: may not be specified when `port` is non-numeric",
        ],
    );
    check(
        net,
        "NetworkPolicy",
        json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}}),
        &[
            "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
        ],
    );
    check(
        net,
        "NetworkPolicy",
        json!({"spec": {"policyTypes": ["Sideways"]}}),
        &["spec.policyTypes[0]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\""],
    );
    check(
        net,
        "ServiceCIDR",
        json!({"spec": {"cidrs": ["10.0.0.0/24", "10.1.0.0/24"]}}),
        &[
            "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ],
    );
}

#[test]
fn storage() {
    let claim =
        |spec: Value, expected: &[&str]| check("", "PersistentVolumeClaim", json!({"spec": spec}), expected);
    claim(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}), &[]);
    claim(
        json!({}),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    claim(
        json!({"accessModes": ["Often"], "resources": {"requests": {"storage": "0"}}}),
        &[
            "spec.accessModes: Unsupported value: \"Often\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ],
    );
    let volume =
        |spec: Value, expected: &[&str]| check("", "PersistentVolume", json!({"spec": spec}), expected);
    volume(
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}),
        &[],
    );
    volume(
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}),
        &["spec: Required value: must specify a volume type"],
    );
    volume(
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}}),
        &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    );
    check("storage.k8s.io", "StorageClass", json!({"provisioner": "a/b"}), &[]);
    check(
        "storage.k8s.io",
        "StorageClass",
        json!({"reclaimPolicy": "Burn"}),
        &[
            "provisioner: Required value",
            "reclaimPolicy: Unsupported value: \"Burn\": supported values: \"Delete\", \"Retain\"",
        ],
    );
}

#[test]
fn limits() {
    check(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "10", "requests.cpu": "4", "count/widgets.example.com": "5"}}}),
        &[],
    );
    check(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "1.5"}}}),
        &["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
    );
    check(
        "",
        "ResourceQuota",
        json!({"spec": {"scopes": ["BestEffort", "NotBestEffort"]}}),
        &["spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes"],
    );
    check(
        "",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}}),
        &[
            "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
            "spec.limits[0].default[cpu]: Invalid value: \"1\": min value 2 is greater than default value 1",
        ],
    );
    check(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        &[
            "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
        ],
    );
    let autoscaler = |spec: Value, expected: &[&str]| {
        check(
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"apiVersion": "autoscaling/v2", "spec": spec}),
            expected,
        );
    };
    autoscaler(json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}), &[]);
    autoscaler(
        json!({"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}),
        &["spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`"],
    );
    autoscaler(
        json!({}),
        &[
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Required value",
        ],
    );
}

#[test]
fn the_cluster() {
    check(
        "",
        "Node",
        json!({"spec": {"taints": [{"key": "a", "effect": "Maybe"}]}}),
        &[
            "metadata.taints[0].effect: Unsupported value: \"Maybe\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ],
    );
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1_000_000_001}),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"metadata": {"name": "system-x"}, "value": 1}),
        &[
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
        ],
    );
    check("node.k8s.io", "RuntimeClass", json!({}), &["handler: Required value"]);
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseDurationSeconds": 0}}),
        &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    );
    check(
        "",
        "Event",
        json!({"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"namespace": "b"}}),
        &["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"],
    );
    check("", "Event", json!({"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {}}), &[]);
    check(
        "events.k8s.io",
        "Event",
        json!({"apiVersion": "events.k8s.io/v1", "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal", "regarding": {"namespace": "default"}}),
        &[],
    );
    check(
        "events.k8s.io",
        "Event",
        json!({"apiVersion": "events.k8s.io/v1", "metadata": {"name": "e", "namespace": "default"}, "type": "Loud"}),
        &["eventTime: Required value", "type: Invalid value: \"\": has invalid value: Loud"],
    );
}

#[test]
fn admission() {
    let group = "admissionregistration.k8s.io";
    let rule =
        json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    let hook = |fields: Value, expected: &[&str]| {
        let mut hook = json!({"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        for (path, value) in fields.as_object().unwrap() {
            hook.put(path, value.clone());
        }
        check(group, "ValidatingWebhookConfiguration", json!({"webhooks": [hook]}), expected);
    };
    hook(json!({}), &[]);
    hook(
        json!({"name": "a.b"}),
        &[
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ],
    );
    hook(
        json!({"sideEffects": null}),
        &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
    );
    hook(
        json!({"timeoutSeconds": 31}),
        &[
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ],
    );
    hook(
        json!({"clientConfig": {}}),
        &["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
    );
    hook(
        json!({"clientConfig": {"url": "http://x?y"}}),
        &[
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            "webhooks[0].clientConfig.url: Invalid value: \"y\": query parameters are not permitted in the URL",
        ],
    );
    hook(
        json!({"admissionReviewVersions": []}),
        &["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
    );
    hook(
        json!({"rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "pods"]}]}),
        &[
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
            "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ],
    );
    check(
        group,
        "ValidatingAdmissionPolicy",
        json!({"spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}}),
        &[],
    );
    check(
        group,
        "ValidatingAdmissionPolicy",
        json!({"spec": {}}),
        &[
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    );
    check(
        group,
        "ValidatingAdmissionPolicyBinding",
        json!({"spec": {"policyName": "p"}}),
        &["spec.validationActions: Required value: at least one validation action is required"],
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        json!({"spec": {"matchingPrecedence": 1, "priorityLevelConfiguration": {"name": "p"}}}),
        &[
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ],
    );
    check(
        "apiregistration.k8s.io",
        "APIService",
        json!({"metadata": {"name": "v1.b"}, "spec": {"group": "a", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
        &["metadata.name: Invalid value: \"v1.b\": must be `spec.version+\".\"+spec.group`: \"v1.a\""],
    );
}

#[test]
fn devices() {
    let claim = |request: Value, expected: &[&str]| {
        check(
            "resource.k8s.io",
            "ResourceClaim",
            json!({"spec": {"devices": {"requests": [request]}}}),
            expected,
        );
    };
    claim(json!({"name": "a", "exactly": {"deviceClassName": "gpu"}}), &[]);
    claim(
        json!({"name": "a"}),
        &[
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        ],
    );
    claim(
        json!({"name": "a", "exactly": {}}),
        &["spec.devices.requests[0].exactly.deviceClassName: Required value"],
    );
    claim(
        json!({"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "count": 2}}),
        &[
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        ],
    );
    check("storage.k8s.io", "VolumeAttributesClass", json!({}), &["driverName: Required value"]);
}
