//! What a node does for the servers every few minutes, in addition to its renewals.

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

/// Compacts, and warns before a quota is full.
pub(crate) struct Upkeep {
    pub(crate) compaction: Compaction,
    pub(crate) members: Members,
    pub(crate) every: Duration,
    /// When it last ran.
    pub(crate) looked: Mutex<Instant>,
    pub(crate) filling: Filling,
}

/// The members whose quota was reported as nearly full.
#[derive(Default)]
pub(crate) struct Filling(Mutex<HashSet<String>>);

impl Filling {
    /// Notes whether the quota of a member is nearly full. Returns whether to report it: once,
    /// until it has room again.
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

    /// Starts to check the quota and to compact, if due. Does not wait for either.
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

    /// Logs once that the quota of a member is nearly full, until it has room again. Members
    /// without an answer (they speak TLS, or refuse the user) are reported only by the doctor.
    async fn warn_of_quota(&self) {
        for (endpoint, member) in self.members.ask("look at the members").await {
            let Ok(member) = member else { continue };
            let finding = size(std::slice::from_ref(&member), None);
            let fills = match finding.verdict {
                Verdict::Warning => true,
                Verdict::Ok => false,
                // The member did not respond.
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
    fn a_quota_that_fills_is_reported_once_until_there_is_room() {
        let filling = Filling::default();
        let reported = [
            ("a", true),
            ("a", true),
            ("b", true),
            ("a", false),
            ("a", true),
        ]
        .map(|(member, fills)| filling.is_news(member, fills));
        assert_eq!(reported, [true, false, true, false, true]);
    }
}
