//! Which claims are starts: a claim that only carries out an operator's command is none.

use std::time::Duration;

use windlass_statemachine::{StateKind, TaskId};

use super::{Accumulator, Claim, Due, Outcome};
use crate::store::{Change, ChangeKind};

/// A command is carried out right after the claim. A claim for which nothing has followed for this long runs a handler.
const UNSURE_FOR: Duration = Duration::from_secs(2);

impl Accumulator {
    /// Notes a claim, and counts its start unless it may only carry out a command.
    pub(super) fn claimed(&mut self, id: &TaskId, claim: Claim) {
        let known = self.tasks.entry(id);
        known.is_owned = true;
        let due = known.due;
        // Before its time a task is claimed only for a command or a signal.
        let is_early = match due {
            Due::Never => true,
            Due::From(due) => due > claim.claimed,
            Due::Since(_) | Due::Asleep | Due::Unknown => false,
        };
        if std::mem::take(&mut known.is_commanded) || is_early {
            known.unsure = Some((claim, due));
            self.unsure.push_back((claim.at, id.clone()));
        } else {
            self.starts(id, claim, due);
        }
    }

    /// Decides by the next change of its task whether a claim has started a handler.
    pub(super) fn decide(&mut self, change: &Change) {
        let Some(known) = self.tasks.get_mut(&change.task) else {
            return;
        };
        if known.unsure.is_none() {
            return;
        }
        let is_start = match &change.what {
            // A command or the end of a sleep lets it run.
            ChangeKind::Moved {
                from, to, command, ..
            } if *to == StateKind::Runnable
                && (command.is_some() || *from == StateKind::Sleeping) =>
            {
                return;
            }
            ChangeKind::Moved { command, .. } => command.is_none(),
            ChangeKind::Dropped { .. } | ChangeKind::Deleted | ChangeKind::Quarantined => false,
            ChangeKind::Commanded { .. } | ChangeKind::MalformedCommand { .. } => return,
            _ => true,
        };
        if let Some((claim, due)) = known.unsure.take()
            && is_start
        {
            self.starts(&change.task, claim, due);
        }
    }

    /// Counts the claims as starts that were not decided for a while.
    pub(in crate::client::activity) fn settle(&mut self, at: Duration) {
        while let Some((reported, _)) = self.unsure.front()
            && at.saturating_sub(*reported) >= UNSURE_FOR
            && let Some((reported, id)) = self.unsure.pop_front()
        {
            let known = self.tasks.get_mut(&id);
            let unsure = known.and_then(|known| {
                let same = |(claim, _): &mut (Claim, Due)| claim.at == reported;
                known.unsure.take_if(same)
            });
            if let Some((claim, due)) = unsure {
                self.starts(&id, claim, due);
            }
        }
    }

    /// Counts a start, and how late it was.
    fn starts(&mut self, id: &TaskId, claim: Claim, due: Due) {
        let Claim { claimed, at, .. } = claim;
        self.count(at, id, Outcome::Started);
        match due {
            Due::Since(due) => self.late(at, due, claimed),
            Due::From(due) if due <= claimed => self.late(at, due, claimed),
            Due::From(_) | Due::Never => {}
            Due::Asleep | Due::Unknown => {
                self.has_backlog |= due == Due::Unknown;
                self.tasks.entry(id).claim = Some(claim);
                self.tasks.want(id, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use windlass_statemachine::{ActionKind, Fence};

    use super::*;

    /// Returns the changes of a runnable task that waits for 85 s, gets a command and is claimed for it.
    fn commanded(to: StateKind, by_command: bool) -> Result<Vec<Change>, crate::BoxError> {
        let (id, fence) = ("a".parse::<TaskId>()?, Fence(1));
        let moved = ChangeKind::Moved {
            message: ActionKind::Pause,
            from: StateKind::Runnable,
            to,
            fence,
            command: by_command.then_some(7),
        };
        let claimed = ChangeKind::Claimed {
            node: "n".parse()?,
            fence,
            abandoned: false,
        };
        let state = StateKind::Runnable;
        let all = [
            (0, ChangeKind::Submitted { state }),
            (85, ChangeKind::Commanded { command: 7 }),
            (85, claimed),
            (85, moved),
        ];
        let change = |(second, what)| {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
            Change::new(1, at, id.clone(), what)
        };
        Ok(all.into_iter().map(change).collect())
    }

    /// Returns how many starts are counted, and of how many the lateness is known.
    fn counted(accumulator: &Accumulator, at: Duration) -> (u64, u64) {
        let summary = accumulator.summary(at, Timestamp::UNIX_EPOCH);
        let window = summary.window("1m");
        window.map_or((99, 99), |of| (of.started, of.lateness.measured))
    }

    #[test]
    fn a_claim_that_only_carries_out_a_command_is_no_start() -> Result<(), crate::BoxError> {
        for to in [StateKind::Paused, StateKind::Sleeping, StateKind::Killed] {
            let mut accumulator = Accumulator::new(Timestamp::UNIX_EPOCH);
            accumulator.take(Duration::ZERO, &commanded(to, true)?);
            accumulator.settle(UNSURE_FOR);
            assert_eq!(counted(&accumulator, UNSURE_FOR), (0, 0), "{to}");
        }
        Ok(())
    }

    #[test]
    fn a_claim_after_a_command_is_a_start_when_a_handler_runs() -> Result<(), crate::BoxError> {
        // What the handler returns, or nothing for two seconds.
        let mut accumulator = Accumulator::new(Timestamp::UNIX_EPOCH);
        accumulator.take(Duration::ZERO, &commanded(StateKind::Completed, false)?);
        assert_eq!(counted(&accumulator, Duration::ZERO), (1, 1));
        let mut accumulator = Accumulator::new(Timestamp::UNIX_EPOCH);
        let runs = commanded(StateKind::Runnable, true)?;
        accumulator.take(Duration::ZERO, &runs);
        assert_eq!(counted(&accumulator, Duration::ZERO), (0, 0));
        accumulator.settle(UNSURE_FOR);
        assert_eq!(counted(&accumulator, UNSURE_FOR), (1, 1));
        Ok(())
    }
}
