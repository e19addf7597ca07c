//! Reads whether tasks are live, and how they ended, without reading their records.

use std::collections::HashMap;

use etcd_client::{GetOptions, Txn, TxnOp};
use futures::{StreamExt, TryStreamExt, stream};
use windlass_statemachine::{StateKind, TaskId};

use super::Reader;
use crate::store::{
    etcd::{
        client::{Fault, kv},
        schema::Envelope,
    },
    rules::dependencies::Seen,
};

/// The most tasks that one transaction reads.
const CHUNK: usize = 60;
/// How many transactions read at once.
const AT_ONCE: usize = 16;

impl Reader {
    /// Returns the state of each existing task, and when it ended. A live task counts as runnable, because its state is not
    /// read.
    pub(crate) async fn codes(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, Seen>, Fault> {
        let chunk = (self.capacity.operations() / 2).clamp(1, CHUNK);
        let mut codes = HashMap::with_capacity(ids.len());
        let parts: Vec<Vec<TaskId>> = ids.chunks(chunk).map(<[TaskId]>::to_vec).collect();
        let read = |ids: Vec<TaskId>| async move { self.some_codes(&ids).await };
        let mut parts = stream::iter(parts).map(read).buffer_unordered(AT_ONCE);
        while let Some(part) = parts.try_next().await? {
            codes.extend(part);
        }
        Ok(codes)
    }

    async fn some_codes(&self, ids: &[TaskId]) -> Result<Vec<(TaskId, Seen)>, Fault> {
        let operations = ids.iter().flat_map(|id| {
            let key_alone = GetOptions::new().with_keys_only();
            [
                TxnOp::get(self.keys.task(id), Some(key_alone)),
                TxnOp::get(self.keys.finished(id), None),
            ]
        });
        let operations: Vec<TxnOp> = operations.collect();
        let answer = self.link.txn(Txn::new().and_then(operations)).await?;
        let mut responses = answer.op_responses().into_iter();
        let mut codes = Vec::with_capacity(ids.len());
        for id in ids {
            let (live, ended) = (kv(responses.next()), kv(responses.next()));
            let ended = ended.and_then(|kv| {
                let envelope = Envelope::read(&kv).ok()?;
                Some(Seen {
                    code: envelope.state?,
                    ended_at: envelope.ended_at,
                })
            });
            let live = live.map(|_| Seen {
                code: StateKind::Runnable,
                ended_at: None,
            });
            codes.extend(live.or(ended).map(|seen| (id.clone(), seen)));
        }
        Ok(codes)
    }
}
