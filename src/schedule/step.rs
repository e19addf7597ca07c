//! [`Turn`]: what a schedule does at a moment, as data.

use jiff::Timestamp;
use windlass_statemachine::{
    Command, CommandId, Invalid, Task, TaskId, message::SendCommand, waits::Waits,
};

use super::{
    data::{Data, RefusedTime},
    due::Due,
    hash::hash,
    left_out::{LeftOut, Why},
    run::{By, run_id},
    spec::Overlap,
    times::Times,
};

/// How many earlier runs a schedule follows at most.
pub(crate) const FOLLOWED: usize = 1_000;

/// The state of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Live { is_paused: bool },
    Ended,
    Failed { error: String },
}

/// The due times whose run has an id that a task has already.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The task is the run: an operator requested it before the schedule decided the time, or the clock was set back.
    /// It was counted then.
    pub(crate) runs: Vec<Timestamp>,
    /// The task is no run of the schedule.
    pub(crate) refused: Vec<RefusedTime>,
}

/// What follows a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next time is due then.
    Sleep(Timestamp),
    /// More times are due now.
    Again,
    /// An operator has to look at the schedule.
    Pause,
    /// There are no more times.
    End,
}

/// What one write does: all of it, or nothing.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) submit: Vec<Task>,
    pub(crate) send: Vec<SendCommand>,
    pub(crate) data: Data,
    pub(crate) next: Next,
}

/// A schedule at a moment.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    times: &'a Times,
    data: Data,
    now: Timestamp,
    due: Due,
    taken: Taken,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(times: &'a Times, data: Data, now: Timestamp) -> Self {
        let cursor = data.cursor(times.spec(), now);
        let mut data = data;
        data.last = Some(cursor.last);
        data.local = cursor.local;
        let due = Due::new(times, cursor, now);
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
        due.filter(|at| !self.data.skip.contains(at)).collect()
    }

    /// Names the times whose run is there or cannot be submitted.
    pub(crate) fn with_taken(self, taken: Taken) -> Self {
        Self { taken, ..self }
    }

    /// Returns the earlier runs whose state matters.
    pub(crate) fn followed(&self) -> &[Timestamp] {
        let spec = self.times.spec();
        match self.due.run.is_empty() || !follows(spec.overlap, spec.pause_on_failure) {
            true => &[],
            false => &self.data.runs,
        }
    }

    /// Returns what to do, given the state of each followed run.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when a run cannot be made of the template; a checked schedule has none.
    pub(crate) fn step(self, states: &[RunState]) -> Result<Step, Invalid> {
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
        if !due.run.is_empty() {
            data.runs.clear();
        }
        let (mut live, mut failed) = (Vec::new(), None);
        for (nominal, state) in runs {
            match state {
                RunState::Live { is_paused } => live.push((nominal, *is_paused)),
                RunState::Failed { error } if spec.pause_on_failure => {
                    let id = run_id(times.id(), nominal)?;
                    failed = Some(format!("run '{id}' failed: {error}"));
                }
                RunState::Failed { .. } | RunState::Ended => {}
            }
        }
        let mut step = Step {
            submit: Vec::new(),
            send: Vec::new(),
            next: Next::Again,
            data,
        };
        if failed.is_some() {
            step.data.runs = live.iter().map(|(nominal, _)| *nominal).collect();
            step.data.note = failed;
            step.next = Next::Pause;
            return Ok(step);
        }
        step.data.note = None;
        if let Some(missed) = due.missed {
            step.data.leave_out(missed);
        }
        let (skipped, mut run): (Vec<_>, Vec<_>) = due
            .run
            .into_iter()
            .partition(|(nominal, _)| step.data.skip.contains(nominal));
        for (nominal, _) in skipped {
            step.data.leave_out(LeftOut::one(nominal, Why::Skipped));
        }
        if matches!(spec.overlap, Overlap::Cancel | Overlap::Kill) {
            // Each but the last would be stopped as soon as it is submitted.
            let all_but_last = run.len().saturating_sub(1);
            let replaced = run.drain(..all_but_last);
            for (nominal, _) in replaced.filter(|(nominal, _)| !taken.runs.contains(nominal)) {
                step.data.leave_out(LeftOut::one(nominal, Why::Overlapped));
            }
        }
        let (mut last, mut decided) = (due.last, None);
        for (nominal, late) in run {
            if step.data.is_complete(times.spec()) {
                // The times after the last run are not decided.
                last = decided;
                break;
            }
            decided = Some(nominal);
            if taken.runs.contains(&nominal) {
                continue;
            }
            match taken
                .refused
                .iter()
                .find(|refused| refused.nominal == nominal)
            {
                Some(refused) => step.data.refuse(refused.clone()),
                None => step.take(times, &mut live, (nominal, late))?,
            }
        }
        if !live.is_empty() {
            live.drain(..live.len().saturating_sub(FOLLOWED));
            step.data.runs = live.into_iter().map(|(nominal, _)| nominal).collect();
        }
        if let Some(last) = last {
            step.data.pass(last, times);
            step.data.skip.retain(|skipped| *skipped > last);
        }
        step.next = match due.more && !step.data.is_complete(times.spec()) {
            true => Next::Again,
            false => next(times, &step.data, now),
        };
        Ok(step)
    }
}

/// Returns what a schedule waits for.
pub(crate) fn next(times: &Times, data: &Data, now: Timestamp) -> Next {
    match times.next(data.cursor(times.spec(), now)) {
        Some(nominal) if !data.is_complete(times.spec()) => Next::Sleep(times.due(nominal)),
        _ => Next::End,
    }
}

/// Whether the state of earlier runs decides what happens.
fn follows(overlap: Overlap, pause_on_failure: bool) -> bool {
    pause_on_failure || overlap != Overlap::Allow(u32::MAX)
}

impl Step {
    /// Takes one time that is due; `live` are the earlier runs, and whether each is paused.
    fn take(
        &mut self,
        times: &Times,
        live: &mut Vec<(Timestamp, bool)>,
        (nominal, late): (Timestamp, bool),
    ) -> Result<(), Invalid> {
        let most = match times.spec().overlap {
            Overlap::Skip => 1,
            Overlap::QueueOne => 2,
            Overlap::Allow(most) => most as usize,
            Overlap::QueueAll => FOLLOWED,
            Overlap::Cancel | Overlap::Kill | Overlap::Pause => usize::MAX,
        };
        if live.len() >= most {
            self.data.leave_out(LeftOut::one(nominal, Why::Overlapped));
            return Ok(());
        }
        let mut run = times.run(nominal, late, By::Time)?;
        let command = match times.spec().overlap {
            Overlap::Skip | Overlap::Allow(_) => None,
            Overlap::QueueOne | Overlap::QueueAll => {
                let last = live.len().saturating_sub(1);
                wait_for(&mut run, times, &live[last..])?;
                None
            }
            Overlap::Cancel => Some(Command::Complete { result: None }),
            Overlap::Kill => Some(Command::Kill),
            Overlap::Pause => Some(Command::Pause),
        };
        if let Some(command) = command {
            self.stop(times, live, (nominal, &command))?;
            match command {
                Command::Pause => live.iter_mut().for_each(|(_, is_paused)| *is_paused = true),
                // They stay live until they have ended.
                _ => wait_for(&mut run, times, live)?,
            }
        }
        self.submit.push(run);
        self.data.counts.fired += 1;
        self.data.last_run = Some(nominal);
        self.data.counts.late += u64::from(late);
        if follows(times.spec().overlap, times.spec().pause_on_failure) {
            live.push((nominal, false));
        }
        Ok(())
    }

    /// Sends the earlier runs a command.
    fn stop(
        &mut self,
        times: &Times,
        live: &[(Timestamp, bool)],
        (nominal, command): (Timestamp, &Command),
    ) -> Result<(), Invalid> {
        for (earlier, is_paused) in live {
            if *is_paused && *command == Command::Pause {
                continue;
            }
            let task: TaskId = run_id(times.id(), *earlier)?;
            let key = format!("{task} {nominal}");
            let id = CommandId::new(format!("schedule-{:016x}", hash(key.as_bytes())))?;
            let command = command.clone();
            self.send.push(SendCommand { task, id, command });
        }
        Ok(())
    }
}

/// Lets a run wait for the ends of earlier ones.
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
