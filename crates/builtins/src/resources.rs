//! Amounts of resources in a pod: what is asked for, what is allowed, and the class that follows from both.

use objects::Value;

use crate::dotted::Dotted;

/// How a pod is treated when a node runs short.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    if spec.count("resources.requests") + spec.count("resources.limits") > 0 {
        return class_of(spec.at("resources"));
    }
    let containers = spec.list("initContainers").iter().chain(spec.list("containers"));
    let mut classes = containers.map(|container| class_of(container.at("resources")));
    let Some(first) = classes.next() else { return "BestEffort" };
    if classes.all(|class| class == first) { first } else { "Burstable" }
}

fn class_of(resources: &Value) -> &'static str {
    if resources.count("requests") + resources.count("limits") == 0 {
        return "BestEffort";
    }
    let of_resource = |name: &str| {
        let (asked, allowed) = (amount(resources.at("requests"), name), amount(resources.at("limits"), name));
        match asked == allowed {
            false => "Burstable",
            true if asked == "0" => "BestEffort",
            true => "Guaranteed",
        }
    };
    let (cpu, memory) = (of_resource("cpu"), of_resource("memory"));
    if cpu == memory { cpu } else { "Burstable" }
}

fn amount(list: &Value, name: &str) -> String {
    match list.get(name) {
        None | Some(Value::Null) => "0".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
