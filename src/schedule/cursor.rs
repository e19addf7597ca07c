//! [`Cursor`]: how far a schedule has decided its times, and [`Known`]: the next time of each expression.

use std::sync::{Mutex, PoisonError};

use jiff::{Timestamp, civil::DateTime};

/// The position up to which a schedule has decided its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The last nominal time that was decided.
    pub(crate) last: Timestamp,
    /// The local time of `last`.
    pub(crate) local: Option<DateTime>,
}

impl From<Timestamp> for Cursor {
    fn from(last: Timestamp) -> Self {
        Self { last, local: None }
    }
}

/// The next times of the expressions of a schedule, as they were searched last: in a row of times each expression is searched
/// once for each of its own, and not for those of the others.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Vec<Option<Found>>>);

/// The first time of an expression after another one.
#[derive(Debug, Clone, Copy)]
struct Found {
    after: Timestamp,
    next: Option<Timestamp>,
}

impl Clone for Known {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Known {
    /// Returns the first time of the `n`th expression after `after`: the one that is known, or the one that `search` finds.
    pub(crate) fn next(
        &self,
        n: usize,
        after: Timestamp,
        search: impl FnOnce() -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() <= n {
            known.resize(n + 1, None);
        }
        let slot = known.get_mut(n)?;
        if let Some(found) = slot
            && found.after <= after
            && found.next.is_none_or(|next| after < next)
        {
            return found.next;
        }
        let next = search();
        *slot = Some(Found { after, next });
        next
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_expression_is_searched_once_for_each_of_its_times() {
        let (known, searched) = (Known::default(), Cell::new(0));
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        // Each hundredth second, and none after the thousandth.
        let next = |after: i64| {
            known.next(3, at(after), || {
                searched.set(searched.get() + 1);
                let next = (after / 100 + 1) * 100;
                (next <= 1000).then(|| at(next))
            })
        };
        for after in 0..2000 {
            let expected = (after / 100 + 1) * 100;
            let expected = (expected <= 1000).then(|| at(expected));
            assert_eq!(next(after), expected, "{after}");
        }
        assert_eq!(searched.get(), 11);
        // A search that begins earlier is another one.
        assert_eq!(next(5), Some(at(100)));
        assert_eq!(searched.get(), 12);
    }
}
