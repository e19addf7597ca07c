//! Reads the claims of a remote worker: those of the coordinator, with the states of the state store.

use windlass_statemachine::{TaskId, TaskState};

use super::{
    Split,
    coordinator::{only, stripped},
    merge::{Merged, merge},
};
use crate::store::{Claimed, Commit, Error, Lease};

impl Split {
    pub(super) async fn held_claims(
        &self,
        lease: &Lease,
        tasks: Option<Vec<TaskId>>,
    ) -> Result<Vec<Claimed>, Error> {
        let claims = self.coordinator.held(lease, tasks).await?;
        let ids: Vec<TaskId> = claims.iter().map(|one| one.claim.task.clone()).collect();
        let mut held = Vec::with_capacity(claims.len());
        for (claimed, loaded) in claims.into_iter().zip(self.load_patiently(&ids).await) {
            held.extend(self.adopt(claimed, loaded).await?);
        }
        Ok(held)
    }

    /// Returns a claim with its stored state. Writes only what an earlier call has left undone: the second half of a
    /// commit, or the fence of a claim that was never handed out.
    async fn adopt(
        &self,
        claimed: Claimed,
        loaded: Result<Option<TaskState>, Error>,
    ) -> Result<Option<Claimed>, Error> {
        let stored = match loaded {
            Ok(stored) => stored,
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(task = %claimed.claim.task, %error, "could not read a claimed task");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let fence = claimed.claim.fence;
        if stored.as_ref().is_none_or(|state| state.fence != fence) {
            return self.complete(claimed, Ok(stored)).await;
        }
        let Merged {
            mut claimed,
            recovery,
        } = merge(claimed, stored);
        if let Some(write) = recovery {
            let mut commit = Commit::new(claimed.claim.clone(), write);
            claimed.state.commit = commit.write.state.commit;
            commit.write.state = stripped(commit.write.state);
            only(self.coordinator.commit(vec![commit]).await, "commit")?;
        }
        let has_ended = claimed.state.code().is_terminal();
        Ok((!has_ended).then_some(claimed))
    }
}
