//! Commits: one transition of one task, under its claim.

use std::sync::Arc;

use windlass_statemachine::{Author, machine::Write, size::Size};

use super::{
    claims::{Claims, Held},
    effects::{CausingTransition, Effects, Leftovers},
    log_lines::LogWriter,
};
use crate::store::{
    Claim, Commit, Error, Logged, Transaction,
    etcd::{
        read::Access,
        schema::{Hold, Owner, Recent, Snapshot, Stored, TaskKey, json::parse},
        write::{Edit, Item, Step, Tries, Wrote, log_lines::KnownLog},
    },
    rules::{
        self,
        commit::{Decision, Place, Stored as Written},
        log_lines::LogHead,
    },
};

const OPERATION: &str = "store a transition";
/// A task may change during a commit, and may have thousands of commands.
const TRIES: usize = 1000;
/// How many operations the end of a task has, in addition to two for each command.
const OWN: usize = 10;
/// How many operations the lines of a commit are at most.
const LOG: usize = 8;

/// Writes the transitions of claimed tasks.
pub(crate) struct Committer {
    pub(crate) access: Access,
    pub(crate) claims: Arc<Claims>,
    pub(crate) effects: Effects,
    pub(crate) log: LogWriter,
}

impl Committer {
    pub(crate) async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let Commit { claim, write, log } = &commit;
        let node = self.claims.node(claim.lease);
        let forged = node.is_some_and(|n| !n.ids().contains(&(claim.token as i64)));
        let known = self.claims.get(&claim.task, claim.fence);
        let known = known.filter(|held| !forged && held.lease == claim.lease);
        let has_effects = !write.effects.is_empty();
        let log = match log {
            Some(lines) => Some(Box::pin(self.log.before_commit(claim, lines)).await?),
            None => None,
        };
        let transition = Transition {
            by: self,
            claim,
            write,
            effects: has_effects.then(|| {
                let by = Author::task(&claim.task);
                Transaction::from(write.effects.clone()).by(by)
            }),
            forged,
            log,
        };
        let written = transition.carry_out(known.map(Box::new)).await?;
        transition.keep(written);
        Ok(())
    }
}

/// The content of one try.
enum Part {
    /// The transition.
    Transition(After),
    /// The outcomes of these commands, before the transition.
    Rejections(Vec<u64>),
}

/// What follows a written transition.
struct After {
    /// The remains of tasks that its effects delete.
    left: Leftovers,
    /// The lines of history that the state then has.
    recent: Recent,
    /// The log of the task, if the write adds lines.
    log: Option<LogHead>,
}

struct Transition<'a> {
    by: &'a Committer,
    claim: &'a Claim,
    write: &'a Write,
    effects: Option<Transaction>,
    /// Whether the claim names a lease that its node does not have.
    forged: bool,
    /// The lines that are written with it.
    log: Option<&'a [Logged]>,
}

impl Transition<'_> {
    /// Writes the transition. Returns the revision, and the lines of history in the state; `None` when an
    /// earlier try had written it. Does not read what this process knows about the claim.
    async fn carry_out(&self, known: Option<Box<Held>>) -> Result<Option<(i64, Recent)>, Error> {
        let (id, fence, claims) = (&self.claim.task, self.claim.fence, &self.by.claims);
        let mut tries = Tries::new(&self.by.access.pipeline, OPERATION)
            .at_most(TRIES)
            .patient();
        let mut held = match known {
            Some(held) => held,
            None => match Box::pin(self.look()).await? {
                Some(held) => held,
                None => return Ok(None),
            },
        };
        loop {
            match self.next(&mut held).await {
                Ok(None) => return Ok(None),
                Ok(Some((item, part))) => match (tries.write(item).await?, part) {
                    (Wrote::At(at), Part::Transition(After { left, recent, log })) => {
                        self.by.effects.drop_left(left).await;
                        if let Some(head) = log {
                            let revision = at;
                            claims.logged(id, fence, Arc::new(KnownLog { head, revision }));
                        }
                        return Ok(Some((at, recent.written(at))));
                    }
                    (Wrote::At(_), Part::Rejections(gone)) => {
                        held.queue.retain(|s| !gone.contains(&s.order));
                        claims.settled(id, fence, &gone);
                        continue;
                    }
                    (Wrote::Nothing | Wrote::Unknown, _) => {}
                },
                Err(error) => tries.failed(error).await?,
            }
            held = match Box::pin(self.look_again(&mut tries)).await? {
                Some(held) => held,
                None => return Ok(None),
            };
            claims.keep(id, (*held).clone());
        }
    }

    /// Reads the claim after a try, as soon as the store responds.
    async fn look_again(&self, tries: &mut Tries<'_>) -> Result<Option<Box<Held>>, Error> {
        loop {
            match self.look().await {
                Err(error) => tries.failed(error).await?,
                looked => return looked,
            }
        }
    }

    /// Builds the next write; `None` when the transition was already written.
    async fn next(&self, held: &mut Box<Held>) -> Result<Option<(Item, Part)>, Error> {
        loop {
            let (write, by) = (self.write, self.by);
            let place = Place::of(write);
            if held
                .written
                .is_some_and(|written| place.decide(written) != Decision::Apply)
            {
                // An earlier write whose answer was lost may be newer than what this process knows.
                let Some(now) = Box::pin(self.look()).await? else {
                    return Ok(None);
                };
                by.claims.keep(&self.claim.task, (*now).clone());
                *held = now;
            }
            if self.log.is_some() && held.log.is_none() {
                held.log = Some(Box::pin(by.log.read(&self.claim.task)).await?);
            }
            let (size, props) = (Size::of_write(write), held.task.props.len());
            let max_bytes = by.effects.limits.max_bytes;
            let item = match rules::size::check(size, props, max_bytes) {
                Ok(()) => self.item(held).await,
                Err(error) => Err(error),
            };
            let (item, after) = match item {
                Ok(made) => made,
                // An invalid write is reported only under the live claim.
                Err(error) => {
                    let live = Box::pin(self.look()).await?;
                    return live.map_or(Ok(None), |_| Err(error));
                }
            };
            let waits = held.queue.len().saturating_sub(write.outcomes.len());
            if self.ends() && waits > by.access.capacity().settled_at_once() {
                return self.reject_some(held).map(Some);
            }
            let is_unknown = |order: &u64| held.queue.iter().all(|known| known.order != *order);
            if !write.outcomes.iter().any(|(order, _)| is_unknown(order)) {
                return Ok(Some((item, Part::Transition(after))));
            }
            // A command was sent since the claim, and no watch has delivered it here; or commands
            // were settled or deleted elsewhere, and a read does not find them either.
            let Some(now) = Box::pin(self.look()).await? else {
                return Ok(None);
            };
            if now.queue.iter().all(|stored| !is_unknown(&stored.order)) {
                return Ok(Some((item, Part::Transition(after))));
            }
            by.claims.keep(&self.claim.task, (*now).clone());
            *held = now;
        }
    }

    /// Records the changes that the transition, written at this revision, made to the claim.
    fn keep(&self, written: Option<(i64, Recent)>) {
        let (id, fence, claims) = (&self.claim.task, self.claim.fence, &self.by.claims);
        if rules::history::ends_claim(self.write) {
            claims.forget(id, fence);
        } else if let Some((at, recent)) = written {
            let settled = self.write.outcomes.iter().map(|(order, _)| *order);
            claims.wrote(id, &self.write.state, at, recent);
            claims.settled(id, fence, &settled.collect::<Vec<_>>());
            claims.wrote_data_version(id, fence, self.write.state.data_version);
        }
    }

    fn ends(&self) -> bool {
        self.write.state.code().is_terminal()
    }

    /// Reads the claim; `None` when the transition was already written.
    async fn look(&self) -> Result<Option<Box<Held>>, Error> {
        let (id, by) = (&self.claim.task, self.by);
        let found = by.access.reader.found(id, OPERATION).await?;
        let written = match found.state() {
            Ok((state, _)) if found.exists() && state.fence == self.claim.fence => {
                Some(Written::of(&state))
            }
            _ => None,
        };
        let place = Place::of(self.write);
        if !self.forged && written.is_some_and(|at| place.decide(at) == Decision::Applied) {
            return Ok(None);
        }
        let fence = by.access.reader.fences.revision(self.claim.fence);
        if self.forged || found.revision_of(TaskKey::Owner) != fence || found.owner.is_none() {
            by.claims.forget(id, self.claim.fence);
            return Err(Error::fenced(id));
        }
        if let Some(written) = written {
            place.is_applied(id, written)?;
        }
        let recent = match by.claims.get(id, self.claim.fence) {
            // Another program has overwritten the state, so the lines known to this process are used.
            Some(known) if found.state().is_err() => known.recent,
            _ => by.access.reader.recent(&found).await?.unwrap_or_default(),
        };
        let held = held_of(self.claim, found, written, recent).ok_or_else(|| Error::fenced(id))?;
        Ok(Some(Box::new(held)))
    }

    /// Returns the write of the transition, and what follows it.
    async fn item(&self, held: &Held) -> Result<(Item, After), Error> {
        let (by, write, id) = (self.by, self.write, &self.claim.task);
        let (state, now, ends) = (&write.state, by.access.now(), self.ends());
        let what = rules::history::lines(self.claim.fence, write);
        let operations = self
            .effects
            .as_ref()
            .map_or(0, |all| all.operations().len());
        let lines = what.len() as u32;
        let places = lines + u32::try_from(operations).unwrap_or(u32::MAX / 2);
        let mut item = by.access.item(id, places);
        let mut edit = Edit::new(by.access.keys(), id, &mut item);
        edit.when(
            TaskKey::Owner,
            by.access.reader.fences.revision(self.claim.fence),
        );
        edit.when(TaskKey::TaskState, held.state_revision);
        if ends {
            edit.when_no_command_since(held.queue_revision);
        }
        let hold = match rules::history::ends_claim(self.write) {
            true => Hold::default(),
            false => Hold::of(&held.node),
        };
        let step = Step {
            state,
            hold: &hold,
            what: &what,
            now,
        };
        let recent = edit.put_step(&step, &held.recent)?;
        let log = edit.put_log(held.log.as_deref(), self.claim.fence, self.log)?;
        edit.settle(&held.queue, &write.outcomes, ends.then(|| state.code()))?;
        if ends {
            let envelope = held.envelope();
            let props = held.task.props.clone();
            let envelope = envelope.ended(held.order, props, state.code(), state.since);
            // The known ones are all that exist: the slot and the queue were compared.
            let own = OWN + held.slots.len() + self.log.map_or(0, |_| LOG);
            let room = by.access.capacity().operations().saturating_sub(own) / 2;
            edit.end(&held.queue, room, held.props, &envelope, state)?;
            edit.free_slots(&held.slots);
        } else if write.drop_claim {
            edit.delete(TaskKey::Owner);
            edit.free_slots(&held.slots);
            edit.put_parked(state, held.submitted_at)?;
        }
        if !ends && state.data_version != held.data_version {
            let envelope = held.envelope();
            edit.put_envelope(TaskKey::Task, &envelope.live(held.order, state))?;
        }
        let Some(effects) = &self.effects else {
            let left = Leftovers::new();
            return Ok((item, After { left, recent, log }));
        };
        let causing = CausingTransition {
            task: id,
            ends,
            now,
            place: item.place + lines,
        };
        let (item, left) = Box::pin(by.effects.add(item, effects, &causing)).await?;
        Ok((item, After { left, recent, log }))
    }

    /// Rejects some of a large number of commands in the queue of a task that is about to end.
    fn reject_some(&self, held: &Held) -> Result<(Item, Part), Error> {
        let (by, write, id) = (self.by, self.write, &self.claim.task);
        let settles = |stored: &&Stored| write.outcomes.iter().all(|(o, _)| *o != stored.order);
        let at_once = by.access.capacity().settled_at_once();
        let some = held.queue.iter().filter(settles).take(at_once);
        let mut item = Item::of(id);
        let mut edit = Edit::new(by.access.keys(), id, &mut item);
        edit.when(
            TaskKey::Owner,
            by.access.reader.fences.revision(self.claim.fence),
        );
        edit.when(TaskKey::TaskState, held.state_revision);
        let mut gone = Vec::new();
        for stored in some {
            edit.put_outcome(stored, rules::command::ending(write.state.code()))?;
            edit.dequeue(stored);
            gone.push(stored.order);
        }
        Ok((item, Part::Rejections(gone)))
    }
}

/// Returns the claim, as it was read with its task.
pub(super) fn held_of(
    claim: &Claim,
    found: Snapshot,
    written: Option<Written>,
    recent: Recent,
) -> Option<Held> {
    let owner = found.owner.as_ref()?;
    let task = found.whole_task(&claim.task).ok()?;
    let (envelope, order) = found.envelope().ok()?;
    Some(Held {
        lease: claim.lease,
        token: owner.lease(),
        node: parse::<Owner>(owner).ok()?.node,
        fence: claim.fence,
        state_revision: found.revision_of(TaskKey::TaskState),
        written,
        recent,
        task: Arc::new(task),
        order,
        submitted_at: envelope.submitted_at(),
        submitted_by: envelope.by.clone(),
        waited_until: envelope.waited_until(),
        data_version: envelope.data_version,
        queue_revision: found.revision,
        slots: found.slots(),
        props: found.props_keys(),
        queue: found.queue,
        log: None,
    })
}
