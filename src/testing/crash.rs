//! [`crash_everywhere`]: tests that a task resumes wherever its node is lost.

use std::panic::{self, AssertUnwindSafe};

use windlass_statemachine::{Invalid, StateKind, TaskType};

use super::simulation::{self, Builder, CrashPoint, Simulation};
use crate::{
    NewTask,
    client::Done,
    handler::{StatefulHandler, Typed},
    runner::spawn::panic_text,
};

/// Why a task did not survive the loss of its node.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The task cannot be submitted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The task does not end even if no node is lost.
    #[error("the task does not end without a crash: {0}")]
    Undisturbed(#[source] simulation::Error),
    /// The task does not end after the crash.
    #[error("the task does not end after a crash {point} of {writes}: {source}")]
    Lost {
        /// Where the node was lost.
        point: CrashPoint,
        /// The number of writes without a crash.
        writes: u64,
        /// Why the task does not end.
        source: simulation::Error,
    },
    /// The check panicked.
    #[error("the check failed after a crash {point} of {writes}: {text}")]
    Check {
        /// Where the node was lost.
        point: CrashPoint,
        /// The number of writes without a crash.
        writes: u64,
        /// The text of the panic.
        text: String,
    },
}

/// Runs a task once for each of its writes, loses the node there, and requires that the task ends.
///
/// Each run has a new store and the same handler.
///
/// # Flow
///
/// 1. Runs the task to its end in a [`Simulation`], and counts its writes.
/// 2. For each write, runs it twice more: the node is lost right before the write, then right after it.
///    A second node takes over.
/// 3. Calls `check` with the end of each run. A check fails by panicking, as `assert!` does. A panic
///    after a crash becomes [`CrashError::Check`]; a panic without a crash is not caught.
///
/// # Errors
///
/// [`CrashError`], which names the write. The first failure ends the test.
///
/// # Caveats
///
/// - A lost node counts as an attempt: a task with [`Retry::Never`](crate::Retry::Never) fails.
/// - A handler that has state of its own keeps it from run to run, and what is outside keeps the effects of each run:
///   [`Builder::before`] resets both, with [`Builder::crash_everywhere`].
///
/// # Example
///
/// ```
/// use windlass::{BoxError, Message, NewTask, TaskContext, testing};
///
/// async fn sum(task: TaskContext) -> Result<Message, BoxError> {
///     let numbers: Vec<u32> = task.props()?;
///     let (mut next, mut sum): (usize, u32) = task.data()?.unwrap_or_default();
///     while let Some(number) = numbers.get(next) {
///         (next, sum) = (next + 1, sum + number);
///         task.checkpoint(&(next, sum)).await?;
///     }
///     Ok(Message::complete_with(sum))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let task = NewTask::new("sum").props(&[1, 2, 3]);
/// let crashes = testing::crash_everywhere(sum, task, |done| {
///     assert_eq!(done.result::<u32>().unwrap(), 6);
/// })
/// .await?;
/// assert_eq!(crashes.writes, 4); // three checkpoints, and the end
/// # Ok(()) }
/// ```
pub async fn crash_everywhere<J: TaskType, M: 'static>(
    handler: impl StatefulHandler<J, M>,
    task: impl Into<NewTask<J>>,
    check: impl Fn(&Done),
) -> Result<Crashes, CrashError> {
    let task: NewTask<J> = task.into();
    let kind = task.clone().build()?.task.kind.to_string();
    let builder = Simulation::builder().handler(kind, Typed::new(handler));
    builder.crash_everywhere(task.untyped(), check).await
}

/// The result of [`crash_everywhere`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crashes {
    /// The number of writes without a crash.
    pub writes: u64,
    /// The points at which a node was lost, in order.
    pub points: Vec<CrashPoint>,
    /// The state in which the task ended: without a crash, then for each of the points.
    pub ends: Vec<StateKind>,
}

impl Builder {
    /// Runs [`crash_everywhere`] for a task that needs several kinds, or kinds with a
    /// [`KindConfig`](crate::KindConfig), or state. The writes of every task count.
    ///
    /// All runs share the values of [`state`](Self::state); [`before`](Self::before) is called before each run.
    ///
    /// # Errors
    ///
    /// [`CrashError`].
    pub async fn crash_everywhere(
        self,
        task: NewTask,
        check: impl Fn(&Done),
    ) -> Result<Crashes, CrashError> {
        // An invalid task is reported before any crash.
        task.clone().build()?;
        let undisturbed = self.clone().run_once(&task, None).await;
        let (done, writes) = undisturbed.map_err(CrashError::Undisturbed)?;
        check(&done);
        let mut crashes = Crashes {
            writes,
            points: Vec::new(),
            ends: vec![done.code()],
        };
        for write in 1..=writes {
            for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
                let ran = self.clone().run_once(&task, Some(point)).await;
                let (done, _) = ran.map_err(|source| CrashError::Lost {
                    point,
                    writes,
                    source,
                })?;
                panic::catch_unwind(AssertUnwindSafe(|| check(&done))).map_err(|payload| {
                    let text = panic_text(payload.as_ref());
                    CrashError::Check {
                        point,
                        writes,
                        text,
                    }
                })?;
                crashes.points.push(point);
                crashes.ends.push(done.code());
            }
        }
        Ok(crashes)
    }

    /// Runs a task to its end on a fresh store, with at most one crash.
    async fn run_once(
        self,
        task: &NewTask,
        crash: Option<CrashPoint>,
    ) -> Result<(Done, u64), simulation::Error> {
        let mut simulation = self.start().await?;
        if let Some(point) = crash {
            simulation.crash_at(point);
        }
        let id = simulation.client().submit(task.clone()).await?;
        let done = simulation.run(&id).await?;
        Ok((done, simulation.writes()))
    }
}
