//! Numbers that describe many.

use std::time::Duration;

use serde_json::{Value, json};

/// How long things took.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub fn extend(&mut self, others: Latencies) {
        self.0.extend(others.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Milliseconds that this share of them took at most; none of nothing.
    pub fn percentile(&mut self, share: f64) -> Option<f64> {
        self.0.sort_unstable();
        let last = self.0.len().checked_sub(1)?;
        let took = self.0.get((last as f64 * share).round() as usize)?;
        Some(rounded(took.as_secs_f64() * 1e3))
    }

    pub fn summary(&mut self) -> Value {
        let mut at = |share| self.percentile(share);
        json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)})
    }
}

/// The middle one; of an even number, the mean of the middle two.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let lower = if sorted.len().is_multiple_of(2) { *sorted.get(middle - 1)? } else { upper };
    Some((lower + upper) / 2.0)
}

/// To a ten-thousandth: more digits than any of these measurements means.
pub fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn percentiles() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(0.5), None);
        (0..=100).rev().for_each(|ms| latencies.push(Duration::from_millis(ms)));
        for (share, expected) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(latencies.percentile(share), Some(expected));
        }
    }
}
