//! What is kept of a resource beside its object: the whole state, exact, with its secrets and the provider's own
//! notes, sealed in a Secret that goes with the object.
//!
//! The Secret is also the second half of the journal. That a creation began is written there before the provider is
//! asked, and what it made before anything else; so after a crash it is known which of three is the case: nothing was
//! asked, something was made, or it happened in the middle.

use std::collections::BTreeSet;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use objects::{Value as Json, meta};
use prost::bytes::Bytes;
use provision::{Facts, Failure, Reader};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::failures::unwritten;
use crate::plugin::{IdentitySchema, State};
use crate::schema::Schema;
use crate::value::Value;

/// Who writes, as server-side apply knows it.
const MANAGER: &str = "hangar-terraform";
const KEY: &str = "state";
const NONCE: usize = 12;
const LONGEST_NAME: usize = 253;

/// Seals states; the key is the installation's.
pub struct Seal(RandomizedNonceKey);

impl Seal {
    pub fn new(key: &[u8; 32]) -> Result<Seal, Failure> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, key);
        key.map(Seal).map_err(|_| Failure::terminal("the key for states cannot be used"))
    }

    fn seal(&self, bound: &str, plain: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut sealed = plain.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(bound), &mut sealed);
        let nonce = nonce.map_err(|_| Failure::recoverable("the state cannot be sealed"))?;
        Ok([nonce.as_ref().as_slice(), &sealed].concat())
    }

    fn open(&self, bound: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        Some(self.0.open_in_place(nonce, Aad::from(bound), &mut sealed).ok()?.to_vec())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kept {
    /// A creation with this token was about to be asked for; what became of it is not known.
    pub creating: Option<String>,
    /// By what its resource can be looked for, in the provider's own terms: nothing was there by it before.
    pub sought: Option<String>,
    /// The token of the creation that made what is kept.
    pub made_by: Option<String>,
    pub resource: Option<KeptResource>,
    /// What a replacement with the new one first leaves behind, until it is deleted.
    pub deposed: Option<KeptResource>,
    /// Where outputs were written to: `Secret/name`.
    pub outputs: BTreeSet<String>,
    /// What the provider did otherwise than it had planned, as long as the resource is as it left it.
    pub inconsistent: Option<String>,
    /// Where the state lies, if not here.
    pub lies: Option<Lies>,
}

/// A state in a backend that is known to be this object's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lies {
    /// The Secret that says where.
    pub backend: String,
    pub lineage: String,
}

impl Kept {
    /// What was deposed is the resource again: nothing was made in its place.
    pub fn restored(mut self) -> Kept {
        if let Some(deposed) = self.deposed.take() {
            self.resource = Some(deposed);
        }
        Kept { creating: None, sought: None, ..self }
    }

    /// What became of the creation can be looked for by it.
    pub fn sought(&self, schema: Option<&IdentitySchema>) -> Option<Value> {
        Value::from_state_json(self.sought.as_ref()?.as_bytes(), &schema?.ty).ok()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptResource {
    pub type_name: String,
    pub schema_version: i64,
    /// JSON as Terraform keeps it, as text: its numbers must not pass through anything that rounds.
    pub attributes: String,
    /// Base64.
    pub private: String,
    pub identity: Option<String>,
    pub identity_version: i64,
    /// Its creation failed half-way: it is replaced.
    pub tainted: bool,
}

impl KeptResource {
    pub fn new(
        type_name: &str,
        schema: &Schema,
        identity: Option<&IdentitySchema>,
        state: &State,
        tainted: bool,
    ) -> Result<Self, Failure> {
        let attributes = state.value.to_state_json(schema.ty());
        let attributes =
            attributes.map_err(|error| Failure::recoverable(format!("the state cannot be kept: {error}")))?;
        Ok(KeptResource {
            type_name: type_name.to_owned(),
            schema_version: schema.version,
            attributes: String::from_utf8(attributes).unwrap_or_default(),
            private: STANDARD.encode(&state.private),
            identity: identity.zip(state.identity.as_ref()).and_then(|(schema, identity)| {
                String::from_utf8(identity.to_state_json(&schema.ty).ok()?).ok()
            }),
            identity_version: identity.map_or(0, |schema| schema.version),
            tainted,
        })
    }

    /// Without asking the provider, if it was kept by the same version of the schema.
    pub fn state(&self, schema: &Schema, identity: Option<&IdentitySchema>) -> Option<State> {
        if self.schema_version != schema.version {
            return None;
        }
        let value = Value::from_state_json(self.attributes.as_bytes(), schema.ty()).ok()?;
        Some(State { value, private: self.private_bytes(), identity: self.identity(identity) })
    }

    /// One of another version is left out.
    pub fn identity(&self, schema: Option<&IdentitySchema>) -> Option<Value> {
        let schema = schema.filter(|schema| schema.version == self.identity_version)?;
        Value::from_state_json(self.identity.as_ref()?.as_bytes(), &schema.ty).ok()
    }

    pub fn private_bytes(&self) -> Bytes {
        STANDARD.decode(&self.private).unwrap_or_default().into()
    }
}

/// Where the Secret of an object is, and what it is bound to.
pub struct Place<'a> {
    pub control_plane: &'a str,
    pub facts: &'a Facts,
    pub object: &'a Json,
}

impl Place<'_> {
    fn name(&self) -> String {
        // Several providers may have a kind of the same name.
        let kind = self.facts.resource.trim_end_matches(".kubeform.com");
        let name = format!("{}-{kind}-tfstate", meta::name(self.object));
        if name.len() <= LONGEST_NAME {
            return name;
        }
        let hash = Sha256::digest(format!("{}/{name}", self.facts.resource));
        let short: String = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
        format!("tfstate-{short}")
    }

    /// A state that somebody copies elsewhere opens nowhere else.
    fn bound(&self) -> String {
        let (namespace, name, uid) =
            (meta::namespace(self.object), meta::name(self.object), meta::uid(self.object));
        format!("{}/{}/{namespace}/{name}/{uid}", self.control_plane, self.facts.resource)
    }

    pub async fn load(&self, reader: &Reader<'_>, seal: &Seal) -> Result<Kept, Failure> {
        // Peeked at: its changes are our own.
        let secret = reader.peek("secrets", meta::namespace(self.object), &self.name()).await?;
        let Some(secret) = secret else { return Ok(Kept::default()) };
        let unreadable = || {
            let message =
                "the Secret with the state cannot be opened: it was changed, or comes from elsewhere";
            Failure::terminal(format!("{message} ({})", self.name()))
        };
        let text = secret.pointer("/data/state").and_then(Json::as_str).ok_or_else(unreadable)?;
        let sealed = STANDARD.decode(text).map_err(|_| unreadable())?;
        let plain = seal.open(&self.bound(), &sealed).ok_or_else(unreadable)?;
        serde_json::from_slice(&plain).map_err(|_| unreadable())
    }

    fn api(&self, client: &kube::Client) -> Api<SecretObject> {
        Api::namespaced(client.clone(), meta::namespace(self.object))
    }

    pub async fn save(&self, client: &kube::Client, seal: &Seal, kept: &Kept) -> Result<(), Failure> {
        let plain = serde_json::to_vec(kept).map_err(|error| Failure::recoverable(error.to_string()))?;
        let sealed = STANDARD.encode(seal.seal(&self.bound(), &plain)?);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": self.name(),
                "labels": {"terraform.hangar.dev/state": "true"},
                "ownerReferences": [owner(self.object, false)],
            },
            "type": "terraform.hangar.dev/state",
            "data": {KEY: sealed},
        });
        let parameters = PatchParams::apply(MANAGER).force();
        let saved = self.api(client).patch(&self.name(), &parameters, &Patch::Apply(&secret)).await;
        saved.map(drop).map_err(|error| unwritten("the state cannot be kept", error))
    }

    pub async fn remove(&self, client: &kube::Client) -> Result<(), Failure> {
        match self.api(client).delete(&self.name(), &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(unwritten("the state cannot be removed", error)),
        }
    }
}

pub fn owner(object: &Json, controller: bool) -> Json {
    json!({
        "apiVersion": meta::api_version(object), "kind": meta::kind(object),
        "name": meta::name(object), "uid": meta::uid(object), "controller": controller,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_states_open_only_where_they_belong() {
        let seal = Seal::new(&[1; 32]).unwrap();
        let sealed = seal.seal("a", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(seal.open("a", &sealed).as_deref(), Some(b"secret".as_slice()));
        assert_eq!(seal.open("b", &sealed), None);
        assert_eq!(Seal::new(&[2; 32]).unwrap().open("a", &sealed), None);
        assert_eq!(seal.open("a", &sealed[..5]), None);
    }

    #[test]
    fn kinds_of_the_same_name_are_kept_apart() {
        let object = json!({"metadata": {"name": "ford"}});
        let name = |resource: &str| {
            let dialect = std::sync::Arc::new(crate::dialect::Kubeform);
            let facts = Facts::new(resource, "User", "corner", "kubeform.com/finalizer", dialect);
            Place { control_plane: "a", facts: &facts, object: &object }.name()
        };
        assert_eq!(name("users.user.corner.kubeform.com"), "ford-users.user.corner-tfstate");
        assert_ne!(name("users.user.corner.kubeform.com"), name("users.user.framework.kubeform.com"));
    }
}
