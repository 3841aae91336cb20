//! How far the log is known to reach, in a small file beside the database.
//!
//! SQLite ends its log at the first frame that does not fit its checksum. That is right for a frame that was being
//! written when the machine stopped, and it hides that frames which had been acknowledged are damaged or gone. So the
//! end of the log is written down here as well: after the commit is durable, hence never ahead of it, and before it
//! is acknowledged. The file itself waits for the disk at checkpoints only: a process that ends however loses nothing of
//! it, and a machine that loses power at most what was acknowledged since.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::checksum::{self, Record};

pub(super) const FILE: &str = "head";

const MAGIC: [u8; 8] = *b"hngrhead";
/// Two slots, written in turn: one that is torn leaves the other. Each has a sector of a disk for itself.
const SLOT: u64 = 4096;
const LENGTH: usize = 40;

/// Where the log ends, and the last tenant made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub position: u64,
    pub tenant: u64,
}

pub(super) struct Head {
    /// None where nothing can be written.
    file: Option<Arc<File>>,
    sequence: u64,
}

impl Head {
    /// Opens the file, and makes it if there is none; with what it says.
    pub(super) fn open(directory: &Path) -> io::Result<(Head, Option<Known>)> {
        let path = directory.join(FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < 2 * SLOT {
            // Written in full, so that no later write needs room on the disk.
            file.write_all_at(&[0; 2 * SLOT as usize], 0)?;
        }
        let latest = read(&file)?;
        let sequence = latest.map_or(0, |(sequence, _)| sequence);
        Ok((Head { file: Some(Arc::new(file)), sequence }, latest.map(|(_, known)| known)))
    }

    pub(super) fn unwritable() -> Head {
        Head { file: None, sequence: 0 }
    }

    pub(super) fn write(&mut self, known: Known) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let sequence = self.sequence + 1;
        let numbers = [sequence, known.position, known.tenant];
        let mut slot = Vec::with_capacity(LENGTH);
        slot.extend_from_slice(&MAGIC);
        for number in numbers {
            slot.extend_from_slice(&number.to_le_bytes());
        }
        slot.extend_from_slice(&checksum::of(Record::Head, &numbers, &[], &[]).to_le_bytes());
        file.write_all_at(&slot, (sequence % 2) * SLOT)?;
        self.sequence = sequence;
        Ok(())
    }

    /// The file, for whoever waits for the disk.
    pub(super) fn file(&self) -> Option<Arc<File>> {
        self.file.clone()
    }
}

/// What a file says without opening it for writing; none if there is none.
pub(super) fn known(directory: &Path) -> io::Result<Option<Known>> {
    match File::open(directory.join(FILE)) {
        Ok(file) => Ok(read(&file)?.map(|(_, known)| known)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(file: &File) -> io::Result<Option<(u64, Known)>> {
    let mut latest: Option<(u64, Known)> = None;
    for slot in 0..2 {
        let mut bytes = [0; LENGTH];
        match file.read_exact_at(&mut bytes, slot * SLOT) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error),
        }
        let number = |index: usize| {
            let at = MAGIC.len() + 8 * index;
            bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let numbers = [number(0), number(1), number(2)];
        let fits = bytes.starts_with(&MAGIC) && number(3) == checksum::of(Record::Head, &numbers, &[], &[]);
        if fits && latest.is_none_or(|(sequence, _)| sequence < numbers[0]) {
            latest = Some((numbers[0], Known { position: numbers[1], tenant: numbers[2] }));
        }
    }
    Ok(latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_slot_counts() {
        let directory = tempfile::tempdir().unwrap();
        let (mut head, none) = Head::open(directory.path()).unwrap();
        assert_eq!(none, None);
        for position in 1..=5 {
            head.write(Known { position, tenant: 1 }).unwrap();
        }
        let said = || Head::open(directory.path()).unwrap().1.map(|known| known.position);
        assert_eq!(said(), Some(5));
        // 5 is in the second slot. Torn, it leaves what was written before it.
        let file = head.file().unwrap();
        file.write_all_at(b"torn", SLOT + 20).unwrap();
        assert_eq!(said(), Some(4));
        file.write_all_at(b"torn", 20).unwrap();
        assert_eq!(said(), None);
        assert_eq!(known(directory.path()).unwrap(), None);
    }
}
