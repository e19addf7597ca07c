//! Tasks that are retried at once, that run once, or whose starts are limited.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{Limit, NewTask, Retry, TaskId, store::Error};

use crate::{BoxError, kinds::Job, traffic::Traffic};

/// How many tasks are retried again and again.
const RETRIED: usize = 3;
/// How many tasks have a limit on starts.
const LIMITED: usize = 5;

impl Traffic {
    /// Retries tasks that end at once, until a time. A request without an answer is not repeated.
    ///
    /// # Errors
    ///
    /// When a request is refused for another reason than a task that has not ended.
    pub async fn retry_at_once(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let job = Job {
            total: 1,
            ms: 1,
            ..Job::default()
        };
        let ids = (0..RETRIED).map(|n| format!("steps-again-{n}").parse());
        let ids: Vec<TaskId> = ids.collect::<Result<_, _>>()?;
        for id in &ids {
            let task = NewTask::new("steps").id(id.clone()).props(&job);
            self.submit_quietly(task).await?;
        }
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(20..120))).await;
            let id = &ids[rng.usize(0..ids.len())];
            *self.lock().asked_retries.entry(id.clone()).or_default() += 1;
            match self.client().retry(id).await {
                Ok(()) | Err(Error::Invalid(_)) => {}
                Err(e) if e.is_retryable() => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Submits tasks that fail when their node is lost, until a time.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn run_once(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        for n in 0.. {
            if Instant::now() >= until {
                break;
            }
            let job = Job {
                total: 1,
                ms: rng.u64(500..4000),
                ..Job::default()
            };
            let id = format!("doomed-once-{n}");
            let task = NewTask::new("doomed").id(id).retry(Retry::Never);
            self.submit_quietly(task.props(&job)).await?;
            sleep(Duration::from_millis(rng.u64(200..600))).await;
        }
        Ok(())
    }

    /// Submits tasks with a limit on starts.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn limit_starts(&self, mut rng: Rng) -> Result<(), BoxError> {
        for n in 0..LIMITED {
            let kind = if rng.bool() { "flaky" } else { "naps" };
            let job = Job {
                total: 3,
                ms: rng.u64(5..40),
                fails: 2,
                ..Job::default()
            };
            let within = Duration::from_millis(400);
            let task = NewTask::new(kind)
                .id(format!("{kind}-starts-{n}"))
                .limit(Limit::starts("starts", 3, within)?);
            self.submit_quietly(task.props(&job)).await?;
            sleep(Duration::from_millis(rng.u64(0..800))).await;
        }
        Ok(())
    }
}
