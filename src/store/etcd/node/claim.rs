//! Claims: many tasks are read at once, and claimed in one combined write. A new task, whose submit the
//! watch has delivered, is claimed without a read.

mod claimable;
mod look;

use std::sync::Arc;

use futures::future::{join, join_all};
use windlass_statemachine::TaskId;

use self::{claimable::Claimable, look::Looked};
use super::{
    claims::Held,
    dependencies::Waited,
    lease::{Leases, number},
    new_tasks::NewTasks,
    repair::Repairs,
    slots::{Refused, SlotTable},
};
use crate::store::{
    Claim, Claimed, Error, Lease,
    etcd::{
        client::Fault,
        schema::{Recent, reported},
        write::Tried,
    },
    rules::commit::Stored as Written,
};

const OPERATION: &str = "claim a task";
/// How often a claim is tried while the task changes.
const ROUNDS: usize = 4;

pub(super) type Answer = Result<Option<Claimed>, Error>;

/// Claims tasks for the nodes of this process.
pub(crate) struct Claimer {
    pub(crate) leases: Leases,
    pub(crate) repairs: Repairs,
    pub(crate) new: Arc<NewTasks>,
}

/// One round of the claims of a call.
#[derive(Clone, Copy)]
struct Round {
    /// The revision of the key of the speaker, which the claims of a worker compare.
    speaker: Option<i64>,
    last: bool,
}

/// What one call reads for all its claims. Clones share it.
#[derive(Clone)]
struct Shared {
    slots: SlotTable,
    waited: Waited,
}

impl Claimer {
    pub(crate) async fn claim(&self, lease: &Lease, ids: Vec<TaskId>) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = ids.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..ids.len()).collect();
        for round in 0..ROUNDS {
            if open.is_empty() {
                break;
            }
            let names: Vec<TaskId> = open.iter().map(|n| ids[*n].clone()).collect();
            // A claim that was refused may have met another speaker.
            let speaker = match self.leases.spoken(lease, round > 0, OPERATION).await {
                Ok(speaker) => speaker,
                Err(error) => {
                    for n in open.drain(..) {
                        answers[n] = Some(Err(error.clone()));
                    }
                    break;
                }
            };
            let this_round = Round {
                speaker,
                last: round + 1 == ROUNDS,
            };
            let tried = self.try_claims(lease, &names, this_round).await;
            let mut again = Vec::new();
            for (n, answer) in open.into_iter().zip(tried) {
                match answer {
                    Some(answer) => answers[n] = Some(answer),
                    None => again.push(n),
                }
            }
            open = again;
        }
        if !open.is_empty()
            && let Err(error) = self.leases.spoken(lease, true, OPERATION).await
        {
            for n in open.drain(..) {
                answers[n] = Some(Err(error.clone()));
            }
        }
        // The watch reports a changed task again, but not a slot that others took.
        for n in open {
            let task = ids[n].clone();
            self.leases
                .claims
                .refused(lease.id, Refused { task, full: None });
        }
        answers.into_iter().map(|a| a.unwrap_or(Ok(None))).collect()
    }

    /// Tries each claim once. Returns `None` for a task that changed in the meantime, or whose
    /// outcome is unknown.
    async fn try_claims(&self, lease: &Lease, ids: &[TaskId], round: Round) -> Vec<Option<Answer>> {
        let reader = &self.leases.access.reader;
        // A further lease is granted while the tasks are read, if there may be no room for the
        // claims.
        let (read, _) = join(
            self.look_at(lease, ids),
            self.leases.make_room(lease, ids.len()),
        )
        .await;
        let tasks = || read.iter().flatten().map(|looked| &looked.found);
        let (slots, waited) = join(
            SlotTable::read(reader, tasks()),
            Waited::read(reader, tasks()),
        )
        .await;
        let shared = slots.and_then(|slots| waited.map(|waited| Shared { slots, waited }));
        let mut tries = Vec::with_capacity(ids.len());
        for (id, read) in ids.iter().zip(read) {
            let read = match (read, &shared) {
                (Ok(looked), Ok(shared)) => Ok((looked, shared.clone())),
                (Err(fault), _) => Err(fault),
                (_, Err(fault)) => Err(fault.clone()),
            };
            tries.push(self.try_claim(lease, id, read, round));
        }
        let mut answers = join_all(tries).await;
        if let Ok(shared) = shared {
            shared.waited.look_once_more(reader, &mut answers).await;
        }
        answers
    }

    async fn try_claim(
        &self,
        lease: &Lease,
        id: &TaskId,
        read: Result<(Looked, Shared), Fault>,
        round: Round,
    ) -> Option<Answer> {
        let (looked, shared) = match read {
            Ok((looked, shared)) if looked.node == Some(number(lease.id)) => (looked, shared),
            Ok(_) => {
                // The lease may still exist: somebody deleted the key of its node. The node joins again.
                self.leases.claims.lost(lease.id);
                return Some(Err(Error::lease_fenced(&lease.node)));
            }
            Err(fault) => return Some(Err(fault.into_error(OPERATION))),
        };
        let claimable = match self.claimable(lease, id, looked, &shared).await {
            Ok(Some(claimable)) => claimable,
            Ok(None) => return Some(Ok(None)),
            Err(error) => return Some(Err(error)),
        };
        let (claims, pipeline) = (&self.leases.claims, &self.leases.access.pipeline);
        let token = claimable.token;
        let freed = || claims.freed(lease.id, token);
        let (item, recent) = match self.claim_item(lease, id, &claimable) {
            Ok((mut item, recent)) => {
                if let Some(revision) = round.speaker {
                    let keys = self.leases.access.keys();
                    item.when_at(&keys.speaker(&lease.node), revision);
                }
                (item, recent)
            }
            Err(error) => {
                freed();
                return Some(Err(error));
            }
        };
        let before = pipeline.capacity.operations();
        let mut answer = pipeline.write(item).await;
        let props = answer.as_mut().ok().and_then(|done| done.read.take());
        match Tried::of(answer, before, &pipeline.capacity) {
            Tried::Written(revision) => {
                let Some(claimable) = claimable.with_props(id, props) else {
                    // The next round reads the task, which this node now owns, and quarantines it.
                    freed();
                    return None;
                };
                let recent = recent.written(revision);
                if claimable.look_again {
                    shared.waited.look_again(id, claimable.at);
                }
                Some(Ok(Some(self.won(lease, id, (claimable, recent), revision))))
            }
            Tried::Failed(Fault::LeaseGone) => {
                claims.lost(lease.id);
                Some(Err(Error::lease_fenced(&lease.node)))
            }
            Tried::Failed(fault) => {
                freed();
                Some(Err(fault.into_error(OPERATION)))
            }
            Tried::Lost(why) if round.last => {
                freed();
                Some(Err(Error::unavailable(OPERATION, why)))
            }
            // The next round reads the task again. A task that this node owns by then is claimed
            // again.
            Tried::Changed | Tried::TooLarge | Tried::Lost(_) => {
                freed();
                None
            }
        }
    }

    /// Records a claim that was written at this revision.
    fn won(
        &self,
        lease: &Lease,
        id: &TaskId,
        (task, recent): (Claimable, Recent),
        at: i64,
    ) -> Claimed {
        let fence = self.leases.access.reader.fences.of(at);
        let state = task.claimed(fence);
        let props = task.found.props_keys();
        let queue = task.found.queue;
        let commands = reported(&queue);
        for stored in queue.iter().filter(|stored| stored.command.is_err()) {
            self.repairs.reject(id.clone(), stored.clone());
        }
        let held = Held {
            lease: lease.id,
            token: task.token,
            node: lease.node.clone(),
            fence,
            state_revision: at,
            written: Some(Written::of(&state)),
            recent,
            task: task.task.clone(),
            order: task.order,
            submitted_at: task.submitted_at,
            submitted_by: task.submitted_by,
            waited_until: task.waited_until,
            data_version: task.data_version,
            props,
            queue,
            slots: task.picks.into_iter().map(|pick| pick.slot).collect(),
            queue_revision: task.found.revision,
            log: None,
        };
        self.leases.claims.keep(id, held);
        Claimed {
            claim: Claim {
                task: id.clone(),
                fence,
                lease: lease.id,
                token: u64::try_from(task.token).unwrap_or(0),
            },
            task: task.task,
            order: task.order,
            state,
            commands,
            ready: task.ready,
            abandoned: task.abandoned,
            over_limit: task.over_limit,
        }
    }
}
