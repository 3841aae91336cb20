//! Cluster IPs and node ports: each belongs to one Service at a time, which an IPAddress object or a port's own
//! row in the same transaction makes sure of.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use objects::field::Error;
use objects::{Path, Status, Value, meta};
use serde_json::json;
use store::{Expect, Key, Operation};

use crate::call::Call;
use crate::codec::{Codec, CodecError, SchemaTag};
use crate::service::Failure;

/// Of [`crate::genesis::SERVICE_CIDR`].
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const HOSTS: u32 = 1 << 16;
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
const ADDRESSES: &str = "ipaddresses.networking.k8s.io";
/// The storage type of taken node ports.
const PORTS: &str = "_nodeports";
const PORT: Bytes = Bytes::from_static(b"-");
/// How often a random choice is made before the search gives up.
const TRIES: usize = 64;

pub async fn allocate(
    call: &Call,
    service: &mut Value,
    old: Option<&Value>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    let kind = service.pointer("/spec/type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
    let before = old.map(cluster_ip).unwrap_or_default();
    if kind == "ExternalName" {
        if is_address(before) {
            operations.push(Operation::Delete { key: address_key(before), expect: Expect::Any });
        }
        free_ports(old, Some(service), operations);
        return Ok(());
    }
    let wanted = cluster_ip(service).to_owned();
    match wanted.as_str() {
        "None" => {}
        "" => {
            let ip = free_address(call).await?;
            set_address(service, &ip);
            operations.push(take_address(call, service, &ip)?);
        }
        ip if ip == before => {}
        ip => {
            if !in_range(ip) {
                let detail = format!(
                    "failed to allocate IP {ip}: the provided IP is not in the valid range. The range of valid IPs is {}",
                    crate::genesis::SERVICE_CIDR
                );
                return Err(invalid(call, service, "spec.clusterIPs", json!([ip]), detail));
            }
            if call.engine.store.get(call.plane.id, &address_key(ip)).await?.is_some() {
                let detail = format!("failed to allocate IP {ip}: provided IP is already allocated");
                return Err(invalid(call, service, "spec.clusterIPs", json!([ip]), detail));
            }
            operations.push(take_address(call, service, ip)?);
        }
    }
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
        if let Some(ip) = spec.get("clusterIP").cloned() {
            spec.entry("clusterIPs").or_insert_with(|| json!([ip]));
        }
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        take_ports(call, service, old, operations).await?;
    }
    free_ports(old, Some(service), operations);
    Ok(())
}

pub fn release(service: &Value, operations: &mut Vec<Operation>) {
    let ip = cluster_ip(service);
    if is_address(ip) {
        operations.push(Operation::Delete { key: address_key(ip), expect: Expect::Any });
    }
    free_ports(Some(service), None, operations);
}

fn cluster_ip(service: &Value) -> &str {
    service.pointer("/spec/clusterIP").and_then(Value::as_str).unwrap_or_default()
}

fn is_address(ip: &str) -> bool {
    ip.parse::<IpAddr>().is_ok()
}

fn in_range(ip: &str) -> bool {
    let Ok(ip) = ip.parse::<Ipv4Addr>() else { return false };
    let offset = u32::from(ip).wrapping_sub(NETWORK);
    offset > 0 && offset < HOSTS - 1
}

fn address_key(ip: &str) -> Key {
    Key::new(ADDRESSES, "", ip)
}

async fn free_address(call: &Call) -> Result<String, Failure> {
    for _ in 0..TRIES {
        let ip = Ipv4Addr::from(NETWORK + rand::random_range(256..HOSTS - 1)).to_string();
        if call.engine.store.get(call.plane.id, &address_key(&ip)).await?.is_none() {
            return Ok(ip);
        }
    }
    Err(Status::internal("failed to allocate a serviceIP: range is full").into())
}

fn set_address(service: &mut Value, ip: &str) {
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("clusterIP".to_owned(), ip.into());
        spec.insert("clusterIPs".to_owned(), json!([ip]));
    }
}

fn take_address(call: &Call, service: &Value, ip: &str) -> Result<Operation, Failure> {
    let key = address_key(ip);
    let object = address(service, ip, &call.timestamp());
    let value = call.plane.codec.encode(&key, &object, SchemaTag::default())?;
    Ok(Operation::Put { key, expect: Expect::Absent, value })
}

/// What shows that a Service that came from elsewhere has its address and its ports.
pub fn rows_of(service: &Value) -> Result<Vec<(Key, Bytes)>, CodecError> {
    let mut rows: Vec<(Key, Bytes)> = Vec::new();
    let ip = cluster_ip(service);
    if in_range(ip) {
        let object = address(service, ip, meta::text(service, "creationTimestamp"));
        rows.push((address_key(ip), Codec::open(&object, SchemaTag::default())?));
    }
    rows.extend(node_ports(service).into_iter().map(|port| (port_key(port), PORT)));
    Ok(rows)
}

fn address(service: &Value, ip: &str, made: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": ip,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": made,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "group": "", "resource": "services", "namespace": meta::namespace(service), "name": meta::name(service),
        }},
    })
}

/// The node ports a Service has, health check included.
fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let ports = ports.filter_map(|port| port.get("nodePort"));
    let health = service.pointer("/spec/healthCheckNodePort");
    ports.chain(health).filter_map(Value::as_i64).filter(|port| *port > 0).collect()
}

fn port_key(port: i64) -> Key {
    Key::new(PORTS, "", port.to_string())
}

async fn take_ports(
    call: &Call,
    service: &mut Value,
    old: Option<&Value>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    let had = old.map(node_ports).unwrap_or_default();
    let mut taken: Vec<i64> = Vec::new();
    let count = service.pointer("/spec/ports").and_then(Value::as_array).map_or(0, Vec::len);
    for index in 0..count {
        let pointer = format!("/spec/ports/{index}/nodePort");
        let wanted = service.pointer(&pointer).and_then(Value::as_i64).unwrap_or(0);
        let port = match wanted {
            0 => free_port(call, &taken).await?,
            port if had.contains(&port) || taken.contains(&port) => continue,
            port => {
                let field = format!("spec.ports[{index}].nodePort");
                if !u16::try_from(port).is_ok_and(|port| NODE_PORTS.contains(&port)) {
                    let detail =
                        "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    return Err(invalid(call, service, &field, port.into(), detail.to_owned()));
                }
                if call.engine.store.get(call.plane.id, &port_key(port)).await?.is_some() {
                    let detail = "provided port is already allocated";
                    return Err(invalid(call, service, &field, port.into(), detail.to_owned()));
                }
                port
            }
        };
        taken.push(port);
        if let Some(entry) =
            service.pointer_mut(&format!("/spec/ports/{index}")).and_then(Value::as_object_mut)
        {
            entry.insert("nodePort".to_owned(), port.into());
        }
        operations.push(take_port(port));
    }
    let text =
        |field: &str| service.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default();
    let checked = text("type") == "LoadBalancer" && text("externalTrafficPolicy") == "Local";
    let wanted = service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0);
    if checked && !had.contains(&wanted) {
        let port = if wanted == 0 { free_port(call, &taken).await? } else { wanted };
        service["spec"]["healthCheckNodePort"] = port.into();
        operations.push(take_port(port));
    }
    Ok(())
}

fn take_port(port: i64) -> Operation {
    Operation::Put { key: port_key(port), expect: Expect::Absent, value: PORT }
}

async fn free_port(call: &Call, taken: &[i64]) -> Result<i64, Failure> {
    for _ in 0..TRIES {
        let port = i64::from(rand::random_range(NODE_PORTS));
        if !taken.contains(&port) && call.engine.store.get(call.plane.id, &port_key(port)).await?.is_none() {
            return Ok(port);
        }
    }
    Err(Status::internal("failed to allocate a nodePort: range is full").into())
}

/// Ports the old Service had and the new one has not.
fn free_ports(old: Option<&Value>, new: Option<&Value>, operations: &mut Vec<Operation>) {
    let kept = new.map(node_ports).unwrap_or_default();
    for port in old.map(node_ports).unwrap_or_default() {
        if !kept.contains(&port) {
            operations.push(Operation::Delete { key: port_key(port), expect: Expect::Any });
        }
    }
}

fn invalid(call: &Call, service: &Value, field: &str, bad: Value, detail: String) -> Failure {
    let error = Error::invalid(&Path::new(field), bad, detail);
    Status::invalid(&call.row.group_kind(), meta::name(service), &[error]).into()
}
