//! Objects of a control plane through its client: dynamic, by path, with the few verbs an operator needs.

use http::{Method, Request, header};
use objects::{GroupVersion, Value, meta};
use runtime::Error;
use serde_json::json;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub api_version: String,
    pub plural: String,
    /// Empty for what is in no namespace.
    pub namespace: String,
    pub name: String,
}

impl Place {
    pub fn new(api_version: &str, plural: &str, namespace: &str, name: &str) -> Place {
        Place {
            api_version: api_version.into(),
            plural: plural.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn collection(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        match self.namespace.as_str() {
            "" => format!("/{root}/{}/{}", self.api_version, self.plural),
            namespace => {
                format!("/{root}/{}/namespaces/{}/{}", self.api_version, segment(namespace), self.plural)
            }
        }
    }

    pub fn path(&self, subresource: &str) -> String {
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{subresource}", self.collection(), segment(&self.name))
    }

    /// As the store and the runtime call the kind.
    pub fn storage_kind(&self) -> String {
        match GroupVersion::parse(&self.api_version) {
            Some(gv) if !gv.group.is_empty() => format!("{}.{}", self.plural, gv.group),
            _ => self.plural.clone(),
        }
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

async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Error> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
    Ok(client.request(request.body(body.to_string().into_bytes()).map_err(Error::failed)?).await?)
}

/// None where there is nothing.
pub fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

pub async fn get_path(client: &kube::Client, path: &str) -> Result<Value, Error> {
    let request = Request::builder().uri(path).body(Vec::new()).map_err(Error::failed)?;
    Ok(client.request(request).await?)
}

pub async fn get(client: &kube::Client, place: &Place) -> Result<Option<Value>, Error> {
    optional(get_path(client, &place.path("")).await)
}

pub async fn create(client: &kube::Client, place: &Place, object: &Value) -> Result<Value, Error> {
    send(client, Method::POST, &place.collection(), "application/json", object).await
}

/// Puts a whole object in the place of the one that it was made of.
pub async fn replace(client: &kube::Client, place: &Place, object: &Value) -> Result<Value, Error> {
    send(client, Method::PUT, &place.path(""), "application/json", object).await
}

/// Posts to a subresource, such as `token`.
pub async fn post(
    client: &kube::Client,
    place: &Place,
    subresource: &str,
    body: &Value,
) -> Result<Value, Error> {
    send(client, Method::POST, &place.path(subresource), "application/json", body).await
}

/// Server-side apply. Forced, it takes fields from whoever has them.
pub async fn apply(
    client: &kube::Client,
    place: &Place,
    object: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Error> {
    let path = format!("{}?fieldManager={manager}&force={force}", place.path(""));
    send(client, Method::PATCH, &path, "application/apply-patch+yaml", object).await
}

/// The same tried out, without taking fields from anybody.
pub async fn try_apply(
    client: &kube::Client,
    place: &Place,
    object: &Value,
    manager: &str,
) -> Result<Value, Error> {
    let path = format!("{}?fieldManager={manager}&dryRun=All", place.path(""));
    send(client, Method::PATCH, &path, "application/apply-patch+yaml", object).await
}

pub async fn merge(
    client: &kube::Client,
    place: &Place,
    subresource: &str,
    patch: &Value,
) -> Result<Value, Error> {
    let path = format!("{}?fieldManager={}", place.path(subresource), crate::names::MANAGER);
    send(client, Method::PATCH, &path, "application/merge-patch+json", patch).await
}

/// Puts a whole status in the place of the old one, whatever else happened to the object meanwhile.
pub async fn replace_status(client: &kube::Client, place: &Place, status: &Value) -> Result<Value, Error> {
    let path = format!("{}?fieldManager={}", place.path("status"), crate::names::MANAGER);
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    send(client, Method::PATCH, &path, "application/json-patch+json", &patch).await
}

/// Deletes in the background; returns whether there was something to delete.
pub async fn delete(client: &kube::Client, place: &Place, uid: Option<&str>) -> Result<bool, Error> {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    if let Some(uid) = uid {
        options["preconditions"]["uid"] = uid.into();
    }
    let deleted = send(client, Method::DELETE, &place.path(""), "application/json", &options).await;
    Ok(optional(deleted)?.is_some())
}

/// The place of an object whose resource the server is asked for; none if it does not serve the kind.
pub async fn place_of(
    client: &kube::Client,
    object: &Value,
    namespace: &str,
) -> Result<Option<Place>, Error> {
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let Some(list) = optional(get_path(client, &format!("/{root}/{}", version_path(api_version))).await)?
    else {
        return Ok(None);
    };
    let resources = list["resources"].as_array().into_iter().flatten();
    let mut found = resources.filter(|one| one["kind"] == kind);
    let Some(resource) = found.find(|one| one["name"].as_str().is_some_and(|name| !name.contains('/')))
    else {
        return Ok(None);
    };
    let namespace = if resource["namespaced"] == true { namespace } else { "" };
    Ok(Some(Place::new(
        api_version,
        resource["name"].as_str().unwrap_or_default(),
        namespace,
        meta::name(object),
    )))
}

fn version_path(api_version: &str) -> String {
    api_version.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Whether everything that is wanted stands in what is there. Lists have to be as long.
pub fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| live.get(name).is_some_and(|live| covers(live, value)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let check =
            |place: Place, subresource: &str, expected: &str| assert_eq!(place.path(subresource), expected);
        check(Place::new("v1", "namespaces", "", "a"), "", "/api/v1/namespaces/a");
        check(Place::new("v1", "secrets", "n", "a"), "", "/api/v1/namespaces/n/secrets/a");
        check(
            Place::new("apps/v1", "deployments", "n", "a"),
            "status",
            "/apis/apps/v1/namespaces/n/deployments/a/status",
        );
        check(Place::new("v1", "x", "", "a b/ü"), "", "/api/v1/x/a%20b%2F%C3%BC");
        assert_eq!(Place::new("apps/v1", "deployments", "n", "a").storage_kind(), "deployments.apps");
        assert_eq!(Place::new("v1", "secrets", "n", "a").storage_kind(), "secrets");
    }

    #[test]
    fn what_is_there_covers_what_is_wanted() {
        let check = |live: Value, wanted: Value, expected: bool| {
            assert_eq!(covers(&live, &wanted), expected, "{live} {wanted}");
        };
        check(json!({"a": 1, "b": 2}), json!({"a": 1}), true);
        check(json!({"a": 1}), json!({"a": 2}), false);
        check(json!({"a": 1}), json!({"b": 1}), false);
        check(json!([{"a": 1, "nodePort": 3}]), json!([{"a": 1}]), true);
        check(json!([1, 2]), json!([1]), false);
    }
}
