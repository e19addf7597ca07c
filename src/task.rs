//! [`NewTask`]: how a task is put together before it is submitted.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Invalid, Json, Kind, Retry, SubmitTask, Task, TaskId, Wake, task::Labels,
};

use crate::{
    clock::SystemClock,
    store::{IfExists, Submit},
};

/// A task to submit. What is wrong with it is told by [`build`](Self::build) or by the submit, with
/// the field's name.
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
#[derive(Debug, Clone)]
pub struct NewTask {
    kind: String,
    id: Option<String>,
    props: Result<Json, Invalid>,
    start: Option<Wake>,
    priority: i32,
    labels: Labels,
    retry: Option<Retry>,
    if_exists: IfExists,
}

impl NewTask {
    /// A task of a kind. Without an [`id`](Self::id) it gets a UUID (version 7, so that ids sort by
    /// time).
    pub fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            id: None,
            props: Ok(Json::null()),
            start: None,
            priority: 0,
            labels: Labels::new(),
            retry: None,
            if_exists: IfExists::Refuse,
        }
    }

    /// Its name, unique in the namespace.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What the handler is to work on: anything that has a JSON form.
    #[must_use]
    pub fn props<T: Serialize + ?Sized>(mut self, props: &T) -> Self {
        self.props = Json::new("props", props);
        self
    }

    /// As [`props`](Self::props), of JSON text.
    #[must_use]
    pub fn props_json(mut self, text: &str) -> Self {
        self.props = Json::parse("props", text);
        self
    }

    /// Not before this time. Replaces [`start_in`](Self::start_in).
    #[must_use]
    pub fn start_at(mut self, at: Timestamp) -> Self {
        self.start = Some(Wake::At(at));
        self
    }

    /// Not before this long from now. Replaces [`start_at`](Self::start_at).
    ///
    /// The time is counted from [`Client::submit`](crate::Client::submit), by the store's clock; as an
    /// effect ([`Message::and_submit`](crate::Message::and_submit)) from when the message is applied;
    /// otherwise from [`build`](Self::build), by the clock of this machine.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Client, Code, Message, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let hour = Duration::from_secs(3600);
    /// client.submit(NewTask::new("mail").id("reminder").start_in(hour)).await?;
    /// assert_eq!(client.get("reminder").await?.state?.code(), Code::Sleeping);
    ///
    /// // A handler's message.
    /// let message = Message::complete().and_submit(NewTask::new("mail").start_in(hour));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn start_in(mut self, wait: Duration) -> Self {
        self.start = Some(Wake::After(wait));
        self
    }

    /// Tasks with a greater priority are claimed first; 0 by default.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// What follows a failed attempt; the kind's policy by default.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Submitting it again, with the same kind and props of the same value, is no error and makes no
    /// second task ([`IfExists::Same`]).
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.if_exists = IfExists::Same;
        self
    }

    /// It may take the place of a task with that id that has ended.
    #[must_use]
    pub fn replace_finished(mut self) -> Self {
        self.if_exists = IfExists::ReplaceFinished;
        self
    }

    /// Checks the names and makes the task.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming the field.
    pub fn build(self) -> Result<Submit, Invalid> {
        self.build_at(SystemClock::shared().now())
    }

    /// As [`build`](Self::build), at this time.
    pub(crate) fn build_at(self, now: Timestamp) -> Result<Submit, Invalid> {
        let id = match self.id {
            Some(id) => TaskId::new(id)?,
            None => TaskId::new(uuid::Uuid::now_v7().to_string())?,
        };
        let mut task = Task::new(id, Kind::new(self.kind)?);
        task.props = self.props?;
        task.start_at = self.start.map(|start| start_at(start, now)).transpose()?;
        task.priority = self.priority;
        task.labels = self.labels;
        task.retry = self.retry;
        task.check(usize::MAX)?;
        Ok(Submit {
            task,
            if_exists: self.if_exists,
        })
    }
}

fn start_at(start: Wake, now: Timestamp) -> Result<Timestamp, Invalid> {
    let beyond = "is beyond the year 9999; start the task sooner";
    start
        .resolve(now)
        .map_err(|_| Invalid::new("start_in", beyond))
}

impl TryFrom<NewTask> for SubmitTask {
    type Error = Invalid;
    fn try_from(mut new: NewTask) -> Result<Self, Invalid> {
        let start_in = match new.start {
            Some(Wake::After(wait)) => Some(wait),
            Some(Wake::At(_)) | None => None,
        };
        if start_in.is_some() {
            new.start = None;
        }
        let task = new.try_into()?;
        Ok(Self { task, start_in })
    }
}

impl TryFrom<NewTask> for Task {
    type Error = Invalid;
    fn try_from(new: NewTask) -> Result<Self, Invalid> {
        new.build().map(|submit| submit.task)
    }
}
