//! Whether the default store answers, for `/readyz`: one small question every second, whatever the number of control planes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::engine::Engine;

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_secs(1);
/// A store that gave no good answer for so long is not there. Less may be a restart that nobody needs to turn away for.
const SILENCE: Duration = Duration::from_secs(2);

/// Since when the store has been asked in vain; none while it answers, and where nobody asks.
#[derive(Debug, Default)]
pub(crate) struct Pulse(Mutex<Option<Instant>>);

impl Pulse {
    /// Whether the store has been silent for too long.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.lock().is_some_and(|since| since.elapsed() >= SILENCE)
    }
}

impl Engine {
    /// Asks the store from now on, until this is dropped. For stores of another process: one's own is there, or nothing is.
    pub async fn feel_pulse(self: Arc<Self>) {
        loop {
            self.pulse.0.lock().get_or_insert_with(Instant::now);
            let asking = self.store.tenant(&self.config.hosting);
            // Asked again rather than waited for, so that it is noticed when it is back.
            if let Ok(Ok(_)) = tokio::time::timeout(SILENCE, asking).await {
                *self.pulse.0.lock() = None;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
