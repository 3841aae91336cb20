//! What providers said of their resource types, kept over restarts: their kinds are there from the first request on, and
//! not only when every program has been started and asked again.
//!
//! Nothing is asked of a provider by what is kept here, so it may be wrong for the moment until the program has spoken.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::plugin::Catalogue;
use crate::protocol::Version;
use crate::registry::Served;

const ENDING: &str = "kinds";

#[derive(Clone, PartialEq, Message)]
struct Remembered {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(string, tag = "3")]
    digest: String,
    /// Of the protocol that the schemas are of.
    #[prost(uint32, tag = "4")]
    version: u32,
    #[prost(map = "string, bytes", tag = "5")]
    resources: HashMap<String, Vec<u8>>,
}

/// A directory with a file for each provider.
#[derive(Clone, Debug)]
pub struct Memory(PathBuf);

impl Memory {
    pub fn new(directory: impl Into<PathBuf>) -> Memory {
        Memory(directory.into())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.{ENDING}"))
    }

    /// All that is kept. What cannot be read is left out, and written again when its program has spoken.
    pub fn recall(&self) -> Vec<Served> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let files =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == ENDING));
        files.filter_map(|path| read(&path)).collect()
    }

    /// Whole or not at all; not written if it says the same already.
    pub fn keep(&self, served: &Served) -> io::Result<()> {
        let said = Remembered {
            name: served.name.clone(),
            address: served.address.clone(),
            digest: served.digest.clone(),
            version: served.catalogue.version().number(),
            resources: served
                .catalogue
                .resources()
                .map(|(name, bytes)| (name.into(), bytes.into()))
                .collect(),
        };
        let path = self.file(&served.name);
        if decode(&path).as_ref() == Some(&said) {
            return Ok(());
        }
        std::fs::create_dir_all(&self.0)?;
        let beside = path.with_extension("new");
        std::fs::write(&beside, said.encode_to_vec())?;
        std::fs::rename(&beside, &path)
    }

    pub fn forget(&self, name: &str) {
        if let Err(error) = std::fs::remove_file(self.file(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(provider = name, %error, "what a provider said cannot be forgotten");
        }
    }
}

fn decode(path: &Path) -> Option<Remembered> {
    Remembered::decode(std::fs::read(path).ok()?.as_slice()).ok()
}

fn read(path: &Path) -> Option<Served> {
    let said = decode(path)?;
    let catalogue = Catalogue::of_resources(Version::of_number(said.version)?, said.resources);
    Some(Served {
        name: said.name,
        address: said.address,
        program: None,
        digest: said.digest,
        catalogue: catalogue.into(),
    })
}
