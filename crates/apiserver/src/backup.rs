//! Exports of a store as backups, in which nothing is encrypted, and back.

use bytes::Bytes;
use futures::{StreamExt, stream};
use store::export::{Decoder, Encoder};
use store::{Entry, Export, StoreError};

use crate::codec::Codec;

/// An export of a control plane as a backup.
#[must_use]
pub fn opened(export: Export, codec: Codec) -> Export {
    rewritten(export, move |entry| {
        entry.value =
            codec.opened(&entry.key, &entry.value).map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(())
    })
}

/// A backup as the control plane that it is for stores it.
#[must_use]
pub fn closed(backup: Export, codec: Codec) -> Export {
    rewritten(backup, move |entry| {
        entry.value = codec
            .closed(&entry.key, &entry.value)
            .map_err(|error| StoreError::BadExport(error.to_string()))?;
        Ok(())
    })
}

/// An export with every entry changed, read and written as it passes.
fn rewritten(
    export: Export,
    change: impl Fn(&mut Entry) -> Result<(), StoreError> + Send + 'static,
) -> Export {
    struct State<F> {
        from: Export,
        decoder: Decoder,
        encoder: Encoder,
        begun: bool,
        change: F,
    }
    let state =
        State { from: export, decoder: Decoder::new(), encoder: Encoder::new(), begun: false, change };
    Box::pin(stream::try_unfold(Some(state), |state| async move {
        let Some(mut state) = state else { return Ok::<_, StoreError>(None) };
        loop {
            let chunk = state.from.next().await.transpose()?;
            let ended = chunk.is_none();
            state.decoder.push(chunk.as_deref().unwrap_or_default());
            let mut written = false;
            while let Some(mut entry) = state.decoder.next_entry()? {
                begin(&mut state.encoder, &state.decoder, &mut state.begun);
                (state.change)(&mut entry)?;
                state.encoder.entry(&entry)?;
                written = true;
            }
            if ended {
                begin(&mut state.encoder, &state.decoder, &mut state.begun);
                // Only now is it known to be whole and undamaged.
                state.decoder.finish()?;
                return Ok(Some((state.encoder.finish(), None)));
            }
            if written {
                let bytes: Bytes = state.encoder.take();
                return Ok(Some((bytes, Some(state))));
            }
        }
    }))
}

fn begin(encoder: &mut Encoder, decoder: &Decoder, begun: &mut bool) {
    if let Some(header) = decoder.header()
        && !*begun
    {
        encoder.header(&header);
        *begun = true;
    }
}
