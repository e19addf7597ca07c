//! Commits: one transition of one task, on behalf of its claim.

use std::sync::Arc;

use windlass_statemachine::{TaskState, machine::Write, size::Size};

use super::{
    claims::{Claims, Held},
    effects::Effects,
};
use crate::store::{
    Claim, Commit, Error,
    etcd::{
        read::Access,
        schema::{Envelope, Hold, Of, Owner, Snapshot, Stored, json::parse},
        write::{Change, Edit, Item, Step},
    },
    rules,
};

/// How many operations the end of a task has, beside two for each command.
const OWN: usize = 8;

/// Writes the transitions of claimed tasks.
pub(crate) struct Committer {
    pub(crate) access: Access,
    pub(crate) claims: Arc<Claims>,
    pub(crate) max_bytes: usize,
}

impl Committer {
    pub(crate) fn new(access: Access, claims: Arc<Claims>, max_bytes: usize) -> Self {
        Self {
            access,
            claims,
            max_bytes,
        }
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let Commit { claim, write } = commit;
        let node = self.claims.node(claim.lease);
        let forged = node.is_some_and(|n| !n.ids().contains(&(claim.token as i64)));
        let known = self.claims.get(&claim.task, claim.fence);
        let mut transition = Transition {
            by: self,
            known: known.filter(|held| !forged && held.lease == claim.lease),
            forged,
            tried: false,
            sent: Sent::Nothing,
            claim: &claim,
            write: &write,
        };
        self.access.pipeline.attempt(&mut transition).await
    }
}

/// What was sent with the last try.
enum Sent {
    Nothing,
    Transition,
    /// These commands were rejected before it; what is known of the claim.
    Rejections(Vec<u64>, Box<Held>),
}

struct Transition<'a> {
    by: &'a Committer,
    claim: &'a Claim,
    write: &'a Write,
    /// What this process knows of the claim: it need not be read.
    known: Option<Held>,
    /// The claim names a lease that its node does not have.
    forged: bool,
    /// What is read is of interest to the next commits too.
    tried: bool,
    sent: Sent,
}

impl Change for Transition<'_> {
    /// How the claim stands; `None` when the transition was written before.
    type Found = Option<Box<Held>>;
    type Output = ();
    const OPERATION: &'static str = "store a transition";
    /// A task may change meanwhile, and have very many commands.
    const TRIES: usize = 1000;
    const PATIENT: bool = true;

    async fn read(&mut self) -> Result<Self::Found, Error> {
        match self.known.take() {
            Some(held) => Ok(Some(Box::new(held))),
            None => {
                let found = Box::pin(self.look()).await?;
                if self.tried
                    && let Some(held) = &found
                {
                    self.by.claims.keep(&self.claim.task, (**held).clone());
                }
                Ok(found)
            }
        }
    }

    fn already_done(&mut self, found: &Self::Found) -> Option<()> {
        let is_done = found.is_none();
        if is_done && rules::history::ends_claim(self.write) {
            self.by.claims.forget(&self.claim.task, self.claim.fence);
        }
        is_done.then_some(())
    }

    async fn build(&mut self, found: Self::Found) -> Result<Step<()>, Error> {
        let Some(held) = found else {
            return Ok(Step::Done(()));
        };
        let (write, claim) = (self.write, self.claim);
        self.tried = true;
        let item = match rules::size::check(
            Size::of(&write.state),
            held.task.props.len(),
            self.by.max_bytes,
        ) {
            Ok(()) => self.item(&held).await,
            Err(error) => Err(error),
        };
        let item = match item {
            Ok(item) => item,
            // An invalid write is reported only under the live claim.
            Err(error) => {
                return match Box::pin(self.look()).await? {
                    Some(_) => Err(error),
                    None => Ok(Step::Done(())),
                };
            }
        };
        let waits = held.queue.len().saturating_sub(write.outcomes.len());
        if self.ends() && waits > self.by.access.pipeline.capacity.settled_at_once() {
            return self.reject_some(held).map(Step::Write);
        }
        let is_unknown = |order: &u64| held.queue.iter().all(|known| known.order != *order);
        if write.outcomes.iter().any(|(order, _)| is_unknown(order)) {
            // A command came since the claim, and no watch has delivered it here. One that is still
            // not there after reading was settled or deleted by others.
            let Some(now) = Box::pin(self.look()).await? else {
                return Ok(Step::Done(()));
            };
            if now.queue.iter().any(|stored| is_unknown(&stored.order)) {
                self.by.claims.keep(&claim.task, (*now).clone());
                self.known = Some(*now);
                return Ok(Step::Again);
            }
        }
        self.sent = Sent::Transition;
        Ok(Step::Write(item))
    }

    fn written(&mut self, at: i64) -> Option<()> {
        let (id, fence, claims) = (&self.claim.task, self.claim.fence, &self.by.claims);
        match std::mem::replace(&mut self.sent, Sent::Nothing) {
            Sent::Rejections(gone, mut held) => {
                held.queue.retain(|s| !gone.contains(&s.order));
                claims.wrote(id, fence, held.state_revision, &gone);
                self.known = Some(*held);
                return None;
            }
            _ if rules::history::ends_claim(self.write) => claims.forget(id, fence),
            _ => {
                let settled = self.write.outcomes.iter().map(|(order, _)| *order);
                claims.wrote(id, fence, at, &settled.collect::<Vec<_>>());
                claims.wrote_data_version(id, fence, self.write.state.data_version);
            }
        }
        Some(())
    }
}

impl Transition<'_> {
    fn ends(&self) -> bool {
        self.write.state.code().is_terminal()
    }

    /// Reads how the claim stands: `None` when the transition was written before.
    async fn look(&self) -> Result<Option<Box<Held>>, Error> {
        let (id, by) = (&self.claim.task, self.by);
        let found = by.access.reader.found(id, Self::OPERATION).await?;
        if !self.forged && found.exists() && found.state().is_ok_and(|s| self.is_applied(&s)) {
            return Ok(None);
        }
        let fence = by.access.reader.fences.revision(self.claim.fence);
        if self.forged || found.revision_of(Of::Owner) != fence || found.owner.is_none() {
            by.claims.forget(id, self.claim.fence);
            return Err(Error::fenced(id));
        }
        let held = held_of(self.claim, found).ok_or_else(|| Error::fenced(id))?;
        Ok(Some(Box::new(held)))
    }

    fn is_applied(&self, (stored, hold): &(TaskState, Hold)) -> bool {
        let version = self.write.state.version;
        !hold.by_claim && stored.fence == self.claim.fence && stored.version == version
    }

    /// The write of the transition.
    async fn item(&self, held: &Held) -> Result<Item, Error> {
        let (by, write, id) = (self.by, self.write, &self.claim.task);
        let (state, now, ends) = (&write.state, by.access.now(), self.ends());
        let what = rules::history::lines(self.claim.fence, write);
        let effects = write.effects.submit.len() + write.effects.send.len();
        let lines = what.len() as u32;
        let places = lines + u32::try_from(effects).unwrap_or(u32::MAX / 2);
        let mut item = by.access.item(id, places);
        let mut edit = Edit::new(by.access.keys(), id, &mut item);
        edit.when(
            Of::Owner,
            by.access.reader.fences.revision(self.claim.fence),
        );
        edit.when(Of::TaskState, held.state_revision);
        if ends {
            edit.when_no_command_since(held.queue_revision);
        }
        let hold = match rules::history::ends_claim(self.write) {
            true => Hold::default(),
            false => Hold::of(&held.node),
        };
        edit.put_state(state, &hold)?;
        edit.put_history(state.version, &what, now)?;
        edit.settle(&held.queue, &write.outcomes, ends.then(|| state.code()))?;
        if ends {
            let envelope = Envelope::new(&held.task, held.submitted_at, 0);
            let props = held.task.props.clone();
            let envelope = envelope.ended(held.order, props, state.code(), state.since);
            // Those that are known are all there are: the slot and the queue were compared.
            let room = by.access.pipeline.capacity.operations().saturating_sub(OWN) / 2;
            edit.end(&held.queue, room, &envelope)?;
        } else if write.drop_claim {
            edit.delete(Of::Owner);
            edit.put_parked(state)?;
        }
        if !ends && state.data_version != held.data_version {
            let envelope = Envelope::new(&held.task, held.submitted_at, 0);
            edit.put_envelope(Of::Task, &envelope.live(held.order, state))?;
        }
        if effects > 0 {
            let effects = Effects {
                reader: &by.access.reader,
                max_bytes: by.max_bytes,
                owner: id,
                ends,
                now,
            };
            let place = item.place + lines;
            Box::pin(effects.add(&mut item, &write.effects, place)).await?;
        }
        Ok(item)
    }

    /// Rejects some of very many commands that wait for a task which is about to end.
    fn reject_some(&mut self, held: Box<Held>) -> Result<Item, Error> {
        let (by, write, id) = (self.by, self.write, &self.claim.task);
        let settles = |stored: &&Stored| write.outcomes.iter().all(|(o, _)| *o != stored.order);
        let at_once = by.access.pipeline.capacity.settled_at_once();
        let some = held.queue.iter().filter(settles).take(at_once);
        let mut item = Item::of(id);
        let mut edit = Edit::new(by.access.keys(), id, &mut item);
        edit.when(
            Of::Owner,
            by.access.reader.fences.revision(self.claim.fence),
        );
        edit.when(Of::TaskState, held.state_revision);
        let mut gone = Vec::new();
        for stored in some {
            edit.put_outcome(stored, rules::command::ended(write.state.code()))?;
            edit.dequeue(stored);
            gone.push(stored.order);
        }
        self.sent = Sent::Rejections(gone, held);
        Ok(item)
    }
}

/// What is known of a claim after reading its task.
fn held_of(claim: &Claim, found: Snapshot) -> Option<Held> {
    let owner = found.owner.as_ref()?;
    let task = found.whole_task(&claim.task).ok()?;
    let (envelope, order) = found.envelope().ok()?;
    Some(Held {
        lease: claim.lease,
        token: owner.lease(),
        node: parse::<Owner>(owner).ok()?.node,
        fence: claim.fence,
        state_revision: found.revision_of(Of::TaskState),
        task: Arc::new(task),
        order,
        submitted_at: envelope.submitted_at(),
        data_version: envelope.data_version,
        queue_revision: found.revision,
        queue: found.queue,
    })
}
