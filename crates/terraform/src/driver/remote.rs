//! Where the state of a resource is kept: beside its object, or in the backend that the object names. In the latter case
//! what stands beside the object is the journal alone.
//!
//! The state in a backend carries the token of the creation that made the resource as its lineage, so that a crash after
//! the state was written, and before the journal was, is told from one in the middle of the call.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use provision::{Failure, Surroundings};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::kept::{Kept, KeptResource, Lies};
use super::{Looking, Terraform};
use crate::backend::file::{self, Instance, Resource, StateFile};
use crate::backend::{Access, Backend, Held, Lock};
use crate::dialect::IMPORT_ID;

/// What an instance that was left behind by a replacement is called; there is never more than one.
const DEPOSED: &str = "00000001";
const TAINTED: &str = "tainted";

/// The backend of an object, for one pass.
pub struct Remote {
    /// Of the Secret that configures it.
    name: String,
    backend: Arc<dyn Backend>,
    held: Mutex<Option<Box<dyn Held>>>,
    /// Of the state that lies there.
    mark: parking_lot::Mutex<Option<Mark>>,
}

#[derive(Clone, Debug)]
struct Mark {
    serial: u64,
    lineage: String,
}

fn access<'a>(subject: &'a Looking<'_>) -> Access<'a> {
    Access { namespace: meta::namespace(subject.object), reader: subject.reader, client: subject.client }
}

fn unusable(why: impl std::fmt::Display) -> Failure {
    Failure::terminal(format!("the state in the backend cannot be used: {why}")).at("spec.backendRef")
}

impl Terraform {
    /// The backend that the object names, if it does.
    pub(super) async fn remote(&self, around: &Surroundings<'_>) -> Result<Option<Remote>, Failure> {
        let name = around.object.pointer("/spec/backendRef/name").and_then(Json::as_str).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let namespace = meta::namespace(around.object);
        let secret = around.reader.get("secrets", namespace, name).await?;
        let secret = secret.ok_or_else(|| {
            Failure::recoverable(format!("Secret {namespace}/{name} does not exist")).at("spec.backendRef")
        })?;
        let backend = self.backends.open(&secret, &self.caller(around.control_plane))?;
        Ok(Some(Remote { name: name.to_owned(), backend, held: Mutex::new(None), mark: Default::default() }))
    }

    /// What is kept of the resource.
    pub(super) async fn load(&self, subject: &Looking<'_>) -> Result<Kept, Failure> {
        let mut kept = Self::place(subject).load(subject.reader, &self.seal).await?;
        if let Some(remote) = &subject.connection.remote {
            Self::find(subject, remote, &mut kept).await?;
        }
        if let Some(lies) = elsewhere(subject, &kept)
            && let Some((_, found)) = self.left(subject, lies).await?
        {
            (kept.resource, kept.deposed) = instances(&found);
        }
        Ok(kept)
    }

    /// What lies in the backend that the object names.
    async fn find(subject: &Looking<'_>, remote: &Remote, kept: &mut Kept) -> Result<(), Failure> {
        let Some(bytes) = remote.backend.read(&access(subject)).await? else { return Ok(()) };
        let found = StateFile::parse(&bytes).map_err(unusable)?;
        let (type_name, name) = own(subject);
        // What this object wrote is its own, also before it got another type.
        let lies = kept.lies.as_ref().map(|lies| &lies.lineage);
        let known = [lies, kept.made_by.as_ref(), kept.creating.as_ref()];
        let is_own = known.into_iter().flatten().any(|lineage| *lineage == found.lineage);
        let other = |one: &&Resource| one.name != name || (one.r#type != type_name && !is_own);
        if let Some(other) = found.resources.iter().find(other) {
            let message = format!("it is of {}.{} and not of {type_name}.{name}", other.r#type, other.name);
            return Err(unusable(message));
        }
        (kept.resource, kept.deposed) = instances(&found);
        if kept.creating.as_deref() == Some(&found.lineage) {
            kept.made_by = kept.creating.take();
        }
        *remote.mark.lock() = Some(Mark { serial: found.serial, lineage: found.lineage });
        Ok(())
    }

    /// The state of the object in a backend that it no longer names, if it is there still.
    async fn left(
        &self,
        subject: &Looking<'_>,
        lies: &Lies,
    ) -> Result<Option<(Arc<dyn Backend>, StateFile)>, Failure> {
        let namespace = meta::namespace(subject.object);
        let secret = subject.reader.get("secrets", namespace, &lies.backend).await?;
        let secret = secret.ok_or_else(|| {
            let message = format!(
                "the state lies where Secret {namespace}/{} says, which does not exist; make it again, or set the \
                 annotation {IMPORT_ID} to take the resource over by its id",
                lies.backend
            );
            Failure::recoverable(message).at("spec.backendRef")
        })?;
        let backend = self.backends.open(&secret, &self.caller(subject.control_plane))?;
        let Some(bytes) = backend.read(&access(subject)).await? else { return Ok(None) };
        let found = StateFile::parse(&bytes).map_err(unusable)?;
        Ok((found.lineage == lies.lineage).then_some((backend, found)))
    }

    /// Whether what is kept has yet to be moved to where the object says.
    pub(super) fn is_to_be_moved(subject: &Looking<'_>, kept: &Kept) -> bool {
        let remote = subject.connection.remote.as_ref();
        remote.is_some_and(|remote| remote.mark.lock().is_none()) || elsewhere(subject, kept).is_some()
    }

    pub(super) async fn keep(&self, subject: &Looking<'_>, kept: &Kept) -> Result<(), Failure> {
        let Some(client) = subject.client else { return Ok(()) };
        let kept_here = match &subject.connection.remote {
            None => Kept { lies: None, ..kept.clone() },
            Some(remote) => {
                self.locked(subject, Self::keep_remote(subject, remote, kept)).await?;
                journal(remote, kept)
            }
        };
        Self::place(subject).save(client, &self.seal, &kept_here).await?;
        // It is moved, and nobody needs the old one any more.
        if let Some(lies) = elsewhere(subject, kept)
            && let Some((backend, _)) = self.left(subject, lies).await?
        {
            backend.delete(&access(subject)).await?;
        }
        Ok(())
    }

    /// Writes down that the state in the backend is the object's, if that is not known yet.
    pub(super) async fn recognize(&self, subject: &Looking<'_>, kept: &Kept) -> Result<(), Failure> {
        let (Some(client), Some(remote)) = (subject.client, &subject.connection.remote) else {
            return Ok(());
        };
        let journal = journal(remote, kept);
        if journal.lies == kept.lies {
            return Ok(());
        }
        Self::place(subject).save(client, &self.seal, &journal).await
    }

    async fn keep_remote(subject: &Looking<'_>, remote: &Remote, kept: &Kept) -> Result<(), Failure> {
        let mark = remote.mark.lock().clone();
        let instances: Vec<Instance> = kept
            .resource
            .iter()
            .map(|resource| instance_of(resource, None))
            .chain(kept.deposed.iter().map(|resource| instance_of(resource, Some(DEPOSED))))
            .collect::<Result<_, _>>()?;
        if instances.is_empty() {
            if mark.is_some() {
                remote.backend.delete(&access(subject)).await?;
                *remote.mark.lock() = None;
            }
            return Ok(());
        }
        let serial = mark.as_ref().map_or(1, |mark| mark.serial + 1);
        let made_by = kept.resource.as_ref().and(kept.made_by.clone());
        let lineage = made_by.or(mark.map(|mark| mark.lineage));
        let lineage = lineage.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let file = StateFile::new(serial, &lineage, vec![resource_of(subject, instances)]);
        let bytes = file.to_bytes().map_err(unusable)?;
        remote.backend.write(&access(subject), bytes, &lock_of(subject)).await?;
        *remote.mark.lock() = Some(Mark { serial, lineage });
        Ok(())
    }

    /// Nothing is kept any more.
    pub(super) async fn forget(&self, subject: &Looking<'_>) -> Result<(), Failure> {
        let Some(client) = subject.client else { return Ok(()) };
        if let Some(remote) = &subject.connection.remote {
            remote.backend.delete(&access(subject)).await?;
            *remote.mark.lock() = None;
        }
        Self::place(subject).remove(client).await
    }

    /// Does something while the state is locked, if its backend locks.
    pub(super) async fn locked<T: Send>(
        &self,
        subject: &Looking<'_>,
        call: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Failure> {
        let Some(remote) = &subject.connection.remote else { return call.await };
        let mut held = remote.held.lock().await;
        if held.is_some() {
            drop(held);
            return call.await;
        }
        let lock = remote.backend.lock(&access(subject), &lock_of(subject)).await?;
        *held = Some(lock.unwrap_or_else(|| Box::new(Unlocked)));
        drop(held);
        let result = call.await;
        let held = remote.held.lock().await.take();
        if let Some(held) = held
            && let Err(error) = held.release().await
        {
            tracing::warn!(name = meta::name(subject.object), %error, "a state stays locked");
        }
        result
    }

    /// The state file of an object with this state in it.
    pub(super) fn state_file(subject: &Looking<'_>, kept: &Kept) -> Result<Vec<u8>, Failure> {
        let instance = kept.resource.as_ref().map(|resource| instance_of(resource, None)).transpose()?;
        let lineage = kept.made_by.clone().unwrap_or_else(|| meta::uid(subject.object).to_owned());
        let resource = resource_of(subject, instance.into_iter().collect());
        StateFile::new(1, &lineage, vec![resource]).to_bytes().map_err(unusable)
    }
}

/// What stands beside the object while its state lies in a backend.
fn journal(remote: &Remote, kept: &Kept) -> Kept {
    let lies = |mark: &Mark| Lies { backend: remote.name.clone(), lineage: mark.lineage.clone() };
    let lies = remote.mark.lock().as_ref().map(lies);
    Kept { resource: None, deposed: None, lies, ..kept.clone() }
}

/// Where the state lies, if that is not where the object says. Who takes the resource over anew does without it.
fn elsewhere<'a>(subject: &Looking<'_>, kept: &'a Kept) -> Option<&'a Lies> {
    let here = subject.connection.remote.as_ref().map(|remote| remote.name.as_str());
    let anew = meta::annotation(subject.object, IMPORT_ID).is_some();
    kept.lies.as_ref().filter(|lies| Some(lies.backend.as_str()) != here && !anew)
}

/// The resource of a state file, and what a replacement of it left behind.
fn instances(found: &StateFile) -> (Option<KeptResource>, Option<KeptResource>) {
    let one = |deposed: bool| {
        found.resources.iter().find_map(|one| {
            let instance = one.instances.iter().find(|one| one.deposed.is_some() == deposed);
            kept_of(&one.r#type, instance?)
        })
    };
    (one(false), one(true))
}

/// Of a backend that knows no locks.
struct Unlocked;

#[async_trait]
impl Held for Unlocked {
    async fn release(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Type and name of the object's resource, as Terraform has them.
fn own(subject: &Looking<'_>) -> (String, String) {
    (subject.connection.type_name.clone(), file::name_of(meta::name(subject.object)))
}

fn resource_of(subject: &Looking<'_>, instances: Vec<Instance>) -> Resource {
    let (type_name, name) = own(subject);
    Resource {
        module: String::new(),
        mode: "managed".to_owned(),
        r#type: type_name,
        name,
        provider: file::provider_of(&subject.connection.provider.address),
        instances,
    }
}

fn lock_of(subject: &Looking<'_>) -> Lock {
    let hash = Sha256::digest(meta::uid(subject.object));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    let (kind, namespace) = (meta::kind(subject.object), meta::namespace(subject.object));
    Lock {
        id: uuid::Builder::from_random_bytes(bytes).into_uuid().to_string(),
        operation: "OperationTypeApply".to_owned(),
        info: String::new(),
        who: format!("hangar: {kind} {namespace}/{}", meta::name(subject.object)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created: objects::time::format(subject.now),
        path: String::new(),
    }
}

fn raw(text: &str) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(text.to_owned()).map_err(unusable)
}

fn instance_of(resource: &KeptResource, deposed: Option<&str>) -> Result<Instance, Failure> {
    Ok(Instance {
        type_name: None,
        index_key: None,
        status: resource.tainted.then(|| TAINTED.to_owned()),
        deposed: deposed.map(str::to_owned),
        schema_version: resource.schema_version,
        attributes: Some(raw(&resource.attributes)?),
        sensitive_attributes: Json::Array(Vec::new()),
        private: Some(resource.private.clone()).filter(|private| !private.is_empty()),
        identity_schema_version: resource.identity.is_some().then_some(resource.identity_version),
        identity: resource.identity.as_deref().map(raw).transpose()?,
    })
}

/// What is kept of an instance of a state file, of this type unless it says otherwise; none if it has no attributes.
pub(super) fn kept_of(type_name: &str, instance: &Instance) -> Option<KeptResource> {
    let private = instance.private.clone().unwrap_or_default();
    Some(KeptResource {
        type_name: instance.type_name.clone().unwrap_or_else(|| type_name.to_owned()),
        schema_version: instance.schema_version,
        attributes: instance.attributes.as_ref()?.get().to_owned(),
        // What is not base64 was not written by Terraform.
        private: STANDARD.decode(&private).map(|_| private).unwrap_or_default(),
        identity: instance.identity.as_ref().map(|identity| identity.get().to_owned()),
        identity_version: instance.identity_schema_version.unwrap_or_default(),
        tainted: instance.status.as_deref() == Some(TAINTED),
    })
}
