//! Leases. A server has no clock of its own here: who plays the time says when a lease ends.

use std::collections::BTreeSet;

use etcd_client::proto::{
    PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse,
};

use super::{Model, Refusal, txn::Writes};

/// A lease with its keys.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    /// In seconds.
    ttl: i64,
    pub(super) keys: BTreeSet<Vec<u8>>,
}

impl Model {
    /// Grants a lease.
    ///
    /// # Errors
    ///
    /// [`Refusal::LeaseExists`].
    pub fn grant(
        &mut self,
        request: &PbLeaseGrantRequest,
    ) -> Result<PbLeaseGrantResponse, Refusal> {
        let id = match request.id {
            0 => self.next_lease,
            given => given,
        };
        if self.leases.contains_key(&id) {
            return Err(Refusal::LeaseExists);
        }
        self.next_lease = self.next_lease.max(id) + 1;
        let (ttl, keys) = (request.ttl.max(1), BTreeSet::new());
        self.leases.insert(id, Lease { ttl, keys });
        Ok(PbLeaseGrantResponse {
            header: self.header(),
            id,
            ttl,
            error: String::new(),
        })
    }

    /// Ends a lease, and deletes its keys in one revision.
    ///
    /// # Errors
    ///
    /// [`Refusal::LeaseNotFound`].
    pub fn revoke(
        &mut self,
        request: &PbLeaseRevokeRequest,
    ) -> Result<PbLeaseRevokeResponse, Refusal> {
        let ended = self.leases.remove(&request.id);
        let keys = ended.ok_or(Refusal::LeaseNotFound)?.keys;
        let mut writes = Writes::begin(self);
        for key in keys {
            writes.delete(&key, &[]);
        }
        writes.end();
        Ok(PbLeaseRevokeResponse {
            header: self.header(),
        })
    }

    /// Returns the lease of a key that is there and has one.
    pub(super) fn lease_of(&self, key: &[u8]) -> Option<i64> {
        let lease = self.keys.at(key, &[], self.revision).next()?.lease;
        (lease != 0).then_some(lease)
    }

    /// Returns the keys of a lease.
    pub(super) fn keys_of(&self, lease: i64) -> Vec<Vec<u8>> {
        let lease = self.leases.get(&lease);
        lease.map_or_else(Vec::new, |lease| lease.keys.iter().cloned().collect())
    }

    /// Returns the granted time of a lease, which is what is left of it where no time passes, and its keys; a time of -1 for one
    /// that is not there.
    pub fn time_to_live(&self, request: &PbLeaseTimeToLiveRequest) -> PbLeaseTimeToLiveResponse {
        let lease = self.leases.get(&request.id);
        let keys = lease.filter(|_| request.keys).map(|lease| &lease.keys);
        PbLeaseTimeToLiveResponse {
            header: self.header(),
            id: request.id,
            ttl: lease.map_or(-1, |lease| lease.ttl),
            granted_ttl: lease.map_or(0, |lease| lease.ttl),
            keys: keys.into_iter().flatten().cloned().collect(),
        }
    }
}
