//! Where a control plane on a cluster is stored: a volume of its own, or a server that many share.
//!
//! | spec | store |
//! |---|---|
//! | `backend: dedicated` | a volume |
//! | `store: NAME` | the server that Secret NAME in `kubeflex-system` names |
//! | else | the shared server if the installation has one, else a volume, and the status says so |
//!
//! A control plane is never moved by a change of these: it stays where it was made, and the status says so.

use auth::Secret;
use objects::{Value, meta};
use serde_json::json;

use crate::api::Place;
use crate::conditions::Condition;
use crate::furniture::{self, Wanted};
use crate::host::HostError;
use crate::kubeconfig::secret_value;
use crate::plane::Plane;
use crate::{credentials, names};

/// In the control plane's own namespace: which server, and what part of it.
pub const SECRET: &str = "store";
pub const URL: &str = "url";
pub const ROOM: &str = "room";
/// The claim of a volume.
pub const CLAIM: &str = "data";

/// What KubeFlex's chart leaves where it installs PostgreSQL.
pub const POSTGRES: &str = "postgres-postgresql";
pub const POSTGRES_PASSWORD: &str = "postgres-password";

#[derive(Clone, Debug)]
pub enum Backend {
    Volume,
    Server { url: Secret<String>, room: String },
}

/// The backend of a control plane, and what to say about it.
pub struct Choice {
    pub backend: Backend,
    pub note: Option<Condition>,
}

/// What is looked at to choose.
#[derive(Default)]
pub struct Found {
    /// The claim and the Secret in the control plane's namespace.
    pub claim: Option<Value>,
    pub secret: Option<Value>,
    /// The Secret that `spec.store` names, or else that of the shared server.
    pub server: Option<Value>,
    /// What KubeFlex's chart left.
    pub postgres: Option<Value>,
}

/// Where the Secrets of servers are.
pub fn server_place(name: &str) -> Place {
    Place::new("v1", "secrets", names::SYSTEM_NAMESPACE, name)
}

pub fn choose(plane: &Plane, found: &Found) -> Result<Choice, HostError> {
    let note = |r#type, reason, message: &str| Some(Condition::new(r#type, false, reason, message));
    let server = server(plane, found)?;
    let dedicated = plane.spec.backend == "dedicated" && plane.spec.store.is_empty();
    if found.claim.as_ref().is_some_and(|claim| plane.owns(claim)) {
        let note = match (dedicated, server) {
            (false, Some(_)) => {
                note("StoreShared", "NotMoved", "it was made on a volume of its own and stays there")
            }
            (false, None) => note("StoreShared", "NoSharedStore", ON_A_VOLUME),
            (true, _) => None,
        };
        return Ok(Choice { backend: Backend::Volume, note });
    }
    if let Some(secret) = found.secret.as_ref().filter(|secret| plane.owns(secret)) {
        let value = |key| secret_value(secret, key).and_then(|bytes| String::from_utf8(bytes).ok());
        if let (Some(url), Some(room)) = (value(URL), value(ROOM)) {
            let note = dedicated
                .then(|| note("StoreDedicated", "NotMoved", "it was made in a shared store and stays there"));
            // The address may be another one by now; the part of it that is the control plane's is not.
            let url = server.unwrap_or_else(|| Secret::new(url));
            return Ok(Choice { backend: Backend::Server { url, room }, note: note.flatten() });
        }
    }
    match server.filter(|_| !dedicated) {
        Some(url) => Ok(Choice { backend: Backend::Server { url, room: room(plane) }, note: None }),
        None if dedicated => Ok(Choice { backend: Backend::Volume, note: None }),
        None => {
            Ok(Choice { backend: Backend::Volume, note: note("StoreShared", "NoSharedStore", ON_A_VOLUME) })
        }
    }
}

const ON_A_VOLUME: &str = "no shared store is configured: it has a volume of its own";

/// The address of the server that is asked for.
fn server(plane: &Plane, found: &Found) -> Result<Option<Secret<String>>, HostError> {
    if let Some(secret) = &found.server {
        let url = secret_value(secret, URL).and_then(|bytes| String::from_utf8(bytes).ok());
        return match url.map(|url| url.trim().to_owned()).filter(|url| url.contains("://")) {
            Some(url) => Ok(Some(Secret::new(url))),
            None => {
                let why = format!(
                    "Secret {}/{} has no address like postgres://… or etcd://… under the key {URL:?}",
                    names::SYSTEM_NAMESPACE,
                    meta::name(secret)
                );
                Err(HostError::Refused(why))
            }
        };
    }
    if !plane.spec.store.is_empty() {
        let why = format!(
            "spec.store: there is no Secret {}/{} that names a store",
            names::SYSTEM_NAMESPACE,
            plane.spec.store
        );
        return Err(HostError::Refused(why));
    }
    let password = found.postgres.as_ref().and_then(|secret| secret_value(secret, POSTGRES_PASSWORD));
    let password = password.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(password.map(|password| {
        let (user, password) = ("postgres", escaped(&password));
        let host = format!("{POSTGRES}.{}.svc", names::SYSTEM_NAMESPACE);
        Secret::new(format!("postgres://{user}:{password}@{host}/postgres"))
    }))
}

/// As it stands in the password of an address.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// A name for the control plane's part of a server: another object of the same name has another one.
fn room(plane: &Plane) -> String {
    let uid: String = plane.uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    // PostgreSQL's names have at most 63 letters.
    let name: String = plane.name.replace('-', "_").chars().take(48).collect();
    format!("cp_{name}_{uid}")
}

impl Choice {
    /// What it needs in the control plane's namespace.
    pub fn objects(&self, plane: &Plane, found: &Found, class: Option<&str>, size: &str) -> Vec<Wanted> {
        match &self.backend {
            // What can be changed of a claim is for whoever runs the cluster.
            Backend::Volume if found.claim.as_ref().is_some_and(|claim| plane.owns(claim)) => Vec::new(),
            Backend::Volume => {
                let mut spec =
                    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
                if let Some(class) = class {
                    spec["storageClassName"] = class.into();
                }
                vec![furniture::owned(plane, "PersistentVolumeClaim", CLAIM, json!({ "spec": spec }))]
            }
            Backend::Server { url, room } => {
                let data = [(URL, url.expose()), (ROOM, room)]
                    .map(|(key, text)| (key.to_owned(), text.clone().into_bytes()));
                vec![credentials::secret(plane, SECRET, data.to_vec())]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    fn plane(spec: Value) -> Plane {
        Plane::read(json!({"metadata": {"name": "a-b", "uid": "01234567-89ab"}, "spec": spec})).unwrap()
    }

    fn secret(name: &str, data: &[(&str, &str)]) -> Value {
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(key, text)| ((*key).to_owned(), STANDARD.encode(text).into())).collect();
        json!({"metadata": {"name": name, "ownerReferences": [{"uid": "01234567-89ab"}]}, "data": data})
    }

    /// The backend, and the reason of the note.
    fn check(spec: Value, found: Found, expected: Result<&str, &str>) {
        let shown = match choose(&plane(spec.clone()), &found) {
            Ok(Choice { backend, note }) => {
                let backend = match backend {
                    Backend::Volume => "volume".to_owned(),
                    Backend::Server { url, room } => format!("{} {room}", url.expose()),
                };
                Ok([
                    backend,
                    note.map(|note| format!(" {}={}", note.r#type, note.reason)).unwrap_or_default(),
                ]
                .concat())
            }
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(shown, expected.map(str::to_owned).map_err(str::to_owned), "{spec}");
    }

    #[test]
    fn choices() {
        let volume = || Some(secret(CLAIM, &[]));
        let shared = || Some(secret("hangar-store", &[(URL, "etcd://e:2379\n")]));
        let own = || Some(secret(SECRET, &[(URL, "etcd://old"), (ROOM, "r")]));
        let postgres = || Some(secret(POSTGRES, &[(POSTGRES_PASSWORD, "a/b")]));
        let nothing = Found::default;
        check(json!({}), nothing(), Ok("volume StoreShared=NoSharedStore"));
        check(json!({"backend": "shared"}), nothing(), Ok("volume StoreShared=NoSharedStore"));
        check(json!({"backend": "dedicated"}), nothing(), Ok("volume"));
        let with = |found: Found| found;
        check(json!({}), with(Found { server: shared(), ..nothing() }), Ok("etcd://e:2379 cp_a_b_01234567"));
        check(json!({"backend": "dedicated"}), Found { server: shared(), ..nothing() }, Ok("volume"));
        check(
            json!({"backend": "shared"}),
            Found { postgres: postgres(), ..nothing() },
            Ok("postgres://postgres:a%2Fb@postgres-postgresql.kubeflex-system.svc/postgres cp_a_b_01234567"),
        );
        // What is there stays.
        check(
            json!({}),
            Found { server: shared(), claim: volume(), ..nothing() },
            Ok("volume StoreShared=NotMoved"),
        );
        check(json!({"backend": "dedicated"}), Found { claim: volume(), ..nothing() }, Ok("volume"));
        check(json!({}), Found { server: shared(), secret: own(), ..nothing() }, Ok("etcd://e:2379 r"));
        check(json!({}), Found { secret: own(), ..nothing() }, Ok("etcd://old r"));
        check(
            json!({"backend": "dedicated"}),
            Found { secret: own(), ..nothing() },
            Ok("etcd://old r StoreDedicated=NotMoved"),
        );
        check(
            json!({"store": "mine"}),
            nothing(),
            Err("spec.store: there is no Secret kubeflex-system/mine that names a store"),
        );
        check(
            json!({"store": "mine"}),
            Found { server: Some(secret("mine", &[])), ..nothing() },
            Err(
                "Secret kubeflex-system/mine has no address like postgres://… or etcd://… under the key \"url\"",
            ),
        );
    }
}
