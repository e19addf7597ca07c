//! Repairs of a task without an owner: unreadable records, missing or outdated marks, and leftovers
//! of nodes and clients of Metafora. A node of Metafora stores the end before it deletes the task,
//! so a crash in between leaves the task. A client of Metafora that submits an id again ignores its
//! state.

use jiff::Timestamp;
use tracing::{info, warn};
use windlass_statemachine::{TaskId, TaskState};

use crate::store::{
    ChangeKind, Error,
    etcd::{
        client::Fault,
        read::Access,
        schema::{Parked, Snapshot, Stored, TaskKey, foreign::step_to, namespace::QUARANTINED},
        write::{Done, Edit},
    },
    rules,
};

/// Repairs tasks that claims and watches report. Clones share their state.
#[derive(Clone)]
pub(crate) struct Repairs {
    pub(crate) access: Access,
}

impl Repairs {
    async fn write(
        &self,
        id: &TaskId,
        edit: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
        operation: &'static str,
    ) -> Result<bool, Error> {
        let mut item = self.access.item(id, 1);
        edit(&mut Edit::new(self.access.keys(), id, &mut item))?;
        let done: Result<Done, Fault> = self.access.pipeline.write(item).await;
        let done = done.map_err(|fault| fault.into_error(operation))?;
        Ok(done.written.is_some())
    }

    /// Writes the missing mark of a waiting task: its node was lost, or is a node of Metafora,
    /// which writes no marks. If this fails, the next node that tries to claim the task repeats it.
    pub(crate) async fn park(&self, id: &TaskId, found: &Snapshot, state: &TaskState) {
        let Ok((envelope, _)) = found.envelope() else {
            return;
        };
        let submitted_at = envelope.submitted_at();
        if found.parked.is_some() || Parked::of(state, submitted_at).is_none() {
            return;
        }
        let parked = |edit: &mut Edit<'_>| {
            edit.when(TaskKey::Owner, 0);
            edit.when_as_found(found, &[TaskKey::Task, TaskKey::TaskState, TaskKey::Parked]);
            edit.put_parked(state, submitted_at).map(|_| ())
        };
        let _ = self.write(id, parked, "park a task").await;
    }

    /// Quarantines a task that cannot be read.
    pub(crate) async fn quarantine(
        &self,
        id: &TaskId,
        found: &Snapshot,
        reason: &str,
    ) -> Result<(), Error> {
        let now = self.access.now();
        let quarantined = |edit: &mut Edit<'_>| {
            // Compares the mark too: another node may have quarantined the task since this one read
            // it.
            edit.when_as_found(
                found,
                &[
                    TaskKey::Owner,
                    TaskKey::Task,
                    TaskKey::TaskState,
                    TaskKey::Parked,
                ],
            );
            if found.owner.is_some() {
                edit.delete_owner(found);
            }
            edit.put_quarantined(reason)?;
            // A retry writes the state, so the next quarantine has a different key.
            let name = format!(
                "{QUARANTINED}-{:012}",
                found.revision_of(TaskKey::TaskState)
            );
            edit.put_line(&name, ChangeKind::Quarantined, now)
        };
        if self.write(id, quarantined, "quarantine a task").await? {
            warn!(task = %id, reason, "quarantined a task that cannot be read");
        }
        Ok(())
    }

    /// Deletes marks that are older than the state of their task: each with the revisions that
    /// wrote the mark and the state. A node of Metafora ran these tasks while no windlass node was
    /// watching. Several nodes may do this at once. A mark that was written in the meantime stays.
    pub(crate) async fn drop_outdated(self, outdated: Vec<(TaskId, i64, i64)>) {
        for (id, marked, stored) in outdated {
            let drop = |edit: &mut Edit<'_>| {
                edit.when(TaskKey::Owner, 0);
                edit.when(TaskKey::TaskState, stored);
                edit.when(TaskKey::Parked, marked);
                edit.delete(TaskKey::Parked);
                Ok(())
            };
            let _ = self.write(&id, drop, "delete a mark").await;
        }
    }

    /// Deletes the mark of a task that a node of Metafora has claimed. That node would leave the
    /// mark when it releases the task, and then no node would claim the task. Several nodes may do
    /// this at once.
    pub(crate) async fn drop_stale(self, id: TaskId, marked: i64) {
        let drop = |edit: &mut Edit<'_>| {
            edit.when_there(TaskKey::Owner);
            edit.when(TaskKey::Parked, marked);
            edit.delete(TaskKey::Parked);
            Ok(())
        };
        let _ = self.write(&id, drop, "delete a mark").await;
    }

    /// Deletes the live keys of a task that has ended and has no owner, as a node of Metafora does.
    /// An existing record of its end stays.
    pub(crate) async fn unschedule(&self, id: &TaskId) -> Result<(), Error> {
        const OPERATION: &str = "take an ended task from the live ones";
        let found = &self.access.reader.found(id, OPERATION).await?;
        let state = match found.state() {
            Ok((state, _)) if state.code().is_terminal() => &{ state },
            _ => return Ok(()),
        };
        let (at_once, now) = (self.access.capacity().settled_at_once(), self.access.now());
        let unscheduled = |edit: &mut Edit<'_>| {
            edit.when(TaskKey::Owner, 0);
            edit.when_as_found(found, &[TaskKey::Task, TaskKey::TaskState]);
            edit.when_no_command_since(found.revision);
            let some = &found.queue[..found.queue.len().min(at_once)];
            for stored in some {
                edit.put_outcome(stored, rules::command::ended(state.code()))?;
            }
            if found.queue.len() > at_once {
                // These are deleted first: their deletion notifies the watches, which then read the
                // task again.
                some.iter().for_each(|stored| edit.dequeue(stored));
                return Ok(());
            }
            edit.delete(TaskKey::Task);
            edit.delete_parts(found);
            edit.delete(TaskKey::Parked);
            if found.finished.is_none() {
                put_ended(edit, found, (id, state), now)?;
            }
            Ok(())
        };
        if self.write(id, unscheduled, OPERATION).await? {
            info!(task = %id, state = %state.code(), "removed an ended task from the live ones");
        }
        Ok(())
    }

    /// Rejects a command that cannot be read. If this fails, the next claim repeats it.
    pub(crate) fn reject(&self, id: TaskId, stored: Stored) {
        let repairs = self.clone();
        tokio::spawn(async move {
            let Err(reason) = &stored.command else { return };
            warn!(task = %id, text = %stored.text, reason, "rejecting a command that cannot be read");
            let rejected = |edit: &mut Edit<'_>| {
                edit.when_waits(&stored);
                edit.dequeue(&stored);
                edit.put_outcome(&stored, rules::command::unreadable(reason))
            };
            let _ = repairs.write(&id, rejected, "reject a command").await;
        });
    }
}

/// Adds the record of the task's end. Its time is now, because Metafora stores none.
fn put_ended(
    edit: &mut Edit<'_>,
    found: &Snapshot,
    (id, state): (&TaskId, &TaskState),
    now: Timestamp,
) -> Result<(), Error> {
    let task = found
        .whole_task(id)
        .map_err(|e| Error::corrupt_task(id, e))?;
    let (envelope, order) = found.envelope().map_err(|e| Error::corrupt_task(id, e))?;
    let ended = envelope.ended(order, task.props, state.code(), now);
    edit.put_finished(&ended, state.code(), state.since)?;
    let name = format!("{:012}-ended", state.version);
    edit.put_line(&name, step_to(state.code()), now)
}
