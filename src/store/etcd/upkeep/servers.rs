//! What a node does for the servers beside its renewals, every some minutes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

use super::{
    compaction::Compaction,
    members::{Members, size},
};
use crate::store::examine::Verdict;

/// Looks after the servers.
pub(crate) struct Upkeep {
    pub(crate) compaction: Compaction,
    pub(crate) members: Members,
    pub(crate) every: Duration,
    /// When it was last looked.
    pub(crate) looked: Mutex<Instant>,
    pub(crate) filling: Filling,
}

/// The members of which it was said that their quota fills.
#[derive(Default)]
pub(crate) struct Filling(Mutex<HashSet<String>>);

impl Filling {
    /// Notes whether the quota of a member fills; answers whether that is to be said: once, until it
    /// has room again.
    fn is_news(&self, endpoint: &str, fills: bool) -> bool {
        let mut filling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if fills {
            filling.insert(endpoint.to_owned())
        } else {
            filling.remove(endpoint);
            false
        }
    }
}

impl Upkeep {
    pub(crate) fn new(compaction: Compaction, members: Members, every: Duration) -> Self {
        Self {
            compaction,
            members,
            every,
            looked: Mutex::new(Instant::now()),
            filling: Filling::default(),
        }
    }

    /// Looks whether the quota fills and what is to be compacted, if that is due; waits for nothing.
    pub(crate) fn look_after_servers(self: &Arc<Self>) {
        {
            let looked = self.looked.lock();
            let mut looked = looked.unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() < self.every {
                return;
            }
            *looked = Instant::now();
        }
        let upkeep = self.clone();
        tokio::spawn(async move {
            upkeep.compaction.compact_what_is_old().await;
            upkeep.warn_of_quota().await;
        });
    }

    /// Says in the log when the quota of a member fills, long before it is full: once, until it has
    /// room again. What a member does not tell (it speaks TLS, or we are not allowed to ask) is left
    /// to the doctor.
    async fn warn_of_quota(&self) {
        for (endpoint, member) in self.members.ask("look at the members").await {
            let Ok(member) = member else { continue };
            let finding = size(std::slice::from_ref(&member), None);
            let fills = match finding.verdict {
                Verdict::Warning => true,
                Verdict::Ok => false,
                // It did not tell: nothing is known.
                _ => continue,
            };
            if self.filling.is_news(endpoint, fills) {
                warn!(found = %finding.found, advice = finding.advice, "the quota of etcd fills");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_is_said_once_until_there_is_room() {
        let filling = Filling::default();
        let said = [
            ("a", true),
            ("a", true),
            ("b", true),
            ("a", false),
            ("a", true),
        ]
        .map(|(member, fills)| filling.is_news(member, fills));
        assert_eq!(said, [true, false, true, false, true]);
    }
}
