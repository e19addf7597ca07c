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

/// Returns the handler of a typed kind as a [`StatefulHandler`], for what takes one: the helpers of
/// `testing`, [`Builder::default_handler`](crate::runner::Builder::default_handler), a wrapper.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, JobContext, JobMessage, StatefulHandler, job};
///
/// #[derive(Serialize, Deserialize)]
/// struct Double(u64);
/// impl Job for Double {
///     const KIND: &str = "double";
///     type Data = ();
///     type Output = u64;
/// }
/// async fn double(task: JobContext<Double>) -> JobMessage<Double> {
///     JobMessage::complete(task.job().0 * 2)
/// }
/// # fn takes(_: impl StatefulHandler) {}
/// takes(job::handler(double));
/// ```
pub fn handler<J: Job>(handler: impl JobHandler<J>) -> impl StatefulHandler {
    Typed::new(handler)
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

    fn data_version(&self) -> u32 {
        J::DATA_VERSION
    }
}
