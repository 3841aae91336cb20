//! Keys of data at rest.
//!
//! Two levels. Every control plane has data keys of its own, which are random and lie in its row of the directory. The
//! installation's key encrypts that row and nothing else, so that replacing it rewrites rows and no objects.
//!
//! ```text
//! row of the directory:  4  installation key id (8)  nonce (12)  AES-256-GCM(record as JSON)
//! ```
//! The additional data of a row names the control plane. What versions before this format wrote is opened with any of the
//! installation's keys and written anew in this format.

mod renewal;

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use auth::Secret;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use store::{Key, Revision};

use crate::codec::{self, CodecError};
use crate::control_plane::PKI_KIND;

pub(crate) use renewal::Pending;

const RECORD: u8 = 4;
const RECORD_HEADER: usize = 1 + 8;
/// Format, schema tag and offset of the format before.
const OLD_HEADER: usize = 9;

/// AES-256-GCM with random nonces, which may encrypt 2^32 values under one key.
#[derive(Clone)]
pub(crate) struct Cipher {
    key: Arc<RandomizedNonceKey>,
    /// Fails to encrypt.
    #[cfg(test)]
    broken: bool,
}

impl Cipher {
    pub(crate) fn new(secret: &[u8; 32]) -> Cipher {
        let key = RandomizedNonceKey::new(&AES_256_GCM, secret);
        // The length of the key is right by type, which is the only way this can fail.
        let key = Arc::new(key.unwrap_or_else(|_| unreachable!("a 32-byte key fits AES-256")));
        Cipher {
            key,
            #[cfg(test)]
            broken: false,
        }
    }

    /// Appends nonce, ciphertext and tag. None if nothing could be encrypted.
    #[must_use]
    pub(crate) fn encrypt(&self, bound: &[u8], mut plain: Vec<u8>, out: &mut BytesMut) -> Option<()> {
        #[cfg(test)]
        if self.broken {
            return None;
        }
        let nonce = self.key.seal_in_place_append_tag(Aad::from(bound), &mut plain).ok()?;
        out.put_slice(nonce.as_ref());
        out.put_slice(&plain);
        Some(())
    }

    /// The plain text of what [`Cipher::encrypt`] appended.
    pub(crate) fn decrypt(&self, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = body.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(bound), &mut body).ok()?.len();
        body.truncate(length);
        Some(body)
    }
}

/// Names an installation's key: derived from it, and says nothing about it.
pub type InstallationKeyId = [u8; 8];

struct InstallationKey {
    id: InstallationKeyId,
    secret: Secret<[u8; 32]>,
    cipher: Cipher,
}

impl InstallationKey {
    fn new(secret: [u8; 32]) -> InstallationKey {
        let id = derive(&secret, &[b"hangar installation key id"]);
        let cipher = Cipher::new(&secret);
        InstallationKey { id, secret: Secret::new(secret), cipher }
    }
}

type KeySet = Vec<InstallationKey>;

/// The keys that encrypt rows of the directory. The first one encrypts; all of them decrypt.
pub struct InstallationKeys {
    keys: ArcSwap<KeySet>,
    source: Option<Box<dyn KeySource>>,
    /// Held from when the source is asked until what it said is in use.
    refreshing: parking_lot::Mutex<()>,
    /// The sets before this one, for as long as somebody is about to store a row that was encrypted with them.
    before: parking_lot::Mutex<Vec<Weak<KeySet>>>,
}

/// Where keys can be read again.
pub trait KeySource: Send + Sync {
    /// All keys, the first one to encrypt with, if they are others than when it was last asked.
    fn changed(&self) -> Option<Vec<[u8; 32]>>;
}

/// Keeps the keys in use while a row is made and stored.
pub(crate) struct Held(#[expect(dead_code, reason = "it is held, not looked at")] Arc<KeySet>);

/// Between looks at whether somebody still holds keys.
const LOOK: Duration = Duration::from_millis(20);

/// A row of the directory, decrypted.
pub(crate) struct OpenedRecord {
    pub json: Vec<u8>,
    /// The installation's key, if the row is of the format before: values of that control plane are encrypted with it.
    pub unbound: Option<[u8; 32]>,
}

impl InstallationKeys {
    pub fn new(first: [u8; 32], others: impl IntoIterator<Item = [u8; 32]>) -> InstallationKeys {
        InstallationKeys::read_from(first, others, None)
    }

    /// The same, with a place to look for others that are needed later.
    pub fn read_from(
        first: [u8; 32],
        others: impl IntoIterator<Item = [u8; 32]>,
        source: Option<Box<dyn KeySource>>,
    ) -> InstallationKeys {
        let keys = ArcSwap::from_pointee(key_set(first, others));
        InstallationKeys { keys, source, refreshing: Default::default(), before: Default::default() }
    }

    /// From now on the first of these encrypts.
    pub fn replace(&self, first: [u8; 32], others: impl IntoIterator<Item = [u8; 32]>) {
        let before = self.keys.swap(Arc::new(key_set(first, others)));
        let mut all = self.before.lock();
        all.retain(|set| set.strong_count() > 0);
        all.push(Arc::downgrade(&before));
    }

    /// Only the first key is known from now on.
    pub fn forget_others(&self) {
        let first = self.keys.load().first().map(|key| *key.secret.expose());
        if let Some(first) = first {
            self.replace(first, []);
        }
    }

    /// Takes up what the source has by now. Returns whether that is anything new.
    pub fn refresh(&self) -> bool {
        let _turn = self.refreshing.lock();
        let Some(keys) = self.source.as_ref().and_then(|source| source.changed()) else { return false };
        let Some((first, others)) = keys.split_first() else { return false };
        self.replace(*first, others.iter().copied());
        true
    }

    /// Resolves when nobody is about to store a row that was encrypted with a key set before this one.
    pub async fn settled(&self) {
        while self.before.lock().iter().any(|set| set.strong_count() > 0) {
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn hold(&self) -> Held {
        self.refresh();
        Held(self.keys.load_full())
    }

    /// The ids of all keys, that of the first one first, in hexadecimal.
    pub fn names(&self) -> Vec<String> {
        let name = |key: &InstallationKey| key.id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.keys.load().iter().map(name).collect()
    }

    pub fn first_name(&self) -> String {
        self.names().swap_remove(0)
    }

    /// Whether a row is encrypted with the first key.
    pub(crate) fn is_current(&self, record: &Bytes) -> bool {
        let keys = self.keys.load();
        let id = record.get(1..RECORD_HEADER).filter(|_| record.first() == Some(&RECORD));
        id.is_some_and(|id| keys.first().is_some_and(|first| first.id == id))
    }

    /// Encrypts the record of a control plane.
    pub(crate) fn seal_record(&self, name: &str, json: Vec<u8>) -> Result<Bytes, CodecError> {
        let keys = self.keys.load();
        let failed = || CodecError::NotEncrypted(record_key(name));
        let key = keys.first().ok_or_else(failed)?;
        let mut out = BytesMut::with_capacity(RECORD_HEADER + NONCE_LEN + json.len() + 16);
        out.put_u8(RECORD);
        out.put_slice(&key.id);
        key.cipher.encrypt(&bound_record(&key.id, name), json, &mut out).ok_or_else(failed)?;
        Ok(out.freeze())
    }

    /// A key that is not known here may have been put where it comes from.
    pub(crate) fn open_record(&self, name: &str, record: &Bytes) -> Result<OpenedRecord, CodecError> {
        match self.open_with_known(name, record) {
            Err(CodecError::WrongKey(_)) if self.refresh() => self.open_with_known(name, record),
            opened => opened,
        }
    }

    fn open_with_known(&self, name: &str, record: &Bytes) -> Result<OpenedRecord, CodecError> {
        let keys = self.keys.load();
        let damaged = || CodecError::Damaged(record_key(name));
        let wrong = || CodecError::WrongKey(record_key(name));
        match record.first() {
            Some(&RECORD) => {
                let (header, sealed) = record.split_at_checked(RECORD_HEADER).ok_or_else(damaged)?;
                let key = keys.iter().find(|key| key.id == header[1..]).ok_or_else(wrong)?;
                let json = key.cipher.decrypt(&bound_record(&key.id, name), sealed).ok_or_else(wrong)?;
                Ok(OpenedRecord { json, unbound: None })
            }
            Some(&codec::UNBOUND) => {
                let (_, sealed) = record.split_at_checked(OLD_HEADER).ok_or_else(damaged)?;
                let bound = codec::place(&record_key(name));
                let open = |key: &InstallationKey| {
                    let json = key.cipher.decrypt(&bound, sealed)?;
                    Some(OpenedRecord { json, unbound: Some(*key.secret.expose()) })
                };
                keys.iter().find_map(open).ok_or_else(wrong)
            }
            _ => Err(damaged()),
        }
    }
}

fn key_set(first: [u8; 32], others: impl IntoIterator<Item = [u8; 32]>) -> KeySet {
    std::iter::once(first).chain(others).map(InstallationKey::new).collect()
}

fn bound_record(id: &InstallationKeyId, name: &str) -> Vec<u8> {
    [b"hangar record 1".as_slice(), id, name.as_bytes()].join(&0)
}

/// What a row of the directory is called in errors, and what the format before bound it to.
fn record_key(name: &str) -> Key {
    Key::new(PKI_KIND, "", name)
}

/// Names a data key; random.
pub(crate) type DataKeyId = [u8; 16];

/// A key that values of one control plane are encrypted with.
#[derive(Clone)]
pub(crate) struct DataKey {
    pub id: DataKeyId,
    secret: Secret<[u8; 32]>,
    pub cipher: Cipher,
    /// Opens values of the format before, which says neither the key nor the control plane. Encrypts nothing.
    pub unbound: bool,
    /// The revision since which nothing new is encrypted with it: history before that may be.
    until: Option<Revision>,
}

/// A data key as a record keeps it; both parts are base 64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataKeyRow {
    id: String,
    key: Secret64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unbound: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

/// A key in base 64, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret64(String);

impl Secret64 {
    pub(crate) fn new(key: &[u8; 32]) -> Secret64 {
        Secret64(STANDARD.encode(key))
    }

    pub(crate) fn key(&self) -> Option<[u8; 32]> {
        STANDARD.decode(&self.0).ok()?.try_into().ok()
    }
}

impl std::fmt::Debug for Secret64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl DataKey {
    fn new(id: DataKeyId, secret: [u8; 32], unbound: bool) -> DataKey {
        DataKey { id, cipher: Cipher::new(&secret), secret: Secret::new(secret), unbound, until: None }
    }

    fn generate() -> DataKey {
        DataKey::new(rand::random(), rand::random(), false)
    }

    fn row(&self) -> DataKeyRow {
        let key = Secret64::new(self.secret.expose());
        let until = self.until.map(|revision| revision.0);
        DataKeyRow { id: STANDARD.encode(self.id), key, unbound: self.unbound, until }
    }

    fn of_row(row: &DataKeyRow) -> Option<DataKey> {
        let id = STANDARD.decode(&row.id).ok()?.try_into().ok()?;
        let until = row.until.map(Revision);
        Some(DataKey { until, ..DataKey::new(id, row.key.key()?, row.unbound) })
    }
}

/// The data keys of one control plane. The first one encrypts; all of them decrypt.
///
/// A copy of a control plane has a key of its own, and those of the original for what it was copied with.
#[derive(Clone)]
pub struct DataKeys(Arc<Vec<DataKey>>);

impl std::fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataKeys({})", self.0.len())
    }
}

impl DataKeys {
    /// Those of a new control plane.
    #[must_use]
    pub fn generate() -> DataKeys {
        DataKeys(Arc::new(vec![DataKey::generate()]))
    }

    /// Those of a copy: a new one, and those that what is copied was encrypted with.
    #[must_use]
    pub(crate) fn of_copy(original: &DataKeys) -> DataKeys {
        let inherited = original.0.iter().map(|key| DataKey { until: None, ..key.clone() });
        DataKeys(Arc::new(std::iter::once(DataKey::generate()).chain(inherited).collect()))
    }

    /// Those of a control plane whose record is of the format before: the same for whoever asks, until its record is
    /// written again.
    pub(crate) fn of_old_record(name: &str, installation: &[u8; 32]) -> DataKeys {
        let derived: [u8; 32] = derive(installation, &[b"hangar data key", name.as_bytes()]);
        let id = derive(installation, &[b"hangar data key id", name.as_bytes()]);
        let old = derive(installation, &[b"hangar old data key id"]);
        DataKeys(Arc::new(vec![DataKey::new(id, derived, false), DataKey::new(old, *installation, true)]))
    }

    pub(crate) fn from_rows(rows: &[DataKeyRow]) -> Option<DataKeys> {
        let keys = rows.iter().map(DataKey::of_row).collect::<Option<Vec<_>>>()?;
        // What encrypts is never a key of the format before.
        keys.first().is_some_and(|first| !first.unbound).then(|| DataKeys(Arc::new(keys)))
    }

    pub(crate) fn to_rows(&self) -> Vec<DataKeyRow> {
        self.0.iter().map(DataKey::row).collect()
    }

    pub(crate) fn first(&self) -> Option<&DataKey> {
        self.0.first()
    }

    pub(crate) fn named(&self, id: &[u8]) -> Option<&DataKey> {
        self.0.iter().find(|key| key.id == id && !key.unbound)
    }

    pub(crate) fn unbound(&self) -> impl Iterator<Item = &DataKey> {
        self.0.iter().filter(|key| key.unbound)
    }

    /// Whether nothing is encrypted with any other key than the first.
    pub(crate) fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    /// The same, where all but the first encrypt nothing that is not history since this revision.
    #[must_use]
    pub(crate) fn retiring(&self, until: Revision) -> DataKeys {
        let mut keys = self.0.as_ref().clone();
        for key in keys.iter_mut().skip(1) {
            key.until.get_or_insert(until);
        }
        DataKeys(Arc::new(keys))
    }

    pub(crate) fn are_retired(&self) -> bool {
        self.0.iter().skip(1).all(|key| key.until.is_some())
    }

    /// The revision since which all keys but the first are of history only; none while that is not so.
    pub(crate) fn retired(&self) -> Option<Revision> {
        self.0.iter().skip(1).map(|key| key.until).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The same without those that are of history only.
    #[must_use]
    pub(crate) fn without_retired(&self) -> DataKeys {
        let kept = self.0.iter().enumerate().filter(|(index, key)| *index == 0 || key.until.is_none());
        DataKeys(Arc::new(kept.map(|(_, key)| key.clone()).collect()))
    }

    /// Whether all that one opens is opened by the other as well.
    pub(crate) fn covers(&self, other: &DataKeys) -> bool {
        other.0.iter().all(|key| self.0.iter().any(|own| own.id == key.id && own.unbound == key.unbound))
    }

    /// The same, and what another's open.
    #[must_use]
    pub(crate) fn and(&self, other: &DataKeys) -> DataKeys {
        let missing = other.0.iter().filter(|key| !self.0.iter().any(|own| own.id == key.id));
        let missing = missing.map(|key| DataKey { until: None, ..key.clone() });
        DataKeys(Arc::new(self.0.iter().cloned().chain(missing).collect()))
    }

    #[cfg(test)]
    pub(crate) fn broken() -> DataKeys {
        let mut key = DataKey::generate();
        key.cipher.broken = true;
        DataKeys(Arc::new(vec![key]))
    }
}

/// Bytes that a key is needed to find, and that do not lead back to it.
fn derive<const N: usize>(secret: &[u8; 32], info: &[&[u8]]) -> [u8; N] {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let info = info.join(&0);
    let mut out = [0; N];
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, b"hangar").extract(secret);
    let filled = pseudorandom.expand(&[&info], Length(N)).and_then(|okm| okm.fill(&mut out));
    // HKDF gives up to 255 blocks, and at most one is asked for.
    filled.unwrap_or_else(|_| unreachable!("HKDF-SHA256 gives {N} bytes"));
    out
}

#[cfg(test)]
mod stored;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_under_its_name_and_by_its_key() {
        let keys = InstallationKeys::new([1; 32], []);
        let record = keys.seal_record("a", b"{}".to_vec()).unwrap();
        assert_eq!(keys.open_record("a", &record).unwrap().json, b"{}");
        assert!(matches!(keys.open_record("b", &record), Err(CodecError::WrongKey(_))));
        let other = InstallationKeys::new([2; 32], []);
        assert!(matches!(other.open_record("a", &record), Err(CodecError::WrongKey(_))));
        let both = InstallationKeys::new([2; 32], [[1; 32]]);
        assert_eq!(both.open_record("a", &record).unwrap().json, b"{}");
        let anew = both.seal_record("a", b"{}".to_vec()).unwrap();
        assert!(other.open_record("a", &anew).is_ok() && keys.open_record("a", &anew).is_err());
        for damaged in [&b""[..], &[RECORD], &[1, 2, 3], &[codec::UNBOUND, 0], &[9; 40]] {
            assert!(keys.open_record("a", &Bytes::copy_from_slice(damaged)).is_err());
        }
    }

    #[test]
    fn data_keys_are_kept_as_they_are_and_never_shown() {
        let keys = DataKeys::of_copy(&DataKeys::of_old_record("a", &[3; 32]));
        let rows = keys.to_rows();
        let kept: Vec<DataKeyRow> = serde_json::from_str(&serde_json::to_string(&rows).unwrap()).unwrap();
        assert_eq!(DataKeys::from_rows(&kept).unwrap().to_rows(), rows);
        assert!(!format!("{keys:?} {rows:?}").contains(&STANDARD.encode([3; 32])));
        assert!(DataKeys::from_rows(&rows[2..]).is_none(), "the key of the format before encrypts nothing");
        assert!(DataKeys::from_rows(&[]).is_none());
    }

    #[test]
    fn derived_keys_differ_by_control_plane_and_installation() {
        let id = |name: &str, key: u8| DataKeys::of_old_record(name, &[key; 32]).first().unwrap().id;
        assert_eq!(id("a", 1), id("a", 1));
        assert_ne!(id("a", 1), id("b", 1));
        assert_ne!(id("a", 1), id("a", 2));
    }
}
