//! A store that is away is told of once, however many ask meanwhile, and once when it is back.

use std::sync::atomic::{AtomicU8, Ordering};

use store::StoreError;

const READS: u8 = 1;
const WRITES: u8 = 2;
const CLOSED: u8 = 4;

/// What does not work of a store. Each is known to work again when it did: a store whose disk is full can still be read.
#[derive(Debug)]
pub struct Outage {
    store: String,
    parts: AtomicU8,
}

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Began,
    Ended,
}

impl Outage {
    pub fn of(store: &str) -> Outage {
        Outage { store: store.to_owned(), parts: AtomicU8::new(0) }
    }

    /// To be told how every operation ended.
    pub fn heard<T>(&self, writes: bool, result: &Result<T, StoreError>) {
        match (self.news(writes, result), result) {
            (Some(News::Began), Err(error)) => tracing::error!(store = self.store, "{error}"),
            (Some(News::Ended), _) => tracing::info!(store = self.store, "the store is available again"),
            _ => {}
        }
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
