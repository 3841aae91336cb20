//! What a backup says of the control plane that it is of, before what was in it.
//!
//! ```text
//! "hangarbk"  length: u32  a JSON document   (an export: see `store::export`)
//! ```
//! Backups of earlier versions begin with the export; of those nothing is known but what is in them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use store::{Export, StoreError};

const MAGIC: &[u8; 8] = b"hangarbk";
const HEAD: usize = 8 + 4;
/// Far beyond what is written: such a length is damage, and must not become an allocation.
const LARGEST: usize = 64 << 10;

/// Of a control plane, what is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
}

/// An export with that before it.
pub fn written(about: &About, export: Export) -> Export {
    let document = serde_json::json!(about).to_string();
    let mut head = BytesMut::with_capacity(HEAD + document.len());
    head.put_slice(MAGIC);
    head.put_u32(u32::try_from(document.len()).unwrap_or(u32::MAX));
    head.put_slice(document.as_bytes());
    Box::pin(stream::iter([Ok(head.freeze())]).chain(export))
}

/// What a backup says, and the export in it.
pub async fn read(mut backup: Export) -> Result<(About, Export), StoreError> {
    let mut begun = BytesMut::new();
    fill(&mut begun, &mut backup, HEAD).await?;
    if !begun.starts_with(MAGIC) || begun.len() < HEAD {
        return Ok((About::default(), again(begun.freeze(), backup)));
    }
    begun.advance(MAGIC.len());
    let length = usize::try_from(begun.get_u32()).unwrap_or(usize::MAX);
    if length > LARGEST {
        return Err(StoreError::BadExport(format!("it says {length} bytes of itself")));
    }
    fill(&mut begun, &mut backup, length).await?;
    if begun.len() < length {
        return Err(StoreError::BadExport("it ends in its head".to_owned()));
    }
    let about = serde_json::from_slice(&begun.split_to(length))
        .map_err(|error| StoreError::BadExport(format!("its head cannot be read: {error}")))?;
    Ok((about, again(begun.freeze(), backup)))
}

async fn fill(begun: &mut BytesMut, backup: &mut Export, enough: usize) -> Result<(), StoreError> {
    while begun.len() < enough {
        let Some(chunk) = backup.next().await.transpose()? else { return Ok(()) };
        begun.extend_from_slice(&chunk);
    }
    Ok(())
}

fn again(begun: Bytes, rest: Export) -> Export {
    Box::pin(stream::iter([Ok(begun)]).chain(rest))
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    fn chunked(bytes: &[u8], size: usize) -> Export {
        let chunks: Vec<_> = bytes.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Box::pin(stream::iter(chunks))
    }

    async fn all(export: Export) -> Vec<u8> {
        export.try_collect::<Vec<Bytes>>().await.unwrap().concat()
    }

    #[tokio::test]
    async fn what_is_written_is_read_however_it_arrives() {
        let about = About { r#type: Some("vcluster".to_owned()) };
        let bytes = all(written(&about, chunked(b"hangarex and so on", 5))).await;
        for size in [1, 7, 1_000] {
            let (read, rest) = read(chunked(&bytes, size)).await.unwrap();
            assert_eq!((read, all(rest).await), (about.clone(), b"hangarex and so on".to_vec()));
        }
    }

    #[tokio::test]
    async fn what_came_before_says_nothing_and_damage_is_told() {
        for old in [&b""[..], b"hangar", b"hangarex and so on"] {
            let (about, rest) = read(chunked(old, 3)).await.unwrap();
            assert_eq!((about, all(rest).await), (About::default(), old.to_vec()));
        }
        for damaged in [&b"hangarbk\xff\xff\xff\xff{}"[..], b"hangarbk\0\0\0\x09{}", b"hangarbk\0\0\0\x02{]"]
        {
            assert!(read(chunked(damaged, 4)).await.is_err(), "{damaged:?}");
        }
    }
}
