//! LimitRanger: defaults for containers that say nothing, and bounds for what they may say.

use objects::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::pod::{self, Side};
use crate::{Amounts, Operation, Refusal};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Whether LimitRanges have anything to say about such a request. `old` is the object before an update.
pub fn handles(kind: &str, subresource: &str, operation: Operation, old: Option<&Value>) -> bool {
    if operation == Operation::Delete || old.is_some_and(objects::meta::is_deleting) {
        return false;
    }
    match (kind, subresource) {
        ("Pod", "resize") => operation == Operation::Update,
        // Containers do not change after creation; checking again could only fail.
        ("Pod", "") => operation == Operation::Create,
        ("PersistentVolumeClaim", "") => true,
        _ => false,
    }
}

/// Gives the containers of a pod what the LimitRanges of its namespace say they have by default, and
/// notes in an annotation what was set.
pub fn default_pod<'a>(pod: &mut Value, limit_ranges: impl IntoIterator<Item = &'a Value>) {
    for limit_range in limit_ranges {
        let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
        for limit in limits_of(limit_range, "Container") {
            for (name, amount) in Amounts::of(limit.get("defaultRequest")).iter() {
                requests.set(name, amount);
            }
            for (name, amount) in Amounts::of(limit.get("default")).iter() {
                limits.set(name, amount);
            }
        }
        let mut notes = Vec::new();
        for (field, called) in [("containers", "container"), ("initContainers", "init container")] {
            if pod::list(pod, field).is_empty() {
                continue;
            }
            for container in pod::list_mut(pod, field).into_iter().flatten() {
                default_container(container, called, &requests, &limits, &mut notes);
            }
        }
        if !notes.is_empty() {
            annotate(pod, &format!("LimitRanger plugin set: {}", notes.join("; ")));
        }
    }
}

fn default_container(
    container: &mut Value,
    called: &str,
    requests: &Amounts,
    limits: &Amounts,
    notes: &mut Vec<String>,
) {
    let name = pod::text(container, "name").to_owned();
    for (field, what, defaults) in [("requests", "request", requests), ("limits", "limit", limits)] {
        let Some(container) = container.as_object_mut() else { return };
        let Some(list) = object_in(container, "resources").and_then(|resources| object_in(resources, field))
        else {
            continue;
        };
        let mut set = Vec::new();
        for (resource, amount) in defaults.iter() {
            if !list.contains_key(resource) {
                list.insert(resource.to_owned(), json!(amount.to_string()));
                set.push(resource);
            }
        }
        if !set.is_empty() {
            notes.push(format!("{} {what} for {called} {name}", set.join(", ")));
        }
    }
    drop_empty(container);
}

/// A map in a map, made where it is absent; `None` if something else is there.
fn object_in<'a>(map: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = map.entry(field).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

/// Lists that were made and stayed empty would be noise in the stored object.
fn drop_empty(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for field in ["requests", "limits"] {
        if resources.get(field).and_then(Value::as_object).is_some_and(Map::is_empty) {
            resources.remove(field);
        }
    }
}

fn annotate(pod: &mut Value, text: &str) {
    if let Some(metadata) = objects::meta::metadata_mut(pod)
        && let Some(annotations) = object_in(metadata, "annotations")
    {
        annotations.insert(ANNOTATION.to_owned(), json!(text));
    }
}

/// Whether a Pod or a PersistentVolumeClaim stays within the LimitRanges of its namespace.
pub fn validate<'a>(
    object: &Value,
    limit_ranges: impl IntoIterator<Item = &'a Value>,
) -> Result<(), Refusal> {
    for limit_range in limit_ranges {
        let mut wrong = Vec::new();
        match objects::meta::kind(object) {
            "Pod" => check_pod(object, limit_range, &mut wrong),
            "PersistentVolumeClaim" => check_claim(object, limit_range, &mut wrong),
            _ => {}
        }
        Refusal::all(wrong)?;
    }
    Ok(())
}

fn check_pod(pod: &Value, limit_range: &Value, wrong: &mut Vec<String>) {
    for limit in limits_of(limit_range, "Container") {
        for container in pod::list(pod, "containers").iter().chain(pod::list(pod, "initContainers")) {
            let (requests, limits) =
                (pod::resources(container, Side::Requests), pod::resources(container, Side::Limits));
            Subject { kind: "Container", requests, limits }.check(limit, wrong);
        }
    }
    for limit in limits_of(limit_range, "Pod") {
        let (requests, limits) = (pod::total(pod, Side::Requests), pod::total(pod, Side::Limits));
        Subject { kind: "Pod", requests, limits }.check(limit, wrong);
    }
}

fn check_claim(claim: &Value, limit_range: &Value, wrong: &mut Vec<String>) {
    let requests = claim.get("spec").map(|spec| pod::resources(spec, Side::Requests)).unwrap_or_default();
    for limit in limits_of(limit_range, "PersistentVolumeClaim") {
        // Claims have requests and nothing else, so both bounds are for them.
        let subject =
            Subject { kind: "PersistentVolumeClaim", requests: requests.clone(), limits: Amounts::default() };
        for (name, bound) in Amounts::of(limit.get("min")).iter() {
            wrong.extend(subject.below_minimum(name, bound));
        }
        for (name, bound) in Amounts::of(limit.get("max")).iter() {
            wrong.extend(subject.request_above_maximum(name, bound));
        }
    }
}

fn limits_of<'a>(limit_range: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    pod::list(limit_range, "limits").iter().filter(move |limit| pod::text(limit, "type") == kind)
}

/// Something that is limited: a container, a pod or a claim.
struct Subject {
    kind: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Subject {
    fn check(&self, limit: &Value, wrong: &mut Vec<String>) {
        for (name, bound) in Amounts::of(limit.get("min")).iter() {
            wrong.extend(self.below_minimum(name, bound));
        }
        for (name, bound) in Amounts::of(limit.get("max")).iter() {
            wrong.extend(self.above_maximum(name, bound));
        }
        for (name, bound) in Amounts::of(limit.get("maxLimitRequestRatio")).iter() {
            wrong.extend(self.ratio_too_high(name, bound));
        }
    }

    fn below_minimum(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {bound}", self.kind);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{head}.  No request is specified"));
        };
        if request < bound {
            return Some(format!("{head}, but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| *limit < bound)?;
        Some(format!("{head}, but limit is {limit}"))
    }

    fn above_maximum(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {bound}", self.kind);
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{head}.  No limit is specified"));
        };
        if limit > bound {
            return Some(format!("{head}, but limit is {limit}"));
        }
        let request = self.requests.get(name).filter(|request| *request > bound)?;
        Some(format!("{head}, but request is {request}"))
    }

    fn request_above_maximum(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {bound}", self.kind);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{head}.  No request is specified"));
        };
        (request > bound).then(|| format!("{head}, but request is {request}"))
    }

    fn ratio_too_high(&self, name: &str, bound: Quantity) -> Option<String> {
        let head = format!("{name} max limit to request ratio per {} is {bound}", self.kind);
        let nonzero = |amounts: &Amounts| amounts.get(name).filter(|amount| !amount.is_zero());
        let Some(request) = nonzero(&self.requests) else {
            return Some(format!("{head}, but no request is specified or request is 0"));
        };
        let Some(limit) = nonzero(&self.limits) else {
            return Some(format!("{head}, but no limit is specified or limit is 0"));
        };
        let (request, limit) = comparable(request, limit);
        let ratio = limit / request;
        let most = comparable(bound, bound).0 / scale(bound);
        (ratio > most).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
    }
}

/// Two amounts as numbers of the same unit: thousandths, unless they are too large for that.
#[expect(clippy::cast_precision_loss, reason = "a ratio is approximate")]
fn comparable(left: Quantity, right: Quantity) -> (f64, f64) {
    if scale(left) == 1.0 || scale(right) == 1.0 {
        return (left.value() as f64, right.value() as f64);
    }
    (left.milli_value() as f64, right.milli_value() as f64)
}

fn scale(amount: Quantity) -> f64 {
    const MAX_MILLI: i64 = i64::MAX / 1000;
    if amount.value() > MAX_MILLI { 1.0 } else { 1000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limits: Value) -> Value {
        json!({"kind": "LimitRange", "spec": {"limits": limits}})
    }

    fn pod(containers: Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
    }

    #[test]
    fn defaults() {
        fn check(pod_in: Value, limits: Value, containers: Value, note: Option<&str>) {
            let mut pod = pod_in;
            default_pod(&mut pod, [&range(limits)]);
            assert_eq!(pod["spec"]["containers"], containers);
            assert_eq!(objects::meta::annotation(&pod, ANNOTATION), note);
        }
        let limits = json!([{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}]);
        check(
            pod(json!([{"name": "a"}])),
            limits.clone(),
            json!([{"name": "a", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]),
            Some("LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a"),
        );
        let full = json!([{"name": "a", "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "2m", "memory": "1"}}}]);
        check(pod(full.clone()), limits, full, None);
        let other = json!([{"type": "Pod", "default": {"cpu": "1"}}]);
        check(
            pod(json!([{"name": "a", "resources": {}}])),
            other,
            json!([{"name": "a", "resources": {}}]),
            None,
        );
    }

    #[test]
    fn init_containers_are_noted_as_such() {
        let mut object = pod(json!([]));
        object["spec"]["initContainers"] = json!([{"name": "i"}]);
        default_pod(&mut object, [&range(json!([{"type": "Container", "defaultRequest": {"cpu": "1"}}]))]);
        let note = objects::meta::annotation(&object, ANNOTATION);
        assert_eq!(note, Some("LimitRanger plugin set: cpu request for init container i"));
    }

    #[test]
    fn bounds() {
        fn check(object: Value, limit: Value, expected: &str) {
            let got = validate(&object, [&range(json!([limit]))])
                .map_or_else(|refusal| refusal.message, |()| "ok".into());
            assert_eq!(got, expected);
        }
        let with = |requests: Value, limits: Value| {
            pod(json!([{"name": "a", "resources": {"requests": requests, "limits": limits}}]))
        };
        let min = json!({"type": "Container", "min": {"cpu": "100m"}});
        check(with(json!({"cpu": "0.1"}), json!({})), min.clone(), "ok");
        check(
            with(json!({"cpu": "99m"}), json!({})),
            min.clone(),
            "minimum cpu usage per Container is 100m, but request is 99m",
        );
        check(
            with(json!({}), json!({})),
            min.clone(),
            "minimum cpu usage per Container is 100m.  No request is specified",
        );
        check(
            with(json!({"cpu": "1"}), json!({"cpu": "50m"})),
            min,
            "minimum cpu usage per Container is 100m, but limit is 50m",
        );
        let max = json!({"type": "Container", "max": {"memory": "1Gi"}});
        check(with(json!({}), json!({"memory": "1Gi"})), max.clone(), "ok");
        check(
            with(json!({}), json!({"memory": "2Gi"})),
            max.clone(),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        );
        check(
            with(json!({}), json!({})),
            max.clone(),
            "maximum memory usage per Container is 1Gi.  No limit is specified",
        );
        check(
            with(json!({"memory": "2Gi"}), json!({"memory": "1Gi"})),
            max,
            "maximum memory usage per Container is 1Gi, but request is 2Gi",
        );
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        check(with(json!({"cpu": "500m"}), json!({"cpu": "1"})), ratio.clone(), "ok");
        check(
            with(json!({"cpu": "500m"}), json!({"cpu": "1250m"})),
            ratio.clone(),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        );
        check(
            with(json!({}), json!({"cpu": "1"})),
            ratio,
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        );
        let whole = json!({"type": "Pod", "max": {"cpu": "2"}});
        let two = pod(json!([
            {"name": "a", "resources": {"limits": {"cpu": "1500m"}}}, {"name": "b", "resources": {"limits": {"cpu": "1"}}},
        ]));
        check(two, whole, "maximum cpu usage per Pod is 2, but limit is 2500m");
        let both = json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}});
        check(
            with(json!({}), json!({})),
            both,
            "[minimum cpu usage per Container is 1.  No request is specified, maximum cpu usage per Container is 2.  No limit is specified]",
        );
        let claim = |storage: &str| json!({"kind": "PersistentVolumeClaim", "spec": {"resources": {"requests": {"storage": storage}}}});
        let storage =
            json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}});
        check(claim("1Gi"), storage.clone(), "ok");
        check(
            claim("3Gi"),
            storage,
            "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
        );
    }

    #[test]
    fn what_is_looked_at() {
        use Operation::*;
        assert!(handles("Pod", "", Create, None));
        assert!(!handles("Pod", "", Update, Some(&json!({}))));
        assert!(handles("Pod", "resize", Update, Some(&json!({}))));
        assert!(handles("PersistentVolumeClaim", "", Update, Some(&json!({}))));
        assert!(!handles("PersistentVolumeClaim", "status", Update, Some(&json!({}))));
        let dying = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(!handles("PersistentVolumeClaim", "", Update, Some(&dying)));
        assert!(!handles("ConfigMap", "", Create, None));
    }
}
