//! The history of one task: the lines of its writes, its submit and its commands.

use windlass_statemachine::TaskId;

use super::query::Queries;
use crate::store::{Change, Error, StoredLog, etcd::schema::Entry};

impl Queries {
    /// Returns the log lines of a task from the part with this number on.
    pub(crate) async fn log(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        let log = self.reader.log_parts(id, from, 0).await;
        let log = log.map_err(|fault| fault.into_error("read the log lines of a task"))?;
        if log == StoredLog::default()
            && !self
                .reader
                .found(id, "read the log lines of a task")
                .await?
                .exists()
        {
            return Err(Error::no_task(id));
        }
        Ok(log)
    }

    pub(crate) async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        const OPERATION: &str = "read the history of a task";
        let found = self.reader.found(id, OPERATION).await?;
        if !found.exists() {
            return Err(Error::no_task(id));
        }
        let mut changes: Vec<Change> = found.submit(id).into_iter().collect();
        // The state first: a write that moves its lines to a block in the meantime leaves them in
        // both.
        changes.extend(found.recent_changes(id));
        let prefix = self.reader.keys.histories(id);
        let entries = self.reader.all(&prefix, OPERATION).await?;
        changes.extend(
            entries
                .iter()
                .flat_map(|kv| Entry::read(id, kv, &self.reader.fences)),
        );
        for stored in self.reader.stored_commands(id).await? {
            let change = Change::new(stored.order, stored.sent_at, id.clone(), stored.change());
            changes.push(change.by(stored.by));
        }
        // A line from before the submit belongs to an earlier task, which a Metafora node ended.
        let first = found.envelope().map_or(0, |(_, order)| order);
        changes.retain(|change| change.seq >= first);
        changes.sort_by_key(|change| change.seq);
        changes.dedup_by_key(|change| change.seq);
        let over = changes.len().saturating_sub(limit as usize);
        changes.drain(..over);
        Ok(changes)
    }
}
