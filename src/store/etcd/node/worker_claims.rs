//! Reads the claims of a worker, so that this process continues claims that another one has made.

use windlass_statemachine::TaskId;

use super::{commit::held_of, lease::Leases};
use crate::store::{
    Claim, Claimed, Error, Lease,
    etcd::schema::{Snapshot, records, reported},
    rules::commit::Stored as Written,
};

const OPERATION: &str = "read the claims of a worker";

impl Leases {
    /// Returns the claims of a lease: all of them, or those of these tasks. From then on this process knows them.
    ///
    /// All of them are those that etcd lists for the leases, and those that this process knows. The member that lists
    /// them may not have applied a claim that another member has acknowledged some milliseconds ago; with their ids
    /// the tasks are read at or after each acknowledged write.
    pub(crate) async fn held(
        &self,
        lease: &Lease,
        tasks: Option<Vec<TaskId>>,
    ) -> Result<Vec<Claimed>, Error> {
        let stored = self.registered(lease, OPERATION).await?;
        if stored.registration.remote.is_none() && self.claims.node(lease.id).is_none() {
            return Err(Error::lease_fenced(&lease.node));
        }
        let claims = self.owners(&stored, lease, OPERATION).await?;
        let node = self.claims.node(lease.id);
        let knows = |(id, _): &(i64, _)| node.as_ref().is_some_and(|node| node.ids().contains(id));
        if !claims.iter().all(knows) {
            self.keep_node(&stored, lease, &claims);
        }
        let mut ids = match tasks {
            Some(tasks) => tasks,
            None => {
                let known = self.claims.of_lease(lease.id).into_keys();
                let listed = claims.into_iter().flat_map(|(_, tasks)| tasks);
                listed.chain(known).collect()
            }
        };
        ids.sort_unstable();
        ids.dedup();
        let read = self.access.reader.read_many(&ids).await;
        let mut held = Vec::with_capacity(ids.len());
        for (id, found) in ids.iter().zip(read) {
            let found = found.map_err(|fault| fault.into_error(OPERATION))?;
            held.extend(self.adopt(lease, id, found).await?);
        }
        Ok(held)
    }

    /// Returns the claim of the lease on a task as it was read, and keeps it; `None` when the lease has no claim on it,
    /// or the task cannot be read.
    async fn adopt(
        &self,
        lease: &Lease,
        id: &TaskId,
        found: Snapshot,
    ) -> Result<Option<Claimed>, Error> {
        let owner = found.owner.as_ref();
        let Some(owner) = owner.filter(|kv| records::lease_of(kv) == lease.id) else {
            return Ok(None);
        };
        if found.task.is_none() || found.quarantined().is_some() {
            return Ok(None);
        }
        let claim = Claim {
            task: id.clone(),
            fence: self.access.reader.fences.of(owner.mod_revision()),
            lease: lease.id,
            token: u64::try_from(owner.lease()).unwrap_or(0),
        };
        let recent = self.access.reader.recent(&found).await?;
        let (state, hold) = match found.state() {
            Ok(read) => read,
            Err(reason) => {
                tracing::error!(task = %id, reason, "could not read a claimed task");
                return Ok(None);
            }
        };
        let commands = reported(&found.queue);
        let written = (state.fence == claim.fence).then(|| Written::of(&state));
        let Some(held) = held_of(&claim, found, written, recent.unwrap_or_default()) else {
            tracing::error!(task = %id, "could not read a claimed task");
            return Ok(None);
        };
        let (task, order) = (held.task.clone(), held.order);
        let over_limit = held.slots.is_empty() && !task.limits.is_empty();
        self.claims.keep(id, held);
        Ok(Some(Claimed {
            claim,
            task,
            order,
            state,
            commands,
            ready: None,
            abandoned: hold.abandoned,
            over_limit,
        }))
    }
}
