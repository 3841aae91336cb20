//! Where provider programs come from: a path, or a mirror in Terraform's layout, on disk or behind a web server.
//!
//! A mirror is asked for the newest version that fits; what it gives is checked (against the mirror's own checksums,
//! those of the user, and those seen the first time), unpacked into a cache once, and stays there.

mod archive;
mod hashes;
mod mirror;
mod version;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use hashes::{of_directory, of_zip};
pub use mirror::Mirror;
pub use version::{Constraint, Version};

use crate::plugin::Stamp;
use crate::web::FetchError;

/// The registry that is meant when nobody says another.
const DEFAULT_HOST: &str = "registry.terraform.io";
const DEFAULT_NAMESPACE: &str = "hashicorp";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{0:?} is not the address of a provider; write it as namespace/name or host/namespace/name")]
    Address(String),
    #[error("{0:?} is not a version constraint, such as \"~> 3.1\" or \">= 2.0, < 3.0\"")]
    Constraint(String),
    #[error("there is no program at {0}")]
    NoProgram(String),
    #[error("{mirror} has no provider {address}")]
    NoProvider { mirror: String, address: String },
    #[error("{mirror} has no version of {address} that fits {constraint:?}; it has {available}")]
    NoVersion { mirror: String, address: String, constraint: String, available: String },
    #[error("{mirror} has {address} {version} only for {available}, and this machine is {platform}")]
    NoPlatform { mirror: String, address: String, version: String, platform: String, available: String },
    #[error(
        "the checksum of {address} {version} is {found}, and it should be {expected}; it may have been tampered with"
    )]
    Checksum { address: String, version: String, found: String, expected: String },
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{what} cannot be read: {reason}")]
    Unreadable { what: String, reason: String },
    #[error("{0} is not an archive of a provider: {1}")]
    Archive(String, String),
}

/// `registry.terraform.io/hashicorp/random`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub namespace: String,
    pub name: String,
}

impl Address {
    pub fn parse(text: &str) -> Result<Address, SourceError> {
        let part = |part: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.' || c == ':';
            (!part.is_empty() && part.chars().all(fits) && !part.starts_with('.'))
                .then(|| part.to_ascii_lowercase())
        };
        let parts: Option<Vec<String>> = text.split('/').map(part).collect();
        let (host, namespace, name) = match parts.unwrap_or_default().as_slice() {
            [name] => (DEFAULT_HOST.to_owned(), DEFAULT_NAMESPACE.to_owned(), name.clone()),
            [namespace, name] => (DEFAULT_HOST.to_owned(), namespace.clone(), name.clone()),
            [host, namespace, name] => (host.clone(), namespace.clone(), name.clone()),
            _ => return Err(SourceError::Address(text.to_owned())),
        };
        Ok(Address { host, namespace, name })
    }

    fn path(&self) -> String {
        format!("{}/{}/{}", self.host, self.namespace, self.name)
    }

    /// What the program is called, up to its version.
    fn program(&self) -> String {
        format!("terraform-provider-{}", self.name)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path())
    }
}

/// This machine, as Terraform calls it.
pub fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{}_{arch}", std::env::consts::OS)
}

/// A provider that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub program: PathBuf,
    /// SHA-256 of the program, in hexadecimal.
    pub digest: String,
    pub version: Option<Version>,
    /// Checksums of what was found, by which it is known again.
    pub hashes: Vec<String>,
    /// Of the program before it was read.
    pub stamp: Option<Stamp>,
}

/// What is asked of a mirror.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub address: Address,
    pub constraint: Constraint,
    /// One of these it has to be, by any of its checksums; any, if there are none.
    pub hashes: Vec<String>,
}

/// A program by its path.
pub async fn at_path(path: &Path) -> Result<Found, SourceError> {
    if !tokio::fs::metadata(path).await.is_ok_and(|metadata| metadata.is_file()) {
        return Err(SourceError::NoProgram(path.display().to_string()));
    }
    let stamp = Stamp::of(path);
    let digest = digest(path).await?;
    Ok(Found { program: path.to_owned(), digest, version: None, hashes: Vec::new(), stamp })
}

/// The newest that fits, fetched and unpacked below `cache` if it is not there yet.
pub async fn from_mirror(mirror: &Mirror, wanted: &Wanted, cache: &Path) -> Result<Found, SourceError> {
    let version = mirror.newest(wanted).await?;
    let directory = mirror.fetch(wanted, &version, cache).await?;
    let program = archive::program(&directory, &wanted.address)?;
    let hashes = blocking({
        let directory = directory.clone();
        move || hashes::of_directory(&directory)
    })
    .await
    .map_err(|error| unreadable(&directory.display(), &error))?;
    check(wanted, &version, std::slice::from_ref(&hashes))?;
    let stamp = Stamp::of(&program);
    let digest = digest(&program).await?;
    Ok(Found { program, digest, version: Some(version), hashes: vec![hashes], stamp })
}

/// Whether something with these checksums may be used. Only those of a kind that we have can be compared.
fn check(wanted: &Wanted, version: &Version, found: &[String]) -> Result<(), SourceError> {
    let kind = |hash: &str| hash.split_once(':').map(|(kind, _)| kind.to_owned());
    for found in found {
        let expected: Vec<&String> = wanted.hashes.iter().filter(|hash| kind(hash) == kind(found)).collect();
        if !expected.is_empty() && !expected.contains(&found) {
            return Err(SourceError::Checksum {
                address: wanted.address.to_string(),
                version: version.to_string(),
                found: found.clone(),
                expected: expected.into_iter().cloned().collect::<Vec<_>>().join(" or "),
            });
        }
    }
    Ok(())
}

fn unreadable(what: &dyn std::fmt::Display, reason: &dyn std::fmt::Display) -> SourceError {
    SourceError::Unreadable { what: what.to_string(), reason: reason.to_string() }
}

/// Programs are large: they are read apart from those who wait for other things.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

async fn digest(path: &Path) -> Result<String, SourceError> {
    let owned = path.to_owned();
    let digest = blocking(move || hashes::of_file(&owned)).await;
    digest.map_err(|error| unreadable(&path.display(), &error))
}
