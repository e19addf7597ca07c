//! The fast hash maps of the library: those of `hashbrown`, with its hasher.
//!
//! That hasher draws its seed from addresses, so that the order of a map differs from process to process. A simulation must get
//! the same order again. With the feature `simulation` the seed of each map is therefore drawn from the generator of `fastrand`, which
//! a simulation seeds; in the default build these are the types of `hashbrown`.

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
pub(crate) use self::fixed::State;

#[cfg(feature = "simulation")]
mod fixed {
    //! The hashers of a simulation.

    use std::hash::BuildHasher;

    use foldhash::fast::{FixedState, FoldHasher};

    /// Makes the hashers of a map.
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
        fn the_seed_of_the_generator_decides_the_order_of_a_map() {
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
