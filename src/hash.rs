//! The fast hash maps of the library: those of `hashbrown`, with its hasher.
//!
//! That hasher draws its seed from addresses, so that the order of a map differs from process to process. A simulation must get
//! the same order again from the same seed. With the feature `simulation`, each map therefore draws the seed of its hasher from
//! the generator of `fastrand`; in the default build these are the types of `hashbrown`.

#![allow(
    clippy::disallowed_types,
    reason = "the one place that names the maps of hashbrown"
)]

/// A map.
pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, State>;
/// A set.
pub(crate) type HashSet<T> = hashbrown::HashSet<T, State>;
/// Makes the hashers of one map.
#[cfg(not(feature = "simulation"))]
pub(crate) type State = hashbrown::DefaultHashBuilder;

#[cfg(feature = "simulation")]
pub(crate) use self::seeded::State;

#[cfg(feature = "simulation")]
mod seeded {
    //! The hashers of a simulation.

    use std::hash::BuildHasher;

    use foldhash::fast::{FixedState, FoldHasher};

    /// Makes the hashers of one map, by a seed from the generator of this thread.
    #[derive(Debug, Clone)]
    pub(crate) struct State(FixedState);

    impl Default for State {
        fn default() -> Self {
            Self(FixedState::with_seed(fastrand::u64(..)))
        }
    }

    impl BuildHasher for State {
        type Hasher = FoldHasher<'static>;

        #[inline]
        fn build_hasher(&self) -> Self::Hasher {
            self.0.build_hasher()
        }
    }

    #[cfg(test)]
    mod tests {
        use crate::hash::HashMap;

        #[test]
        fn a_seed_gives_the_same_order_again_and_another_seed_another() {
            let order = |seed| {
                fastrand::seed(seed);
                let map: HashMap<u32, ()> = (0..50).map(|n| (n, ())).collect();
                map.into_keys().collect::<Vec<_>>()
            };
            assert_eq!(order(1), order(1));
            assert_ne!(order(1), order(2));
        }
    }
}
