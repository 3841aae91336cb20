//! What is ephemeral and open at the moment.
//!
//! Something is opened once for all who need it at the same time, renewed while it is open, and closed when nobody has
//! needed it for a moment. What it came to is here and nowhere else, in memory. Should the server die, nobody closes it:
//! it ends when its provider lets it end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use provision::{Calls, Failure, OperationType};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driver::{failures, telling, wanted};
use crate::plugin::{Ephemeral, Hold, Lease, PluginError};
use crate::protocol::Call;
use crate::value::Value;

/// The resources of a module are looked at one after the other.
const KEPT: Duration = Duration::from_secs(30);
/// A provider that wants to be asked all the time is not.
const SHORTEST_RENEWAL: Duration = Duration::from_millis(100);
/// For what is to be closed when the server ends.
const GRACE: Duration = Duration::from_secs(3);

/// What makes two demands the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Of everything that says what is opened, for whom, and by whom.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Key(hash.finalize().into())
    }
}

/// Something that was just opened, and the way to its provider.
pub struct Opening {
    pub ephemeral: Ephemeral,
    pub lease: Lease,
    pub calls: Calls,
}

#[derive(Clone)]
pub struct Openings {
    shared: Arc<Shared>,
}

struct Shared {
    kept: Duration,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    attended: TaskTracker,
    /// Of those that are attended to now.
    ending: Mutex<CancellationToken>,
}

struct Slot {
    open: OnceCell<Open>,
    used: Mutex<Instant>,
}

struct Open {
    value: Value,
    lease: Lease,
}

/// Something open, in use: it stays so while this is held.
pub struct Held(Arc<Slot>);

impl Held {
    pub fn value(&self) -> &Value {
        self.0.open.get().map_or(&Value::Null, |open| &open.value)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
    }
}

impl Default for Openings {
    fn default() -> Openings {
        Openings::kept_for(KEPT)
    }
}

impl Openings {
    /// With another time for which something stays open that nobody needs.
    pub fn kept_for(kept: Duration) -> Openings {
        let (attended, ending) = (TaskTracker::new(), Mutex::default());
        Openings { shared: Arc::new(Shared { kept, slots: Mutex::default(), attended, ending }) }
    }

    /// What is open by this key, or is opened now.
    pub async fn get(
        &self,
        key: Key,
        opening: impl Future<Output = Result<Opening, Failure>>,
    ) -> Result<Held, Failure> {
        let held = self.slot(key);
        let slot = &held.0;
        let mut new = None;
        let opened = slot.open.get_or_try_init(|| async {
            let Opening { ephemeral, lease, calls } = opening.await?;
            new = Some((ephemeral.hold, calls));
            Ok(Open { value: ephemeral.value, lease })
        });
        if let Err(failure) = opened.await.map(drop) {
            self.shared.forget(key, slot);
            return Err(failure);
        }
        if let Some((hold, calls)) = new {
            let (shared, slot) = (self.shared.clone(), slot.clone());
            self.shared.attended.spawn(async move { shared.attend(key, slot, hold, calls).await });
        }
        Ok(held)
    }

    fn slot(&self, key: Key) -> Held {
        let mut slots = self.shared.slots.lock();
        let now = Instant::now();
        let new = || Arc::new(Slot { open: OnceCell::new(), used: Mutex::new(now) });
        let slot = slots.entry(key).or_insert_with(new);
        // What a process held open is gone with it.
        if slot.open.get().is_some_and(|open| open.lease.has_ended()) {
            *slot = new();
        }
        Held(slot.clone())
    }

    /// How much is open at the moment.
    pub fn count(&self) -> usize {
        self.shared.slots.lock().len()
    }

    /// Closes everything; for the end of the server, or of its turn.
    pub async fn close(&self) {
        std::mem::take(&mut *self.shared.ending.lock()).cancel();
        self.shared.attended.close();
        if tokio::time::timeout(GRACE, self.shared.attended.wait()).await.is_err() {
            tracing::warn!("something ephemeral could not be closed in time");
        }
        self.shared.attended.reopen();
    }
}

impl Shared {
    fn forget(&self, key: Key, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if slots.get(&key).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&key);
        }
    }

    /// Renews it while it is open, and closes it.
    async fn attend(&self, key: Key, slot: Arc<Slot>, mut hold: Hold, calls: Calls) {
        let Some(Open { lease, value }) = slot.open.get() else { return };
        let mut secrets = Vec::new();
        wanted::texts(&telling::json(value), &mut secrets);
        let ending = self.ending.lock().clone();
        let mut renewal = renewal(&hold);
        loop {
            let (now, unneeded) = (Instant::now(), *slot.used.lock() + self.kept);
            // While it is in use, the last use is long ago.
            let look = if unneeded > now { unneeded } else { now + self.kept };
            tokio::select! {
                () = tokio::time::sleep_until(renewal.map_or(look, |renewal| renewal.min(look))) => {}
                () = ending.cancelled() => break,
            }
            if self.is_over(key, &slot) || lease.has_ended() {
                break;
            }
            if renewal.is_some_and(|renewal| renewal <= Instant::now()) {
                let renewed = lease.renew_ephemeral(&hold);
                match told(lease, &calls, Call::RenewEphemeralResource, renewed).await {
                    Ok(renewed) => hold = renewed,
                    Err(failure) => {
                        let why = failures::redacted(failure.message, &secrets);
                        tracing::warn!(why, "something ephemeral cannot be renewed; it is opened anew");
                        break;
                    }
                }
                renewal = self::renewal(&hold);
            }
        }
        self.forget(key, &slot);
        if lease.has_ended() {
            return;
        }
        let closed = lease.close_ephemeral(hold);
        if let Err(failure) = told(lease, &calls, Call::CloseEphemeralResource, closed).await {
            let why = failures::redacted(failure.message, &secrets);
            tracing::warn!(why, "something ephemeral cannot be closed");
        }
    }

    /// Whether nobody needs it any more; nobody gets it then.
    fn is_over(&self, key: Key, slot: &Arc<Slot>) -> bool {
        let mut slots = self.slots.lock();
        // One who attends to it, and the map.
        let unused = Arc::strong_count(slot) <= 2 && slot.used.lock().elapsed() >= self.kept;
        if unused && slots.get(&key).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&key);
        }
        unused
    }
}

/// A call of the provider that opened it: at the account's pace, counted, and judged.
async fn told<T>(
    lease: &Lease,
    calls: &Calls,
    which: Call,
    call: impl Future<Output = Result<T, PluginError>>,
) -> Result<T, Failure> {
    let called = async { lease.judge(call.await).map_err(|error| failures::failure(error, None, false)) };
    calls.make(OperationType::ReadOne, which.name(), called).await
}

/// When it has to be renewed, by a clock that is not set.
fn renewal(hold: &Hold) -> Option<Instant> {
    let left = hold.renew_at?.duration_since(SystemTime::now()).unwrap_or_default();
    Some(Instant::now() + left.max(SHORTEST_RENEWAL))
}
