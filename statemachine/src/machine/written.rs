//! Sends writes, and handles the answers of the store.

use std::{collections::VecDeque, mem};

use super::{
    CLAIM_GONE, Effect, End, Env, Machine, Signal, StopReason, Timer, Write,
    draft::Draft,
    phase::{Answered, Cause, Pending, Phase, Settling, SideWrite},
    running::refused,
};
use crate::{Message, state::Report};

impl Machine {
    /// Sends a draft to the store. The caller keeps the returned write in the next phase.
    pub(super) fn persist(&mut self, draft: Draft, out: &mut Vec<Effect>) -> Pending {
        let mut state = draft.state;
        if self.has_run {
            state.has_started();
        }
        if self.config.named_runs {
            // When a remote worker receives a command, no server sees.
            state.deliveries.clone_from(&self.state.deliveries);
        }
        state.version = state.version.saturating_add(1);
        // The writer sets the id of each write.
        state.commit = None;
        state.run = self.run.filter(|_| self.config.named_runs);
        if let Some(report) = self.report.take() {
            state.report = Some(Box::new(report));
        }
        if state.code().is_terminal() {
            state.progress = None;
        } else if let Some(progress) = &self.progress {
            state.progress.clone_from(progress);
        }
        let known = self.state.errors.total();
        let handler = self.node.as_ref().filter(|_| self.has_run);
        state.errors.name(known, handler, self.config.data_version);
        state.errors.trim(self.kept_errors());
        out.push(Effect::Persist(Box::new(Write {
            follows: self.state.version,
            state: state.clone(),
            steps: draft.steps,
            outcomes: draft.outcomes,
            drop_claim: draft.drop_claim,
            effects: draft.effects,
        })));
        Pending {
            state,
            settles: draft.settles,
            signals: draft.signals,
        }
    }

    pub(super) fn stored(&mut self, env: Env, out: &mut Vec<Effect>) {
        match self.phase.answered() {
            None => {}
            Some(Answered::SideWrite(write)) => {
                self.side_write_stored(write, out);
                self.next_side_write(env, out);
            }
            Some(Answered::Ended(write, cause)) => {
                self.side_write_stored(write, out);
                self.settle(cause, env, out);
            }
            Some(Answered::Settling(write)) => {
                self.is_durable(write.pending);
                if write.drop_claim {
                    // The phase is already Done.
                    return out.push(Effect::Done(End::Dropped(self.state.code())));
                }
                self.go_on(env, out);
            }
        }
    }

    fn is_durable(&mut self, written: Pending) {
        self.refusals = 0;
        self.state = written.state;
    }

    fn side_write_stored(&mut self, write: SideWrite, out: &mut Vec<Effect>) {
        self.is_durable(write.pending);
        if let Some(ticket) = write.ticket {
            let result = Ok(());
            out.push(Effect::CheckpointDone { ticket, result });
        }
    }

    pub(super) fn refused(
        &mut self,
        reason: String,
        retryable: bool,
        env: Env,
        out: &mut Vec<Effect>,
    ) {
        match self.phase.answered() {
            None => {}
            Some(Answered::SideWrite(write)) => {
                let is_checkpoint = self.side_write_refused(write, reason, out);
                if !is_checkpoint && self.handler_runs() {
                    self.refusals += 1;
                    if self.refusals > 2 {
                        return self.lose(StopReason::LeaseLost, out);
                    }
                }
                self.next_side_write(env, out);
            }
            Some(Answered::Ended(write, cause)) => {
                let is_checkpoint = self.side_write_refused(write, reason, out);
                if !is_checkpoint && self.is_last_refusal(out) {
                    return;
                }
                self.settle(cause, env, out);
            }
            Some(Answered::Settling(write)) => {
                let Settling { pending, again, .. } = write;
                if pending.state.reported() > self.state.reported() {
                    // The same report is answered by what is stored instead. An abort is stored all the same.
                    let refused = matches!(again, Cause::Returned(_)).then(|| reason.clone());
                    let n = pending.state.reported();
                    self.report = Some(Report { n, refused });
                }
                self.queue_again(pending);
                if self.is_last_refusal(out) {
                    return;
                }
                let cause = match again {
                    Cause::Returned(message) => {
                        let text =
                            format!("the result of the handler could not be stored: {reason}");
                        Cause::Returned(if retryable && message.is_retryable() {
                            Message::error(text)
                        } else {
                            Message::fail(text)
                        })
                    }
                    cause => cause,
                };
                self.settle(cause, env, out);
            }
        }
    }

    /// Puts the commands of a refused write back to the front of the queue.
    fn queue_again(&mut self, refused: Pending) {
        for waiting in refused.settles.into_iter().rev() {
            self.queue.push_front(waiting);
        }
        self.signals.put_back(refused.signals);
    }

    /// Reports the refusal of a write to the checkpoint that asked for it. Returns whether there was
    /// one: then the handler decides whether to try again, and the refusal is not counted.
    fn side_write_refused(
        &mut self,
        write: SideWrite,
        reason: String,
        out: &mut Vec<Effect>,
    ) -> bool {
        self.queue_again(write.pending);
        if let Some(ticket) = write.ticket {
            out.push(refused(ticket, reason));
        }
        write.ticket.is_some()
    }

    /// Counts a refusal. After the third in a row, when not even an error without data can be stored,
    /// the task is released with its durable state, so that the claim does not outlive its machine.
    /// When the release is refused too, the claim is lost.
    fn is_last_refusal(&mut self, out: &mut Vec<Effect>) -> bool {
        self.refusals += 1;
        if self.refusals > 3 {
            self.end_lost(out);
        } else if self.refusals > 2 {
            let mut draft = Draft::new(&self.state);
            draft.drop_claim = true;
            self.store(draft, Cause::Nothing, out);
        }
        self.refusals > 2
    }

    /// Ends without a write: aborts the handler, and reports the loss to its checkpoints.
    pub(super) fn lose(&mut self, reason: StopReason, out: &mut Vec<Effect>) {
        let (write, next) = match mem::replace(&mut self.phase, Phase::Done) {
            Phase::Running(side) => {
                out.push(Effect::Signal(Signal::Stop(reason)));
                out.push(Effect::Abort);
                (side.write, side.next)
            }
            Phase::Aborting(side) => (side.write, side.next),
            Phase::Ended { write, .. } => (Some(write), VecDeque::new()),
            Phase::Idle => {
                out.push(Effect::Disarm(Timer::Wake));
                (None, VecDeque::new())
            }
            Phase::Fresh | Phase::Storing(_) | Phase::Done => (None, VecDeque::new()),
        };
        let stored = write.and_then(|write| write.ticket);
        let waits = next.iter().map(|next| next.ticket);
        for ticket in stored.into_iter().chain(waits) {
            out.push(refused(ticket, CLAIM_GONE));
        }
        self.end_lost(out);
    }

    fn end_lost(&mut self, out: &mut Vec<Effect>) {
        self.disarm_grace(out);
        self.phase = Phase::Done;
        out.push(Effect::Done(End::Lost));
    }
}
