//! [`Seconds`]: a set of seconds of a day.

use super::cron::Expression;

pub(super) const DAY: i64 = 24 * 3600;

/// The seconds of a day, one bit each.
#[derive(Debug, Clone)]
pub(super) struct Seconds(Vec<u64>);

impl Seconds {
    pub(super) fn none() -> Self {
        Self(vec![0; (DAY as usize).div_ceil(64)])
    }

    /// Returns the seconds of an expression, on the days that it includes.
    pub(super) fn of(expression: &Expression) -> Self {
        let mut all = Self::none();
        for second in 0..DAY {
            let (hour, minute) = (second / 3600, second / 60 % 60);
            if expression.has_time([hour, minute, second % 60].map(|part| part as u32)) {
                all.set(second, true);
            }
        }
        all
    }

    pub(super) fn set(&mut self, second: i64, to: bool) {
        if let Some(word) = self.0.get_mut(second as usize / 64) {
            let bit = 1 << (second % 64);
            *word = if to { *word | bit } else { *word & !bit };
        }
    }

    pub(super) fn clear(&mut self, from: i64, to: i64) {
        (from.max(0)..to.min(DAY)).for_each(|second| self.set(second, false));
    }

    pub(super) fn add(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    pub(super) fn remove(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word &= !other);
    }

    /// Returns the seconds, latest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = i64> {
        let words = self.0.iter().enumerate().rev();
        words
            .filter(|(_, word)| **word != 0)
            .flat_map(|(at, word)| {
                let bits = (0..64).rev().filter(move |bit| word >> bit & 1 == 1);
                bits.map(move |bit| at as i64 * 64 + bit)
            })
    }

    /// Returns the first of the seconds.
    pub(super) fn earliest(&self) -> Option<i64> {
        let mut words = self.0.iter().enumerate();
        let (at, word) = words.find(|(_, word)| **word != 0)?;
        Some(at as i64 * 64 + i64::from(word.trailing_zeros()))
    }

    pub(super) fn has(&self, second: i64) -> bool {
        let word = self.0.get(second as usize / 64);
        word.is_some_and(|word| word >> (second % 64) & 1 == 1)
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
