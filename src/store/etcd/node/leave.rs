//! Leaving: releases the claims in batches before it revokes a lease, so that no task is counted as
//! abandoned, and etcd never ends a lease with many keys.

use futures::future::join_all;
use windlass_statemachine::TaskId;

use super::lease::{Leases, number};
use crate::store::{
    ChangeKind, Error, Lease,
    etcd::{
        client::Fault,
        schema::{Hold, Part, Snapshot, TaskKey, records},
        write::{Edit, Item},
    },
};

const OPERATION: &str = "leave";
const ROUNDS: usize = 4;

impl Leases {
    pub(crate) async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        if self.gone_back(&lease.node).await.is_some() {
            // Abandoning writes nothing to the tasks.
            return self.abandon(lease).await;
        }
        for id in self.ids(lease).await? {
            self.release(lease, id).await?;
        }
        self.abandon(lease).await
    }

    /// Ends the lease with its claims. The next claim of each task finds that the previous claim
    /// was lost.
    pub(crate) async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        // The main lease last: the node is live as long as that lease.
        for id in self.ids(lease).await?.into_iter().rev() {
            let revoked = self.access.link().revoke(id).await;
            revoked.map_err(|fault| fault.into_error(OPERATION))?;
        }
        self.claims.lost(lease.id);
        Ok(())
    }

    /// Returns the leases of the node, the main one first.
    async fn ids(&self, lease: &Lease) -> Result<Vec<i64>, Error> {
        match self.claims.node(lease.id) {
            Some(node) if !node.is_worker => return Ok(node.ids()),
            _ => {}
        }
        // Another process may have registered the worker, or have added a lease.
        match self.registered(lease, OPERATION).await {
            Ok(stored) => Ok(stored.leases().collect()),
            Err(Error::Fenced(_)) => Ok(vec![number(lease.id)]),
            Err(error) => Err(error),
        }
    }

    /// Releases the claims that are attached to one lease of a node.
    async fn release(&self, lease: &Lease, id: i64) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let reported = self.access.link().lease(id).await;
            let Some(reported) = reported.map_err(|fault| fault.into_error(OPERATION))? else {
                break;
            };
            let claims = reported.keys().iter();
            let claims = claims.filter_map(|key| match self.access.keys().split(key)? {
                (id, Part::Owner) => TaskId::new(id).ok(),
                _ => None,
            });
            let claims: Vec<TaskId> = claims.collect();
            if claims.is_empty() {
                break;
            }
            let read = self.access.reader.read_many(&claims).await;
            let mut writes = Vec::with_capacity(claims.len());
            for (task, read) in claims.iter().zip(read) {
                let found = read.map_err(|fault| fault.into_error(OPERATION))?;
                if let Some(item) = self.release_item(lease, task, &found)? {
                    writes.push(self.access.pipeline.write(item));
                }
            }
            for done in join_all(writes).await {
                match done {
                    Ok(_) | Err(Fault::Unknown(_)) => {}
                    Err(fault) => return Err(fault.into_error(OPERATION)),
                }
            }
        }
        Ok(())
    }

    fn release_item(
        &self,
        lease: &Lease,
        id: &TaskId,
        found: &Snapshot,
    ) -> Result<Option<Item>, Error> {
        let owner = found.owner.as_ref();
        let Some(owner) = owner.filter(|kv| records::lease_of(kv) == lease.id) else {
            return Ok(None);
        };
        let mut item = self.access.item(id, 1);
        let mut edit = Edit::new(self.access.keys(), id, &mut item);
        edit.when_as_found(found, &[TaskKey::Owner, TaskKey::TaskState]);
        edit.delete_owner(found);
        // The next node that claims an unreadable task quarantines it.
        if let (Ok((state, _)), true) = (found.state(), found.task.is_some()) {
            let state = state.unclaimed(self.access.now());
            edit.put_state(&state, &Hold::default(), &found.recent())?;
            if let Ok((envelope, _)) = found.envelope() {
                edit.put_parked(&state, envelope.submitted_at())?;
            }
            let fence = self.access.reader.fences.of(owner.mod_revision());
            let name = format!("{:012}-left", state.version);
            edit.put_line(&name, ChangeKind::Dropped { fence }, self.access.now())?;
        }
        Ok(Some(item))
    }
}
