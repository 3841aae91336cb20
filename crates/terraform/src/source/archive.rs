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
    unpack_within(archive, directory, LARGEST)
}

fn unpack_within(archive: &Path, directory: &Path, largest: u64) -> Result<(), SourceError> {
    let wrong = |why: String| SourceError::Archive(archive.display().to_string(), why);
    let file = File::open(archive).map_err(|error| wrong(error.to_string()))?;
    let mut zip = zip::ZipArchive::new(file).map_err(|error| wrong(error.to_string()))?;
    if zip.len() > MOST_FILES {
        return Err(wrong("it has too many files".into()));
    }
    let half = directory.with_extension("half");
    let _ = fs::remove_dir_all(&half);
    let mut left = largest;
    let unpacked = (|| -> io::Result<()> {
        fs::create_dir_all(&half)?;
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).map_err(io::Error::other)?;
            // A name that leads elsewhere is no name of a file in an archive.
            let name =
                entry.enclosed_name().ok_or_else(|| io::Error::other("a name in it leads out of it"))?;
            let path = half.join(name);
            if entry.is_symlink() || entry.unix_mode().is_some_and(is_special) {
                return Err(io::Error::other("something in it is neither a file nor a directory"));
            }
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

/// Whether a mode is that of a link, a device, a pipe or a socket.
fn is_special(mode: u32) -> bool {
    let kind = rustix::fs::FileType::from_raw_mode(mode);
    // Many programs that write archives say nothing of the kind.
    mode & 0o170_000 != 0
        && !matches!(kind, rustix::fs::FileType::RegularFile | rustix::fs::FileType::Directory)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn check(what: &str, largest: u64, write: impl FnOnce(&mut zip::ZipWriter<File>)) {
        let place = tempfile::TempDir::new().unwrap();
        let (archive, directory) = (place.path().join("a.zip"), place.path().join("provider"));
        let mut zip = zip::ZipWriter::new(File::create(&archive).unwrap());
        zip.start_file("terraform-provider-demo", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"program").unwrap();
        write(&mut zip);
        zip.finish().unwrap();
        let unpacked = unpack_within(&archive, &directory, largest);
        let left: Vec<_> =
            fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        match what {
            "" => {
                unpacked.unwrap();
                assert_eq!(left.len(), 2);
            }
            // Nothing is left, neither inside nor outside of where it was to go.
            why => {
                let refused = unpacked.unwrap_err().to_string();
                assert!(refused.contains(why), "{refused}");
                assert_eq!(left, ["a.zip"], "{why}");
            }
        }
    }

    #[test]
    fn hostile_archives_are_refused_as_a_whole() {
        let plain = zip::write::SimpleFileOptions::default();
        check("", 1 << 20, |_| ());
        for name in ["../out", "a/../../out"] {
            check("leads out of it", 1 << 20, |zip| zip.start_file(name, plain).unwrap());
        }
        check("neither a file nor a directory", 1 << 20, |zip| {
            zip.add_symlink("link", "/etc/passwd", plain).unwrap();
        });
        check("too large", 1 << 20, |zip| {
            zip.start_file("bomb", plain).unwrap();
            zip.write_all(&vec![0; 2 << 20]).unwrap();
        });
        check("too many files", 1 << 20, |zip| {
            (0..MOST_FILES).for_each(|number| zip.start_file(number.to_string(), plain).unwrap());
        });
        // A file where a directory is to be.
        check("", 1 << 20, |zip| zip.start_file("a/b", plain).unwrap());
        check("", 1 << 20, |zip| zip.add_directory("a", plain).unwrap());
        for kind in [0o020_000, 0o060_000, 0o010_000, 0o140_000, 0o120_000] {
            assert!(is_special(kind | 0o644), "{kind:o}");
        }
        for kind in [0o100_000, 0o040_000, 0] {
            assert!(!is_special(kind | 0o755), "{kind:o}");
        }
    }
}
