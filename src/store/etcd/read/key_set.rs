//! [`KeySet`]: which keys of a task a read asks for.

/// Some of the keys of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeySet(u8);

impl KeySet {
    pub(crate) const TASK: Self = Self(1);
    /// The keys below the task: the owner, the props, the commands.
    pub(crate) const PARTS: Self = Self(1 << 1);
    pub(crate) const STATE: Self = Self(1 << 2);
    pub(crate) const PARKED: Self = Self(1 << 3);
    pub(crate) const PROPS_APART: Self = Self(1 << 4);
    pub(crate) const FINISHED: Self = Self(1 << 5);
    /// What a claim needs: everything but the record of an ended task.
    pub(crate) const OF_LIVE: Self = Self(Self::FINISHED.0 - 1);
    pub(crate) const ALL: Self = Self((Self::FINISHED.0 << 1) - 1);

    /// Adds some keys, or removes them.
    pub(crate) fn set(&mut self, keys: Self, contained: bool) {
        match contained {
            true => self.0 |= keys.0,
            false => self.0 &= !keys.0,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn contains(self, keys: Self) -> bool {
        self.0 & keys.0 == keys.0
    }

    /// Returns how many operations of a transaction read these keys.
    pub(crate) fn operations(self) -> usize {
        self.0.count_ones() as usize
    }
}
