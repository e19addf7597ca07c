//! The terms of a new task: its limits, its deadlines, its unique key and its `meta`.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Limit, Meta, SubmitTask, Task, Unique, Wake};

use super::{NewTask, split};

/// The terms as they were given, valid or not.
#[derive(Debug, Clone, Default)]
pub(super) struct NewTerms {
    start_by: Option<Wake>,
    end_by: Option<Wake>,
    unique: Option<Result<Unique, Invalid>>,
    limits: Vec<Limit>,
    /// Why the limits of the job are refused.
    wrong: Option<Invalid>,
    /// The labels whose values are keys of limits, each with its number.
    by_label: Vec<(String, u32)>,
    meta: Meta,
    pub(super) free_id: bool,
}

impl NewTerms {
    /// Returns the terms of a task.
    pub(super) fn of(task: &Task) -> Self {
        Self {
            start_by: task.start_by.map(Wake::At),
            end_by: task.end_by.map(Wake::At),
            unique: task.unique.clone().map(Ok),
            limits: task.limits.clone(),
            wrong: None,
            by_label: Vec::new(),
            meta: task.meta.clone(),
            free_id: task.free_id,
        }
    }

    /// Takes the limits of a job.
    pub(super) fn of_job(&mut self, limits: Result<Vec<Limit>, Invalid>) {
        match limits {
            Ok(limits) => self.limits = limits,
            Err(wrong) => self.wrong = Some(wrong),
        }
    }

    /// Sets these terms of a task.
    pub(super) fn put(self, submit: &mut SubmitTask) -> Result<(), Invalid> {
        let task = &mut submit.task;
        (task.start_by, submit.start_within) = split(self.start_by);
        (task.end_by, submit.end_within) = split(self.end_by);
        task.unique = self.unique.transpose()?;
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        task.limits = self.limits;
        task.meta = self.meta;
        task.free_id = self.free_id;
        for (label, most) in self.by_label {
            let Some(value) = task.labels.get(&label) else {
                let reason = format!(
                    "are by the label '{label}', which the task has not; give it the label"
                );
                return Err(Invalid::new("limits", reason));
            };
            task.limits
                .push(Limit::at_once(format!("{label}={value}"), most)?);
        }
        task.fill_limit_keys()?;
        Ok(())
    }
}

impl<J> NewTask<J> {
    /// Adds a limit that the task shares with every task of the namespace that has a limit with the same key:
    /// how many are claimed at once, or how many claims begin within a period. A task has up to 8 limits;
    /// none by default. The page `docs/learn/limits.md` describes the semantics.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Limit, NewTask};
    ///
    /// let call = NewTask::new("call")
    ///     .limit(Limit::at_once("customer=acme", 3)?)
    ///     .limit(Limit::starts("api", 100, Duration::from_secs(60))?);
    /// assert_eq!(call.build()?.task.limits.len(), 2);
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn limit(mut self, limit: Limit) -> Self {
        self.terms.limits.push(limit);
        self
    }

    /// Adds a limit whose key is a label with its value: at most `most` tasks with the same value are
    /// claimed at once. The submit is refused (field `limits`) when the task does not have the label.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::NewTask;
    ///
    /// let call = || NewTask::new("call").limit_by_label("customer", 3);
    /// let task = call().label("customer", "acme").build()?.task;
    /// assert_eq!(task.limits[0].key(), "customer=acme");
    /// assert_eq!(call().build().unwrap_err().field(), "limits");
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn limit_by_label(mut self, label: impl Into<String>, most: u32) -> Self {
        self.terms.by_label.push((label.into(), most));
        self
    }

    /// Adds text that travels with the task, such as `traceparent`: handlers and commands receive it
    /// ([`Meta`]). A task has up to 16 entries of up to 4,096 bytes together; none by default.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::NewTask;
    ///
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let task = NewTask::new("report").meta("traceparent", parent).build()?.task;
    /// assert_eq!(task.meta["traceparent"], parent);
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.terms.meta.insert(name.into(), value.into());
        self
    }

    /// Fails the task, without a run and without an attempt, unless a run of its handler has begun by this
    /// time. The deadline also holds while the task waits. Replaces [`start_within`](Self::start_within).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::NewTask;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let task = NewTask::new("report").start_within(hour).end_within(2 * hour).build()?.task;
    /// assert_eq!(task.end_by.unwrap().duration_since(task.start_by.unwrap()).as_secs(), 3600);
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn start_by(mut self, at: Timestamp) -> Self {
        self.terms.start_by = Some(Wake::At(at));
        self
    }

    /// Sets [`start_by`](Self::start_by) to a time this long from now. The duration is counted as that of
    /// [`start_in`](Self::start_in).
    pub fn start_within(mut self, wait: Duration) -> Self {
        self.terms.start_by = Some(Wake::After(wait));
        self
    }

    /// Fails the task unless it has ended by this time. The deadline also holds while the task waits. A
    /// running handler is asked to stop, and is aborted after its grace; of what it then returns, only the
    /// data is kept. Replaces [`end_within`](Self::end_within).
    pub fn end_by(mut self, at: Timestamp) -> Self {
        self.terms.end_by = Some(Wake::At(at));
        self
    }

    /// Sets [`end_by`](Self::end_by) to a time this long from now. The duration is counted as that of
    /// [`start_in`](Self::start_in).
    pub fn end_within(mut self, wait: Duration) -> Self {
        self.terms.end_by = Some(Wake::After(wait));
        self
    }

    /// Gives the task a unique key: until `within` after its submit (by the store's clock), no other task with
    /// the key can be submitted. A submit of another task with the key behaves as if the ids were equal. By
    /// default it is refused with [`Error::NotUnique`](crate::store::Error::NotUnique). With
    /// [`idempotent`](Self::idempotent) and [`skip_existing`](Self::skip_existing) it returns the other task.
    /// With [`replace_finished`](Self::replace_finished) it takes the key from a task that has ended, which
    /// stays in the store. With [`replace_waiting`](Self::replace_waiting) a task that waits for its time gets the props
    /// and the time of the submit. A task that is deleted or pruned has no key.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Client, NewTask, store::{Error, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let mail = || NewTask::new("mail").unique("mail-ann", Duration::from_secs(3600));
    /// let first = client.submit(mail()).await?;
    /// let Err(Error::NotUnique { task, .. }) = client.submit(mail()).await else {
    ///     panic!("the key is taken");
    /// };
    /// assert_eq!(task, *first.id());
    /// let again = client.submit(mail().skip_existing()).await?;
    /// assert_eq!(again.id(), first.id());
    /// # Ok(()) }
    /// ```
    pub fn unique(mut self, key: impl Into<String>, within: Duration) -> Self {
        self.terms.unique = Some(Unique::new(key, within));
        self
    }
}
