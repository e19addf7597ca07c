//! How a task comes back: the next incarnation of one that has ended, or that cannot be read.

use jiff::Timestamp;
use windlass_statemachine::{TaskId, TaskState};

use crate::store::{
    ChangeKind, Error,
    etcd::{
        read::Access,
        schema::{Entry, Hold, Of, Snapshot, namespace::version_of, ranges::name_of},
        write::{Change, Edit, Item, Step},
    },
    rules::{
        self,
        retry::{Counted, Record},
    },
};

/// Retries tasks.
pub(crate) struct Retries {
    pub(crate) access: Access,
}

impl Retries {
    pub(crate) fn new(access: Access) -> Self {
        Self { access }
    }

    pub(crate) async fn retry(&self, id: &TaskId) -> Result<(), Error> {
        let mut start = Start {
            by: self,
            id,
            tried: None,
            last: (0, 0),
        };
        self.access.pipeline.attempt(&mut start).await
    }

    /// The state that a retry starts a task with.
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
        let record = Record {
            id,
            state,
            envelope: found.whole_task(id).err(),
            is_quarantined: found.aside().is_some(),
            last,
        };
        rules::retry::state(record, now)
    }

    /// What the last write of a task has counted to, by its history: that is named by version.
    async fn counted(&self, id: &TaskId) -> Result<Counted, Error> {
        let prefix = self.access.keys().histories(id);
        let read = self.access.reader.link.get_all(&prefix).await;
        let (entries, _) = read.map_err(|fault| fault.into_error("read the history of a task"))?;
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

    fn item(
        &self,
        id: &TaskId,
        found: &Snapshot,
        state: &TaskState,
        now: Timestamp,
    ) -> Result<Item, Error> {
        let read = found.envelope();
        let is_repaired = read.is_err();
        let (mut envelope, order) = match read {
            Ok(read) => read,
            Err(reason) => found.replaced_envelope(id, reason)?,
        };
        let mut item = self.access.item(id, 1);
        let mut edit = Edit::new(self.access.keys(), id, &mut item);
        edit.when_as_found(found, &[Of::Task, Of::Finished, Of::TaskState, Of::Owner]);
        let has_other_data = envelope.data_version != state.data_version;
        if found.task.is_none() || is_repaired || has_other_data {
            let props = envelope.props.take();
            edit.delete(Of::Finished);
            edit.put_envelope(Of::Task, &envelope.live(order, state))?;
            if let Some(props) = props {
                edit.put_props(&props);
            }
        }
        if found.has_unreadable_props() {
            edit.delete(Of::Props);
        }
        if found.owner.is_some() {
            edit.delete(Of::Owner);
        }
        edit.put_state(state, &Hold::default())?;
        if !edit.put_parked(state)? {
            edit.delete(Of::Parked);
        }
        edit.put_history(state.version, &[ChangeKind::Retried], now)?;
        Ok(item)
    }
}

struct Start<'a> {
    by: &'a Retries,
    id: &'a TaskId,
    /// The incarnation and version that a try without an answer has written, if it has; and those of
    /// the last try.
    tried: Option<(u32, u64)>,
    last: (u32, u64),
}

impl Change for Start<'_> {
    type Found = Snapshot;
    type Output = ();
    const OPERATION: &'static str = "retry a task";

    async fn read(&mut self) -> Result<Snapshot, Error> {
        let found = self
            .by
            .access
            .reader
            .found(self.id, Self::OPERATION)
            .await?;
        match found.exists() {
            true => Ok(found),
            false => Err(Error::no_task(self.id)),
        }
    }

    /// A try without an answer may have started it; it may even have ended again.
    fn already_done(&mut self, found: &Snapshot) -> Option<()> {
        let tried = self.tried?;
        let (state, _) = found.state().ok()?;
        ((state.incarnation, state.version) >= tried).then_some(())
    }

    async fn build(&mut self, found: Snapshot) -> Result<Step<()>, Error> {
        let now = self.by.access.now();
        let state = self.by.state(self.id, &found, now).await?;
        self.last = (state.incarnation, state.version);
        let item = self.by.item(self.id, &found, &state, now)?;
        Ok(Step::Write(item))
    }

    fn written(&mut self, _: i64) -> Option<()> {
        Some(())
    }

    fn lost(&mut self) {
        self.tried = Some(self.last);
    }
}
