//! Commits: one transition of one task, on behalf of its claim.

use std::{sync::Arc, time::Duration};

use windlass_statemachine::{Outcome, State, machine::Write, size::Size};

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    held::Held,
    item::Item,
    queued::Stored,
    read::{Bundle, parked_for, revision},
    records::{self, Envelope, Hold, Owner},
};
use crate::store::{Claim, Commit, Error, rules};

pub(super) const OPERATION: &str = "store a transition";
/// Up to so many commands are deleted by their names when a task ends; more by their range.
const FEW: usize = 8;
/// How many operations the end of a task has, beside two for each command.
const OWN: usize = 8;
/// How often a commit is tried when its outcome is not known.
const ROUNDS: u32 = 5;
/// How often it is tried when the task changes meanwhile, or has very many commands.
const CHANGES: usize = 1000;

/// What an attempt came to.
pub(super) enum Tried {
    Answer(Result<(), Error>),
    /// The claim stands, but something that was known of the task is not so any more.
    Again(Box<Held>),
    NotKnown(String),
}

fn is_applied(stored: &(State, Hold), claim: &Claim, state: &State) -> bool {
    let (stored, hold) = stored;
    !hold.by_claim && stored.fence == claim.fence && stored.version == state.version
}

/// Why a store was unavailable: what it was to do is said once.
pub(super) fn reason_of(error: Error) -> String {
    match error {
        Error::Unavailable { reason, .. } => reason,
        error => error.to_string(),
    }
}

impl Inner {
    pub(super) async fn commit(self: &Arc<Self>, commit: Commit) -> Result<(), Error> {
        let Commit { claim, write } = commit;
        let id = &claim.task;
        let node = self.leases.get(claim.lease);
        let forged = node.is_some_and(|n| !n.ids().contains(&(claim.token as i64)));
        let known = self.claims.get(id, claim.fence).filter(|_| !forged);
        let mut held = match known {
            Some(held) if held.lease == claim.lease => held,
            _ => match Box::pin(self.look(&claim, &write.state, forged)).await? {
                Some(held) => *held,
                None => return Ok(()),
            },
        };
        let mut reason = String::from("the task changes too often");
        let mut round = 0;
        for _ in 0..CHANGES {
            if round == ROUNDS {
                break;
            }
            let (props, limit) = (held.task.props.len(), self.options.limits.max_bytes);
            let checked = rules::size::check(Size::of(&write.state), props, limit);
            let item = match checked {
                Ok(()) => self.commit_item(&claim, &write, &held).await,
                Err(error) => Err(error),
            };
            let item = match item {
                Ok(item) => item,
                // What the write itself says is wrong is told only by the live claim.
                Err(error) => {
                    return match Box::pin(self.look(&claim, &write.state, forged)).await? {
                        Some(_) => Err(error),
                        None => Ok(()),
                    };
                }
            };
            match self.try_commit(&claim, &write, &held, item).await {
                Tried::Answer(answer) => return answer,
                Tried::Again(now) => held = *now,
                Tried::NotKnown(why) => {
                    reason = why;
                    tokio::time::sleep(Duration::from_millis(50 << round)).await;
                    round += 1;
                }
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    /// Reads how a claim stands: `None` when the write was applied before.
    pub(super) async fn look(
        &self,
        claim: &Claim,
        state: &State,
        forged: bool,
    ) -> Result<Option<Box<Held>>, Error> {
        let id = &claim.task;
        let read = self.read(id).await;
        let bundle = read.map_err(|fault| fault.into_error(OPERATION))?;
        if !forged
            && bundle
                .state()
                .is_ok_and(|s| bundle.exists() && is_applied(&s, claim, state))
        {
            return Ok(None);
        }
        match (&bundle.owner, forged) {
            (Some(owner), false) if owner.mod_revision() == self.fences.revision(claim.fence) => {}
            _ => {
                self.gone(claim);
                return Err(Error::fenced(id));
            }
        }
        let held = held_of(claim, bundle).ok_or_else(|| Error::fenced(id))?;
        Ok(Some(Box::new(held)))
    }

    fn gone(&self, claim: &Claim) {
        if let Some(held) = self.claims.forget(&claim.task, claim.fence) {
            self.leases.freed(held.lease, held.token);
        }
    }

    async fn commit_item(
        self: &Arc<Self>,
        claim: &Claim,
        write: &Write,
        held: &Held,
    ) -> Result<Item, Error> {
        let (id, state, now) = (&claim.task, &write.state, self.now());
        let ends = state.code().is_terminal();
        let drops = rules::history::ends_claim(write);
        let what = rules::history::lines(claim.fence, write);
        let effects = write.effects.submit.len() + write.effects.send.len();
        let lines = what.len() as u32;
        let places = lines + u32::try_from(effects).unwrap_or(u32::MAX / 2);
        let mut item = Item::new(touch(id)).at(self.pipeline.places(places), places);

        let keys = &self.keys;
        let (owner, slot) = (keys.owner(id), keys.slot(id));
        item.when_at(&owner, self.fences.revision(claim.fence));
        item.when_at(&keys.state(id), held.state_revision);
        if ends {
            item.when_not_after(&slot, &format!("{slot}0"), held.queue_revision);
        }
        let hold = if drops {
            Hold::default()
        } else {
            Hold::of(&held.node)
        };
        item.put(&keys.state(id), records::write_state(state, &hold)?);
        self.put_history(&mut item, id, state.version, now, &what)?;
        self.settle(&mut item, id, held, write, ends)?;
        if ends {
            let ended_at = Some(state.since);
            let envelope = Envelope {
                order: Some(held.order),
                props: Some(held.task.props.clone()).filter(|props| !props.is_null()),
                state: Some(state.code()),
                ended_at,
                ..Envelope::new(&held.task, held.submitted_at, 0)
            };
            item.delete(&keys.task(id));
            item.delete(&owner);
            item.delete(&keys.props(id));
            // Those that are known are all there are: the slot and the queue were compared.
            let room = self.capacity.operations().saturating_sub(OWN) / 2;
            if held.queue.len() > FEW.min(room) {
                if held.queue.iter().any(|stored| stored.name.is_none()) {
                    item.delete(&slot);
                }
                item.delete_all(&keys.queue(id));
            } else {
                for stored in &held.queue {
                    let name = stored.name.as_deref();
                    item.delete(&name.map_or_else(|| slot.clone(), |name| keys.queued(id, name)));
                }
            }
            item.put(&keys.finished(id), records::write("task", &envelope)?);
        } else if drops {
            item.delete(&owner);
            if let Some(parked) = parked_for(state) {
                item.put(&keys.parked(id), records::write("parked", &parked)?);
            }
        }
        if effects > 0 {
            let place = item.place + lines;
            let effects = &write.effects;
            Box::pin(self.add_effects(&mut item, effects, place, (id, ends), now)).await?;
        }
        Ok(item)
    }

    async fn try_commit(
        self: &Arc<Self>,
        claim: &Claim,
        write: &Write,
        held: &Held,
        item: Item,
    ) -> Tried {
        let unknown = |(order, _): &&(u64, Outcome)| held.queue.iter().all(|s| s.order != *order);
        let waits = held.queue.len().saturating_sub(write.outcomes.len());
        if write.state.code().is_terminal() && waits > self.settled_at_once() {
            return Box::pin(self.reject_some(claim, write, held)).await;
        }
        if write.outcomes.iter().any(|o| unknown(&o)) {
            // A command came since the claim, and no watch has told of it here. One that is still
            // not there after reading was settled or deleted by others.
            match Box::pin(self.look(claim, &write.state, false)).await {
                Ok(Some(now)) if now.queue.iter().any(|s| is_news(s, held)) => {
                    self.claims.keep(&claim.task, (*now).clone());
                    return Tried::Again(now);
                }
                Ok(Some(_)) => {}
                Ok(None) => return Tried::Answer(Ok(())),
                Err(error) if error.is_retryable() => return Tried::NotKnown(reason_of(error)),
                Err(error) => return Tried::Answer(Err(error)),
            }
        }
        self.write_commit(claim, write, item).await
    }

    async fn write_commit(&self, claim: &Claim, write: &Write, item: Item) -> Tried {
        let id = &claim.task;
        let done = match self.pipeline.write(item).await {
            Ok(done) => done,
            Err(Fault::Refused(error) | Fault::OverLimit(_, error)) => {
                return Tried::Answer(Err(error));
            }
            Err(fault) => return Tried::NotKnown(reason_of(fault.into_error(OPERATION))),
        };
        if let Some(at) = done.written {
            if rules::history::ends_claim(write) {
                self.gone(claim);
            } else {
                let settled: Vec<u64> = write.outcomes.iter().map(|(order, _)| *order).collect();
                self.claims.wrote(id, claim.fence, at, &settled);
            }
            return Tried::Answer(Ok(()));
        }
        Box::pin(self.refused(claim, write)).await
    }

    /// Why the comparisons failed. It is read then: what every write asks for in case that it
    /// fails, the servers take in and keep in their log with each that does not.
    async fn refused(&self, claim: &Claim, write: &Write) -> Tried {
        match Box::pin(self.look(claim, &write.state, false)).await {
            Ok(Some(held)) => {
                self.claims.keep(&claim.task, (*held).clone());
                Tried::Again(held)
            }
            Ok(None) => {
                if rules::history::ends_claim(write) {
                    self.gone(claim);
                }
                Tried::Answer(Ok(()))
            }
            Err(error) if error.is_retryable() => Tried::NotKnown(reason_of(error)),
            Err(error) => Tried::Answer(Err(error)),
        }
    }
}

fn is_news(stored: &Stored, held: &Held) -> bool {
    held.queue.iter().all(|known| known.order != stored.order)
}

/// What is known of a claim after reading its task.
fn held_of(claim: &Claim, bundle: Bundle) -> Option<Held> {
    let owner = bundle.owner.as_ref()?;
    let task = bundle.whole_task(&claim.task).ok()?;
    let (envelope, order) = bundle.envelope().ok()?;
    Some(Held {
        lease: claim.lease,
        token: owner.lease(),
        node: records::parse::<Owner>(owner).ok()?.node,
        fence: claim.fence,
        state_revision: revision(bundle.state.as_ref()),
        task: Arc::new(task),
        order,
        submitted_at: envelope.submitted_at(),
        queue_revision: bundle.revision,
        queue: bundle.queue,
    })
}
