//! Remote workers: leases of no process, and the servers that speak for them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_statemachine::{NodeName, TaskId};

use super::{
    row::{LeaseRow, Row, WorkerRow},
    world::World,
};
use crate::store::{
    Claim, Claimed, Error, Lease, NewWorker, Speaker, WorkerRecord,
    copy::Copied,
    rules::worker::{self, Holder, Registration},
};

fn record(id: u64, row: &LeaseRow) -> Option<WorkerRecord> {
    let worker = row.worker.as_ref()?;
    let lease = Lease::new(id, row.spec.name.clone(), row.ttl);
    Some(WorkerRecord {
        status: row.status.clone(),
        speaker: worker.speaker.clone(),
        ..WorkerRecord::new(lease, row.spec.clone(), &worker.secret)
    })
}

/// Returns the live claim of a task; `None` for a task without one, or that cannot be read.
fn claimed(row: &Row) -> Option<Claimed> {
    let owner = row.owner?;
    Some(Claimed {
        claim: Claim {
            task: row.task.id.clone(),
            fence: owner.fence,
            lease: owner.lease,
            token: row.order,
        },
        task: row.task.clone(),
        order: row.order,
        state: row.state().ok()?,
        commands: row.waiting_commands(),
        ready: None,
        abandoned: owner.abandoned,
        over_limit: owner.over_limit,
    })
}

impl World {
    /// Returns whether this is the lease of a live worker.
    pub(super) fn is_worker(&self, lease: u64) -> bool {
        let row = self.leases.get(&lease);
        row.is_some_and(|row| row.worker.is_some())
    }

    pub(super) fn join_worker(
        &mut self,
        new: &NewWorker,
        now: Timestamp,
    ) -> Result<WorkerRecord, Error> {
        worker::check(new)?;
        let live = self.node(&new.spec.name);
        let live = live.and_then(|id| self.leases.get_mut(&id).map(|row| (id, row)));
        let holder = live.as_ref().map(|(_, row)| match &row.worker {
            Some(worker) => Holder::Worker(&worker.secret),
            None => Holder::Node,
        });
        if let (Registration::Again, Some((id, row))) = (worker::register(new, holder)?, live) {
            row.spec.clone_from(&new.spec);
            row.extend(now);
            return record(id, row).ok_or_else(|| Error::no_node(&new.spec.name));
        }
        Copied::refuse(self.copied.as_ref())?;
        let row = WorkerRow {
            secret: new.secret.clone(),
            speaker: Speaker::default(),
        };
        let lease = self.grant(&new.spec, new.ttl, Some(row), now);
        Ok(WorkerRecord::new(lease, new.spec.clone(), &new.secret))
    }

    pub(super) fn worker(&self, name: &NodeName) -> Option<WorkerRecord> {
        let id = self.node(name)?;
        record(id, self.leases.get(&id)?)
    }

    pub(super) fn speak(&mut self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.check_lease(lease)?;
        let row = self.leases.get_mut(&lease.id);
        let Some((ttl, stored)) = row.and_then(|row| Some((row.ttl, row.worker.as_mut()?))) else {
            return Err(worker::not_a_worker(&lease.node).into());
        };
        if worker::speaks(&lease.node, &stored.speaker, speaker)? {
            stored.speaker.clone_from(speaker);
        }
        let mut lease = Lease::new(lease.id, lease.node.clone(), ttl);
        lease.speaker = Some(speaker.clone());
        Ok(lease)
    }

    /// Refuses a lease that has ended, and the lease of a server that does not speak for the worker.
    pub(super) fn check_speaker(&self, lease: &Lease) -> Result<(), Error> {
        self.check_lease(lease)?;
        match self
            .leases
            .get(&lease.id)
            .and_then(|row| row.worker.as_ref())
        {
            Some(stored) => worker::check_speaker(lease, &stored.speaker),
            None => Ok(()),
        }
    }

    pub(super) fn held(
        &self,
        lease: &Lease,
        tasks: Option<Vec<TaskId>>,
    ) -> Result<Vec<Claimed>, Error> {
        self.check_lease(lease)?;
        let claims = self.leases.get(&lease.id).map(|row| &row.claims);
        let claims = claims.into_iter().flatten();
        let asked = tasks.map(|tasks| tasks.into_iter().collect::<BTreeSet<_>>());
        let is_asked = |id: &&TaskId| asked.as_ref().is_none_or(|asked| asked.contains(*id));
        let rows = claims.filter(is_asked).filter_map(|id| self.tasks.get(id));
        Ok(rows.filter_map(claimed).collect())
    }
}
