//! Reads the lines that handlers log.

use windlass_statemachine::TaskId;

use super::Reader;
use crate::store::{
    Error, StoredLog,
    etcd::{
        client::Fault,
        schema::{KeyValue, end_of, json::parse},
        write::log_lines::KnownLog,
    },
    rules::log_lines::LogHead,
};

const OPERATION: &str = "read the log lines of a task";

impl Reader {
    /// Returns the log of a task from the part with this number on, as of this revision (0: the newest).
    pub(crate) async fn log_parts(
        &self,
        id: &TaskId,
        from: u64,
        revision: i64,
    ) -> Result<StoredLog, Fault> {
        let prefix = self.keys.log(id);
        let mut log = StoredLog::default();
        let mut take = |kv: KeyValue| {
            let Some(place) = self.keys.log_place(id, kv.key()) else {
                return;
            };
            match parse(&kv) {
                Ok(part) => log.parts.push(part),
                Err(reason) => log.damaged.push(place.damaged(reason)),
            }
        };
        let from = format!("{prefix}{from:012}");
        self.link
            .scan(revision, &from, &end_of(&prefix), &mut take)
            .await?;
        Ok(log)
    }

    /// Reads what a write of lines has to know of the log of a task.
    pub(crate) async fn log_head(&self, id: &TaskId) -> Result<KnownLog, Error> {
        let (prefix, mut parts) = (self.keys.log(id), Vec::new());
        let mut take = |kv: KeyValue| parts.extend(self.keys.log_place(id, kv.key()));
        let read = self.link.scan_keys(0, &prefix, &mut take).await;
        read.map_err(|fault| fault.into_error(OPERATION))?;
        let Some(place) = parts.last() else {
            return Ok(KnownLog::default());
        };
        let kv = self.key(&self.keys.log_part(id, *place), OPERATION).await?;
        // The next lines begin a part of their own when the last part cannot be read.
        let last = kv.as_ref().and_then(|kv| parse(kv).ok());
        Ok(KnownLog {
            revision: kv.map_or(0, |kv| kv.mod_revision()),
            head: LogHead { parts, last },
        })
    }
}
