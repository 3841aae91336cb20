//! Field selectors beyond `metadata.name` and `metadata.namespace`.

use std::borrow::Cow;

use serde_json::Value;

use crate::dotted::Dotted;

/// A field that clients may select by, and how its text is found in an object.
pub struct Selectable {
    pub field: &'static str,
    /// All that is read of an object: paths with dots between the names of members.
    pub paths: &'static [&'static str],
    pub(crate) read: fn(&Value) -> Cow<'_, str>,
}

impl Selectable {
    /// The field of an object as selectors compare it; the empty text where it is absent.
    pub fn of<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        (self.read)(object)
    }
}

/// `field` is the text at the path of that name, `field of [paths] => read` is made of what stands at these paths.
macro_rules! selectable {
    ($name:ident: $($field:literal $(of $paths:tt => $read:expr)?),+ $(,)?) => {
        pub(super) static $name: &[Selectable] = &[$(selectable!(@row $field $(of $paths => $read)?)),+];
    };
    (@row $field:literal) => {
        Selectable { field: $field, paths: &[$field], read: |object| object.text($field).into() }
    };
    (@row $field:literal of $paths:tt => $read:expr) => {
        Selectable { field: $field, paths: &$paths, read: $read }
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
    "spec.nodeName",
    "spec.host" of ["spec.nodeName"] => |pod| pod.text("spec.nodeName").into(),
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork" of ["spec.hostNetwork"] => |pod| flag(pod, "spec.hostNetwork"),
    "status.phase",
    "status.podIP" of ["status.podIPs", "status.podIP"] => |pod| match pod.list("status.podIPs").first() {
        Some(first) => first.text("ip").into(),
        None => pod.text("status.podIP").into(),
    },
    // Upstream accepts this one and never fills it.
    "status.podIPs" of [] => |_| "".into(),
    "status.nominatedNodeName",
);
selectable!(NODE: "spec.unschedulable" of ["spec.unschedulable"] => |node| flag(node, "spec.unschedulable"));
selectable!(NAMESPACE: "status.phase");
selectable!(SECRET: "type");
selectable!(SERVICE: "spec.clusterIP", "spec.type");
selectable!(REPLICAS: "status.replicas" of ["status.replicas"] => |set| number(set, "status.replicas"));
selectable!(JOB: "status.successful" of ["status.succeeded"] => |job| number(job, "status.succeeded"));
selectable!(SIGNER: "spec.signerName");
selectable!(RESOURCE_SLICE:
    "spec.nodeName",
    "spec.driver",
    "spec.pool.name",
);
selectable!(CORE_EVENT:
    "involvedObject.kind" of ["involvedObject.kind", "regarding.kind"] => |event| either(event, "involvedObject.kind", "regarding.kind"),
    "involvedObject.namespace" of ["involvedObject.namespace", "regarding.namespace"] => |event| either(event, "involvedObject.namespace", "regarding.namespace"),
    "involvedObject.name" of ["involvedObject.name", "regarding.name"] => |event| either(event, "involvedObject.name", "regarding.name"),
    "involvedObject.uid" of ["involvedObject.uid", "regarding.uid"] => |event| either(event, "involvedObject.uid", "regarding.uid"),
    "involvedObject.apiVersion" of ["involvedObject.apiVersion", "regarding.apiVersion"] => |event| either(event, "involvedObject.apiVersion", "regarding.apiVersion"),
    "involvedObject.resourceVersion" of ["involvedObject.resourceVersion", "regarding.resourceVersion"] => |event| either(event, "involvedObject.resourceVersion", "regarding.resourceVersion"),
    "involvedObject.fieldPath" of ["involvedObject.fieldPath", "regarding.fieldPath"] => |event| either(event, "involvedObject.fieldPath", "regarding.fieldPath"),
    "reason",
    "reportingComponent" of ["reportingComponent", "reportingController"] => |event| either(event, "reportingComponent", "reportingController"),
    "source" of ["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"] => |event| match either(event, "source.component", "deprecatedSource.component") {
        source if source.is_empty() => either(event, "reportingComponent", "reportingController"),
        source => source,
    },
    "type",
);
selectable!(EVENT:
    "regarding.kind" of ["regarding.kind", "involvedObject.kind"] => |event| either(event, "regarding.kind", "involvedObject.kind"),
    "regarding.namespace" of ["regarding.namespace", "involvedObject.namespace"] => |event| either(event, "regarding.namespace", "involvedObject.namespace"),
    "regarding.name" of ["regarding.name", "involvedObject.name"] => |event| either(event, "regarding.name", "involvedObject.name"),
    "regarding.uid" of ["regarding.uid", "involvedObject.uid"] => |event| either(event, "regarding.uid", "involvedObject.uid"),
    "regarding.apiVersion" of ["regarding.apiVersion", "involvedObject.apiVersion"] => |event| either(event, "regarding.apiVersion", "involvedObject.apiVersion"),
    "regarding.resourceVersion" of ["regarding.resourceVersion", "involvedObject.resourceVersion"] => |event| either(event, "regarding.resourceVersion", "involvedObject.resourceVersion"),
    "regarding.fieldPath" of ["regarding.fieldPath", "involvedObject.fieldPath"] => |event| either(event, "regarding.fieldPath", "involvedObject.fieldPath"),
    "reason",
    "reportingController" of ["reportingController", "reportingComponent"] => |event| either(event, "reportingController", "reportingComponent"),
    "type",
);
