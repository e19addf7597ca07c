//! [`JobHandler`]: the code for a typed kind.

use std::{future::Future, marker::PhantomData};

use async_trait::async_trait;
use windlass_statemachine::Message;

use super::{IntoJobMessage, Job, JobContext, JobMessage};
use crate::{StatefulHandler, TaskContext};

/// The code for a typed kind. Async functions and closures from a [`JobContext`] to anything that is
/// [`IntoJobMessage`] implement it.
///
/// The guarantees are those of [`StatefulHandler`].
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, JobContext, JobHandler, JobMessage};
///
/// #[derive(Serialize, Deserialize)]
/// struct Mail { to: String }
/// impl Job for Mail {
///     const KIND: &str = "mail";
///     type Data = ();
///     type Output = ();
/// }
///
/// struct Mailer { from: String }
///
/// #[windlass::async_trait]
/// impl JobHandler<Mail> for Mailer {
///     async fn run(&self, task: JobContext<Mail>) -> JobMessage<Mail> {
///         println!("mail from {} to {}", self.from, task.job().to);
///         JobMessage::complete(())
///     }
/// }
/// ```
#[async_trait]
pub trait JobHandler<J: Job>: Send + Sync + 'static {
    /// Works on a task until there is a message about it.
    async fn run(&self, task: JobContext<J>) -> JobMessage<J>;
}

#[async_trait]
impl<J, F, Fut> JobHandler<J> for F
where
    J: Job,
    F: Fn(JobContext<J>) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoJobMessage<J>,
{
    async fn run(&self, task: JobContext<J>) -> JobMessage<J> {
        self(task).await.into_job_message()
    }
}

/// The handler of a typed kind, as a [`StatefulHandler`].
pub(crate) struct Typed<J, H> {
    handler: H,
    job: PhantomData<fn() -> J>,
}

impl<J, H> Typed<J, H> {
    pub(crate) fn new(handler: H) -> Self {
        Self {
            handler,
            job: PhantomData,
        }
    }
}

#[async_trait]
impl<J: Job, H: JobHandler<J>> StatefulHandler for Typed<J, H> {
    async fn run(&self, task: TaskContext) -> Message {
        match JobContext::new(task) {
            Ok(task) => self.handler.run(task).await.into(),
            Err(unreadable) => Message::fail(unreadable),
        }
    }
}
