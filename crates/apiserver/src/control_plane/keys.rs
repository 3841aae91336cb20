//! Keys that change while they are used, and how those who were let in by them hear of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use auth::pki::Authority;
use auth::tokens::Issuer;
use bytes::Bytes;
use objects::CompactString;
use serde::{Deserialize, Serialize};
use store::Tenant;
use tokio::sync::watch;

use super::{AUTHORITY_LIFETIME, ControlPlane, ControlPlaneError, ControlPlanes, IN_CLUSTER_ISSUER};

/// Something that verified before, as PEM, and until when it still does.
#[derive(Serialize, Deserialize)]
pub(super) struct Earlier {
    pub pem: String,
    /// In seconds since 1970.
    until: i64,
}

impl Earlier {
    pub fn until(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.until).unwrap_or(jiff::Timestamp::MIN)
    }
}

/// How often the store is asked for keys of one control plane because a credential was refused.
const MIN_KEY_READ_INTERVAL_MS: i64 = 200;

/// How many rotations can be under way at once: each one makes every signature a little dearer to verify.
const MAX_EARLIER: usize = 4;

/// Which of a control plane's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The authority that signs its client certificates.
    Clients,
    /// The key that signs its service accounts' tokens.
    Tokens,
}

/// What to do about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// A new one signs, and the old one verifies for so long.
    Rotate { overlap: Duration },
    /// What was replaced before verifies nothing any more.
    Finish,
    /// A new one signs, and no other one verifies.
    Revoke,
}

impl ControlPlanes {
    /// The directory record of an existing control plane after a change of one of its keys.
    pub(crate) fn record_with_key_change(
        &self,
        tenant: &Tenant,
        kind: KeyKind,
        change: KeyChange,
        now: jiff::Timestamp,
    ) -> Result<Bytes, ControlPlaneError> {
        let failed = |why: String| ControlPlaneError::Keys(tenant.name.clone(), why);
        let mut record = self.record(tenant)?;
        let earlier = match kind {
            KeyKind::Clients => &mut record.earlier_authorities,
            KeyKind::Tokens => &mut record.earlier_token_keys,
        };
        match change {
            KeyChange::Rotate { overlap } => {
                earlier.retain(|one| now < one.until());
                if earlier.len() >= MAX_EARLIER {
                    return Err(ControlPlaneError::TooManyRotations(tenant.name.clone()));
                }
                let until = now.checked_add(overlap).map_err(|e| failed(e.to_string()))?;
                let pem = match kind {
                    KeyKind::Clients => record.authority_certificate.clone(),
                    KeyKind::Tokens => Issuer::from_pem(IN_CLUSTER_ISSUER, &record.token_key)
                        .and_then(|issuer| issuer.public_pem())
                        .map_err(|e| failed(e.to_string()))?,
                };
                earlier.push(Earlier { pem, until: until.as_second() });
            }
            KeyChange::Finish | KeyChange::Revoke => earlier.clear(),
        }
        if change != KeyChange::Finish {
            match kind {
                KeyKind::Clients => {
                    let name = format!("hangar-{}", tenant.name);
                    let issued = Authority::generate(&name, now, AUTHORITY_LIFETIME);
                    let issued = issued.map_err(|e| failed(e.to_string()))?.to_pem();
                    record.authority_certificate = issued.certificate;
                    record.authority_key = issued.key.into_exposed();
                }
                KeyKind::Tokens => {
                    let issuer = Issuer::generate(IN_CLUSTER_ISSUER).map_err(|e| failed(e.to_string()))?;
                    record.token_key = issuer.to_pem().into_exposed();
                }
            }
        }
        self.encoded(&tenant.name, &record)
    }

    /// The control plane with the keys that the store has, if those are not the ones that are held. Whoever is refused
    /// makes us look, so that is done now and then only.
    pub(crate) async fn with_new_keys(
        &self,
        plane: &ControlPlane,
        now: jiff::Timestamp,
    ) -> Result<Option<Arc<ControlPlane>>, ControlPlaneError> {
        let (before, now) = (plane.keys_read.load(Ordering::Relaxed), now.as_millisecond());
        let due = now.saturating_sub(before) >= MIN_KEY_READ_INTERVAL_MS;
        if !due
            || plane.keys_read.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return Ok(None);
        }
        let Some(tenant) = self.store.tenant(&plane.name).await?.filter(|tenant| tenant.id == plane.id)
        else {
            return Ok(None);
        };
        if self.open(&tenant)?.trust == plane.trust {
            return Ok(None);
        }
        self.forget(&plane.name);
        self.find(&plane.name).await
    }

    /// Tells of every change to what is held of a control plane, and once at the beginning.
    pub fn changes(self: &Arc<Self>, name: &CompactString) -> Changes {
        let mut listening = self.listening.lock();
        let sender = listening.entry(name.clone()).or_insert_with(|| watch::Sender::new(()));
        let mut receiver = sender.subscribe();
        receiver.mark_changed();
        Changes { planes: self.clone(), name: name.clone(), receiver }
    }
}

/// Tells of changes to a control plane for as long as it exists.
pub struct Changes {
    planes: Arc<ControlPlanes>,
    name: CompactString,
    receiver: watch::Receiver<()>,
}

impl Changes {
    /// Resolves when there was one since the last call.
    pub async fn next(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The sender is kept while somebody listens.
            std::future::pending().await
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut listening = self.planes.listening.lock();
        // This one is still counted.
        if listening.get(&self.name).is_some_and(|sender| sender.receiver_count() <= 1) {
            listening.remove(&self.name);
        }
    }
}
