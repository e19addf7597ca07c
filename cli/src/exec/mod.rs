//! The kind `exec`: a task that is a command of the operating system.
//!
//! # Flow
//!
//! 1. What an earlier attempt has left running on this machine is ended ([`leftover`]). A stop waits
//!    for that.
//! 2. The command starts in a process group of its own ([`group`]), with the task's folder
//!    ([`folders`]) in its environment.
//! 3. The last of its output ([`capture`]) is persisted now and then while it runs.
//! 4. It ends: an exit code that counts as success completes the task, with [`Output`] as the
//!    result; anything else is an error, and [`Output`] becomes the task's data.
//!
//! # Commands and stops
//!
//! Pause, sleep, release, complete, kill, a shutdown and a drain end the whole group: SIGTERM, and
//! SIGKILL after the task's grace (or the worker's, whichever is shorter). What resumes the task
//! later starts the command anew; it goes on from what it kept in its folder. A lost claim and a
//! deleted task leave no time for a grace: the group is killed at once, since another node may start
//! the task. Checkpoint persists the output as it is now.
//!
//! # The environment of the command
//!
//! | variable | what |
//! |---|---|
//! | `WINDLASS_TASK_ID` | the task's id |
//! | `WINDLASS_ATTEMPT` | the number of the attempt, from 1 |
//! | `WINDLASS_INCARNATION` | how often a retry started the task anew, from 0 |
//! | `WINDLASS_FENCE` | the claim's number; it only grows, so that what the command writes elsewhere can be guarded |
//! | `WINDLASS_STATE_DIR` | a folder for the command's own progress, kept between attempts |

mod capture;
mod folders;
mod group;
#[cfg(test)]
mod lease_tests;
mod leftover;
mod names;
pub(crate) mod process;
mod props;
mod retry;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsStr,
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};
use nix::sys::signal::Signal;
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;
use windlass::{
    ActionKind, CheckpointError, Json, Message, StatefulHandler, Stop, StopReason, TaskContext,
    async_trait,
};

use self::{capture::Capture, folders::Folder, group::Group, leftover::Running, process::Identity};
pub(crate) use self::{
    capture::Output,
    folders::Folders,
    leftover::end_orphans,
    props::{FIELDS, Props},
    retry::{Policy, read as read_retry},
};

/// The name of the kind.
pub(crate) const KIND: &str = "exec";

/// What begins the error of a task whose props are wrong: no retry mends those.
const WRONG_PROPS: &str = "the task cannot be run: ";

/// The output of a running command is persisted after this time, and then so often, if it changed.
const FIRST_SAVE: Duration = Duration::from_secs(1);
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How long the output may take to end after its command has: a process that left the group may
/// hold the pipes open for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How much of the error's text is the command's own.
const LAST_LINES: usize = 3;
const LAST_BYTES: usize = 600;

/// Runs tasks of the kind `exec`.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    folders: Folders,
    /// How many bytes a task's props, data and result may have together.
    max_bytes: usize,
    /// The processes that end what this handler starts: this one, and its supervisor.
    holders: Arc<[Identity]>,
    /// The upper bound of every task's grace.
    longest_grace: Duration,
}

/// Why the command was waited for no longer.
enum Ended {
    Exited(io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped(Stop),
}

#[async_trait]
impl StatefulHandler for Exec {
    async fn run(&self, task: TaskContext) -> Message {
        let message = match Props::parse(&task.task().props) {
            Ok(props) => match self.attempt(&task, &props).await {
                Ok(message) => message,
                Err(reason) => Message::error(reason),
            },
            Err(e) => Message::error(format_args!("{WRONG_PROPS}{e}")),
        };
        debug!(message = %message.kind(), "the command's task goes on");
        message
    }
}

impl Exec {
    /// A handler for the tasks of a store.
    pub(crate) fn new(folders: Folders, max_bytes: usize) -> Self {
        Self {
            folders,
            max_bytes,
            holders: process::these(None),
            longest_grace: Duration::MAX,
        }
    }

    /// Bounds the grace of every task.
    pub(crate) fn longest_grace(mut self, grace: Duration) -> Self {
        self.longest_grace = grace;
        self
    }

    /// The same, for a process that has a supervisor.
    pub(crate) fn supervised_by(mut self, supervisor: Option<u32>) -> Self {
        self.holders = process::these(supervisor);
        self
    }

    async fn attempt(&self, task: &TaskContext, props: &Props) -> Result<Message, String> {
        let folder = self
            .folders
            .prepare(task.id(), task.order())
            .await
            .map_err(|e| format!("the task's folder cannot be made: {e}"))?;
        let message = self.command(task, props, &folder).await;
        let completes = message
            .as_ref()
            .is_ok_and(|m| m.kind() == ActionKind::Complete);
        // Once the claim may be another node's, so may the folder.
        if !task.lease_left().is_zero() {
            self.folders
                .retire(task.id(), task.order(), &folder.path, completes);
        }
        message
    }

    async fn command(
        &self,
        task: &TaskContext,
        props: &Props,
        folder: &Folder,
    ) -> Result<Message, String> {
        let grace = props.grace.min(self.longest_grace);
        // A stop waits for this: the claim must not be released while a leftover runs.
        let hurry = task.stopped().map(|stop| left_of(grace, &stop));
        leftover::end(folder, grace, hurry).await?;
        if let Some(stop) = task.stopped().now_or_never() {
            return Ok(stop.message());
        }
        if let Some(cwd) = &props.cwd
            && !cwd.is_dir()
        {
            return Err(format!("props.cwd: '{}' is not a folder", cwd.display()));
        }
        let written_down = |e| format!("the command cannot be written down: {e}");
        let running = Running {
            fence: task.fence(),
            holders: &self.holders,
            grace,
        };
        leftover::about_to_start(folder, running).map_err(written_down)?;
        // A process that stood still learns here that its lease is over, before the engine does.
        if task.lease_left().is_zero() {
            leftover::ended(folder, task.fence());
            return Err("the command was not started: the lease of this node is over".to_owned());
        }
        let started = Instant::now();
        let mut group = match Group::start(&mut prepare(task, props, folder)) {
            Ok(group) => group,
            Err(e) => {
                leftover::ended(folder, task.fence());
                return Err(format!("'{}' cannot be run: {e}", props.program));
            }
        };
        leftover::started(folder, running, group.id()).map_err(written_down)?;
        let mut watched = Watched::new(&mut group, props, self.room(task), started);
        let ended = watched.watch(task, &mut group, props).await;
        let status = match &ended {
            Ended::Exited(Ok(status)) => {
                watched.last_output().await;
                // What the command has left in its group ends with it.
                group.stop(grace).await;
                Some(*status)
            }
            Ended::Exited(Err(_)) | Ended::TimedOut(_) | Ended::Stopped(_) => {
                let status = group.stop(grace).await;
                watched.last_output().await;
                status
            }
        };
        leftover::ended(folder, task.fence());
        conclude(ended, &watched.output(status), props)
    }

    /// How many bytes the output may have as JSON.
    fn room(&self, task: &TaskContext) -> usize {
        self.max_bytes
            .saturating_sub(task.task().props.len())
            .saturating_sub(1024)
    }
}

/// How much of the grace a stop leaves to what an earlier attempt left. Half of it, so that SIGKILL
/// comes before the handler's own grace is over. Nothing when another node may start the task.
fn left_of(grace: Duration, stop: &Stop) -> Duration {
    match stop {
        Stop::Node(StopReason::LeaseLost | StopReason::Deleted) => Duration::ZERO,
        _ => grace / 2,
    }
}

fn prepare(task: &TaskContext, props: &Props, folder: &Folder) -> Command {
    let mut command = Command::new(&props.program);
    for (name, value) in std::env::vars_os() {
        if is_own(&name, &value) {
            command.env_remove(&name);
        }
    }
    command
        .args(&props.args)
        .envs(&props.env)
        .env("WINDLASS_TASK_ID", task.id().as_str())
        .env("WINDLASS_ATTEMPT", task.attempt().to_string())
        .env("WINDLASS_INCARNATION", task.incarnation().to_string())
        .env(leftover::FENCE, task.fence().to_string())
        .env(leftover::STATE_DIR, &folder.path)
        .stdin(if props.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &props.cwd {
        command.current_dir(cwd);
    }
    command
}

/// Whether a variable of the worker is its own configuration, which no command inherits: it may hold
/// a password, and what a command prints is kept. The name of the store is inherited, so that a
/// command can submit tasks, unless it holds a password.
fn is_own(name: &OsStr, value: &OsStr) -> bool {
    let is_store = name == "WINDLASS_STORE";
    let has_password = || value.to_str().is_none_or(windlass::store::has_password);
    name.as_encoded_bytes().starts_with(b"WINDLASS_") && (!is_store || has_password())
}

/// A running command and its output.
struct Watched {
    stdout: Option<Capture>,
    stderr: Option<Capture>,
    room: usize,
    started: Instant,
    saved: u64,
}

impl Watched {
    fn new(group: &mut Group, props: &Props, room: usize, started: Instant) -> Self {
        let (stdin, stdout, stderr) = group.pipes();
        if let (Some(mut stdin), Some(text)) = (stdin, props.stdin.clone()) {
            tokio::spawn(async move {
                // A command need not read what it is given.
                let _ = stdin.write_all(text.as_bytes()).await;
            });
        }
        Self {
            stdout: stdout.map(|from| Capture::start(from, props.capture)),
            stderr: stderr.map(|from| Capture::start(from, props.capture)),
            room,
            started,
            saved: 0,
        }
    }

    /// Waits until the command has ended, took too long, or should stop. Meanwhile it persists the
    /// output.
    async fn watch(&mut self, task: &TaskContext, group: &mut Group, props: &Props) -> Ended {
        let commands = task.commands();
        let deadline = props.timeout.map(|t| self.started + t);
        let mut next_save = Instant::now() + FIRST_SAVE;
        let mut saving: Option<BoxFuture<'_, Result<(), CheckpointError>>> = None;
        // An operator wants it persisted now.
        let mut asked = false;
        loop {
            tokio::select! {
                biased;
                stop = task.stopped() => return Ended::Stopped(stop),
                status = group.wait() => return Ended::Exited(status),
                () = sleep_until(deadline.unwrap_or(self.started)), if deadline.is_some() => {
                    return Ended::TimedOut(props.timeout.unwrap_or_default());
                }
                Some(saved) = OptionFuture::from(saving.as_mut()) => {
                    if let Err(error) = saved {
                        debug!(%error, "the output was not persisted");
                    }
                    saving = None;
                    next_save = Instant::now() + SAVE_EVERY;
                }
                Some(command) = commands.next() => {
                    asked |= command.kind() == ActionKind::Checkpoint;
                }
                () = sleep_until(next_save), if saving.is_none() => {
                    next_save = Instant::now() + SAVE_EVERY;
                    asked |= self.total() != self.saved;
                }
            }
            if asked && saving.is_none() {
                asked = false;
                self.saved = self.total();
                let output = self.output(None);
                saving = Some(async move { task.checkpoint(&output).await }.boxed());
            }
        }
    }

    fn total(&self) -> u64 {
        let streams = [&self.stdout, &self.stderr];
        streams.into_iter().flatten().map(Capture::total).sum()
    }

    /// Waits until the output has ended, but not for long.
    async fn last_output(&mut self) {
        let all = async {
            for stream in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
                stream.ended().await;
            }
        };
        if timeout(LAST_OUTPUT, all).await.is_err() {
            debug!("the command has ended and something still holds its output open");
        }
    }

    fn output(&self, status: Option<ExitStatus>) -> Output {
        let text = |stream: &Option<Capture>| {
            stream
                .as_ref()
                .map_or_else(Default::default, |s| s.text(self.room / 2))
        };
        let (stdout, cut_out) = text(&self.stdout);
        let (stderr, cut_err) = text(&self.stderr);
        Output {
            exit_code: status.and_then(|s| s.code()),
            signal: status.and_then(|s| s.signal()),
            stdout,
            stderr,
            truncated: cut_out || cut_err,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// What an attempt makes of the task.
fn conclude(ended: Ended, output: &Output, props: &Props) -> Result<Message, String> {
    let unfit = |e: windlass::Invalid| e.to_string();
    let reason = match ended {
        Ended::Stopped(stop) => return stop.message().with_data(output).map_err(unfit),
        Ended::Exited(Ok(status)) => match (status.code(), status.signal()) {
            (Some(code), _) if props.ok_exit_codes.iter().any(|ok| i32::from(*ok) == code) => {
                let message = Message::complete_with(output).map_err(unfit)?;
                // The output is in the result; it need not be kept twice.
                return Ok(message.with_json(Json::null()));
            }
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(number)) => match Signal::try_from(number) {
                Ok(signal) => format!("ended by signal {number} ({signal})"),
                Err(_) => format!("ended by signal {number}"),
            },
            (None, None) => "ended in an unknown way".to_owned(),
        },
        Ended::TimedOut(limit) => format!("timed out after {limit:?}"),
        Ended::Exited(Err(e)) => format!("the command could not be waited for: {e}"),
    };
    let lines = last_lines(&output.stderr);
    let reason = if lines.is_empty() {
        reason
    } else {
        format!("{reason}: {lines}")
    };
    Message::error(reason).with_data(output).map_err(unfit)
}

/// The last lines that say something.
fn last_lines(text: &str) -> String {
    let said = text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let mut lines: Vec<&str> = said.take(LAST_LINES).collect();
    lines.reverse();
    let text = lines.join("\n");
    let begin = text.len().saturating_sub(LAST_BYTES);
    match (begin..text.len()).find(|at| text.is_char_boundary(*at)) {
        Some(at) if at > 0 => format!("…{}", &text[at..]),
        _ => text,
    }
}
