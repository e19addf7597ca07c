//! [`LogWriter`]: the lines that handlers log, under their claims.

use std::sync::Arc;

use windlass_statemachine::TaskId;

use super::claims::Claims;
use crate::store::{
    Claim, Error, LogWrite, Logged,
    etcd::{
        read::Access,
        schema::TaskKey,
        write::{
            Edit, Item, Tries, Wrote,
            log_lines::{KnownLog, writes},
        },
    },
};

const OPERATION: &str = "write log lines";

/// Writes log lines of the claims of this process.
pub(crate) struct LogWriter {
    pub(crate) access: Access,
    pub(crate) claims: Arc<Claims>,
}

impl LogWriter {
    /// Writes lines without a transition.
    pub(crate) async fn log(&self, write: LogWrite) -> Result<(), Error> {
        for lines in writes(&write.lines) {
            self.write(&write.claim, lines).await?;
        }
        Ok(())
    }

    /// Writes all lines of a commit but the last, for which there is room next to its transition, and returns
    /// those. Stops when the claim has ended: the transition is refused then, or an earlier try has written it.
    pub(crate) async fn before_commit<'a>(
        &self,
        claim: &Claim,
        lines: &'a [Logged],
    ) -> Result<&'a [Logged], Error> {
        let mut all = writes(lines);
        let last = all.pop().unwrap_or_default();
        for lines in all {
            match self.write(claim, lines).await {
                Err(Error::Fenced(_)) => break,
                written => written?,
            }
        }
        Ok(last)
    }

    /// Reads what a write has to know of the log of a task.
    pub(crate) async fn read(&self, id: &TaskId) -> Result<Arc<KnownLog>, Error> {
        self.access.reader.log_head(id).await.map(Arc::new)
    }

    async fn write(&self, claim: &Claim, lines: &[Logged]) -> Result<(), Error> {
        let (id, fence) = (&claim.task, claim.fence);
        let held = self.claims.get(id, fence);
        let node = self.claims.node(claim.lease);
        let forged = node.is_none_or(|node| !node.ids().contains(&(claim.token as i64)));
        let Some(held) = held.filter(|held| !forged && held.lease == claim.lease) else {
            return Err(Error::fenced(id));
        };
        let revision = self.access.reader.fences.revision(fence);
        let mut tries = Tries::new(&self.access.pipeline, OPERATION).patient();
        let mut known = match held.log {
            Some(known) => known,
            None => self.read(id).await?,
        };
        loop {
            let mut item = Item::of(id);
            let keys = self.access.keys();
            Edit::new(keys, id, &mut item).when(TaskKey::Owner, revision);
            let Some(head) = known.add_to(&mut item, (keys, id), fence, lines)? else {
                return Ok(());
            };
            if let Wrote::At(revision) = tries.write(item).await? {
                let known = Arc::new(KnownLog { head, revision });
                self.claims.logged(id, fence, known);
                return Ok(());
            }
            let owner = self.access.reader.key(&keys.owner(id), OPERATION).await?;
            if owner.is_none_or(|owner| owner.mod_revision() != revision) {
                return Err(Error::fenced(id));
            }
            known = self.read(id).await?;
        }
    }
}
