//! Archives of providers: a zip file with the program and perhaps a licence.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Address, SourceError};

/// The largest provider there is has some 700 MB.
const LARGEST: u64 = 4 << 30;
const MOST_FILES: usize = 1_000;

/// Unpacks an archive into a directory that is not there yet; it is there as a whole or not at all.
pub fn unpack(archive: &Path, directory: &Path) -> Result<(), SourceError> {
    let wrong = |why: String| SourceError::Archive(archive.display().to_string(), why);
    let file = File::open(archive).map_err(|error| wrong(error.to_string()))?;
    let mut zip = zip::ZipArchive::new(file).map_err(|error| wrong(error.to_string()))?;
    if zip.len() > MOST_FILES {
        return Err(wrong("it has too many files".into()));
    }
    let half = directory.with_extension("half");
    let _ = fs::remove_dir_all(&half);
    let mut left = LARGEST;
    let unpacked = (|| -> io::Result<()> {
        fs::create_dir_all(&half)?;
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).map_err(io::Error::other)?;
            // A name that leads elsewhere is no name of a file in an archive.
            let name =
                entry.enclosed_name().ok_or_else(|| io::Error::other("a name in it leads out of it"))?;
            let path = half.join(name);
            if entry.is_dir() {
                fs::create_dir_all(&path)?;
                continue;
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut out = File::create(&path)?;
            let written = io::copy(&mut io::Read::take(&mut entry, left + 1), &mut out)?;
            left = left.checked_sub(written).ok_or_else(|| io::Error::other("it is too large"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        fs::rename(&half, directory)
    })();
    unpacked.map_err(|error| {
        let _ = fs::remove_dir_all(&half);
        wrong(error.to_string())
    })
}

/// The provider's program among the files of a directory.
pub fn program(directory: &Path, address: &Address) -> Result<PathBuf, SourceError> {
    let name = address.program();
    let entries = fs::read_dir(directory).map_err(|error| super::unreadable(&directory.display(), &error))?;
    let mut programs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    programs.sort();
    let none = || SourceError::Archive(directory.display().to_string(), format!("there is no {name} in it"));
    programs.into_iter().next().ok_or_else(none)
}
