//! What a node does for the servers beside its renewals, every some minutes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::Inner;

pub(super) struct Upkeep {
    /// When it was last looked.
    looked: Mutex<Instant>,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            looked: Mutex::new(Instant::now()),
        }
    }
}

impl Inner {
    /// Looks whether the quota fills and what is to be compacted, if that is due; waits for nothing.
    pub(super) fn look_after_servers(self: &Arc<Self>) {
        let looked = self.upkeep.looked.lock();
        let mut looked = looked.unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < self.options.look_every {
            return;
        }
        *looked = Instant::now();
        drop(looked);
        let inner = self.clone();
        tokio::spawn(async move {
            inner.compact_what_is_old().await;
            inner.warn_of_quota().await;
        });
    }
}
