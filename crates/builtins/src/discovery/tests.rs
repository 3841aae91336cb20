use super::*;
use crate::types;

fn builtin<'a>() -> impl Iterator<Item = &'a ResourceType> {
    types().iter().map(|row| &**row)
}

fn custom(group: &str, version: &str, plural: &str) -> ResourceType {
    let kind = GroupVersionKind::new(group, version, "CronTab");
    ResourceType {
        group: group.into(),
        version: version.into(),
        kind: "CronTab".into(),
        list_kind: "CronTabList".into(),
        plural: plural.into(),
        singular: "crontab".into(),
        short_names: vec!["ct".into()],
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: Verbs::ALL,
        subresources: vec![Subresource { name: "status".into(), kind, verbs: Verbs::NONE }],
    }
}

fn names(document: &Value, list: &str, name: &str) -> Vec<String> {
    let items = document[list].as_array().unwrap();
    items
        .iter()
        .map(|item| item.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn groups_are_in_upstream_order_with_custom_ones_last() {
    let custom = [custom("z.example.com", "v1", "crontabs"), custom("a.example.com", "v1", "crontabs")];
    let document = group_list(builtin().chain(&custom));
    let expected = [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "resource.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "a.example.com",
        "z.example.com",
    ];
    assert_eq!(names(&document, "groups", "/name"), expected);
    let aggregated = aggregated(builtin().chain(&custom), AggregatedVersion::V2);
    assert_eq!(names(&aggregated, "items", "/metadata/name"), expected);
}

#[test]
fn preferred_versions() {
    #[track_caller]
    fn check(document: Option<Value>, versions: &[&str], preferred: &str) {
        let document = document.unwrap();
        assert_eq!(names(&document, "versions", "/version"), versions);
        assert_eq!(document["preferredVersion"]["version"], preferred);
        assert_eq!(document["kind"], "APIGroup");
    }
    check(group(builtin(), "autoscaling"), &["v2", "v1"], "v2");
    check(group(builtin(), "apps"), &["v1"], "v1");
    let custom = ["v1beta1", "v1", "v2alpha1"].map(|v| custom("example.com", v, "crontabs"));
    check(group(&custom, "example.com"), &["v1", "v1beta1", "v2alpha1"], "v1");
    assert_eq!(group(builtin(), "example.com"), None);
    assert_eq!(group(builtin(), ""), None);
}

/// Rows as a stock server answers them.
#[rustfmt::skip]
#[test]
fn legacy_rows() {
    #[track_caller]
    fn check(group: &str, version: &str, name: &str, expected: Value) {
        let list = resource_list(builtin(), &GroupVersion::new(group, version)).unwrap();
        let rows = list["resources"].as_array().unwrap();
        assert_eq!(rows.iter().find(|row| row["name"] == name), Some(&expected));
    }
    let all = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let change = json!(["get", "patch", "update"]);
    check(
        "",
        "v1",
        "bindings",
        json!({"kind": "Binding", "name": "bindings", "namespaced": true, "singularName": "binding", "verbs": ["create"]}),
    );
    check(
        "",
        "v1",
        "componentstatuses",
        json!({"kind": "ComponentStatus", "name": "componentstatuses", "namespaced": false, "shortNames": ["cs"], "singularName": "componentstatus", "verbs": ["get", "list"]}),
    );
    check(
        "",
        "v1",
        "configmaps",
        json!({"kind": "ConfigMap", "name": "configmaps", "namespaced": true, "shortNames": ["cm"], "singularName": "configmap", "storageVersionHash": "qFsyl6wFWjQ=", "verbs": all}),
    );
    check(
        "",
        "v1",
        "pods/eviction",
        json!({"group": "policy", "version": "v1", "kind": "Eviction", "name": "pods/eviction", "namespaced": true, "singularName": "", "verbs": ["create"]}),
    );
    check(
        "",
        "v1",
        "pods/exec",
        json!({"kind": "PodExecOptions", "name": "pods/exec", "namespaced": true, "singularName": "", "verbs": ["create", "get"]}),
    );
    check(
        "",
        "v1",
        "nodes/proxy",
        json!({"kind": "NodeProxyOptions", "name": "nodes/proxy", "namespaced": false, "singularName": "", "verbs": ["create", "delete", "get", "patch", "update"]}),
    );
    check(
        "",
        "v1",
        "namespaces/finalize",
        json!({"kind": "Namespace", "name": "namespaces/finalize", "namespaced": false, "singularName": "", "verbs": ["update"]}),
    );
    check(
        "",
        "v1",
        "serviceaccounts/token",
        json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest", "name": "serviceaccounts/token", "namespaced": true, "singularName": "", "verbs": ["create"]}),
    );
    check(
        "apps",
        "v1",
        "deployments/scale",
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale", "name": "deployments/scale", "namespaced": true, "singularName": "", "verbs": change}),
    );
    check(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        json!({"kind": "HorizontalPodAutoscaler", "name": "horizontalpodautoscalers", "namespaced": true, "shortNames": ["hpa"], "categories": ["all"], "singularName": "horizontalpodautoscaler", "storageVersionHash": "qwQve8ut294=", "verbs": all}),
    );
    check(
        "events.k8s.io",
        "v1",
        "events",
        json!({"kind": "Event", "name": "events", "namespaced": true, "shortNames": ["ev"], "singularName": "event", "storageVersionHash": "r2yiGXH7wu8=", "verbs": all}),
    );
    check(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests/approval",
        json!({"kind": "CertificateSigningRequest", "name": "certificatesigningrequests/approval", "namespaced": false, "singularName": "", "verbs": change}),
    );
    assert_eq!(resource_list(builtin(), &GroupVersion::new("apps", "v2")), None);
}

#[test]
fn core_resources_are_all_there_in_order() {
    let list = resource_list(builtin(), &GroupVersion::new("", "v1")).unwrap();
    let expected = "bindings componentstatuses configmaps endpoints events limitranges namespaces namespaces/finalize \
        namespaces/status nodes nodes/proxy nodes/status persistentvolumeclaims persistentvolumeclaims/status \
        persistentvolumes persistentvolumes/status pods pods/attach pods/binding pods/ephemeralcontainers \
        pods/eviction pods/exec pods/log pods/portforward pods/proxy pods/resize pods/status podtemplates \
        replicationcontrollers replicationcontrollers/scale replicationcontrollers/status resourcequotas \
        resourcequotas/status secrets serviceaccounts serviceaccounts/token services services/proxy services/status";
    assert_eq!(names(&list, "resources", "/name").join(" "), expected);
}

#[test]
fn aggregated_rows() {
    let document = aggregated_core(builtin(), AggregatedVersion::V2);
    assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(document["items"][0]["metadata"], json!({}));
    let version = &document["items"][0]["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    let resources = version["resources"].as_array().unwrap();
    let service = resources.iter().find(|row| row["resource"] == "services").unwrap();
    let own = json!({"group": "", "version": "", "kind": "Service"});
    assert_eq!(
        service,
        &json!({
            "resource": "services", "responseKind": own, "scope": "Namespaced", "singularResource": "service",
            "shortNames": ["svc"], "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "subresources": [
                {"subresource": "proxy", "responseKind": {"group": "", "version": "", "kind": "ServiceProxyOptions"},
                    "verbs": ["create", "delete", "get", "patch", "update"]},
                {"subresource": "status", "responseKind": own, "verbs": ["get", "patch", "update"]},
            ],
        })
    );
    let crd = [custom("example.com", "v1", "crontabs")];
    let document = aggregated(&crd, AggregatedVersion::V2Beta1);
    assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    let kind = &document["items"][0]["versions"][0]["resources"][0]["responseKind"];
    assert_eq!(kind, &json!({"group": "example.com", "version": "v1", "kind": "CronTab"}));
}
