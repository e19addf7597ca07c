//! [`Histogram`]: how late tasks were started, in buckets of fixed bounds.

use std::{sync::LazyLock, time::Duration};

/// Each bucket ends at its start times this. The value that stands for a bucket is within the square root of it.
const GROWTH: f64 = 1.08;
/// The end of the first bucket: everything below is counted together.
const LEAST: Duration = Duration::from_millis(1);
/// The start of the last bucket: everything from it on is counted together.
const MOST: Duration = Duration::from_secs(86_400);

/// The starts of the buckets after the first one, in seconds.
static STARTS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut starts = Vec::new();
    let mut start = LEAST.as_secs_f64();
    while start < MOST.as_secs_f64() {
        starts.push(start);
        start *= GROWTH;
    }
    starts.push(MOST.as_secs_f64());
    starts
});

/// The number of values in each bucket.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    buckets: Box<[u32]>,
    values: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            buckets: vec![0; STARTS.len() + 1].into(),
            values: 0,
        }
    }

    pub(super) fn add(&mut self, value: Duration) {
        let value = value.as_secs_f64();
        let bucket = STARTS.partition_point(|start| *start <= value);
        // There are as many buckets as the partition point has values.
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
            self.values += 1;
        }
    }

    /// Adds the values of another one.
    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *count = count.saturating_add(*more);
        }
        self.values += other.values;
    }

    /// Returns the number of values.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// Returns the value, in seconds, that this share of the values does not exceed: at most 4 % off, or 1 ms. From a day on it
    /// is a day. `None` without values.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.values as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let reached = |count: &u32| {
            below += u64::from(*count);
            below >= rank
        };
        let bucket = self.buckets.iter().position(reached)?;
        Some(
            match (STARTS.get(bucket.wrapping_sub(1)), STARTS.get(bucket)) {
                (Some(start), Some(end)) => (start * end).sqrt(),
                (None, _) => LEAST.as_secs_f64() / 2.0,
                (_, None) => MOST.as_secs_f64(),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the value of the rank that [`Histogram::quantile`] looks for.
    fn exact(values: &mut [Duration], share: f64) -> f64 {
        values.sort();
        let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
        values[rank - 1].as_secs_f64()
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_its_error(
            micros in proptest::collection::vec(prop_oneof![0_u64..5_000, 0_u64..200_000_000_000], 1..300),
            share in 0.0_f64..=1.0,
        ) {
            let mut values: Vec<_> = micros.into_iter().map(Duration::from_micros).collect();
            let (mut whole, mut halves) = (Histogram::new(), [Histogram::new(), Histogram::new()]);
            for (n, value) in values.iter().enumerate() {
                whole.add(*value);
                halves[n % 2].add(*value);
            }
            let exact = exact(&mut values, share).min(MOST.as_secs_f64());
            let found = whole.quantile(share).unwrap();
            prop_assert!((found - exact).abs() <= (exact * 0.04).max(0.001), "{found} for {exact}");
            let [mut merged, other] = halves;
            merged.merge(&other);
            prop_assert_eq!(merged.quantile(share), Some(found));
            prop_assert_eq!(merged.values(), values.len() as u64);
        }
    }

    #[test]
    fn without_values_there_is_no_quantile_and_the_memory_is_bounded() {
        assert_eq!(Histogram::new().quantile(0.5), None);
        assert!(STARTS.len() < 256, "{}", STARTS.len());
        let mut one = Histogram::new();
        one.add(Duration::MAX);
        assert_eq!(one.quantile(0.99), Some(86_400.0));
    }
}
