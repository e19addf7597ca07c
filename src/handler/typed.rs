//! [`Typed`]: adapts the handler of a job to untyped tasks.

use std::marker::PhantomData;

use async_trait::async_trait;
use windlass_statemachine::{Message, TaskType};

use super::{StatefulHandler, TaskContext};

/// The handler of a job, as a handler of untyped tasks: reads the props, and migrates the data.
pub(crate) struct Typed<J, M, H> {
    handler: H,
    job: PhantomData<fn() -> (J, M)>,
}

impl<J, M, H> Typed<J, M, H> {
    pub(crate) fn new(handler: H) -> Self {
        Self {
            handler,
            job: PhantomData,
        }
    }
}

#[async_trait]
impl<J, M, H> StatefulHandler for Typed<J, M, H>
where
    J: TaskType,
    M: 'static,
    H: StatefulHandler<J, M>,
{
    async fn run(&self, task: TaskContext) -> Message {
        match task.typed() {
            Ok(task) => self.handler.run(task).await.untyped(),
            Err(unreadable) => Message::fail(unreadable),
        }
    }

    fn data_version(&self) -> u32 {
        self.handler.data_version()
    }

    fn takes_signals(&self) -> bool {
        self.handler.takes_signals()
    }
}
