//! Which resource a path means, and what is asked of it.
//!
//! Mirrors how `k8s.io/apiserver/pkg/endpoints/request` reads a request. Pure.

use http::Method;
use objects::CompactString;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Resource(ResourceTarget),
    /// Health, version, discovery, OpenAPI and everything else that is no resource.
    Path(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    pub group: CompactString,
    pub version: CompactString,
    pub resource: CompactString,
    pub namespace: CompactString,
    pub name: CompactString,
    pub subresource: CompactString,
    /// What follows the subresource: the path behind `proxy`.
    pub rest: String,
    /// Came through the old `/watch/` prefix.
    pub watch_prefix: bool,
}

/// Subresources of a namespace; anything else behind `/namespaces/NAME/` is a resource inside it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl Target {
    /// Reads a decoded path.
    pub fn parse(path: &str) -> Target {
        Self::resource(path).map_or_else(|| Target::Path(path.to_owned()), Target::Resource)
    }

    /// Whether it asks for the health of the process, which is nobody's secret.
    pub fn is_health(&self) -> bool {
        matches!(self, Target::Path(path) if crate::paths::is_health(path))
    }

    fn resource(path: &str) -> Option<ResourceTarget> {
        let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        if parts.last() == Some(&"") {
            parts.pop();
        }
        let mut target = ResourceTarget::default();
        let mut rest = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                target.version = (*version).into();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                target.group = (*group).into();
                target.version = (*version).into();
                rest
            }
            _ => return None,
        };
        if let ["watch", after @ ..] = rest
            && !after.is_empty()
        {
            target.watch_prefix = true;
            rest = after;
        }
        match rest {
            ["namespaces", namespace, sub, after @ ..] if !NAMESPACE_SUBRESOURCES.contains(sub) => {
                target.namespace = (*namespace).into();
                target.resource = (*sub).into();
                rest = after;
            }
            ["namespaces", name, after @ ..] if target.group.is_empty() => {
                // A namespace is in itself, as far as authorization goes.
                target.resource = "namespaces".into();
                target.namespace = (*name).into();
                target.name = (*name).into();
                rest = after;
            }
            [resource, after @ ..] => {
                target.resource = (*resource).into();
                rest = after;
                if let [name, after @ ..] = rest {
                    target.name = (*name).into();
                    rest = after;
                }
                return Some(Self::subresource(target, rest));
            }
            [] => return None,
        }
        if target.name.is_empty()
            && let [name, after @ ..] = rest
        {
            target.name = (*name).into();
            rest = after;
        }
        Some(Self::subresource(target, rest))
    }

    fn subresource(mut target: ResourceTarget, rest: &[&str]) -> ResourceTarget {
        if let [sub, after @ ..] = rest {
            target.subresource = (*sub).into();
            target.rest = after.join("/");
        }
        target
    }
}

/// What is asked, in the words of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    pub fn of(method: &Method, target: &ResourceTarget, watch_asked: bool) -> Option<Action> {
        let named = !target.name.is_empty();
        Some(match *method {
            Method::GET | Method::HEAD if target.watch_prefix => Action::Watch,
            Method::GET | Method::HEAD if named => Action::Get,
            Method::GET | Method::HEAD if watch_asked => Action::Watch,
            Method::GET | Method::HEAD => Action::List,
            Method::POST => Action::Create,
            Method::PUT => Action::Update,
            Method::PATCH => Action::Patch,
            Method::DELETE if named => Action::Delete,
            Method::DELETE => Action::DeleteCollection,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Action::Get => "get",
            Action::List => "list",
            Action::Watch => "watch",
            Action::Create => "create",
            Action::Update => "update",
            Action::Patch => "patch",
            Action::Delete => "delete",
            Action::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it only reads.
    pub fn reads(self) -> bool {
        matches!(self, Action::Get | Action::List | Action::Watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `group version namespace resource name subresource rest`
    fn check(path: &str, expected: &str) {
        let shown = match Target::parse(path) {
            Target::Path(path) => format!("path {path}"),
            Target::Resource(t) => {
                [&t.group, &t.version, &t.namespace, &t.resource, &t.name, &t.subresource]
                    .map(|s| if s.is_empty() { "-" } else { s.as_str() })
                    .join(" ")
                    + if t.rest.is_empty() { "" } else { " " }
                    + &t.rest
                    + if t.watch_prefix { " watch" } else { "" }
            }
        };
        assert_eq!(shown, expected, "{path}");
    }

    #[test]
    fn paths() {
        check("/", "path /");
        check("/api", "path /api");
        check("/api/v1", "path /api/v1");
        check("/apis/apps/v1/", "path /apis/apps/v1/");
        check("/healthz/ping", "path /healthz/ping");
        check("/api/v1/pods", "- v1 - pods - -");
        check("/api/v1/namespaces", "- v1 - namespaces - -");
        check("/api/v1/namespaces/a", "- v1 a namespaces a -");
        check("/api/v1/namespaces/a/status", "- v1 a namespaces a status");
        check("/api/v1/namespaces/a/finalize", "- v1 a namespaces a finalize");
        check("/api/v1/namespaces/a/pods", "- v1 a pods - -");
        check("/api/v1/namespaces/a/pods/b", "- v1 a pods b -");
        check("/api/v1/namespaces/a/pods/b/log", "- v1 a pods b log");
        check("/api/v1/namespaces/a/pods/b/proxy/x/y", "- v1 a pods b proxy x/y");
        check("/api/v1/nodes/n", "- v1 - nodes n -");
        check("/apis/apps/v1/deployments", "apps v1 - deployments - -");
        check("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps v1 a deployments d scale");
        check("/apis/x.io/v1/namespaces/a", "x.io v1 - namespaces a -");
        check("/api/v1/watch/namespaces/a/pods", "- v1 a pods - - watch");
    }
}
