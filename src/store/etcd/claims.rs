//! Claims: many tasks are read at once, and claimed in one combined write.

use std::sync::Arc;

use futures::future::{join, join_all};
use jiff::Timestamp;
use tracing::warn;
use windlass_statemachine::{Fence, NodeName, QueuedCommand, State, Task, TaskId};

use super::{
    Inner,
    errors::Fault,
    held::Held,
    item::Item,
    leases::number,
    queued::Stored,
    read::{Bundle, parked_for, revision},
    records::{self, Entry, Hold, Owner, Parked},
};
use crate::store::{Claim, Claimed, Error, Lease, What, rules};

/// How often a claim is tried when the task changes meanwhile.
const ROUNDS: usize = 4;
/// How many writes of a task its history goes back, at the least.
pub(super) const HISTORY: u64 = 64;
/// With every so many writes what is over is cut off: with each, it would be an operation of every
/// transition.
const CUT_EVERY: u64 = 16;

type Answer = Result<Option<Claimed>, Error>;

/// A claim that is ready to be written.
struct Ready {
    item: Item,
    state: State,
    task: Arc<Task>,
    order: u64,
    submitted_at: Timestamp,
    bundle: Bundle,
    token: i64,
    abandoned: bool,
}

pub(super) fn touch(id: &TaskId) -> String {
    format!("t{id}")
}

/// The commands that can be told; those that cannot be read are not among them.
pub(super) fn told(queue: &[Stored]) -> Vec<QueuedCommand> {
    let readable = queue.iter().filter_map(|stored| {
        Some(QueuedCommand {
            order: stored.order,
            id: stored.id().ok()?,
            command: stored.command.clone().ok()?,
        })
    });
    let mut commands: Vec<_> = readable.collect();
    commands.sort_by_key(|c| c.order);
    commands
}

impl Inner {
    /// Adds a line to the history of a task, and cuts off what is over.
    pub(super) fn put_history(
        &self,
        item: &mut Item,
        id: &TaskId,
        version: u64,
        now: Timestamp,
        what: &[What],
    ) -> Result<(), Error> {
        let key = self.keys.history(id, version);
        item.put(&key, Entry::write(now, item.place, what)?);
        if let Some(old) = version.checked_sub(HISTORY)
            && version.is_multiple_of(CUT_EVERY)
        {
            let old = self.keys.history(id, old);
            item.delete_range(&self.keys.histories(id), format!("{old}~"));
        }
        Ok(())
    }

    pub(super) async fn claim(self: &Arc<Self>, lease: &Lease, ids: Vec<TaskId>) -> Vec<Answer> {
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
        answers.into_iter().map(|a| a.unwrap_or(Ok(None))).collect()
    }

    /// One round. No answer for those whose task changed meanwhile, or whose outcome is not known.
    async fn try_claims(
        self: &Arc<Self>,
        lease: &Lease,
        ids: &[TaskId],
        last: bool,
    ) -> Vec<Option<Answer>> {
        let registration = self.keys.registration(&lease.node);
        // A lease more is asked for while the tasks are read; each claim asks again if it has none.
        let (read, _) = join(
            self.read_for_claim(ids, &registration),
            self.make_room(lease, ids.len()),
        )
        .await;
        let mut tries = Vec::with_capacity(ids.len());
        for (id, read) in ids.iter().zip(read) {
            tries.push(self.try_claim(lease, id, read, last));
        }
        join_all(tries).await
    }

    async fn try_claim(
        self: &Arc<Self>,
        lease: &Lease,
        id: &TaskId,
        read: Result<(Bundle, Option<i64>), Fault>,
        last: bool,
    ) -> Option<Answer> {
        const OPERATION: &str = "claim a task";
        let bundle = match read {
            Ok((bundle, Some(node))) if node == number(lease.id) => bundle,
            Ok(_) => return Some(Err(Error::lease_fenced(&lease.node))),
            Err(fault) => return Some(Err(fault.into_error(OPERATION))),
        };
        let ready = match self.ready(lease, id, bundle).await {
            Ok(Some(ready)) => ready,
            Ok(None) => return Some(Ok(None)),
            Err(error) => return Some(Err(error)),
        };
        let item = ready.item.clone();
        match self.pipeline.write(item).await {
            Ok(done) => match done.written {
                Some(revision) => Some(Ok(Some(self.won(lease, id, ready, revision)))),
                None => {
                    self.leases.freed(lease.id, ready.token);
                    None
                }
            },
            Err(Fault::LeaseGone) => {
                self.lost(lease);
                Some(Err(Error::lease_fenced(&lease.node)))
            }
            Err(Fault::Unknown(_)) if !last => {
                self.leases.freed(lease.id, ready.token);
                None
            }
            Err(fault) => {
                self.leases.freed(lease.id, ready.token);
                Some(Err(fault.into_error(OPERATION)))
            }
        }
    }

    /// Looks whether a task can be claimed, and makes the write that does it. What seldom happens is
    /// in boxes: thousands of these are under way at a time.
    async fn ready(
        &self,
        lease: &Lease,
        id: &TaskId,
        bundle: Bundle,
    ) -> Result<Option<Ready>, Error> {
        if bundle.task.is_none() || bundle.aside().is_some() {
            return Ok(None);
        }
        let ours = match &bundle.owner {
            Some(kv) if records::lease_of(kv) == lease.id => true,
            Some(_) => return Ok(None),
            None => false,
        };
        let now = self.now();
        if let Some(reason) = bundle.fault(id) {
            Box::pin(self.set_aside(id, &bundle, &reason, now)).await?;
            return Err(Error::corrupt_task(id, reason));
        }
        let read = (bundle.state(), bundle.whole_task(id), bundle.envelope());
        let (Ok((state, hold)), Ok(task), Ok((envelope, order))) = read else {
            return Ok(None);
        };
        if state.code().is_terminal() {
            if !ours {
                Box::pin(self.unschedule(id, now)).await?;
            }
            return Ok(None);
        }
        if !ours && !rules::claim::is_claimable(&state, !bundle.queue.is_empty(), now) {
            Box::pin(self.park(id, &bundle, &state)).await;
            return Ok(None);
        }
        let lost_by = hold.claimed_by.as_ref().filter(|_| !ours);
        let abandoned = lost_by.is_some() || (ours && hold.abandoned);
        let token = match self.leases.room(lease.id) {
            Some(token) => token,
            None => Box::pin(self.lease_for_claim(lease)).await?,
        };
        let item = self.claim_item(lease, id, &bundle, (&state, lost_by, abandoned), token, now);
        let item = item.inspect_err(|_| self.leases.freed(lease.id, token))?;
        let state = state.claimed(Fence(0), lost_by.map(NodeName::as_str), now);
        Ok(Some(Ready {
            item,
            state,
            task: Arc::new(task),
            order,
            submitted_at: envelope.submitted_at(),
            bundle,
            token,
            abandoned,
        }))
    }

    fn claim_item(
        &self,
        lease: &Lease,
        id: &TaskId,
        bundle: &Bundle,
        (state, lost_by, abandoned): (&State, Option<&NodeName>, bool),
        token: i64,
        now: Timestamp,
    ) -> Result<Item, Error> {
        let keys = &self.keys;
        let mut what = Vec::new();
        if lost_by.is_some() {
            what.push(What::Lost { fence: state.fence });
        }
        what.push(What::Claimed {
            node: lease.node.clone(),
            fence: Fence(0),
            abandoned,
        });
        let places = what.len() as u32;
        let mut item = Item::new(touch(id)).at(self.pipeline.places(places), places);
        item.when_at(&keys.owner(id), revision(bundle.owner.as_ref()));
        item.when_at(&keys.task(id), revision(bundle.task.as_ref()));
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        let owner = Owner {
            node: lease.node.clone(),
            lease: Some(lease.id),
        };
        item.put_on(&keys.owner(id), records::write("owner", &owner)?, token);
        let stored = state
            .clone()
            .claimed(state.fence, lost_by.map(NodeName::as_str), now);
        let hold = Hold {
            by_claim: true,
            abandoned,
            ..Hold::of(&lease.node)
        };
        item.put(&keys.state(id), records::write_state(&stored, &hold)?);
        if bundle.parked.is_some() {
            item.delete(&keys.parked(id));
        }
        self.put_history(&mut item, id, stored.version, now, &what)?;
        Ok(item)
    }

    fn won(self: &Arc<Self>, lease: &Lease, id: &TaskId, ready: Ready, at: i64) -> Claimed {
        let Ready {
            mut state,
            task,
            order,
            submitted_at,
            bundle,
            token,
            abandoned,
            item: _,
        } = ready;
        let fence = self.fences.of(at);
        state.fence = fence;
        let commands = told(&bundle.queue);
        for stored in bundle.queue.iter().filter(|stored| stored.command.is_err()) {
            self.reject(id.clone(), stored.clone());
        }
        let held = Held {
            lease: lease.id,
            token,
            node: lease.node.clone(),
            fence,
            state_revision: at,
            task: task.clone(),
            order,
            submitted_at,
            queue: bundle.queue,
            queue_revision: bundle.revision,
        };
        if let Some(before) = self.claims.keep(id, held) {
            self.leases.freed(before.lease, before.token);
        }
        Claimed {
            claim: Claim {
                task: id.clone(),
                fence,
                lease: lease.id,
                token: u64::try_from(token).unwrap_or(0),
            },
            task,
            order,
            state,
            commands,
            abandoned,
        }
    }

    /// Leaves the marker that a waiting task should have: the node that had it was lost, or is one
    /// that leaves none.
    async fn park(&self, id: &TaskId, bundle: &Bundle, state: &State) {
        let Some(parked) = parked_for(state).filter(|_| bundle.parked.is_none()) else {
            return;
        };
        let Ok(text) = records::write("parked", &parked) else {
            return;
        };
        let mut item = Item::new(touch(id));
        item.when_at(&self.keys.owner(id), 0);
        item.when_at(&self.keys.task(id), revision(bundle.task.as_ref()));
        item.when_at(&self.keys.state(id), revision(bundle.state.as_ref()));
        item.when_at(&self.keys.parked(id), 0);
        item.put(&self.keys.parked(id), text);
        // Whoever tries next leaves it, if this did not.
        let _ = self.pipeline.write(item).await;
    }

    /// Sets a task aside that cannot be read.
    async fn set_aside(
        &self,
        id: &TaskId,
        bundle: &Bundle,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let parked = Parked {
            until: None,
            aside: Some(reason.to_owned()),
        };
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        let owner = self.keys.owner(id);
        item.when_at(&owner, revision(bundle.owner.as_ref()));
        item.when_at(&self.keys.task(id), revision(bundle.task.as_ref()));
        item.when_at(&self.keys.state(id), revision(bundle.state.as_ref()));
        if bundle.owner.is_some() {
            item.delete(&owner);
        }
        item.put(&self.keys.parked(id), records::write("parked", &parked)?);
        let entry = Entry::write(now, item.place, &[What::Quarantined])?;
        // A retry writes the state, so the next quarantine has another key.
        let key = self.keys.quarantine(id, revision(bundle.state.as_ref()));
        item.put(&key, entry);
        let done = self.pipeline.write(item).await;
        let done = done.map_err(|fault| fault.into_error("set a task aside"))?;
        if done.written.is_some() {
            warn!(task = %id, reason, "a task cannot be read: it is set aside");
        }
        Ok(())
    }
}
