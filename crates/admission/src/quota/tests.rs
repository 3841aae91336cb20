use jiff::Timestamp;
use objects::GroupResource;
use serde_json::{Value, json};

use super::*;
use crate::Operation;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn resource(text: &str) -> GroupResource {
    let (name, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, name)
}

fn quota(spec: Value, used: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": spec["hard"], "used": used}})
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn usage_of_objects() {
    fn check(of: &str, object: Value, expected: &str) {
        assert_eq!(usage(&resource(of), &object, now()).to_string(), expected);
    }
    check("deployments.apps", json!({}), "count/deployments.apps=1");
    check("configmaps", json!({}), "configmaps=1,count/configmaps=1");
    check("endpoints", json!({}), "count/endpoints=1");
    let spec = |kind: &str, ports: Value| json!({"spec": {"type": kind, "ports": ports}});
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    let services = |node_ports: u8, balancers: u8| {
        format!(
            "count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={node_ports}"
        )
    };
    check("services", spec("ClusterIP", ports.clone()), &services(0, 0));
    check("services", spec("NodePort", ports.clone()), &services(2, 0));
    check("services", spec("LoadBalancer", ports.clone()), &services(2, 1));
    let mut bare = spec("LoadBalancer", ports);
    bare["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    check("services", bare, &services(1, 1));
    let claim = |storage: &str, class: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": storage}}}});
    check(
        "persistentvolumeclaims",
        claim("1Gi", ""),
        "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=1Gi",
    );
    check(
        "persistentvolumeclaims",
        claim("1500m", "gold"),
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2",
    );
    check("pods", pod(json!([{"name": "a"}])), "count/pods=1,pods=1");
    check(
        "pods",
        pod(json!([
            container("a", json!({"cpu": "100m", "example.com/gpu": "1"}), json!({"cpu": "1"})),
            container("b", json!({"cpu": "200m", "memory": "1Gi", "hugepages-2Mi": "2Mi"}), json!({})),
        ])),
        "count/pods=1,cpu=300m,hugepages-2Mi=2Mi,limits.cpu=1,memory=1Gi,pods=1,requests.cpu=300m,\
         requests.example.com/gpu=1,requests.hugepages-2Mi=2Mi,requests.memory=1Gi",
    );
}

#[test]
fn init_containers_sidecars_and_overhead() {
    let mut object = pod(json!([container("a", json!({"cpu": "1"}), json!({"cpu": "2"}))]));
    object["spec"]["initContainers"] = json!([
        container("first", json!({"cpu": "3"}), json!({})),
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        container("last", json!({"cpu": "2"}), json!({})),
    ]);
    let cpu = |object: &Value| usage(&resource("pods"), object, now()).get("cpu").unwrap().to_string();
    // At the start 3, then 2.5 with the sidecar, then 1.5.
    assert_eq!(cpu(&object), "3");
    object["spec"]["overhead"] = json!({"cpu": "250m"});
    assert_eq!(cpu(&object), "3250m");
    assert_eq!(usage(&resource("pods"), &object, now()).get("limits.cpu").unwrap().to_string(), "2250m");
    object["spec"]["resources"] = json!({"requests": {"cpu": "5"}});
    assert_eq!(cpu(&object), "5250m");
}

#[test]
fn pods_at_their_end_are_only_counted() {
    let check = |change: fn(&mut Value), expected: &str| {
        let mut object = pod(json!([{"name": "a"}]));
        change(&mut object);
        assert_eq!(usage(&resource("pods"), &object, now()).to_string(), expected);
    };
    check(|pod| pod["status"] = json!({"phase": "Running"}), "count/pods=1,pods=1");
    check(|pod| pod["status"] = json!({"phase": "Succeeded"}), "count/pods=1");
    check(|pod| pod["status"] = json!({"phase": "Failed"}), "count/pods=1");
    check(
        |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-03-01T11:59:45Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        },
        "count/pods=1,pods=1",
    );
    check(
        |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-03-01T11:59:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        },
        "count/pods=1",
    );
}

fn create(of: &str, object: &Value, quotas: &[Value]) -> Result<Vec<String>, String> {
    let resource = resource(of);
    let request =
        Request { resource: &resource, subresource: "", operation: Operation::Create, object, old: None };
    let charges = check(&request, quotas, now()).map_err(|refusal| refusal.message)?;
    Ok(charges.iter().map(|charge| format!("{}: {}", charge.quota, charge.used)).collect())
}

#[test]
fn creation() {
    fn check(of: &str, object: Value, quotas: &[Value], expected: Result<&[&str], &str>) {
        let expected = expected.map(|charges| charges.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(create(of, &object, quotas), expected.map_err(str::to_owned));
    }
    let two_pods = |used: u8| quota(json!({"hard": {"pods": "2"}}), json!({"pods": used.to_string()}));
    let plain = || pod(json!([{"name": "a"}]));
    check("pods", plain(), &[], Ok(&[]));
    check("pods", plain(), &[two_pods(1)], Ok(&["0: pods=2"]));
    check(
        "pods",
        plain(),
        &[two_pods(2)],
        Err("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
    );
    check("secrets", json!({}), &[two_pods(2)], Ok(&[]));
    check(
        "events",
        json!({}),
        &[quota(json!({"hard": {"count/events": "0"}}), json!({"count/events": "0"}))],
        Ok(&[]),
    );
    check(
        "replicasets.apps",
        json!({}),
        &[quota(json!({"hard": {"count/replicasets.apps": "1"}}), json!({"count/replicasets.apps": "1"}))],
        Err(
            "exceeded quota: q, requested: count/replicasets.apps=1, used: count/replicasets.apps=1, limited: count/replicasets.apps=1",
        ),
    );
    let cpu = |used: &str| {
        quota(
            json!({"hard": {"requests.cpu": "1", "limits.cpu": "2"}}),
            json!({"requests.cpu": used, "limits.cpu": "0"}),
        )
    };
    check(
        "pods",
        pod(json!([container("a", json!({"cpu": "600m"}), json!({"cpu": "1"}))])),
        &[cpu("500m")],
        Err(
            "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1",
        ),
    );
    check(
        "pods",
        pod(json!([container("a", json!({"cpu": "500m"}), json!({"cpu": "1"}))])),
        &[cpu("500m")],
        Ok(&["0: limits.cpu=1,requests.cpu=1"]),
    );
    check(
        "pods",
        pod(json!([container("b", json!({"cpu": "1"}), json!({})), {"name": "a"}])),
        &[cpu("0")],
        Err("failed quota: q: must specify limits.cpu for: a,b; requests.cpu for: a"),
    );
    check(
        "pods",
        plain(),
        &[quota(json!({"hard": {"pods": "2"}}), json!({}))],
        Err("status unknown for quota: q, resources: pods"),
    );
    // Every quota is charged, and the first that is full refuses.
    check("pods", plain(), &[two_pods(0), two_pods(1)], Ok(&["0: pods=1", "1: pods=2"]));
    check(
        "pods",
        plain(),
        &[two_pods(0), two_pods(2)],
        Err("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
    );
}

#[test]
fn updates_are_charged_for_what_they_add() {
    let services = resource("services");
    let service = |kind: &str| json!({"metadata": {"resourceVersion": "1"}, "spec": {"type": kind, "ports": [{"port": 1}]}});
    let limit = |used: u8| {
        quota(
            json!({"hard": {"services": "1", "services.nodeports": "1"}}),
            json!({"services": "1", "services.nodeports": used.to_string()}),
        )
    };
    let update = |old: &str, new: &str, used: u8| {
        let (old, new) = (service(old), service(new));
        let request = Request {
            resource: &services,
            subresource: "",
            operation: Operation::Update,
            object: &new,
            old: Some(&old),
        };
        check(&request, &[limit(used)], now()).map(|charges| charges.len()).map_err(|refusal| refusal.message)
    };
    assert_eq!(update("ClusterIP", "ClusterIP", 0), Ok(0));
    assert_eq!(update("ClusterIP", "NodePort", 0), Ok(1));
    assert_eq!(
        update("ClusterIP", "NodePort", 1),
        Err("exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1".to_owned())
    );
    assert_eq!(update("NodePort", "ClusterIP", 1), Ok(0));
}

#[test]
fn scopes_choose_pods() {
    fn check(scopes: Value, object: &Value, expected: bool) {
        let mut limited = quota(json!({"hard": {"pods": "9"}}), json!({"pods": "0"}));
        limited["spec"]["scopes"] = scopes["scopes"].clone();
        limited["spec"]["scopeSelector"] = scopes["scopeSelector"].clone();
        assert_eq!(!create("pods", object, &[limited]).unwrap().is_empty(), expected, "{scopes} {object}");
    }
    let named = |names: Value| json!({"scopes": names});
    let idle = pod(json!([{"name": "a"}]));
    let busy = pod(json!([container("a", json!({"cpu": "1"}), json!({}))]));
    let mut brief = idle.clone();
    brief["spec"]["activeDeadlineSeconds"] = json!(0);
    for (scope, idle_in, busy_in, brief_in) in [
        ("BestEffort", true, false, true),
        ("NotBestEffort", false, true, false),
        ("Terminating", false, false, true),
        ("NotTerminating", true, true, false),
        ("VolumeAttributesClass", false, false, false),
    ] {
        check(named(json!([scope])), &idle, idle_in);
        check(named(json!([scope])), &busy, busy_in);
        check(named(json!([scope])), &brief, brief_in);
    }
    check(named(json!(["BestEffort", "Terminating"])), &idle, false);
    check(named(json!(["BestEffort", "Terminating"])), &brief, true);

    let priority = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    let mut high = idle.clone();
    high["spec"]["priorityClassName"] = json!("high");
    for (operator, values, high_in, idle_in) in [
        ("In", json!(["high", "low"]), true, false),
        ("In", json!(["low"]), false, false),
        ("NotIn", json!(["high"]), false, true),
        ("Exists", json!(null), true, false),
        ("DoesNotExist", json!(null), false, true),
    ] {
        check(priority(operator, values.clone()), &high, high_in);
        check(priority(operator, values), &idle, idle_in);
    }

    let mut across = idle.clone();
    across["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": {"namespaces": ["x"]}}]}});
    check(named(json!(["CrossNamespacePodAffinity"])), &across, true);
    check(named(json!(["CrossNamespacePodAffinity"])), &idle, false);
}

#[test]
fn other_kinds_are_in_no_scope() {
    let mut limited = quota(json!({"hard": {"count/secrets": "0"}}), json!({"count/secrets": "0"}));
    assert!(create("secrets", &json!({}), &[limited.clone()]).is_err());
    limited["spec"]["scopes"] = json!(["BestEffort"]);
    assert!(create("secrets", &json!({}), &[limited]).is_ok());
}

#[test]
fn recount() {
    let limited = json!({"spec": {"hard": {"pods": "5", "requests.cpu": "2", "secrets": "3", "count/jobs.batch": "1", "unknown": "7"}}});
    let (pods, secrets, configmaps) = (resource("pods"), resource("secrets"), resource("configmaps"));
    let small = pod(json!([container("a", json!({"cpu": "250m"}), json!({}))]));
    let mut done = small.clone();
    done["status"] = json!({"phase": "Succeeded"});
    let secret = json!({});
    let objects =
        [(&pods, &small), (&pods, &small), (&pods, &done), (&secrets, &secret), (&configmaps, &secret)];
    assert_eq!(
        recompute(&limited, objects, now()),
        json!({
            "hard": {"count/jobs.batch": "1", "pods": "5", "requests.cpu": "2", "secrets": "3", "unknown": "7"},
            "used": {"count/jobs.batch": "0", "pods": "2", "requests.cpu": "500m", "secrets": "1"},
        })
    );
}
