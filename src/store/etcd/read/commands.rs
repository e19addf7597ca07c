//! Reads commands: one by its id, or all of a task.

use etcd_client::{Txn, TxnOp};
use windlass_statemachine::{CommandId, TaskId};

use super::reader::Reader;
use crate::store::{
    Error,
    etcd::{
        client::kv,
        schema::{KeyValue, Stored, json::parse},
    },
};

/// The command of an id.
pub(crate) struct Known {
    /// The task to which it was sent, and the stored command.
    pub(crate) task: Option<TaskId>,
    pub(crate) stored: Option<Stored>,
    /// The revision that wrote its pointer; 0 if it does not exist. A pointer to nothing may be
    /// overwritten.
    pub(crate) revision: i64,
}

impl Reader {
    /// Finds a command by its id.
    pub(crate) async fn known(&self, id: &CommandId) -> Result<Known, Error> {
        const OPERATION: &str = "find a command";
        let pointer = self.key(&self.keys.pointer(id), OPERATION).await?;
        let task = pointer.as_ref().and_then(|kv| parse::<TaskId>(kv).ok());
        let revision = pointer.as_ref().map_or(0, KeyValue::mod_revision);
        let Some(task) = task else {
            let (task, stored) = (None, None);
            return Ok(Known {
                task,
                stored,
                revision,
            });
        };
        let read = Txn::new().and_then([
            TxnOp::get(self.keys.queued(&task, id.as_str()), None),
            TxnOp::get(self.keys.outcome(&task, id.as_str()), None),
        ]);
        let read = self.link.txn(read).await;
        let read = read.map_err(|fault| fault.into_error(OPERATION))?;
        let mut found = read.op_responses().into_iter();
        let kv = kv(found.next()).or_else(|| kv(found.next()));
        let stored = kv.map(|kv| Stored::read(Some(id.as_str()), &kv));
        Ok(Known {
            task: stored.as_ref().map(|_| task),
            stored,
            revision,
        })
    }

    /// Reads the commands of a task in order, including those that have an outcome.
    pub(crate) async fn stored_commands(&self, id: &TaskId) -> Result<Vec<Stored>, Error> {
        const OPERATION: &str = "read the commands of a task";
        // The queued ones first: a command that gets its outcome in the meantime is then read twice
        // instead of missed.
        let snapshot = self.found(id, OPERATION).await?;
        if !snapshot.exists() {
            return Err(Error::no_task(id));
        }
        let prefix = self.keys.outcomes(id);
        let settled = self.all(&prefix, OPERATION).await?;
        let settled = settled.iter().filter_map(|kv| {
            let key = std::str::from_utf8(kv.key()).ok()?;
            Some(Stored::read(Some(key.strip_prefix(&prefix)?), kv))
        });
        let mut all: Vec<Stored> = settled.collect();
        for waiting in snapshot.queue {
            if all.iter().all(|stored| stored.order != waiting.order) {
                all.push(waiting);
            }
        }
        all.sort_by_key(|stored| stored.order);
        Ok(all)
    }
}
