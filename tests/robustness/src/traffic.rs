//! The requests while the workers are disturbed. Every answer is remembered as a promise; without an
//! answer the same request is sent again, as any careful client would.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use jiff::SignedDuration;
use tokio::time::{Instant, sleep};
use windlass::{
    Client, Command, CommandId, Invalid, NewTask, Signal, StateKind, Task, TaskId,
    statemachine::message::SubmitTask,
    store::{Error, Filter, Page, Submit},
};

use crate::{BoxError, kinds, plan::Plan, reuse, time, world::Promised};

/// A client that remembers what was promised to it.
#[derive(Debug)]
pub struct Traffic {
    client: Client,
    promised: Mutex<Promised>,
}

/// The pause between two tries of a failed request.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);

/// Commands go to the tasks that were submitted last, which are likely to be alive.
const RECENT: usize = 400;

impl Traffic {
    /// A client that nothing was promised to yet.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            promised: Mutex::default(),
        }
    }

    /// A client of another store with the same promises.
    pub(crate) fn clone_to(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            promised: Mutex::new(self.promised()),
        }
    }

    /// What was promised so far.
    pub fn promised(&self) -> Promised {
        self.lock().clone()
    }

    /// Returns its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Promised> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits so many tasks of a plan, spread over a time.
    ///
    /// # Errors
    ///
    /// When a submit is refused.
    pub async fn submit(
        &self,
        plan: &mut Plan,
        tasks: usize,
        over: Duration,
    ) -> Result<(), BoxError> {
        const AT_ONCE: usize = 25;
        let pause = over / u32::try_from(tasks.div_ceil(AT_ONCE).max(1))?;
        let mut left = tasks;
        while left > 0 {
            let chunk: Result<Vec<Submit>, Invalid> =
                plan.take(left.min(AT_ONCE)).map(built).collect();
            let chunk = chunk?;
            left -= chunk.len();
            self.submit_all(chunk).await?;
            sleep(pause).await;
        }
        Ok(())
    }

    /// Submits tasks until there is an answer to each.
    ///
    /// # Errors
    ///
    /// When a submit is refused.
    pub async fn submit_all(&self, mut tasks: Vec<Submit>) -> Result<(), BoxError> {
        let mut tried = false;
        while !tasks.is_empty() {
            let answers = self.client.submit_many(tasks.clone()).await;
            let mut again = Vec::new();
            for (submit, answer) in tasks.into_iter().zip(answers) {
                match answer {
                    Ok(_) => self.lock().tasks.push(submit.task.id),
                    // An earlier try succeeded, and its task has ended in the meantime.
                    Err(Error::AlreadyFinished { .. }) if tried => {
                        self.lock().tasks.push(submit.task.id);
                    }
                    Err(e) if e.is_retryable() => again.push(submit),
                    Err(e) => return Err(e.into()),
                }
            }
            tried = true;
            tasks = again;
            if !tasks.is_empty() {
                sleep(AGAIN).await;
            }
        }
        Ok(())
    }

    /// Sends a command, until there is an answer.
    ///
    /// # Errors
    ///
    /// When it is refused for another reason than the end of its task.
    pub async fn command(&self, task: &TaskId, id: &str, command: Command) -> Result<(), BoxError> {
        let id = CommandId::new(id)?;
        loop {
            let sent = self
                .client
                .command_with_id(task, id.clone(), command.clone())
                .await;
            match sent {
                Ok(()) => {
                    let mut promised = self.lock();
                    let sent = (task.clone(), id);
                    // An earlier command with this id is the same command.
                    if !promised.commands.contains(&sent) {
                        promised.commands.push(sent);
                    }
                    return Ok(());
                }
                Err(Error::AlreadyFinished { .. }) => return Ok(()),
                // Its time has come while the store was busy.
                Err(Error::Invalid(why)) if why.field() == "until" => return Ok(()),
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Sends commands at random until a time, and deletes tasks now and then.
    ///
    /// # Errors
    ///
    /// When one is refused.
    pub async fn command_at_random(&self, mut rng: Rng, until: Instant) -> Result<(), BoxError> {
        let (mut sent, mut signals) = (0, Vec::new());
        let mut resumed = Instant::now();
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(10..80))).await;
            if resumed.elapsed() > Duration::from_millis(700) {
                resumed = Instant::now();
                self.resume_some(&mut rng).await?;
            }
            let target = {
                let promised = self.lock();
                let recent = promised.tasks.len().saturating_sub(RECENT);
                let recent = &promised.tasks[recent..];
                if recent.is_empty() {
                    continue;
                }
                recent[rng.usize(0..recent.len())].clone()
            };
            if rng.u32(0..30) == 0 && !kinds::has_children(&target) {
                self.delete(&target).await?;
                continue;
            }
            // Now and then several at once: their order counts.
            for _ in 0..=rng.u32(0..3) {
                sent += 1;
                let id = format!("command-{sent:05}");
                self.command(&target, &id, any(&mut rng)).await?;
            }
            let asked = self.recent("asked-").filter(|_| rng.bool());
            for target in asked.iter().cycle().take(rng.usize(1..4)) {
                sent += 1;
                let id = format!("signal-{sent:05}");
                let signal = Command::Signal(Signal::new("count"));
                self.command(target, &id, signal).await?;
                signals.push(id.parse()?);
            }
            if !signals.is_empty() && rng.bool() {
                let id = signals.swap_remove(rng.usize(0..signals.len()));
                self.look_at(id).await;
            }
        }
        Ok(())
    }

    /// Returns the last task whose id begins with this.
    fn recent(&self, prefix: &str) -> Option<TaskId> {
        let promised = self.lock();
        let mut tasks = promised.tasks.iter().rev().take(RECENT);
        tasks.find(|id| id.as_str().starts_with(prefix)).cloned()
    }

    /// Remembers the outcome of a command, if it has one: it must never have another.
    async fn look_at(&self, id: CommandId) {
        if let Ok(Some(outcome)) = self.client.outcome(id.clone()).await {
            self.lock().outcomes.push((id, outcome));
        }
    }

    /// Resumes about half of what is paused, and retries some of what has failed or was killed.
    async fn resume_some(&self, rng: &mut Rng) -> Result<(), BoxError> {
        for (code, share) in [
            (StateKind::Paused, 2),
            (StateKind::Failed, 3),
            (StateKind::Killed, 6),
        ] {
            let filter = Filter::new().states([code]);
            let found = match self.client.list(&filter, Page::default()).await {
                Ok(found) => found,
                Err(e) if e.is_retryable() => continue,
                Err(e) => return Err(e.into()),
            };
            for record in found {
                // The ids of these are used again: the next task promises nothing of this one.
                let reused = reuse::KINDS.contains(&record.task.kind.as_str());
                let id = &record.task.id;
                if reused || stays_failed(&record.task) || rng.u32(0..share) != 0 {
                    continue;
                }
                if code == StateKind::Paused {
                    let version = record.state?.version;
                    // The same task in the same state: the same command.
                    let command = format!("resume-{id}-{version}");
                    self.command(id, &command, Command::Run).await?;
                } else {
                    let incarnation = record.state?.incarnation;
                    match self.client.retry(id).await {
                        Ok(()) => self.promise_retry(id, incarnation + 1),
                        // Another program was faster, or the result is unknown.
                        Err(Error::Invalid(_)) => {}
                        Err(e) if e.is_retryable() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Remembers that a retry was acknowledged, and the incarnation that it had to start at least.
    pub fn promise_retry(&self, id: &TaskId, incarnation: u32) {
        self.lock().retries.push((id.clone(), incarnation));
    }

    /// Deletes a task, until there is an answer.
    ///
    /// # Errors
    ///
    /// When the store refuses it.
    pub async fn delete(&self, task: &TaskId) -> Result<(), BoxError> {
        loop {
            match self.client.force_delete(task).await {
                // The second: a try before this one did it.
                Ok(()) | Err(Error::NotFound { .. }) => {
                    let mut promised = self.lock();
                    promised.tasks.retain(|t| t != task);
                    promised.commands.retain(|(t, _)| t != task);
                    promised.retries.retain(|(t, _)| t != task);
                    promised.deleted.push((task.clone(), time::now()));
                    return Ok(());
                }
                Err(e) if e.is_retryable() => sleep(AGAIN).await,
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Builds a task whose times begin now.
pub(crate) fn built(task: NewTask) -> Result<Submit, Invalid> {
    SubmitTask::try_from(task)?.resolve(time::wall())
}

fn any(rng: &mut Rng) -> Command {
    match rng.u32(0..100) {
        0..18 => Command::Run,
        18..38 => Command::Pause,
        38..55 => Command::Sleep {
            until: time::wall() + SignedDuration::from_millis(rng.i64(200..1500)),
        },
        55..73 => Command::Release,
        73..84 => Command::Checkpoint,
        84..92 => Command::Signal(Signal::new("any")),
        92..96 => Command::Complete { result: None },
        _ => Command::Kill,
    }
}

/// Whether a task with deadlines is never retried: a retry ignores a deadline that was missed, and in the end
/// nothing would show that it was. This applies to about half of them.
fn stays_failed(task: &Task) -> bool {
    let timed = task.start_by.is_some() || task.end_by.is_some();
    timed && task.id.as_str().ends_with(['0', '2', '4', '6', '8'])
}
