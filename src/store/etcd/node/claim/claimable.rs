//! [`Claimable`]: decides whether a task can be claimed, and makes the write of its claim.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{Author, Fence, NodeName, Task, TaskId, TaskState};

use super::{Claimer, OPERATION, Shared, look::Looked};
use crate::store::{
    ChangeKind, Error, Lease,
    etcd::{
        node::{dependencies::LookedAt, lease::number, slots::Refused},
        schema::{Hold, KeyValue, Recent, Slot, Snapshot, TaskKey, commands::has_order, records},
        write::{
            Edit, Item, Step,
            slots::{Pick, Slots},
        },
    },
    rules,
};

/// A task that can be claimed, as it was read.
pub(super) struct Claimable {
    pub(super) found: Snapshot,
    pub(super) is_new: bool,
    pub(super) task: Arc<Task>,
    pub(super) state: TaskState,
    /// Since when it can be claimed; `None` for a claim that is repeated.
    pub(super) ready: Option<Timestamp>,
    pub(super) order: u64,
    pub(super) submitted_at: Timestamp,
    pub(super) submitted_by: Option<Author>,
    pub(super) waited_until: Option<Timestamp>,
    /// The data version in the envelope.
    pub(super) data_version: u32,
    /// The node that lost it.
    pub(super) lost_by: Option<NodeName>,
    pub(super) abandoned: bool,
    /// The lease to which the claim is attached.
    pub(super) token: i64,
    /// When it is claimed.
    pub(super) at: Timestamp,
    /// The tasks that must not be live when the claim is written.
    pub(super) none_live: Vec<TaskId>,
    /// The slots of limits that the claim takes.
    pub(super) picks: Vec<Pick>,
    /// Whether it is claimed beyond its limits, because commands are queued for it.
    pub(super) over_limit: bool,
    /// Whether to read the tasks that it waits for again after the claim was written.
    pub(super) look_again: bool,
}

impl Claimer {
    /// Checks whether a task can be claimed. Boxes rare futures: thousands of these are under way
    /// at a time.
    pub(super) async fn claimable(
        &self,
        lease: &Lease,
        id: &TaskId,
        Looked { found, is_new, .. }: Looked,
        shared: &Shared,
    ) -> Result<Option<Claimable>, Error> {
        if found.task.is_none() || found.quarantined().is_some() {
            return Ok(None);
        }
        let ours = match &found.owner {
            Some(kv) if records::lease_of(kv) == lease.id => {
                rules::worker::check_claims_once(lease, id)?;
                true
            }
            Some(_) => return Ok(None),
            None => false,
        };
        if let Some(reason) = found.fault(id) {
            Box::pin(self.repairs.quarantine(id, &found, &reason)).await?;
            return Err(Error::corrupt_task(id, reason));
        }
        let read = (found.state(), found.whole_task(id), found.envelope());
        let (Ok((state, hold)), Ok(task), Ok((envelope, order))) = read else {
            return Ok(None);
        };
        if state.code().is_terminal() {
            if !ours {
                Box::pin(self.repairs.unschedule(id)).await?;
            }
            return Ok(None);
        }
        let at = self.leases.access.now();
        let LookedAt {
            state,
            ready,
            none_live,
            look_again,
        } = match state.is_waiting() {
            true => {
                let reader = &self.leases.access.reader;
                Box::pin(shared.waited.looked_at(reader, state, at)).await?
            }
            false => LookedAt::plain(state),
        };
        if !ours && !look_again && !rules::claim::is_claimable(&state, !found.queue.is_empty(), at)
        {
            Box::pin(self.repairs.park(id, &found, &state)).await;
            return Ok(None);
        }
        let mut picks = match ours {
            true => kept(&found),
            false => Vec::new(),
        };
        let mut over_limit = ours && picks.is_empty() && !task.limits.is_empty();
        if !ours && !task.limits.is_empty() {
            let reserver = self.leases.claims.reserver(lease.id);
            let reserver = reserver.filter(|one| one.order != order);
            let picked = shared.slots.pick(&task.limits, reserver.as_ref(), at).await;
            match picked.map_err(|fault| fault.into_error(OPERATION))? {
                Ok(picked) => picks = picked,
                Err(_) if has_order(&found.queue) || rules::claim::is_late(&state, at) => {
                    over_limit = true;
                }
                Err(full) => {
                    let task = id.clone();
                    let full = Some(full);
                    let refused = Refused { task, full };
                    self.leases.claims.refused(lease.id, refused);
                    return Ok(None);
                }
            }
        }
        let lost_by = hold.claimed_by.filter(|_| !ours);
        let abandoned = lost_by.is_some() || (ours && hold.abandoned);
        let token = match self.leases.claims.room(lease.id) {
            Some(token) => token,
            None => Box::pin(self.leases.lease_for_claim(lease)).await?,
        };
        Ok(Some(Claimable {
            task: Arc::new(task),
            ready: ready.filter(|_| !ours),
            state,
            order,
            submitted_at: envelope.submitted_at(),
            submitted_by: envelope.by.clone(),
            waited_until: envelope.waited_until(),
            data_version: envelope.data_version,
            lost_by,
            abandoned,
            token,
            at,
            none_live,
            picks,
            over_limit,
            look_again,
            found,
            is_new,
        }))
    }

    /// Returns the write of the claim, and the lines of history that the state then has.
    pub(super) fn claim_item(
        &self,
        lease: &Lease,
        id: &TaskId,
        task: &Claimable,
    ) -> Result<(Item, Recent), Error> {
        let node = &lease.node;
        let mut what = Vec::new();
        if task.lost_by.is_some() {
            what.push(ChangeKind::Lost {
                fence: task.state.fence,
            });
        }
        what.push(ChangeKind::Claimed {
            node: node.clone(),
            fence: Fence(0),
            // A claim of this node that is made again, because its answer was lost, has counted the loss before.
            abandoned: task.lost_by.is_some(),
        });
        let places = what.len() as u32;
        let mut item = self.leases.access.item(id, places);
        let mut edit = Edit::new(self.leases.access.keys(), id, &mut item);
        // Compares the mark too: the task may have been quarantined since the read.
        edit.when_as_found(
            &task.found,
            &[TaskKey::Task, TaskKey::TaskState, TaskKey::Parked],
        );
        if task.is_new {
            edit.when_bare();
            edit.when_registered(node, number(lease.id));
            edit.get_props();
        } else {
            edit.when_as_found(&task.found, &[TaskKey::Owner]);
        }
        edit.when_none_lives(&task.none_live);
        let slots = Slots {
            token: task.token,
            picks: &task.picks,
        };
        edit.put_owner(node, lease.id, &slots)?;
        let state = task.claimed(task.state.fence);
        let hold = Hold {
            by_claim: true,
            abandoned: task.abandoned,
            ..Hold::of(node)
        };
        let step = Step {
            state: &state,
            hold: &hold,
            what: &what,
            now: task.at,
        };
        let recent = edit.put_step(&step, &task.found.recent())?;
        if task.found.parked.is_some() {
            edit.delete(TaskKey::Parked);
        }
        Ok((item, recent))
    }
}

/// Returns the slots of an existing claim of this node, for the claim that repeats it.
fn kept(found: &Snapshot) -> Vec<Pick> {
    let revision = found.revision_of(TaskKey::Owner);
    let slots = found.slots().into_iter();
    let pick = |slot: Slot| Pick {
        // Another claim may have the slot of a limit on starts by now.
        revision: slot.start.is_none().then_some(revision),
        slot,
    };
    slots.map(pick).collect()
}

impl Claimable {
    /// Adds the props that the claim of a new task has read. `None` if they are not JSON.
    pub(super) fn with_props(mut self, id: &TaskId, props: Option<KeyValue>) -> Option<Self> {
        if self.is_new {
            self.found.props_apart = props;
            self.task = Arc::new(self.found.whole_task(id).ok()?);
        }
        Some(self)
    }

    /// Returns its state after the claim.
    pub(super) fn claimed(&self, fence: Fence) -> TaskState {
        let lost_by = self.lost_by.as_ref().map(NodeName::as_str);
        self.state.clone().claimed(fence, lost_by, self.at)
    }
}
