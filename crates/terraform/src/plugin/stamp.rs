//! By which a file is known again without reading it: programs of providers have hundreds of megabytes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// None if there is no file.
    pub fn of(path: &Path) -> Option<Stamp> {
        let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some(Stamp { inode: metadata.ino(), length: metadata.len(), modified: metadata.modified().ok() })
    }
}
