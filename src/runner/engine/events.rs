//! Handles the events of the watch, and restarts the watch.

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};
use windlass_statemachine::{
    Fence, QueuedCommand, TaskId,
    machine::{Input, StopReason},
};

use super::{
    Engine,
    reported::Reported,
    watching::{Follow, Unlisted},
};
use crate::{
    runner::input::SlotId,
    store::{Error, Event, TaskView},
};

impl Engine {
    /// Starts the one watch of this node, after a pause.
    pub(super) fn start_watch(&mut self, pause: Duration) {
        let Some(lease) = self.lease.clone() else {
            return;
        };
        let follow = Follow {
            coordinator: self.deps.coordinator.clone(),
            lease,
            kinds: self.watched_kinds(),
            epoch: self.watch.begin(),
            to_engine: self.deps.tx.clone(),
        };
        self.watch
            .attach(tokio::spawn(follow.run(pause)).abort_handle());
    }

    pub(super) fn watch_ended(&mut self, why: Option<Error>) {
        if self.lease.is_none() {
            return;
        }
        if let Some(error @ Error::StoreGone { .. }) = why {
            return self.store_gone(error);
        }
        if matches!(why, None | Some(Error::Fenced(_))) {
            // The lease may be lost. A renewal shows that, and would otherwise only come after a third
            // of the lease.
            self.deps.wanted.send_modify(|_| {});
        }
        let why = why.map_or_else(|| "the stream ended".to_owned(), |e| e.to_string());
        warn!(node = %self.deps.node, why, "the watch broke off; watching again");
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
            } => self.commands(&id, order, commands),
            Event::Node(command) => self.node_command(command),
            Event::Peers => self.deps.peers_changed.notify_one(),
        }
    }

    /// Feeds commands to the task with this order, or keeps them until its claim is answered.
    fn commands(&mut self, task: &TaskId, order: u64, commands: Vec<QueuedCommand>) {
        if let Some(pending) = self.claiming.get_mut(task) {
            let commands = commands.into_iter();
            pending.commands.extend(commands.map(|c| (order, c)));
            return;
        }
        let Some(id) = self.slots.of(task) else {
            return;
        };
        if self.slots.get(id).is_some_and(|slot| slot.order == order) {
            for command in commands {
                self.feed(id, Input::Command(command));
            }
        }
    }

    fn list_begins(&mut self) {
        self.due.clear();
        self.watch.list_begins(self.slots.ids().into_iter());
        self.claiming.list_begins();
    }

    /// Handles the end of a list. A list names every live task, so the claim of a task that it does
    /// not name has ended.
    fn list_ends(&mut self) {
        let unnamed = self.watch.list_ends();
        info!(node = %self.deps.node, tasks = self.due.len(), "listed");
        for (id, when) in unnamed {
            match when {
                Unlisted::Before => self.lose_slot(id),
                Unlisted::Meanwhile => self.feed(id, Input::Stop(StopReason::Balance)),
            }
        }
    }

    /// Stops the handler of a task that is gone, unless the node itself is storing the end: an
    /// event may come before the answer to the node's own write.
    fn lose_slot(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        if !slot.machine.is_ending() && !slot.machine.is_done() {
            info!(task = %slot.task.id, order = slot.order, fence = slot.claim.fence.0,
                "was deleted: its handler is stopped");
            self.feed(id, Input::Fenced(StopReason::Deleted));
        }
    }

    /// Keeps the last event about a task until its slot is gone. Stops its handler when the event says
    /// that the claim has ended.
    fn slot_reported(&mut self, id: SlotId, event: Reported) {
        self.watch.names(id);
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let (order, fence) = (slot.order, slot.claim.fence);
        if event.is_before(order, fence) {
            return;
        }
        let is_over = event.ends(order, fence);
        slot.latest = Some(event);
        if is_over {
            self.lose_slot(id);
        }
    }

    /// Returns whether this node has claimed the task, under its present lease.
    pub(super) fn is_own(&self, view: &TaskView) -> bool {
        view.claimed_by.is_some() && view.claimed_by == self.lease.as_ref().map(|l| l.id)
    }

    /// Returns the view with which this node claims a task again after the answer to its claim was
    /// lost.
    pub(super) fn to_claim_again(&self, view: TaskView) -> TaskView {
        TaskView {
            claimed_by: None,
            due: Some(self.now()),
            sleeping: false,
            ..view
        }
    }

    /// Makes sure that a task is claimed again as soon as its slot is gone: the claim is live, but its
    /// machine does not match the state of the store.
    pub(super) fn claim_again(&mut self, id: SlotId) {
        let now = self.now();
        if let Some(slot) = self.slots.get_mut(id) {
            slot.latest = Some(Reported::View(TaskView {
                id: slot.task.id.clone(),
                kind: slot.task.kind.clone(),
                labels: (!slot.task.labels.is_empty()).then(|| Arc::new(slot.task.labels.clone())),
                data_version: slot.machine.state().data_version,
                priority: slot.task.priority,
                order: slot.order,
                due: Some(now),
                deadline: slot.machine.state().deadline(),
                sleeping: false,
                claimed_by: None,
                commanded: false,
                fair_key: None,
            }));
        }
    }

    /// Applies an event about a task. While the node has the task, or is claiming it, the event is
    /// kept.
    pub(super) fn view(&mut self, view: TaskView) {
        if let Some(pending) = self.claiming.get_mut(&view.id) {
            pending.report(Reported::View(view));
        } else if let Some(slot) = self.slots.of(&view.id) {
            self.slot_reported(slot, Reported::View(view));
        } else {
            self.free_view(view);
        }
    }

    /// Applies an event about a task that this node neither has nor claims.
    fn free_view(&mut self, mut view: TaskView) {
        let now = self.moment();
        let fits = self.deferral.fits((&view).into());
        let deferred = self.deferral.released_until(&view, now.at);
        // A claim of a task that is not for this node is also claimed again, to be released, unless that
        // was just done.
        let own = self.is_own(&view) && (fits || deferred.is_none());
        if own {
            // A claim of this node whose answer was lost.
            self.claiming.without_answer(view.id.clone());
            view = self.to_claim_again(view);
        }
        if view.claimed_by.is_some() || !(fits || own) {
            // Another node has the task. When it is due again, it is deferred again.
            self.deferral.forget_deferred(&view.id);
            if !self.claiming.is_unanswered(&view.id) {
                self.due.remove(&view.id);
            }
            return;
        }
        view.commanded &= !self.deferral.waits_for_room(&view, now.at);
        match deferred {
            Some(until) if !view.commanded => {
                if (view.due).is_some_and(|due| !view.sleeping || due <= now.clock) {
                    return self.due.put_off(view, until, now);
                }
            }
            _ => self.deferral.forget_release(&view.id),
        }
        self.due.upsert(view, now);
    }

    fn gone(&mut self, task: &TaskId, order: u64, fence: Option<Fence>) {
        // Another task may have taken the id in the meantime.
        if self.due.order(task).is_some_and(|known| known <= order) {
            let view = self.due.remove(task);
            self.deferral.forget_deferred(task);
            if let Some(view) = view.filter(|_| self.claiming.is_unanswered(task)) {
                self.claim_whatever_has_the_id(view);
            }
        }
        self.deferral.forget_upto(task, order);
        let gone = Reported::Gone { order, fence };
        if let Some(pending) = self.claiming.get_mut(task) {
            pending.report(gone);
        } else if let Some(slot) = self.slots.of(task) {
            self.slot_reported(slot, gone);
        }
    }
}
