//! [`Interned`]: values that many entries share, as small numbers.

use std::hash::Hash;

use crate::hash::HashMap;

/// Values by number. A number is reused after the last use of its value has ended.
#[derive(Debug)]
pub(super) struct Interned<T> {
    numbers: HashMap<T, u32>,
    /// Each value, and the number of its uses.
    values: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// Returns the number of a value, and counts one more use.
    pub(super) fn intern(&mut self, value: T) -> u32 {
        if let Some(&known) = self.numbers.get(&value) {
            self.use_again(known);
            return known;
        }
        let kept = Some((value.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = kept;
                number
            }
            None => {
                self.values.push(kept);
                (self.values.len() - 1) as u32
            }
        };
        self.numbers.insert(value, number);
        number
    }

    /// Counts one more use of a number that is in use.
    pub(super) fn use_again(&mut self, number: u32) {
        if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
            *uses += 1;
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let kept = self.values.get(number as usize)?.as_ref();
        kept.map(|(value, _)| value)
    }

    /// Ends one use of a number, and drops its value with the last use. Returns the value, and whether it
    /// was dropped.
    pub(super) fn release(&mut self, number: u32) -> Option<(T, bool)> {
        let slot = self.values.get_mut(number as usize)?;
        let (value, uses) = slot.as_mut()?;
        *uses -= 1;
        if *uses > 0 {
            return Some((value.clone(), false));
        }
        let (value, _) = slot.take()?;
        self.numbers.remove(&value);
        self.free.push(number);
        Some((value, true))
    }

    /// Returns how many values are in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the most numbers that were in use at the same time.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> usize {
        self.values.len()
    }
}
