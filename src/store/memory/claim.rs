//! Claims tasks.

use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::{limits::Admission, row::Owner, world::World};
use crate::store::{
    ChangeKind, Claim, Claimed, Error, Lease,
    rules::{self, dependencies::LookedAt},
};

impl World {
    pub(super) fn claim(
        &mut self,
        lease: &Lease,
        id: &TaskId,
        now: Timestamp,
    ) -> Result<Option<Claimed>, Error> {
        self.check_speaker(lease)?;
        match self.tasks.get(id) {
            Some(row) if row.quarantine.is_none() && !row.has_ended() => {}
            _ => return Ok(None),
        }
        self.read_state(id, now)?;
        let Some(row) = self.tasks.get(id) else {
            return Ok(None);
        };
        let LookedAt { state, ready } = self.looked_at(row.state()?, now);
        let ready = ready.filter(|_| row.owner.is_none());
        let (claimable, mut over_limit, abandoned) = match row.owner {
            // A lease claims its own task again when it got no answer. Its first claim has already
            // counted the lost claim before it, in the state and in the history; only `abandoned` is returned again.
            Some(owner) => (owner.lease == lease.id, owner.over_limit, owner.abandoned),
            None => (
                rules::claim::is_claimable(&state, !row.waiting.is_empty(), now),
                false,
                row.abandoned.is_some(),
            ),
        };
        if !claimable {
            return Ok(None);
        }
        if row.owner.is_some() {
            rules::worker::check_claims_once(lease, id)?;
        }
        let lost_by = row.abandoned.clone();
        if row.owner.is_none() {
            over_limit = match self.admit(id, &state, now) {
                Admission::Slots => false,
                Admission::OverLimit => true,
                Admission::Refused => return Ok(None),
            };
        }
        let fence = self.next_fence();
        let what = ChangeKind::Claimed {
            node: lease.node.clone(),
            fence,
            abandoned: lost_by.is_some(),
        };
        self.record(id, what, now);
        let state = state.claimed(fence, lost_by.as_ref().map(|n| n.as_str()), now);
        self.set_state(id, state.clone());
        if let Some(row) = self.leases.get_mut(&lease.id) {
            row.claims.insert(id.clone());
        }
        let Some(row) = self.tasks.get_mut(id) else {
            return Ok(None);
        };
        row.fence = fence;
        row.abandoned = None;
        row.owner = Some(Owner {
            lease: lease.id,
            fence,
            abandoned,
            over_limit,
        });
        let claimed = Claimed {
            claim: Claim {
                task: id.clone(),
                fence,
                lease: lease.id,
                token: row.order,
            },
            task: row.task.clone(),
            order: row.order,
            state,
            commands: row.waiting_commands(),
            ready,
            abandoned,
            over_limit,
        };
        self.touch(id);
        Ok(Some(claimed))
    }

    /// Refuses a claim that is not the live one. Expired leases were already ended.
    pub(super) fn check_claim(&self, claim: &Claim) -> Result<(), Error> {
        let owner = self.tasks.get(&claim.task).and_then(|row| row.owner);
        match owner {
            Some(owner) if owner.lease == claim.lease && owner.fence == claim.fence => Ok(()),
            _ => Err(Error::fenced(&claim.task)),
        }
    }
}
