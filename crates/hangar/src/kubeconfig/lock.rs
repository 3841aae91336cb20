//! kubectl's lock: while `FILE.lock` is there, somebody is changing FILE.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A change takes milliseconds. A lock that is there for longer was left behind.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Held until it is dropped.
#[derive(Debug)]
pub struct Lock(PathBuf);

impl Lock {
    pub fn take(path: &Path) -> anyhow::Result<Lock> {
        Lock::take_within(path, PATIENCE)
    }

    fn take_within(path: &Path, patience: Duration) -> anyhow::Result<Lock> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        let failed = || format!("cannot lock {}", path.display());
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let began = Instant::now();
        loop {
            match File::options().write(true).create_new(true).mode(0o600).open(&lock) {
                Ok(_) => return Ok(Lock(lock)),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error).with_context(failed);
                }
                Err(_) if began.elapsed() < patience => std::thread::sleep(PAUSE),
                Err(_) => bail!(
                    "{} is being changed by another program; if there is none, remove {}",
                    path.display(),
                    lock.display()
                ),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/config");
        let held = Lock::take(&path).unwrap();
        assert!(dir.path().join("new/config.lock").exists());
        let refused = Lock::take_within(&path, Duration::ZERO).unwrap_err().to_string();
        assert!(refused.contains("is being changed by another program"), "{refused}");
        drop(held);
        Lock::take_within(&path, Duration::ZERO).unwrap();
        assert!(!dir.path().join("new/config.lock").exists());
    }
}
