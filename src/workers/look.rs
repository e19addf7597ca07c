//! What a worker's session does with notices: commands, the ends of tasks, orders of operators, timers; and its claims.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tracing::{debug, info};
use windlass_statemachine::{StopReason, TaskId, machine::Input};

use super::{
    error::WorkerError,
    service::Service,
    session::{Entry, Session},
    worker::{Notice, Worker},
};
use crate::store::{Claimed, Error, NodeCommand, QueuedNodeCommand, TaskView};

/// The pause after a read of the speaker that has failed.
const AGAIN: Duration = Duration::from_millis(500);

impl Session {
    /// Handles the notices of the worker.
    pub(super) async fn look(&mut self, service: &Arc<Service>, worker: &Arc<Worker>) {
        let notices = worker.take_notices();
        if !self.speaks {
            // The server that speaks for the worker reads everything.
            return;
        }
        if !notices.is_empty() && !self.still_speaks(service, worker).await {
            if self.speaks {
                // It is not known: they are looked at again.
                notices.into_iter().for_each(|notice| worker.tell(notice));
            }
            return;
        }
        let (mut commanded, mut whole) = (HashSet::new(), false);
        for notice in notices {
            match notice {
                Notice::Commands(id) => drop(commanded.insert(id)),
                Notice::Refresh => whole = true,
                Notice::Gone(id, order, fence) => {
                    let entry = self.tasks.get(&id);
                    let is_over = entry.is_some_and(|entry| {
                        entry.order() == order && fence.is_none_or(|upto| upto >= entry.fence())
                    });
                    if is_over {
                        self.gone(service, &id);
                    }
                }
                Notice::Node(command) => self.order(service, worker, command),
                Notice::Time => self.fire(service),
            }
        }
        if whole {
            self.read(service, worker, None).await;
        } else if !commanded.is_empty() {
            self.read(service, worker, Some(commanded.into_iter().collect()))
                .await;
        }
        self.settle(service, worker).await;
    }

    /// Returns whether no other server has taken the place of this one. Without a request of the worker only the server that
    /// speaks for it may end a run: another one does not know what the worker was sent.
    async fn still_speaks(&mut self, service: &Arc<Service>, worker: &Arc<Worker>) -> bool {
        match service.record(&worker.lease.node, &worker.secret).await {
            Ok(now)
                if self
                    .lease
                    .speaker
                    .as_ref()
                    .is_some_and(|own| *own != now.speaker) =>
            {
                debug!(worker = %worker.lease.node, server = %now.speaker.server, "another server speaks for a worker");
                self.forget(service);
                false
            }
            Err(WorkerError::Store(error)) => {
                debug!(worker = %worker.lease.node, %error, "could not read which server speaks for a worker");
                service.arm(worker, AGAIN);
                false
            }
            // A write for a worker that is over is refused.
            Ok(_) | Err(_) => true,
        }
    }

    fn gone(&mut self, service: &Arc<Service>, id: &TaskId) {
        match self.tasks.get(id) {
            // Its own write may have ended it: the answer follows.
            Some(Entry::Live(task)) if task.machine.is_ending() => {}
            Some(Entry::Live(_)) => self.feed(service, id, Input::Fenced(StopReason::Deleted)),
            Some(Entry::Unconfirmed(_)) => {
                if let Some(entry) = self.tasks.remove(id) {
                    service
                        .dispatcher()
                        .disowns(id, self.lease.id, service.moment());
                    self.fenced.insert((id.clone(), entry.fence()));
                }
            }
            None => {}
        }
    }

    fn fire(&mut self, service: &Arc<Service>) {
        let env = service.env();
        let mut fired = Vec::new();
        for (id, entry) in &mut self.tasks {
            if let Entry::Live(task) = entry {
                fired.extend(task.fired(env).into_iter().map(|input| (id.clone(), input)));
            }
        }
        for (id, input) in fired {
            self.feed(service, &id, input);
        }
    }

    /// Reads claims from the store: all, or those of these tasks. Feeds the commands that are new.
    async fn read(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        ids: Option<Vec<TaskId>>,
    ) {
        let is_whole = ids.is_none();
        let all = match service.coordinator.held(&self.lease, ids).await {
            Ok(all) => all,
            Err(error) => {
                debug!(worker = %worker.lease.node, %error, "could not read the claims of a worker");
                return self.forget(service);
            }
        };
        let mut named = HashSet::new();
        for claimed in all {
            named.insert(claimed.task.id.clone());
            self.found(service, worker, claimed);
        }
        if is_whole {
            let missing = self.tasks.keys().filter(|id| !named.contains(*id));
            for id in missing.cloned().collect::<Vec<_>>() {
                self.gone(service, &id);
            }
        }
    }

    fn found(&mut self, service: &Arc<Service>, worker: &Arc<Worker>, claimed: Claimed) {
        let id = claimed.task.id.clone();
        match self.tasks.get(&id) {
            Some(Entry::Live(task)) if task.claim.fence == claimed.claim.fence => {
                for command in claimed.commands {
                    self.feed(service, &id, Input::Command(command));
                }
            }
            _ => self.hold(service, worker, claimed),
        }
    }

    /// Carries out a command of an operator.
    fn order(&mut self, service: &Arc<Service>, worker: &Arc<Worker>, queued: QueuedNodeCommand) {
        let QueuedNodeCommand { id, command, .. } = queued;
        info!(worker = %worker.lease.node, ?command, "a command for a worker");
        let answer = |outcome: &str| service.acknowledge(&self.lease, id, outcome);
        match command {
            NodeCommand::Freeze => {
                let mut shared = worker.shared();
                shared.status.frozen = true;
                shared.answers.push((id, "frozen".to_owned()));
            }
            NodeCommand::Unfreeze => {
                let mut shared = worker.shared();
                (shared.status.frozen, shared.status.draining) = (false, false);
                shared.answers.push((id, "unfrozen".to_owned()));
            }
            NodeCommand::Balance => answer("balanced: 0 tasks released"),
            NodeCommand::Drain => {
                worker.shared().status.draining = true;
                self.drains.push(id);
                self.stop_all(service, StopReason::Drain);
            }
            NodeCommand::StopTask { task } if self.tasks.contains_key(&task) => {
                self.stops.entry(task.clone()).or_default().push(id);
                self.feed(service, &task, Input::Stop(StopReason::StopTask));
            }
            NodeCommand::StopTask { .. } => answer("the task is not on this node"),
        }
    }

    /// Claims tasks for the worker.
    pub(super) async fn claim(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        views: Vec<TaskView>,
    ) {
        let kinds: Vec<_> = views.iter().map(|view| view.kind.clone()).collect();
        let ids: Vec<_> = views.iter().map(|view| view.id.clone()).collect();
        let (known, mut views): (Vec<_>, Vec<_>) = views
            .into_iter()
            .partition(|view| self.tasks.contains_key(&view.id));
        if self.speaks && !views.is_empty() {
            let ids = views.iter().map(|view| view.id.clone()).collect();
            let answers = service.coordinator.claim(&self.lease, ids).await;
            let mut failed = Vec::new();
            for (view, answer) in views.drain(..).zip(answers) {
                match answer {
                    Ok(Some(claimed)) => {
                        self.won(service, worker, &view, claimed);
                    }
                    Ok(None) if view.sleeping || view.deadline.is_some() => failed.push(view),
                    // Another node has it, or it can no longer be claimed.
                    Ok(None) => {}
                    Err(Error::Corrupt { .. }) => {}
                    Err(error) => {
                        debug!(task = %view.id, %error, "could not be claimed for a worker");
                        failed.push(view);
                        if self.speaks {
                            self.lose(service, worker, &error);
                        }
                    }
                }
            }
            views = failed;
        }
        // The claim that is known here may be over, or of an earlier task with the id: an event then follows, or has come.
        views.extend(known);
        let has_later = !views.is_empty();
        {
            let mut dispatcher = service.dispatcher();
            dispatcher.put_back(views, service.moment());
            dispatcher.claims_answered(ids.iter());
        }
        if has_later {
            service.work.notify_one();
        }
        worker.shared().claimed(kinds.iter());
        self.settle(service, worker).await;
    }

    /// Gives up what this process knows of the worker: whether a claim was made is not known, or another server speaks.
    fn lose(&mut self, service: &Arc<Service>, worker: &Arc<Worker>, error: &Error) {
        if matches!(error, Error::Fenced(_)) {
            worker.shared().is_over = true;
        }
        self.forget(service);
    }

    fn won(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        view: &TaskView,
        claimed: Claimed,
    ) {
        let (kind, now) = (&claimed.task.kind, service.now());
        let first_start = service
            .metrics
            .claimed(kind, claimed.ready, now, claimed.abandoned);
        if !self.speaks {
            // The next request reads it.
            return;
        }
        let offer = worker.shared().offers.get(&claimed.task.kind).cloned();
        let fits = offer.is_some_and(|offer| offer.reads >= claimed.state.data_version);
        if !fits {
            info!(task = %view.id, worker = %worker.lease.node, "claimed, but no longer for this worker: released");
            return self.release(claimed);
        }
        let id = claimed.task.id.clone();
        self.hold(service, worker, claimed);
        self.start_machine(service, worker, &id, None, true);
        if let Some(Entry::Live(task)) = self.tasks.get_mut(&id) {
            task.counts(first_start);
        }
    }
}
