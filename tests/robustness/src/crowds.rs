//! Tasks with more commands than one write settles.

use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{Instant, sleep};
use windlass::{Command, CommandId, NewTask, Signal, TaskId, store::Error};

use crate::{
    BoxError,
    kinds::{CROWD, Job},
    traffic::{AGAIN, Traffic, built},
};

/// How many commands a task gets that ends: more than one write of etcd answers.
const SIGNALS: usize = 140;
/// How many commands a task gets that is deleted: more than are forgotten with it in one write.
const COMMANDS: usize = 80;
/// How many are sent at once.
const AT_ONCE: usize = 35;

impl Traffic {
    /// Sends many signals to a task that replies to the last of them.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn crowd(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        for n in 0.. {
            if Instant::now() >= until {
                return Ok(());
            }
            let id: TaskId = format!("{CROWD}-{n}").parse()?;
            let job = Job {
                total: 1,
                ms: rng.u64(300..2500),
                ..Job::default()
            };
            let task = NewTask::new(CROWD).id(id.clone()).idempotent().props(&job);
            self.submit_all(vec![built(task)?]).await?;
            let signal = Command::Signal(Signal::new("crowd"));
            self.send_all(&id, SIGNALS, &signal).await?;
            sleep(Duration::from_millis(rng.u64(500..2000))).await;
        }
        Ok(())
    }

    /// Sends many commands to a parked task, and deletes it without force while it is claimed. A task whose deletion is
    /// refused knows its commands still.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn crowded_delete(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        for n in 0.. {
            if Instant::now() >= until {
                return Ok(());
            }
            let id: TaskId = format!("far-crowd-{n}").parse()?;
            let job = Job {
                total: 1,
                ms: 5,
                ..Job::default()
            };
            let task = NewTask::new("far").id(id.clone()).idempotent().props(&job);
            self.submit_quietly(task).await?;
            self.send_all(&id, COMMANDS, &Command::Checkpoint).await?;
            for wakes in 0..12 {
                let wake = CommandId::new(format!("{id}-wake-{wakes}"))?;
                let late = Duration::from_millis(rng.u64(0..25));
                let (_, deleted) = tokio::join!(
                    self.client().command_with_id(&id, wake, Command::Run),
                    async {
                        sleep(late).await;
                        self.client().delete(&id).await
                    }
                );
                match deleted {
                    Err(Error::Claimed(_)) => {}
                    Err(e) if e.is_retryable() => {}
                    Ok(()) | Err(Error::NotFound { .. }) => break,
                    Err(e) => return Err(e.into()),
                }
                sleep(Duration::from_millis(rng.u64(20..120))).await;
            }
            self.send_all(&id, COMMANDS, &Command::Checkpoint).await?;
            sleep(Duration::from_millis(rng.u64(100..800))).await;
        }
        Ok(())
    }

    /// Sends the same command many times, under ids that depend on the task alone.
    async fn send_all(&self, id: &TaskId, count: usize, command: &Command) -> Result<(), BoxError> {
        let ids = (0..count).map(|n| CommandId::new(format!("{id}-{n:03}")));
        let ids: Vec<CommandId> = ids.collect::<Result<_, _>>()?;
        for some in ids.chunks(AT_ONCE) {
            let sent = some.iter().map(|command_id| async move {
                loop {
                    let (command_id, command) = (command_id.clone(), command.clone());
                    let sent = self.client().command_with_id(id, command_id, command);
                    match sent.await {
                        Ok(()) | Err(Error::NotFound { .. } | Error::AlreadyFinished { .. }) => {
                            return Ok(());
                        }
                        Err(e) if e.is_retryable() => sleep(AGAIN).await,
                        Err(e) => return Err(e),
                    }
                }
            });
            for sent in join_all(sent).await {
                sent?;
            }
        }
        Ok(())
    }
}
