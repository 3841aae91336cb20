//! The lock that keeps a second process off a data directory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::OpenError;

/// Held for as long as the store is open; the operating system lets it go when the process ends, however it ends.
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "the open file is the lock")] File);

const FILE: &str = "lock";

pub(crate) fn take(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let failed = |source| OpenError::Directory { directory: directory.to_owned(), source };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let path = directory.join(FILE);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = match opened {
        // Whoever opened the store before left the file, and it can be locked.
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => File::open(&path),
        opened => opened,
    }
    .map_err(failed)?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => {}
        Err(fs4::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder may be between locking and writing its id: then it stays unnamed.
            let _ = file.read_to_string(&mut holder);
            return Err(OpenError::InUse {
                directory: directory.to_owned(),
                pid: holder.trim().parse().ok(),
            });
        }
        Err(fs4::TryLockError::Error(source)) => return Err(failed(source)),
    }
    // Only a help for the message above, so that a full disk does not keep a store from opening for reads.
    let _ = file.set_len(0);
    let _ = file.rewind();
    let _ = writeln!(file, "{}", std::process::id());
    Ok(DirectoryLock(file))
}
