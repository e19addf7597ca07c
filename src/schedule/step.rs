//! [`Planner`]: decides what a schedule does at a moment, and returns it as data.

use jiff::Timestamp;
use windlass_statemachine::{
    Command, CommandId, Invalid, Task, TaskId, message::SendCommand, waits::Waits,
};

use super::{
    budget::{Budget, bytes_of},
    data::{Data, FOLLOWED, RefusedTime},
    due::Due,
    hash::hash,
    left_out::{LeftOut, Why},
    overlap::Overlap,
    run::{By, run_id},
    times::Times,
};

/// Until when a schedule sleeps that has no time to come and waits for a start of a machine: 9999-12-30T22:00:00Z, the
/// last time that a task may have.
const NO_TIME: Timestamp = Timestamp::constant(253_402_207_200, 0);

/// The state of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Live { is_paused: bool },
    Ended,
    Failed,
}

/// The due times whose run has the id of an existing task.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The task is the run: an operator requested it before the schedule decided the time, or the clock was set back.
    /// It is counted already.
    pub(crate) runs: Vec<Timestamp>,
    /// The task is not a run of the schedule.
    pub(crate) refused: Vec<RefusedTime>,
}

/// What the schedule does after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Sleep until this time, when the next run is due.
    Sleep(Timestamp),
    /// Take another step: more is due now than this write does.
    Again,
    /// Pause until an operator has looked at the schedule.
    Pause,
    /// Complete: there are no more times.
    End,
}

/// What one write does: all of it, or nothing.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) submit: Vec<Task>,
    pub(crate) send: Vec<SendCommand>,
    pub(crate) data: Data,
    pub(crate) next: Next,
    /// The remaining capacity of the write.
    pub(crate) room: Budget,
}

/// A schedule at a moment, before its next write.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    times: &'a Times,
    data: Data,
    now: Timestamp,
    due: Due,
    taken: Taken,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(times: &'a Times, data: Data, now: Timestamp) -> Self {
        let cursor = data.cursor(times.spec(), now);
        let mut data = data;
        let runs = std::mem::take(&mut data.runs);
        data.follow(runs);
        data.last = Some(cursor.last);
        data.local = cursor.local;
        let due = Due::new(times, cursor, (now, data.missed_to));
        Self {
            times,
            data,
            now,
            due,
            taken: Taken::default(),
        }
    }

    /// Returns the times that may submit a run.
    pub(crate) fn wanted(&self) -> Vec<Timestamp> {
        let due = self.due.run.iter().map(|(nominal, _)| *nominal);
        let due = due.chain(self.data.boots.iter().copied());
        due.filter(|at| !self.data.skip.contains(at)).collect()
    }

    /// Adds the times whose run exists or cannot be submitted.
    pub(crate) fn with_taken(self, taken: Taken) -> Self {
        Self { taken, ..self }
    }

    /// Returns the earlier runs whose state matters.
    pub(crate) fn followed(&self) -> &[Timestamp] {
        let spec = self.times.spec();
        let is_idle = self.due.run.is_empty() && self.data.boots.is_empty();
        match is_idle || !follows(spec.overlap, spec.pause_on_failure) {
            true => &[],
            false => &self.data.runs,
        }
    }

    /// Returns what to do, given the state of each followed run. What does not fit into the room of one write is left
    /// for the next.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the template yields no valid run, which a checked schedule excludes.
    pub(crate) fn step(self, states: &[RunState], room: Budget) -> Result<Step, Invalid> {
        let followed = self.followed().to_vec();
        let Self {
            times,
            mut data,
            now,
            due,
            taken,
        } = self;
        let runs = followed.into_iter().zip(states);
        let spec = times.spec();
        if !due.run.is_empty() || !data.boots.is_empty() {
            data.runs.clear();
        }
        let (mut live, mut failed) = (Vec::new(), None);
        for (nominal, state) in runs {
            match state {
                RunState::Live { is_paused } => live.push((nominal, *is_paused)),
                RunState::Failed if spec.pause_on_failure => {
                    // Without the error: who may see the schedule may not see all that its runs say.
                    failed = Some(format!("run '{}' failed", run_id(times.id(), nominal)?));
                }
                RunState::Failed | RunState::Ended => {}
            }
        }
        let mut step = Step {
            submit: Vec::new(),
            send: Vec::new(),
            next: Next::Again,
            data,
            room,
        };
        if failed.is_some() {
            step.data.runs = live.iter().map(|(nominal, _)| *nominal).collect();
            step.data.note = failed;
            step.next = Next::Pause;
            return Ok(step);
        }
        step.data.note = None;
        let (last, is_whole) = step.take_all(times, &mut live, (&due, &taken))?;
        let is_whole = is_whole && step.take_boots(times, &mut live, &taken)?;
        if !live.is_empty() {
            step.data
                .follow(live.into_iter().map(|(nominal, _)| nominal));
        }
        if let Some(last) = last {
            step.data.pass(last, times);
            step.data.skip.retain(|skipped| *skipped > last);
        }
        step.next = match !is_whole || due.more && !step.data.is_complete(spec) {
            true => Next::Again,
            false => next(times, &step.data, now),
        };
        if step.next != Next::Again {
            step.data.missed_to = None;
        }
        Ok(step)
    }
}

/// Returns what the schedule does next.
pub(crate) fn next(times: &Times, data: &Data, now: Timestamp) -> Next {
    match times.next(data.cursor(times.spec(), now)) {
        _ if data.is_complete(times.spec()) => Next::End,
        Some(nominal) => Next::Sleep(times.due(nominal)),
        None if times.awaits_boot(now) => Next::Sleep(NO_TIME),
        None => Next::End,
    }
}

/// Returns whether the decision depends on the state of earlier runs.
fn follows(overlap: Overlap, pause_on_failure: bool) -> bool {
    pause_on_failure || overlap != Overlap::Allow(u32::MAX)
}

impl Step {
    /// Decides the due times, oldest first. Returns the last decided time, and whether this write does everything for
    /// them.
    fn take_all(
        &mut self,
        times: &Times,
        live: &mut Vec<(Timestamp, bool)>,
        (due, taken): (&Due, &Taken),
    ) -> Result<(Option<Timestamp>, bool), Invalid> {
        let mut decided = due.missed.as_ref().map(|missed| missed.last);
        if let Some(missed) = &due.missed {
            self.data.leave_out(missed.clone());
        }
        let is_skipped = |data: &Data, nominal| data.skip.contains(&nominal);
        // Each run but the last would be stopped as soon as it is submitted.
        let replaced = match times.spec().overlap {
            Overlap::Cancel | Overlap::Kill => due
                .run
                .iter()
                .rposition(|(nominal, _)| !is_skipped(&self.data, *nominal)),
            _ => None,
        };
        for (at, (nominal, late)) in due.run.iter().copied().enumerate() {
            if self.data.is_complete(times.spec()) {
                // The times after the last run of a `count` are not decided.
                return Ok((decided, true));
            }
            let mut refused = taken.refused.iter();
            if is_skipped(&self.data, nominal) {
                self.data.leave_out(LeftOut::one(nominal, Why::Skipped));
            } else if taken.runs.contains(&nominal) {
                // The run was counted when it was requested.
            } else if replaced.is_some_and(|last| at < last) {
                self.data.leave_out(LeftOut::one(nominal, Why::Overlapped));
            } else if let Some(refused) = refused.find(|refused| refused.nominal == nominal) {
                self.data.refuse(refused.clone());
            } else if !self.take(times, live, (nominal, late))? {
                return Ok((decided, false));
            }
            decided = Some(nominal);
        }
        Ok((due.last, true))
    }

    /// Decides the starts of machines. Returns whether this write decides all of them. The schedule does not move on to
    /// them: they are no times of its spec.
    fn take_boots(
        &mut self,
        times: &Times,
        live: &mut Vec<(Timestamp, bool)>,
        taken: &Taken,
    ) -> Result<bool, Invalid> {
        let boots = std::mem::take(&mut self.data.boots);
        for (at, nominal) in boots.iter().copied().enumerate() {
            if self.data.is_complete(times.spec()) || !times.at_boot() {
                return Ok(true);
            }
            let mut refused = taken.refused.iter();
            if taken.runs.contains(&nominal) {
                // It was counted then.
            } else if let Some(refused) = refused.find(|refused| refused.nominal == nominal) {
                self.data.refuse(refused.clone());
            } else if !self.take(times, live, (nominal, false))? {
                self.data.boots = boots.into_iter().skip(at).collect();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decides one due time. `live`: the earlier runs, and whether each is paused. Returns whether this write decides
    /// it.
    fn take(
        &mut self,
        times: &Times,
        live: &mut Vec<(Timestamp, bool)>,
        (nominal, late): (Timestamp, bool),
    ) -> Result<bool, Invalid> {
        let overlap = times.spec().overlap;
        let most = match overlap {
            Overlap::Skip => 1,
            Overlap::QueueOne => 2,
            Overlap::Allow(most) => most as usize,
            Overlap::QueueAll => FOLLOWED,
            Overlap::Cancel | Overlap::Kill | Overlap::Pause => usize::MAX,
        };
        if live.len() >= most {
            self.data.leave_out(LeftOut::one(nominal, Why::Overlapped));
            return Ok(true);
        }
        let mut run = times.run(nominal, late, By::Time)?;
        if !matches!(overlap, Overlap::Skip | Overlap::Allow(_) | Overlap::Pause) {
            // Waits for all of them: a run in the middle may end before earlier ones.
            wait_for(&mut run, times, live)?;
        }
        let command = match overlap {
            Overlap::Cancel => Some(Command::Complete { result: None }),
            Overlap::Kill => Some(Command::Kill),
            Overlap::Pause => Some(Command::Pause),
            _ => None,
        };
        let stops: Vec<Timestamp> = match &command {
            None => Vec::new(),
            Some(command) => {
                let sent = &self.data.stopping;
                let has_it = |paused: bool| paused && *command == Command::Pause;
                let runs = live.iter().filter(|(run, _)| !sent.contains(run));
                let runs = runs.filter(|(_, is_paused)| !has_it(*is_paused));
                runs.map(|(run, _)| *run).collect()
            }
        };
        let is_first = self.submit.is_empty() && self.send.is_empty();
        let (operations, bytes) = (1 + stops.len(), bytes_of(&run));
        let fits = match is_first {
            true => self.room.take_first(operations, bytes),
            false => self.room.take(operations, bytes),
        };
        let now = match fits {
            true => stops.as_slice(),
            // Only the commands can be too many: an extra write sends some of them.
            false if is_first => &stops[..stops.len().min(self.room.operations())],
            false => return Ok(false),
        };
        if let Some(command) = &command {
            self.stop(times, now, (nominal, command))?;
        }
        if !fits {
            self.data.stopping.extend_from_slice(now);
            return Ok(false);
        }
        self.data.stopping.clear();
        if overlap == Overlap::Pause {
            live.iter_mut().for_each(|(_, is_paused)| *is_paused = true);
        }
        self.submit.push(run);
        self.data.counts.fired += 1;
        self.data.last_run = Some(nominal);
        self.data.counts.late += u64::from(late);
        if follows(overlap, times.spec().pause_on_failure) {
            live.push((nominal, false));
        }
        Ok(true)
    }

    /// Sends a command to the earlier runs.
    fn stop(
        &mut self,
        times: &Times,
        runs: &[Timestamp],
        (nominal, command): (Timestamp, &Command),
    ) -> Result<(), Invalid> {
        for earlier in runs {
            let task: TaskId = run_id(times.id(), *earlier)?;
            let key = format!("{task} {nominal}");
            let id = CommandId::new(format!("schedule-{:016x}", hash(key.as_bytes())))?;
            let command = command.clone();
            self.send.push(SendCommand::new(task, id, command));
        }
        Ok(())
    }
}

/// Makes a run wait for the ends of earlier ones.
fn wait_for(run: &mut Task, times: &Times, earlier: &[(Timestamp, bool)]) -> Result<(), Invalid> {
    if earlier.is_empty() {
        return Ok(());
    }
    let ids: Result<Vec<TaskId>, _> = earlier
        .iter()
        .map(|(nominal, _)| run_id(times.id(), *nominal))
        .collect();
    run.waits = Some(Box::new(Waits::new("after", ids?)?));
    Ok(())
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
