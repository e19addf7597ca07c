//! Starts a task in its next incarnation.

use jiff::Timestamp;
use windlass_statemachine::{Json, Limit, TaskId, TaskState};

use super::Edits;
use crate::store::{
    ChangeKind, Error,
    etcd::{
        schema::{
            Entry, Hold, Layout, Recent, Snapshot, TaskKey, namespace::version_of, ranges::name_of,
        },
        write::{Edit, Item, Step},
    },
    rules::{self, retry::Counted},
};

/// A retry that the rules allow.
pub(crate) struct Retried<'a> {
    pub(crate) state: &'a TaskState,
    pub(crate) now: Timestamp,
    /// Other props for the task.
    pub(crate) props: Option<&'a Json>,
    /// The limits that follow from the other props.
    pub(crate) limits: Option<&'a [Limit]>,
}

impl Edits {
    /// Reads the version and fence of the last write of a task with an unreadable state from its history, whose keys
    /// or lines contain versions. If the newest lines are lost with the state, the version may be greater than that
    /// of the last write, but is never less.
    pub(crate) async fn counted(&self, id: &TaskId, found: &Snapshot) -> Result<Counted, Error> {
        let reader = &self.access().reader;
        reader.decided("retry a task").await?;
        let prefix = self.access().keys().histories(id);
        let entries = reader.all(&prefix, "read the history of a task").await?;
        let mut last = Counted::default();
        for kv in &entries {
            let named = name_of(kv, &prefix).and_then(version_of);
            let version = named.or_else(|| Entry::version(kv));
            last.version = last.version.max(version.unwrap_or(0));
            for change in Entry::read(id, kv, &reader.fences) {
                last.fence = last.fence.max(change.what.fence().unwrap_or_default());
            }
        }
        if let (Some(state), Some(Layout::Compact)) = (&found.state, self.access().keys().layout())
        {
            last.version = match reader.recent(found).await? {
                Some(recent) => last.version.max(recent.last_version().unwrap_or(0)),
                None => Recent::last_possible(last.version),
            };
            last.fence = last.fence.max(found.fences.of(state.mod_revision()));
        }
        Ok(last)
    }

    /// Adds the retry of a task, if it is unchanged.
    pub(crate) async fn retry(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        to: &Retried<'_>,
    ) -> Result<(), Error> {
        let &Retried {
            state,
            now,
            props: edited,
            limits,
        } = to;
        let read = found.envelope();
        let (mut envelope, order) = read.map_err(|reason| Error::corrupt_task(id, reason))?;
        self.access().reader.decided("retry a task").await?;
        let recent = self.access().reader.recent(found).await?;
        let mut edit = Edit::new(self.access().keys(), id, item);
        edit.when_as_found(
            found,
            &[
                TaskKey::Task,
                TaskKey::Finished,
                TaskKey::TaskState,
                TaskKey::Owner,
            ],
        );
        let submitted_at = envelope.submitted_at();
        let has_other_data = envelope.data_version != state.data_version;
        if found.task.is_none() || has_other_data || edited.is_some() {
            let stored = envelope.props.take();
            if let Some(limits) = limits {
                let terms = envelope.terms.take().map(|terms| *terms);
                envelope.terms = rules::reschedule::terms(limits, terms).map(Box::new);
            }
            edit.delete_finished(found);
            edit.put_envelope(TaskKey::Task, &envelope.live(order, state))?;
            if let Some(props) = edited.or(stored.as_ref()) {
                edit.put_props(props);
            }
        }
        if found.owner.is_some() {
            edit.delete_owner(found);
        }
        let step = Step {
            state,
            hold: &Hold::default(),
            what: &[ChangeKind::Retried],
            now,
        };
        match recent {
            Some(recent) => drop(edit.put_step(&step, &recent)?),
            // The next retry needs this version, even if it cannot read the state either.
            None => edit.put_step_apart(&step)?,
        }
        if !edit.put_parked(state, submitted_at)? {
            edit.delete(TaskKey::Parked);
        }
        Ok(())
    }
}
