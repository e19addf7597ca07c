//! Another spec for a schedule, live or ended.

use jiff::Timestamp;
use windlass_statemachine::{IfExists, Invalid, StateKind, TaskId};

use super::{
    Schedules,
    change::{Change, PAUSE, Read, TRIES, busy, skip_passed, skipping},
    data_of, name,
};
use crate::{
    schedule::{
        By,
        data::Data,
        handler::{decide, taken},
        left_out::{LeftOut, Why, join},
        spec::Schedule,
        step::{Next, next},
        times::Times,
    },
    store::{Error, TaskRecord},
};

impl Schedules {
    /// Replaces the spec of a schedule. The times of the earlier spec that have passed are decided by it,
    /// and the new spec begins now: no time is lost, repeated or made up for.
    ///
    /// A paused schedule stays paused, and submits no run. The times that have passed during the pause stay undecided
    /// until [`resume`](Self::resume) if the new spec has the same times. Otherwise they count as skipped.
    ///
    /// The runs that have not started get the limits of the new spec, after the spec is written. They keep everything
    /// else. When this call is interrupted between, a repeat changes them.
    ///
    /// A schedule that has failed, completed or was killed starts again with the new spec, and keeps its
    /// counts and its live runs. So does one whose present spec is wrong: no time of that one is decided.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`create`](Self::create); [`Error::Invalid`] (field `count`) when an ended
    /// schedule has had that many runs.
    pub async fn update(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        schedule: Schedule,
    ) -> Result<(), Error> {
        let id = name(id)?;
        let mut tries = 0;
        while tries < TRIES {
            let record = self.client.get(&id).await?;
            self.is_schedule(&record)?;
            let has_ended = record.state.as_ref();
            if has_ended.is_ok_and(|state| state.code().is_terminal()) {
                match self.restart(record, schedule.clone()).await {
                    // Another update was first.
                    Err(Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
                        tries += 1;
                        continue;
                    }
                    Ok(()) => return self.limit_waiting_runs(&id, &schedule).await,
                    Err(error) => return Err(error),
                }
            }
            let now = self.now();
            let spec = Schedule {
                since: Some(now),
                ..schedule.clone()
            };
            spec.check(id.as_str(), now)?;
            let read = match self.read_or(id.clone(), Some(&spec)).await {
                Err(Error::ScheduleEnded(_)) => {
                    tries += 1;
                    continue;
                }
                read => read?,
            };
            let (change, is_whole) = self.replace(&read, spec, now).await?;
            match self.write(&read, change).await? {
                Some(_) if is_whole => return self.limit_waiting_runs(&id, &schedule).await,
                // Each part goes further, however many there are.
                Some(_) => {}
                None => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(busy(&id))
    }

    /// Returns the change to another spec, or a part of it when more times are due than one write takes.
    async fn replace(
        &self,
        read: &Read,
        spec: Schedule,
        now: Timestamp,
    ) -> Result<(Change, bool), Error> {
        let times = Times::new(read.id.as_str(), &spec)?;
        let mut change = Change::from(read.data.clone());
        let mut is_paused = read.code == StateKind::Paused;
        if !is_paused {
            let moment = (read.data.clone(), now);
            let step = decide(self.client.store(), &read.times, moment).await?;
            // A node pauses it at its next time.
            is_paused = step.next == Next::Pause;
            if !is_paused {
                change.submit = step.submit.into_iter().map(skipping).collect();
                change.send = step.send;
                change.data = step.data;
                if step.next == Next::Again {
                    return Ok((change, false));
                }
                self.submit_waiting(&read.times, &mut change, now).await?;
            }
        }
        if is_paused && !read.is_wrong {
            if !pass_paused(&mut change.data, &read.times, &spec, now) {
                return Ok((change, false));
            }
        } else {
            change.data.last = Some(now);
            change.data.local = None;
            change.data.skip.retain(|at| *at > now);
        }
        change.data.spec = Some(spec);
        change.due = match next(&times, &change.data, now) {
            Next::Sleep(due) => Some(due),
            _ => Some(now),
        };
        Ok((change, true))
    }

    /// Adds the runs whose nominal time has passed and which are due later, by offset or jitter: the new
    /// spec does not know these times.
    async fn submit_waiting(
        &self,
        times: &Times,
        change: &mut Change,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut cursor = change.data.cursor(times.spec(), now);
        let mut waiting = Vec::new();
        while let Some(nominal) = times.next(cursor)
            && nominal <= now
        {
            cursor = nominal.into();
            match change.data.skip.contains(&nominal) {
                true => change.data.leave_out(LeftOut::one(nominal, Why::Skipped)),
                false => waiting.push(nominal),
            }
        }
        let taken = taken(self.client.store(), times, &waiting).await?;
        // A run that an operator requested was counted then.
        waiting.retain(|nominal| !taken.runs.contains(nominal));
        for nominal in waiting {
            if let Some(refused) = taken
                .refused
                .iter()
                .find(|refused| refused.nominal == nominal)
            {
                change.data.refuse(refused.clone());
                continue;
            }
            let mut task = times.run(nominal, false, By::Time)?;
            task.start_at = Some(times.due(nominal));
            change.submit.push(skipping(task));
            change.data.counts.fired += 1;
            change.data.last_run = Some(nominal);
            change.data.runs.push(nominal);
        }
        Ok(())
    }

    /// Submits an ended schedule again with another spec, which begins now.
    async fn restart(&self, record: TaskRecord, schedule: Schedule) -> Result<(), Error> {
        let id = record.task.id;
        let state = record.state.ok();
        // What cannot be read may be why the schedule has failed.
        let data = data_of(state.and_then(|state| state.data).as_ref());
        let earlier = data.unwrap_or_default();
        if let Some(count) = schedule.count
            && earlier.is_complete(&schedule)
        {
            let fired = earlier.counts.fired;
            let reason = format!(
                "{count} is reached: '{id}' has had {fired} runs; give a greater count to start it again"
            );
            return Err(Invalid::new("count", reason).into());
        }
        let mut submit = self.task(id.clone(), schedule)?.build()?;
        submit.task.labels = record.task.labels;
        submit.task.priority = record.task.priority;
        submit.if_exists = IfExists::ReplaceFinished;
        self.client.submit(submit).await?;
        let kept = |read: &Read, now| {
            let mut data = read.data.clone();
            data.counts.add(&earlier.counts);
            let newer = std::mem::replace(&mut data.runs, earlier.runs.clone());
            data.runs.extend(newer);
            data.skip
                .extend(earlier.skip.iter().filter(|at| **at > now));
            data.refused = data.refused.or(earlier.refused.clone());
            data.last_run = data.last_run.or(earlier.last_run);
            data.left_out = join(&earlier.left_out, &data.left_out);
            Ok((data.into(), ()))
        };
        match self.change(id, kept).await {
            // It has had its only time, or was deleted.
            Err(Error::ScheduleEnded(_) | Error::NotFound { .. }) => Ok(()),
            kept => kept.map(drop),
        }
    }
}

/// Keeps the times that have passed during a pause if the new spec has the same times: a resume decides them.
/// Otherwise they count as skipped. Returns whether all of them are counted.
fn pass_paused(data: &mut Data, earlier: &Times, spec: &Schedule, now: Timestamp) -> bool {
    let has_more = !data.is_complete(earlier.spec()) && !data.is_complete(spec);
    if !has_more || !spec.has_times_of(earlier.spec()) {
        return skip_passed(data, earlier, now, |_| true);
    }
    // The new spec counts from the update on, so a schedule that has decided no time needs the earlier moment.
    let cursor = data.cursor(earlier.spec(), now);
    data.last = Some(cursor.last);
    data.local = cursor.local;
    true
}
