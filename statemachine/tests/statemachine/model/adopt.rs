//! What a remote worker knows of its claim, and what continues it when the process of the machine is lost.

use std::{collections::BTreeSet, time::Duration};

use windlass_statemachine::{
    Fence, Json, Machine, Message, QueuedCommand,
    machine::{End, Input, StopReason, Write},
};

use super::world::{Handler, World};

/// What a report says.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Checkpoint(Json),
    Return(Message),
    Aborted,
}

/// What the worker keeps. It sends a report again, with the same number, until the report is answered.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Every run that has started.
    started: BTreeSet<(Fence, u64)>,
    /// The run of the handler, also when it has ended and its report is not answered.
    run: Option<u64>,
    /// Whether the worker has said anything of the run.
    touched: bool,
    /// The report without an answer.
    said: Option<(u64, Said)>,
    /// Whether the store has refused a write that had the number of this report.
    pub(super) refused: bool,
    /// The number of the last report that was acknowledged as applied.
    acknowledged: u64,
    /// Whether the commands that wait are being fed again.
    pub(super) adopting: bool,
}

impl Worker {
    pub(super) fn waits(&self) -> bool {
        self.said.is_some()
    }
}

impl World {
    /// The worker reports, and the process feeds the number of the report.
    pub(super) fn report(&mut self, said: Said) {
        if !self.config.named_runs {
            return;
        }
        self.worker.touched = true;
        let n = self.durable.reported() + 1;
        self.worker.said = Some((n, said));
        assert_eq!(self.feed(Input::Numbered(n)), 0);
    }

    pub(super) fn starts(&mut self, run: u64, log: &str) {
        assert_eq!(run, self.durable.current_run(), "{log}");
        let name = (self.durable.fence, run);
        assert!(
            self.worker.started.insert(name),
            "run {run} starts twice: {log}"
        );
        self.worker.run = Some(run);
        self.worker.touched = false;
    }

    /// The outcome of a checkpoint.
    pub(super) fn answered(&mut self, stored: bool, log: &str) {
        if stored || self.fenced {
            return;
        }
        // A refused checkpoint stores no number. Its number is that of the next report.
        if let Some((n, Said::Checkpoint(_))) = self.worker.said.take() {
            assert_eq!(self.durable.reported() + 1, n, "{log}");
        }
    }

    /// Answers the report of the worker if it is durable.
    pub(super) fn acknowledge(&mut self) {
        let durable = self.durable.reported();
        assert!(durable >= self.worker.acknowledged, "{:#?}", self.log);
        if let Some((n, said)) = self.worker.said.take_if(|(n, _)| *n <= durable) {
            assert_eq!(n, durable, "{:#?}", self.log);
            (self.worker.acknowledged, self.worker.refused) = (n, false);
            if !matches!(said, Said::Checkpoint(_)) {
                self.worker.run = None;
            }
        }
    }

    /// A write stores the number of the report that it carries out, and no other.
    pub(super) fn check_report(&self, write: &Write, log: &str) {
        let (before, after) = (self.durable.reported(), write.state.reported());
        assert!(after >= before, "the number only grows: {log}");
        let goes_on = self.handler != Handler::None && self.config.named_runs;
        assert_eq!(write.state.run.is_some(), goes_on, "{log}");
        assert_eq!(
            write.state.run,
            self.machine.run().filter(|_| goes_on),
            "{log}"
        );
        let settles = self.handler == Handler::None;
        match &self.worker.said {
            Some((n, Said::Checkpoint(data))) if after > before => {
                assert_eq!(
                    (*n, write.state.data.as_ref()),
                    (after, Some(data)),
                    "{log}"
                );
                assert!(!settles, "{log}");
            }
            Some((_, Said::Checkpoint(data))) => {
                assert_ne!(write.state.data.as_ref(), Some(data), "{log}");
            }
            Some((n, said)) => {
                // It is settled by the first write after the one that was under way, and by each that replaces it.
                assert!(settles && after == *n, "{log}");
                let refused = write.state.report.as_ref().map(|r| r.refused.is_some());
                let is_return = matches!(said, Said::Return(_));
                assert_eq!(refused, Some(is_return && self.worker.refused), "{log}");
            }
            None => assert_eq!(after, before, "nothing was reported: {log}"),
        }
    }

    /// The process is lost; another one continues from what is durable and from what the worker holds.
    pub(super) fn adopt(&mut self, applied: bool, delivered: bool) {
        if !self.config.named_runs || !self.begun || self.done.is_some() {
            return;
        }
        self.log.push(format!("adopt: applied {applied}"));
        let dropped = self.write.is_some() && applied && self.applied();
        self.write = None;
        (self.wake, self.resume, self.grace) = (None, None, None);
        self.delivered.clear();
        (self.refusals, self.worker.refused) = (0, false);
        // No state says it: another process counts from its own beginning.
        self.attempted = false;
        self.tickets.clear();
        if dropped {
            return self.ended_elsewhere();
        }
        if self.worker.run.is_some() && !delivered && !self.worker.touched {
            // The start was lost with the process: the worker does not know of it.
            let run = self.worker.run.take().unwrap();
            self.worker.started.remove(&(self.durable.fence, run));
            self.handler = Handler::None;
        }
        let current = self.durable.current_run();
        let runs = self.worker.run == Some(current);
        if !runs {
            assert_eq!(self.handler, Handler::None, "{:#?}", self.log);
            self.worker.run = None;
            let is_new = self.durable.version == 3;
            let abandoned = self.abandoned && is_new;
            self.machine = Machine::new(self.config.clone(), self.durable.clone(), abandoned);
        } else {
            self.machine = Machine::adopt(self.config.clone(), self.durable.clone(), 0);
            self.handler = Handler::Runs;
        }
        self.worker.adopting = true;
        for command in self.still_waiting() {
            self.feed(Input::Command(command));
        }
        if self.stopping {
            self.stop_delivered = Some(self.elapsed);
            self.feed(Input::Stop(StopReason::Drain));
        }
        self.feed(Input::Begin);
        self.worker.adopting = false;
        if runs {
            self.send_again();
        }
    }

    /// The claim was released by the write that the lost process had sent.
    fn ended_elsewhere(&mut self) {
        self.handler = Handler::None;
        let fenced = Input::Fenced(StopReason::LeaseLost);
        let env = windlass_statemachine::machine::Env {
            now: self.now,
            elapsed: Duration::ZERO,
            jitter: 0.5,
        };
        self.machine.input(fenced, env, &mut Vec::new());
        self.done = Some(End::Dropped(self.durable.code()));
    }

    fn still_waiting(&self) -> Vec<QueuedCommand> {
        let waits = |c: &&QueuedCommand| self.waiting.iter().any(|(order, _)| *order == c.order);
        self.fed.iter().filter(waits).cloned().collect()
    }

    /// The worker sends again what was not answered.
    fn send_again(&mut self) {
        let Some((n, said)) = self.worker.said.clone() else {
            return;
        };
        assert_eq!(n, self.durable.reported() + 1, "{:#?}", self.log);
        assert_eq!(self.feed(Input::Numbered(n)), 0);
        match said {
            Said::Checkpoint(data) => {
                self.tickets.insert(self.ticket);
                let ticket = self.ticket;
                self.feed(Input::Checkpoint { ticket, data });
            }
            Said::Return(message) => {
                self.handler = Handler::None;
                self.feed(Input::Returned(message));
            }
            Said::Aborted => {
                self.handler = Handler::None;
                self.feed(Input::Aborted);
            }
        }
    }
}
