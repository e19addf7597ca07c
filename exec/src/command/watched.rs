//! [`Watched`]: a running command, until it ends or should stop.

use std::{
    future::pending, io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;
use windlass::{ActionKind, CheckpointError, Command, Stop, TaskContext};

use super::{
    awaited::{Awaited, Parked, Step},
    capture::{Capture, Output},
    group::Group,
    props::Props,
};
use crate::{
    logs::{Recorder, Run, Stream},
    socket::{Asked, Asking},
};

/// How long after its start, and how often then, the output of a running command is persisted if it
/// has changed.
const FIRST_SAVE: Duration = Duration::from_secs(1);
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How long to wait for the end of the output after the command has ended: a process that left the
/// group may hold the pipes open for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Why the wait for the command ended.
pub(super) enum Ended {
    Exited(io::Result<ExitStatus>),
    TimedOut(Duration),
    Stopped(Stop),
    /// The command waits for a signal that has not arrived.
    Waits(Parked),
}

/// Where the output of a command goes.
pub(super) struct OutputSinks<'a> {
    pub(super) run: Run,
    /// How many bytes the output may take as JSON, in the store.
    pub(super) room: usize,
    pub(super) log: Option<&'a Recorder>,
}

/// A running command and its output.
pub(super) struct Watched {
    stdout: Option<Capture>,
    stderr: Option<Capture>,
    run: Run,
    room: usize,
    started: Instant,
    saved: u64,
    awaited: Awaited,
}

impl Watched {
    pub(super) fn new(
        group: &mut Group,
        props: &Props,
        started: Instant,
        sinks: OutputSinks<'_>,
        awaited: Awaited,
    ) -> Self {
        let OutputSinks { run, room, log } = sinks;
        let to = |stream| log.map(|log| (stream, log.sender()));
        let (stdin, stdout, stderr) = group.pipes();
        if let (Some(mut stdin), Some(text)) = (stdin, props.stdin.clone()) {
            tokio::spawn(async move {
                // A command need not read its input.
                let _ = stdin.write_all(text.as_bytes()).await;
            });
        }
        Self {
            stdout: stdout.map(|from| Capture::start(from, props.capture, to(Stream::Stdout))),
            stderr: stderr.map(|from| Capture::start(from, props.capture, to(Stream::Stderr))),
            run,
            room,
            started,
            saved: 0,
            awaited,
        }
    }

    /// Waits until the command has ended, exceeded its time limit, should stop, or waits for a signal.
    /// Persists the output in the meantime.
    pub(super) async fn watch(
        &mut self,
        task: &TaskContext,
        group: &mut Group,
        props: &Props,
        asking: &mut Option<Asking>,
    ) -> Ended {
        let commands = task.commands();
        let deadline = props.timeout.map(|t| self.started + t);
        let mut next_save = Instant::now() + FIRST_SAVE;
        let mut saving: Option<BoxFuture<'_, Result<(), CheckpointError>>> = None;
        // An operator asks to persist the output now.
        let mut asked = false;
        loop {
            tokio::select! {
                biased;
                stop = task.stop_requested() => return Ended::Stopped(stop),
                status = group.wait() => return Ended::Exited(status),
                () = sleep_until(deadline.unwrap_or(self.started)), if deadline.is_some() => {
                    return Ended::TimedOut(props.timeout.unwrap_or_default());
                }
                Some(saved) = OptionFuture::from(saving.as_mut()) => {
                    self.awaited.stored(saved.is_ok());
                    if let Err(error) = saved {
                        debug!(%error, "the output was not persisted");
                    }
                    saving = None;
                    next_save = Instant::now() + SAVE_EVERY;
                }
                Some(command) = commands.next() => {
                    asked |= command.kind() == ActionKind::Checkpoint;
                    if let Command::Signal(signal) = command {
                        self.awaited.receive(signal);
                    }
                }
                // After the commands: the signals that have arrived come first.
                request = next(asking) => match self.awaited.asked(request, task.now()) {
                    Step::Answered => {}
                    Step::Store => asked = true,
                    Step::Park(parked) => return Ended::Waits(parked),
                },
                () = sleep_until(next_save), if saving.is_none() => {
                    next_save = Instant::now() + SAVE_EVERY;
                    asked |= self.total() != self.saved;
                }
            }
            if asked && saving.is_none() {
                asked = false;
                self.saved = self.total();
                self.awaited.stores();
                let output = self.output(None);
                saving = Some(async move { task.checkpoint(&output).await }.boxed());
            }
        }
    }

    fn total(&self) -> u64 {
        let streams = [&self.stdout, &self.stderr];
        streams.into_iter().flatten().map(Capture::total).sum()
    }

    /// Waits a short time for the end of the output.
    pub(super) async fn last_output(&mut self) {
        let all = async {
            for stream in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
                stream.ended().await;
            }
        };
        if timeout(LAST_OUTPUT, all).await.is_err() {
            debug!("the command has ended and something still holds its output open");
        }
    }

    /// Returns the output that the store keeps.
    pub(super) fn output(&self, status: Option<ExitStatus>) -> Output {
        let room = self.room.saturating_sub(self.awaited.bytes()) / 2;
        let text = |stream: &Option<Capture>| {
            let text = stream.as_ref().map(|s| s.text(room));
            text.unwrap_or_default()
        };
        let (stdout, cut_out) = text(&self.stdout);
        let (stderr, cut_err) = text(&self.stderr);
        Output {
            exit_code: status.and_then(|s| s.code()),
            signal: status.and_then(|s| s.signal()),
            stdout,
            stderr,
            truncated: cut_out || cut_err,
            stdout_bytes: self.stdout.as_ref().map(Capture::total),
            stderr_bytes: self.stderr.as_ref().map(Capture::total),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            run: Some(self.run),
            waits: self.awaited.waits(),
        }
    }

    /// Returns the signals of the run.
    pub(super) fn into_awaited(self) -> Awaited {
        self.awaited
    }
}

/// Returns the next request of the command's processes. Never returns without a socket.
async fn next(asking: &mut Option<Asking>) -> Asked {
    if let Some(asking) = asking
        && let Some(asked) = asking.next().await
    {
        return asked;
    }
    pending().await
}
