//! Deletes the keys that a repair may delete, unless they have changed since the examination read
//! them.

use std::collections::{HashMap, HashSet};

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use windlass_statemachine::TaskId;

use super::keys::{Belongs, KeyCheck, OPERATION};
use crate::store::{Error, etcd::schema::KeyValue};

impl KeyCheck {
    /// Deletes keys of tasks that do not exist, unless they have changed since they were read:
    /// another task may use a command id by now. Returns the number of deleted keys.
    pub(super) async fn delete_lost(
        &self,
        keys: &[&Belongs],
        ended: &HashSet<TaskId>,
    ) -> Result<u64, Error> {
        let mut of_task: HashMap<&TaskId, Vec<&Belongs>> = HashMap::new();
        for key in keys {
            of_task.entry(&key.id).or_default().push(key);
        }
        let mut deleted = 0;
        for (id, keys) in of_task {
            let size = self
                .reader
                .capacity
                .operations()
                .saturating_sub(2)
                .clamp(1, 100);
            for keys in keys.chunks(size) {
                let task = Compare::create_revision(self.reader.keys.task(id), CompareOp::Equal, 0);
                // A key that only a live task may have is also deleted when its task has ended.
                let finished = self.reader.keys.finished(id);
                let mut when = vec![task];
                if !ended.contains(id) {
                    when.push(Compare::create_revision(finished, CompareOp::Equal, 0));
                }
                when.extend(
                    keys.iter().map(|of| {
                        Compare::mod_revision(of.key.clone(), CompareOp::Equal, of.written)
                    }),
                );
                let deletes = keys.iter().map(|of| TxnOp::delete(of.key.clone(), None));
                let txn = Txn::new().when(when).and_then(deletes.collect::<Vec<_>>());
                let done = self.reader.link.txn(txn).await;
                let done = done.map_err(|fault| fault.into_error(OPERATION))?;
                deleted += if done.succeeded() {
                    keys.len() as u64
                } else {
                    0
                };
            }
        }
        Ok(deleted)
    }

    /// Deletes keys that have not changed, with `no_task` only owners whose task does not exist. Returns their number.
    pub(super) async fn delete_unchanged(
        &self,
        keys: &[&KeyValue],
        no_task: bool,
    ) -> Result<u64, Error> {
        let mut deleted = 0;
        for kv in keys {
            let same = Compare::mod_revision(kv.key(), CompareOp::Equal, kv.mod_revision());
            let mut when = vec![same];
            if no_task && let Some((id, _)) = self.reader.keys.split(kv.key()) {
                let task = format!("{}{id}", self.reader.keys.tasks());
                when.push(Compare::create_revision(task, CompareOp::Equal, 0));
            }
            let txn = Txn::new()
                .when(when)
                .and_then([TxnOp::delete(kv.key(), None)]);
            let done = self.reader.link.txn(txn).await;
            let done = done.map_err(|fault| fault.into_error(OPERATION))?;
            deleted += u64::from(done.succeeded());
        }
        Ok(deleted)
    }
}
