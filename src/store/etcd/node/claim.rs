//! Claims: many tasks are read at once, and claimed in one combined write. A new task, which the watch has
//! brought as its submit wrote it, is claimed without a read.

use std::sync::Arc;

use futures::future::{join, join_all};
use jiff::Timestamp;
use windlass_statemachine::{Fence, NodeName, Task, TaskId, TaskState};

use super::{
    adopt::Adoption,
    claims::Held,
    lease::{Leases, number},
    new_tasks::NewTasks,
    slots::{Refused, SlotTable},
    waits::{LookedAt, Waited},
};
use crate::store::{
    ChangeKind, Claim, Claimed, Error, Lease,
    etcd::{
        client::Fault,
        schema::{
            Hold, KeyValue, Layout, Of, Slot, Snapshot, commands::has_order, records, reported,
        },
        write::{
            Edit, Item, Tried,
            slots::{Pick, Slots},
        },
    },
    rules,
};

const OPERATION: &str = "claim a task";
/// How often a claim is tried while the task changes.
const ROUNDS: usize = 4;

pub(super) type Answer = Result<Option<Claimed>, Error>;

/// Claims tasks for the nodes of this process.
pub(crate) struct Claimer {
    pub(crate) leases: Leases,
    pub(crate) adoption: Adoption,
    pub(crate) new: Arc<NewTasks>,
}

/// A task that is to be claimed, and how it was found.
struct Looked {
    found: Snapshot,
    /// The lease that the node is registered with.
    node: Option<i64>,
    /// It was not read: it is assumed to be as its submit wrote it. The claim compares that, and reads the props.
    is_new: bool,
}

/// What a call of claims reads for all its tasks. Clones share it.
#[derive(Clone)]
struct Shared {
    slots: SlotTable,
    waited: Waited,
}

/// A task that can be claimed, as it was found.
struct Claimable {
    found: Snapshot,
    is_new: bool,
    task: Arc<Task>,
    state: TaskState,
    order: u64,
    submitted_at: Timestamp,
    waited_until: Option<Timestamp>,
    /// The data version in the envelope.
    data_version: u32,
    /// The node that had it when it was lost.
    lost_by: Option<NodeName>,
    abandoned: bool,
    /// The lease to which the claim is attached.
    token: i64,
    /// When it is claimed.
    at: Timestamp,
    /// The tasks that must not be live when the claim is written.
    none_live: Vec<TaskId>,
    /// The slots of limits that the claim takes.
    picks: Vec<Pick>,
    /// Whether it is claimed beyond its limits, for the commands that wait for it.
    over_limit: bool,
    /// Whether the tasks that it waits for are looked at again once the claim is written.
    look_again: bool,
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
            let tried = self.try_claims(lease, &names, round + 1 == ROUNDS).await;
            let mut again = Vec::new();
            for (n, answer) in open.into_iter().zip(tried) {
                match answer {
                    Some(answer) => answers[n] = Some(answer),
                    None => again.push(n),
                }
            }
            open = again;
        }
        // The watch reports a changed task again. It does not do so for a slot that others took.
        for n in open {
            let task = ids[n].clone();
            self.leases
                .claims
                .refused(lease.id, Refused { task, full: None });
        }
        answers.into_iter().map(|a| a.unwrap_or(Ok(None))).collect()
    }

    /// Tries each claim once. Returns `None` for a task that changed meanwhile, or whose outcome is
    /// unknown.
    async fn try_claims(&self, lease: &Lease, ids: &[TaskId], last: bool) -> Vec<Option<Answer>> {
        let reader = &self.leases.access.reader;
        // A further lease is granted while the tasks are read. Each claim that finds no room grants
        // one.
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
            tries.push(self.try_claim(lease, id, read, last));
        }
        let mut answers = join_all(tries).await;
        if let Ok(shared) = shared {
            self.look_again(&shared.waited, &mut answers).await;
        }
        answers
    }

    /// Reads the tasks that are not new, and takes the others as the watch has brought them.
    async fn look_at(&self, lease: &Lease, ids: &[TaskId]) -> Vec<Result<Looked, Fault>> {
        let reader = &self.leases.access.reader;
        let new = |id| match reader.keys.layout() {
            Some(Layout::Own) => self.new.take(id),
            // The props of the task are beside it.
            Some(Layout::Shared) | None => None,
        };
        let new: Vec<Option<KeyValue>> = ids.iter().map(new).collect();
        let others = ids.iter().zip(&new).filter(|(_, new)| new.is_none());
        let others: Vec<TaskId> = others.map(|(id, _)| id.clone()).collect();
        let registration = reader.keys.registration(&lease.node);
        let read = reader.read_for_claim(&others, &registration).await;
        let mut read = read.into_iter();
        let mut look = |new: Option<KeyValue>| match new {
            Some(task) => Some(Ok(Looked {
                found: Snapshot {
                    fences: reader.fences.clone(),
                    revision: task.mod_revision(),
                    task: Some(task),
                    ..Snapshot::default()
                },
                node: Some(number(lease.id)),
                is_new: true,
            })),
            None => read.next().map(|read| {
                read.map(|(found, node)| Looked {
                    found,
                    node,
                    is_new: false,
                })
            }),
        };
        new.into_iter().filter_map(&mut look).collect()
    }

    async fn try_claim(
        &self,
        lease: &Lease,
        id: &TaskId,
        read: Result<(Looked, Shared), Fault>,
        last: bool,
    ) -> Option<Answer> {
        let (looked, shared) = match read {
            Ok((looked, shared)) if looked.node == Some(number(lease.id)) => (looked, shared),
            Ok(_) => return Some(Err(Error::lease_fenced(&lease.node))),
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
        let item = match self.claim_item(lease, id, &claimable) {
            Ok(item) => item,
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
                    // The next round reads the task, which this node owns now, and quarantines it.
                    freed();
                    return None;
                };
                if claimable.look_again {
                    shared.waited.look_again(id, claimable.at);
                }
                Some(Ok(Some(self.won(lease, id, claimable, revision))))
            }
            Tried::Failed(Fault::LeaseGone) => {
                claims.lost(lease.id);
                Some(Err(Error::lease_fenced(&lease.node)))
            }
            Tried::Failed(fault) => {
                freed();
                Some(Err(fault.into_error(OPERATION)))
            }
            Tried::Lost(why) if last => {
                freed();
                Some(Err(Error::unavailable(OPERATION, why)))
            }
            // The next round reads the task again. One that this node owns by then is claimed
            // again.
            Tried::Changed | Tried::TooLarge | Tried::Lost(_) => {
                freed();
                None
            }
        }
    }

    /// Checks whether a task can be claimed. Boxes rare futures: thousands of these are under way
    /// at a time.
    async fn claimable(
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
            Some(kv) if records::lease_of(kv) == lease.id => true,
            Some(_) => return Ok(None),
            None => false,
        };
        if let Some(reason) = found.fault(id) {
            Box::pin(self.adoption.quarantine(id, &found, &reason)).await?;
            return Err(Error::corrupt_task(id, reason));
        }
        let read = (found.state(), found.whole_task(id), found.envelope());
        let (Ok((state, hold)), Ok(task), Ok((envelope, order))) = read else {
            return Ok(None);
        };
        if state.code().is_terminal() {
            if !ours {
                Box::pin(self.adoption.unschedule(id)).await?;
            }
            return Ok(None);
        }
        let at = self.leases.access.now();
        let LookedAt {
            state,
            none_live,
            look_again,
        } = match state.is_waiting() {
            true => Box::pin(self.looked_at(state, &shared.waited, at)).await?,
            false => LookedAt::plain(state),
        };
        if !ours && !look_again && !rules::claim::is_claimable(&state, !found.queue.is_empty(), at)
        {
            Box::pin(self.adoption.park(id, &found, &state)).await;
            return Ok(None);
        }
        let mut picks = match ours {
            true => kept(&found),
            false => Vec::new(),
        };
        let mut over_limit = ours && picks.is_empty() && !task.limits.is_empty();
        if !ours && !task.limits.is_empty() {
            let picked = shared.slots.pick(&task.limits, at).await;
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
            state,
            order,
            submitted_at: envelope.submitted_at(),
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

    fn claim_item(&self, lease: &Lease, id: &TaskId, task: &Claimable) -> Result<Item, Error> {
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
            abandoned: task.abandoned,
        });
        let places = what.len() as u32;
        let mut item = self.leases.access.item(id, places);
        let mut edit = Edit::new(self.leases.access.keys(), id, &mut item);
        // The mark too: the task may have been quarantined since the read.
        edit.when_as_found(&task.found, &[Of::Task, Of::TaskState, Of::Parked]);
        if task.is_new {
            edit.when_bare();
            edit.when_registered(node, number(lease.id));
            edit.get_props();
        } else {
            edit.when_as_found(&task.found, &[Of::Owner]);
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
        edit.put_state(&state, &hold)?;
        if task.found.parked.is_some() {
            edit.delete(Of::Parked);
        }
        edit.put_history(state.version, &what, task.at)?;
        Ok(item)
    }

    fn won(&self, lease: &Lease, id: &TaskId, task: Claimable, at: i64) -> Claimed {
        let fence = self.leases.access.reader.fences.of(at);
        let state = task.claimed(fence);
        let props = task.found.props_keys();
        let queue = task.found.queue;
        let commands = reported(&queue);
        for stored in queue.iter().filter(|stored| stored.command.is_err()) {
            self.adoption.reject(id.clone(), stored.clone());
        }
        let held = Held {
            lease: lease.id,
            token: task.token,
            node: lease.node.clone(),
            fence,
            state_revision: at,
            task: task.task.clone(),
            order: task.order,
            submitted_at: task.submitted_at,
            waited_until: task.waited_until,
            data_version: task.data_version,
            props,
            queue,
            slots: task.picks.into_iter().map(|pick| pick.slot).collect(),
            queue_revision: task.found.revision,
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
            abandoned: task.abandoned,
            over_limit: task.over_limit,
        }
    }
}

/// Returns the slots of a claim of this node, for the claim that repeats it.
fn kept(found: &Snapshot) -> Vec<Pick> {
    let revision = found.revision_of(Of::Owner);
    let slots = found.slots().into_iter();
    let pick = |slot: Slot| Pick {
        // The slot of a limit on starts may be another claim's by now.
        revision: slot.start.is_none().then_some(revision),
        slot,
    };
    slots.map(pick).collect()
}

impl Claimable {
    /// Adds the props that the claim of a new task has read. `None` if they are no JSON.
    fn with_props(mut self, id: &TaskId, props: Option<KeyValue>) -> Option<Self> {
        if self.is_new {
            self.found.props_apart = props;
            self.task = Arc::new(self.found.whole_task(id).ok()?);
        }
        Some(self)
    }

    /// Its state once it is claimed.
    fn claimed(&self, fence: Fence) -> TaskState {
        let lost_by = self.lost_by.as_ref().map(NodeName::as_str);
        self.state.clone().claimed(fence, lost_by, self.at)
    }
}
