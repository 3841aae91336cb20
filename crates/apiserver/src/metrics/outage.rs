//! A store that is away is told of once, however many ask meanwhile, and once when it is back; damage once for each object.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::StoreError;

const READS: u8 = 1;
const WRITES: u8 = 2;
const CLOSED: u8 = 4;

/// After damage was met, a store is not well for so long.
const DAMAGE_LASTS: Duration = Duration::from_secs(600);
/// Damaged objects that are remembered as told; when there are more, they are told again.
const MAX_TOLD: usize = 256;

/// What does not work of a store. Each is known to work again when it did: a store whose disk is full can still be read.
#[derive(Debug)]
pub struct Outage {
    store: String,
    parts: AtomicU8,
    damage: Mutex<Damage>,
}

/// Damage that was met, and when last.
#[derive(Debug, Default)]
struct Damage {
    last: Option<(Instant, String)>,
    told: HashSet<String>,
}

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Began,
    Ended,
}

impl Outage {
    pub fn of(store: &str) -> Outage {
        Outage { store: store.to_owned(), parts: AtomicU8::new(0), damage: Mutex::default() }
    }

    /// To be told how every operation ended.
    pub fn heard<T>(&self, writes: bool, result: &Result<T, StoreError>) {
        if let Err(error @ StoreError::Damaged { .. }) = result
            && self.is_new(error.to_string())
        {
            tracing::error!(store = self.store, %error, "what is stored is damaged");
        }
        match (self.news(writes, result), result) {
            (Some(News::Began), Err(error)) => tracing::error!(store = self.store, "{error}"),
            (Some(News::Ended), _) => tracing::info!(store = self.store, "the store is available again"),
            _ => {}
        }
    }

    /// Whether damage has not been told yet.
    fn is_new(&self, error: String) -> bool {
        let mut damage = self.damage.lock();
        if damage.told.len() >= MAX_TOLD {
            damage.told.clear();
        }
        damage.last = Some((Instant::now(), error.clone()));
        damage.told.insert(error)
    }

    /// Damage that was met lately.
    pub fn damage(&self) -> Option<String> {
        let damage = self.damage.lock();
        damage.last.as_ref().filter(|(last, _)| last.elapsed() < DAMAGE_LASTS).map(|(_, error)| error.clone())
    }

    /// From now on it is away because we wanted it so.
    pub fn close(&self) {
        self.parts.fetch_or(CLOSED, Ordering::Relaxed);
    }

    fn news<T>(&self, writes: bool, result: &Result<T, StoreError>) -> Option<News> {
        let part = if writes { WRITES } else { READS };
        match result {
            Err(StoreError::Unavailable(_)) => {
                (self.parts.fetch_or(part, Ordering::Relaxed) == 0).then_some(News::Began)
            }
            // Nearly always: nothing to write down.
            _ if self.parts.load(Ordering::Relaxed) & part == 0 => None,
            _ => (self.parts.fetch_and(!part, Ordering::Relaxed) == part).then_some(News::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_once_for_each_object() {
        let outage = Outage::of("default");
        assert_eq!(outage.damage(), None);
        assert!(outage.is_new("one".into()));
        assert!(!outage.is_new("one".into()));
        assert!(outage.is_new("two".into()));
        assert_eq!(outage.damage().as_deref(), Some("two"));
        for index in 0..2 * MAX_TOLD {
            assert!(outage.is_new(index.to_string()));
        }
        assert!(outage.damage.lock().told.len() <= MAX_TOLD);
    }

    #[test]
    fn told_once() {
        let outage = Outage::of("default");
        let away = || Err(StoreError::Unavailable("gone".into()));
        for (writes, result, expected) in [
            (false, Ok(()), None),
            (true, away(), Some(News::Began)),
            (true, away(), None),
            (false, away(), None),
            (true, Ok(()), None),
            (true, away(), None),
            (false, Err(StoreError::NoTenant), None),
            (true, Ok(()), Some(News::Ended)),
            (true, Ok(()), None),
            (false, away(), Some(News::Began)),
            (false, Ok(()), Some(News::Ended)),
        ] {
            assert_eq!(outage.news(writes, &result), expected, "{writes} {result:?}");
        }
        outage.close();
        assert_eq!(outage.news(true, &away()), None);
        assert_eq!(outage.news(true, &Ok(())), None);
    }
}
