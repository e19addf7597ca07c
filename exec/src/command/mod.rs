//! The kinds `exec` and `exec/run`: a task that is a command of the operating system.
//!
//! # Flow
//!
//! 1. The handler ends what an earlier attempt left running on this machine ([`leftover`]). A stop
//!    waits for that.
//! 2. The command starts in its own process group ([`group`]), with the task's folder ([`folders`])
//!    in its environment.
//! 3. The output ([`capture`]) goes to the files of the log ([`logs`](crate::logs)). While the command
//!    runs, the last part of it is persisted from time to time.
//! 4. The command ends. An exit code that counts as success completes the task, with [`Output`] as
//!    the result; anything else is an error, and [`Output`] becomes the task's data.
//!
//! When this machine cannot start a command (no memory, no file descriptors, a full disk), no
//! attempt is counted: the task is released, and the node waits ([`fault`]).
//!
//! # Commands and stops
//!
//! Pause, sleep, release, complete, kill, a shutdown and a drain end the whole group: SIGTERM, and
//! SIGKILL after the task's grace (or the worker's, whichever is shorter). A task that resumes later
//! starts its command again; the command continues from what it kept in its folder. A lost claim and
//! a deleted task leave no time for a grace: the group is killed at once, since another node may
//! start the task. Checkpoint persists the present output.
//!
//! # Signals
//!
//! A command waits for a signal by a request through the [socket](crate::socket) of its worker. When the signal has not
//! arrived, the whole group ends as for a pause, and the task waits without a slot. The signal starts the command again,
//! from the top, and its request is answered at once ([`awaited`]).
//!
//! # The environment of the command
//!
//! | variable | what |
//! |---|---|
//! | `WINDLASS_TASK_ID` | the task's id |
//! | `WINDLASS_ATTEMPT` | the number of the attempt, from 1 |
//! | `WINDLASS_INCARNATION` | how often a retry started the task again, from 0 |
//! | `WINDLASS_FENCE` | the number of the claim; it only grows, so another system can reject writes of an older claim |
//! | `WINDLASS_SCHEDULED_FOR` | the nominal time (RFC 3339), for a run of a schedule |
//! | `WINDLASS_WAITED` | the tasks that it has waited for, with their outcomes, as JSON |
//! | `WINDLASS_META` | the task's `meta` as JSON, if it has any; `TRACEPARENT` and `TRACESTATE` are its entries of these names in lower case |
//! | `WINDLASS_STATE_DIR` | a folder for the command's own progress, kept between attempts |
//! | `WINDLASS_STORE` | the URL of the store, so that the command can submit tasks ([`environment`]) |
//! | `WINDLASS_TASK_SOCKET`, `WINDLASS_TASK_KEY` | the [socket](crate::socket) of the worker, and the key of this run |

mod awaited;
mod capture;
mod conclude;
mod env_file;
mod environment;
mod fault;
mod folder;
mod folders;
mod group;
#[cfg(test)]
mod lease_tests;
mod leftover;
pub mod operators;
mod orphans;
mod prepare;
pub(crate) mod process;
pub mod programs;
mod props;
mod record;
mod tagged;
#[cfg(test)]
mod tests;
mod waited;
mod watched;
mod word;

use std::{io::ErrorKind, path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep};
use tracing::debug;
use windlass::{
    ActionKind, Message, StatefulHandler, Stop, StopReason, TaskContext, async_trait,
    statemachine::Backoff,
};

use self::{
    awaited::Awaited,
    conclude::conclude,
    env_file::Variables,
    fault::NotRun,
    folder::Folder,
    group::Group,
    leftover::{NotEnded, OnBehalfOf},
    prepare::{name_attempt, prepare},
    process::Identity,
    programs::Programs,
    record::{NotWritten, Running},
    watched::{Ended, OutputSinks, Watched},
};
use crate::{
    logs::Logs,
    socket::{Asking, Sockets},
};

pub use self::{
    awaited::SignalWaits,
    capture::Output,
    folders::Folders,
    props::{FIELDS, Props},
    word::Word,
};

/// The name of the kind.
pub const KIND: &str = windlass::Kind::COMMAND;

/// The name of the kind of the lines of `windlass run`. Its tasks are those of [`KIND`] in everything but who runs them.
pub const RUN_KIND: &str = windlass::Kind::RUN_LINE;

/// The names of the kinds whose tasks are commands.
pub const KINDS: [&str; 2] = [KIND, RUN_KIND];

/// Runs tasks of the kinds `exec` and `exec/run`.
#[derive(Debug, Clone)]
pub struct Exec {
    folders: Folders,
    logs: Logs,
    /// How many bytes a task's props, data and result may have together.
    max_bytes: usize,
    /// The processes that end the commands of this handler: this one, and its supervisor.
    holders: Arc<[Identity]>,
    /// The URL of the store, which commands receive.
    store: Option<Arc<str>>,
    /// The upper bound of every task's grace.
    longest_grace: Duration,
    variables: env_file::Reader,
    programs: Arc<Programs>,
    sockets: Sockets,
}

#[async_trait]
impl StatefulHandler for Exec {
    async fn run(&self, task: TaskContext) -> Message {
        let message = match Props::parse(&task.task().props) {
            Ok(props) => match self.attempt(&task, &props).await {
                Ok(message) => message,
                Err(not_run) => not_run.message(&task).await,
            },
            Err(e) => Message::fail(format_args!("the task cannot be run: {e}")),
        };
        debug!(returned = %message.kind(), "the command's task continues");
        match message.kind() {
            // The command starts from the top, and asks for its signals again.
            ActionKind::Pause | ActionKind::Sleep => message.keep_signals(),
            _ => message,
        }
    }
}

impl Exec {
    /// Returns a handler for the tasks of a store.
    pub fn new(folders: Folders, max_bytes: usize) -> Self {
        Self {
            logs: folders.logs().clone(),
            folders,
            max_bytes,
            holders: process::these(None),
            store: None,
            longest_grace: Duration::MAX,
            variables: env_file::Reader::default(),
            programs: Arc::default(),
            sockets: Sockets::default(),
        }
    }

    /// Writes the output of the commands to these logs.
    pub fn logs(mut self, logs: Logs) -> Self {
        self.logs = logs;
        self
    }

    /// Passes this URL of the store to the commands, unless they cannot use it.
    pub fn store(mut self, url: &str) -> Self {
        self.store = windlass::store::for_other_processes(url).map(Arc::from);
        self
    }

    /// Sets an upper bound for the grace of every task.
    pub fn longest_grace(mut self, grace: Duration) -> Self {
        self.longest_grace = grace;
        self
    }

    /// Sets the supervisor of this process, if it has one.
    pub fn supervised_by(mut self, supervisor: Option<u32>) -> Self {
        self.holders = process::these(supervisor);
        self
    }

    async fn attempt(&self, task: &TaskContext, props: &Props) -> Result<Message, NotRun> {
        let folder = self.folders.prepare(task.id(), task.order());
        let folder = folder.map_err(|(path, e)| NotRun::own_file(&path, &e))?;
        let message = self.command(task, props, &folder).await;
        let completes = message
            .as_ref()
            .is_ok_and(|m| m.kind() == ActionKind::Complete);
        // Once another node may have the claim, it may also use the folder.
        let is_lost = matches!(message, Err(NotRun::ClaimLost(_)));
        if !is_lost && !task.lease_left().is_zero() {
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
    ) -> Result<Message, NotRun> {
        let grace = props.grace.min(self.longest_grace);
        // A stop waits for this: the claim must not be released while a leftover runs.
        let hurry = task.stop_requested().map(|stop| left_of(grace, &stop));
        has_lease(task)?;
        leftover::end(folder, OnBehalfOf::Claim(task.fence()), grace, hurry).await?;
        if let Some(stop) = task.stop_requested().now_or_never() {
            return Ok(stop.message());
        }
        if let Some(cwd) = &props.cwd
            && !cwd.is_dir()
        {
            let cwd = cwd.display();
            return Err(format!("props.cwd: '{cwd}' is not a folder").into());
        }
        let variables = self.variables.read(props).await?;
        let written_down = |e| match e {
            NotWritten::LaterClaim(fence) => NotEnded::OtherClaim(fence).into(),
            NotWritten::File(e) => NotRun::own_file(&folder.record, &e),
        };
        let running = Running {
            fence: task.fence(),
            holders: &self.holders,
            grace,
        };
        has_lease(task)?;
        let mut record = record::about_to_start(folder, running).map_err(written_down)?;
        // Dropped after the group, whose processes must get no other answer before they have ended.
        let mut asking = self.sockets.register().await;
        let starting = Starting {
            props,
            variables: &variables,
            folder,
            asking: asking.as_ref(),
        };
        let mut group = match self.start(task, starting).await {
            Ok(group) => group,
            Err(not_started) => {
                record.ended();
                return match not_started {
                    NotStarted::Stopped(stop) => Ok(stop.message()),
                    NotStarted::NotRun(not_run) => Err(not_run),
                };
            }
        };
        let started = Instant::now();
        let written = record.is(group.id());
        written.map_err(|e| NotRun::own_file(&folder.record, &e))?;
        let (run, log) = self.logs.begin(task);
        let sinks = OutputSinks {
            run,
            room: self.room(task),
            log: log.as_ref(),
        };
        let awaited = Awaited::new(task, sinks.room);
        let mut watched = Watched::new(&mut group, props, started, sinks, awaited);
        let mut ended = watched.watch(task, &mut group, props, &mut asking).await;
        let status = match &ended {
            Ended::Exited(Ok(status)) => {
                watched.last_output().await;
                // Processes that the command left in its group end with it.
                group.stop(grace).await;
                Some(*status)
            }
            Ended::Exited(Err(_)) | Ended::TimedOut(_) | Ended::Stopped(_) | Ended::Waits(_) => {
                let status = group.stop(grace).await;
                watched.last_output().await;
                status
            }
        };
        // A command to the task that arrived in the meantime takes precedence over the wait.
        if let Ended::Waits(_) = ended
            && let Some(stop @ Stop::Command(_)) = task.stop_requested().now_or_never()
        {
            ended = Ended::Stopped(stop);
        }
        record.ended();
        let output = watched.output(status);
        // Nothing more is read, so the log can end.
        let awaited = watched.into_awaited();
        if let Some(log) = log {
            log.finish().await;
        }
        Ok(conclude(ended, output, &awaited, props))
    }

    /// Starts the command. Waits while its program is being replaced.
    async fn start(&self, task: &TaskContext, starting: Starting<'_>) -> Result<Group, NotStarted> {
        let Starting {
            props,
            variables,
            folder,
            asking,
        } = starting;
        let deadline = Instant::now() + REPLACED_WITHIN;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        let mut found = self.found(props, variables);
        loop {
            has_lease(task).map_err(NotStarted::NotRun)?;
            let mut command = prepare(props, found.as_deref());
            // Variables that are set later override earlier ones.
            let store = self.store.as_deref().map(|url| (environment::STORE, url));
            command.envs(store).envs(variables).envs(&props.env);
            name_attempt(&mut command, task, folder);
            command.envs(asking.into_iter().flat_map(Asking::variables));
            match Group::start(&mut command) {
                Ok(group) => return Ok(group),
                Err(e)
                    if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {}
                // The program was removed in the meantime. Another one may have its name.
                Err(_) if found.take().is_some() => continue,
                Err(e) => {
                    return Err(NotStarted::NotRun(NotRun::start(props, &e)));
                }
            }
            tokio::select! {
                stop = task.stop_requested() => return Err(NotStarted::Stopped(stop)),
                () = sleep(backoff.pause()) => {}
            }
        }
    }

    /// Returns the path of the command's program, unless the command has a `PATH` of its own.
    fn found(&self, props: &Props, variables: &Variables) -> Option<PathBuf> {
        let own = props.env.contains_key("PATH") || variables.contains_key("PATH");
        match own {
            true => None,
            false => self.programs.find(&props.program.to_os_string()),
        }
    }

    /// Returns how many bytes the output may take as JSON.
    fn room(&self, task: &TaskContext) -> usize {
        self.max_bytes
            .saturating_sub(task.task().props.len())
            .saturating_sub(1024)
    }
}

/// Fails when the lease has ended: a process that stood still notices it here, before the engine does.
/// Another node may then have the task, with its own command on this machine.
fn has_lease(task: &TaskContext) -> Result<(), NotRun> {
    match task.lease_left().is_zero() {
        true => Err(NotRun::ClaimLost("the lease of this node is over".into())),
        false => Ok(()),
    }
}

/// Returns how much of the grace remains for processes of an earlier attempt: half of it, so that
/// SIGKILL comes before the handler's own grace ends. Nothing when another node may start the task.
fn left_of(grace: Duration, stop: &Stop) -> Duration {
    match stop {
        Stop::Node(StopReason::LeaseLost | StopReason::Deleted) => Duration::ZERO,
        _ => grace / 2,
    }
}

/// How long a command waits while another process writes to its program (an installation, say).
const REPLACED_WITHIN: Duration = Duration::from_secs(10);

/// What a command starts with.
struct Starting<'a> {
    props: &'a Props,
    variables: &'a Variables,
    folder: &'a Folder,
    asking: Option<&'a Asking>,
}

/// Why a command was not started.
enum NotStarted {
    /// The task should stop.
    Stopped(Stop),
    NotRun(NotRun),
}
