//! Deletions without force, which a task refuses while it may run, and of tasks whose handlers are silent for so long that only
//! the delete can end them.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{NewTask, TaskId, store::Error};

use crate::{
    BoxError,
    kinds::Job,
    traffic::{AGAIN, Traffic, built},
};

/// The ids of tasks whose handlers are silent begin with this.
pub const SILENT: &str = "silent-";
/// How long they are silent, in milliseconds: longer than a node may need to find out that they are deleted.
const SILENCE: u64 = 60_000;
/// Between two tries to submit the task that replaces another one.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How many tasks are deleted without force at a time.
const POLITE: usize = 4;

impl Traffic {
    /// Submits a task that nobody else commands or deletes, until there is an answer.
    pub(crate) async fn submit_quietly(&self, task: NewTask) -> Result<(), BoxError> {
        let task = built(task.idempotent())?;
        loop {
            let submitted = self
                .client()
                .submit_many(vec![task.clone()])
                .await
                .remove(0);
            match submitted {
                Ok(_) | Err(Error::AlreadyFinished { .. }) => return Ok(()),
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Deletes tasks that run without force, again and again until a time: it succeeds when a node has released them.
    ///
    /// # Errors
    ///
    /// When a request is refused for another reason than a claim.
    pub async fn delete_politely(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let job = Job {
            total: 10_000,
            ms: 50,
            ..Job::default()
        };
        let mut made = 0;
        let mut live: Vec<TaskId> = Vec::new();
        while Instant::now() < until {
            if live.len() < POLITE {
                let id: TaskId = format!("polite-{made}").parse()?;
                made += 1;
                let task = NewTask::new("steps").id(id.clone()).props(&job);
                self.submit_quietly(task).await?;
                live.push(id);
                sleep(Duration::from_millis(rng.u64(100..300))).await;
            }
            let at = rng.usize(0..live.len());
            match self.client().delete(&live[at]).await {
                // A try before this one did it, if it is not found.
                Ok(()) | Err(Error::NotFound { .. }) => {
                    let id = live.swap_remove(at);
                    self.lock().unforced.push(id);
                }
                Err(Error::Claimed(_)) => {}
                Err(e) if e.is_retryable() => {}
                Err(e) => return Err(e.into()),
            }
            sleep(Duration::from_millis(rng.u64(5..40))).await;
        }
        for id in live {
            self.delete_quietly(&id).await?;
        }
        // A submit that was sent twice, and whose first request came late, has made its task again.
        let deleted = self.lock().unforced.clone();
        for id in deleted {
            if self.client().get(&id).await.is_ok() {
                self.lock().unforced.retain(|other| *other != id);
                self.delete_quietly(&id).await?;
            }
        }
        Ok(())
    }

    /// Submits tasks whose handlers are silent until a time, and deletes each: while it is claimed, or soon after. Some are
    /// replaced in the same write.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn delete_silent(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let silent = Job {
            total: 1,
            ms: SILENCE,
            ..Job::default()
        };
        let next = Job {
            total: 2,
            ms: 20,
            ..Job::default()
        };
        let mut made = 0;
        while Instant::now() < until {
            let id: TaskId = format!("{SILENT}{made}").parse()?;
            made += 1;
            let task = NewTask::new("deaf").id(id.clone()).props(&silent);
            self.submit_quietly(task).await?;
            let wait = if rng.bool() { 120 } else { 1500 };
            sleep(Duration::from_millis(rng.u64(0..wait))).await;
            match rng.bool() {
                true => self.delete(&id).await?,
                false => self.replace(&id, &next).await?,
            }
            sleep(Duration::from_millis(rng.u64(0..250))).await;
        }
        Ok(())
    }

    /// Deletes a task, and submits another one under its id as soon as that is possible.
    async fn replace(&self, id: &TaskId, next: &Job) -> Result<(), BoxError> {
        let next = NewTask::new("deaf").id(id.clone()).props(next).idempotent();
        let submits = async {
            loop {
                match self.client().submit(next.clone()).await {
                    Ok(_) | Err(Error::AlreadyFinished { .. }) => return Ok(()),
                    Err(Error::AlreadyExists { .. }) => sleep(AT_ONCE).await,
                    Err(e) if e.is_retryable() => sleep(AGAIN).await,
                    Err(e) => return Err(BoxError::from(e)),
                }
            }
        };
        tokio::try_join!(self.delete(id), submits)?;
        Ok(())
    }

    /// Deletes a task by force, until there is an answer, and promises nothing.
    async fn delete_quietly(&self, id: &TaskId) -> Result<(), BoxError> {
        loop {
            match self.client().force_delete(id).await {
                Ok(()) | Err(Error::NotFound { .. }) => return Ok(()),
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }
}
