//! Archives of modules: fetched, checked, and read without being unpacked anywhere.

use std::io::{Cursor, Read};

use sha2::{Digest, Sha256};

use super::{Held, MOST_BYTES, Size};

/// The largest archive that is fetched.
pub const LARGEST: usize = 16 << 20;

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
}

impl Reading {
    fn zip(&mut self, bytes: &[u8]) -> Result<(), String> {
        let wrong = |error: zip::result::ZipError| format!("the archive cannot be read: {error}");
        let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).map_err(wrong)?;
        for index in 0..zip.len() {
            let entry = zip.by_index(index).map_err(wrong)?;
            // A name that leads elsewhere is no name of a file in an archive.
            let Some(name) = entry.enclosed_name() else { continue };
            self.add(&name.to_string_lossy(), entry)?;
        }
        Ok(())
    }

    fn tar(&mut self, bytes: impl Read) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("the archive cannot be read: {error}");
        let mut tar = tar::Archive::new(bytes);
        for entry in tar.entries().map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
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
        let mut bytes = Vec::new();
        let read = content.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("{name} of the archive cannot be read: {error}"))?;
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
}
