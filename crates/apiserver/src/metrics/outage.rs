//! A store that is away is told of once, however many ask meanwhile, and once when it is back.

use std::sync::atomic::{AtomicU8, Ordering};

use store::StoreError;

const READS: u8 = 1;
const WRITES: u8 = 2;
const CLOSED: u8 = 4;

/// What does not work. Each is known to work again when it did: a store whose disk is full can still be read.
#[derive(Debug, Default)]
pub struct Outage(AtomicU8);

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Began,
    Ended,
}

impl Outage {
    /// To be told how every operation ended.
    pub fn heard<T>(&self, writes: bool, result: &Result<T, StoreError>) {
        match (self.news(writes, result), result) {
            (Some(News::Began), Err(error)) => tracing::error!("{error}"),
            (Some(News::Ended), _) => tracing::info!("the store is available again"),
            _ => {}
        }
    }

    /// From now on it is away because we wanted it so.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    fn news<T>(&self, writes: bool, result: &Result<T, StoreError>) -> Option<News> {
        let part = if writes { WRITES } else { READS };
        match result {
            Err(StoreError::Unavailable(_)) => {
                (self.0.fetch_or(part, Ordering::Relaxed) == 0).then_some(News::Began)
            }
            // Nearly always: nothing to write down.
            _ if self.0.load(Ordering::Relaxed) & part == 0 => None,
            _ => (self.0.fetch_and(!part, Ordering::Relaxed) == part).then_some(News::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_once() {
        let outage = Outage::default();
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
