//! [`Places`]: how many connections are open, and which one is ended for a new one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Connection;

/// The places for connections of a server. When all are taken, a new connection gets the place of the oldest one on which
/// no request of a known caller has come, so that strangers who open many and send nothing hold up nobody for long.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// The connections that may not be known yet, the oldest first.
    strangers: Mutex<VecDeque<Weak<Connection>>>,
    most: usize,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            strangers: Mutex::default(),
            most,
        }
    }

    /// Waits for a place.
    pub(super) async fn take(&self, connection: &Arc<Connection>) -> Option<OwnedSemaphorePermit> {
        if self.free.available_permits() == 0 {
            self.end_oldest();
        }
        let place = self.free.clone().acquire_owned().await.ok();
        let mut strangers = self.strangers();
        if strangers.len() >= self.most {
            // Those that have ended, or are known.
            strangers.retain(|one| one.upgrade().is_some_and(|one| !one.is_known()));
        }
        strangers.push_back(Arc::downgrade(connection));
        place
    }

    fn end_oldest(&self) {
        let mut strangers = self.strangers();
        while let Some(oldest) = strangers.pop_front() {
            if let Some(oldest) = oldest.upgrade().filter(|oldest| !oldest.is_known()) {
                oldest.end();
                return;
            }
        }
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, VecDeque<Weak<Connection>>> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
