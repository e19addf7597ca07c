//! Unique ids: version 7 of UUID, whose order is that of their making, to the millisecond.
//!
//! A simulation must get the same ids again from the same seed. With the feature `simulation`, a thread can therefore draw its
//! ids from the seeded generator of `fastrand`; the default build has no such switch.

use uuid::Uuid;

/// Returns a new id.
pub(crate) fn new() -> Uuid {
    #[cfg(feature = "simulation")]
    if let Some(id) = seeded::next() {
        return id;
    }
    Uuid::now_v7()
}

#[cfg(feature = "simulation")]
pub(crate) mod seeded {
    //! Ids of a thread that simulates.

    use std::cell::Cell;

    use uuid::{Builder, Uuid};

    thread_local! {
        /// The number of ids that this thread has drawn; `None` while it does not simulate.
        static DRAWN: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes this thread draw its ids from the generator of `fastrand`, or ends that.
    pub(crate) fn set(is_seeded: bool) {
        DRAWN.set(is_seeded.then_some(0));
    }

    /// Returns whether this thread simulates.
    pub(crate) fn is_on() -> bool {
        DRAWN.get().is_some()
    }

    /// Returns the next id, in whose time the number of the id stands; `None` if this thread does not simulate.
    pub(super) fn next() -> Option<Uuid> {
        let drawn = DRAWN.get()?;
        DRAWN.set(Some(drawn + 1));
        let random = fastrand::u128(..).to_be_bytes();
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&random[..10]);
        Some(Builder::from_unix_timestamp_millis(drawn, &bytes).into_uuid())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_seed_gives_the_same_ids_again_in_ascending_order() {
            let draw = |seed| {
                fastrand::seed(seed);
                set(true);
                let ids: Vec<Uuid> = (0..50).map(|_| crate::unique_id::new()).collect();
                set(false);
                ids
            };
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
            assert!(draw(3).is_sorted());
            assert_eq!(crate::unique_id::new().get_version_num(), 7);
        }
    }
}
