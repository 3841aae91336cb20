//! Mirrors: a directory in Terraform's layout (packed or unpacked), or a web server that speaks the mirror protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{SourceError, Version, Wanted, archive, blocking, check, hashes, platform, unreadable};
use crate::web;

/// What a web server may say about versions, and how large an archive may be.
const LARGEST_INDEX: usize = 8 << 20;
const LARGEST_ARCHIVE: usize = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirror {
    Directory(PathBuf),
    /// Ends with a slash.
    Network(String),
}

impl std::fmt::Display for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mirror::Directory(directory) => write!(f, "{}", directory.display()),
            Mirror::Network(url) => f.write_str(url),
        }
    }
}

/// The answer to `index.json`.
#[derive(Deserialize)]
struct Index {
    versions: BTreeMap<String, serde_json::Value>,
}

/// The answer to `VERSION.json`.
#[derive(Deserialize)]
struct Archives {
    archives: BTreeMap<String, Archive>,
}

#[derive(Clone, Deserialize)]
struct Archive {
    url: String,
    #[serde(default)]
    hashes: Vec<String>,
}

impl Mirror {
    pub fn network(url: &str) -> Result<Mirror, SourceError> {
        if !web::is_safe(url) {
            return Err(SourceError::Unreadable { what: url.into(), reason: "a mirror needs https".into() });
        }
        Ok(Mirror::Network(if url.ends_with('/') { url.to_owned() } else { format!("{url}/") }))
    }

    /// The newest version that fits and is there for this machine.
    pub async fn newest(&self, wanted: &Wanted) -> Result<Version, SourceError> {
        let address = &wanted.address;
        let available: Vec<Version> = match self {
            Mirror::Directory(root) => local_versions(&root.join(address.path()), &address.program())
                .into_iter()
                .map(|(version, _)| version)
                .collect(),
            Mirror::Network(base) => {
                let index: Index =
                    get_json(&format!("{base}{}/index.json", address.path()), self, wanted).await?;
                index.versions.keys().filter_map(|text| Version::parse(text)).collect()
            }
        };
        if available.is_empty() {
            return Err(SourceError::NoProvider { mirror: self.to_string(), address: address.to_string() });
        }
        let newest = available.iter().filter(|version| wanted.constraint.fits(version)).max();
        newest.cloned().ok_or_else(|| {
            let mut all = available.clone();
            all.sort();
            all.dedup();
            SourceError::NoVersion {
                mirror: self.to_string(),
                address: address.to_string(),
                constraint: wanted.constraint.to_string(),
                available: all.iter().rev().take(10).map(ToString::to_string).collect::<Vec<_>>().join(", "),
            }
        })
    }

    fn no_platform(&self, wanted: &Wanted, version: &Version, mut available: Vec<String>) -> SourceError {
        available.sort();
        available.dedup();
        SourceError::NoPlatform {
            mirror: self.to_string(),
            address: wanted.address.to_string(),
            version: version.to_string(),
            platform: platform(),
            available: available.join(", "),
        }
    }

    /// The directory with the files of a version for this machine.
    pub async fn fetch(
        &self,
        wanted: &Wanted,
        version: &Version,
        cache: &Path,
    ) -> Result<PathBuf, SourceError> {
        let address = &wanted.address;
        let cached = cache.join(address.path()).join(version.to_string()).join(platform());
        match self {
            Mirror::Directory(root) => {
                let directory = root.join(address.path());
                let all = local_versions(&directory, &address.program());
                let own: Vec<_> = all.into_iter().filter(|(found, _)| found == version).collect();
                let here = own.iter().find(|(_, place)| place.platform == platform());
                let Some((_, place)) = here else {
                    let others = own.into_iter().map(|(_, place)| place.platform).collect();
                    return Err(self.no_platform(wanted, version, others));
                };
                if place.path.is_dir() {
                    return Ok(place.path.clone());
                }
                unpacked(&place.path, &cached, wanted, version, &[]).await
            }
            Mirror::Network(base) => {
                let index = format!("{base}{}/{version}.json", address.path());
                let archives: Archives = get_json(&index, self, wanted).await?;
                let Some(archive) = archives.archives.get(&platform()) else {
                    return Err(self.no_platform(wanted, version, archives.archives.into_keys().collect()));
                };
                // Of a version that was fetched before nothing is asked again; its checksum is looked at all the same.
                if cached.is_dir() {
                    return Ok(cached);
                }
                let url = web::resolve(&index, &archive.url);
                let bytes = web::get(web::From::Operator, &url, LARGEST_ARCHIVE).await?;
                let bytes = bytes.ok_or_else(|| unreadable(&url, &"it is not there"))?;
                let scratch = cached.with_extension("zip");
                let parent = cached.parent().unwrap_or(cache).to_owned();
                let written = blocking({
                    let scratch = scratch.clone();
                    move || {
                        std::fs::create_dir_all(parent)?;
                        std::fs::write(scratch, bytes)
                    }
                });
                written.await.map_err(|error| unreadable(&scratch.display(), &error))?;
                let unpacked = unpacked(&scratch, &cached, wanted, version, &archive.hashes).await;
                let _ = std::fs::remove_file(&scratch);
                unpacked
            }
        }
    }
}

/// An archive, checked and unpacked. What fits is what the user says and one of what the mirror says, if it does.
async fn unpacked(
    archive: &Path,
    directory: &Path,
    wanted: &Wanted,
    version: &Version,
    promised: &[String],
) -> Result<PathBuf, SourceError> {
    let (from, to) = (archive.to_owned(), directory.to_owned());
    let zip = blocking({
        let from = from.clone();
        move || hashes::of_zip(&from)
    });
    let zip = zip.await.map_err(|error| unreadable(&archive.display(), &error))?;
    check(wanted, version, std::slice::from_ref(&zip))?;
    let by_mirror = Wanted { hashes: promised.to_vec(), ..wanted.clone() };
    check(&by_mirror, version, &[zip])?;
    if !to.is_dir() {
        let done = tokio::task::spawn_blocking(move || archive::unpack(&from, &to)).await;
        done.map_err(|error| unreadable(&archive.display(), &error))??;
    }
    let owned = directory.to_owned();
    let files = blocking(move || hashes::of_directory(&owned)).await;
    let files = files.map_err(|error| unreadable(&directory.display(), &error))?;
    if let Err(error) = check(&by_mirror, version, &[files]) {
        let _ = std::fs::remove_dir_all(directory);
        return Err(error);
    }
    Ok(directory.to_owned())
}

struct LocalPlace {
    platform: String,
    path: PathBuf,
}

/// What a directory has of one provider, packed and unpacked.
fn local_versions(directory: &Path, program: &str) -> Vec<(Version, LocalPlace)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) =
            name.strip_prefix(&format!("{program}_")).and_then(|rest| rest.strip_suffix(".zip"))
        {
            // VERSION_OS_ARCH
            let mut parts = rest.splitn(2, '_');
            if let (Some(version), Some(platform)) = (parts.next().and_then(Version::parse), parts.next()) {
                found.push((version, LocalPlace { platform: platform.to_owned(), path: entry.path() }));
            }
        } else if let Some(version) = Version::parse(&name).filter(|_| entry.path().is_dir()) {
            for platform in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let place = LocalPlace {
                    platform: platform.file_name().to_string_lossy().into_owned(),
                    path: platform.path(),
                };
                found.push((version.clone(), place));
            }
        }
    }
    found
}

async fn get_json<T: serde::de::DeserializeOwned>(
    url: &str,
    mirror: &Mirror,
    wanted: &Wanted,
) -> Result<T, SourceError> {
    let Some(bytes) = web::get(web::From::Operator, url, LARGEST_INDEX).await? else {
        let address = wanted.address.to_string();
        return Err(SourceError::NoProvider { mirror: mirror.to_string(), address });
    };
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&url, &error))
}
