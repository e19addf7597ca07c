//! The fast hash maps of the library: those of `hashbrown`, with its hasher.
//!
//! That hasher draws its seed from addresses, so that the order of a map differs from process to process. A simulation must get
//! the same order again. With the feature `simulation` every hasher therefore has the same seed; in the default build these are
//! the types of `hashbrown`.

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

    /// Makes the hashers of a map, all by the same seed.
    #[derive(Debug, Clone)]
    pub(crate) struct State(FixedState);

    impl Default for State {
        fn default() -> Self {
            Self(FixedState::with_seed(0))
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
        fn maps_with_the_same_entries_have_the_same_order() {
            let order = || {
                let map: HashMap<u32, ()> = (0..50).map(|n| (n, ())).collect();
                map.into_keys().collect::<Vec<_>>()
            };
            assert_eq!(order(), order());
        }
    }
}
