//! What every write that the machine asks for has to be, whatever led to it.

use jiff::SignedDuration;
use windlass_statemachine::{
    ActionKind, Command, Outcome, StateKind, TaskState, TaskStatus,
    machine::Write,
    state::{EarlierData, KEPT_DELIVERIES},
    transition::TABLE,
};

use super::world::{Handler, World};

impl World {
    pub(super) fn persist(&mut self, write: Write, log: &str) {
        assert!(self.write.is_none(), "one write at a time: {log}");
        assert!(
            !self.fenced,
            "nothing is written after the claim is lost: {log}"
        );
        assert!(self.begun, "{log}");
        let state = &write.state;
        assert_eq!(state.version, self.durable.version + 1, "{log}");
        assert_eq!(state.fence, self.durable.fence, "{log}");
        if self.refusals > 2 && write.drop_claim && write.steps.is_empty() {
            // Nothing that says more could be stored: it is released as it was.
            let as_it_was = TaskState {
                version: state.version,
                progress: state.progress.clone(),
                run: None,
                report: state.report.clone(),
                ..self.durable.clone()
            };
            assert_eq!(*state, as_it_was, "{log}");
            assert!(
                write.outcomes.is_empty() && self.handler == Handler::None,
                "{log}"
            );
            self.check_report(&write, log);
            self.write = Some(write);
            return;
        }
        self.check_report(&write, log);
        let kills = |(_, c): &(u64, Command)| *c == Command::Kill;
        let kill = self.waiting.iter().position(kills);
        // A kill that comes with a later write does not wait for the policy.
        if kill.is_none_or(|kill| kill < self.most) {
            assert_ne!(
                state.code(),
                StateKind::Fault,
                "the policy has answered: {log}"
            );
        }
        let failed = write.steps.iter().any(|step| step.to == StateKind::Fault);
        if failed && self.failed_for_good && kill.is_none() {
            assert_eq!(state.code(), StateKind::Failed, "no retry follows: {log}");
        }
        if self.durable.code().is_terminal() {
            assert_eq!(
                state.status, self.durable.status,
                "terminal is final: {log}"
            );
            assert_eq!(state.data, self.durable.data, "{log}");
        }

        let mut earlier = self.durable.earlier_data.clone();
        if state.data != self.durable.data {
            let returned = self.returned.as_ref();
            let returned = returned
                .filter(|by| self.handler == Handler::None && by.data() == state.data.as_ref());
            if let Some(message) = returned {
                assert_eq!(write.effects, *message.effects(), "with its data: {log}");
            }
            let until = state
                .earlier_data
                .last()
                .map_or(state.since, |last| last.until);
            earlier.push(EarlierData::of(self.durable.data.as_ref(), until));
        }
        assert_eq!(state.earlier_data, earlier, "{log}");

        if self.config.named_runs {
            assert_eq!(state.deliveries, self.durable.deliveries, "{log}");
        } else {
            let delivered = state.deliveries.iter().map(|delivery| delivery.order);
            let settled = write.outcomes.iter().map(|(order, _)| *order);
            let newest = settled.rev().take(KEPT_DELIVERIES);
            assert!(
                newest.eq(delivered.rev().take(write.outcomes.len())),
                "{log}"
            );
        }

        // The steps are a path in the table, from what is durable to what is written.
        let mut code = self.durable.code();
        for step in &write.steps {
            assert_eq!(step.from, code, "{log}");
            let to = TABLE[step.from as usize][step.message as usize];
            assert_eq!(to, Some(step.to), "{log}");
            code = step.to;
        }
        assert_eq!(code, state.code(), "{log}");

        // The oldest commands that wait have an outcome each, in order, that fits the steps.
        for ((order, outcome), (waits, command)) in write.outcomes.iter().zip(&self.waiting) {
            assert_eq!(order, waits, "in order: {log}");
            let step = write.steps.iter().find(|s| s.command == Some(*order));
            match outcome {
                Outcome::Applied { from, to } => {
                    let step = step.unwrap();
                    assert_eq!((&step.from, &step.to), (from, to), "{log}");
                    assert_eq!(step.message, command.kind(), "{log}");
                }
                Outcome::Overridden { by } => {
                    assert!(step.is_none(), "{log}");
                    assert!(write.steps.iter().any(|s| s.message == *by), "{log}");
                    assert_ne!(*by, command.kind(), "{log}");
                }
                Outcome::Rejected { reason } => {
                    assert!(step.is_none() && !reason.is_empty(), "{log}");
                }
                Outcome::Answered { .. } | Outcome::Unanswered => {
                    panic!("no signal was sent: {log}")
                }
            }
        }
        assert!(write.outcomes.len() <= self.waiting.len(), "{log}");
        let of_commands = write.steps.iter().filter(|s| s.command.is_some()).count();
        let applied = write
            .outcomes
            .iter()
            .filter(|(_, o)| o.is_applied())
            .count();
        assert_eq!(of_commands, applied, "{log}");
        match (write.outcomes.last(), &state.last_command) {
            (Some((order, outcome)), Some(last)) => {
                assert_eq!((order, outcome), (&last.order, &last.outcome), "{log}");
            }
            (Some(_), None) => panic!("the last command is not in the state: {log}"),
            (None, last) => assert_eq!(last, &self.durable.last_command, "{log}"),
        }

        if self.handler == Handler::None {
            assert_eq!(
                write.outcomes.len(),
                self.waiting.len().min(self.most),
                "as many are settled as a write takes: {log}"
            );
            self.check_kill(&write, log);
        } else {
            // Beside a handler that runs only commands that do not stop it are settled.
            assert_eq!(state.code(), StateKind::Runnable, "{log}");
            let harmless = |k: ActionKind| matches!(k, ActionKind::Run | ActionKind::Checkpoint);
            assert!(write.steps.iter().all(|s| harmless(s.message)), "{log}");
            assert!(!write.drop_claim, "{log}");
        }

        if self.config.claim_per_attempt && self.handler == Handler::None {
            let ends = |to| {
                matches!(
                    to,
                    StateKind::Fault | StateKind::Sleeping | StateKind::Paused
                )
            };
            self.attempted |= write.steps.iter().any(|step| ends(step.to));
        }
        // The claim is kept for what runs on here and for short sleeps, for nothing else.
        let released = write.steps.iter().any(|s| s.message == ActionKind::Release);
        let more = write.outcomes.len() < self.waiting.len();
        let keeps = match state.status {
            _ if more && self.handler == Handler::None => !state.code().is_terminal(),
            TaskStatus::Runnable => !self.attempted,
            TaskStatus::Sleeping { .. } if self.config.claim_per_attempt => false,
            TaskStatus::Sleeping { until } => until <= self.now + SignedDuration::from_secs(10),
            _ => false,
        };
        assert_eq!(write.drop_claim, released || !keeps, "{log}");
        self.write = Some(write);
    }

    /// A kill that waits when the handler's return is written ends in killed; only a command that
    /// was sent before it, or the end of the task before that, can be in its way.
    fn check_kill(&self, write: &Write, log: &str) {
        let kills = |(_, c): &(u64, Command)| *c == Command::Kill;
        let Some(kill) = self.waiting.iter().position(kills) else {
            return;
        };
        if kill >= self.most {
            return;
        }
        let completed_before =
            self.waiting[..kill]
                .iter()
                .zip(&write.outcomes)
                .any(|((_, command), (_, outcome))| {
                    matches!(command, Command::Complete { .. }) && outcome.is_applied()
                });
        if self.durable.code().is_terminal() {
            assert_eq!(write.state.code(), self.durable.code(), "{log}");
        } else if completed_before {
            assert_eq!(write.state.code(), StateKind::Completed, "{log}");
        } else {
            assert_eq!(write.state.code(), StateKind::Killed, "{log}");
        }
    }
}
