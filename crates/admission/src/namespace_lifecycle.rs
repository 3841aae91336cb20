//! NamespaceLifecycle: nothing new in namespaces that are not there or are going away.

use objects::status::Cause;
use objects::{GroupResource, Status};
use serde_json::Value;

use crate::{Operation, Refusal};

/// Namespaces that a control plane cannot do without.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// A request, as far as its namespace is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub resource: &'a GroupResource,
    pub operation: Operation,
    /// Empty for objects of the cluster.
    pub namespace: &'a str,
    pub name: &'a str,
    pub object: &'a Value,
}

impl Request<'_> {
    fn is_about_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    /// Whether [`check`] wants to see the namespace. Access reviews are let through unseen: the answer
    /// "not found" would tell which namespaces there are.
    pub fn needs_namespace(&self) -> bool {
        let review = self.resource.group == "authorization.k8s.io"
            && self.resource.resource == "localsubjectaccessreviews";
        !self.namespace.is_empty()
            && !self.is_about_namespaces()
            && self.operation != Operation::Delete
            && !review
    }
}

/// Checks a request; `namespace` is the Namespace object, if it exists.
pub fn check(request: &Request<'_>, namespace: Option<&Value>) -> Result<(), Status> {
    let forbidden_death = request.is_about_namespaces() && request.operation == Operation::Delete;
    if forbidden_death && IMMORTAL.contains(&request.name) {
        return Err(Status::forbidden(request.resource, request.name, "this namespace may not be deleted"));
    }
    if !request.needs_namespace() {
        return Ok(());
    }
    let Some(found) = namespace else {
        return Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace));
    };
    let terminating = found.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating")
        || objects::meta::is_deleting(found);
    if request.operation != Operation::Create || !terminating {
        return Ok(());
    }
    let name = request.namespace;
    let refusal = Refusal {
        message: format!("unable to create new content in namespace {name} because it is being terminated"),
        causes: vec![Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }],
    };
    Err(refusal.into_status(request.resource, request.object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decisions() {
        fn run(
            resource: (&str, &str),
            operation: Operation,
            namespace: &str,
            name: &str,
            found: Option<Value>,
            expected: &str,
        ) {
            let resource = GroupResource::new(resource.0, resource.1);
            let object = json!({"metadata": {"name": name}});
            let request = Request { resource: &resource, operation, namespace, name, object: &object };
            let got =
                check(&request, found.as_ref()).map_or_else(|status| status.message, |()| "ok".to_owned());
            assert_eq!(got, expected);
        }
        use Operation::*;
        let phase = |phase: &str| Some(json!({"status": {"phase": phase}}));
        let namespaces = ("", "namespaces");
        let immortal = r#"namespaces "default" is forbidden: this namespace may not be deleted"#;
        run(namespaces, Delete, "", "default", None, immortal);
        run(namespaces, Delete, "", "mine", None, "ok");
        run(namespaces, Create, "", "mine", None, "ok");
        run(("", "nodes"), Create, "", "n", None, "ok");
        run(("", "pods"), Create, "a", "p", phase("Active"), "ok");
        run(("", "pods"), Create, "a", "p", None, r#"namespaces "a" not found"#);
        run(("", "pods"), Update, "a", "p", None, r#"namespaces "a" not found"#);
        run(("", "pods"), Delete, "a", "p", None, "ok");
        run(("authorization.k8s.io", "localsubjectaccessreviews"), Create, "a", "", None, "ok");
        run(
            ("apps", "deployments"),
            Create,
            "a",
            "d",
            phase("Terminating"),
            r#"deployments.apps "d" is forbidden: unable to create new content in namespace a because it is being terminated"#,
        );
        run(("apps", "deployments"), Update, "a", "d", phase("Terminating"), "ok");
    }
}
