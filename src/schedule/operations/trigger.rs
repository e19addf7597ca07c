//! Runs that are submitted on request.

use jiff::{Timestamp, ToSpan};
use windlass_statemachine::{Invalid, TaskId};

use super::{
    Schedules,
    change::{Change, Read},
    name,
    runs::{Found, follow},
};
use crate::{
    schedule::{By, run::run_id},
    store::Error,
};

/// The run that [`Schedules::trigger_with`] submits.
///
/// # Example
///
/// ```
/// use windlass::schedule::Trigger;
///
/// let march = "2030-03-01T00:00:00Z".parse()?;
/// let urgent = Trigger::new().nominal(march).priority(100);
/// assert_ne!(urgent, Trigger::new());
/// # Ok::<(), windlass::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Trigger {
    nominal: Option<Timestamp>,
    priority: Option<i32>,
}

impl Trigger {
    /// Returns a run for the present, with the default priority.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the nominal time of the run: any past or future time. By default it is the present, or the first
    /// millisecond after it that has no run.
    pub fn nominal(mut self, time: Timestamp) -> Self {
        self.nominal = Some(time);
        self
    }

    /// Sets the priority of the run. By default it is one above that of the other runs, so that it is claimed before
    /// runs that wait for a slot.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

impl Schedules {
    /// Submits a run now, whatever the overlap policy is, and even if the schedule is paused. Its nominal time is
    /// the present, or the first millisecond after it that has no run. Its priority is one above that of the other
    /// runs. Returns its id.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::ScheduleEnded`].
    pub async fn trigger(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<TaskId, Error> {
        self.trigger_with(id, Trigger::new()).await
    }

    /// Submits a run for this nominal time now, like [`trigger_with`](Self::trigger_with). If the time has a run
    /// already, no second one is submitted, and the id of the existing run is returned. Returns the id of the run.
    ///
    /// # Errors
    ///
    /// The errors of [`trigger`](Self::trigger), and [`Error::Invalid`] (field `time`) when another task,
    /// which is not a run of the schedule, has the id of the run.
    pub async fn trigger_for(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        nominal: Timestamp,
    ) -> Result<TaskId, Error> {
        let id = name(id)?;
        match self.trigger_once(&id, nominal, None).await? {
            Triggered::Submitted(run) | Triggered::There(run) => Ok(run),
        }
    }

    /// Submits a run now like [`trigger`](Self::trigger), with a nominal time or a priority of your choice. Returns
    /// its id. A time has at most one run: after a run for a future time, the schedule submits none at that time.
    ///
    /// # Errors
    ///
    /// The errors of [`trigger`](Self::trigger). For a nominal time that was set: [`Error::AlreadyExists`] when it
    /// has a live run, [`Error::AlreadyFinished`] when it has an ended run, and [`Error::Invalid`] (field `time`)
    /// when a task that is not a run of the schedule has the id of the run.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, schedule::{Schedule, Trigger}, store::{Error, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
    /// client.schedules().create("weekly", report).await?;
    ///
    /// let march = Trigger::new().nominal("2030-03-04T06:00:00Z".parse()?);
    /// let run = client.schedules().trigger_with("weekly", march).await?;
    /// assert_eq!(run.as_str(), "weekly@2030-03-04T06:00:00Z");
    /// let again = client.schedules().trigger_with("weekly", march).await;
    /// assert!(matches!(again, Err(Error::AlreadyExists { .. })));
    /// # Ok(()) }
    /// ```
    pub async fn trigger_with(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        trigger: Trigger,
    ) -> Result<TaskId, Error> {
        let id = name(id)?;
        let Trigger { nominal, priority } = trigger;
        if let Some(nominal) = nominal {
            return match self.trigger_once(&id, nominal, priority).await? {
                Triggered::Submitted(run) => Ok(run),
                Triggered::There(run) => Err(self.taken(&id, &run).await?),
            };
        }
        let now = Timestamp::from_millisecond(self.now().as_millisecond());
        let mut nominal = now.map_err(|e| Invalid::new("time", e.to_string()))?;
        loop {
            if let (run, true) = self.trigger_new(&id, nominal, priority).await? {
                return Ok(run);
            }
            let later = nominal.checked_add(1.millisecond());
            nominal = later.map_err(|e| Invalid::new("time", e.to_string()))?;
        }
    }

    /// Submits the run of a nominal time, unless the time has one.
    async fn trigger_once(
        &self,
        id: &TaskId,
        nominal: Timestamp,
        priority: Option<i32>,
    ) -> Result<Triggered, Error> {
        let (run, is_new) = self.trigger_new(id, nominal, priority).await?;
        if is_new {
            return Ok(Triggered::Submitted(run));
        }
        match self.found(id, &run).await? {
            Found::Other(reason) => Err(Invalid::new("time", reason).into()),
            Found::Nothing | Found::Run { .. } => Ok(Triggered::There(run)),
        }
    }

    /// Returns the error for a time that already has a run.
    async fn taken(&self, id: &TaskId, run: &TaskId) -> Result<Error, Error> {
        Ok(match self.found(id, run).await? {
            Found::Run { has_ended: true } => Error::finished(run),
            _ => Error::task_exists(run),
        })
    }

    /// Submits a run for this nominal time, unless its id is taken. Returns the id, and whether it was free.
    async fn trigger_new(
        &self,
        id: &TaskId,
        nominal: Timestamp,
        priority: Option<i32>,
    ) -> Result<(TaskId, bool), Error> {
        let run = run_id(id.as_str(), nominal)?;
        if !matches!(self.found(id, &run).await?, Found::Nothing) {
            return Ok((run, false));
        }
        let triggered = |read: &Read, now| {
            let mut task = read.times.run(nominal, false, By::Trigger)?;
            read.times.set_deadlines(&mut task, now);
            task.priority = priority.unwrap_or(task.priority.saturating_add(1));
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
}

/// Whether a run was submitted, or existed.
enum Triggered {
    Submitted(TaskId),
    /// The time has this run already, which was not submitted now.
    There(TaskId),
}
