//! Submits of tasks.

use windlass_statemachine::TaskId;

use super::{Client, Handle, only};
use crate::{
    store::{Error, Operation, Submitted, rules},
    task::NewTask,
};

impl Client {
    /// Submits a task. When this returns, the task is durable: it will be run in spite of crashes.
    ///
    /// Takes a [`NewTask`], or a value of a typed kind ([`Job`](crate::Job)). If the submit finds an existing task, by its
    /// id or by its unique key ([`NewTask::unique`]), the handle refers to that task.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] naming the field, [`Error::TooLarge`], [`Error::AlreadyExists`],
    /// [`Error::AlreadyFinished`], [`Error::NotUnique`], [`Error::Unavailable`].
    pub async fn submit<J>(&self, task: impl Into<NewTask<J>>) -> Result<Handle<J>, Error> {
        only(self.submit_many([task]).await)
    }

    /// Submits many tasks in one call, and returns the results in their order. Each succeeds or fails
    /// on its own, like [`submit`](Self::submit).
    pub async fn submit_many<J, T: Into<NewTask<J>>>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> Vec<Result<Handle<J>, Error>> {
        let limit = self.store.registry().limits().max_bytes;
        let now = self.store.clock().now();
        let mut good = Vec::new();
        let checked: Vec<Result<TaskId, Error>> = tasks
            .into_iter()
            .map(|task| {
                let submit = task.into().build_at(now)?;
                rules::submit::check(&submit, limit)?;
                let id = submit.task.id.clone();
                good.push(submit);
                Ok(id)
            })
            .collect();
        let mut stored = if good.is_empty() {
            Vec::new().into_iter()
        } else {
            self.apply_each(good, Operation::Submit).await.into_iter()
        };
        let handle = |id| {
            let applied = stored.next().unwrap_or_else(|| only(Vec::new()))?;
            let submitted = applied.submitted()?;
            let id = match &submitted {
                Submitted::Other { task, .. } => task.clone(),
                Submitted::New | Submitted::Existing(_) => id,
            };
            Ok(Handle::new(self.clone(), id, Some(submitted)))
        };
        let mut handle = handle;
        checked.into_iter().map(|id| handle(id?)).collect()
    }
}
