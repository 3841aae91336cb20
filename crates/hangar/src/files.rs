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
}
