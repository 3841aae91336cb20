//! Amounts of resources in a pod: what is asked for, what is allowed, and the class that follows from both.

use objects::Value;
use objects::quantity::Quantity;

use crate::dotted::Dotted;

/// Writes the amounts of resource lists in their canonical form. What is no quantity is left for validation.
pub(crate) fn canonical(holder: &mut Value, lists: &[&str]) {
    for list in lists.iter().filter(|list| holder.has(list)).copied().collect::<Vec<_>>() {
        let amounts =
            holder.at_mut(list).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut());
        for amount in amounts.filter(|amount| !amount.is_null()) {
            if let Ok(quantity) = Quantity::from_value(amount) {
                *amount = in_thousandths(quantity).to_string().into();
            }
        }
    }
}

/// The same for single amounts, which may be as fine as they are.
pub(crate) fn canonical_amounts(holder: &mut Value, paths: &[&str]) {
    for path in paths.iter().filter(|path| holder.has(path)).copied().collect::<Vec<_>>() {
        if let Ok(quantity) = Quantity::from_value(holder.at(path)) {
            holder.put(path, quantity.to_string());
        }
    }
}

/// Rounded up to thousandths, the finest that resources are counted in.
fn in_thousandths(quantity: Quantity) -> Quantity {
    match quantity.milli_value() {
        // So much that it has no thousandths to speak of.
        i64::MIN | i64::MAX => quantity,
        thousandths => Quantity::from_milli(thousandths, quantity.format()),
    }
}

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
            true if asked.is_zero() => "BestEffort",
            true => "Guaranteed",
        }
    };
    let (cpu, memory) = (of_resource("cpu"), of_resource("memory"));
    if cpu == memory { cpu } else { "Burstable" }
}

/// The amount of a resource in a list; zero where there is none.
pub(crate) fn amount(list: &Value, name: &str) -> Quantity {
    list.get(name).and_then(|amount| Quantity::from_value(amount).ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn qos() {
        let check = |containers: Value, expected: &str| {
            let containers: Vec<Value> = containers
                .as_array()
                .unwrap()
                .iter()
                .map(|resources| json!({"resources": resources}))
                .collect();
            assert_eq!(qos_class(&json!({"containers": containers})), expected, "{containers:?}");
        };
        let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
        check(json!([{}]), "BestEffort");
        check(json!([full]), "Guaranteed");
        check(json!([full, full]), "Guaranteed");
        check(json!([full, {}]), "Burstable");
        check(json!([{"requests": {"cpu": "1"}}]), "Burstable");
        check(json!([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}]), "Burstable");
        check(json!([{"requests": {"cpu": "0"}}]), "BestEffort");
        check(json!([]), "BestEffort");
    }
}
