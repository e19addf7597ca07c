//! [`Schedules`]: what a client does with schedules.

mod change;
mod limits;
mod runs;
mod update;

use jiff::Timestamp;
use windlass_statemachine::{Command, Invalid, Json, StateKind, TaskId};

use super::{
    Counts, KIND, LABEL, LeftOut, RefusedTime, ScheduledFor, Time,
    data::Data,
    handler::{first_data, spec_of},
    run::run_id,
    spec::Schedule,
    step::{Next, next},
    times::Times,
};
use crate::{
    Client, NewTask,
    store::{Error, Filter, Page, TaskRecord},
};

/// What [`Schedules::delete`] does with the live runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveRuns {
    /// They go on.
    #[default]
    Keep,
    /// They get the command `kill`.
    Kill,
}

/// A schedule, as it was read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// The id of the schedule and of its task.
    pub id: TaskId,
    /// The state of the task; `None` when its record cannot be read.
    pub state: Option<StateKind>,
    /// The present spec, or why it cannot be read.
    pub spec: Result<Schedule, Invalid>,
    /// The same as it is stored, also when it cannot be read.
    pub stored: Json,
    /// How many times went which way.
    pub counts: Counts,
    /// The last nominal time that was decided. `None` after an update, or a resume that skipped times, until the next
    /// one is decided. An update of a paused schedule that keeps its times keeps it.
    pub last: Option<Timestamp>,
    /// The next time that is to submit a run, if the schedule is live and not paused.
    pub next: Option<Time>,
    /// The runs of these nominal times were live when the schedule looked last.
    pub runs: Vec<Timestamp>,
    /// Times to come that submit no run.
    pub skipped: Vec<Timestamp>,
    /// Why it is paused.
    pub note: Option<String>,
    /// How many commands wait for a node that runs schedules, such as a pause.
    pub commands: u64,
    /// The last time that submitted no run because another task has its id.
    pub refused: Option<RefusedTime>,
    /// The nominal time of the last run, also of one that an operator requested. `None` before the first run.
    pub last_run: Option<Timestamp>,
    /// The last times that submitted no run, oldest first: at most 10 entries.
    pub left_out: Vec<LeftOut>,
    /// Up to when its times are decided, if that is more than a minute to come: a clock that was ahead has decided them.
    /// The schedule goes on from the present when it is looked at: a node that sees its clock set back does so, and
    /// [`Schedules::resume`].
    pub ahead: Option<Timestamp>,
}

impl ScheduleRecord {
    /// Returns the id of the last run. That task may have been deleted.
    pub fn last_run_id(&self) -> Option<TaskId> {
        let nominal = self.last_run?;
        run_id(self.id.as_str(), nominal).ok()
    }
}

/// What a client does with schedules, of [`Client::schedules`].
///
/// # Guarantees
///
/// Each change is one transaction, which is refused when a node has decided a time since the schedule was
/// read; it is then made again of what is there. So no change loses or repeats a nominal time.
///
/// # Errors
///
/// [`Error::Invalid`] with the field; [`Error::NotFound`]; [`Error::Unavailable`].
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, schedule::Schedule, store::Store};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
/// client.schedules().create("weekly", report.clone()).await?;
///
/// client.schedules().update("weekly", report.zone("Europe/Berlin")).await?;
/// let run = client.schedules().trigger("weekly").await?;
/// assert_eq!(client.get(&run).await?.task.labels["schedule"], "weekly");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Schedules {
    client: Client,
}

impl Client {
    /// Returns what the client does with schedules.
    pub fn schedules(&self) -> Schedules {
        let client = self.clone();
        Schedules { client }
    }
}

/// Converts an id, or names the field.
fn name(id: impl TryInto<TaskId, Error: Into<Invalid>>) -> Result<TaskId, Error> {
    Ok(id.try_into().map_err(Into::into)?)
}

impl Schedules {
    /// Creates a schedule. It sleeps until its first time.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`]; [`Error::ScheduleEnded`] and [`Error::AlreadyFinished`] when an ended schedule or
    /// another ended task has the id; [`Error::Invalid`] as [`Schedule::check`].
    pub async fn create(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        schedule: Schedule,
    ) -> Result<TaskId, Error> {
        let task = self.task(name(id)?, schedule)?;
        match self.client.submit(task).await {
            Ok(created) => Ok(created.into_id()),
            Err(Error::AlreadyFinished(id)) => match self.get(&id).await {
                Ok(_) => Err(Error::ScheduleEnded(id)),
                Err(_) => Err(Error::AlreadyFinished(id)),
            },
            Err(error) => Err(error),
        }
    }

    /// Returns the task that [`create`](Self::create) submits, for a transaction or an effect.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] as [`Schedule::check`].
    pub fn task(&self, id: TaskId, schedule: Schedule) -> Result<NewTask, Error> {
        let now = self.client.store().clock().now();
        let spec = Schedule {
            since: Some(now),
            ..schedule
        };
        spec.check(id.as_str(), now)?;
        let times = Times::new(id.as_str(), &spec)?;
        let task = NewTask::new(KIND).id(id.to_string()).props(&spec);
        Ok(match next(&times, &Data::default(), now) {
            Next::Sleep(due) => task.start_at(due),
            _ => task,
        })
    }

    /// Returns a schedule.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Invalid`] (field `id`) when the task is no schedule.
    pub async fn get(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<ScheduleRecord, Error> {
        let record = self.client.get(name(id)?).await?;
        self.is_schedule(&record)?;
        Ok(self.record(record))
    }

    /// Returns a page of the schedules, in the order of their creation, with the order of the last for the
    /// next page.
    ///
    /// # Errors
    ///
    /// As [`Client::list`].
    pub async fn list(&self, page: Page) -> Result<Vec<(u64, ScheduleRecord)>, Error> {
        let filter = Filter {
            kind: Some(super::kind()?),
            ..Filter::default()
        };
        let records = self.client.list(&filter, page).await?;
        let records = records.into_iter();
        Ok(records
            .map(|record| (record.order, self.record(record)))
            .collect())
    }

    /// Returns the next `count` times of a schedule, without those that are skipped; no more than the runs that
    /// are left of its count.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`Error::Invalid`] for a spec that is wrong.
    pub async fn preview(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        count: usize,
    ) -> Result<Vec<Time>, Error> {
        let read = self.read(name(id)?).await?;
        let now = self.client.store().clock().now();
        let coming = read.data.coming(&read.times, now, count);
        Ok(coming.into_iter().map(|at| read.times.time(at)).collect())
    }

    /// Returns the next `count` times that the schedule would have after an [`update`](Self::update) to this
    /// spec, as [`preview`](Self::preview). An update starts an ended schedule again, so it may have ended.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`Error::Invalid`] for a spec that is wrong.
    pub async fn preview_update(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        spec: &Schedule,
        count: usize,
    ) -> Result<Vec<Time>, Error> {
        let record = self.client.get(name(id)?).await?;
        self.is_schedule(&record)?;
        let now = self.now();
        let id = record.task.id.as_str();
        spec.check(id, now)?;
        let times = Times::new(id, spec)?;
        // An update starts with these data as well, when those of a failed schedule cannot be read.
        let data = record.state.ok();
        let data = data.and_then(|state| data_of(state.data.as_ref(), &record.task.props).ok());
        let coming = data.unwrap_or_default().coming(&times, now, count);
        Ok(coming.into_iter().map(|at| times.time(at)).collect())
    }

    /// Deletes a schedule, and lets its live runs go on or kills them. Returns the runs that were killed. A delete that
    /// was cut off is repeated to kill those that it has left.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn delete(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        runs: LiveRuns,
    ) -> Result<Vec<TaskId>, Error> {
        let id = name(id)?;
        let live = match self.client.get(&id).await {
            Ok(record) => {
                self.is_schedule(&record)?;
                // First the schedule, so that it submits no further run.
                self.client.force_delete(&id).await?;
                match runs {
                    LiveRuns::Keep => return Ok(Vec::new()),
                    LiveRuns::Kill => self.live_runs(&id).await?,
                }
            }
            // A delete that was cut off after its first write goes on.
            Err(error @ Error::NotFound { .. }) if runs == LiveRuns::Kill => {
                match self.live_runs(&id).await? {
                    none if none.is_empty() => return Err(error),
                    live => live,
                }
            }
            Err(error) => return Err(error),
        };
        let mut killed = Vec::new();
        for run in live {
            match self.client.command(&run, Command::Kill).await {
                Ok(_) => killed.push(run),
                Err(Error::NotFound { .. } | Error::AlreadyFinished(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(killed)
    }

    /// Returns the live runs of a schedule, which may be deleted.
    ///
    /// # Errors
    ///
    /// As [`Client::list`].
    pub async fn live_runs(&self, id: &TaskId) -> Result<Vec<TaskId>, Error> {
        let live = StateKind::ALL
            .into_iter()
            .filter(|code| !code.is_terminal());
        let filter = Filter {
            states: live.collect(),
            labels: vec![(LABEL.to_owned(), Some(id.to_string()))],
            ..Filter::default()
        };
        let (mut after, limit) = (0, 1000);
        let mut found = Vec::new();
        loop {
            let records = self.client.list(&filter, Page { after, limit }).await?;
            let Some(last) = records.last() else {
                return Ok(found);
            };
            after = last.order;
            let runs = records.into_iter().map(|record| record.task);
            let runs = runs.filter(|task| ScheduledFor::of(task).is_some());
            found.extend(runs.map(|task| task.id));
        }
    }

    fn is_schedule(&self, record: &TaskRecord) -> Result<(), Error> {
        let (id, kind) = (&record.task.id, &record.task.kind);
        if kind.as_str() == KIND {
            return Ok(());
        }
        Err(Error::NotASchedule {
            task: id.clone(),
            kind: kind.clone(),
        })
    }

    fn record(&self, record: TaskRecord) -> ScheduleRecord {
        let now = self.client.store().clock().now();
        let state = record.state.ok();
        let code = state.as_ref().map(|state| state.code());
        let data = state.and_then(|state| state.data);
        let data = data_of(data.as_ref(), &record.task.props);
        let data = data.unwrap_or_default();
        let spec = spec_of(&data, &record.task.props);
        let stored = match &data.spec {
            Some(spec) => Json::new("schedule", spec).unwrap_or_else(|_| Json::null()),
            None => stored_props(&spec, &record.task.props),
        };
        let is_waiting = code.is_some_and(|code| !code.is_terminal() && code != StateKind::Paused);
        let times = spec.as_ref().ok().filter(|_| is_waiting);
        let times = times.and_then(|spec| Times::new(record.task.id.as_str(), spec).ok());
        let next = times.and_then(|times| {
            let nominal = data.coming(&times, now, 1).pop()?;
            Some(times.time(nominal))
        });
        let read = spec.as_ref().ok();
        let ahead = read.and_then(|spec| data.ahead(spec, now));
        ScheduleRecord {
            id: record.task.id,
            state: code,
            spec,
            stored,
            counts: data.counts,
            // Without its local time it is where an update or a resume has moved on to.
            last: data.last.filter(|_| data.local.is_some()),
            ahead,
            next,
            runs: data.runs,
            skipped: data.skip,
            commands: record.commands,
            note: data.note.filter(|_| code == Some(StateKind::Paused)),
            refused: data.refused,
            last_run: data.last_run,
            left_out: data.left_out,
        }
    }
}

/// Reads what a schedule keeps; one that has decided no time begins with what its props bring.
fn data_of(json: Option<&Json>, props: &Json) -> Result<Data, Invalid> {
    json.map_or_else(|| Ok(first_data(props)), |json| json.get("data"))
}

/// Returns the props without what an ended schedule has left to this one.
fn stored_props(spec: &Result<Schedule, Invalid>, props: &Json) -> Json {
    let read = Schedule::from_json(props).is_ok_and(|spec| spec.earlier.is_some());
    let without = spec.as_ref().ok().filter(|_| read);
    let without = without.and_then(|spec| Json::new("schedule", spec).ok());
    without.unwrap_or_else(|| props.clone())
}

pub use runs::Backfill;
