//! Runs that an operator asks for.

use jiff::{Timestamp, ToSpan};
use windlass_statemachine::{Invalid, TaskId};

use super::{Schedules, change::Change, name};
use crate::{
    schedule::{
        By,
        budget::{Budget, bytes_of},
        handler::taken_by,
        run::run_id,
        times::{Cursor, Times, before},
    },
    store::{Error, IfExists, Reason, Submit},
};

/// How many times one backfill takes at most.
const MOST: usize = 10_000;

/// How many runs one transaction submits at most.
const AT_ONCE: usize = 20;

/// How many operations of a store a run takes that replaces an ended one, at most.
const REPLACES: usize = 3;

/// The times that [`Schedules::backfill`] submits runs for.
///
/// # Example
///
/// ```
/// use windlass::schedule::Backfill;
///
/// let (from, to) = ("2030-01-01T00:00:00Z".parse()?, "2030-01-31T00:00:00Z".parse()?);
/// let missing = Backfill::new(from, to);
/// let all = Backfill::new(from, to).all(true);
/// assert_ne!(missing, all);
/// # Ok::<(), windlass::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Backfill {
    from: Timestamp,
    to: Timestamp,
    all: bool,
    dry_run: bool,
}

impl Backfill {
    /// The times from `from` to `to`, both included, that have no run.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self {
            from,
            to,
            all: false,
            dry_run: false,
        }
    }

    /// Sets whether times with an ended run are run again, in its place; not by default. A live run stays.
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Sets whether the runs are returned and not submitted.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

impl Schedules {
    /// Submits a run now, whatever the overlap policy says, also of a paused schedule. Its nominal time is
    /// the present, or the first millisecond after it that has no run. Returns its id.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`Error::ScheduleEnded`].
    pub async fn trigger(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<TaskId, Error> {
        let id = name(id)?;
        let now = Timestamp::from_millisecond(self.now().as_millisecond());
        let mut nominal = now.map_err(|e| Invalid::new("time", e.to_string()))?;
        loop {
            if let (run, true) = self.trigger_new(&id, nominal).await? {
                return Ok(run);
            }
            let later = nominal.checked_add(1.millisecond());
            nominal = later.map_err(|e| Invalid::new("time", e.to_string()))?;
        }
    }

    /// Submits a run now that stands for this nominal time. A time that has a run already gets no second
    /// one. Returns the id of the run.
    ///
    /// # Errors
    ///
    /// As [`trigger`](Self::trigger), and [`Error::Invalid`] (field `time`) when a task that is no run of the
    /// schedule has the id of the run.
    pub async fn trigger_for(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        nominal: Timestamp,
    ) -> Result<TaskId, Error> {
        let id = name(id)?;
        let (run, is_new) = self.trigger_new(&id, nominal).await?;
        if !is_new && let Found::Other(reason) = self.found(&id, &run).await? {
            return Err(Invalid::new("time", reason).into());
        }
        Ok(run)
    }

    /// Submits a run for this nominal time, unless its id is taken. Returns the id, and whether it was free.
    async fn trigger_new(&self, id: &TaskId, nominal: Timestamp) -> Result<(TaskId, bool), Error> {
        let run = run_id(id.as_str(), nominal)?;
        if !matches!(self.found(id, &run).await?, Found::Nothing) {
            return Ok((run, false));
        }
        let triggered = |read: &super::change::Read, now| {
            let mut task = read.times.run(nominal, false, By::Trigger)?;
            read.times.set_deadlines(&mut task, now);
            let mut change = Change::from(read.data.clone());
            change.submit.push(task.into());
            change.data.counts.requested += 1;
            follow(&mut change, nominal);
            Ok((change, ()))
        };
        match self.change(id.clone(), triggered).await {
            Ok(_) => Ok((run, true)),
            Err(Error::Refused(refusals)) if refusals.iter().any(|one| one.task == run) => {
                Ok((run, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Submits runs for the times of a range that has passed, whatever the overlap policy says. Returns
    /// their ids, oldest first.
    ///
    /// # Errors
    ///
    /// As [`trigger`](Self::trigger), and [`Error::Invalid`]: field `to` for a range that ends before it
    /// begins or after the present, or has more than 10,000 times; field `time` when a task that is no run of the
    /// schedule has the id of one.
    pub async fn backfill(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        range: Backfill,
    ) -> Result<Vec<TaskId>, Error> {
        let id = name(id)?;
        let read = self.read(id.clone()).await?;
        let mut runs = Vec::new();
        for nominal in range_of(&read, range, self.now())? {
            let run = run_id(id.as_str(), nominal)?;
            let is_wanted = match self.found(&id, &run).await? {
                Found::Nothing => true,
                Found::Run { has_ended } => range.all && has_ended,
                Found::Other(reason) => return Err(Invalid::new("time", reason).into()),
            };
            if is_wanted {
                runs.push((nominal, run));
            }
        }
        let mut submitted = Vec::new();
        let at_once = self.at_once(&read.times, range.all)?;
        for some in runs.chunks(at_once) {
            let some = match range.dry_run {
                true => some.to_vec(),
                false => self.submit_missing(&id, some, range.all).await?,
            };
            submitted.extend(some.into_iter().map(|(_, run)| run));
        }
        Ok(submitted)
    }

    /// Returns how many runs one transaction of a backfill submits.
    fn at_once(&self, times: &Times, all: bool) -> Result<usize, Error> {
        let bytes = bytes_of(&times.run(Timestamp::UNIX_EPOCH, false, By::Backfill)?);
        let operations = if all { REPLACES } else { 1 };
        // Beside the guard and the change of the schedule.
        let mut room = Budget::of(&self.client.store().registry().limits()).beside(2);
        let more = (0..AT_ONCE).take_while(|_| room.take(operations, bytes));
        Ok(more.count().max(1))
    }

    /// Submits runs in one transaction, and returns them. Those that are there by now are left out: the schedule has
    /// counted them, or another backfill.
    async fn submit_missing(
        &self,
        id: &TaskId,
        runs: &[(Timestamp, TaskId)],
        all: bool,
    ) -> Result<Vec<(Timestamp, TaskId)>, Error> {
        let mut missing = runs.to_vec();
        let if_exists = match all {
            true => IfExists::ReplaceFinished,
            false => IfExists::Refuse,
        };
        while !missing.is_empty() {
            let backfilled = |read: &super::change::Read, now| {
                let mut change = Change::from(read.data.clone());
                for (nominal, _) in &missing {
                    let mut task = read.times.run(*nominal, false, By::Backfill)?;
                    read.times.set_deadlines(&mut task, now);
                    change.submit.push(Submit { task, if_exists });
                    change.data.counts.requested += 1;
                    follow(&mut change, *nominal);
                }
                Ok((change, ()))
            };
            let refusals = match self.change(id.clone(), backfilled).await {
                Ok(_) => break,
                Err(Error::Refused(refusals)) => refusals,
                Err(error) => return Err(error),
            };
            let is_there = |run: &TaskId| {
                let exists = |reason: &Reason| matches!(reason, Reason::Exists | Reason::Finished);
                let mut refusals = refusals.iter();
                refusals.any(|one| one.task == *run && exists(&one.reason))
            };
            let before = missing.len();
            missing.retain(|(_, run)| !is_there(run));
            if missing.len() == before {
                return Err(Error::Refused(refusals));
            }
        }
        Ok(missing)
    }

    /// Returns what has the id of a run.
    async fn found(&self, id: &TaskId, run: &TaskId) -> Result<Found, Error> {
        let record = match self.client.get(run).await {
            Ok(record) => record,
            Err(Error::NotFound { .. }) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if let Some(reason) = taken_by(id.as_str(), &record.task) {
            return Ok(Found::Other(reason));
        }
        let state = record.state;
        let has_ended = state.is_ok_and(|state| state.code().is_terminal());
        Ok(Found::Run { has_ended })
    }
}

/// What has the id of a run.
enum Found {
    Nothing,
    Run {
        has_ended: bool,
    },
    /// A task that is no run of the schedule: which.
    Other(String),
}

/// Lets the overlap policy know a run.
fn follow(change: &mut Change, nominal: Timestamp) {
    // A backfilled run is not the last one if a later time has run.
    change.data.last_run = change.data.last_run.max(Some(nominal));
    change.data.follow([nominal]);
}

fn range_of(
    read: &super::change::Read,
    range: Backfill,
    now: Timestamp,
) -> Result<Vec<Timestamp>, Invalid> {
    let Backfill { from, to, .. } = range;
    if to < from {
        let reason = format!("{to} is before the beginning, {from}; give a later end");
        return Err(Invalid::new("to", reason));
    }
    if to > now {
        let reason = format!("{to} is to come; the schedule runs such times by itself");
        return Err(Invalid::new("to", reason));
    }
    let mut cursor = Cursor::from(before(from));
    let mut found = Vec::new();
    while let Some(nominal) = read.times.next(cursor)
        && nominal <= to
    {
        if found.len() == MOST {
            let reason =
                format!("{to} is too late: the range has more than {MOST} times; split it");
            return Err(Invalid::new("to", reason));
        }
        cursor = nominal.into();
        found.push(nominal);
    }
    Ok(found)
}
