//! Runs for times that have passed.

use jiff::Timestamp;
use windlass_statemachine::{Invalid, TaskId};

use super::{Schedules, change::Change, compute, name};
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

/// The most runs that one transaction submits.
const AT_ONCE: usize = 20;

/// The most operations that a store needs for a run that replaces an ended one.
const REPLACES: usize = 3;

/// The times for which [`Schedules::backfill`] submits runs.
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
    /// Returns a backfill of the times from `from` to `to`, both included, that have no run.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self {
            from,
            to,
            all: false,
            dry_run: false,
        }
    }

    /// Sets whether times with an ended run are run again, replacing that run; false by default. A live
    /// run stays.
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Sets whether the runs are only returned and not submitted; false by default.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

impl Schedules {
    /// Submits runs for the times of a past range, whatever the overlap policy is. Returns their ids,
    /// oldest first.
    ///
    /// # Errors
    ///
    /// The errors of [`trigger`](Self::trigger), and [`Error::Invalid`]: field `to` for a range that ends before
    /// it begins or after the present, or has more times than [`Schedule::most_times`](crate::schedule::Schedule::most_times); field `time` when another task, which is
    /// not a run of the schedule, has the id of a run.
    pub async fn backfill(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        range: Backfill,
    ) -> Result<Vec<TaskId>, Error> {
        let id = name(id)?;
        let read = self.read(id.clone()).await?;
        let mut runs = Vec::new();
        let (times, now) = (read.times.clone(), self.now());
        for nominal in compute(move || range_of(&times, range, now)).await?? {
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
        // In addition to the guard and the change of the schedule.
        let mut room = Budget::of(&self.client.store().registry().limits()).beside(2);
        let more = (0..AT_ONCE).take_while(|_| room.take(operations, bytes));
        Ok(more.count().max(1))
    }

    /// Submits runs in one transaction, and returns them. Leaves out runs that exist by now, because the schedule or
    /// another backfill has submitted and counted them.
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
                let exists = |reason: &Reason| {
                    matches!(reason, Reason::Exists { .. } | Reason::Finished { .. })
                };
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

    /// Returns what exists under the id of a run.
    pub(super) async fn found(&self, id: &TaskId, run: &TaskId) -> Result<Found, Error> {
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

/// What exists under the id of a run.
pub(super) enum Found {
    Nothing,
    Run {
        has_ended: bool,
    },
    /// A task that is not a run of the schedule. Names it.
    Other(String),
}

/// Adds a run to those that the overlap policy follows.
pub(super) fn follow(change: &mut Change, nominal: Timestamp) {
    // A backfilled run is not the last run if a later time has run.
    change.data.last_run = change.data.last_run.max(Some(nominal));
    change.data.follow([nominal]);
}

fn range_of(times: &Times, range: Backfill, now: Timestamp) -> Result<Vec<Timestamp>, Invalid> {
    let Backfill { from, to, .. } = range;
    if to < from {
        let reason = format!("{to} is before the start, {from}; give a later end");
        return Err(Invalid::new("to", reason));
    }
    if to > now {
        let reason = format!("{to} is in the future; the schedule runs such times on its own");
        return Err(Invalid::new("to", reason));
    }
    let mut cursor = Cursor::from(before(from));
    let mut found = Vec::new();
    let most = times.spec().most_times();
    while let Some(nominal) = times.next(cursor)
        && nominal <= to
    {
        if found.len() == most {
            let reason =
                format!("{to} is too late: the range has more than {most} times; split it");
            return Err(Invalid::new("to", reason));
        }
        cursor = nominal.into();
        found.push(nominal);
    }
    Ok(found)
}
