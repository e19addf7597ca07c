//! The kinds that have series of their own.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use windlass_statemachine::Kind;

/// The label of the kinds that have no series of their own.
pub const OTHER: &str = "other";
/// How many kinds have series of their own.
pub(crate) const MOST: usize = 200;

/// The kinds that have series of their own, in this process.
static KNOWN: Mutex<BTreeSet<Kind>> = Mutex::new(BTreeSet::new());

/// Returns the label of a kind: its name, or that of all kinds beyond the first 200.
pub(super) fn label(kind: &Kind) -> String {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    label_among(&mut known, kind)
}

fn label_among(known: &mut BTreeSet<Kind>, kind: &Kind) -> String {
    if known.len() < MOST {
        known.insert(kind.clone());
    }
    match known.contains(kind) {
        true => kind.to_string(),
        false => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut known = BTreeSet::new();
        let mut label = |n: usize| {
            let kind: Kind = format!("sync-{n}")
                .parse()
                .unwrap_or_else(|e| panic!("{e}"));
            label_among(&mut known, &kind)
        };
        let labels: BTreeSet<String> = (0..1000).map(&mut label).collect();
        assert_eq!(labels.len(), MOST + 1);
        assert_eq!(
            (label(7), label(700)),
            ("sync-7".to_owned(), OTHER.to_owned())
        );
    }
}
