//! The client libraries that have series of their own.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use super::kinds::OTHER;

/// The label of the nodes of this library.
const OWN: &str = "rust";
/// How many client libraries have series of their own.
const MOST: usize = 20;
/// The most characters of a label.
const LENGTH: usize = 40;

/// The client libraries that have series of their own, in this process.
static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns the label of the client library that a remote worker has named; `None` for a node of this library.
pub(super) fn label(sdk: Option<&str>) -> String {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    label_among(&mut known, sdk)
}

fn label_among(known: &mut BTreeSet<String>, sdk: Option<&str>) -> String {
    let Some(sdk) = sdk else {
        return OWN.to_owned();
    };
    let name = sdk.split(['/', ' ']).next().unwrap_or_default();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = (1..=LENGTH).contains(&name.len()) && name.chars().all(is_fit);
    if is_name && known.len() < MOST {
        known.insert(name.to_owned());
    }
    match known.get(name) {
        Some(name) => name.clone(),
        None => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_the_name_without_the_version() {
        let mut known = BTreeSet::new();
        let mut label = |sdk| label_among(&mut known, sdk);
        assert_eq!(label(None), "rust");
        for sdk in [
            "windlass-python/0.1.0",
            "windlass-python 0.2",
            "windlass-python",
        ] {
            assert_eq!(label(Some(sdk)), "windlass-python");
        }
        for odd in ["", "/1", "name\"}", &"a".repeat(41)] {
            assert_eq!(label(Some(odd)), "other", "{odd}");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut known = BTreeSet::new();
        let mut label = |n: usize| label_among(&mut known, Some(&format!("sdk-{n}/1")));
        let labels: BTreeSet<String> = (0..100).map(&mut label).collect();
        assert_eq!(labels.len(), MOST + 1);
        assert_eq!(
            (label(7), label(70)),
            ("sdk-7".to_owned(), OTHER.to_owned())
        );
    }
}
