//! Claiming: chooses the tasks and their number, and handles the answers.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use windlass_statemachine::{
    Machine, TaskId, TaskState,
    machine::{Input, StopReason, Write},
};

use super::{
    Engine,
    claiming::PendingClaim,
    deferral::Load,
    mode::Mode,
    reported::Reported,
    slot::{Asks, Slot},
    timers,
};
use crate::{
    balancer::Requirements,
    runner::{due::Moment, input::ClaimAnswers, kinds::KindEntry},
    store::{Claim, Claimed, Commit, Error, Lease, TaskView},
    telemetry::{self, Moved},
};

/// The most tasks of one claim call.
const CLAIM_BATCH: usize = 512;
/// How long a task is deferred after its claim was released because the task is not for this node.
const NOT_FOR_THIS_NODE: Duration = Duration::from_secs(30);

/// Returns the moment of the next deadline of a task, if it is in the future: the task then counts as
/// commanded.
fn deadline_after(view: &TaskView, now: Moment) -> Option<Instant> {
    let left = view.deadline?.duration_since(now.clock);
    let left = Duration::try_from(left).ok().filter(|left| !left.is_zero());
    now.at.checked_add(left?)
}

impl Engine {
    /// Claims the tasks that are due and for which there is room.
    pub(super) fn claim_pass(&mut self) {
        let now = self.moment();
        self.due.advance(now);
        self.deferral.forget_past(now.at);
        if self.mode.current() == Mode::Stopping || !self.watch.is_listed() {
            return;
        }
        let Some(lease) = self.lease.clone() else {
            return;
        };
        while self.claiming.has_room(now.at) {
            let views = match self.mode.current() {
                Mode::Normal => self.next_claims(now),
                _ => self.repeated_claims(now),
            };
            if views.is_empty() {
                return;
            }
            self.send_claims(&lease, views);
        }
    }

    /// Takes the tasks of the next claim call out of the due index.
    fn next_claims(&mut self, now: Moment) -> Vec<TaskView> {
        let mut views: Vec<TaskView> = Vec::new();
        while views.len() < CLAIM_BATCH {
            let (capacity, faults) = (&self.capacity, &self.node_faults);
            let taken = self.due.take(|kind, commanded| {
                (capacity.has_room(kind) && faults.may_claim(kind, now.at))
                    || (commanded && capacity.has_room_for_command())
            });
            let Some(view) = taken else { break };
            let load = self.load(now.at);
            if let Some(until) = self.deferral.deferred_until(&view, load) {
                let until = until.min(deadline_after(&view, now).unwrap_or(until));
                self.due.put_off(view, until, now);
                continue;
            }
            self.claims(&view, now.at);
            views.push(view);
        }
        views
    }

    /// Takes the tasks whose last claim has no answer out of the due index. A node that is frozen or drains claims no other
    /// ones. It may have these already, and nobody would run them.
    fn repeated_claims(&mut self, now: Moment) -> Vec<TaskView> {
        let due = &mut self.due;
        let unanswered = self.claiming.unanswered();
        let views = unanswered.filter_map(|task| due.remove(task));
        let views: Vec<TaskView> = views.take(CLAIM_BATCH).collect();
        for view in &views {
            self.claims(view, now.at);
        }
        views
    }

    /// Records that the next call claims a task.
    fn claims(&mut self, view: &TaskView, now: Instant) {
        self.due.claims(view);
        self.capacity.take(&view.kind);
        self.node_faults.claims(&view.kind, now);
        self.claiming.add(view.id.clone(), view.kind.clone());
    }

    /// Returns whether the node has released every task. A claim without an answer is repeated first.
    pub(super) fn is_drained(&self) -> bool {
        let mut unanswered = self.claiming.unanswered();
        self.is_empty() && !unanswered.any(|task| self.due.order(task).is_some())
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        Load {
            active: self.capacity.active(),
            put_off: self.due.put_off_len() as u64,
            claim_takes: self.claiming.takes(now),
            now,
            jitter: fastrand::f64(),
        }
    }

    fn send_claims(&mut self, lease: &Lease, views: Vec<TaskView>) {
        let call = self.claiming.send(Instant::now());
        let (coordinator, lease) = (self.deps.coordinator.clone(), lease.clone());
        self.outbox.claim(async move {
            let ids = views.iter().map(|v| v.id.clone()).collect();
            let answers = coordinator.claim(&lease, ids).await;
            ClaimAnswers {
                lease: lease.id,
                call,
                answers: views.into_iter().zip(answers).collect(),
            }
        });
    }

    pub(super) fn claimed(&mut self, claimed: ClaimAnswers) {
        self.claiming.answered(claimed.call, Instant::now());
        if self.has_lease(claimed.lease) {
            self.report_claims(&claimed);
        }
        for (view, answer) in claimed.answers {
            let pending = self.claiming.take(&view.id);
            if let Some(kind) = &pending.kind {
                self.capacity.release(kind);
            }
            // An answer may show that the store is gone: the node then has no lease for those after it.
            if self.has_lease(claimed.lease) {
                self.claim_answered(view, pending, answer);
            } else {
                // The lease was lost, with every claim on it.
                self.not_claimed(&view.id, pending.latest);
            }
        }
    }

    fn has_lease(&self, id: u64) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.id == id)
    }

    /// Reports that the store fails, or works again.
    fn report_claims(&mut self, claimed: &ClaimAnswers) {
        let (now, node) = (Instant::now(), &self.deps.node);
        let failed = |answer: &Result<_, Error>| answer.as_ref().is_err_and(Error::is_retryable);
        let works = claimed.answers.iter().any(|(_, answer)| !failed(answer));
        if works && let Some(time) = self.claiming.succeeded(now) {
            info!(%node, seconds = time.as_secs(), "the store accepts claims again");
        }
        if let Some((view, Err(error))) = claimed.answers.first()
            && !works
            && self.claiming.failed(now)
        {
            warn!(%node, task = %view.id, tasks = claimed.answers.len(), %error,
                "tasks could not be claimed; trying again");
        }
    }

    fn claim_answered(
        &mut self,
        view: TaskView,
        mut pending: PendingClaim,
        answer: Result<Option<Claimed>, Error>,
    ) {
        if !matches!(answer, Ok(Some(_))) {
            self.not_here(pending.take_stop_orders());
        }
        if let Err(error) = &answer {
            telemetry::store_error("claim", error);
        }
        match answer {
            Ok(Some(claimed)) => {
                let late = view.due.map(|due| self.now().duration_since(due));
                // The due time of a task that does not sleep was in the past when it was written, so
                // the clock that wrote it is ahead.
                if let Some(ahead) = late.filter(|late| late.is_negative() && !view.sleeping) {
                    self.gauges.written_ahead(ahead.unsigned_abs());
                }
                let late = claimed.ready.map(|ready| self.now().duration_since(ready));
                let late = late.and_then(|late| Duration::try_from(late).ok());
                let metrics = self.metrics.of(&claimed.task.kind);
                pending.first_start = Some(metrics.claimed(late, claimed.abandoned));
                self.begin(claimed, pending);
            }
            Ok(None) if view.sleeping && !view.commanded && pending.latest.is_none() => {
                self.still_sleeping(view);
            }
            // Usually another node has it, which the watch reports. But the clock may have been set
            // back.
            Ok(None) if view.deadline.is_some() && pending.latest.is_none() => self.put_off(view),
            // Another node has it, or it can no longer be claimed.
            Ok(None) => self.not_claimed(&view.id, pending.latest),
            Err(Error::Unavailable { reason, .. }) => {
                debug!(task = %view.id, %reason, "could not be claimed; trying again");
                self.later(view, pending);
            }
            Err(Error::Corrupt { reason, .. }) => {
                error!(task = %view.id, kind = %view.kind, %reason,
                    "its record cannot be read: it is quarantined; a retry reads it again");
                self.not_claimed(&view.id, pending.latest);
            }
            Err(Error::Fenced(_)) => {
                debug!(task = %view.id, "not claimed: the lease is gone");
            }
            Err(error @ Error::StoreGone { .. }) => self.store_gone(error),
            Err(e) => {
                error!(task = %view.id, error = %e, "could not be claimed; trying again");
                self.later(view, pending);
            }
        }
    }

    /// Keeps a sleeping task that was due and could not be claimed. Usually another node has it,
    /// which the watch reports. But if the clock was set back, the task still sleeps, and no event
    /// follows.
    fn still_sleeping(&mut self, view: TaskView) {
        let now = self.moment();
        if view.due.is_some_and(|due| due > now.clock) {
            self.due.upsert(view, now);
        } else {
            self.put_off(view);
        }
    }

    /// Retries a failed claim after a moment.
    fn later(&mut self, view: TaskView, pending: PendingClaim) {
        self.claiming.without_answer(view.id.clone());
        match pending.latest {
            None => self.put_off(view),
            Some(Reported::Gone { .. }) => self.claim_whatever_has_the_id(view),
            latest => self.not_claimed(&view.id, latest),
        }
    }

    /// Claims a task again that is gone, because the answer to its claim was lost: a later task with the
    /// id may have been claimed instead. An answer without a task ends it.
    pub(super) fn claim_whatever_has_the_id(&mut self, view: TaskView) {
        self.deferral.forget_release(&view.id);
        self.put_off(TaskView {
            deadline: None,
            sleeping: false,
            ..view
        });
    }

    /// Applies the last event about a task whose claim has failed. If the event names this node, the
    /// task was claimed, and the answer was lost.
    fn not_claimed(&mut self, task: &TaskId, latest: Option<Reported>) {
        match latest {
            Some(Reported::View(view)) if self.is_own(&view) => {
                self.claiming.without_answer(view.id.clone());
                let view = self.to_claim_again(view);
                self.put_off(view);
            }
            Some(Reported::View(view)) if view.claimed_by.is_none() => self.view(view),
            Some(Reported::Gone { .. }) => self.deferral.forget_release(task),
            Some(Reported::View(_)) | None => {}
        }
    }

    /// Defers a task for a moment. The watch may report it again before that, if it changes.
    fn put_off(&mut self, view: TaskView) {
        let now = self.moment();
        let wait = Duration::from_millis(200 + fastrand::u64(0..800));
        self.due.put_off(view, now.at + wait, now);
    }

    /// Releases a claim for which this node has no handler: stores do not compare kinds or labels
    /// in a claim, and a task may have been deleted and submitted again as another one.
    fn release_claim(&mut self, claim: Claim, order: u64, state: TaskState) {
        // The watch may still report this claim; its answer is not lost.
        let until = Instant::now() + NOT_FOR_THIS_NODE;
        self.deferral.release(&claim.task, order, until);
        let write = Write::releasing(state);
        let slot = self.slots.reserve();
        self.outbox.push(slot, Commit::new(claim, write));
    }

    fn begin(&mut self, claimed: Claimed, mut pending: PendingClaim) {
        let (task, order, fence) = (&claimed.task, claimed.order, claimed.claim.fence);
        if let Some(latest) = &pending.latest {
            if latest.ends(order, fence) {
                info!(task = %task.id, order, fence = fence.0,
                    "claimed, but it was deleted meanwhile: it is not started");
                self.not_here(pending.take_stop_orders());
                return self.not_claimed(&task.id, pending.latest);
            }
            if latest.is_before(order, fence) {
                pending.latest = None;
            }
        }
        let fits = self.deferral.fits(Requirements::new(task, &claimed.state));
        let kind = self.deps.kinds.entry(&task.kind).filter(|_| fits).cloned();
        let Some(kind) = kind else {
            info!(task = %task.id, kind = %task.kind, fence = fence.0,
                "claimed, but no longer for this node: released");
            self.not_here(pending.take_stop_orders());
            let id = task.id.clone();
            self.release_claim(claimed.claim, order, claimed.state);
            return self.claim_is_over(&id, order, pending.latest);
        };
        self.begin_here(claimed, pending, kind);
    }

    /// Gives a claimed task a slot, and feeds its machine.
    fn begin_here(&mut self, claimed: Claimed, pending: PendingClaim, kind: Arc<KindEntry>) {
        let Claimed {
            claim,
            task,
            order,
            state,
            commands,
            ready: _,
            abandoned,
            over_limit,
        } = claimed;
        let limits = self.deps.coordinator.limits();
        let park_after = self.deps.config.park_after;
        let config = kind.config.machine(&task, limits, park_after);
        debug!(task = %task.id, kind = %task.kind, node = %self.deps.node,
            fence = claim.fence.0, abandoned, "claimed");
        let has_stop_order = !pending.stop_orders.is_empty();
        self.capacity.take(&task.kind);
        let metrics = self.metrics.of(&task.kind);
        let id = self.slots.insert(Slot {
            metrics,
            moved: Moved::default(),
            machine: Machine::new(config, state, abandoned).on_node(self.deps.node.clone()),
            claim,
            task,
            order,
            kind,
            run: None,
            active: true,
            over_limit,
            timers: timers::Set::default(),
            asks: Asks::default(),
            latest: pending.latest,
            first_start: pending.first_start,
            failed: None,
            is_balanced: false,
            stop_orders: pending.stop_orders,
            claimed_at: self.now(),
            claimed: Instant::now(),
            progress_kept: None,
            log: None,
            returning: None,
        });
        let reported = pending.commands.into_iter();
        let reported = reported.filter_map(|(of, command)| (of == order).then_some(command));
        for command in commands.into_iter().chain(reported) {
            self.feed(id, Input::Command(command));
        }
        let is_missing = pending.unlisted && self.watch.claimed_unlisted(id);
        let stop = match self.mode.current() {
            Mode::Stopping => Some(StopReason::Shutdown),
            Mode::Draining => Some(StopReason::Drain),
            Mode::Normal | Mode::Frozen if has_stop_order => Some(StopReason::StopTask),
            Mode::Normal | Mode::Frozen if is_missing => Some(StopReason::Balance),
            Mode::Normal | Mode::Frozen => None,
        };
        if let Some(reason) = stop {
            self.feed(id, Input::Stop(reason));
        }
        self.feed(id, Input::Begin);
    }
}
