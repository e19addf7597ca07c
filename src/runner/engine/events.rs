//! What the watch tells, and keeping the watch alive.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::{sync::Semaphore, time::sleep};
use tracing::{info, warn};
use windlass_statemachine::{
    Kind, TaskId,
    machine::{Input, StopReason},
    task::Labels,
};

use super::{Engine, Heard, In};
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
            Event::Reset => {
                self.due.clear();
                self.listed = false;
            }
            Event::Listed => {
                self.listed = true;
                info!(node = %self.parts.node, tasks = self.due.len(), "listed");
            }
            Event::Task(view) => self.view(view),
            Event::Gone(task) => self.gone(&task),
            Event::Commands(task, commands) => {
                if let Some(pending) = self.pending.get_mut(&task) {
                    pending.commands.extend(commands);
                } else if let Some(&slot) = self.by_task.get(&task) {
                    for command in commands {
                        self.feed(slot, Input::Command(command));
                    }
                }
            }
            Event::Node(command) => self.node_command(command),
            Event::Peers => self.parts.peers_changed.notify_one(),
        }
    }

    /// Whether this node has a handler for such tasks, and they have the labels that it selects.
    pub(super) fn wants(&self, kind: &Kind, labels: Option<&Labels>) -> bool {
        self.me.fits(kind, labels)
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
            ..view
        }
    }

    pub(super) fn view(&mut self, mut view: TaskView) {
        if let Some(pending) = self.pending.get_mut(&view.id) {
            pending.latest = Some(Heard::View(view));
            return;
        }
        if let Some(slot) = self
            .by_task
            .get(&view.id)
            .and_then(|id| self.slots.get_mut(id))
        {
            slot.latest = Some(Heard::View(view));
            return;
        }
        let now = self.now();
        let wanted = self.wants(&view.kind, view.labels.as_deref());
        // One that is not for this node is claimed anew as well, to be given back, unless it just was.
        let left_alone = || self.ignored.get(&view.id).is_some_and(|until| *until > now);
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
        if let Some(until) = self.ignored.get(&view.id).copied() {
            if until <= now || view.commanded {
                self.ignored.remove(&view.id);
            } else {
                view.due = view.due.map(|due| due.max(until));
            }
        }
        self.due.upsert(view, now);
    }

    fn gone(&mut self, task: &TaskId) {
        self.due.remove(task);
        self.ignored.remove(task);
        self.waited.remove(task);
        if let Some(pending) = self.pending.get_mut(task) {
            pending.latest = Some(Heard::Gone);
            return;
        }
        let Some(&id) = self.by_task.get(task) else {
            return;
        };
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.latest = Some(Heard::Gone);
        // What ends a task here is told before its own write is answered, now and then.
        if !slot.machine.is_ending() && !slot.machine.is_done() {
            info!(%task, "was deleted: its handler is stopped");
            self.feed(id, Input::Fenced(StopReason::Deleted));
        }
    }
}
