//! [`Mark`]: finds out whether the error that a handler returns contains an error of the library.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// A part of an error. A run keeps one as well, and so knows whether the error still exists: while the return value of the
/// handler exists, this means that it contains the error.
#[derive(Debug, Default, Clone)]
pub(super) struct Mark {
    /// Whether a panic has dropped one of the errors.
    by_panic: Arc<AtomicBool>,
}

impl Mark {
    /// Returns whether there is a copy of this mark.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.by_panic) > 1
    }

    /// Returns whether a panic has dropped a copy of this mark.
    pub(super) fn by_panic(&self) -> bool {
        self.by_panic.load(Ordering::Relaxed)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if thread::panicking() {
            self.by_panic.store(true, Ordering::Relaxed);
        }
    }
}
