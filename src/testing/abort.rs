//! [`AbortOnDrop`]: ends a handler with its test.

use futures::future::AbortHandle;

/// Aborts a handler when it is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
