//! Files of the data directory: written whole or not at all, and secret ones readable by their owner alone.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Makes a directory that only its owner can look into.
pub fn private_dir(path: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create directory {}", path.display()))
}

/// Parts of a data directory that hold keys, databases, or what comes from them.
const PRIVATE: [&str; 6] = ["keys", "store", "stores", "dedicated", "processes", "terraform-kinds"];
/// How deep directories of ours lie in these: `processes/NAME/data/store/hangar.db`.
const DEPTH: usize = 5;

/// Takes away what others may do with a data directory that is there already, whoever made it. What cannot be changed is
/// told; keys that others can read are refused.
pub fn close_to_others(data_dir: &Path) -> anyhow::Result<()> {
    let about = fs::metadata(data_dir).with_context(|| format!("read directory {}", data_dir.display()))?;
    close(data_dir, &about, false)?;
    for part in PRIVATE {
        close_below(&data_dir.join(part), part == "keys", DEPTH)?;
    }
    Ok(())
}

fn close_below(path: &Path, keys: bool, depth: usize) -> anyhow::Result<()> {
    // What is linked to is not ours.
    let about = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() || about.is_file() => about,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    close(path, &about, keys)?;
    if about.is_dir() && depth > 0 {
        for entry in fs::read_dir(path).with_context(|| format!("read directory {}", path.display()))? {
            close_below(&entry?.path(), keys, depth - 1)?;
        }
    }
    Ok(())
}

/// What group and others may do.
const OTHERS: u32 = 0o077;

fn close(path: &Path, about: &fs::Metadata, keys: bool) -> anyhow::Result<()> {
    let mode = about.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS)) {
        Ok(()) => {
            tracing::info!(path = %path.display(), "was open to other users; it is private now");
            Ok(())
        }
        // It went meanwhile, as files of a database do.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if keys => Err(error).with_context(|| {
            format!("change mode of {}: it holds keys, and other users can read it", path.display())
        }),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "is open to other users, and cannot be made private");
            Ok(())
        }
    }
}

/// Replaces a file in one step, so that a reader never sees half of it. One that is as it should be stays: a server on a full
/// or read-only disk needs no room for what it has already.
pub fn write_private(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    if is_private(path) && fs::read(path).is_ok_and(|there| there == contents) {
        return Ok(());
    }
    let mut replacement = Replacement::begin(path)?;
    replacement.file().write_all(contents).with_context(|| format!("cannot write {}", path.display()))?;
    replacement.finish()
}

fn is_private(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 == 0)
}

/// A file that is written beside another and then takes its place; dropped before that, it is gone.
pub struct Replacement {
    path: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    finished: bool,
}

impl Replacement {
    pub fn begin(path: &Path) -> anyhow::Result<Replacement> {
        let failed = || format!("cannot write {}", path.display());
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let temporary = path.with_file_name(name);
        let opened =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        Ok(Replacement {
            path: path.to_owned(),
            temporary,
            file: opened.with_context(failed)?,
            finished: false,
        })
    }

    pub fn file(&mut self) -> &mut fs::File {
        &mut self.file
    }

    pub fn finish(mut self) -> anyhow::Result<()> {
        let replaced = self.file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
        // The name is only there for good when the directory is.
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let replaced = replaced.and_then(|()| fs::File::open(directory)?.sync_all());
        self.finished = replaced.is_ok();
        replaced.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// What a file holds, or what it holds from now on.
pub fn read_or_create(
    path: &Path,
    make: impl FnOnce() -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    match fs::read(path) {
        Ok(contents) => Ok(contents),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let contents = make()?;
            write_private(path, &contents)?;
            Ok(contents)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_there_already_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys/file");
        write_private(&path, b"one").unwrap();
        let number = || fs::metadata(&path).unwrap().ino();
        let (first, mode) = (number(), || fs::metadata(&path).unwrap().permissions().mode() & 0o777);
        write_private(&path, b"one").unwrap();
        assert_eq!((number(), mode()), (first, 0o600));
        write_private(&path, b"two").unwrap();
        assert_ne!(number(), first);
        // One that others can read is made anew.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode()), (b"two".to_vec(), 0o600));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_open_to_others_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let outside = directory.path().join("outside");
        fs::write(&outside, "x").unwrap();
        for part in ["keys", "store", "terraform-kinds", "dedicated/7", "other"] {
            fs::create_dir_all(data.join(part)).unwrap();
        }
        let files = [
            "keys/data.key",
            "store/hangar.db",
            "store/hangar.db-wal",
            "dedicated/7/hangar.db",
            "terraform-kinds/a",
        ];
        for file in files.iter().chain(&["other/file"]) {
            fs::write(data.join(file), "x").unwrap();
            fs::set_permissions(data.join(file), fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, data.join("store/link")).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();
        for part in ["", "keys", "store", "terraform-kinds", "dedicated/7"] {
            fs::set_permissions(data.join(part), fs::Permissions::from_mode(0o755)).unwrap();
        }
        close_to_others(&data).unwrap();
        for part in ["", "keys", "store", "terraform-kinds", "dedicated", "dedicated/7"] {
            assert_eq!(mode(&data.join(part)), 0o700, "{part}");
        }
        for file in files {
            assert_eq!(mode(&data.join(file)), 0o600, "{file}");
        }
        assert_eq!((mode(&data.join("other/file")), mode(&outside)), (0o644, 0o644));
    }
}
