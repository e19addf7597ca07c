//! Two clients that submit the same ids at the same time, with different props.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{Client, TaskId, client::Handle, store::Error};

use crate::{
    BoxError,
    reuse::{self, KINDS, Serving},
    traffic::Traffic,
};

/// The answer to a client's submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The task is its own.
    Won,
    /// The id is taken.
    Lost,
    /// No answer came.
    Unknown,
}

/// Two submits of one id: the word of each, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// The id.
    pub task: TaskId,
    /// The submits.
    pub submits: [(u64, Answer); 2],
}

/// The words of these submits come after those of [`reuse`].
const WORDS: u64 = 1_000_000;

impl Traffic {
    /// Submits ids twice at the same time until a time, by `other` and by this client.
    ///
    /// # Errors
    ///
    /// When a submit is refused for another reason than the competing submit.
    pub async fn race(&self, other: &Client, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let mut word = WORDS;
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(100..400))).await;
            let id = format!("race-{word}");
            let mut serving = || {
                word += 1;
                let (upto, pace) = (rng.u64(1..4), rng.u64(5..50));
                Serving { word, upto, pace }
            };
            let (one, two) = (serving(), serving());
            let submit = |client: &Client, kind: &str, serving| {
                let (client, task) = (client.clone(), reuse::task(&id, kind, serving));
                async move { answer(client.submit(task).await) }
            };
            let (first, second) = tokio::join!(
                submit(self.client(), KINDS[0], one),
                submit(other, KINDS[1], two)
            );
            self.lock().races.push(Race {
                task: id.parse()?,
                submits: [(one.word, first?), (two.word, second?)],
            });
        }
        Ok(())
    }
}

fn answer(answer: Result<Handle, Error>) -> Result<Answer, BoxError> {
    match answer {
        Ok(task) if task.is_new() => Ok(Answer::Won),
        Ok(task) => Err(format!("task '{task}' is not new, and nothing allows that").into()),
        Err(Error::AlreadyExists { .. } | Error::AlreadyFinished { .. }) => Ok(Answer::Lost),
        Err(e) if e.is_retryable() => Ok(Answer::Unknown),
        Err(e) => Err(e.into()),
    }
}
