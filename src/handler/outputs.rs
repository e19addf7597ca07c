//! [`WaitedTasks`] and [`Outputs`]: the tasks that a run has waited for, and what they completed with.

use std::{fmt, marker::PhantomData, ops::Deref, sync::Arc};

use futures::{Stream, stream};
use serde::de::DeserializeOwned;
use windlass_statemachine::{Invalid, Json, TaskId, TaskStatus, WaitOutcome, Waited};

use crate::{
    client::{ById, Done, TaskFailed},
    store::{Error, Store, TaskRecord},
};

/// The tasks that a run has waited for, in the order in which they were named: a slice of [`Waited`], each with its id and
/// its outcome. [`outputs`](Self::outputs) reads their results from the store.
///
/// # Example
///
/// ```
/// use windlass::{BoxError, Message, TaskContext, testing::Call};
///
/// async fn total(task: TaskContext) -> Result<Message, BoxError> {
///     let (mut sum, mut failures) = (0, Vec::new());
///     let mut parts = task.waited().outputs::<u64>();
///     while let Some(part) = parts.next().await? {
///         match part.output {
///             Ok(number) => sum += number,
///             Err(reason) => failures.push(reason.to_string()),
///         }
///     }
///     Ok(Message::complete_with((sum, failures)))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let call = Call::new().waited_output("a", &40).waited_output("b", &2).waited_failure("c", "no such file");
/// let (sum, failures): (u64, Vec<String>) = call.run(total).await?.result()?.unwrap();
/// assert_eq!((sum, &*failures), (42, &["task 'c' failed: no such file".to_owned()][..]));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct WaitedTasks {
    list: Vec<Waited>,
    store: Arc<Store>,
}

impl WaitedTasks {
    pub(crate) fn new(list: Vec<Waited>, store: Arc<Store>) -> Self {
        Self { list, store }
    }

    /// Returns a reader of the results of these tasks, as a type of your choice; [`Json`] for results of several types.
    ///
    /// Nothing is read before the first call of [`Outputs::next`]. The reader holds about 1 MiB of results at a time,
    /// however many tasks there are.
    pub fn outputs<T: DeserializeOwned>(&self) -> Outputs<T> {
        let ids = self.list.iter().map(|waited| waited.task.clone());
        Outputs {
            tasks: ById::new(self.store.registry(), ids),
            waited: self.list.clone().into_iter(),
            output: PhantomData,
        }
    }
}

impl Deref for WaitedTasks {
    type Target = [Waited];
    fn deref(&self) -> &[Waited] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a WaitedTasks {
    type Item = &'a Waited;
    type IntoIter = std::slice::Iter<'a, Waited>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl fmt::Debug for WaitedTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

/// Reads the results of the tasks that a run has waited for, one after the other: [`WaitedTasks::outputs`].
///
/// # Guarantees
///
/// - Each task comes once, in the order in which the tasks were named, also one that has no output.
/// - The results are those of now. A task that was retried, submitted again, deleted or pruned after the claim of this run has
///   no output, although its [`outcome`](WaitedTask::outcome) says that it completed. Retention prunes ended tasks after
///   7 days by default.
pub struct Outputs<T> {
    tasks: ById,
    /// The tasks that follow.
    waited: std::vec::IntoIter<Waited>,
    output: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Outputs<T> {
    /// Returns the next task with its output, or with the reason why it has none; `None` at the end.
    ///
    /// # Errors
    ///
    /// The error of the store when it does not respond. The next call reads the same task again.
    pub async fn next(&mut self) -> Result<Option<WaitedTask<T>>, Error> {
        let Some((task, record)) = self.tasks.next().await? else {
            return Ok(None);
        };
        // Both have the same tasks in the same order.
        let waited = self.waited.next().filter(|waited| waited.task == task);
        Ok(Some(WaitedTask {
            outcome: waited.map_or(WaitOutcome::Unknown, |waited| waited.outcome),
            output: output_of(&task, record),
            task,
        }))
    }

    /// Returns the outputs of all tasks that follow, in order. Reads them all into memory: for tasks with small results.
    ///
    /// # Errors
    ///
    /// [`OutputsError`]: the first task without an output ends the call, and so does an error of the store.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, testing::Call};
    ///
    /// async fn join(task: TaskContext) -> Result<Message, BoxError> {
    ///     let words: Vec<String> = task.waited().outputs().all().await?;
    ///     Ok(Message::complete_with(words.join(" ")))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new().waited_output("a", "every").waited_output("b", "part");
    /// assert_eq!(call.clone().run(join).await?.result::<String>()?.unwrap(), "every part");
    /// let ran = call.waited_failure("c", "no disk").run(join).await?;
    /// assert_eq!(ran.error(), Some("task 'c' failed: no disk"));
    /// # Ok(()) }
    /// ```
    pub async fn all(mut self) -> Result<Vec<T>, OutputsError> {
        let mut all = Vec::with_capacity(self.waited.len());
        while let Some(task) = self.next().await? {
            all.push(task.output?);
        }
        Ok(all)
    }

    /// Returns the tasks as a stream, for the combinators of the crate `futures`. An error of the store ends it.
    ///
    /// # Example
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// use windlass::{BoxError, Message, TaskContext, testing::Call};
    ///
    /// async fn count(task: TaskContext) -> Result<Message, BoxError> {
    ///     let stream = task.waited().outputs::<u64>().into_stream();
    ///     let completed = stream.try_filter(|one| std::future::ready(one.output.is_ok()));
    ///     let count = completed.try_fold(0, |sum, _| async move { Ok(sum + 1) }).await?;
    ///     Ok(Message::complete_with(count))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new().waited_output("a", &1).waited_failure("b", "no");
    /// assert_eq!(call.run(count).await?.result()?, Some(1));
    /// # Ok(()) }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<WaitedTask<T>, Error>> + Send {
        stream::try_unfold(self, |mut outputs| async move {
            let task = outputs.next().await?;
            Ok(task.map(|task| (task, outputs)))
        })
    }
}

impl<T> fmt::Debug for Outputs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.waited.len();
        f.debug_struct("Outputs").field("left", &left).finish()
    }
}

/// A task that a run has waited for, with its output.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WaitedTask<T = Json> {
    /// The task.
    pub task: TaskId,
    /// Its outcome when the run was claimed. Every attempt of the run gets the same.
    pub outcome: WaitOutcome,
    /// The result with which the task completed, or the reason why there is none. A task that completed without a result has
    /// the result `null`: use `()` or an `Option`.
    pub output: Result<T, NoOutput>,
}

impl<T> WaitedTask<T> {
    /// Returns how the task failed or was killed; `None` for every other task.
    pub fn failure(&self) -> Option<&TaskFailed> {
        match &self.output {
            Err(NoOutput::Failed(failed)) => Some(failed),
            _ => None,
        }
    }
}

/// Why a task that a run has waited for has no output.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NoOutput {
    /// The task failed, or was killed.
    #[error(transparent)]
    Failed(#[from] TaskFailed),
    /// The task completed, but its result is of another type.
    #[error("task '{task}' completed, but its result cannot be read: {reason}")]
    Unreadable {
        /// The task.
        task: TaskId,
        /// Why.
        #[source]
        reason: Invalid,
    },
    /// The task does not exist.
    #[error("task '{0}' does not exist: it never did, was deleted, or was pruned")]
    Missing(TaskId),
    /// The task has not ended: the wait has ended before it did, or the task was started again.
    #[error("task '{0}' has not ended")]
    Live(TaskId),
    /// The record of the task cannot be read.
    #[error("task '{task}' cannot be read: {reason}")]
    Quarantined {
        /// The task.
        task: TaskId,
        /// Why.
        #[source]
        reason: Error,
    },
}

/// Why there are no outputs of all tasks.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OutputsError {
    /// A task has no output.
    #[error(transparent)]
    NoOutput(#[from] NoOutput),
    /// The store reports an error.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Returns the output of a task, or why it has none.
fn output_of<T: DeserializeOwned>(
    task: &TaskId,
    record: Option<TaskRecord>,
) -> Result<T, NoOutput> {
    let task = task.clone();
    let Some(record) = record else {
        return Err(NoOutput::Missing(task));
    };
    match record.state {
        Err(reason) => Err(NoOutput::Quarantined { task, reason }),
        Ok(state) if !state.code().is_terminal() => Err(NoOutput::Live(task)),
        Ok(state) => match state.status {
            TaskStatus::Completed { result } => {
                let result = result.unwrap_or_else(Json::null).get("result");
                result.map_err(|reason| NoOutput::Unreadable { task, reason })
            }
            _ => {
                let done = Done {
                    task: record.task,
                    state,
                };
                Err(NoOutput::Failed(done.failed()))
            }
        },
    }
}
