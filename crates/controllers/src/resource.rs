//! One resource of a control plane through its client: dynamic objects, plain verbs.

use apiserver::Unconverted;
use http::{Method, Request};
use objects::{ResourceType, Value};
use runtime::Error;
use serde_json::json;

/// The collection of a resource, in a namespace or not.
pub struct Resource<'a> {
    client: &'a kube::Client,
    path: String,
    unconverted: bool,
}

/// How dependants are treated when their owner is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What must hold of an object for its deletion to happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete<'a> {
    pub uid: Option<&'a str>,
    pub resource_version: Option<&'a str>,
    pub propagation: Option<Propagation>,
    pub grace_seconds: Option<i64>,
}

impl Delete<'_> {
    fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(policy) = self.propagation {
            body["propagationPolicy"] = format!("{policy:?}").into();
        }
        if let Some(seconds) = self.grace_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        for (field, value) in [("uid", self.uid), ("resourceVersion", self.resource_version)] {
            if let Some(value) = value {
                body["preconditions"][field] = value.into();
            }
        }
        body
    }
}

impl<'a> Resource<'a> {
    /// `group_version` is `v1`, or a group and a version. An empty namespace is none.
    pub fn new(client: &'a kube::Client, group_version: &str, namespace: &str, plural: &str) -> Self {
        let root = if group_version.contains('/') { "apis" } else { "api" };
        let path = match namespace {
            "" => format!("/{root}/{group_version}/{plural}"),
            namespace => format!("/{root}/{group_version}/namespaces/{}/{plural}", segment(namespace)),
        };
        Resource { client, path, unconverted: false }
    }

    pub fn core(client: &'a kube::Client, namespace: &str, plural: &str) -> Self {
        Resource::new(client, "v1", namespace, plural)
    }

    pub fn of(client: &'a kube::Client, ty: &ResourceType, namespace: &str) -> Self {
        Resource::new(client, &ty.api_version(), namespace, &ty.plural)
    }

    /// For deletions that must not depend on a conversion webhook: see [`Unconverted`].
    #[must_use]
    pub fn unconverted(self) -> Self {
        Resource { unconverted: true, ..self }
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Result<Value, Error> {
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, kind);
        let mut request = request.body(body).map_err(Error::failed)?;
        if self.unconverted {
            request.extensions_mut().insert(Unconverted);
        }
        Ok(self.client.request(request).await?)
    }

    async fn send_json(&self, method: Method, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(method, path, "application/json", body.to_string().into_bytes()).await
    }

    fn named(&self, name: &str, subresource: &str) -> String {
        match subresource {
            "" => format!("{}/{}", self.path, segment(name)),
            part => format!("{}/{}/{part}", self.path, segment(name)),
        }
    }

    pub async fn create(&self, object: &Value) -> Result<Value, Error> {
        self.send_json(Method::POST, &self.path, object).await
    }

    pub async fn replace(&self, name: &str, subresource: &str, object: &Value) -> Result<Value, Error> {
        self.send_json(Method::PUT, &self.named(name, subresource), object).await
    }

    /// A merge patch.
    pub async fn patch(&self, name: &str, subresource: &str, patch: &Value) -> Result<Value, Error> {
        let path = self.named(name, subresource);
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch.to_string().into_bytes()).await
    }

    /// Whether it was still there to be deleted.
    pub async fn delete(&self, name: &str, options: &Delete<'_>) -> Result<bool, Error> {
        match self.send_json(Method::DELETE, &self.named(name, ""), &options.body()).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn delete_collection(&self, options: &Delete<'_>) -> Result<(), Error> {
        self.send_json(Method::DELETE, &self.path, &options.body()).await.map(drop)
    }
}

/// A name as a segment of a path. Most names need nothing; those of roles may hold almost anything.
fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                out.push(byte.into())
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Makes an object unless it is there already.
pub async fn ensure(resource: &Resource<'_>, object: &Value) -> Result<(), Error> {
    match resource.create(object).await {
        Err(error) if error.code() != Some(409) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments() {
        for (name, expected) in [("a-b.c", "a-b.c"), ("system:x", "system:x"), ("a b/ü", "a%20b%2F%C3%BC")] {
            assert_eq!(segment(name), expected);
        }
    }

    #[test]
    fn delete_options() {
        let options = Delete { uid: Some("u"), propagation: Some(Propagation::Orphan), ..Delete::default() };
        let expected = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan", "preconditions": {"uid": "u"},
        });
        assert_eq!(options.body(), expected);
    }
}
