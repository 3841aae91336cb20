//! Field selectors beyond `metadata.name` and `metadata.namespace`.

use std::borrow::Cow;

use serde_json::Value;

use crate::dotted::Dotted;

/// A field that clients may select by, and how its text is found in an object.
pub struct Selectable {
    pub field: &'static str,
    pub(crate) read: fn(&Value) -> Cow<'_, str>,
}

impl Selectable {
    /// The field of an object as selectors compare it; the empty text where it is absent.
    pub fn of<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        (self.read)(object)
    }
}

macro_rules! selectable {
    ($name:ident: $($field:literal => $read:expr),+ $(,)?) => {
        pub(super) static $name: &[Selectable] = &[$(Selectable { field: $field, read: $read }),+];
    };
    ($name:ident: $($field:literal),+ $(,)?) => {
        selectable!($name: $($field => |object| object.text($field).into()),+);
    };
}

fn flag<'a>(object: &'a Value, path: &str) -> Cow<'a, str> {
    if object.flag(path) { "true".into() } else { "false".into() }
}

fn number<'a>(object: &'a Value, path: &str) -> Cow<'a, str> {
    object.number(path).to_string().into()
}

/// The two Event APIs call the same fields by different names; an object has one set of them.
fn either<'a>(object: &'a Value, one: &str, other: &str) -> Cow<'a, str> {
    let text = object.text(one);
    if text.is_empty() { object.text(other).into() } else { text.into() }
}

selectable!(POD:
    "spec.nodeName" => |pod| pod.text("spec.nodeName").into(),
    "spec.host" => |pod| pod.text("spec.nodeName").into(),
    "spec.restartPolicy" => |pod| pod.text("spec.restartPolicy").into(),
    "spec.schedulerName" => |pod| pod.text("spec.schedulerName").into(),
    "spec.serviceAccountName" => |pod| pod.text("spec.serviceAccountName").into(),
    "spec.hostNetwork" => |pod| flag(pod, "spec.hostNetwork"),
    "status.phase" => |pod| pod.text("status.phase").into(),
    "status.podIP" => |pod| match pod.list("status.podIPs").first() {
        Some(first) => first.text("ip").into(),
        None => pod.text("status.podIP").into(),
    },
    // Upstream accepts this one and never fills it.
    "status.podIPs" => |_| "".into(),
    "status.nominatedNodeName" => |pod| pod.text("status.nominatedNodeName").into(),
);
selectable!(NODE: "spec.unschedulable" => |node| flag(node, "spec.unschedulable"));
selectable!(NAMESPACE: "status.phase");
selectable!(SECRET: "type");
selectable!(SERVICE: "spec.clusterIP", "spec.type");
selectable!(REPLICAS: "status.replicas" => |set| number(set, "status.replicas"));
selectable!(JOB: "status.successful" => |job| number(job, "status.succeeded"));
selectable!(SIGNER: "spec.signerName");
selectable!(RESOURCE_SLICE:
    "spec.nodeName" => |slice| slice.text("spec.nodeName").into(),
    "spec.driver" => |slice| slice.text("spec.driver").into(),
    "spec.pool.name" => |slice| slice.text("spec.pool.name").into(),
);
selectable!(CORE_EVENT:
    "involvedObject.kind" => |event| either(event, "involvedObject.kind", "regarding.kind"),
    "involvedObject.namespace" => |event| either(event, "involvedObject.namespace", "regarding.namespace"),
    "involvedObject.name" => |event| either(event, "involvedObject.name", "regarding.name"),
    "involvedObject.uid" => |event| either(event, "involvedObject.uid", "regarding.uid"),
    "involvedObject.apiVersion" => |event| either(event, "involvedObject.apiVersion", "regarding.apiVersion"),
    "involvedObject.resourceVersion" => |event| either(event, "involvedObject.resourceVersion", "regarding.resourceVersion"),
    "involvedObject.fieldPath" => |event| either(event, "involvedObject.fieldPath", "regarding.fieldPath"),
    "reason" => |event| event.text("reason").into(),
    "reportingComponent" => |event| either(event, "reportingComponent", "reportingController"),
    "source" => |event| match either(event, "source.component", "deprecatedSource.component") {
        source if source.is_empty() => either(event, "reportingComponent", "reportingController"),
        source => source,
    },
    "type" => |event| event.text("type").into(),
);
selectable!(EVENT:
    "regarding.kind" => |event| either(event, "regarding.kind", "involvedObject.kind"),
    "regarding.namespace" => |event| either(event, "regarding.namespace", "involvedObject.namespace"),
    "regarding.name" => |event| either(event, "regarding.name", "involvedObject.name"),
    "regarding.uid" => |event| either(event, "regarding.uid", "involvedObject.uid"),
    "regarding.apiVersion" => |event| either(event, "regarding.apiVersion", "involvedObject.apiVersion"),
    "regarding.resourceVersion" => |event| either(event, "regarding.resourceVersion", "involvedObject.resourceVersion"),
    "regarding.fieldPath" => |event| either(event, "regarding.fieldPath", "involvedObject.fieldPath"),
    "reason" => |event| event.text("reason").into(),
    "reportingController" => |event| either(event, "reportingController", "reportingComponent"),
    "type" => |event| event.text("type").into(),
);
