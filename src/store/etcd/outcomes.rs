//! Outcomes: what commands have come to, in the same write as the transition.

use std::sync::Arc;

use tracing::warn;
use windlass_statemachine::{TaskId, machine::Write};

use super::{
    Inner,
    claims::touch,
    commits::{OPERATION, Tried, reason_of},
    held::Held,
    item::Item,
    queued::Stored,
};
use crate::store::{Claim, Error, Limits, rules};

/// How many commands are settled in one write at the most.
const AT_ONCE: usize = 40;

impl Inner {
    /// How many commands are settled in one write: each is two operations, and the end of a task
    /// rejects as many again. At the end those beyond are rejected before it.
    pub(super) fn settled_at_once(&self) -> usize {
        (self.capacity.operations() / 4).clamp(1, AT_ONCE)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_outcomes: self.settled_at_once().min(self.options.limits.max_outcomes),
            ..self.options.limits
        }
    }

    /// Records outcomes, and at the end of a task rejects what else waits.
    pub(super) fn settle(
        &self,
        item: &mut Item,
        id: &TaskId,
        held: &Held,
        write: &Write,
        ends: bool,
    ) -> Result<(), Error> {
        for stored in &held.queue {
            let mut outcomes = write.outcomes.iter();
            let told = outcomes.find(|(order, _)| *order == stored.order);
            let outcome = match told {
                Some((_, outcome)) => outcome.clone(),
                None if ends => rules::command::ended(write.state.code()),
                None => continue,
            };
            let name = stored.key_name();
            item.put(
                &self.keys.outcome(id, &name),
                stored.write_outcome(outcome)?,
            );
            match (&stored.name, ends) {
                // The end deletes all parts of the task.
                (_, true) => {}
                (Some(name), _) => item.delete(&self.keys.queued(id, name)),
                (None, _) => item.delete_at(&self.keys.slot(id), stored.revision),
            }
        }
        Ok(())
    }

    /// Rejects some of very many commands that wait for a task which is about to end.
    pub(super) async fn reject_some(&self, claim: &Claim, write: &Write, held: &Held) -> Tried {
        let id = &claim.task;
        let settles = |stored: &&Stored| write.outcomes.iter().all(|(o, _)| *o != stored.order);
        let some: Vec<&Stored> = held
            .queue
            .iter()
            .filter(settles)
            .take(self.settled_at_once())
            .collect();
        let mut item = Item::new(touch(id));
        item.when_at(&self.keys.owner(id), self.fences.revision(claim.fence));
        item.when_at(&self.keys.state(id), held.state_revision);
        for stored in &some {
            let Ok(text) = stored.write_outcome(rules::command::ended(write.state.code())) else {
                continue;
            };
            item.put(&self.keys.outcome(id, &stored.key_name()), text);
            match &stored.name {
                Some(name) => item.delete(&self.keys.queued(id, name)),
                None => item.delete_at(&self.keys.slot(id), stored.revision),
            }
        }
        match self.pipeline.write(item).await {
            Ok(done) if done.written.is_some() => {
                let gone: Vec<u64> = some.iter().map(|s| s.order).collect();
                let mut held = held.clone();
                held.queue.retain(|s| !gone.contains(&s.order));
                self.claims
                    .wrote(id, claim.fence, held.state_revision, &gone);
                Tried::Again(Box::new(held))
            }
            Ok(_) => match self.look(claim, &write.state, false).await {
                Ok(Some(held)) => Tried::Again(held),
                Ok(None) => Tried::Answer(Ok(())),
                Err(error) => Tried::Answer(Err(error)),
            },
            Err(fault) => Tried::NotKnown(reason_of(fault.into_error(OPERATION))),
        }
    }

    /// Takes a command that cannot be read out of the queue, with an outcome that says so.
    pub(super) fn reject(self: &Arc<Self>, id: TaskId, stored: Stored) {
        let inner = self.clone();
        tokio::spawn(async move {
            let Err(reason) = &stored.command else { return };
            warn!(task = %id, text = %stored.text, reason, "a command cannot be read: it is rejected");
            let Ok(text) = stored.write_outcome(rules::command::unreadable(reason)) else {
                return;
            };
            let key = match &stored.name {
                Some(name) => inner.keys.queued(&id, name),
                None => inner.keys.slot(&id),
            };
            let mut item = Item::new(touch(&id));
            item.when_at(&key, stored.revision);
            item.delete(&key);
            item.put(&inner.keys.outcome(&id, &stored.key_name()), text);
            // If it is not done now, the next claim does it.
            let _ = inner.pipeline.write(item).await;
        });
    }
}
