//! The handlers that the workers run: each keeps a count in its data that must never go back, and
//! records its runs, its writes and its acknowledgements.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use windlass::{
    ActionKind, BoxError, Command, CommandId, Fence, KindConfig, Message, Retry, Stop, Task,
    TaskContext, TaskId, runner::Builder,
};

mod batches;
mod crowd;
mod ids;
mod job;
mod pulled;
mod stages;

pub use batches::BATCHED;
pub use crowd::CROWD;
pub use ids::{STRAY, child, command_to_child, has_children, never, stray_child, stray_command};
pub use job::{Job, Kept};
pub use pulled::pull;
pub use stages::STAGES;

use crate::{
    terms::Terms,
    witness::{Journal, Said},
};

/// A sleep that is longer than this releases the claim.
pub const PARK_AFTER: Duration = Duration::from_millis(300);

/// The kinds, named after what they do.
pub const KINDS: [&str; 12] = [
    "steps", "naps", "waits", "flaky", "doomed", "deaf", "parent", "far", "again", "sower",
    "asked", CROWD,
];

/// Returns whether tasks of this kind stay parked.
pub fn stays(kind: &str) -> bool {
    matches!(kind, "far" | "again" | crate::passes::KIND)
}

/// Returns whether tasks of this kind may end in `failed`.
pub fn may_fail(kind: &str) -> bool {
    matches!(kind, "doomed" | "again")
}

/// Adds the handlers of a node to its builder.
pub fn add_all(mut builder: Builder, journal: &Arc<Journal>, terms: &Terms) -> Builder {
    for kind in KINDS.into_iter().filter(|kind| terms.take(kind)) {
        let journal = journal.clone();
        builder = builder.handler_with(kind, config(kind), move |task: TaskContext| {
            let journal = journal.clone();
            async move { Run::start(journal, task)?.work(kind).await }
        });
    }
    batches::add(stages::add(builder, journal, terms), journal, terms)
}

/// Returns whether a handler of this module runs the kind.
pub fn has(kind: &str) -> bool {
    KINDS.contains(&kind) || STAGES.contains(&kind) || kind == BATCHED
}

fn config(kind: &str) -> KindConfig {
    let grace = match kind {
        "deaf" => 150,
        // The node persists a requested checkpoint if the handler makes none in time.
        _ => 1000,
    };
    // A task must not fail for good because its nodes are killed so often.
    let retry = Retry::Exponential {
        base: Duration::from_millis(20),
        factor: 1.5,
        cap: Duration::from_millis(400),
        attempts: 1_000_000,
    };
    KindConfig::default()
        .stop_grace(Duration::from_millis(grace))
        .retry(retry)
}

/// One run of a handler. Its end is written down when it is dropped: returned, panicked or aborted.
struct Run {
    journal: Arc<Journal>,
    task: TaskContext,
    job: Job,
    n: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.journal.say(Said::End {
            task: self.task.id().clone(),
            fence: self.task.fence(),
        });
    }
}

impl Run {
    fn start(journal: Arc<Journal>, task: TaskContext) -> Result<Self, BoxError> {
        let kept: Option<Kept> = task.data()?;
        let n = kept.unwrap_or_default().n;
        journal.say(Said::Start {
            task: task.id().clone(),
            fence: task.fence(),
            n,
        });
        let job = task.props()?;
        Ok(Self {
            journal,
            task,
            job,
            n,
        })
    }

    async fn work(self, kind: &str) -> Result<Message, BoxError> {
        match kind {
            "naps" => self.naps().await,
            "waits" => self.waits().await,
            "flaky" => self.flaky().await,
            "doomed" => self.doomed().await,
            "deaf" => self.deaf().await,
            "parent" => self.parent().await,
            "far" => self.far().await,
            "again" => self.again().await,
            "sower" => self.sower().await,
            "asked" => self.asked().await,
            CROWD => self.crowd().await,
            _ => self.steps().await,
        }
    }

    fn asks(&self, n: u64) -> Kept {
        let (task, fence) = self.here();
        self.journal.say(Said::Asked { task, fence, n });
        Kept { n }
    }

    fn here(&self) -> (TaskId, Fence) {
        (self.task.id().clone(), self.task.fence())
    }

    async fn checkpoint(&mut self) -> Result<(), BoxError> {
        let n = self.n + 1;
        let kept = self.asks(n);
        self.task.checkpoint(&kept).await?;
        let (task, fence) = self.here();
        self.journal.say(Said::Acked { task, fence, n });
        self.n = n;
        Ok(())
    }

    /// Works for a moment; `Some` when it is to stop.
    async fn moment(&self) -> Option<Message> {
        tokio::select! {
            biased;
            stop = self.task.stop_requested() => {
                sleep(Duration::from_millis(self.job.lag)).await;
                Some(self.stop(&stop))
            }
            () = sleep(Duration::from_millis(self.job.ms)) => None,
        }
    }

    fn stop(&self, stop: &Stop) -> Message {
        match stop {
            Stop::Command(Command::Pause) if self.job.stubborn => {
                Message::sleep_for(Duration::from_millis(20))
            }
            Stop::Command(_) if self.job.releases => Message::release(),
            stop => stop.message(),
        }
    }

    /// Counts in checkpoints.
    async fn count(&mut self) -> Result<Option<Message>, BoxError> {
        while self.n < self.job.total {
            if let Some(message) = self.moment().await {
                return Ok(Some(message));
            }
            self.task
                .set_progress(self.n as f64 / self.job.total as f64, "counting");
            self.checkpoint().await?;
        }
        Ok(None)
    }

    async fn steps(mut self) -> Result<Message, BoxError> {
        match self.count().await? {
            Some(message) => Ok(message),
            None => Ok(Message::complete_with(&self.n)),
        }
    }

    /// Sleeps between its steps: shortly, with the claim kept, and longer, parked.
    async fn naps(self) -> Result<Message, BoxError> {
        if self.n >= self.job.total {
            return Ok(Message::complete_with(&self.n));
        }
        if let Some(message) = self.moment().await {
            return Ok(message);
        }
        let nap = match self.n % 3 {
            0 => 30,
            1 => 900,
            _ => 280,
        };
        let kept = self.asks(self.n + 1);
        Ok(Message::sleep_for(Duration::from_millis(nap)).with_data(&kept))
    }

    /// Pauses after each step, until somebody resumes it.
    async fn waits(self) -> Result<Message, BoxError> {
        if self.n >= self.job.total {
            return Ok(Message::complete_with(&self.n));
        }
        if let Some(message) = self.moment().await {
            return Ok(message);
        }
        let kept = self.asks(self.n + 1);
        Ok(Message::pause().with_data(&kept))
    }

    /// Counts each signal and replies with the count, in one write: during its run, or at its return.
    async fn asked(mut self) -> Result<Message, BoxError> {
        let commands = self.task.commands();
        loop {
            tokio::select! {
                biased;
                Some(command) = commands.next() => {
                    let Command::Signal(signal) = command else { continue };
                    let n = self.n + 1;
                    let kept = self.asks(n);
                    if n.is_multiple_of(3) {
                        let message = Message::pause().keep_signals();
                        return Ok(message.with_data(&kept).answer(&signal, &n));
                    }
                    self.task.answer_with(&signal, &n, &kept).await?;
                    self.n = n;
                }
                moment = self.moment() => match moment {
                    Some(message) => return Ok(message),
                    None => return self.waits().await,
                },
            }
        }
    }

    /// Fails in every way there is, then counts.
    async fn flaky(self) -> Result<Message, BoxError> {
        let attempt = self.task.attempt();
        if self.n == 0 && attempt <= self.job.fails {
            if let Some(message) = self.moment().await {
                return Ok(message);
            }
            return match attempt % 4 {
                0 => self.falls_over(),
                1 => Err("an error".into()),
                2 => Ok(Message::sleep_for(Duration::MAX)),
                _ => Ok(Message::error("an error with data").with_data(&self.asks(0))),
            };
        }
        self.steps().await
    }

    #[allow(clippy::panic, reason = "that is what it is for")]
    fn falls_over(&self) -> Result<Message, BoxError> {
        panic!("attempt {} falls over", self.task.attempt());
    }

    /// Counts, and fails.
    async fn doomed(mut self) -> Result<Message, BoxError> {
        if self.job.stubborn {
            sleep(Duration::from_millis(self.job.ms)).await;
        } else if let Some(message) = self.moment().await {
            return Ok(message);
        }
        self.checkpoint().await?;
        Err("doomed".into())
    }

    /// Ignores every command.
    async fn deaf(mut self) -> Result<Message, BoxError> {
        while self.n < self.job.total {
            sleep(Duration::from_millis(self.job.ms)).await;
            self.checkpoint().await?;
        }
        Ok(Message::complete_with(&self.n))
    }

    /// Counts, then completes and submits its children in the same step.
    async fn parent(mut self) -> Result<Message, BoxError> {
        if let Some(message) = self.count().await? {
            return Ok(message);
        }
        let parent = self.task.id().clone();
        let mut message = Message::complete_with(&self.n);
        for number in 0..self.job.children {
            message = message.and_submit(small(&child(&parent, number).parse()?)?);
        }
        message = message.and_submit(small(&stray_child(&parent).parse()?)?);
        for id in [command_to_child(&parent), stray_command(&parent)] {
            message = message.and_send(child(&parent, 0), id, Command::Checkpoint);
        }
        Ok(message)
    }

    /// Sleeps for longer than any run lasts.
    async fn far(self) -> Result<Message, BoxError> {
        if let Some(message) = self.moment().await
            && message.kind() != ActionKind::Run
        {
            return Ok(message);
        }
        let kept = self.asks(self.n + 1);
        Ok(Message::sleep_for(Duration::from_secs(24 * 3600)).with_data(&kept))
    }

    /// Fails for good until it is retried, and then sleeps like [`far`](Self::far).
    async fn again(self) -> Result<Message, BoxError> {
        if self.task.incarnation() == 0 {
            return Err("not before a retry".into());
        }
        self.far().await
    }

    /// Submits a child with every step, in the write of a sleep or of a checkpoint. Some of its steps
    /// also submit a child that exists already: they are refused as a whole.
    async fn sower(self) -> Result<Message, BoxError> {
        if self.n >= self.job.total {
            return Ok(Message::complete_with(&self.n));
        }
        if self.job.stubborn {
            sleep(Duration::from_millis(self.job.ms)).await;
        } else if let Some(message) = self.moment().await {
            return Ok(message);
        }
        let sower = self.task.id().clone();
        let message = match self.n % 2 {
            0 => Message::sleep_for(Duration::from_millis(400 * (self.n % 4 / 2) + 20)),
            _ => Message::checkpoint(),
        };
        let message = message.with_data(&self.asks(self.n + 1));
        let command = CommandId::new(command_to_child(&child(&sower, self.n).parse()?))?;
        let next: TaskId = child(&sower, self.n).parse()?;
        let message =
            message
                .and_submit(small(&next)?)
                .and_send(next, command, Command::Checkpoint);
        if self.n == 0 || fastrand::u32(0..5) < 3 {
            return Ok(message);
        }
        let taken = child(&sower, fastrand::u64(0..self.n)).parse()?;
        let never = never(&sower, self.n).parse()?;
        Ok(message
            .and_submit(small(&never)?)
            .and_submit(small(&taken)?))
    }
}

/// A task of few and short steps.
fn small(id: &TaskId) -> Result<Task, BoxError> {
    let job = Job {
        total: 2,
        ms: 20,
        ..Job::default()
    };
    let mut task = Task::new(id.clone(), "steps".parse()?);
    task.props = windlass::Json::new("props", &job)?;
    Ok(task)
}
