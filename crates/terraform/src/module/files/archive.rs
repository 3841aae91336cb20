//! Archives of modules: fetched, checked, and read without being unpacked anywhere.

use std::io::{Cursor, Read};

use sha2::{Digest, Sha256};

use super::{Held, LARGEST_BESIDE, MOST_BYTES, Size, is_module_file};

/// The largest archive that is fetched.
pub const LARGEST: usize = 16 << 20;
/// Entries of an archive, of any kind: each takes memory while it is read.
const MOST_ENTRIES: usize = 20_000;
/// Bytes that may come out of an archive, also those that are skipped: a few bytes can stand for a thousand times as many.
const MOST_UNPACKED: u64 = 256 << 20;
/// What an entry of a zip file's directory begins with.
const ZIP_ENTRY: &[u8] = b"PK\x01\x02";

/// The texts in an archive. What is one directory at the top, as hosts of repositories pack them, is not part of
/// their names.
pub fn open(bytes: &[u8], sha256: &str) -> Result<Held, String> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != sha256 {
        return Err(format!("the archive has the checksum sha256:{found}, and sha256:{sha256} is required"));
    }
    let mut reading = Reading::default();
    match bytes {
        [0x1f, 0x8b, ..] => reading.tar(flate2::read::GzDecoder::new(bytes))?,
        [b'P', b'K', ..] => reading.zip(bytes)?,
        _ => return Err("the archive is neither zip nor tar.gz".into()),
    }
    Ok(reading.held())
}

/// The texts in what git packs: their names are as they are.
pub fn of_tar(bytes: &[u8]) -> Result<Held, String> {
    let mut reading = Reading::default();
    reading.tar(bytes)?;
    Ok(reading.files.into_iter().collect())
}

#[derive(Default)]
struct Reading {
    files: Vec<(String, String)>,
    size: Size,
    unpacked: u64,
}

fn too_many() -> String {
    format!("the archive has more than {MOST_ENTRIES} entries")
}

/// The way out of an archive, which ends when too much has come out.
struct Bounded<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| std::io::Error::other(too_large()))?;
        Ok(read)
    }
}

fn too_large() -> String {
    format!("unpacked it has more than {} MiB", MOST_UNPACKED >> 20)
}

impl Reading {
    fn zip(&mut self, bytes: &[u8]) -> Result<(), String> {
        // Before the directory is read, which is kept in memory as a whole.
        if bytes.windows(ZIP_ENTRY.len()).filter(|window| *window == ZIP_ENTRY).count() > MOST_ENTRIES {
            return Err(too_many());
        }
        let wrong = |error: zip::result::ZipError| format!("the archive cannot be read: {error}");
        let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).map_err(wrong)?;
        for index in 0..zip.len() {
            let entry = zip.by_index(index).map_err(wrong)?;
            if !entry.is_file() || entry.is_symlink() {
                continue;
            }
            // A name that leads elsewhere is no name of a file in an archive.
            let Some(name) = entry.enclosed_name() else { continue };
            self.add(&name.to_string_lossy(), entry)?;
            if self.unpacked > MOST_UNPACKED {
                return Err(format!("the archive cannot be read: {}", too_large()));
            }
        }
        Ok(())
    }

    fn tar(&mut self, bytes: impl Read) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("the archive cannot be read: {error}");
        // Names that need more than a header are read into memory by the library, so that this bounds them too.
        let mut tar = tar::Archive::new(Bounded { reader: bytes, left: MOST_UNPACKED });
        for (number, entry) in tar.entries().map_err(wrong)?.enumerate() {
            let entry = entry.map_err(wrong)?;
            if number >= MOST_ENTRIES {
                return Err(too_many());
            }
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let name = entry.path().map_err(wrong)?.to_string_lossy().into_owned();
            self.add(&name, entry)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, content: impl Read) -> Result<(), String> {
        let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
        if parts.iter().any(|part| part.is_empty() || *part == "..") {
            return Ok(());
        }
        let most = if is_module_file(name) { MOST_BYTES } else { LARGEST_BESIDE as u64 };
        let mut bytes = Vec::new();
        let read = content.take(most + 1).read_to_end(&mut bytes);
        self.unpacked +=
            read.map_err(|error| format!("{name} of the archive cannot be read: {error}"))? as u64;
        if let Some(text) = self.size.text(name, bytes)? {
            self.files.push((parts.join("/"), text));
        }
        Ok(())
    }

    fn held(mut self) -> Held {
        let top = |(name, _): &(String, String)| name.split_once('/').map(|(top, _)| top.to_owned());
        let first = self.files.first().and_then(top);
        if let Some(first) =
            first.filter(|first| self.files.iter().all(|file| top(file).as_ref() == Some(first)))
        {
            self.files.iter_mut().for_each(|(name, _)| drop(name.drain(..=first.len())));
        }
        self.files.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn sum(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn both_kinds() {
        let files = [("top/main.tf", "a"), ("top/net/main.tf", "b"), ("top/README.md", "c")];
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
        for (name, text) in files {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let archives = [zip.finish().unwrap().into_inner(), tar.into_inner().unwrap().finish().unwrap()];
        for bytes in archives {
            let held = open(&bytes, &sum(&bytes)).unwrap();
            assert_eq!(held.keys().collect::<Vec<_>>(), ["README.md", "main.tf", "net/main.tf"]);
            assert_eq!(held["net/main.tf"], "b");
            let refused = open(&bytes, &"0".repeat(64)).unwrap_err();
            assert!(refused.ends_with("is required"), "{refused}");
        }
        assert_eq!(open(b"x", &sum(b"x")).unwrap_err(), "the archive is neither zip nor tar.gz");
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    }

    /// A tar entry whose name is written as it is; the library itself would refuse to write most of them.
    fn entry(tar: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, name: &str, link: &str, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }

    #[test]
    fn of_a_hostile_tar_only_files_inside_of_it_are_read() {
        use tar::EntryType as Kind;

        let mut tar = tar::Builder::new(Vec::new());
        entry(&mut tar, Kind::Regular, "main.tf", "", b"own");
        for name in ["../out.tf", "a/../../out.tf", "/etc/out.tf", "a//out.tf", "..", "//", "/"] {
            entry(&mut tar, Kind::Regular, name, "", b"out");
        }
        let links = [(Kind::Symlink, "link.tf"), (Kind::Link, "hard.tf"), (Kind::Symlink, "dir")];
        for (kind, name) in links {
            entry(&mut tar, kind, name, "/etc/passwd", b"");
        }
        for (kind, name) in [(Kind::Char, "zero.tf"), (Kind::Block, "disk.tf"), (Kind::Fifo, "pipe.tf")] {
            entry(&mut tar, kind, name, "", b"");
        }
        // What is below a link is a name like any other: nothing is unpacked that it could lead through.
        entry(&mut tar, Kind::Regular, "dir/beside.txt", "", b"beside");
        let bytes = gzip(&tar.into_inner().unwrap());
        let held = open(&bytes, &sum(&bytes)).unwrap();
        assert_eq!(held.keys().collect::<Vec<_>>(), ["dir/beside.txt", "main.tf"]);
    }

    #[test]
    fn of_a_hostile_zip_only_files_inside_of_it_are_read() {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let plain = zip::write::SimpleFileOptions::default();
        for name in ["main.tf", "../out.tf", "a/../../out.tf", "/etc/../../out.tf"] {
            zip.start_file(name, plain).unwrap();
            zip.write_all(b"text").unwrap();
        }
        zip.add_symlink("link.tf", "/etc/passwd", plain).unwrap();
        zip.add_directory("sub.tf", plain).unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        let held = open(&bytes, &sum(&bytes)).unwrap();
        assert_eq!(held.keys().collect::<Vec<_>>(), ["main.tf"]);
    }

    #[test]
    fn bombs_are_bounded() {
        let check = |bytes: Vec<u8>, why: &str| {
            assert!(bytes.len() <= LARGEST, "it would not be fetched");
            let refused = open(&bytes, &sum(&bytes)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        };
        let header = |kind: tar::EntryType, name: &str, size: u64| {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let zeros = |mut tar: Vec<u8>, bytes: u64| {
            tar.resize(tar.len() + bytes as usize, 0);
            gzip(&tar)
        };
        let most = MOST_UNPACKED + (1 << 20);
        // One that is skipped, one that is a name, one that declares.
        check(zeros(header(tar::EntryType::Regular, "noise", most), most), "more than 256 MiB");
        check(zeros(header(tar::EntryType::GNULongName, "././@LongLink", most), most), "more than 256 MiB");
        check(zeros(header(tar::EntryType::Regular, "main.tf", 5 << 20), 5 << 20), "too large");
        // A sparse file says that it is larger than the archive; no part of it becomes a module's.
        let sparse = zeros(header(tar::EntryType::GNUSparse, "main.tf", 0), 1_024);
        assert!(open(&sparse, &sum(&sparse)).unwrap_or_default().is_empty());

        let many = header(tar::EntryType::Directory, "d", 0).repeat(MOST_ENTRIES + 1);
        check(gzip(&many), "more than 20000 entries");
        let plain = zip::write::SimpleFileOptions::default();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for number in 0..=MOST_ENTRIES {
            zip.start_file(format!("{number}"), plain).unwrap();
        }
        check(zip.finish().unwrap().into_inner(), "more than 20000 entries");
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let zeros = vec![0; LARGEST_BESIDE + 1];
        for number in 0..=MOST_UNPACKED / zeros.len() as u64 {
            zip.start_file(format!("{number}"), plain).unwrap();
            zip.write_all(&zeros).unwrap();
        }
        check(zip.finish().unwrap().into_inner(), "more than 256 MiB");
        // Files of a module have bounds of their own, together.
        let mut tar = tar::Builder::new(Vec::new());
        for number in 0..=super::super::MOST_FILES {
            entry(&mut tar, tar::EntryType::Regular, &format!("{number}.tf"), "", b"");
        }
        check(gzip(&tar.into_inner().unwrap()), "the module is too large");
        // What ends in its middle is told, not waited for.
        check(gzip(&header(tar::EntryType::Regular, "main.tf", 100)), "cannot be read");
    }
}
