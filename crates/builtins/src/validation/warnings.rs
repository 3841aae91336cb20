//! What is allowed but hardly meant. Clients show these sentences, and the object is taken all the same.

use objects::{Path, Value, meta, names};
use serde_json::json;

use crate::dotted::Dotted;

pub(crate) fn of_pod(pod: &Value) -> Vec<String> {
    let mut warnings = of_template(pod, &Path::root());
    let wrong = names::dns1123_label(meta::name(pod));
    if !wrong.is_empty() {
        warnings.insert(0, format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings
}

/// Of what makes pods: its name goes into theirs.
pub(crate) fn of_workload(object: &Value) -> Vec<String> {
    let path =
        if object.has("spec.jobTemplate") { "spec.jobTemplate.spec.template" } else { "spec.template" };
    let mut warnings = of_template(object.at(path), &Path::new(path));
    let wrong = names::dns1123_label(meta::name(object));
    if !wrong.is_empty() {
        warnings.insert(0, format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings
}

pub(crate) fn of_endpoints(_: &Value) -> Vec<String> {
    vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()]
}

pub(crate) fn of_component_status(_: &Value) -> Vec<String> {
    vec!["v1 ComponentStatus is deprecated in v1.19+".to_owned()]
}

/// Volumes whose drivers are gone.
const GONE: [(&str, &str); 8] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Of a pod or its template: both hold a spec.
fn of_template(template: &Value, path: &Path) -> Vec<String> {
    let spec = template.at("spec");
    let path = path.child("spec");
    let mut warnings = Vec::new();
    for (i, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        if !constraint.has("labelSelector") {
            let place = path.child("topologySpreadConstraints").index(i).child("labelSelector");
            warnings.push(format!("{place}: a null labelSelector results in matching no pod"));
        }
    }
    for (i, volume) in spec.list("volumes").iter().enumerate() {
        for (kind, fate) in GONE.iter().filter(|(kind, _)| volume.has(kind)) {
            warnings.push(format!("{}: {fate}", path.child("volumes").index(i).child(kind)));
        }
    }
    for (list, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        for (i, value) in repeated(spec.list(list), key) {
            warnings.push(format!("{}: duplicate {what} {value:?}", path.child(list).index(i).child(key)));
        }
    }
    for (i, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            let place = path.child("imagePullSecrets").index(i).child("name");
            warnings.push(format!("{place}: invalid empty name \"\""));
        }
    }
    let containers: Vec<(Path, &Value)> = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|sort| {
            let list = path.child(sort);
            spec.list(sort).iter().enumerate().map(move |(i, container)| (list.index(i), container))
        })
        .collect();
    for (place, container) in &containers {
        hidden_variables(container, place, &mut warnings);
    }
    repeated_ports(&containers, &mut warnings);
    warnings
}

/// The elements whose text was there before.
fn repeated<'a>(items: &'a [Value], key: &str) -> Vec<(usize, &'a str)> {
    let texts: Vec<&str> = items.iter().map(|item| item.text(key)).collect();
    let again =
        texts.iter().enumerate().filter(|(i, text)| texts.iter().take(*i).any(|before| before == *text));
    again.map(|(i, text)| (i, *text)).collect()
}

/// A later variable of the same name wins, unless it builds on the earlier one.
fn hidden_variables(container: &Value, place: &Path, warnings: &mut Vec<String>) {
    let variables = container.list("env");
    for (i, name) in repeated(variables, "name") {
        let Some(variable) = variables.get(i) else { continue };
        let (value, reference) = (variable.text("value"), format!("$({name})"));
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            let place = place.child("env").index(i);
            warnings.push(format!(
                "{place}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn repeated_ports(containers: &[(Path, &Value)], warnings: &mut Vec<String>) {
    let ports: Vec<(Path, &Value)> = containers
        .iter()
        .flat_map(|(place, container)| {
            let list = place.child("ports");
            container.list("ports").iter().enumerate().map(move |(i, port)| (list.index(i), port))
        })
        .collect();
    let inside = |port: &Value| json!([port.at("containerPort"), port.at("protocol")]);
    let outside = |port: &Value| (port.number("hostPort"), port.text("hostIP").to_owned());
    for (i, (place, port)) in ports.iter().enumerate() {
        for (other_place, other) in ports.iter().take(i).filter(|(_, other)| inside(other) == inside(port)) {
            if outside(port) == outside(other) {
                warnings.push(format!("{place}: duplicate port definition with {other_place}"));
            } else if port.number("hostPort") == 0 || other.number("hostPort") == 0 {
                warnings.push(format!("{place}: overlapping port definition with {other_place}"));
            }
        }
    }
    for (i, (place, port)) in ports.iter().enumerate() {
        let name = port.text("name");
        let first = ports.iter().take(i).find(|(_, other)| !name.is_empty() && other.text("name") == name);
        if let Some((first, _)) = first {
            warnings.push(format!(
                "{place}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour;

    #[test]
    fn of_pods() {
        let check = |spec: Value, expected: &[&str]| {
            let pod = json!({"metadata": {"name": "a"}, "spec": spec});
            assert_eq!(behaviour("", "Pod").warnings(&pod), expected, "{pod}");
        };
        let one = |container: Value| json!({"containers": [container]});
        check(one(json!({})), &[]);
        check(
            one(json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})),
            &[
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            ],
        );
        check(one(json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)x"}]})), &[]);
        check(
            json!({"containers": [{"ports": [{"containerPort": 1, "name": "x"}]}, {"ports": [{"containerPort": 1, "name": "x"}]}]}),
            &[
                "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port name \"x\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
            ],
        );
        check(
            json!({"imagePullSecrets": [{"name": "s"}, {"name": "s"}]}),
            &["spec.imagePullSecrets[1].name: duplicate name \"s\""],
        );
        check(
            json!({"topologySpreadConstraints": [{}]}),
            &[
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            ],
        );
        check(
            json!({"volumes": [{"rbd": {}}]}),
            &["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
        );
    }

    #[test]
    fn of_other_kinds() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        let check = |group: &str, kind: &str, object: Value, expected: &[&str]| {
            assert_eq!(behaviour(group, kind).warnings(&object), expected, "{kind}");
        };
        check(
            "",
            "Pod",
            named("a.b"),
            &[
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            ],
        );
        check(
            "apps",
            "Deployment",
            named("a.b"),
            &[
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            ],
        );
        check(
            "",
            "Endpoints",
            named("a"),
            &["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"],
        );
        check("", "ConfigMap", named("a.b"), &[]);
        let cron = json!({"metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {"volumes": [{"cephfs": {}}]}}}}}});
        check(
            "batch",
            "CronJob",
            cron,
            &[
                "spec.jobTemplate.spec.template.spec.volumes[0].cephfs: deprecated in v1.28, non-functional in v1.31+",
            ],
        );
    }
}
