//! What a node does for the servers beside its renewals, every some minutes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::OnceCell, time::Instant};

use super::Inner;
use crate::store::retention::PruneClock;

pub(super) struct Upkeep {
    /// When it was last looked.
    looked: Mutex<Instant>,
    /// The members of which it was said that their quota fills.
    filling: Mutex<HashSet<String>>,
    /// Which time it is for what is compacted.
    pub(super) clock: OnceCell<PruneClock>,
}

impl Upkeep {
    /// Notes whether the quota of a member fills; answers whether that is to be said: once, until it
    /// has room again.
    pub(super) fn is_news(&self, endpoint: &str, fills: bool) -> bool {
        let filling = self.filling.lock();
        let mut filling = filling.unwrap_or_else(PoisonError::into_inner);
        if fills {
            filling.insert(endpoint.to_owned())
        } else {
            filling.remove(endpoint);
            false
        }
    }
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            looked: Mutex::new(Instant::now()),
            filling: Mutex::default(),
            clock: OnceCell::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_fills_is_said_once_until_there_is_room() {
        let upkeep = Upkeep::default();
        let said = [
            ("a", true),
            ("a", true),
            ("b", true),
            ("a", false),
            ("a", true),
        ]
        .map(|(member, fills)| upkeep.is_news(member, fills));
        assert_eq!(said, [true, false, true, false, true]);
    }
}
