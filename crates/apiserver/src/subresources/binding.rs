//! Binding a pod to a node: what a scheduler writes.

use objects::{Status, Value, meta};
use wire::protobuf::Kind;

use crate::call::Call;
use crate::present;
use crate::service::{Answer, Failure};
use crate::stations::decode;
use crate::write::{self, Part, Tracking, Update, Updated};

const BINDING: Kind<'static> = Kind { api_version: "v1", kind: "Binding" };

pub async fn create(call: &Call, pod: &str) -> Answer {
    let binding = decode::object(call, BINDING)?.value;
    let options = call.write_options()?;
    let target = |field: &str| {
        binding.pointer(&format!("/target/{field}")).and_then(Value::as_str).unwrap_or_default()
    };
    if !matches!(target("kind"), "" | "Node") || target("name").is_empty() {
        return Err(Status::bad_request("the target of a binding must be a node").into());
    }
    let Some(pods) = call.surface.row("", "v1", "pods") else {
        return Err(Status::internal("pods are not served").into());
    };
    let mut on_pod = call.about(&call.target.namespace, pod);
    on_pod.row = pods.clone();
    let make = |current: &Value| -> Result<Value, Failure> {
        let assigned = current.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let refused = |why: String| Err(Status::conflict(&on_pod.group_resource(), pod, why).into());
        if meta::is_deleting(current) {
            return refused(format!("pod {pod} is being deleted, cannot be assigned to a host"));
        }
        if !assigned.is_empty() {
            return refused(format!("pod {pod} is already assigned to node {assigned:?}"));
        }
        let mut object = current.clone();
        object["spec"]["nodeName"] = target("name").into();
        let scheduled = serde_json::json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": call.timestamp(),
        });
        let mut conditions: Vec<Value> =
            object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
        conditions.push(scheduled);
        object["status"]["conditions"] = Value::Array(conditions);
        Ok(object)
    };
    let update = Update {
        name: pod,
        part: Part::Whole("binding"),
        options: &options,
        tracking: Tracking::Update,
        make: &make,
    };
    match write::update(&on_pod, &update).await? {
        Updated::Written(_) => {
            let mut status = Status::new(objects::Reason::Unknown, "");
            status.code = 201;
            present::success(call, &status)
        }
        Updated::Missing => Err(on_pod.not_found(pod)),
    }
}
