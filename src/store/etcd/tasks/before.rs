//! [`Before`]: what a transaction finds.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use windlass_statemachine::{CommandId, TaskId, TransactionId};

use super::{retry::Retries, transaction::OPERATION};
use crate::store::{
    Error, Operation, Transaction,
    etcd::{
        read::{Known, Reader},
        schema::{KeyValue, Snapshot},
    },
    rules::{
        retry::Counted,
        transaction::{Facts, Present},
    },
};

/// How many commands are looked up at once.
const AT_ONCE: usize = 32;

/// Everything that a transaction names, as it was read.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// The record of the transaction, if it was applied.
    pub(crate) record: Option<KeyValue>,
    pub(crate) facts: Facts,
    tasks: HashMap<TaskId, Snapshot>,
    /// The revisions of the pointers to its commands.
    pointers: HashMap<CommandId, i64>,
    nothing: Snapshot,
}

impl Before {
    pub(crate) async fn read(
        reader: &Reader,
        retries: &Retries,
        transaction: &Transaction,
        id: &TransactionId,
    ) -> Result<Self, Error> {
        let mut ids: Vec<TaskId> = transaction.tasks().cloned().collect();
        ids.sort();
        ids.dedup();
        let mut known = Vec::new();
        for operation in transaction.operations() {
            if let Operation::Send(send) = operation {
                known.push(look_up(reader, &send.id));
            }
        }
        let record = reader.keys.transaction(id);
        let (record, read, known) = tokio::join!(
            reader.key(&record, OPERATION),
            reader.read_many(&ids),
            stream::iter(known)
                .buffered(AT_ONCE)
                .try_collect::<Vec<_>>(),
        );
        let mut before = Self {
            record: record?,
            ..Self::default()
        };
        for (id, read) in ids.into_iter().zip(read) {
            let found = read.map_err(|fault| fault.into_error(OPERATION))?;
            if let Some(present) = present(&id, &found, retries).await? {
                before.facts.tasks.insert(id.clone(), present);
            }
            before.tasks.insert(id, found);
        }
        for (id, known) in known? {
            let Known {
                task,
                stored,
                revision,
            } = known;
            if let Some((task, stored)) = task.zip(stored) {
                before
                    .facts
                    .commands
                    .insert(id.clone(), (task, stored.order));
            }
            before.pointers.insert(id, revision);
        }
        Ok(before)
    }

    /// Returns a task that the transaction names, as it was found.
    pub(crate) fn found(&self, id: &TaskId) -> &Snapshot {
        self.tasks.get(id).unwrap_or(&self.nothing)
    }

    /// Returns the revision of the pointer to a command; 0: there is none.
    pub(crate) fn pointer(&self, id: &CommandId) -> i64 {
        self.pointers.get(id).copied().unwrap_or(0)
    }
}

async fn look_up(reader: &Reader, id: &CommandId) -> Result<(CommandId, Known), Error> {
    Ok((id.clone(), reader.known(id).await?))
}

/// Returns what the rules need of a task; `None` when there is none.
async fn present(
    id: &TaskId,
    found: &Snapshot,
    retries: &Retries,
) -> Result<Option<Present>, Error> {
    if !found.exists() {
        return Ok(None);
    }
    let state = found.state().map(|(state, _)| state);
    let mut last = match &state {
        Ok(state) => Counted {
            version: state.version,
            fence: state.fence,
        },
        Err(_) => retries.counted(id).await?,
    };
    if let Some(owner) = &found.owner {
        last.fence = found.fences.of(owner.mod_revision());
    }
    let task = found.whole_task(id).map(Arc::new);
    Ok(Some(Present {
        props: task.as_ref().map_or(0, |task| task.props.len()),
        task,
        state,
        quarantine: found.quarantined(),
        has_ended: found.task.is_none(),
        is_claimed: found.owner.is_some(),
        last,
    }))
}
