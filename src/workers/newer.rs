//! What another server may have written: which requests show it, and reading it.

use std::{collections::HashMap, sync::Arc};

use windlass_statemachine::TaskId;

use super::{
    error::WorkerError,
    protocol::{Item, What},
    service::Service,
    session::{Entry, Session},
    worker::Worker,
};

impl Session {
    /// Returns the tasks with an item that is neither the next of its claim, as far as this process knows, nor one that
    /// was applied before.
    pub(super) fn unexpected(&self, items: &[(Item, What)]) -> Vec<TaskId> {
        let (mut unexpected, mut next) = (Vec::new(), HashMap::new());
        for (item, what) in items {
            let Some(entry) = self.tasks.get(&item.id) else {
                unexpected.push(item.id.clone());
                continue;
            };
            let (state, run) = match entry {
                Entry::Unconfirmed(claimed) => (&claimed.state, Some(claimed.state.current_run())),
                Entry::Live(task) => (task.state(), task.machine.run()),
            };
            let is_claim = entry.fence() == item.fence;
            // A report of another claim says nothing about the numbers of this one.
            let is_past = is_claim && what.is_numbered() && item.n <= state.reported();
            let next = next.entry(&item.id).or_insert(state.reported() + 1);
            let is_next = !what.is_numbered() || item.n == *next;
            if what.is_numbered() && item.n == *next {
                *next += 1;
            }
            let fits = is_claim && run == Some(item.run);
            if !(is_past || fits && is_next) {
                unexpected.push(item.id.clone());
            }
        }
        unexpected
    }

    /// Reads tasks of which another server may have written since, although this one speaks for the worker by now.
    pub(super) async fn read_newer(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        ids: Vec<TaskId>,
        seq: u64,
    ) -> Result<(), WorkerError> {
        let read = service
            .coordinator
            .held(&self.lease, Some(ids.clone()))
            .await;
        let read = read.map_err(|error| self.failed(service, worker, seq, error))?;
        let is_held = |id: &TaskId| read.iter().any(|claimed| claimed.task.id == *id);
        for id in ids.iter().filter(|id| !is_held(id)) {
            self.ended_elsewhere(service, id);
        }
        for claimed in read {
            let is_known = match self.tasks.get(&claimed.task.id) {
                Some(Entry::Live(task)) => {
                    let known = (task.claim.fence, task.state().version);
                    known >= (claimed.claim.fence, claimed.state.version)
                }
                _ => false,
            };
            if !is_known {
                self.hold(service, worker, claimed);
            }
        }
        Ok(())
    }

    /// Drops what this process knows of a claim that another server has ended: the store has the present state of the task.
    fn ended_elsewhere(&mut self, service: &Arc<Service>, id: &TaskId) {
        if self.tasks.remove(id).is_none() {
            return;
        }
        service
            .dispatcher()
            .disowns(id, self.lease.id, service.moment());
        for command in self.stops.remove(id).into_iter().flatten() {
            service.acknowledge(&self.lease, command, "released");
        }
    }
}
