//! Files of the data directory: written whole or not at all, and secret ones readable by their owner alone.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;

/// Makes a directory that only its owner can look into.
pub fn private_dir(path: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create directory {}", path.display()))
}

/// Replaces a file in one step, so that a reader never sees half of it.
pub fn write_private(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(failed)
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
