//! Services: what an update leaves out is what was allocated; what no longer applies is let go.

use objects::Value;
use serde_json::json;

use super::same;
use crate::dotted::Dotted;

/// `clusterIP` without `clusterIPs` comes from clients that know one address only.
pub(super) fn create(service: &mut Value) {
    let first = service.text("spec.clusterIP").to_owned();
    if !first.is_empty() && service.count("spec.clusterIPs") == 0 {
        service.put("spec.clusterIPs", json!([first]));
    }
}

pub(super) fn update(new: &mut Value, old: &Value) {
    carry_addresses(new, old);
    carry_node_ports(new, old);
    let (ip, ips) = ("spec.clusterIP", "spec.clusterIPs");
    if has_address(old) && !has_address(new) {
        if same(new.at(ip), old.at(ip)) && same(new.at(ips), old.at(ips)) {
            new.remove(ip);
            new.remove(ips);
        }
        drop_unless_changed(new, old, &["spec.ipFamilies", "spec.ipFamilyPolicy"]);
    }
    if has_node_ports(old) && !has_node_ports(new) {
        let before = node_ports(old);
        if node_ports(new).iter().all(|port| before.contains(port)) {
            new.items_mut("spec.ports").for_each(|port| port.remove("nodePort"));
        }
    }
    if has_health_check(old) && !has_health_check(new) {
        drop_unless_changed(new, old, &["spec.healthCheckNodePort"]);
    }
    if is_load_balancer(old) && !is_load_balancer(new) {
        drop_unless_changed(new, old, &["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"]);
    }
    if is_reachable_from_outside(old) && !is_reachable_from_outside(new) {
        drop_unless_changed(new, old, &["spec.externalTrafficPolicy"]);
    }
    if !is_load_balancer(new) {
        new.put("status.loadBalancer", json!({}));
    }
}

fn carry_addresses(new: &mut Value, old: &Value) {
    let (ip, ips) = ("spec.clusterIP", "spec.clusterIPs");
    if !has_address(old) || !has_address(new) {
        return;
    }
    if new.text(ip).is_empty() {
        new.keep(ip, old);
    }
    // Families were found for the addresses; clients that know nothing of them leave them out.
    if new.count("spec.ipFamilies") == 0 && !new.has("spec.ipFamilyPolicy") {
        new.keep("spec.ipFamilies", old);
        new.keep("spec.ipFamilyPolicy", old);
    }
    let changed_singular_only = new.text(ip) != old.text(ip) && same(new.at(ips), old.at(ips));
    if changed_singular_only {
        let first = new.text(ip).to_owned();
        new.put(ips, json!([first]));
    } else if new.count(ips) == 0 {
        new.keep(ips, old);
    }
}

/// Ports keep the node ports they had, by name, unless another port has taken it.
fn carry_node_ports(new: &mut Value, old: &Value) {
    if has_health_check(old) && has_health_check(new) && new.number("spec.healthCheckNodePort") == 0 {
        new.keep("spec.healthCheckNodePort", old);
    }
    if !has_node_ports(old) || !has_node_ports(new) {
        return;
    }
    let taken = node_ports(new);
    for port in new.items_mut("spec.ports").filter(|port| port.number("nodePort") == 0) {
        let before = old.list("spec.ports").iter().find(|before| before.text("name") == port.text("name"));
        let number = before.map_or(0, |before| before.number("nodePort"));
        if number != 0 && !taken.contains(&number) {
            port.put("nodePort", number);
        }
    }
}

fn drop_unless_changed(new: &mut Value, old: &Value, paths: &[&str]) {
    for path in paths {
        if same(new.at(path), old.at(path)) {
            new.remove(path);
        }
    }
}

fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service.list("spec.ports").iter().map(|port| port.number("nodePort"));
    ports.filter(|port| *port != 0).collect()
}

fn has_address(service: &Value) -> bool {
    service.text("spec.type") != "ExternalName"
}

fn has_node_ports(service: &Value) -> bool {
    matches!(service.text("spec.type"), "NodePort" | "LoadBalancer")
}

fn is_load_balancer(service: &Value) -> bool {
    service.text("spec.type") == "LoadBalancer"
}

fn has_health_check(service: &Value) -> bool {
    is_load_balancer(service) && service.text("spec.externalTrafficPolicy") == "Local"
}

/// From outside the cluster: by a node port, a load balancer, or an external address.
pub(crate) fn is_reachable_from_outside(service: &Value) -> bool {
    has_node_ports(service)
        || (service.text("spec.type") == "ClusterIP" && service.count("spec.externalIPs") > 0)
}
