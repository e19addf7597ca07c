//! The unique key of an exported task: whether the task has it, and whether it gets it in another store.

use jiff::Timestamp;

use super::Exported;
use crate::store::rules::unique::until;

impl Exported {
    /// Notes whether the task has its unique key, if it names one.
    #[must_use]
    pub fn with_key(mut self, holds_key: bool) -> Self {
        self.holds_key = self.task.unique.as_ref().map(|_| holds_key);
        self
    }

    /// Returns whether an import gives the task its unique key. `taken` is the time until which another task of the target,
    /// which still exists, has the key.
    pub(crate) fn takes_key(&self, taken: Option<Timestamp>) -> bool {
        let own = self.task.unique.as_ref();
        let Some(own) = own.map(|unique| until(unique, self.submitted_at)) else {
            return false;
        };
        match self.holds_key {
            // Of two tasks with a key, the second has taken it.
            None => true,
            Some(holds) => holds && taken.is_none_or(|taken| taken < own),
        }
    }

    /// Returns whether the unique key of the task is still taken at a time.
    fn has_key_at(&self, now: Timestamp) -> bool {
        let unique = self.task.unique.as_ref();
        unique.is_some_and(|unique| until(unique, self.submitted_at) > now)
    }

    /// Like [`difference`](Self::difference), but two tasks may differ in a unique key that is free by now.
    pub(crate) fn difference_at(&self, other: &Self, now: Timestamp) -> Option<&'static str> {
        self.difference(other).or_else(|| {
            let holders = self.holds_key.zip(other.holds_key);
            let differs = holders.is_some_and(|(one, other)| one != other);
            (differs && self.has_key_at(now)).then_some("unique key")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, exported},
        *,
    };

    #[test]
    fn a_unique_key_that_another_task_has_is_a_difference_while_it_is_taken() {
        let mut one = exported();
        let hour = std::time::Duration::from_secs(3600);
        one.task.unique = windlass_statemachine::Unique::new("mail", hour).ok();
        let (one, other) = (one.clone().with_key(true), one.with_key(false));
        assert_eq!(one.difference_at(&other, at(9)), Some("unique key"));
        assert_eq!(other.difference_at(&one, at(9)), Some("unique key"));
        assert_eq!(one.difference_at(&other, at(9999)), None, "it is free");
        assert_eq!(one.difference_at(&one.clone(), at(9)), None);
        assert!(one.takes_key(None) && one.takes_key(Some(at(9))));
        assert!(
            !one.takes_key(Some(at(9999))),
            "another task has it for longer"
        );
        assert!(!other.takes_key(None));
        let earlier = Exported {
            holds_key: None,
            ..one
        };
        assert!(earlier.takes_key(Some(at(9999))));
    }
}
