//! The history of one task: what its writes have told, its submit and its commands.

use windlass_statemachine::TaskId;

use super::{Inner, records::Entry};
use crate::store::{Change, Error, What};

impl Inner {
    pub(super) async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        const OPERATION: &str = "read the history of a task";
        let bundle = self.read(id).await.map_err(|f| f.into_error(OPERATION))?;
        if !bundle.exists() {
            return Err(Error::no_task(id));
        }
        let mut changes = Vec::new();
        if let Ok((envelope, order)) = bundle.envelope() {
            changes.push(Change {
                seq: order,
                at: envelope.submitted_at(),
                task: id.clone(),
                what: What::Submitted {
                    state: envelope.first_state().code(),
                },
            });
        }
        let prefix = self.keys.histories(id);
        let (entries, _) = self
            .get_all(&prefix)
            .await
            .map_err(|f| f.into_error(OPERATION))?;
        changes.extend(
            entries
                .iter()
                .flat_map(|kv| Entry::read(id, kv, &self.fences)),
        );
        for stored in self.stored_commands(id).await? {
            changes.push(Change {
                seq: stored.order,
                at: stored.sent_at,
                task: id.clone(),
                what: What::Commanded {
                    command: stored.order,
                },
            });
        }
        // What is older than the submit is of an earlier task, which a Metafora node has ended.
        let first = bundle.envelope().map_or(0, |(_, order)| order);
        changes.retain(|change| change.seq >= first);
        changes.sort_by_key(|change| change.seq);
        let over = changes.len().saturating_sub(limit as usize);
        changes.drain(..over);
        Ok(changes)
    }
}
