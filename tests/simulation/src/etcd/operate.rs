//! What operators and other programs do to an etcd, and what becomes of members: leases are revoked, keys are deleted, watches are
//! late, a member is restored from a snapshot, and the whole etcd goes back to an earlier state.

use std::collections::BTreeMap;

use etcd_client::proto::{
    PbCompactionRequest, PbDeleteRequest, PbLeaseRevokeRequest, PbPutRequest,
};

use super::{Model, Servers, server::Term};

/// What the members had stored at a moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    model: Model,
    leases: BTreeMap<i64, Term>,
}

impl Servers {
    /// Returns whether a key is there and has a lease.
    pub fn has_lease(&self, key: &str) -> bool {
        self.lock().model.lease_of(key.as_bytes()).is_some()
    }

    /// Returns whether a process follows all changes of the namespace.
    pub fn is_followed(&self, process: usize) -> bool {
        self.lock().watchers.has(process, b"/simulated/")
    }

    /// Ends the lease of a key, as an operator does. Returns whether there was one.
    pub fn revoke_lease_of(&self, key: &str) -> bool {
        let mut state = self.lock();
        let Some(id) = state.model.lease_of(key.as_bytes()) else {
            return false;
        };
        state.leases.remove(&id);
        let revoked = state.model.revoke(&PbLeaseRevokeRequest { id }).is_ok();
        state.report();
        revoked
    }

    /// Deletes a key, as an operator does. Returns whether it was there.
    pub fn delete(&self, key: &str) -> bool {
        let mut state = self.lock();
        let request = PbDeleteRequest {
            key: key.into(),
            ..Default::default()
        };
        let deleted = state.model.delete(&request);
        state.report();
        deleted.is_ok_and(|done| done.deleted > 0)
    }

    /// Another program writes this many revisions below another prefix, and members report the progress of watches. Returns the
    /// last revision.
    pub fn write_beside(&self, revisions: u32) -> i64 {
        let mut state = self.lock();
        for n in 0..revisions {
            let (key, value) = (b"/beside".to_vec(), n.to_string().into_bytes());
            // The key has no lease, so it is written.
            let _ = state.model.put(PbPutRequest {
                key,
                value,
                ..Default::default()
            });
        }
        state.report();
        state.watchers.progress(&state.model);
        state.model.revision()
    }

    /// Compacts the history before a revision.
    pub fn compact_before(&self, revision: i64) {
        // It may be compacted already, or there may be fewer revisions.
        let _ = self.lock().model.compact(&PbCompactionRequest {
            revision,
            physical: true,
        });
    }

    /// Holds back what the watches of a process are sent, or sends it.
    pub fn set_late(&self, process: usize, is_late: bool) {
        self.lock().watchers.set_late(process, is_late);
    }

    /// Holds back what the watches of a member are sent.
    pub fn set_behind(&self, member: usize) {
        self.lock().watchers.set_behind(member);
    }

    /// Restores a member from a snapshot: it sends its watches what it has held back, and again what they were sent.
    pub fn restore_member(&self, member: usize) {
        let state = &mut *self.lock();
        state.watchers.restore(&state.model, member);
    }

    /// Lets all watches be sent everything.
    pub fn heal_watches(&self) {
        let state = &mut *self.lock();
        state.watchers.heal(&state.model);
    }

    /// Returns what is stored.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        Snapshot {
            model: state.model.clone(),
            leases: state.leases.clone(),
        }
    }

    /// Goes back to what was stored. The leases begin again, and all watches end.
    pub fn restore(&self, snapshot: Snapshot) {
        let mut state = self.lock();
        let now = state.now;
        state.model = snapshot.model;
        state.leases = snapshot.leases;
        for term in state.leases.values_mut() {
            term.until = now + term.ttl;
        }
        state.watchers.end_all();
    }
}
