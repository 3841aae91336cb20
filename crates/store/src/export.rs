//! A tenant as a stream of bytes, the same for every engine.
//!
//! ```text
//! "hangarex"  version: u32  revision: u64  latest: u64
//! per entry:  length: u32   created: u64   modified: u64   (length: u16  bytes) x 3   value
//! end:        0: u32        entries: u64   SHA-256 of all before it
//! ```
//! Numbers are big-endian; entries are in the order of their keys, each key once.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use compact_str::CompactString;
use sha2::{Digest, Sha256};

use crate::{Entry, Key, Revision, StoreError};

const MAGIC: &[u8; 8] = b"hangarex";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 8;
const TRAILER: usize = 8 + 32;
/// Beyond what any engine stores: such a length is damage, and must not become an allocation.
const LARGEST_RECORD: usize = 512 << 20;
/// Revisions stay far below what any engine's integers hold, import after import.
const LARGEST_REVISION: u64 = 1 << 62;

/// What an export is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The revision it shows.
    pub revision: Revision,
    /// The tenant's revision when it was made: at least `revision`.
    pub latest: Revision,
}

/// The exported tenant may have gone on after its export; an import begins beyond what it can have served meanwhile,
/// so that no client takes something old for new.
const GAP: u64 = 1_000_000_000;

#[must_use]
pub fn revision_after_import(header: &Header) -> Revision {
    Revision(header.latest.0.saturating_add(GAP))
}

/// Writes an export.
#[derive(Default)]
pub struct Encoder {
    out: BytesMut,
    hash: Sha256,
    entries: u64,
}

impl Encoder {
    #[must_use]
    pub fn new() -> Self {
        Encoder::default()
    }

    pub fn header(&mut self, header: &Header) {
        self.out.put_slice(MAGIC);
        self.out.put_u32(VERSION);
        self.out.put_u64(header.revision.0);
        self.out.put_u64(header.latest.0);
    }

    pub fn entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let parts = [&entry.key.kind, &entry.key.namespace, &entry.key.name];
        let length = 16 + parts.iter().map(|part| 2 + part.len()).sum::<usize>() + entry.value.len();
        let too_long = || StoreError::Failed(format!("{:?} is too large to export", entry.key));
        if length > LARGEST_RECORD {
            return Err(too_long());
        }
        self.out.put_u32(u32::try_from(length).map_err(|_| too_long())?);
        self.out.put_u64(entry.created.0);
        self.out.put_u64(entry.modified.0);
        for part in parts {
            self.out.put_u16(u16::try_from(part.len()).map_err(|_| too_long())?);
            self.out.put_slice(part.as_bytes());
        }
        self.out.put_slice(&entry.value);
        self.entries += 1;
        Ok(())
    }

    /// What has been written since the last call.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        self.hash.update(&self.out);
        self.out.split().freeze()
    }

    /// The rest, with the end.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        self.out.put_u32(0);
        self.out.put_u64(self.entries);
        self.hash.update(&self.out);
        self.out.put_slice(&self.hash.finalize());
        self.out.freeze()
    }
}

enum Stage {
    Header,
    Entries,
    Trailer,
    Done,
}

/// Reads an export as it arrives. Nothing it gave out may be kept before [`Decoder::finish`] has found all of it
/// whole.
pub struct Decoder {
    buffer: BytesMut,
    hash: Sha256,
    stage: Stage,
    header: Option<Header>,
    last: Option<Key>,
    entries: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            buffer: BytesMut::new(),
            hash: Sha256::new(),
            stage: Stage::Header,
            header: None,
            last: None,
            entries: 0,
        }
    }
}

fn bad(why: impl Into<String>) -> StoreError {
    StoreError::BadExport(why.into())
}

impl Decoder {
    #[must_use]
    pub fn new() -> Self {
        Decoder::default()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next entry, or none until more bytes arrive.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, StoreError> {
        loop {
            match self.stage {
                Stage::Header => {
                    let Some(bytes) = self.consume(HEADER) else { return Ok(None) };
                    self.header = Some(header(bytes)?);
                    self.stage = Stage::Entries;
                }
                Stage::Entries => {
                    let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
                    let length = u32::from_be_bytes(*length) as usize;
                    if length > LARGEST_RECORD {
                        return Err(bad(format!("an entry of {length} bytes")));
                    }
                    let Some(mut record) = self.consume(4 + length) else { return Ok(None) };
                    if length == 0 {
                        self.stage = Stage::Trailer;
                        continue;
                    }
                    record.advance(4);
                    return self.accept(record).map(Some);
                }
                Stage::Trailer => {
                    if self.buffer.len() < TRAILER {
                        return Ok(None);
                    }
                    let count = self.consume(8).map_or(0, |mut bytes| bytes.get_u64());
                    if count != self.entries {
                        return Err(bad(format!("it has {} entries and says {count}", self.entries)));
                    }
                    let said = self.buffer.split_to(32);
                    if said[..] != self.hash.clone().finalize()[..] {
                        return Err(bad("its checksum does not match"));
                    }
                    self.stage = Stage::Done;
                }
                Stage::Done if self.buffer.is_empty() => return Ok(None),
                Stage::Done => return Err(bad("something follows its end")),
            }
        }
    }

    /// What it says it is of, once that much has been read.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// All of it was read, and is whole.
    pub fn finish(self) -> Result<Header, StoreError> {
        match (self.stage, self.header) {
            (Stage::Done, Some(header)) => Ok(header),
            _ => Err(bad("it ends early")),
        }
    }

    fn consume(&mut self, length: usize) -> Option<Bytes> {
        if self.buffer.len() < length {
            return None;
        }
        let bytes = self.buffer.split_to(length).freeze();
        self.hash.update(&bytes);
        Some(bytes)
    }

    fn accept(&mut self, mut record: Bytes) -> Result<Entry, StoreError> {
        let short = || bad("an entry is shorter than its parts");
        let created = Revision(record.try_get_u64().map_err(|_| short())?);
        let modified = Revision(record.try_get_u64().map_err(|_| short())?);
        let mut part = || -> Result<CompactString, StoreError> {
            let length = usize::from(record.try_get_u16().map_err(|_| short())?);
            if record.len() < length {
                return Err(short());
            }
            CompactString::from_utf8(record.split_to(length)).map_err(|_| bad("a name is not UTF-8"))
        };
        let key = Key { kind: part()?, namespace: part()?, name: part()? };
        if key.kind.is_empty()
            || [&key.kind, &key.namespace, &key.name].iter().any(|part| part.contains('\0'))
        {
            return Err(bad(format!("{key:?} cannot be a key")));
        }
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            return Err(bad(format!("{key:?} is out of order")));
        }
        if created > modified || self.header.is_none_or(|header| modified > header.revision) {
            return Err(bad(format!("{key:?} has revisions that cannot be")));
        }
        self.last = Some(key.clone());
        self.entries += 1;
        Ok(Entry { key, created, modified, value: record })
    }
}

fn header(mut bytes: Bytes) -> Result<Header, StoreError> {
    if bytes.split_to(MAGIC.len()) != MAGIC[..] {
        return Err(bad("it is no export of a tenant"));
    }
    let version = bytes.get_u32();
    if version != VERSION {
        return Err(bad(format!("its format is {version}, and this version knows {VERSION}")));
    }
    let header = Header { revision: Revision(bytes.get_u64()), latest: Revision(bytes.get_u64()) };
    if header.latest < header.revision || header.latest.0 > LARGEST_REVISION {
        return Err(bad("its revisions cannot be"));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Header, Vec<Entry>, Bytes) {
        let header = Header { revision: Revision(9), latest: Revision(12) };
        let entry = |namespace: &str, name: &str, value: &'static [u8]| Entry {
            key: Key::new("configmaps", namespace, name),
            created: Revision(2),
            modified: Revision(7),
            value: Bytes::from_static(value),
        };
        let entries = vec![entry("", "x", b""), entry("a", "a", b"one"), entry("a", "b", &[0; 3000])];
        let mut encoder = Encoder::new();
        encoder.header(&header);
        let mut bytes = BytesMut::new();
        for entry in &entries {
            encoder.entry(entry).unwrap();
            bytes.extend_from_slice(&encoder.take());
        }
        bytes.extend_from_slice(&encoder.finish());
        (header, entries, bytes.freeze())
    }

    fn decode(chunks: impl Iterator<Item = Vec<u8>>) -> Result<(Header, Vec<Entry>), StoreError> {
        let mut decoder = Decoder::new();
        let mut entries = Vec::new();
        for chunk in chunks {
            decoder.push(&chunk);
            while let Some(entry) = decoder.next_entry()? {
                entries.push(entry);
            }
        }
        Ok((decoder.finish()?, entries))
    }

    #[test]
    fn round_trip_in_pieces_of_any_size() {
        let (header, entries, bytes) = sample();
        for size in [1, 2, 7, 64, 1000, 100_000] {
            let (decoded, found) = decode(bytes.chunks(size).map(<[u8]>::to_vec)).unwrap();
            assert_eq!((decoded, &found), (header, &entries), "pieces of {size}");
        }
    }

    #[test]
    fn every_damaged_byte_and_every_missing_end_is_found() {
        let (.., bytes) = sample();
        for index in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[index] ^= 0x41;
            assert!(decode(std::iter::once(damaged)).is_err(), "byte {index}");
            assert!(decode(std::iter::once(bytes[..index].to_vec())).is_err(), "cut at {index}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(decode(std::iter::once(longer)).is_err());
    }
}
