//! New schedules.

use windlass_statemachine::{Invalid, TaskId};

use super::{Schedules, name};
use crate::{
    NewTask,
    schedule::{
        KIND,
        data::Data,
        spec::Schedule,
        step::{Next, next},
        times::Times,
    },
    store::Error,
};

impl Schedules {
    /// Creates a schedule. It sleeps until its first time.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`]; [`Error::ScheduleEnded`] when an ended schedule has the id;
    /// [`Error::AlreadyFinished`] when another ended task has it; [`Error::Invalid`] as for [`Schedule::check`].
    pub async fn create(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        schedule: Schedule,
    ) -> Result<TaskId, Error> {
        let task = self.task(name(id)?, schedule)?;
        self.submit_new(task).await
    }

    /// Creates a schedule that is paused from the beginning: it submits no run before
    /// [`resume`](Self::resume), which skips the times until then or catches up on them.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, StateKind, schedule::Schedule, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
    /// client.schedules().create_paused("weekly", report).await?;
    /// let created = client.schedules().get("weekly").await?;
    /// assert_eq!((created.state, created.next), (Some(StateKind::Paused), None));
    /// # Ok(()) }
    /// ```
    pub async fn create_paused(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        schedule: Schedule,
    ) -> Result<TaskId, Error> {
        let (task, _) = self.new_task(name(id)?, schedule)?;
        self.submit_new(task.paused()).await
    }

    async fn submit_new(&self, task: NewTask) -> Result<TaskId, Error> {
        match self.client.submit(task).await {
            Ok(created) => Ok(created.into_id()),
            Err(Error::AlreadyFinished { task, difference }) => match self.get(&task).await {
                Ok(_) => Err(Error::ScheduleEnded(task)),
                Err(_) => Err(Error::AlreadyFinished { task, difference }),
            },
            Err(error) => Err(error),
        }
    }

    /// Returns the task that [`create`](Self::create) submits, for a transaction or an effect.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] as for [`Schedule::check`].
    pub fn task(&self, id: TaskId, schedule: Schedule) -> Result<NewTask, Error> {
        let (task, due) = self.new_task(id, schedule)?;
        Ok(match due {
            Next::Sleep(due) => task.start_at(due),
            _ => task,
        })
    }

    /// Returns the task of a new schedule, and its first wait.
    fn new_task(&self, id: TaskId, schedule: Schedule) -> Result<(NewTask, Next), Error> {
        let now = self.client.store().clock().now();
        let spec = Schedule {
            since: Some(now),
            ..schedule
        };
        spec.check(id.as_str(), now)?;
        let times = Times::new(id.as_str(), &spec)?;
        let task = NewTask::new(KIND).id(id.to_string()).props(&spec);
        Ok((task, next(&times, &Data::default(), now)))
    }
}
