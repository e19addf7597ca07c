//! [`Mark`]: the mark of a copy, as this process last read it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::store::copy::Copied;

/// The mark as this process last read it: when it connected, and when a node of it joined. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Arc<RwLock<Option<Copied>>>);

impl Mark {
    pub(crate) fn get(&self) -> Option<Copied> {
        let mark = self.0.read().unwrap_or_else(PoisonError::into_inner);
        mark.clone()
    }

    pub(super) fn set(&self, mark: Option<Copied>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = mark;
    }
}
