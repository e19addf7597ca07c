//! [`JobContext`]: a [`TaskContext`] whose props and data have types.

use std::{fmt, ops::Deref, sync::Arc};

use serde::Serialize;
use windlass_statemachine::{Invalid, Json, Signal};

use super::Job;
use crate::{AnswerError, CheckpointError, TaskContext};

/// A task of a typed kind, as its running handler sees it. Clones are the same task.
///
/// Everything that does not depend on the type is on [`TaskContext`], to which it dereferences: id,
/// attempt, fence, stop, commands, progress.
///
/// # Example
///
/// See [`job`](super).
pub struct JobContext<J> {
    task: TaskContext,
    job: Arc<J>,
}

impl<J: Job> JobContext<J> {
    /// Reads the props of a task, and migrates its data.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `props` when they are not of this type, field `data` when older data could not
    /// be migrated.
    pub(crate) fn new(task: TaskContext) -> Result<Self, Invalid> {
        let job = Arc::new(task.props()?);
        task.migrate(|from, data| {
            let migrated = J::migrate(from, data)?;
            Ok(Json::new("data", &migrated)?)
        })?;
        Ok(Self { task, job })
    }

    /// The props: the value that was submitted.
    pub fn job(&self) -> &J {
        &self.job
    }

    /// Returns the data of the last checkpoint (or of the last message that brought data); `None` when
    /// there has been none. Data of an older version was migrated by [`Job::migrate`].
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `data`) when it is not of the type of the kind.
    pub fn data(&self) -> Result<Option<J::Data>, Invalid> {
        self.task.data()
    }

    /// Persists data and goes on, as [`TaskContext::checkpoint`].
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; nothing was persisted then.
    pub async fn checkpoint(&self, data: &J::Data) -> Result<(), CheckpointError> {
        self.task.checkpoint(data).await
    }

    /// Replies to a signal and persists data in the same write, as [`TaskContext::answer_with`].
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was stored then.
    pub async fn answer_with<T: Serialize + ?Sized + Sync>(
        &self,
        signal: &Signal,
        reply: &T,
        data: &J::Data,
    ) -> Result<(), AnswerError> {
        self.task.answer_with(signal, reply, data).await
    }
}

impl<J> Deref for JobContext<J> {
    type Target = TaskContext;
    fn deref(&self) -> &TaskContext {
        &self.task
    }
}

impl<J> Clone for JobContext<J> {
    fn clone(&self) -> Self {
        Self {
            task: self.task.clone(),
            job: self.job.clone(),
        }
    }
}

impl<J> fmt::Debug for JobContext<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.task.fmt(f)
    }
}
