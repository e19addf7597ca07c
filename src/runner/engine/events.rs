//! What the watch tells, and keeping the watch alive.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::{sync::Semaphore, time::sleep};
use tracing::{info, warn};
use windlass_statemachine::{
    Fence, TaskId,
    machine::{Input, StopReason},
};

use super::{Engine, Heard, In, SlotId, Unlisted};
use crate::store::{Error, Event, TaskView};

impl Engine {
    /// Starts the one watch of this node, after a pause.
    pub(super) fn start_watch(&mut self, pause: Duration) {
        let Some(lease) = self.lease.clone() else {
            return;
        };
        self.watch_epoch += 1;
        let epoch = self.watch_epoch;
        let coordinator = self.parts.coordinator.clone();
        let tx = self.parts.tx.clone();
        let kinds = match self.parts.default {
            Some(_) => None,
            None => Some(self.parts.kinds.keys().cloned().collect()),
        };
        // A long list waits for the engine instead of piling up before it.
        let room = Arc::new(Semaphore::new(4));
        let task = tokio::spawn(async move {
            sleep(pause).await;
            let mut events = match coordinator.watch(&lease, kinds).await {
                Ok(events) => events,
                Err(e) => {
                    let _ = tx.send(In::WatchEnded(epoch, Some(e)));
                    return;
                }
            };
            while let Some(batch) = events.next().await {
                let Ok(permit) = room.clone().acquire_owned().await else {
                    return;
                };
                if tx.send(In::Events(epoch, batch, permit)).is_err() {
                    return;
                }
            }
            let _ = tx.send(In::WatchEnded(epoch, None));
        });
        if let Some(before) = self.watch_task.replace(task.abort_handle()) {
            before.abort();
        }
    }

    pub(super) fn watch_ended(&mut self, why: Option<Error>) {
        if self.lease.is_none() {
            return;
        }
        if let Some(error @ Error::StoreGone(_)) = why {
            return self.store_gone(error);
        }
        let why = why.map_or_else(|| "the stream ended".to_owned(), |e| e.to_string());
        warn!(node = %self.parts.node, why, "the watch broke off; watching again");
        self.start_watch(Duration::from_millis(200 + fastrand::u64(0..800)));
    }

    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::Reset => self.list_begins(),
            Event::Listed => self.list_ends(),
            Event::Task(view) => self.view(view),
            Event::Gone { id, order, fence } => self.gone(&id, order, fence),
            Event::Commands {
                id,
                order,
                commands,
            } => {
                if let Some(pending) = self.pending.get_mut(&id) {
                    let commands = commands.into_iter();
                    pending.commands.extend(commands.map(|c| (order, c)));
                } else if let Some(&slot) = self.by_task.get(&id)
                    && self.slots.get(&slot).is_some_and(|s| s.order == order)
                {
                    for command in commands {
                        self.feed(slot, Input::Command(command));
                    }
                }
            }
            Event::Node(command) => self.node_command(command),
            Event::Peers => self.parts.peers_changed.notify_one(),
        }
    }

    fn list_begins(&mut self) {
        self.due.clear();
        self.listed = false;
        let slots = self.slots.keys();
        self.unlisted = slots.map(|slot| (*slot, Unlisted::Before)).collect();
        for pending in self.pending.values_mut() {
            pending.unlisted = true;
        }
    }

    /// A list names every live task: the claim of one that it does not name is over.
    fn list_ends(&mut self) {
        self.listed = true;
        info!(node = %self.parts.node, tasks = self.due.len(), "listed");
        for (id, when) in std::mem::take(&mut self.unlisted) {
            match when {
                Unlisted::Before => self.lose_slot(id),
                Unlisted::Meanwhile => self.feed(id, Input::Stop(StopReason::Balance)),
            }
        }
    }

    /// Stops the handler of a task that is gone, unless the node is storing the end itself: events
    /// come before the answer of the node's own write now and then.
    fn lose_slot(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get(&id) else {
            return;
        };
        if !slot.machine.is_ending() && !slot.machine.is_done() {
            info!(task = %slot.task.id, order = slot.order, fence = slot.claim.fence.0,
                "was deleted: its handler is stopped");
            self.feed(id, Input::Fenced(StopReason::Deleted));
        }
    }

    /// Keeps what was reported of a task for when its slot is gone; stops its handler when the claim
    /// is over.
    fn slot_heard(&mut self, id: SlotId, heard: Heard) {
        self.unlisted.remove(&id);
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let (order, fence) = (slot.order, slot.claim.fence);
        if heard.is_before(order, fence) {
            return;
        }
        let is_over = heard.ends(order, fence);
        slot.latest = Some(heard);
        if is_over {
            self.lose_slot(id);
        }
    }

    /// Whether the store has given the task to this node, under the lease that it has now.
    pub(super) fn is_own(&self, view: &TaskView) -> bool {
        view.claimed_by.is_some() && view.claimed_by == self.lease.as_ref().map(|l| l.id)
    }

    /// The view of a task that this node has and knows nothing of: it is claimed anew.
    pub(super) fn to_claim_anew(&self, view: TaskView) -> TaskView {
        TaskView {
            claimed_by: None,
            due: Some(self.now()),
            sleeping: false,
            ..view
        }
    }

    pub(super) fn view(&mut self, mut view: TaskView) {
        if let Some(pending) = self.pending.get_mut(&view.id) {
            pending.unlisted = false;
            pending.latest = Some(Heard::View(view));
            return;
        }
        if let Some(&slot) = self.by_task.get(&view.id) {
            return self.slot_heard(slot, Heard::View(view));
        }
        let now = self.moment();
        let wanted = self.me.fits((&view).into());
        // One that is not for this node is claimed anew as well, to be given back, unless it just was.
        let ignored = self.ignored.get(&view.id).copied();
        let ignored = ignored.filter(|(order, _)| *order == view.order);
        let left_alone = || ignored.is_some_and(|(_, until)| until > now.at);
        let own = self.is_own(&view) && (wanted || !left_alone());
        if own {
            // A claim of this node whose answer was lost.
            view = self.to_claim_anew(view);
        }
        if view.claimed_by.is_some() || !(wanted || own) {
            // It was left to whoever has it now; the next time it is due is another matter.
            self.waited.remove(&view.id);
            self.due.remove(&view.id);
            return;
        }
        match ignored {
            Some((_, until)) if until > now.at && !view.commanded => {
                if (view.due).is_some_and(|due| !view.sleeping || due <= now.clock) {
                    return self.due.put_off(view, until, now);
                }
            }
            _ => {
                self.ignored.remove(&view.id);
            }
        }
        self.due.upsert(view, now);
    }

    fn gone(&mut self, task: &TaskId, order: u64, fence: Option<Fence>) {
        // Another task may have taken the id since.
        if self.due.order(task).is_some_and(|known| known <= order) {
            self.due.remove(task);
            self.waited.remove(task);
        }
        if self.ignored.get(task).is_some_and(|(of, _)| *of <= order) {
            self.ignored.remove(task);
        }
        let heard = Heard::Gone { order, fence };
        if let Some(pending) = self.pending.get_mut(task) {
            pending.unlisted = false;
            pending.latest = Some(heard);
        } else if let Some(&slot) = self.by_task.get(task) {
            self.slot_heard(slot, heard);
        }
    }
}
