//! Changes a task without an owner.

use jiff::Timestamp;
use windlass_statemachine::TaskState;

use super::Edits;
use crate::store::{
    ChangeKind, Error, Reschedule,
    etcd::{
        schema::{Hold, Snapshot, TaskKey},
        write::{Edit, Item, Step},
    },
    rules,
};

/// A reschedule that the rules allow.
pub(crate) struct Rescheduled<'a> {
    pub(crate) change: &'a Reschedule,
    /// The line of the history.
    pub(crate) what: &'a ChangeKind,
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
        let (change, state) = (to.change, to.state);
        let id = &change.task;
        let unreadable = |reason| Error::corrupt_task(id, reason);
        let (mut envelope, order) = found.envelope().map_err(unreadable)?;
        let (_, hold) = found.state().map_err(unreadable)?;
        let submitted_at = envelope.submitted_at();
        let recent = self.access().reader.recent(found).await?;
        let mut edit = Edit::new(self.access().keys(), id, item);
        edit.when_as_found(
            found,
            &[
                TaskKey::Task,
                TaskKey::TaskState,
                TaskKey::Owner,
                TaskKey::Parked,
            ],
        );
        let has_task = change.priority.is_some() || change.limits.is_some();
        if has_task || change.kind.is_some() || change.props.is_some() {
            envelope.priority = change.priority.unwrap_or(envelope.priority);
            if let Some(kind) = &change.kind {
                envelope.kind.clone_from(kind);
            }
            if let Some(limits) = &change.limits {
                let terms = envelope.terms.take().map(|terms| *terms);
                envelope.terms = rules::reschedule::terms(limits, terms).map(Box::new);
            }
            edit.put_envelope(TaskKey::Task, &envelope.live(order, state))?;
        }
        if let Some(props) = &change.props {
            edit.put_props(props);
        }
        let step = Step {
            state,
            // A claim that was lost before is still counted by the next one.
            hold: &Hold {
                by_claim: false,
                ..hold
            },
            what: std::slice::from_ref(to.what),
            now: to.now,
        };
        edit.put_step(&step, &recent.unwrap_or_default())?;
        // Also the mark that stays: nodes of the new kind do not know it.
        if !edit.put_parked(state, submitted_at)? {
            edit.delete(TaskKey::Parked);
        }
        Ok(())
    }
}
