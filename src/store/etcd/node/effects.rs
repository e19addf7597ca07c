//! Effects: changes of other tasks in the same transaction as a transition.

use futures::future::try_join_all;
use jiff::Timestamp;
use windlass_statemachine::TaskId;

use crate::store::{
    Error, Limits, Operation, Transaction,
    etcd::{
        edits::{Before, Edits, Leftover, OperationInput, POINTERS},
        write::{Item, transaction},
    },
    rules::{effects, transaction::Bounds},
};

const OPERATION: &str = "apply the effects of a message";

/// Applies the effects of messages.
pub(crate) struct Effects {
    pub(crate) edits: Edits,
    pub(crate) limits: Limits,
}

/// The transition that has the effects.
pub(crate) struct CausingTransition<'a> {
    pub(crate) task: &'a TaskId,
    /// Whether it ends the task.
    pub(crate) ends: bool,
    pub(crate) now: Timestamp,
    /// The place of the first effect in the numbers of the revision.
    pub(crate) place: u32,
}

/// What remains to be deleted after the write.
pub(crate) type Leftovers = Vec<(TaskId, Leftover)>;

impl Effects {
    /// Returns the write of the transition with its effects.
    pub(crate) async fn add(
        &self,
        item: Item,
        effects: &Transaction,
        transition: &CausingTransition<'_>,
    ) -> Result<(Item, Leftovers), Error> {
        let access = self.edits.access();
        let (keys, now) = (access.keys(), transition.now);
        let most = access.capacity().transaction();
        let most = most.min(self.limits.max_operations);
        effects::check(effects, "etcd", most)?;
        let mut before = Before::read(&self.edits, effects, None, OPERATION).await?;
        if let Some(task) = before.facts.tasks.get_mut(transition.task) {
            task.has_ended = transition.ends;
        }
        let max_bytes = self.limits.max_bytes;
        let bounds = Bounds { max_bytes, now };
        let steps = effects::decide(effects, transition.task, &mut before.facts, bounds)?;
        let by = effects.author();
        let input = |id, place| OperationInput {
            id,
            now,
            place,
            by,
            pointers: POINTERS,
        };
        let ids = effects.operations().iter().map(Operation::task);
        let parts: Vec<_> = steps
            .iter()
            .zip(ids.clone())
            .zip(transition.place..)
            .map(|((step, id), place)| self.edits.operation(step, &before, input(id, place)))
            .collect();
        let parts = try_join_all(parts).await?;
        let (place, places) = (item.place, item.places);
        let guards = effects.guards().iter();
        let guards = guards.map(|guard| transaction::guard(keys, guard, before.found(&guard.task)));
        let mut items: Vec<Item> = std::iter::once(item).chain(guards).collect();
        let mut left = Leftovers::new();
        for (part, id) in parts.into_iter().zip(ids) {
            items.push(part.item);
            left.extend(part.left.map(|left| (id.clone(), left)));
        }
        let mut item = Item::union(items).at(place, places);
        // Transitions need not be written in order.
        item.in_order = false;
        item.check_room(access.capacity(), "effects")?;
        Ok((item, left))
    }

    /// Deletes what remains after the write.
    pub(crate) async fn drop_left(&self, left: Leftovers) {
        for (task, left) in left {
            self.edits.clearing.drop_pointers(&task, left).await;
        }
    }
}
