//! What an exchange says of a run: its commands, its signals and its stop.

use super::{
    super::protocol::{Held, RunPhase, Signalled, Stop},
    RemoteTask, name,
};

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

    /// Returns the commands that the handler has not received, and the stop of the run if it is to end.
    pub(in crate::workers) fn news(&self, held: &Held) -> (Vec<Signalled>, Option<Stop>) {
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
