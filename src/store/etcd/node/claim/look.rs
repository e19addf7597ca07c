//! [`Looked`]: a task as it was found before its claim.

use windlass_statemachine::TaskId;

use super::Claimer;
use crate::store::{
    Lease,
    etcd::{
        client::Fault,
        node::lease::number,
        schema::{KeyValue, Layout, Snapshot},
    },
};

/// A task that is about to be claimed, as it was found.
pub(super) struct Looked {
    pub(super) found: Snapshot,
    /// The lease that the node is registered with.
    pub(super) node: Option<i64>,
    /// Whether it was not read, but is assumed to be as its submit wrote it. The claim compares that, and reads
    /// the props.
    pub(super) is_new: bool,
}

impl Claimer {
    /// Reads the tasks that are not new, and takes the new ones from the watch.
    pub(super) async fn look_at(
        &self,
        lease: &Lease,
        ids: &[TaskId],
    ) -> Vec<Result<Looked, Fault>> {
        let reader = &self.leases.access.reader;
        let new = |id| match reader.keys.layout() {
            Some(Layout::Compact) => self.new.take(id),
            // The props of the task are in a separate key.
            Some(Layout::Shared) | None => None,
        };
        let new: Vec<Option<KeyValue>> = ids.iter().map(new).collect();
        let others = ids.iter().zip(&new).filter(|(_, new)| new.is_none());
        let others: Vec<TaskId> = others.map(|(id, _)| id.clone()).collect();
        let registration = reader.keys.registration(&lease.node);
        let read = reader.read_for_claim(&others, &registration).await;
        let mut read = read.into_iter();
        let mut look = |new: Option<KeyValue>| match new {
            Some(task) => Some(Ok(Looked {
                found: Snapshot {
                    fences: reader.fences.clone(),
                    revision: task.mod_revision(),
                    task: Some(task),
                    ..Snapshot::default()
                },
                node: Some(number(lease.id)),
                is_new: true,
            })),
            None => read.next().map(|read| {
                read.map(|(found, node)| Looked {
                    found,
                    node,
                    is_new: false,
                })
            }),
        };
        new.into_iter().filter_map(&mut look).collect()
    }
}
