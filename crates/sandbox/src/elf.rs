//! Whether a program needs a loader, and which.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Headers of a program that are looked at.
const MOST_HEADERS: u16 = 128;
const LONGEST_PATH: u64 = 4_096;
const PT_INTERP: u32 = 3;

/// The loader that a 64-bit ELF program names. None if it names none, or is something else.
pub(crate) fn loader(program: &Path) -> Option<PathBuf> {
    let mut file = File::open(program).ok()?;
    let mut header = [0; 64];
    file.read_exact(&mut header).ok()?;
    // ELF, 64 bits, little endian.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let offset = u64::from_le_bytes(header[32..40].try_into().ok()?);
    let size = u16::from_le_bytes(header[54..56].try_into().ok()?);
    let count = u16::from_le_bytes(header[56..58].try_into().ok()?);
    if size < 56 {
        return None;
    }
    for at in 0..count.min(MOST_HEADERS) {
        file.seek(SeekFrom::Start(offset.checked_add(u64::from(at) * u64::from(size))?)).ok()?;
        let mut entry = [0; 56];
        file.read_exact(&mut entry).ok()?;
        if u32::from_le_bytes(entry[..4].try_into().ok()?) != PT_INTERP {
            continue;
        }
        let start = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let length = u64::from_le_bytes(entry[32..40].try_into().ok()?);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut path = Vec::new();
        file.take(length.min(LONGEST_PATH)).read_to_end(&mut path).ok()?;
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        return Some(PathBuf::from(String::from_utf8(path.to_vec()).ok()?));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_tests_have_one_and_texts_have_none() {
        let own = loader(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.to_string_lossy().contains("ld-linux") && own.exists(), "{}", own.display());
        assert_eq!(loader(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()), None);
        assert_eq!(loader(Path::new("/nowhere")), None);
    }
}
