//! [`Recent`]: the last few of something.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The last `MOST` of something, oldest first. Clones share them, so that a copy of a state costs nothing for them.
///
/// # Example
///
/// ```
/// use windlass_statemachine::state::Recent;
///
/// let mut recent = Recent::<u32, 2>::default();
/// for n in 1..4 {
///     recent.push(n);
/// }
/// assert_eq!(*recent, [2, 3]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent<T, const MOST: usize>(Option<Arc<Vec<T>>>);

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T, const MOST: usize> Deref for Recent<T, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl<T: Clone, const MOST: usize> Recent<T, MOST> {
    /// Adds one, and drops the oldest beyond `MOST`.
    pub fn push(&mut self, newest: T) {
        let over = (self.len() + 1).saturating_sub(MOST);
        let mut all = Vec::with_capacity(self.len() + 1 - over);
        all.extend(self.iter().skip(over).cloned());
        all.push(newest);
        self.0 = Some(Arc::new(all));
    }

    /// Changes each, and drops those for which `keep` returns `false`.
    pub fn retain(&mut self, keep: impl FnMut(&mut T) -> bool) {
        if let Some(all) = &mut self.0 {
            Arc::make_mut(all).retain_mut(keep);
        }
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl<T: Serialize, const MOST: usize> Serialize for Recent<T, MOST> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Recent<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Vec::deserialize(from)?;
        let over = all.len().saturating_sub(MOST);
        all.drain(..over);
        Ok(Self((!all.is_empty()).then(|| Arc::new(all))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Three = Recent<u64, 3>;

    fn of(numbers: &[u64]) -> Three {
        let mut recent = Three::default();
        numbers.iter().for_each(|n| recent.push(*n));
        recent
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut recent = of(&[1, 2, 3]);
        let before = recent.clone();
        recent.push(4);
        assert_eq!((&*before, &*recent), (&[1, 2, 3][..], &[2, 3, 4][..]));
        recent.retain(|n| {
            *n += 1;
            *n != 4
        });
        assert_eq!(*recent, [3, 5]);
        recent.retain(|_| false);
        assert_eq!(recent, Three::default());
        assert_eq!(*before, [1, 2, 3]);
    }

    #[test]
    fn it_comes_out_as_it_went_in_and_has_no_more_than_it_may() {
        for recent in [Three::default(), of(&[1]), of(&[1, 2, 3, 4])] {
            let text = serde_json::to_string(&recent).unwrap();
            assert_eq!(serde_json::from_str::<Three>(&text).unwrap(), recent);
        }
        assert_eq!(
            serde_json::from_str::<Three>("[1,2,3,4,5]").unwrap(),
            of(&[3, 4, 5])
        );
        assert!(serde_json::from_str::<Three>("[-1]").is_err());
    }
}
