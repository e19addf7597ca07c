//! Commands that come at the moment of a deadline, or beside the return of a handler.

use std::time::Duration;

use fastrand::Rng;
use jiff::SignedDuration;
use tokio::time::{Instant, sleep};
use windlass::{Command, CommandId, NewTask, Retry, TaskId, store::Error};

use crate::{BoxError, kinds::Job, time, traffic::Traffic};

/// How long before a deadline the commands are sent, at most, in milliseconds.
const BEFORE: u64 = 150;

impl Traffic {
    /// Submits tasks with an `end_by` until a time, and sends commands just before it.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn press(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        // A task whose number is even is not retried, so its end shows whether it met its deadline.
        let mut number = 0;
        while Instant::now() < until {
            let (kind, job) = edge(&mut rng);
            let id: TaskId = format!("{kind}-edge-{number:04}").parse()?;
            number += 2;
            let wait = rng.u64(BEFORE..900);
            let ends = Duration::from_millis(wait);
            let retry = Retry::Exponential {
                base: Duration::from_millis(20),
                factor: 1.5,
                cap: Duration::from_millis(100),
                attempts: rng.u32(1..=2),
            };
            let task = NewTask::new(kind).id(id.clone()).props(&job);
            let task = match kind {
                "doomed" => task.retry(retry),
                _ => task.end_within(ends),
            };
            self.submit_quietly(task).await?;
            sleep(Duration::from_millis(wait - rng.u64(0..BEFORE))).await;
            let complete = Command::Complete { result: None };
            if kind != "doomed" && kind != "sower" {
                self.command(&id, &format!("{id}-complete"), complete)
                    .await?;
            }
            // What a sower returns after its deadline counts as little without a kill.
            let share = if kind == "sower" { 3 } else { 1 };
            if rng.u32(0..4) >= share {
                let kill = format!("{id}-kill");
                self.command(&id, &kill, Command::Kill).await?;
            }
            sleep(Duration::from_millis(rng.u64(0..200))).await;
        }
        Ok(())
    }

    /// Sends sleeps until a time, and sends each again when its time has come: its id is known, so its time does not count.
    ///
    /// # Errors
    ///
    /// When a repetition is refused.
    pub async fn repeat_sleeps(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        for n in 0.. {
            sleep(Duration::from_millis(rng.u64(100..500))).await;
            if Instant::now() >= until {
                break;
            }
            let Some(task) = rng.choice(&self.promised().tasks).cloned() else {
                continue;
            };
            let wait = rng.u64(100..300);
            let command = Command::Sleep {
                until: time::wall() + SignedDuration::from_millis(wait as i64),
            };
            let id = CommandId::new(format!("repeated-{n}"))?;
            let send = || {
                self.client()
                    .command_with_id(&task, id.clone(), command.clone())
            };
            if send().await.is_err() {
                // It has ended or is gone, or the answer is unknown.
                continue;
            }
            sleep(Duration::from_millis(wait + 50)).await;
            match send().await {
                Ok(()) | Err(Error::NotFound { .. } | Error::AlreadyFinished { .. }) => {}
                Err(e) if e.is_retryable() => {}
                // Its record was deleted with its task, so it is a new command.
                Err(Error::Invalid(_)) if self.client().get(&task).await.is_err() => {}
                Err(e) => {
                    return Err(format!("command {id} was sent to '{task}'; again: {e}").into());
                }
            }
        }
        Ok(())
    }
}

/// Draws the kind and the work of a task: it is still at work when its deadline comes.
fn edge(rng: &mut Rng) -> (&'static str, Job) {
    let long = Job {
        total: 1000,
        ms: rng.u64(20..60),
        lag: rng.u64(30..400),
        ..Job::default()
    };
    match rng.u32(0..5) {
        0 | 1 => ("steps", long),
        2 => ("deaf", Job { lag: 0, ..long }),
        3 => {
            let (total, ms) = (6, rng.u64(80..400));
            let (stubborn, lag) = (true, 0);
            let job = Job {
                total,
                ms,
                stubborn,
                lag,
                ..long
            };
            ("sower", job)
        }
        _ => {
            let (ms, stubborn, lag) = (rng.u64(100..600), true, 0);
            (
                "doomed",
                Job {
                    ms,
                    stubborn,
                    lag,
                    ..long
                },
            )
        }
    }
}
