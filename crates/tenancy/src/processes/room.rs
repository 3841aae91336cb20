//! What is on disk of a control plane with a process of its own: a directory with its charter, its keys, and, below
//! `data`, all that the process keeps itself.
//!
//! The charter is written last and goes first: a directory without one is no control plane.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::control_plane::{AwsUse, Quota};
use auth::pki::{Authority, PkiError};
use auth::tokens::Issuer;
use jiff::Timestamp;
use objects::Value;
use serde::{Deserialize, Serialize};

const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3_653 * 24 * 3_600);

const CHARTER: &str = "control-plane.json";
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const TOKEN_KEY: &str = "sa.key";
const DATA_KEY: &str = "data.key";

#[derive(thiserror::Error, Debug)]
pub enum RoomError {
    #[error("cannot use {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{0} does not hold what it should: {1}")]
    Contents(PathBuf, String),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("the key of service accounts cannot be made: {0}")]
    Tokens(#[from] auth::KeyError),
}

/// What was decided about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Charter {
    /// The uid of the object that it was made for; nobody else takes it away.
    pub owner: String,
    #[serde(default)]
    pub quota: Quota,
    /// What it may have the server connect to.
    #[serde(default)]
    pub egress: egress::Ranges,
    /// What it may use of the operator's AWS credentials.
    #[serde(default)]
    pub aws: AwsUse,
    /// Bytes of memory.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// How often its authority has been replaced, on demand.
    #[serde(default)]
    pub generation: u64,
}

/// A control plane that is there.
pub struct Room {
    pub name: String,
    pub charter: Charter,
    pub authority: Authority,
    pub issuer: Issuer,
    directory: PathBuf,
}

impl Room {
    /// The one in this directory, if there is one.
    pub fn open(directory: &Path) -> Result<Option<Room>, RoomError> {
        let path = directory.join(CHARTER);
        let Some(text) = read(&path)? else { return Ok(None) };
        let odd = |error: &dyn std::fmt::Display| RoomError::Contents(path.clone(), error.to_string());
        let charter = serde_json::from_slice(&text).map_err(|error| odd(&error))?;
        let pem = |file: &str| {
            let path = directory.join(file);
            let text = read(&path)?.ok_or_else(|| RoomError::Contents(path.clone(), "it is gone".into()))?;
            String::from_utf8(text).map_err(|error| RoomError::Contents(path, error.to_string()))
        };
        let name = directory.file_name().and_then(|name| name.to_str());
        Ok(Some(Room {
            name: name.ok_or_else(|| odd(&"its name is none"))?.to_owned(),
            charter,
            authority: Authority::from_pem(&pem(AUTHORITY)?, &pem(AUTHORITY_KEY)?)?,
            issuer: Issuer::from_pem("", &pem(TOKEN_KEY)?)?,
            directory: directory.to_owned(),
        }))
    }

    /// A new one. What an attempt that was cut short has left there is of no worth.
    pub fn make(directory: &Path, charter: &Charter, now: Timestamp) -> Result<Room, RoomError> {
        remove(directory)?;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|source| RoomError::File { path: directory.to_owned(), source })?;
        write(&directory.join(TOKEN_KEY), Issuer::generate("")?.to_pem().expose().as_bytes())?;
        write(&directory.join(DATA_KEY), &rand::random::<[u8; 32]>())?;
        write_authority(directory, now)?;
        write_charter(directory, charter)?;
        Self::reopen(directory)
    }

    /// The same with another charter. Another generation is another authority.
    pub fn change(&self, charter: &Charter, now: Timestamp) -> Result<Room, RoomError> {
        if charter.generation > self.charter.generation {
            write_authority(&self.directory, now)?;
        }
        write_charter(&self.directory, charter)?;
        Self::reopen(&self.directory)
    }

    fn reopen(directory: &Path) -> Result<Room, RoomError> {
        let gone = || RoomError::Contents(directory.to_owned(), "it is gone".into());
        Self::open(directory)?.ok_or_else(gone)
    }

    /// What its process is told of it.
    pub fn arguments(&self, audited: bool) -> Vec<String> {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.directory.join(name).display());
        let quota = serde_json::to_string(&self.charter.quota).unwrap_or_default();
        let mut arguments = vec![
            format!("--control-plane={}", self.name),
            file("data-dir", "data"),
            file("client-ca-file", AUTHORITY),
            file("client-ca-key-file", AUTHORITY_KEY),
            file("service-account-key-file", TOKEN_KEY),
            file("data-key-file", DATA_KEY),
            format!("--quota={quota}"),
            format!("--owner={}", self.charter.owner),
        ];
        if !self.charter.egress.is_empty() {
            arguments.push(format!("--egress-allow={}", self.charter.egress));
        }
        if self.charter.aws != AwsUse::default() {
            let aws = serde_json::to_string(&self.charter.aws).unwrap_or_default();
            arguments.push(format!("--aws-use={aws}"));
        }
        arguments.extend(audited.then(|| file("audit-log", "audit.log")));
        arguments.extend(self.charter.memory_limit.map(|bytes| format!("--memory-limit={bytes}")));
        arguments
    }

    /// The public half of what its tokens are signed with.
    pub fn token_keys(&self) -> Value {
        self.issuer.keys_document()
    }
}

/// All that are in a directory of rooms. What cannot be used is told of and left alone.
pub fn all(directory: &Path) -> Result<Vec<Room>, RoomError> {
    let failed = |source| RoomError::File { path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut rooms = Vec::new();
    for entry in entries {
        match Room::open(&entry.map_err(failed)?.path()) {
            Ok(room) => rooms.extend(room),
            Err(error) => tracing::error!(%error, "a control plane cannot be started"),
        }
    }
    Ok(rooms)
}

/// Takes a room away with all that is in it.
pub fn remove(directory: &Path) -> Result<(), RoomError> {
    for removed in [fs::remove_file(directory.join(CHARTER)), fs::remove_dir_all(directory)] {
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(RoomError::File { path: directory.to_owned(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_authority(directory: &Path, now: Timestamp) -> Result<(), RoomError> {
    let authority = Authority::generate("kubernetes", now, AUTHORITY_LIFETIME)?.to_pem();
    write(&directory.join(AUTHORITY_KEY), authority.key.expose().as_bytes())?;
    write(&directory.join(AUTHORITY), authority.certificate.as_bytes())
}

fn write_charter(directory: &Path, charter: &Charter) -> Result<(), RoomError> {
    let path = directory.join(CHARTER);
    let text = serde_json::to_vec(charter);
    write(&path, &text.map_err(|error| RoomError::Contents(path.clone(), error.to_string()))?)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, RoomError> {
    match fs::read(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RoomError::File { path: path.to_owned(), source }),
    }
}

/// Replaces a file in one step.
fn write(path: &Path, contents: &[u8]) -> Result<(), RoomError> {
    let half = path.with_extension("new");
    let written = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&half, path)
    };
    written().map_err(|source| RoomError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn a_directory_is_a_control_plane_when_it_has_a_charter() {
        let rooms = tempfile::tempdir().unwrap();
        let directory = rooms.path().join("a");
        assert!(all(&rooms.path().join("none")).unwrap().is_empty());
        assert!(Room::open(&directory).unwrap().is_none());
        let charter = Charter { owner: "u".to_owned(), ..Charter::default() };
        let made = Room::make(&directory, &charter, now()).unwrap();
        assert_eq!((made.name.as_str(), &made.charter), ("a", &charter));

        // Another quota keeps the keys; another generation is another authority.
        let limited = Charter { memory_limit: Some(1 << 30), ..charter.clone() };
        let same = made.change(&limited, now()).unwrap();
        assert_eq!(same.authority.certificate_pem(), made.authority.certificate_pem());
        assert!(same.arguments(false).contains(&"--memory-limit=1073741824".to_owned()));
        let aws = AwsUse { operator_credentials: true, roles: vec!["r".to_owned()] };
        let allowed = Charter { egress: "10.0.0.0/8".parse().unwrap(), aws, ..limited.clone() };
        let allowed = same.change(&allowed, now()).unwrap().arguments(false);
        for argument in [
            "--owner=u",
            "--egress-allow=10.0.0.0/8",
            r#"--aws-use={"operatorCredentials":true,"roles":["r"]}"#,
        ] {
            assert!(allowed.iter().any(|one| one == argument), "{argument} in {allowed:?}");
            assert_eq!(
                same.arguments(false).iter().any(|one| one == argument),
                argument.starts_with("--owner")
            );
        }
        let revoked = same.change(&Charter { generation: 1, ..limited }, now()).unwrap();
        assert_ne!(revoked.authority.certificate_pem(), made.authority.certificate_pem());
        assert_eq!(revoked.token_keys(), made.token_keys(), "tokens are not concerned");
        let found: Vec<Charter> = all(rooms.path()).unwrap().into_iter().map(|room| room.charter).collect();
        assert_eq!(found, std::slice::from_ref(&revoked.charter));

        // Removed halfway, it is none, and what is made in its place has nothing of it.
        fs::write(directory.join("data"), "left").unwrap();
        fs::remove_file(directory.join(CHARTER)).unwrap();
        assert!(all(rooms.path()).unwrap().is_empty());
        let other = Room::make(&directory, &Charter { owner: "v".to_owned(), ..charter }, now()).unwrap();
        assert_ne!(other.token_keys(), made.token_keys());
        assert!(!directory.join("data").exists());
        remove(&directory).unwrap();
        remove(&directory).unwrap();
        assert!(!directory.exists());
    }
}
