//! What an exchange says of a run: its commands, its signals and its stop.

use std::time::Duration;

use windlass_statemachine::machine::Env;

use super::{
    super::protocol::{Held, RunPhase, Signalled, Stop},
    BEYOND_GRACE, RemoteTask, name,
};

/// Whether the worker has received the stop of its run. Until then it does not count the grace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum StopDelivery {
    #[default]
    NotSent,
    /// The answer to this request has the stop.
    Sent(u64),
    /// The worker has reported that it stops, or has settled the request whose answer has the stop.
    Confirmed,
}

impl RemoteTask {
    /// Returns the run if something is to be said of it, and an answer to a later request than this one has carried it: such
    /// a request does not hold it, although the worker runs it.
    pub(in crate::workers) fn runs_since(&self, seq: u64) -> Option<Held> {
        if self.stop.is_none() && self.signals.is_empty() {
            return None;
        }
        let is_sent_later = match self.start {
            Some(start) => start.sent.is_some_and(|sent| sent > seq),
            None => true,
        };
        let run = self.machine.run().filter(|_| is_sent_later)?;
        Some(Held::new(self.task.id.clone(), self.claim.fence, run))
    }

    /// Notes what an exchange shows of what the worker knows of the stop of its run. From then on the grace counts.
    pub(super) fn learns(&mut self, held: Option<&Held>, settled: u64, env: Env) {
        let run = self.machine.run();
        let says =
            held.is_some_and(|held| held.phase == RunPhase::Stopping && Some(held.run) == run);
        let has_settled = matches!(self.stop_delivery, StopDelivery::Sent(sent) if sent <= settled);
        if self.stop_delivery == StopDelivery::Confirmed || !(says || has_settled) {
            return;
        }
        self.stop_delivery = StopDelivery::Confirmed;
        if let Some(at) = &mut self.grace_ends {
            *at = env.elapsed + self.grace + BEYOND_GRACE;
        }
    }

    /// Returns when the grace of the worker is over, if it has begun.
    pub(super) fn grace_ends(&self) -> Option<Duration> {
        self.grace_ends
            .filter(|_| self.stop_delivery == StopDelivery::Confirmed)
    }

    /// Returns the commands that the handler has not received, and the stop of the run if it is to end, for the answer to
    /// a request.
    pub(in crate::workers) fn news(
        &mut self,
        held: &Held,
        seq: u64,
    ) -> (Vec<Signalled>, Option<Stop>) {
        let is_over = self.over == Some(held.run) || self.machine.run() != Some(held.run);
        if is_over {
            let stop = (held.phase == RunPhase::Running).then(|| self.stopped(held, "over"));
            return (Vec::new(), stop);
        }
        if held.phase == RunPhase::Ended {
            return (Vec::new(), None);
        }
        let mut signals = self.signalled(held.run, held.took);
        signals.retain(|signal| !signal.command.aborts());
        let by_command = self.signals.iter().find(|(_, command)| command.aborts());
        let stop = match (held.phase, by_command, self.stop) {
            (RunPhase::Running, Some((order, command)), _) => Some(Stop {
                order: Some(*order),
                command: Some(command.clone()),
                ..self.stopped(held, "command")
            }),
            (RunPhase::Running, None, Some(reason)) => Some(self.stopped(held, name(reason))),
            _ => None,
        };
        if stop.is_some() && self.stop_delivery == StopDelivery::NotSent {
            self.stop_delivery = StopDelivery::Sent(seq);
        }
        (signals, stop)
    }

    fn stopped(&self, held: &Held, reason: &str) -> Stop {
        Stop {
            id: self.task.id.clone(),
            fence: self.claim.fence,
            run: held.run,
            reason: reason.to_owned(),
            order: None,
            command: None,
            grace_ms: self.grace.as_millis() as u64,
        }
    }
}
