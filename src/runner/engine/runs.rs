//! The runs of handlers: their start, their signals and their end.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{debug, error};
use windlass_statemachine::{
    Action, ActionKind,
    machine::{Input, Signal},
};

use super::{
    Engine,
    mode::STUCK_AFTER,
    slot::{Returning, Run},
    timers::Wait,
};
use crate::{
    handler::{AskRunner, Attempt, RunData, Sent, Signals, Stored, TaskContext},
    runner::{
        input::{EngineInput, RunEnded, SlotId},
        spawn::{self, Ended},
    },
    telemetry::{RunOutcome, traces},
};

impl Engine {
    pub(super) fn start(&mut self, id: SlotId, attempt: u32) {
        let (now, began) = (self.now(), Instant::now());
        let number = self.slots.next_run();
        let Some(slot) = self.slots.get_mut(id) else {
            return self.waiting.clear();
        };
        // The previous message changed nothing in the store.
        if let Some(returning) = slot.returning.take() {
            returning.report();
        }
        let (signals, delivered) = Signals::new();
        let state = slot.machine.state();
        let has_progress = state.progress.is_some();
        let fence = slot.claim.fence;
        let span = traces::task_span(&slot.task, &self.deps.node, fence, attempt);
        let asks = self.deps.tx.clone();
        let asks = AskRunner(Box::new(move |sent| {
            let input = match sent {
                Sent::Ask(ask) => EngineInput::Ask(id, ask),
                Sent::Progress => EngineInput::Progress(id),
                Sent::Logged => EngineInput::Logged(id),
                Sent::Returns(stored) => EngineInput::Returns(id, stored),
            };
            asks.send(input).is_ok()
        }));
        let attempt = Attempt {
            task: slot.task.clone(),
            order: slot.order,
            number: attempt,
            fence: slot.claim.fence,
            data_version: slot.kind.config.writes_version(),
            lease_until: self.deps.until.clone(),
            shared: self.deps.kinds.shared.clone(),
            store: self.deps.store.clone(),
            span,
            clock: self.deps.clock.clone(),
            logged: slot.log.as_ref().map_or(0, |log| log.last),
        };
        let data = Arc::new(RunData::new(attempt, state, delivered, asks));
        self.waiting.drain(..).for_each(|s| signals.deliver(s));
        let done = self.deps.tx.clone();
        let abort = spawn::spawn(
            slot.kind.handler.clone(),
            TaskContext::new(data.clone()),
            move |ended| {
                let _ = done.send(EngineInput::Ended(RunEnded {
                    slot: id,
                    run: number,
                    ended,
                }));
            },
        );
        self.node_faults.starts(&slot.task.kind, began);
        slot.metrics.started();
        if let Some(first) = slot.first_start.take() {
            first.count();
        }
        let run = Run {
            number,
            abort,
            signals,
            data,
            since: now,
            began,
            stopping: None,
        };
        self.slots.begin_run(id, run);
        if has_progress {
            self.progress_changed(id);
        }
        self.group_returns.started();
    }

    /// A caller waits until the message that the handler is about to return is stored.
    pub(super) fn expect(&mut self, id: SlotId, stored: Stored) {
        if let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.run.is_some()) {
            slot.returning = Some(Returning::new(stored));
        }
    }

    pub(super) fn signal(&mut self, id: SlotId, signal: Signal) {
        if let Some(run) = self.slots.get_mut(id).and_then(|s| s.run.as_mut()) {
            run.note_stop(&signal);
            run.signals.deliver(signal);
        }
    }

    pub(super) fn abort(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        if let Some(run) = &slot.run {
            run.abort.abort();
            self.wait_until(id, Wait::Stuck, Instant::now() + STUCK_AFTER);
        }
    }

    /// Continues without an aborted handler that blocks its thread. Its further writes are fenced.
    pub(super) fn stuck(&mut self, id: SlotId) {
        let Some(run) = self.slots.end_run(id, None) else {
            return;
        };
        self.end_log(id, &run);
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        error!(task = %slot.task.id, kind = %slot.task.kind, fence = slot.claim.fence.0,
            "the handler was aborted and still blocks its thread: going on without it; \
             blocking work belongs on spawn_blocking and has to look at should_stop()");
        slot.metrics.ended(RunOutcome::Aborted, run.began.elapsed());
        run.report_stop();
        drop(run);
        self.handler_gone(id, Input::Aborted);
    }

    pub(super) fn ended(&mut self, run_ended: RunEnded) {
        let RunEnded {
            slot: id,
            run,
            ended,
        } = run_ended;
        let Some(run) = self.slots.end_run(id, Some(run)) else {
            return;
        };
        self.end_log(id, &run);
        let ended = match ended {
            Ended::Returned(message) => Ended::Returned(run.data.of_node(message)),
            Ended::Aborted => Ended::Aborted,
        };
        let (progress, took) = (run.data.progress(), run.data.received.took());
        let outcome = match &ended {
            Ended::Returned(message) if message.kind() == ActionKind::Error => RunOutcome::Failed,
            Ended::Returned(_) => RunOutcome::Returned,
            Ended::Aborted => RunOutcome::Aborted,
        };
        if let Some(slot) = self.slots.get(id) {
            slot.metrics.ended(outcome, run.began.elapsed());
        }
        run.report_stop();
        if let Ended::Returned(message) = &ended {
            if let Action::Error { error, .. } = message.action() {
                traces::failed(&run.data.span, error);
            }
            self.note_node_fault(id, &run, message);
        }
        drop(run);
        self.no_wait(id, Wait::Stuck);
        self.no_wait(id, Wait::Progress);
        if took > 0 {
            self.feed(id, Input::Took(took));
        }
        if let Some(progress) = progress {
            self.feed(id, Input::Progress(progress));
        }
        let input = match ended {
            Ended::Returned(message) => {
                if let Some(slot) = self.slots.get(id) {
                    debug!(task = %slot.task.id, returned = %message.kind(), "the handler returned");
                }
                Input::Returned(message)
            }
            Ended::Aborted => Input::Aborted,
        };
        self.handler_gone(id, input);
    }

    fn handler_gone(&mut self, id: SlotId, input: Input) {
        match self.slots.get(id) {
            Some(slot) if slot.machine.is_done() => self.remove_slot(id),
            Some(_) => self.feed(id, input),
            None => {}
        }
    }
}
