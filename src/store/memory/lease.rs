//! Leases: join, renew, leave, and expiry.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::TaskState;

use super::{
    row::{LeaseRow, Row, Saved, WorkerRow},
    world::World,
};
use crate::store::{ChangeKind, Error, Lease, NodeSpec, NodeStatus, copy::Copied, rules};

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

impl LeaseRow {
    /// Lets the lease hold for its TTL from now.
    pub(super) fn extend(&mut self, now: Timestamp) {
        // A clock that was set back must not shorten the lease.
        self.ends_at = self.ends_at.max(after(now, self.ttl));
    }
}

impl World {
    /// Ends expired leases. Their claims are abandoned.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let over = self.leases.iter().filter(|(_, lease)| lease.ends_at <= now);
        let over: Vec<u64> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.end_lease(id, true, now);
        }
    }

    /// Returns the time until the next lease ends, if none is renewed.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Duration> {
        let next = self.leases.values().map(|lease| lease.ends_at).min()?;
        Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
    }

    pub(super) fn end_lease(&mut self, id: u64, lost: bool, now: Timestamp) {
        let Some(lease) = self.leases.remove(&id) else {
            return;
        };
        for task in lease.claims {
            let Some(owner) = self.unclaim(&task) else {
                continue;
            };
            let fence = owner.fence;
            if let Some(Row {
                saved: Saved::State(state),
                ..
            }) = self.tasks.get_mut(&task)
            {
                **state = TaskState::clone(state).unclaimed(now);
            }
            let what = if lost {
                if let Some(row) = self.tasks.get_mut(&task) {
                    row.abandoned = Some(lease.spec.name.clone());
                }
                ChangeKind::Lost { fence }
            } else {
                ChangeKind::Dropped { fence }
            };
            self.record(&task, what, now);
            self.touch(&task);
        }
        // An unanswered command ends with its node.
        self.node_commands
            .retain(|_, command| command.lease != id || command.outcome.is_some());
        for watcher in self.watchers.values().filter(|w| w.lease == id) {
            watcher.notify.notify_one();
        }
    }

    pub(super) fn join(
        &mut self,
        spec: &NodeSpec,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, Error> {
        Copied::refuse(self.copied.as_ref())?;
        rules::worker::check_description(false, spec)?;
        if self.node(&spec.name).is_some() {
            return Err(Error::node_exists(&spec.name));
        }
        Ok(self.grant(spec, ttl, None, now))
    }

    /// Grants a lease to a node, or to a worker.
    pub(super) fn grant(
        &mut self,
        spec: &NodeSpec,
        ttl: Duration,
        worker: Option<WorkerRow>,
        now: Timestamp,
    ) -> Lease {
        let id = self.number();
        let row = LeaseRow {
            spec: spec.clone(),
            status: NodeStatus::default(),
            joined_at: now,
            ttl,
            ends_at: after(now, ttl),
            claims: BTreeSet::new(),
            worker,
        };
        self.leases.insert(id, row);
        Lease::new(id, spec.name.clone(), ttl)
    }

    pub(super) fn check_lease(&self, lease: &Lease) -> Result<(), Error> {
        if self.leases.contains_key(&lease.id) {
            return Ok(());
        }
        Err(Error::lease_fenced(&lease.node))
    }

    pub(super) fn renew(
        &mut self,
        lease: &Lease,
        status: &NodeStatus,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.check_lease(lease)?;
        if let Some(row) = self.leases.get_mut(&lease.id) {
            let worker = row.worker.as_ref();
            if worker.is_none_or(|one| rules::worker::check_speaker(lease, &one.speaker).is_ok()) {
                row.status = status.clone();
            }
            row.extend(now);
        }
        Ok(())
    }

    pub(super) fn describe(&mut self, lease: &Lease, spec: &NodeSpec) -> Result<(), Error> {
        self.check_lease(lease)?;
        if let Some(row) = self.leases.get_mut(&lease.id) {
            rules::worker::check_description(row.worker.is_some(), spec)?;
            row.spec.clone_from(spec);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, lease: &Lease, now: Timestamp) {
        self.end_lease(lease.id, false, now);
    }
}
