//! Ids that are used again: deleted and submitted at once with another kind and other props, or
//! replaced when they have ended, while their old owners may be stopped, dead or late.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use windlass::{
    BoxError, Command, CommandId, KindConfig, Message, NewTask, Retry, TaskContext, TaskId,
    runner::Builder,
    store::{Error, IfExists, Submit},
};

use crate::{
    terms::{SIDE, Terms},
    traffic::{AGAIN, Traffic},
    witness::{Journal, Said},
};

/// The kinds of tasks whose ids are used again.
pub const KINDS: [&str; 2] = ["reuse-a", "reuse-b"];

/// The values of the label [`SIDE`] of these tasks. Half of them have none.
pub const SIDES: [&str; 2] = ["left", "right"];

/// How many ids are used again and again.
const IDS: usize = 10;

/// The props of such a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serving {
    /// The number of the submit: no two submits have the same.
    pub word: u64,
    /// How far it counts.
    pub upto: u64,
    /// How long each step takes, in milliseconds.
    pub pace: u64,
}

/// Its data, and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// The word of the props that it counts for.
    pub word: u64,
    /// How far it has counted.
    pub n: u64,
}

/// Adds the handlers to the builder of a node.
pub fn add_all(mut builder: Builder, journal: &Arc<Journal>, terms: &Terms) -> Builder {
    for kind in KINDS.into_iter().filter(|kind| terms.take(kind)) {
        let journal = journal.clone();
        let config = KindConfig::default()
            .stop_grace(Duration::from_millis(500))
            .retry(Retry::Exponential {
                base: Duration::from_millis(20),
                factor: 1.5,
                cap: Duration::from_millis(400),
                attempts: 1_000_000,
            });
        builder = builder.handler_with(kind, config, move |task: TaskContext| {
            let journal = journal.clone();
            async move { serve(&journal, task).await }
        });
    }
    builder
}

async fn serve(journal: &Journal, task: TaskContext) -> Result<Message, BoxError> {
    let job: Serving = task.props()?;
    let found: Option<Served> = task.data()?;
    let (id, fence, order) = (task.id().clone(), task.fence(), task.order());
    journal.say(Said::Began {
        task: id.clone(),
        fence,
        order,
        kind: task.kind().to_string(),
        word: job.word,
        found: found.map(|found| (found.word, found.n)),
    });
    let mut n = found.map_or(0, |found| found.n);
    while n < job.upto {
        tokio::select! {
            biased;
            stop = task.stop_requested() => return Ok(stop.message()),
            () = sleep(Duration::from_millis(job.pace)) => {}
        }
        n += 1;
        let word = job.word;
        task.checkpoint(&Served { word, n }).await?;
        let task = id.clone();
        journal.say(Said::Saved {
            task,
            fence,
            order,
            n,
        });
    }
    Ok(Message::complete_with(Served { word: job.word, n }))
}

/// A task of one of the [`KINDS`].
pub fn task(id: &str, kind: &str, serving: Serving) -> NewTask {
    let task = NewTask::new(kind).id(id).props(&serving);
    match serving.word % 4 {
        0 => task.label(SIDE, SIDES[0]),
        1 => task.label(SIDE, SIDES[1]),
        _ => task,
    }
}

/// How an id is given to another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The old task is deleted, live or not.
    Delete,
    /// The old task has ended and is replaced.
    Replace,
    /// The old task has ended and runs again.
    Retry,
}

impl Traffic {
    /// Uses ids again until a time.
    ///
    /// # Errors
    ///
    /// When the store refuses something that it must accept.
    pub async fn reuse(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let mut word = 0;
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(20..120))).await;
            let id: TaskId = format!("reuse-{:02}", rng.usize(0..IDS)).parse()?;
            let how = match rng.u32(0..10) {
                0..4 => How::Delete,
                4..7 => How::Replace,
                _ => How::Retry,
            };
            word += 1;
            let serving = Serving {
                word,
                upto: rng.u64(1..6),
                pace: rng.u64(5..200),
            };
            if how == How::Retry {
                if !self.retry_ended(&id).await? {
                    let command = CommandId::new(format!("reuse-{word}"))?;
                    self.nudge(&id, command, &mut rng).await?;
                }
                continue;
            }
            if how == How::Delete {
                self.delete_reused(&id).await?;
            }
            let kind = KINDS[rng.usize(0..KINDS.len())];
            let new = task(id.as_str(), kind, serving);
            let new = match how {
                How::Replace => new.replace_finished(),
                _ => new,
            };
            self.submit_reused(new.build()?, serving.word).await?;
        }
        Ok(())
    }

    /// Submits a task under an id that this client alone uses, until it is known whether it was
    /// taken. Remembers its word if it was; returns whether it was.
    ///
    /// # Errors
    ///
    /// When it is refused for another reason than the task that has the id.
    pub async fn submit_reused(&self, submit: Submit, word: u64) -> Result<bool, BoxError> {
        let id = submit.task.id.clone();
        let replaces = submit.if_exists == IfExists::ReplaceFinished;
        let mut tried = false;
        loop {
            match self
                .client()
                .submit_many(vec![submit.clone()])
                .await
                .remove(0)
            {
                Ok(_) => break,
                Err(Error::AlreadyExists { .. } | Error::AlreadyFinished { .. }) => {
                    // It may exist because an earlier try succeeded.
                    if tried && self.word_of(&id).await? == Some(word) {
                        break;
                    }
                    if !replaces {
                        return Err(format!("{id} was deleted and is there again").into());
                    }
                    return Ok(false);
                }
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
            tried = true;
        }
        let mut promised = self.lock();
        // The retries were those of the task before.
        promised.retries.retain(|(task, _)| *task != id);
        promised.reused.insert(id, word);
        Ok(true)
    }

    /// The word of the task that has this id now.
    async fn word_of(&self, id: &TaskId) -> Result<Option<u64>, BoxError> {
        loop {
            match self.client().get(id).await {
                Ok(record) => {
                    let serving: Serving = record.task.props.get("props")?;
                    return Ok(Some(serving.word));
                }
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Deletes the task of an id that is used again, until there is an answer.
    ///
    /// # Errors
    ///
    /// When the store refuses it.
    pub async fn delete_reused(&self, id: &TaskId) -> Result<(), BoxError> {
        loop {
            match self.client().force_delete(id).await {
                Ok(()) | Err(Error::NotFound { .. }) => {
                    let mut promised = self.lock();
                    promised.retries.retain(|(task, _)| task != id);
                    promised.reused.remove(id);
                    return Ok(());
                }
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Runs an ended task again; returns whether it had ended.
    async fn retry_ended(&self, id: &TaskId) -> Result<bool, BoxError> {
        match self.client().retry(id).await {
            Ok(()) => {
                self.lock().retries.push((id.clone(), 1));
                Ok(true)
            }
            Err(Error::Invalid(_) | Error::NotFound { .. }) => Ok(false),
            Err(e) if e.is_retryable() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends a command to a task that has one of these ids; it may be gone.
    async fn nudge(&self, id: &TaskId, command: CommandId, rng: &mut Rng) -> Result<(), BoxError> {
        let what = match rng.u32(0..3) {
            0 => Command::Release,
            1 => Command::Kill,
            _ => Command::Checkpoint,
        };
        match self.client().command_with_id(id, command, what).await {
            Ok(()) | Err(Error::NotFound { .. } | Error::AlreadyFinished { .. }) => Ok(()),
            Err(e) if e.is_retryable() => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
