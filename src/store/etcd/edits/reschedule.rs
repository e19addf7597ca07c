//! Changes the due time, priority or limits of a task without an owner.

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskId, TaskState};

use super::Edits;
use crate::store::{
    ChangeKind, Error, Reschedule,
    etcd::{
        schema::{Hold, Of, Snapshot},
        write::{Edit, Item},
    },
    rules,
};

/// The minimum number of reschedules between two claims that the history keeps, and how many more
/// it may have before they are cut.
const LINES: usize = 64;
const MORE: usize = 16;

/// A reschedule that the rules allow.
pub(crate) struct Rescheduled<'a> {
    pub(crate) change: &'a Reschedule,
    pub(crate) from: StateKind,
    /// The state with the new due time.
    pub(crate) state: &'a TaskState,
    pub(crate) now: Timestamp,
}

impl Edits {
    /// Adds a reschedule, if the task is unchanged.
    pub(crate) async fn reschedule(
        &self,
        item: &mut Item,
        found: &Snapshot,
        to: &Rescheduled<'_>,
    ) -> Result<(), Error> {
        let (id, state) = (&to.change.task, to.state);
        let unreadable = |reason| Error::corrupt_task(id, reason);
        let (mut envelope, order) = found.envelope().map_err(unreadable)?;
        let (_, hold) = found.state().map_err(unreadable)?;
        let submitted_at = envelope.submitted_at();
        let mut edit = Edit::new(self.access().keys(), id, item);
        edit.when_as_found(found, &[Of::Task, Of::TaskState, Of::Owner, Of::Parked]);
        if to.change.priority.is_some() || to.change.limits.is_some() {
            envelope.priority = to.change.priority.unwrap_or(envelope.priority);
            let terms = envelope.terms.take().map(|terms| *terms);
            envelope.terms = rules::reschedule::terms(to.change, terms).map(Box::new);
            edit.put_envelope(Of::Task, &envelope.live(order, state))?;
        }
        if to.change.due.is_some() || to.change.data.is_some() {
            // The next claim still counts an earlier claim that was lost.
            let by_claim = false;
            edit.put_state(state, &Hold { by_claim, ..hold }, &found.recent())?;
            if !edit.put_parked(state, submitted_at)? {
                edit.delete(Of::Parked);
            }
        }
        // The version stays, so the line is stored next to those of the task's writes.
        let prefix = format!("{:012}-rescheduled-", state.version);
        let name = format!("{prefix}{:012}", found.revision);
        let (from, to_code) = (to.from, state.code());
        edit.put_line(&name, ChangeKind::Rescheduled { from, to: to_code }, to.now)?;
        self.cut_reschedules(item, id, &prefix).await
    }

    /// Deletes the oldest of these lines when there are many. No later write of the task does that
    /// before its version grows.
    async fn cut_reschedules(
        &self,
        item: &mut Item,
        id: &TaskId,
        prefix: &str,
    ) -> Result<(), Error> {
        let prefix = format!("{}{prefix}", self.access().keys().histories(id));
        let reader = &self.access().reader;
        let lines = reader.all(&prefix, "read the history of a task").await?;
        if lines.len() + 1 >= LINES + MORE
            && let Some(first) = lines.get(lines.len() + 1 - LINES)
        {
            item.delete_range(&prefix, first.key());
        }
        Ok(())
    }
}
