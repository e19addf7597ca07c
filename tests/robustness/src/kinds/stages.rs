//! Three kinds through which a task goes under its id: each counts a third of the total and then sleeps, until
//! the test moves the task to the next kind.

use std::{sync::Arc, time::Duration};

use windlass::{BoxError, Message, TaskContext, runner::Builder};

use super::{Run, config};
use crate::{terms::Terms, witness::Journal};

/// The kinds, in the order in which a task gets them. They are below one prefix.
pub const STAGES: [&str; 3] = ["stage/read", "stage/work", "stage/write"];

/// How long a task sleeps at the end of a stage: longer than any run lasts.
const UNTIL_MOVED: Duration = Duration::from_secs(24 * 3600);

/// Adds the handlers of the stages that a node takes.
pub(super) fn add(mut builder: Builder, journal: &Arc<Journal>, terms: &Terms) -> Builder {
    for (stage, kind) in (0..).zip(STAGES).filter(|(_, kind)| terms.take(kind)) {
        let journal = journal.clone();
        builder = builder.handler_with(kind, config(kind), move |task: TaskContext| {
            let journal = journal.clone();
            async move { Run::start(journal, task)?.stage(stage).await }
        });
    }
    builder
}

impl Run {
    async fn stage(mut self, stage: u64) -> Result<Message, BoxError> {
        let end = self.job.total * (stage + 1) / STAGES.len() as u64;
        while self.n < end {
            if let Some(message) = self.moment().await {
                return Ok(message);
            }
            self.checkpoint().await?;
        }
        match self.n >= self.job.total {
            true => Ok(Message::complete_with(&self.n)),
            false => Ok(Message::sleep_for(UNTIL_MOVED)),
        }
    }
}
