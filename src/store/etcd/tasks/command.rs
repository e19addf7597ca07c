//! Finds commands by their id and by their task.

use windlass_statemachine::{CommandId, TaskId};

use super::Queries;
use crate::store::{CommandRecord, Error};

impl Queries {
    pub(crate) async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let known = self.reader.known(id).await?;
        let found = known.task.zip(known.stored);
        let found = found.and_then(|(task, stored)| stored.record(&task));
        found.ok_or_else(|| Error::no_command(id))
    }

    pub(crate) async fn commands(&self, id: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        let all = self.reader.stored_commands(id).await?;
        Ok(all.iter().filter_map(|stored| stored.record(id)).collect())
    }
}
