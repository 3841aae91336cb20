//! A control plane as the server holds it while it is being used, and how it is found, made and unmade.
//!
//! **Invariant:** nothing here lives for an idle control plane: [`ControlPlanes`] is a bounded cache over rows of
//! the store, and dropping an entry loses nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use auth::Secret;
use auth::pki::Authority;
use auth::rbac::{PolicySnapshot, RulePool};
use auth::tokens::Issuer;
use bytes::Bytes;
use objects::{CompactString, Value};
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Revision, Scope, Store, StoreError, Tenant, TenantId};
use tokio::sync::watch;

use crate::catalog::Catalogs;
use crate::codec::{Codec, CodecError};
use crate::encryption::{DataKeyRow, DataKeys, Secret64};
use crate::engine::Config;
use crate::stations::fairness::{FLOW_KINDS, FlowControl};
use crate::surface::Surface;

mod keys;

use keys::Earlier;
pub use keys::{Changes, KeyChange, KeyKind};

/// What the row of a control plane in the directory is called, in errors and where it is encrypted.
pub const PKI_KIND: &str = "_pki";
pub const CRD_KIND: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Control planes held at once, in use or lately used. Each is a few kilobytes, schemas aside, which are shared.
const HELD: usize = 4_096;

/// Flow schemas, and priority levels, that are looked at of each.
const FLOW_OBJECTS: usize = 1_000;

/// Namespaces remembered of each: those that are written to.
const NAMESPACES_SEEN: usize = 32;

#[derive(thiserror::Error, Debug)]
pub enum ControlPlaneError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the keys of control plane {0:?} cannot be read: {1}")]
    Keys(CompactString, String),
    #[error("control plane {0:?} has too many rotations under way: finish them first")]
    TooManyRotations(CompactString),
}

/// What the directory of the store keeps of a control plane.
#[derive(Serialize, Deserialize)]
struct Record {
    /// PEM: the authority that signs its client certificates.
    authority_certificate: String,
    authority_key: String,
    /// PEM: the key that signs its service accounts' tokens.
    token_key: String,
    /// What its objects are encrypted with. None in a record of the format before.
    #[serde(default)]
    data_keys: Vec<DataKeyRow>,
    /// Of the hosting control plane: the key of what drivers of clouds encrypt and fingerprint themselves. It stays the same
    /// when the installation's key is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clouds_key: Option<Secret64>,
    /// Authorities (certificates) and keys of tokens (public halves) that were replaced and still count for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier_authorities: Vec<Earlier>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier_token_keys: Vec<Earlier>,
    /// A copy that is not complete yet: nobody finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<Seal>,
    /// It began as a copy, and controllers have not been told yet to look at what is in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    untold: bool,
    #[serde(flatten)]
    charter: Charter,
}

/// What whoever made a control plane decided about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Charter {
    /// The uid of the object that it was made for; nobody else takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(default)]
    pub quota: Quota,
    /// Destinations that it may have the server connect to, beyond those of all control planes.
    #[serde(default, skip_serializing_if = "egress::Ranges::is_empty")]
    pub egress: egress::Ranges,
    #[serde(default, skip_serializing_if = "AwsUse::is_none")]
    pub aws: AwsUse,
    /// How often its authority has been replaced, on demand: certificates of an earlier one are worth nothing.
    #[serde(default)]
    pub generation: u64,
}

/// What a control plane may use of the operator's AWS credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsUse {
    /// Whether its objects may be looked after with the credentials themselves.
    pub operator_credentials: bool,
    /// ARNs of roles that may be assumed with them, perhaps with `*` in their names.
    pub roles: Vec<String>,
}

impl AwsUse {
    fn is_none(&self) -> bool {
        *self == AwsUse::default()
    }
}

/// The keys of a control plane where somebody else decides them, all PEM.
#[derive(Clone, Debug)]
pub struct Keys {
    pub authority_certificate: String,
    pub authority_key: Secret<String>,
    pub token_key: Secret<String>,
}

/// What a control plane may take of the server; what is not said is not limited beyond the server's own limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watches: Option<u32>,
}

/// A control plane in use.
pub struct ControlPlane {
    pub id: TenantId,
    pub name: CompactString,
    pub authority: Authority,
    pub issuer: Issuer,
    pub charter: Charter,
    /// By which its objects are stored.
    pub codec: Codec,
    /// A hash of the keys whose signatures count: what was verified by others is not remembered.
    pub(crate) trust: [u8; 32],
    /// When the store was last asked for newer keys, in milliseconds since 1970.
    keys_read: AtomicI64,
    surface: Derived<Surface>,
    policy: Derived<PolicySnapshot>,
    flow_control: Derived<FlowControl>,
    /// Namespaces seen to be there and active, by the revision they were seen at. Writes check that revision, so
    /// an old one costs a second look and nothing else.
    pub(crate) namespaces: Cache<CompactString, Revision>,
    /// Requests since it was taken up. Held with the rest of it, and so of none that is idle for long.
    pub(crate) asked: AtomicU64,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlPlane({:?}, {})", self.name, self.id)
    }
}

impl ControlPlane {
    /// How many requests came in since this process took it up.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns true if signatures of this key count.
    pub fn trusts(&self, signer: &auth::Signer, now: jiff::Timestamp) -> bool {
        self.authority.trusts(signer, now) || self.issuer.accepts(signer, now)
    }

    fn outdate(&self, kind: &str) {
        if kind == CRD_KIND {
            self.surface.outdate();
        } else if POLICY_KINDS.contains(&kind) {
            self.policy.outdate();
        } else if FLOW_KINDS.contains(&kind) {
            self.flow_control.outdate();
        }
    }
}

/// Something computed from objects of the control plane, until one of them is written.
struct Derived<T>(RwLock<(u64, Option<Arc<T>>)>);

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Derived(RwLock::new((0, None)))
    }
}

impl<T> Derived<T> {
    /// The value, or the epoch to compute it in.
    fn get(&self) -> Result<Arc<T>, u64> {
        self.get_if(|_| true)
    }

    /// The same, for a value that other things outdate as well.
    fn get_if(&self, good: impl Fn(&T) -> bool) -> Result<Arc<T>, u64> {
        let held = self.0.read();
        held.1.clone().filter(|value| good(value)).ok_or(held.0)
    }

    /// Keeps what was computed, unless something was written meanwhile.
    fn put(&self, value: T, epoch: u64) -> Arc<T> {
        let value = Arc::new(value);
        let mut held = self.0.write();
        if held.0 == epoch {
            held.1 = Some(value.clone());
        }
        value
    }

    fn outdate(&self) {
        let mut held = self.0.write();
        *held = (held.0 + 1, None);
    }
}

/// Storage types a policy snapshot is made of.
pub const POLICY_KINDS: [&str; 4] = [
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
];

/// The control planes of this process.
pub struct ControlPlanes {
    store: Arc<dyn Store>,
    config: Arc<Config>,
    held: Cache<CompactString, Arc<ControlPlane>>,
    /// Of those that are held, or that something happened in lately.
    identities: Cache<TenantId, Identity>,
    /// Rules that policies share: most have the default ones.
    rules: RulePool,
    /// Kinds that all of them serve.
    pub catalogs: Arc<Catalogs>,
    /// Those that somebody waits for changes of: an entry is there for as long as one of their watches.
    listening: Mutex<HashMap<CompactString, watch::Sender<()>>>,
}

/// What is needed to tell of a change in a control plane.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: CompactString,
    pub codec: Codec,
}

/// What there is under a name in one store.
pub enum Found {
    Open(Arc<ControlPlane>),
    /// A copy that is not served yet: it is on its way here.
    Sealed,
    Nothing,
}

/// A copy that nobody finds until it is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seal {
    /// The store that it is copied from.
    pub from: CompactString,
}

impl ControlPlanes {
    pub fn new(store: Arc<dyn Store>, config: Arc<Config>, catalogs: Arc<Catalogs>) -> Self {
        ControlPlanes {
            store,
            config,
            held: Cache::new(HELD),
            identities: Cache::new(HELD),
            rules: RulePool::new(),
            catalogs,
            listening: Mutex::default(),
        }
    }

    /// The control plane of this name, if there is one and it is served from here.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<ControlPlane>>, ControlPlaneError> {
        Ok(match self.locate(name).await? {
            Found::Open(plane) => Some(plane),
            Found::Sealed | Found::Nothing => None,
        })
    }

    /// The same, without asking the store.
    pub(crate) fn held(&self, name: &str) -> Option<Arc<ControlPlane>> {
        self.held.get(name)
    }

    pub(crate) async fn locate(&self, name: &str) -> Result<Found, ControlPlaneError> {
        if let Some(found) = self.held(name) {
            return Ok(Found::Open(found));
        }
        // Rows of the directory that begin like this are the server's own: the controllers' cursor.
        if name.starts_with('_') {
            return Ok(Found::Nothing);
        }
        let mut tenant = self.store.tenant(name).await?;
        while let Some(found) = tenant {
            if self.seal(&found)?.is_some() {
                return Ok(Found::Sealed);
            }
            let plane = Arc::new(self.open(&found)?);
            let identity = Identity { name: plane.name.clone(), codec: plane.codec.clone() };
            self.identities.insert(plane.id, identity);
            self.held.insert(plane.name.clone(), plane.clone());
            // Whoever deleted it while it was being opened, and maybe made it again, had nothing to forget yet.
            tenant = self.store.tenant(name).await?;
            if tenant.as_ref().is_some_and(|now| now.id == found.id) {
                return Ok(Found::Open(plane));
            }
            self.forget(name);
        }
        Ok(Found::Nothing)
    }

    /// The control plane that something happened in, if it is served from here.
    pub async fn identity_of(&self, tenant: TenantId) -> Result<Option<Identity>, StoreError> {
        if let Some(identity) = self.identities.get(&tenant) {
            return Ok(Some(identity));
        }
        let Some(row) = self.store.tenant_by_id(tenant).await? else { return Ok(None) };
        // One that is on its way here is nobody's business until it has arrived.
        let Some(codec) = self.codec_if_open(&row) else { return Ok(None) };
        let identity = Identity { name: row.name, codec };
        self.identities.insert(tenant, identity.clone());
        Ok(Some(identity))
    }

    fn record(&self, tenant: &Tenant) -> Result<Record, ControlPlaneError> {
        let unreadable = |why: String| ControlPlaneError::Keys(tenant.name.clone(), why);
        let opened = self.config.keys.open_record(&tenant.name, &tenant.record)?;
        let mut record: Record =
            serde_json::from_slice(&opened.json).map_err(|e| unreadable(e.to_string()))?;
        if let (Some(installation), true) = (opened.unbound, record.data_keys.is_empty()) {
            record.data_keys = DataKeys::of_old_record(&tenant.name, &installation).to_rows();
            record.clouds_key = Some(Secret64::new(&installation));
        }
        Ok(record)
    }

    fn data_keys(name: &str, record: &Record) -> Result<DataKeys, ControlPlaneError> {
        let keys = DataKeys::from_rows(&record.data_keys);
        keys.ok_or_else(|| ControlPlaneError::Keys(name.into(), "its data keys are damaged".to_owned()))
    }

    /// The codec of a control plane that is served from here. One whose record cannot be read is not served, which is no
    /// reason to stop looking after the others.
    pub fn codec_if_open(&self, tenant: &Tenant) -> Option<Codec> {
        self.data_keys_if_open(tenant).map(Codec::new)
    }

    pub(crate) fn data_keys_if_open(&self, tenant: &Tenant) -> Option<DataKeys> {
        if tenant.name.starts_with('_') {
            return None;
        }
        let read = self.record(tenant).and_then(|record| match record.seal {
            Some(_) => Ok(None),
            None => ControlPlanes::data_keys(&tenant.name, &record).map(Some),
        });
        match read {
            Ok(keys) => keys,
            Err(error) => {
                tracing::error!(control_plane = %tenant.name, %error, "a control plane cannot be opened");
                None
            }
        }
    }

    /// What drivers of clouds encrypt and fingerprint with, by the row of the hosting control plane.
    pub fn clouds_key(&self, hosting: &Tenant) -> Result<[u8; 32], ControlPlaneError> {
        let key = self.record(hosting)?.clouds_key.and_then(|key| key.key());
        let missing = || ControlPlaneError::Keys(hosting.name.clone(), "it has no key for clouds".to_owned());
        key.ok_or_else(missing)
    }

    /// The data keys of one that is to be copied.
    pub(crate) fn data_keys_of(&self, tenant: &Tenant) -> Result<DataKeys, ControlPlaneError> {
        ControlPlanes::data_keys(&tenant.name, &self.record(tenant)?)
    }

    /// The directory record encrypted with the installation's first key; none if it is.
    pub(crate) fn rewrapped(&self, tenant: &Tenant) -> Result<Option<Bytes>, ControlPlaneError> {
        if self.config.keys.is_current(&tenant.record) {
            return Ok(None);
        }
        self.encoded(&tenant.name, &self.record(tenant)?).map(Some)
    }

    /// The directory record in which all data keys but the first are of history only.
    pub(crate) fn record_with_retired_keys(
        &self,
        tenant: &Tenant,
        until: Revision,
    ) -> Result<Option<Bytes>, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        record.data_keys = ControlPlanes::data_keys(&tenant.name, &record)?.retiring(until).to_rows();
        self.encoded(&tenant.name, &record).map(Some)
    }

    /// The directory record without data keys that are of history only.
    pub(crate) fn record_without_retired_keys(
        &self,
        tenant: &Tenant,
    ) -> Result<Option<Bytes>, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        record.data_keys = ControlPlanes::data_keys(&tenant.name, &record)?.without_retired().to_rows();
        self.encoded(&tenant.name, &record).map(Some)
    }

    /// The directory record of a copy that can also be read with these keys; none if it can already.
    pub(crate) fn record_with_data_keys(
        &self,
        tenant: &Tenant,
        keys: &DataKeys,
    ) -> Result<Option<Bytes>, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        let own = ControlPlanes::data_keys(&tenant.name, &record)?;
        if own.covers(keys) {
            return Ok(None);
        }
        record.data_keys = own.and(keys).to_rows();
        self.encoded(&tenant.name, &record).map(Some)
    }

    fn open(&self, tenant: &Tenant) -> Result<ControlPlane, ControlPlaneError> {
        let unreadable = |why: String| ControlPlaneError::Keys(tenant.name.clone(), why);
        let record = self.record(tenant)?;
        let mut authority = Authority::from_pem(&record.authority_certificate, &record.authority_key);
        for one in &record.earlier_authorities {
            authority = authority.and_then(|authority| authority.also_trust_until(&one.pem, one.until()));
        }
        let url = self.config.issuers.url(&tenant.name, &self.config.hosting);
        let audiences = [url.clone(), IN_CLUSTER_ISSUER.to_owned()];
        let mut issuer =
            Issuer::from_pem(url, &record.token_key).map(|issuer| issuer.with_api_audiences(audiences));
        for one in &record.earlier_token_keys {
            issuer = issuer.and_then(|issuer| issuer.also_accept_until(&one.pem, one.until()));
        }
        let authority = authority.map_err(|e| unreadable(e.to_string()))?;
        let issuer = issuer.map_err(|e| unreadable(e.to_string()))?;
        let mut trust = Sha256::new();
        authority.signers().for_each(|signer| trust.update(signer.as_bytes()));
        issuer.signers().for_each(|signer| trust.update(signer.as_bytes()));
        Ok(ControlPlane {
            id: tenant.id,
            name: tenant.name.clone(),
            codec: Codec::new(ControlPlanes::data_keys(&tenant.name, &record)?),
            authority,
            issuer,
            trust: trust.finalize().into(),
            keys_read: AtomicI64::new(0),
            charter: record.charter,
            surface: Derived::default(),
            policy: Derived::default(),
            flow_control: Derived::default(),
            namespaces: Cache::new(NAMESPACES_SEEN),
            asked: AtomicU64::new(0),
        })
    }

    /// A record as the directory keeps it: encrypted, since it holds keys.
    fn encoded(&self, name: &str, record: &Record) -> Result<Bytes, ControlPlaneError> {
        let json = serde_json::to_vec(record);
        let json = json.map_err(|error| ControlPlaneError::Keys(name.into(), error.to_string()))?;
        Ok(self.config.keys.seal_record(name, json)?)
    }

    /// The directory record of a new control plane, with keys of its own. Of one that begins as a copy, controllers
    /// are still to be told.
    pub fn new_record(
        &self,
        name: &str,
        charter: Charter,
        is_copy: bool,
        data_keys: &DataKeys,
        now: jiff::Timestamp,
    ) -> Result<Bytes, ControlPlaneError> {
        let failed = |why: String| ControlPlaneError::Keys(name.into(), why);
        let authority = Authority::generate(&format!("hangar-{name}"), now, AUTHORITY_LIFETIME);
        let authority = authority.map_err(|e| failed(e.to_string()))?;
        let issuer = Issuer::generate(IN_CLUSTER_ISSUER).map_err(|e| failed(e.to_string()))?;
        let issued = authority.to_pem();
        let record = Record {
            authority_certificate: issued.certificate,
            authority_key: issued.key.into_exposed(),
            token_key: issuer.to_pem().into_exposed(),
            data_keys: data_keys.to_rows(),
            clouds_key: Some(Secret64::new(&rand::random())),
            earlier_authorities: Vec::new(),
            earlier_token_keys: Vec::new(),
            seal: None,
            untold: is_copy,
            charter,
        };
        self.encoded(name, &record)
    }

    /// The directory record of an existing control plane, with another charter and the same keys.
    pub fn record_with_charter(
        &self,
        tenant: &Tenant,
        change: impl Fn(&mut Charter),
    ) -> Result<Bytes, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        change(&mut record.charter);
        self.encoded(&tenant.name, &record)
    }

    /// The directory record of an existing control plane, with a seal or without.
    pub(crate) fn record_with_seal(
        &self,
        tenant: &Tenant,
        seal: Option<Seal>,
    ) -> Result<Bytes, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        record.seal = seal;
        self.encoded(&tenant.name, &record)
    }

    /// The directory record of an existing control plane that controllers have been told of.
    pub(crate) fn record_of_told(&self, tenant: &Tenant) -> Result<Bytes, ControlPlaneError> {
        let mut record = self.record(tenant)?;
        record.untold = false;
        self.encoded(&tenant.name, &record)
    }

    pub(crate) fn is_untold(&self, tenant: &Tenant) -> Result<bool, ControlPlaneError> {
        Ok(self.record(tenant)?.untold)
    }

    pub(crate) fn seal(&self, tenant: &Tenant) -> Result<Option<Seal>, ControlPlaneError> {
        Ok(self.record(tenant)?.seal)
    }

    /// Whether a row of the directory is a control plane that is served from here.
    pub fn is_open(&self, tenant: &Tenant) -> bool {
        self.codec_if_open(tenant).is_some()
    }

    pub(crate) fn charter(&self, tenant: &Tenant) -> Result<Charter, ControlPlaneError> {
        Ok(self.record(tenant)?.charter)
    }

    /// The directory record of an existing control plane with other keys; none if it has these already.
    pub fn record_with_keys(&self, tenant: &Tenant, keys: &Keys) -> Result<Option<Bytes>, ControlPlaneError> {
        let failed = |why: String| ControlPlaneError::Keys(tenant.name.clone(), why);
        // What cannot be read again must not be written.
        Authority::from_pem(&keys.authority_certificate, keys.authority_key.expose())
            .map_err(|e| failed(e.to_string()))?;
        Issuer::from_pem(IN_CLUSTER_ISSUER, keys.token_key.expose()).map_err(|e| failed(e.to_string()))?;
        let mut record = self.record(tenant)?;
        if record.authority_certificate == keys.authority_certificate
            && record.authority_key == *keys.authority_key.expose()
            && record.token_key == *keys.token_key.expose()
        {
            return Ok(None);
        }
        record.authority_certificate.clone_from(&keys.authority_certificate);
        record.authority_key.clone_from(keys.authority_key.expose());
        record.token_key.clone_from(keys.token_key.expose());
        self.encoded(&tenant.name, &record).map(Some)
    }

    /// The directory record of an existing control plane with a new authority for its clients; none if it has had this
    /// generation before.
    pub fn record_with_new_authority(
        &self,
        tenant: &Tenant,
        generation: u64,
        now: jiff::Timestamp,
    ) -> Result<Option<Bytes>, ControlPlaneError> {
        let failed = |why: String| ControlPlaneError::Keys(tenant.name.clone(), why);
        let mut record = self.record(tenant)?;
        if record.charter.generation >= generation {
            return Ok(None);
        }
        let authority = Authority::generate(&format!("hangar-{}", tenant.name), now, AUTHORITY_LIFETIME);
        let issued = authority.map_err(|e| failed(e.to_string()))?.to_pem();
        record.authority_certificate = issued.certificate;
        record.authority_key = issued.key.into_exposed();
        record.earlier_authorities.clear();
        record.charter.generation = generation;
        self.encoded(&tenant.name, &record).map(Some)
    }

    /// Holds a control plane whose data key encrypts nothing.
    #[cfg(test)]
    pub(crate) fn hold_broken(&self, tenant: &Tenant) -> Result<(), ControlPlaneError> {
        let plane = ControlPlane { codec: Codec::new(DataKeys::broken()), ..self.open(tenant)? };
        self.held.insert(plane.name.clone(), Arc::new(plane));
        Ok(())
    }

    /// Forget what is held of a control plane: it changed or went.
    pub fn forget(&self, name: &str) {
        self.held.remove(name);
        if let Some(sender) = self.listening.lock().get(name) {
            sender.send_replace(());
        }
    }

    /// Forget everything that is held.
    pub(crate) fn forget_all(&self) {
        self.held.clear();
        self.identities.clear();
        self.listening.lock().values().for_each(|sender| sender.send_replace(()));
    }

    /// Another process wrote an object of this kind.
    pub(crate) fn changed_elsewhere(&self, tenant: TenantId, kind: &str) {
        let held = self.identities.peek(&tenant).and_then(|one| self.held.peek(&one.name));
        if let Some(held) = held {
            held.outdate(kind);
        }
    }

    /// What the control plane serves now.
    pub async fn surface(&self, plane: &ControlPlane) -> Result<Arc<Surface>, ControlPlaneError> {
        let offered = self.catalogs.offered();
        let epoch = match plane.surface.get_if(|surface| surface.is_of(&offered)) {
            Ok(surface) => return Ok(surface),
            Err(epoch) => epoch,
        };
        let page = self.store.range(plane.id, &Scope::Kind(CRD_KIND.into()), None, None, 0).await?;
        let mut failed = None;
        // Decoded one after the other: there may be thousands, and decoded they take many times as much.
        let definitions = page.entries.iter().map_while(|entry| {
            let decoded = plane.codec.decode(&entry.key, &entry.value, entry.modified);
            decoded.map(|stored| stored.to_value().ok()).map_err(|error| failed = Some(error)).ok()
        });
        let surface = Surface::new(definitions.flatten(), offered);
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(plane.surface.put(surface, epoch)),
        }
    }

    /// Who may do what in the control plane now.
    pub async fn policy(&self, plane: &ControlPlane) -> Result<Arc<PolicySnapshot>, ControlPlaneError> {
        let epoch = match plane.policy.get() {
            Ok(policy) => return Ok(policy),
            Err(epoch) => epoch,
        };
        let mut objects = Vec::new();
        for kind in POLICY_KINDS {
            objects.extend(self.objects(plane, kind).await?);
        }
        Ok(plane.policy.put(PolicySnapshot::sharing(&objects, &self.rules), epoch))
    }

    /// Its flow schemas and priority levels.
    pub async fn flow_control(&self, plane: &ControlPlane) -> Result<Arc<FlowControl>, ControlPlaneError> {
        let epoch = match plane.flow_control.get() {
            Ok(flow_control) => return Ok(flow_control),
            Err(epoch) => epoch,
        };
        let [schemas, levels] = FLOW_KINDS;
        let schemas = self.some_objects(plane, schemas, FLOW_OBJECTS).await?;
        // Most have no schema, and levels alone do nothing.
        let levels = match schemas.is_empty() {
            true => Vec::new(),
            false => self.some_objects(plane, levels, FLOW_OBJECTS).await?,
        };
        Ok(plane.flow_control.put(FlowControl::new(&schemas, &levels), epoch))
    }

    async fn objects(&self, plane: &ControlPlane, kind: &str) -> Result<Vec<Value>, ControlPlaneError> {
        self.some_objects(plane, kind, 0).await
    }

    /// No more than `limit` of them, if it is not zero.
    async fn some_objects(
        &self,
        plane: &ControlPlane,
        kind: &str,
        limit: usize,
    ) -> Result<Vec<Value>, ControlPlaneError> {
        let page = self.store.range(plane.id, &Scope::Kind(kind.into()), None, None, limit).await?;
        let mut objects = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            let stored = plane.codec.decode(&entry.key, &entry.value, entry.modified)?;
            objects.extend(stored.to_value());
        }
        Ok(objects)
    }

    /// Told of every write, before it is acknowledged: what is held must not be older than what was answered.
    pub fn written(&self, plane: &ControlPlane, kind: &str) {
        plane.outdate(kind);
        // The writer's own may no longer be the one that is held: two requests may have opened the control plane
        // at once, and one that is not used for a while makes room for others.
        if let Some(held) = self.held.peek(&plane.name) {
            held.outdate(kind);
        }
    }
}

/// What clients in a cluster call the API server. Every control plane is an audience by this name, and tokens of earlier
/// versions name it as their issuer.
pub const IN_CLUSTER_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Ten years: the authority of a control plane lives as long as it does in practice.
const AUTHORITY_LIFETIME: std::time::Duration = std::time::Duration::from_secs(3_653 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn a_write_is_known_to_whoever_asks_next() {
        let fixture = Fixture::new().await;
        let planes = &fixture.engine.planes;
        let writer = planes.find("a").await.unwrap().unwrap();
        // As if many others had been asked for since the writer began.
        planes.forget("a");
        let held = planes.find("a").await.unwrap().unwrap();
        assert!(!Arc::ptr_eq(&writer, &held));
        let (policy, surface) = (planes.policy(&held).await.unwrap(), planes.surface(&held).await.unwrap());
        planes.written(&writer, "configmaps");
        assert!(Arc::ptr_eq(&policy, &planes.policy(&held).await.unwrap()));
        assert!(Arc::ptr_eq(&surface, &planes.surface(&held).await.unwrap()));
        planes.written(&writer, POLICY_KINDS[0]);
        assert!(!Arc::ptr_eq(&policy, &planes.policy(&held).await.unwrap()));
        assert!(Arc::ptr_eq(&surface, &planes.surface(&held).await.unwrap()));
        planes.written(&writer, CRD_KIND);
        assert!(!Arc::ptr_eq(&surface, &planes.surface(&held).await.unwrap()));
    }

    #[tokio::test]
    async fn a_deleted_one_is_not_found_again() {
        let fixture = Fixture::new().await;
        let old = fixture.engine.planes.find("a").await.unwrap().unwrap();
        assert!(fixture.engine.delete_control_plane("a").await.is_ok_and(|deleted| deleted));
        assert!(fixture.engine.planes.find("a").await.unwrap().is_none());
        let new = fixture.engine.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        assert_ne!(new.id, old.id);
        assert_eq!(fixture.engine.planes.find("a").await.unwrap().unwrap().id, new.id);
    }
}
