//! Terraform's checksums: `zh` of an archive as it is, `h1` of the files in it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

pub fn of_file(path: &Path) -> io::Result<String> {
    digest_of(File::open(path)?)
}

/// `zh:` of an archive.
pub fn of_zip(path: &Path) -> io::Result<String> {
    Ok(format!("zh:{}", of_file(path)?))
}

/// `h1:` of a directory: of the names of its files in order, each with its digest.
pub fn of_directory(directory: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    list(directory, directory, &mut files)?;
    files.sort();
    let mut all = Sha256::new();
    for name in files {
        let digest = of_file(&directory.join(&name))?;
        all.update(format!("{digest}  {}\n", name.display()));
    }
    Ok(format!("h1:{}", STANDARD.encode(all.finalize())))
}

fn list(root: &Path, directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push(name.to_owned());
        }
    }
    Ok(())
}
