//! What is told of a control plane that moved to another store.

use apiserver::Moved;
use jiff::Timestamp;
use objects::{Value, time};
use serde_json::json;

/// For its status.
pub fn shown(moved: &Moved, now: Timestamp) -> Value {
    json!({
        "from": moved.from, "to": moved.to, "time": time::format(now), "entries": moved.entries,
        "milliseconds": millis(moved.took), "pauseMilliseconds": millis(moved.pause),
    })
}

/// For people.
pub fn sentence(moved: &Moved) -> String {
    format!(
        "moved from store {} to store {}: {} entries in {} ms, of which writes had to wait for {} ms",
        moved.from,
        moved.to,
        moved.entries,
        millis(moved.took),
        millis(moved.pause)
    )
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
