//! A store that handles an item once when one call names it twice.

use std::collections::HashMap;

use windlass::store::Error;

use super::{defect::Defect, store::PlantedStore};

impl PlantedStore {
    /// The items that the store takes, and where the answer of each item of the call is.
    pub(crate) fn taken<T, K: Eq + std::hash::Hash>(
        &self,
        items: Vec<T>,
        key: impl Fn(&T) -> K,
    ) -> (Vec<T>, Vec<usize>) {
        let (mut taken, mut places) = (Vec::new(), Vec::new());
        let mut known = HashMap::new();
        for item in items {
            let place = taken.len();
            let first = *known.entry(key(&item)).or_insert(place);
            if first < place && self.has(Defect::RepeatedItemsAreSkipped) {
                places.push(first);
            } else {
                places.push(place);
                taken.push(item);
            }
        }
        (taken, places)
    }
}

/// One answer per item of the call.
pub(crate) fn spread<T: Clone>(
    answers: Vec<Result<T, Error>>,
    places: &[usize],
) -> Vec<Result<T, Error>> {
    places.iter().map(|place| answers[*place].clone()).collect()
}
