//! Retries: the next incarnation of a task that has ended, or that cannot be read.

use jiff::Timestamp;
use windlass_statemachine::{Author, TaskId, TaskState};

use crate::store::{
    Error,
    etcd::{
        edits::{Edits, Retried},
        schema::Snapshot,
        write::{Tries, Wrote},
    },
    rules::{
        self,
        retry::{Counted, Record},
    },
};

const OPERATION: &str = "retry a task";

/// Retries tasks.
pub(crate) struct Retries {
    pub(crate) edits: Edits,
}

impl Retries {
    pub(crate) async fn retry(&self, id: &TaskId, by: Option<&Author>) -> Result<(), Error> {
        let access = self.edits.access();
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
            let mut item = access.item(id, 1).by(by);
            let to = Retried {
                state: &state,
                now,
                props: None,
                limits: None,
            };
            self.edits.retry(&mut item, id, &found, &to).await?;
            match tries.write(item).await? {
                Wrote::At(_) => return Ok(()),
                Wrote::Nothing => {}
                Wrote::Unknown => unknown = Some((state.incarnation, state.version)),
            }
        }
    }

    /// Returns the state with which a retry starts a task.
    async fn state(
        &self,
        id: &TaskId,
        found: &Snapshot,
        now: Timestamp,
    ) -> Result<TaskState, Error> {
        let state = found.state().map(|(state, _)| state);
        let last = match &state {
            Ok(_) => Counted::default(),
            Err(_) => self.edits.counted(id, found).await?,
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
}
