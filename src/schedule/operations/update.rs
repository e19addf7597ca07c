//! Updates the spec of a schedule, live or ended.

use jiff::Timestamp;
use windlass_statemachine::{IfExists, Invalid, StateKind, TaskId};

use super::{
    ScheduleRecord, Schedules,
    change::{Change, PAUSE, Read, TRIES, busy, skipping},
    compute, name,
    record::data_of,
};
use crate::{
    schedule::{
        By,
        budget::{Budget, bytes_of},
        data::Data,
        due::RUNS_AT_ONCE,
        handler::{decide, taken},
        left_out::{LeftOut, Why},
        passed::{Passed, skip_passed},
        spec::Schedule,
        step::{Next, next},
        times::Times,
    },
    store::{Error, Reason, Refusal, Require, TaskRecord, Transaction},
};

impl Schedules {
    /// Replaces the spec of a schedule. Times that have already passed are decided by the earlier spec,
    /// and the new spec counts from now: no time is lost, repeated or made up for.
    ///
    /// A paused schedule stays paused, and submits no run. If the new spec has the same times, the times that have
    /// passed during the pause stay undecided until [`resume`](Self::resume). Otherwise they count as skipped.
    ///
    /// After the spec is written, the runs that have not started get the limits of the new spec. They keep everything
    /// else. If this call is interrupted in between, repeat it to update the remaining runs.
    ///
    /// A schedule that has failed, completed or was killed starts again with the new spec, and keeps its
    /// counts and its live runs. So does a schedule whose present spec is invalid: no time of the invalid
    /// spec is decided.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get) and [`create`](Self::create); [`Error::Invalid`] (field `count`)
    /// when an ended schedule already had that many runs.
    pub async fn update(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        schedule: Schedule,
    ) -> Result<(), Error> {
        self.update_with(id, |_| Ok(schedule.clone())).await
    }

    /// Changes parts of the spec of a schedule. `change` gets the present record and returns the new spec, which is
    /// applied like [`update`](Self::update). If the schedule has changed since it was read, `change` is called
    /// again, so that concurrent changes are all kept.
    ///
    /// # Errors
    ///
    /// The errors of [`update`](Self::update), and the error of `change`: then nothing more is
    /// written.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, schedule::Schedule, store::{Error, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
    /// client.schedules().create("weekly", report).await?;
    ///
    /// let in_berlin = |record: &windlass::schedule::ScheduleRecord| {
    ///     Ok::<_, Error>(record.spec.clone()?.zone("Europe/Berlin"))
    /// };
    /// client.schedules().update_with("weekly", in_berlin).await?;
    /// # Ok(()) }
    /// ```
    pub async fn update_with<E: From<Error>>(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        mut change: impl FnMut(&ScheduleRecord) -> Result<Schedule, E>,
    ) -> Result<(), E> {
        let id = name(id)?;
        let mut tries = 0;
        while tries < TRIES {
            let record = self.client.get(&id).await?;
            self.is_schedule(&record)?;
            let (found, now) = (record.clone(), self.now());
            let found = compute(move || ScheduleRecord::of(found, now)).await?;
            let schedule = change(&found)?;
            let has_ended = record.state.as_ref();
            if has_ended.is_ok_and(|state| state.code().is_terminal()) {
                match self.restart(record, schedule.clone()).await {
                    // Another update, or a delete, came first.
                    Err(Error::Refused(refusals)) if refusals.iter().all(is_other) => {
                        tries += 1;
                        continue;
                    }
                    Ok(()) => return Ok(self.limit_waiting_runs(&id, &schedule).await?),
                    Err(error) => return Err(error.into()),
                }
            }
            let now = self.now();
            let spec = Schedule {
                since: Some(now),
                ..schedule.clone()
            };
            spec.check(id.as_str(), now).map_err(Error::from)?;
            let read = Self::read_of(record, Some(&spec))?;
            let (changed, is_whole) = self.replace(&read, spec, now).await?;
            match self.write(&read, changed).await? {
                Some(_) if is_whole => {
                    return Ok(self.limit_waiting_runs(&id, &schedule).await?);
                }
                // Each part makes progress, so the loop ends however many there are.
                Some(_) => {}
                None => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(busy(&id).into())
    }

    /// Returns the change to another spec, or a part of it when more times are due than one write can
    /// decide.
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
            // A run has failed, so a node would pause the schedule at its next time.
            let room = Budget::of(&self.client.store().registry().limits()).beside(2);
            let step = decide(self.client.store(), &read.times, moment, room).await?;
            // The earlier spec has paused it: a run of it failed.
            is_paused = step.next == Next::Pause;
            if !is_paused {
                change.submit = step.submit.into_iter().map(skipping).collect();
                change.send = step.send;
                change.data = step.data;
                let is_whole = step.next != Next::Again
                    && self
                        .submit_waiting(&read.times, &mut change, (step.room, now))
                        .await?;
                if !is_whole {
                    return Ok((change, false));
                }
            }
        }
        if is_paused && !read.is_wrong {
            pass_paused(&mut change.data, &read.times, &spec, now);
        } else {
            change.data.last = Some(now);
            change.data.local = None;
            change.data.skip.retain(|at| *at > now);
        }
        change.data.stopping.clear();
        change.data.spec = Some(spec);
        change.due = match next(&times, &change.data, now) {
            Next::Sleep(due) => Some(due),
            _ => Some(now),
        };
        Ok((change, true))
    }

    /// Submits the runs whose nominal time has passed and which are due later, because of offset or
    /// jitter: the new spec does not include these times. Returns whether these are all; one write takes
    /// only some of very many.
    async fn submit_waiting(
        &self,
        times: &Times,
        change: &mut Change,
        (mut room, now): (Budget, Timestamp),
    ) -> Result<bool, Error> {
        let mut cursor = change.data.cursor(times.spec(), now);
        let mut waiting = Vec::new();
        while waiting.len() <= RUNS_AT_ONCE
            && let Some(nominal) = times.next(cursor)
            && nominal <= now
        {
            cursor = nominal.into();
            waiting.push(nominal);
        }
        let is_skipped = |data: &Data, nominal: Timestamp| data.skip.contains(&nominal);
        let wanted = waiting.iter().filter(|at| !is_skipped(&change.data, **at));
        let wanted: Vec<Timestamp> = wanted.copied().collect();
        let taken = taken(self.client.store(), times, &wanted).await?;
        let is_whole = waiting.len() <= RUNS_AT_ONCE;
        for nominal in waiting.into_iter().take(RUNS_AT_ONCE) {
            if change.data.is_complete(times.spec()) {
                // The times after the last run of a `count` are not times of the schedule.
                return Ok(true);
            }
            let mut refused = taken.refused.iter();
            if is_skipped(&change.data, nominal) {
                change.data.leave_out(LeftOut::one(nominal, Why::Skipped));
            } else if taken.runs.contains(&nominal) {
                // A run that an operator requested was counted when it was submitted.
            } else if let Some(refused) = refused.find(|refused| refused.nominal == nominal) {
                change.data.refuse(refused.clone());
            } else {
                let mut task = times.run(nominal, false, By::Time)?;
                task.start_at = Some(times.due(nominal));
                let bytes = bytes_of(&task);
                let fits = match change.submit.is_empty() && change.send.is_empty() {
                    true => room.take_first(1, bytes),
                    false => room.take(1, bytes),
                };
                if !fits {
                    return Ok(false);
                }
                change.submit.push(skipping(task));
                change.data.counts.fired += 1;
                change.data.last_run = Some(nominal);
                change.data.follow([nominal]);
            }
            change.data.pass(nominal, times);
        }
        Ok(is_whole)
    }

    /// Submits an ended schedule again with another spec, which counts from now and takes over what the ended one
    /// has kept.
    async fn restart(&self, record: TaskRecord, schedule: Schedule) -> Result<(), Error> {
        let id = record.task.id;
        let json = record.state.as_ref().map(|state| state.data.clone()).ok();
        // Unreadable data may be the reason why the schedule failed.
        let data = data_of(json.clone().flatten().as_ref(), &record.task.props);
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
        let schedule = Schedule {
            earlier: Some(Box::new(earlier.of_ended(self.now()))),
            ..schedule
        };
        let mut submit = self.task(id.clone(), schedule)?.build()?;
        submit.task.labels = record.task.labels;
        submit.task.priority = record.task.priority;
        submit.if_exists = IfExists::ReplaceFinished;
        // The guard makes sure that a schedule which was retried in the meantime loses no run.
        let transaction = json.map_or_else(Transaction::new, |json| {
            Transaction::new().require(id.clone(), Require::Data(json))
        });
        self.client
            .apply(vec![transaction.submit(submit)])
            .await
            .pop()
            .unwrap_or_else(|| Err(Error::Unusable("the store returned no result".to_owned())))
            .map(drop)
    }
}

/// Returns whether a refusal means that the ended schedule no longer exists, or has changed.
fn is_other(refusal: &Refusal) -> bool {
    matches!(
        refusal.reason,
        Reason::Exists { .. } | Reason::Missing | Reason::Data
    )
}

/// Keeps the times that have passed during a pause if the new spec has the same times: a resume decides them.
/// Otherwise counts them as skipped.
fn pass_paused(data: &mut Data, earlier: &Times, spec: &Schedule, now: Timestamp) {
    let has_more = !data.is_complete(earlier.spec()) && !data.is_complete(spec);
    if !has_more || !spec.has_times_of(earlier.spec()) {
        return skip_passed(data, earlier, now, Passed::Nominal);
    }
    // The new spec counts from the update on, so a schedule that has decided no time keeps the earlier start.
    let cursor = data.cursor(earlier.spec(), now);
    data.last = Some(cursor.last);
    data.local = cursor.local;
}
