//! How many calls an account bears: one token bucket for each (account, region, service), shared by all kinds and
//! tenants, that slows down when the cloud says so and speeds up again while it does not.
//!
//! **Invariants:** buckets are in a bounded map and go when nobody asks; nobody waits in one for longer than a
//! moment: who would have to gives up the worker and comes again.

use std::sync::Arc;
use std::time::Duration;

use objects::CompactString;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// What calls are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitKey(CompactString);

impl LimitKey {
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> LimitKey {
        LimitKey(parts.into_iter().collect::<Vec<_>>().join("/").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The pace of a bucket that was never told to slow down.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub per_second: f64,
    pub burst: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { per_second: 200.0, burst: 400.0 }
    }
}

/// The slowest that a bucket becomes, in calls per second.
const SLOWEST: f64 = 0.5;
/// What remains of the pace when the cloud refuses a call. Refusals within a second of each other are one.
const SLOWER: f64 = 0.5;
const TOGETHER: Duration = Duration::from_secs(1);
/// What a call that was not refused adds to the pace, of the full pace.
const FASTER: f64 = 0.005;
/// Buckets that are kept.
const BUCKETS: usize = 8_192;

/// The buckets of a process.
pub struct Limits {
    pace: Pace,
    buckets: Cache<LimitKey, Arc<Bucket>>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new(Pace::default())
    }
}

impl Limits {
    pub fn new(pace: Pace) -> Limits {
        Limits { pace, buckets: Cache::new(BUCKETS) }
    }

    pub fn bucket(&self, key: &LimitKey) -> Arc<Bucket> {
        let made = self.buckets.get_or_insert_with(key, || Ok::<_, ()>(Arc::new(Bucket::new(self.pace))));
        made.unwrap_or_else(|()| Arc::new(Bucket::new(self.pace)))
    }
}

pub struct Bucket {
    full: Pace,
    level: Mutex<Level>,
}

struct Level {
    tokens: f64,
    per_second: f64,
    filled: Instant,
    refused: Option<Instant>,
}

impl Bucket {
    pub fn new(full: Pace) -> Bucket {
        let level =
            Level { tokens: full.burst, per_second: full.per_second, filled: Instant::now(), refused: None };
        Bucket { full, level: Mutex::new(level) }
    }

    /// Takes a token and says how long to wait for it, or takes none and says how long that would be.
    fn take(&self, patience: Duration, now: Instant) -> Result<Duration, Duration> {
        let mut level = self.level.lock();
        let passed = now.saturating_duration_since(level.filled).as_secs_f64();
        level.filled = now;
        level.tokens = (level.tokens + passed * level.per_second).min(self.full.burst);
        // Below nothing: others wait already, and this one after them.
        let missing = (1.0 - level.tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / level.per_second).unwrap_or(Duration::MAX);
        if wait > patience {
            return Err(wait);
        }
        level.tokens -= 1.0;
        Ok(wait)
    }

    /// Waits for a token; the error is how long that would take.
    pub async fn acquire(&self, patience: Duration) -> Result<(), Duration> {
        let wait = self.take(patience, Instant::now())?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// The cloud said that these were too many calls.
    pub fn refused(&self) {
        let (mut level, now) = (self.level.lock(), Instant::now());
        if level.refused.is_some_and(|at| now.saturating_duration_since(at) < TOGETHER) {
            return;
        }
        level.refused = Some(now);
        level.per_second = (level.per_second * SLOWER).max(SLOWEST);
        level.tokens = level.tokens.min(1.0);
    }

    pub fn accepted(&self) {
        let mut level = self.level.lock();
        level.per_second = (level.per_second + self.full.per_second * FASTER).min(self.full.per_second);
    }

    /// Calls per second that are let through now.
    pub fn pace(&self) -> f64 {
        self.level.lock().per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_slows_down_and_speeds_up() {
        let bucket = Bucket::new(Pace { per_second: 10.0, burst: 2.0 });
        let patience = Duration::from_secs(1);
        let began = Instant::now();
        for _ in 0..7 {
            bucket.acquire(patience).await.unwrap();
        }
        // Two at once, and then one after the other.
        assert_eq!(began.elapsed().as_millis() / 10, 50);
        bucket.refused();
        bucket.refused();
        assert_eq!(bucket.pace(), 5.0);
        tokio::time::advance(TOGETHER).await;
        for _ in 0..20 {
            bucket.refused();
            tokio::time::advance(TOGETHER).await;
        }
        assert_eq!(bucket.pace(), SLOWEST);
        bucket.acquire(patience).await.unwrap();
        bucket.acquire(patience).await.unwrap();
        assert!(bucket.acquire(patience).await.is_err(), "nobody waits that long");
        for _ in 0..1_000 {
            bucket.accepted();
        }
        assert_eq!(bucket.pace(), 10.0);
    }

    #[test]
    fn keys_share_a_bucket() {
        let limits = Limits::default();
        let key = LimitKey::of(["1", "eu", "s3"]);
        assert!(Arc::ptr_eq(&limits.bucket(&key), &limits.bucket(&LimitKey::of(["1", "eu", "s3"]))));
        assert!(!Arc::ptr_eq(&limits.bucket(&key), &limits.bucket(&LimitKey::of(["2", "eu", "s3"]))));
    }
}
