//! [`NodeLease`]: the leases of one node, and how many claims are attached to each.
//!
//! etcd stalls while a lease with many keys ends, so claims beyond a thousand are attached to
//! further leases of the same node.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};

use crate::store::{NodeStatus, Speaker, etcd::schema::Registration};

/// The most claims that are attached to one lease.
const CLAIMS_PER_LEASE: usize = 1000;

/// A stream of renewals, with the connection that it was opened on.
pub(crate) type Stream = (LeaseKeeper, LeaseKeepAliveStream, usize);

/// The leases of one node.
pub(crate) struct NodeLease {
    pub(crate) ttl: Duration,
    /// Whether it is a remote worker: other processes change its registration, too.
    pub(crate) is_worker: bool,
    state: Mutex<State>,
    /// One stream for each lease; locked while they are renewed.
    pub(crate) streams: tokio::sync::Mutex<HashMap<i64, Stream>>,
    pub(crate) growing: tokio::sync::Mutex<()>,
    /// Held while the registration is read and written, so that the last write has the newest one.
    pub(crate) registering: tokio::sync::Mutex<()>,
}

pub(crate) struct State {
    pub(crate) registration: Registration,
    /// The status that is stored, if known.
    pub(crate) reported: Option<NodeStatus>,
    /// Whether a write of it is under way.
    pub(crate) writing: bool,
    /// Each lease, and how many claims are attached to it.
    pub(crate) leases: Vec<(i64, usize)>,
    /// The server that speaks for the worker, as this process last read it, and the revision that wrote its key.
    pub(crate) speaker: Option<(Speaker, i64)>,
}

impl NodeLease {
    /// Returns a node that has joined with its first lease.
    pub(crate) fn new(registration: Registration, lease: i64, ttl: Duration) -> Self {
        Self::with_claims(registration, vec![(lease, 0)], ttl)
    }

    /// Returns a node with these leases, and how many claims are attached to each.
    pub(crate) fn with_claims(
        registration: Registration,
        leases: Vec<(i64, usize)>,
        ttl: Duration,
    ) -> Self {
        Self {
            ttl,
            is_worker: registration.remote.is_some(),
            state: Mutex::new(State {
                reported: Some(registration.status.clone()),
                registration,
                writing: false,
                leases,
                speaker: None,
            }),
            streams: tokio::sync::Mutex::default(),
            growing: tokio::sync::Mutex::default(),
            registering: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ids(&self) -> Vec<i64> {
        self.state().leases.iter().map(|(id, _)| *id).collect()
    }

    /// Counts one more claim on a lease that has room for it, and returns the lease; `None` when all are full.
    pub(crate) fn attach(&self) -> Option<i64> {
        let mut state = self.state();
        let found = state
            .leases
            .iter_mut()
            .find(|(_, n)| *n < CLAIMS_PER_LEASE)?;
        found.1 += 1;
        Some(found.0)
    }

    /// Returns the status to write next; `None` when the stored one is up to date.
    pub(crate) fn unreported(&self) -> Option<NodeStatus> {
        let mut state = self.state();
        let status = state.registration.status.clone();
        if state.reported.take().as_ref() == Some(&status) {
            (state.reported, state.writing) = (Some(status), false);
            return None;
        }
        Some(status)
    }

    /// Returns for how many more claims there is room.
    pub(crate) fn places_left(&self) -> usize {
        let left = |(_, n): &(i64, usize)| CLAIMS_PER_LEASE.saturating_sub(*n);
        self.state().leases.iter().map(left).sum()
    }

    /// Counts the end of a claim that was attached to this lease.
    pub(crate) fn freed(&self, token: i64) {
        if let Some(found) = self.state().leases.iter_mut().find(|(id, _)| *id == token) {
            found.1 = found.1.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NodeSpec;

    fn node() -> NodeLease {
        let spec = NodeSpec::new("n".parse().unwrap_or_else(|e| panic!("{e}")));
        let registration = Registration::new(spec, jiff::Timestamp::UNIX_EPOCH);
        NodeLease::new(registration, 7, Duration::from_secs(15))
    }

    #[test]
    fn a_lease_has_room_for_a_bounded_number_of_claims() {
        let node = node();
        for _ in 0..CLAIMS_PER_LEASE {
            assert_eq!(node.attach(), Some(7));
        }
        assert_eq!((node.attach(), node.places_left()), (None, 0));
        node.freed(7);
        assert_eq!((node.places_left(), node.attach()), (1, Some(7)));
        node.state().leases.push((8, 0));
        assert_eq!((node.attach(), node.ids()), (Some(8), vec![7, 8]));
    }

    #[test]
    fn a_status_is_written_until_the_stored_one_is_up_to_date() {
        let node = node();
        assert_eq!(node.unreported(), None, "the first was stored by the join");
        let status = NodeStatus {
            running: 3,
            ..NodeStatus::default()
        };
        node.state().registration.status = status.clone();
        assert_eq!(node.unreported().as_ref(), Some(&status));
        assert_eq!(
            node.unreported().as_ref(),
            Some(&status),
            "no answer: it is written again"
        );
        node.state().reported = Some(status);
        assert_eq!(node.unreported(), None);
    }
}
