//! [`NewTask`]: a builder of tasks to submit.

mod after;
mod existing;
mod terms;

use std::{fmt, marker::PhantomData, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Invalid, Job, Json, Kind, Retry, SubmitTask, Task, TaskId, Untyped, Waits, Wake, task::Labels,
    wire::TaskForm,
};

use crate::{
    clock::SystemClock,
    store::{IfExists, Submit},
};

/// A task to submit. Invalid input is reported by [`build`](Self::build) or by the submit, with the
/// name of the field.
///
/// # Example
///
/// ```
/// use windlass::NewTask;
///
/// let task = NewTask::new("report")
///     .id("report-2026-11")
///     .props(&serde_json::json!({"month": "2026-11"}))
///     .priority(10)
///     .label("team", "billing")
///     .build()?;
/// assert_eq!(task.task.id.as_str(), "report-2026-11");
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[must_use]
pub struct NewTask<J = Untyped> {
    kind: Result<Kind, Invalid>,
    id: Option<Result<TaskId, Invalid>>,
    props: Result<Json, Invalid>,
    start: Option<Wake>,
    priority: i32,
    labels: Labels,
    retry: Option<Retry>,
    waits: Option<Result<Waits, Invalid>>,
    deadline: Option<Wake>,
    terms: terms::NewTerms,
    paused: bool,
    if_exists: IfExists,
    job: PhantomData<fn() -> J>,
}

impl<J> Clone for NewTask<J> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            id: self.id.clone(),
            props: self.props.clone(),
            start: self.start,
            priority: self.priority,
            labels: self.labels.clone(),
            retry: self.retry.clone(),
            waits: self.waits.clone(),
            deadline: self.deadline,
            terms: self.terms.clone(),
            paused: self.paused,
            if_exists: self.if_exists,
            job: PhantomData,
        }
    }
}

impl<J> fmt::Debug for NewTask<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTask")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<J: Job> NewTask<J> {
    /// Returns a task of a [`Job`], with the retry policy ([`Job::retry`]) and the limits ([`Job::limits`]) of the job.
    /// Without options, pass the job itself: it converts into a task.
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{Job, NewTask};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail { to: String }
    /// impl Job for Mail {
    ///     const KIND: &str = "mail";
    ///     type Data = ();
    ///     type Output = ();
    /// }
    ///
    /// let task = NewTask::of(Mail { to: "a@b.example".into() }).id("welcome-7").build()?;
    /// assert_eq!(task.task.kind.as_str(), "mail");
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn of(job: J) -> Self {
        let mut task = Self::with(Kind::new(J::KIND), Json::new("props", &job));
        task.retry = J::retry();
        task.terms.of_job(job.limits());
        task
    }
}

impl<J: Job> From<J> for NewTask<J> {
    fn from(job: J) -> Self {
        Self::of(job)
    }
}

impl NewTask {
    /// Returns a task of a kind. Without an [`id`](Self::id) it gets a UUID (version 7, so that ids
    /// sort by time).
    pub fn new(kind: impl Into<String>) -> Self {
        Self::with(Kind::new(kind.into()), Ok(Json::null()))
    }

    /// Sets the input of the handler: any value with a JSON form.
    pub fn props<T: Serialize + ?Sized>(mut self, props: &T) -> Self {
        self.props = Json::new("props", props);
        self
    }

    /// Sets the input of the handler to JSON text.
    pub fn props_json(mut self, text: &str) -> Self {
        self.props = Json::parse("props", text);
        self
    }
}

impl<J> NewTask<J> {
    /// Returns the same task without the type of its kind.
    pub fn untyped(self) -> NewTask {
        NewTask {
            kind: self.kind,
            id: self.id,
            props: self.props,
            start: self.start,
            priority: self.priority,
            labels: self.labels,
            retry: self.retry,
            waits: self.waits,
            deadline: self.deadline,
            terms: self.terms,
            paused: self.paused,
            if_exists: self.if_exists,
            job: PhantomData,
        }
    }

    fn with(kind: Result<Kind, Invalid>, props: Result<Json, Invalid>) -> Self {
        Self {
            kind,
            id: None,
            props,
            start: None,
            priority: 0,
            labels: Labels::new(),
            retry: None,
            waits: None,
            deadline: None,
            terms: terms::NewTerms::default(),
            paused: false,
            if_exists: IfExists::Refuse,
            job: PhantomData,
        }
    }

    /// Sets the id, unique in the namespace.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(TaskId::new(id.into()));
        self
    }

    /// Sets the earliest time at which the task starts. Replaces [`start_in`](Self::start_in).
    pub fn start_at(mut self, at: Timestamp) -> Self {
        self.start = Some(Wake::At(at));
        self
    }

    /// Sets the shortest time from now after which the task starts. Replaces
    /// [`start_at`](Self::start_at).
    ///
    /// The time counts from [`Client::submit`](crate::Client::submit), by the store's clock. For an
    /// effect ([`Message::and_submit`](crate::Message::and_submit)) it counts from when the message is
    /// applied, by the node's clock; otherwise from [`build`](Self::build), by the clock of this machine. Every other
    /// duration of a new task is counted in the same way.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Client, StateKind, Message, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let hour = Duration::from_secs(3600);
    /// client.submit(NewTask::new("mail").id("reminder").start_in(hour)).await?;
    /// assert_eq!(client.get("reminder").await?.state?.code(), StateKind::Sleeping);
    ///
    /// // A handler's message.
    /// let message: Message = Message::complete().and_submit(NewTask::new("mail").start_in(hour));
    /// # Ok(()) }
    /// ```
    pub fn start_in(mut self, wait: Duration) -> Self {
        self.start = Some(Wake::After(wait));
        self
    }

    /// Sets the priority: tasks with a greater one are claimed first; 0 by default.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the retry policy, which decides what follows a failed attempt: by default that of the [`Job`]
    /// ([`Job::retry`]), or else that of the kind on the node that runs the task.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Frees its id when it has completed: each later submit of the id makes a new task in its place, even a submit
    /// that would otherwise be refused or return the same task. The record of the completed task stays until then, and
    /// at most for the retention. A task that has failed or was killed keeps its id.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, NewTask, store::{Error, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let sync = || NewTask::new("sync").id("sync-ann").free_id();
    /// client.submit(sync()).await?;
    /// let Err(Error::AlreadyExists { .. }) = client.submit(sync()).await else {
    ///     panic!("it has not completed");
    /// };
    /// # Ok(()) }
    /// ```
    pub fn free_id(mut self) -> Self {
        self.terms.free_id = true;
        self
    }

    /// Submits it paused: no node claims it before a command resumes it
    /// ([`Command::Run`](crate::Command::Run)). Not allowed together with a start or tasks to wait
    /// for.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, StateKind, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("mail").id("draft").paused()).await?;
    /// assert_eq!(client.get("draft").await?.state?.code(), StateKind::Paused);
    /// # Ok(()) }
    /// ```
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Checks the names and makes the task. Durations, such as [`start_in`](Self::start_in), count from now, by the
    /// clock of the operating system (in a submit, by the clock of the store).
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field.
    pub fn build(self) -> Result<Submit, Invalid> {
        self.build_at(SystemClock::shared().now())
    }

    /// Like [`build`](Self::build), with the time from which durations count.
    pub(crate) fn build_at(self, now: Timestamp) -> Result<Submit, Invalid> {
        let submit = SubmitTask::resolve(self.submit()?, now)?;
        submit.task.check(usize::MAX)?;
        Ok(submit)
    }

    /// Returns the task with the durations that were given for its times.
    fn submit(self) -> Result<SubmitTask, Invalid> {
        let id = match self.id {
            Some(id) => id?,
            None => TaskId::new(crate::unique_id::new().to_string())?,
        };
        let mut submit = SubmitTask::from(Task::new(id, self.kind?));
        submit.if_exists = self.if_exists;
        let task = &mut submit.task;
        task.props = self.props?;
        (task.start_at, submit.start_in) = split(self.start);
        task.priority = self.priority;
        task.labels = self.labels;
        task.retry = self.retry;
        task.waits = after::waits(self.waits, self.deadline)?;
        let deadline;
        (deadline, submit.after_within) = split(self.deadline);
        if let Some(waits) = &mut task.waits {
            waits.deadline = deadline;
        }
        task.paused = self.paused;
        self.terms.put(&mut submit)?;
        Ok(submit)
    }
}

/// Returns a time that was given as one, and one that was given by a duration.
fn split(wake: Option<Wake>) -> (Option<Timestamp>, Option<Duration>) {
    match wake {
        Some(Wake::At(at)) => (Some(at), None),
        Some(Wake::After(wait)) => (None, Some(wait)),
        None => (None, None),
    }
}

impl<J> TryFrom<NewTask<J>> for SubmitTask {
    type Error = Invalid;
    fn try_from(new: NewTask<J>) -> Result<Self, Invalid> {
        let submit = new.submit()?;
        submit.task.check(usize::MAX)?;
        Ok(submit)
    }
}

impl From<Task> for NewTask {
    fn from(task: Task) -> Self {
        Self {
            terms: terms::NewTerms::of(&task),
            paused: task.paused,
            kind: Ok(task.kind),
            id: Some(Ok(task.id)),
            props: Ok(task.props),
            start: task.start_at.map(Wake::At),
            priority: task.priority,
            labels: task.labels,
            retry: task.retry,
            deadline: (task.waits.as_ref())
                .and_then(|waits| waits.deadline)
                .map(Wake::At),
            waits: task.waits.map(|waits| Ok(*waits)),
            if_exists: IfExists::Refuse,
            job: PhantomData,
        }
    }
}

impl TryFrom<TaskForm> for NewTask {
    type Error = Invalid;
    /// Converts a form into a task. A form without an id gets a UUID.
    fn try_from(mut form: TaskForm) -> Result<Self, Invalid> {
        form.id
            .get_or_insert_with(|| crate::unique_id::new().to_string());
        form.into_task().map(Self::from)
    }
}

impl From<Submit> for NewTask {
    fn from(submit: Submit) -> Self {
        Self {
            if_exists: submit.if_exists,
            ..submit.task.into()
        }
    }
}

impl<J> TryFrom<NewTask<J>> for Task {
    type Error = Invalid;
    fn try_from(new: NewTask<J>) -> Result<Self, Invalid> {
        new.build().map(|submit| submit.task)
    }
}
