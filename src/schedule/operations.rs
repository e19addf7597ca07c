//! [`Schedules`]: the operations of a client on schedules.

mod boot;
mod change;
mod create;
mod last;
mod limits;
mod record;
mod runs;
mod trigger;
mod update;

use windlass_statemachine::{Command, Invalid, StateKind, TaskId};

use self::record::data_of;
use super::{KIND, LABEL, ScheduledFor, Time, spec::Schedule, times::Times};
use crate::{
    Client,
    store::{Error, Filter, Page, TaskRecord},
};

/// What [`Schedules::delete`] does with the live runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveRuns {
    /// The runs continue.
    #[default]
    Keep,
    /// The runs get the command `kill`.
    Kill,
}

/// The operations of a client on schedules. See [`Client::schedules`].
///
/// # Guarantees
///
/// Each change is one transaction, which the store refuses if a node has decided a time since the
/// schedule was read. The change is then made again on the present schedule, so that it never loses or
/// repeats a nominal time.
///
/// # Errors
///
/// [`Error::Invalid`] that names the field; [`Error::NotFound`]; [`Error::Unavailable`].
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
    /// Returns the operations of this client on schedules.
    pub fn schedules(&self) -> Schedules {
        let client = self.clone();
        Schedules { client }
    }
}

/// Converts an id, or returns the error of the field.
fn name(id: impl TryInto<TaskId, Error: Into<Invalid>>) -> Result<TaskId, Error> {
    Ok(id.try_into().map_err(Into::into)?)
}

/// Computes times beside the tasks of the runtime, which it would hold up.
async fn compute<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    #[cfg(feature = "simulation")]
    if crate::unique_id::seeded::is_on() {
        // A second thread would end the order of a simulation.
        return Ok(what());
    }
    let computed = tokio::task::spawn_blocking(what).await;
    computed.map_err(|error| Error::Unusable(format!("the times were not computed: {error}")))
}

impl Schedules {
    /// Returns a schedule.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Invalid`] (field `id`) when the task is not a schedule.
    pub async fn get(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<ScheduleRecord, Error> {
        let record = self.client.get(name(id)?).await?;
        self.is_schedule(&record)?;
        let now = self.now();
        compute(move || ScheduleRecord::of(record, now)).await
    }

    /// Returns a page of the schedules in the order of their creation, each with its order. Pass the last
    /// order to get the next page.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::list`].
    pub async fn list(&self, page: Page) -> Result<Vec<(u64, ScheduleRecord)>, Error> {
        let filter = Filter {
            kind: Some(super::kind()?),
            ..Filter::default()
        };
        let records = self.client.list(&filter, page).await?;
        let now = self.now();
        let read = move |record: TaskRecord| (record.order, ScheduleRecord::of(record, now));
        compute(move || records.into_iter().map(read).collect()).await
    }

    /// Returns the next `count` times of a schedule, without skipped times; no more than the remaining runs of
    /// its `count`.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::Invalid`] for an invalid spec, or for more times than
    /// [`Schedule::most_times`] (field `limit`).
    pub async fn preview(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        count: usize,
    ) -> Result<Vec<Time>, Error> {
        let read = self.read(name(id)?).await?;
        let now = self.client.store().clock().now();
        read.times.spec().check_times(count)?;
        let (data, times) = (read.data, read.times);
        compute(move || {
            let coming = data.coming(&times, now, count);
            coming.into_iter().map(|at| times.time(at)).collect()
        })
        .await
    }

    /// Returns the next `count` times that the schedule would have after an [`update`](Self::update) to this
    /// spec, like [`preview`](Self::preview). It also works for an ended schedule, which an update starts
    /// again.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::Invalid`] for an invalid spec, or for more times than
    /// [`Schedule::most_times`] (field `limit`).
    pub async fn preview_update(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        spec: &Schedule,
        count: usize,
    ) -> Result<Vec<Time>, Error> {
        let record = self.client.get(name(id)?).await?;
        self.is_schedule(&record)?;
        let now = self.now();
        spec.check_size()?;
        spec.check_times(count)?;
        // When the data of a failed schedule cannot be read, an update starts with new data, too.
        let data = record.state.ok();
        let data = data.and_then(|state| data_of(state.data.as_ref(), &record.task.props).ok());
        let (id, spec) = (record.task.id, spec.clone());
        compute(move || {
            spec.check(id.as_str(), now)?;
            let times = Times::new(id.as_str(), &spec)?;
            let coming = data.unwrap_or_default().coming(&times, now, count);
            Ok(coming.into_iter().map(|at| times.time(at)).collect())
        })
        .await?
    }

    /// Deletes a schedule, and either keeps or kills its live runs. Returns the killed runs. A delete that was
    /// interrupted can be repeated to kill the remaining runs.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get).
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
            // Continues a delete that was interrupted after its first write.
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
                Err(Error::NotFound { .. } | Error::AlreadyFinished { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(killed)
    }

    /// Returns the live runs of a schedule. The schedule itself may have been deleted.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::list`].
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
}

pub use last::{Held, LastRun};
pub use record::ScheduleRecord;
pub use runs::Backfill;
pub use trigger::Trigger;
