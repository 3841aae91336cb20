//! The installation's key: where it comes from, how it is read, and how it is replaced.
//!
//! | source | who keeps it | `hangar keys rotate data` |
//! |---|---|---|
//! | `DATA_DIR/keys/data.key` | this program | makes a new key |
//! | `--encryption-key-file`, `--encryption-key-credential` | the operator | reads the file again; its first key encrypts from then on |
//! | `--kms-endpoint` | this program, encrypted by the KMS in `DATA_DIR/keys/data.key.kms` | makes a new key and has the KMS encrypt it |
//!
//! While a key is being replaced the file lists both, the new one first. Killed in between, the next start goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail};
use apiserver::{Engines, InstallationKeys, KeySource, RotationFailure, RotationReport, Rotator};
use async_trait::async_trait;
use clap::Args;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::kms::{self, Kms};

/// Flags that say where the installation's key comes from.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeyOptions {
    /// The file with the key that encrypts data keys: 32 bytes, or a line of 64 hexadecimal digits for each key, of which the
    /// first one encrypts [default: DATA_DIR/keys/data.key, made]
    #[arg(
        long,
        value_name = "FILE",
        env = "HANGAR_ENCRYPTION_KEY_FILE",
        group = "encryption key",
        alias = "data-key-file"
    )]
    pub encryption_key_file: Option<PathBuf>,
    /// The name of a systemd credential that is such a file
    #[arg(long, value_name = "NAME", env = "HANGAR_ENCRYPTION_KEY_CREDENTIAL", group = "encryption key")]
    pub encryption_key_credential: Option<String>,
    /// The socket of a Kubernetes KMS v2 plugin, unix:///PATH, that encrypts the key in DATA_DIR/keys
    #[arg(long, value_name = "ENDPOINT", env = "HANGAR_KMS_ENDPOINT", group = "encryption key")]
    pub kms_endpoint: Option<String>,
}

impl KeyOptions {
    /// These, and where they say nothing, the others.
    #[must_use]
    pub fn over(self, other: KeyOptions) -> KeyOptions {
        if self == KeyOptions::default() { other } else { self }
    }

    fn place(&self, data_dir: &Path) -> anyhow::Result<Place> {
        let said = [
            self.encryption_key_file.is_some(),
            self.encryption_key_credential.is_some(),
            self.kms_endpoint.is_some(),
        ];
        if said.iter().filter(|said| **said).count() > 1 {
            bail!(
                "--encryption-key-file, --encryption-key-credential and --kms-endpoint cannot be used together"
            );
        }
        if let Some(file) = &self.encryption_key_file {
            return Ok(Place::Given(file.clone()));
        }
        if let Some(name) = &self.encryption_key_credential {
            let directory = std::env::var_os("CREDENTIALS_DIRECTORY").context(
                "--encryption-key-credential: $CREDENTIALS_DIRECTORY is not set; systemd sets it for services with LoadCredential=",
            )?;
            if name.is_empty() || name.contains('/') || name.starts_with('.') {
                bail!("--encryption-key-credential {name:?} is not the name of a credential");
            }
            return Ok(Place::Given(Path::new(&directory).join(name)));
        }
        let keys = data_dir.join("keys");
        Ok(match &self.kms_endpoint {
            Some(endpoint) => Place::Kms(keys.join(WRAPPED), Arc::new(Kms::new(endpoint)?)),
            None => Place::Own(keys.join(PLAIN)),
        })
    }
}

const PLAIN: &str = "data.key";
const WRAPPED: &str = "data.key.kms";

#[derive(Clone)]
enum Place {
    /// Made and replaced here.
    Own(PathBuf),
    /// Somebody else's.
    Given(PathBuf),
    /// Made and replaced here, and encrypted by another program.
    Kms(PathBuf, Arc<Kms>),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Place::Own(path) | Place::Given(path) | Place::Kms(path, _) => path,
        }
    }
}

/// The keys of a start.
pub struct Opened {
    pub keys: Arc<InstallationKeys>,
    place: Place,
    shared: bool,
}

/// Reads the installation's keys. They are made only where there is nothing yet that others encrypted: `used` says whether the
/// stores have control planes.
pub async fn open(options: &KeyOptions, data_dir: &Path, shared: bool, used: bool) -> anyhow::Result<Opened> {
    let place = options.place(data_dir)?;
    let path = place.path();
    let missing = match path.try_exists() {
        Ok(there) => !there,
        Err(error) => return Err(error).with_context(|| format!("read key file {}", path.display())),
    };
    if missing {
        match &place {
            Place::Given(path) => bail!("read key file {}: there is no such file", path.display()),
            Place::Own(_) | Place::Kms(..) if used => bail!(
                "read key file {path}: it is missing, and the store has control planes that were encrypted with it: put the file \
                 back from a backup or from another server of this installation, or name it with --encryption-key-file; no key \
                 is made in its place, because it would open nothing",
                path = path.display(),
            ),
            Place::Own(path) => write_plain(path, &[rand::random()])?,
            Place::Kms(path, kms) => write_wrapped(path, &[wrapped(kms, &rand::random()).await?])?,
        }
    }
    let all = read(&place).await?;
    let (first, others) = all.split_first().context("there is no key")?;
    let source: Option<Box<dyn KeySource>> = match &place {
        // One that is encrypted needs the KMS, which nobody waits for while a row is read.
        Place::Kms(..) => None,
        Place::Own(path) | Place::Given(path) => {
            Some(Box::new(File { path: path.clone(), seen: Mutex::new(stamp(path)) }))
        }
    };
    let keys = Arc::new(InstallationKeys::read_from(*first, others.iter().copied(), source));
    Ok(Opened { keys, place, shared })
}

async fn read(place: &Place) -> anyhow::Result<Vec<[u8; 32]>> {
    match place {
        Place::Own(path) | Place::Given(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("read key file {}", path.display()))?;
            keys_of(&bytes).with_context(|| {
                format!("read key file {}: it does not hold keys of 32 bytes", path.display())
            })
        }
        Place::Kms(path, kms) => {
            let mut keys = Vec::new();
            for row in read_wrapped(path)? {
                let opened = kms.decrypt(&row).await;
                keys.push(
                    opened.with_context(|| format!("decrypt key file {} with the KMS", path.display()))?,
                );
            }
            Ok(keys)
        }
    }
}

/// 32 bytes, or lines of 64 hexadecimal digits; lines that begin with # say something else.
pub fn keys_of(bytes: &[u8]) -> Option<Vec<[u8; 32]>> {
    if let Ok(key) = bytes.try_into() {
        return Some(vec![key]);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(key_of_line).collect::<Option<Vec<_>>>()?;
    (!keys.is_empty()).then_some(keys)
}

fn key_of_line(line: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if line.len() != 64 || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(line.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(key)
}

fn write_plain(path: &Path, keys: &[[u8; 32]]) -> anyhow::Result<()> {
    private_parent(path)?;
    match keys {
        [one] => files::write_private(path, one),
        several => {
            let line =
                |key: &[u8; 32]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
            let lines: String = several.iter().map(line).collect();
            files::write_private(path, lines.as_bytes())
        }
    }
}

fn private_parent(path: &Path) -> anyhow::Result<()> {
    path.parent().map_or(Ok(()), files::private_dir)
}

async fn wrapped(kms: &Kms, key: &[u8; 32]) -> anyhow::Result<kms::Wrapped> {
    kms.encrypt(key).await.context("encrypt the installation's key with the KMS")
}

fn write_wrapped(path: &Path, rows: &[kms::Wrapped]) -> anyhow::Result<()> {
    private_parent(path)?;
    files::write_private(path, format!("{:#}\n", serde_json::to_value(rows)?).as_bytes())
}

fn read_wrapped(path: &Path) -> anyhow::Result<Vec<kms::Wrapped>> {
    let what = || format!("read key file {}", path.display());
    let bytes = std::fs::read(path).with_context(what)?;
    serde_json::from_slice(&bytes).with_context(what)
}

/// A key file that is read again when it was changed.
struct File {
    path: PathBuf,
    seen: Mutex<Option<Stamp>>,
}

type Stamp = (SystemTime, u64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len(), about.ino()))
}

impl KeySource for File {
    fn changed(&self) -> Option<Vec<[u8; 32]>> {
        let now = stamp(&self.path)?;
        let mut seen = self.seen.lock();
        if *seen == Some(now) {
            return None;
        }
        let keys = keys_of(&std::fs::read(&self.path).ok()?)?;
        *seen = Some(now);
        tracing::info!(file = %self.path.display(), keys = keys.len(), "the key file was read again");
        Some(keys)
    }
}

/// Replaces the installation's key.
pub struct Rotation {
    opened: Opened,
    engines: Engines,
    /// One at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Rotation {
    pub fn new(opened: Opened, engines: Engines) -> Arc<Rotation> {
        Arc::new(Rotation { opened, engines, turn: tokio::sync::Mutex::new(()) })
    }

    /// Goes on with what a process before did not finish, until it is done.
    pub async fn go_on(self: Arc<Self>) {
        let mut told = false;
        loop {
            let result = {
                let _turn = self.turn.lock().await;
                self.finish().await
            };
            match result {
                Ok(0) => return,
                Ok(rows) => {
                    tracing::info!(
                        rows,
                        "rows of control planes were encrypted with the installation's first key"
                    );
                    return;
                }
                // A store may be away for long.
                Err(error) if told => {
                    tracing::debug!(error = %format!("{error:#}"), "still not all rows are encrypted with the first key")
                }
                Err(error) => {
                    tracing::warn!(error = %format!("{error:#}"), "not all rows are encrypted with the installation's first key yet; trying again");
                    told = true;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn rotate(&self) -> anyhow::Result<u64> {
        match &self.opened.place {
            // Others would meet rows that they cannot read.
            Place::Own(path) if self.opened.shared && read(&self.opened.place).await?.len() == 1 => bail!(
                "several servers may share the store, and each has the key in a file of its own: put the new key before the old one \
                 into {} on every server, then ask again (docs/encryption.md)",
                path.display()
            ),
            Place::Kms(path, _) if self.opened.shared => bail!(
                "several servers may share the store, and each has the key in {}: stop all but one to replace it, and copy the file to \
                 the others before they start (docs/encryption.md)",
                path.display()
            ),
            Place::Given(_) => {
                self.opened.keys.refresh();
            }
            Place::Own(path) => {
                let all = read(&self.opened.place).await?;
                // With two of them, one was begun and is to be finished first.
                if let [old] = all.as_slice() {
                    write_plain(path, &[rand::random(), *old])?;
                }
                self.opened.keys.refresh();
            }
            Place::Kms(path, kms) => {
                let rows = read_wrapped(path)?;
                let all = read(&self.opened.place).await?;
                if let ([old], [key]) = (rows.as_slice(), all.as_slice()) {
                    let new = rand::random();
                    write_wrapped(path, &[wrapped(kms, &new).await?, old.clone()])?;
                    self.opened.keys.replace(new, [*key]);
                }
            }
        }
        self.finish().await
    }

    /// Encrypts every row with the first key, and forgets the others where they are ours.
    async fn finish(&self) -> anyhow::Result<u64> {
        let mut rewritten = 0;
        loop {
            // Whoever is about to store a row that was encrypted before comes first.
            self.opened.keys.settled().await;
            let mut pass = 0;
            for engine in self.engines.iter() {
                let rows = engine.rewrap_records().await;
                let rows = rows.map_err(|failure| anyhow::anyhow!("{}", failure.0.message));
                pass += rows.with_context(|| format!("encrypt the rows of the store {:?}", engine.name))?;
            }
            rewritten += pass;
            if pass == 0 {
                break;
            }
        }
        match &self.opened.place {
            Place::Own(path) if !self.opened.shared => {
                let all = read(&self.opened.place).await?;
                if let [first, _, ..] = all.as_slice() {
                    self.opened.keys.refresh();
                    if self.opened.keys.first_name() != InstallationKeys::new(*first, []).first_name() {
                        bail!("key file {} was changed meanwhile", path.display());
                    }
                    write_plain(path, &[*first])?;
                    self.opened.keys.refresh();
                }
            }
            Place::Kms(path, _) => {
                let rows = read_wrapped(path)?;
                if let [first, _, ..] = rows.as_slice() {
                    write_wrapped(path, std::slice::from_ref(first))?;
                    self.opened.keys.forget_others();
                }
            }
            // Other servers may still need them, and the file is not ours.
            Place::Own(_) | Place::Given(_) => {}
        }
        Ok(rewritten)
    }
}

/// Between attempts to finish what was begun.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

#[async_trait]
impl Rotator for Rotation {
    async fn rotate_data_key(&self) -> Result<RotationReport, RotationFailure> {
        let Ok(_turn) = self.turn.try_lock() else { return Err(RotationFailure::Underway) };
        let rows = self.rotate().await.map_err(|error| RotationFailure::Failed(format!("{error:#}")))?;
        let keys = &self.opened.keys;
        tracing::info!(rows, key = keys.first_name(), "the installation's key was replaced");
        Ok(RotationReport { rows, key: keys.first_name(), keys: keys.names() })
    }

    fn keys(&self) -> Vec<String> {
        self.opened.keys.names()
    }
}

#[cfg(test)]
mod tests;
