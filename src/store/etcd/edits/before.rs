//! [`Before`]: the tasks and commands that a transaction, or a message with effects, names, before they are changed.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use windlass_statemachine::{CommandId, TaskId, TransactionId};

use super::Edits;
use crate::store::{
    Error, Operation, Transaction,
    etcd::{
        read::{Known, Reader},
        schema::{KeyValue, Snapshot, Unique, revision},
    },
    rules::{
        retry::Counted,
        transaction::{Facts, Need, Present},
    },
};

/// The most commands that are looked up at once.
const AT_ONCE: usize = 32;

/// Everything that a transaction or a message's effects name, as it was read.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// The record of the transaction, if it was applied.
    pub(crate) record: Option<KeyValue>,
    pub(crate) facts: Facts,
    /// Whether nothing was read: the write compares what the facts assume.
    pub(crate) is_assumed: bool,
    tasks: HashMap<TaskId, Snapshot>,
    /// The revisions of the pointers to its commands.
    pointers: HashMap<CommandId, i64>,
    /// The revisions of the records of its unique keys.
    keys: HashMap<String, i64>,
    nothing: Snapshot,
}

impl Before {
    /// Returns what a first try assumes instead of reading it: that the ids of submitted tasks are free, that the tasks of
    /// commands live, and that the commands are new.
    pub(crate) fn assumed(transaction: &Transaction) -> Self {
        let mut before = Self {
            is_assumed: true,
            ..Self::default()
        };
        for operation in transaction.operations() {
            if let Operation::Send(send) = operation {
                let tasks = &mut before.facts.tasks;
                tasks.insert(send.task.clone(), Present::assumed());
            }
        }
        before
    }

    pub(crate) async fn read(
        parts: &Edits,
        transaction: &Transaction,
        id: Option<&TransactionId>,
        operation: &'static str,
    ) -> Result<Self, Error> {
        let reader = &parts.access().reader;
        let mut unique = Vec::new();
        for key in transaction.unique_keys() {
            let record = reader.key(&reader.keys.unique(key), operation).await?;
            unique.push((key, record));
        }
        let holders = unique.iter().filter_map(|(key, record)| {
            let record = Unique::read(record.as_ref()?)?;
            Some((*key, record))
        });
        let holders: Vec<(&str, Unique)> = holders.collect();
        let mut ids: Vec<TaskId> = transaction.tasks().cloned().collect();
        ids.extend(holders.iter().map(|(_, record)| record.task().clone()));
        ids.sort();
        ids.dedup();
        let mut known = Vec::new();
        for one in transaction.operations() {
            if let Operation::Send(send) = one {
                known.push(look_up(reader, &send.id));
            }
        }
        let record = async {
            let key = id.map(|id| reader.keys.transaction(id));
            match key {
                Some(key) => reader.key(&key, operation).await,
                None => Ok(None),
            }
        };
        let (record, read, known) = tokio::join!(
            record,
            reader.read_many(&ids),
            stream::iter(known)
                .buffered(AT_ONCE)
                .try_collect::<Vec<_>>(),
        );
        let mut before = Self {
            record: record?,
            ..Self::default()
        };
        let need = Need::of(transaction);
        for (id, read) in ids.into_iter().zip(read) {
            let found = read.map_err(|fault| fault.into_error(operation))?;
            if let Some(present) = present(&id, &found, parts, need).await? {
                before.facts.tasks.insert(id.clone(), present);
            }
            before.tasks.insert(id, found);
        }
        for (key, record) in holders {
            if let Some(holder) = record.holder(key, before.found(record.task())) {
                before.facts.keys.insert(key.to_owned(), holder);
            }
        }
        let unique = unique.into_iter();
        before.keys = unique
            .map(|(key, record)| (key.to_owned(), revision(record.as_ref())))
            .collect();
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

    /// Returns a task that the transaction names, as it was read.
    pub(crate) fn found(&self, id: &TaskId) -> &Snapshot {
        self.tasks.get(id).unwrap_or(&self.nothing)
    }

    /// Returns the revision of the record of a unique key; 0 if it does not exist.
    pub(crate) fn key(&self, key: &str) -> i64 {
        self.keys.get(key).copied().unwrap_or(0)
    }

    /// Returns the revision of the pointer to a command; 0 if it does not exist.
    pub(crate) fn pointer(&self, id: &CommandId) -> i64 {
        self.pointers.get(id).copied().unwrap_or(0)
    }
}

async fn look_up(reader: &Reader, id: &CommandId) -> Result<(CommandId, Known), Error> {
    Ok((id.clone(), reader.known(id).await?))
}

/// Returns what the rules need to know about a task; `None` when it does not exist.
async fn present(
    id: &TaskId,
    found: &Snapshot,
    parts: &Edits,
    need: Need,
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
        Err(_) if need == Need::Head => Counted::default(),
        Err(_) => parts.counted(id, found).await?,
    };
    if let Some(owner) = &found.owner {
        last.fence = found.fences.of(owner.mod_revision());
    }
    let task = found.whole_task(id).map(Arc::new);
    Ok(Some(Present {
        props: task.as_ref().map_or(0, |task| task.props.len()),
        task,
        order: found.envelope().map_or(0, |(_, order)| order),
        state,
        quarantine: found.quarantined(),
        has_ended: found.task.is_none(),
        is_claimed: found.owner.is_some(),
        is_lost: found.is_lost(),
        last,
    }))
}
