//! Retries: the next incarnation of a task that has ended, or that cannot be read.

use jiff::Timestamp;
use windlass_statemachine::{TaskId, TaskState};

use crate::store::{
    ChangeKind, Error,
    etcd::{
        read::Access,
        schema::{Entry, Hold, Of, Snapshot, namespace::version_of, ranges::name_of},
        write::{Edit, Item, Tries, Wrote},
    },
    rules::{
        self,
        retry::{Counted, Record},
    },
};

const OPERATION: &str = "retry a task";

/// Retries tasks.
pub(crate) struct Retries {
    pub(crate) access: Access,
}

impl Retries {
    pub(crate) async fn retry(&self, id: &TaskId) -> Result<(), Error> {
        let access = &self.access;
        let mut tries = Tries::new(&access.pipeline, OPERATION);
        // The incarnation and version of a try without an answer.
        let mut unknown = None;
        loop {
            let found = access.reader.found(id, OPERATION).await?;
            if !found.exists() {
                return Err(Error::no_task(id));
            }
            if let (Some(tried), Ok((state, _))) = (unknown, found.state())
                && (state.incarnation, state.version) >= tried
            {
                // That try started the task, which may even have ended since.
                return Ok(());
            }
            let now = access.now();
            let state = self.state(id, &found, now).await?;
            let mut item = access.item(id, 1);
            self.add(&mut item, id, &found, &state, now)?;
            match tries.write(item).await? {
                Wrote::At(_) => return Ok(()),
                Wrote::Nothing => {}
                Wrote::Unknown => unknown = Some((state.incarnation, state.version)),
            }
        }
    }

    /// Returns the state that a retry starts a task with.
    async fn state(
        &self,
        id: &TaskId,
        found: &Snapshot,
        now: Timestamp,
    ) -> Result<TaskState, Error> {
        let state = found.state().map(|(state, _)| state);
        let last = match &state {
            Ok(_) => Counted::default(),
            Err(_) => self.counted(id).await?,
        };
        let whole = found.whole_task(id);
        let record = Record {
            id,
            state,
            start_at: whole.as_ref().ok().and_then(|task| task.start_at),
            envelope: whole.err(),
            is_quarantined: found.quarantined().is_some(),
            is_claimed: found.owner.is_some(),
            last,
        };
        rules::retry::state(record, now)
    }

    /// Reads the version and fence of the last write of a task from its history, whose keys end
    /// with versions.
    pub(crate) async fn counted(&self, id: &TaskId) -> Result<Counted, Error> {
        let prefix = self.access.keys().histories(id);
        let reader = &self.access.reader;
        let entries = reader.all(&prefix, "read the history of a task").await?;
        let mut last = Counted::default();
        for kv in &entries {
            let version = name_of(kv, &prefix).and_then(version_of);
            last.version = last.version.max(version.unwrap_or(0));
            for change in Entry::read(id, kv, &self.access.reader.fences) {
                last.fence = last.fence.max(change.what.fence().unwrap_or_default());
            }
        }
        Ok(last)
    }

    /// Adds the retry of a task, if it is as found.
    pub(crate) fn add(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        state: &TaskState,
        now: Timestamp,
    ) -> Result<(), Error> {
        let read = found.envelope();
        let (mut envelope, order) = read.map_err(|reason| Error::corrupt_task(id, reason))?;
        let mut edit = Edit::new(self.access.keys(), id, item);
        edit.when_as_found(found, &[Of::Task, Of::Finished, Of::TaskState, Of::Owner]);
        let has_other_data = envelope.data_version != state.data_version;
        if found.task.is_none() || has_other_data {
            let props = envelope.props.take();
            edit.delete(Of::Finished);
            edit.put_envelope(Of::Task, &envelope.live(order, state))?;
            if let Some(props) = props {
                edit.put_props(&props);
            }
        }
        if found.owner.is_some() {
            edit.delete(Of::Owner);
        }
        edit.put_state(state, &Hold::default())?;
        if !edit.put_parked(state)? {
            edit.delete(Of::Parked);
        }
        edit.put_history(state.version, &[ChangeKind::Retried], now)
    }
}
