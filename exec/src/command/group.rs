//! [`Group`]: a running command with all processes that it starts.
//!
//! The crate `process-wrap` can start and kill a group, but it cannot check whether a member still lives after the
//! leader was waited for, and it cannot stop a group with a grace. Those two are most of this file, and tokio can
//! start a group on its own.

use std::{io, process::ExitStatus, time::Duration};

use nix::sys::signal::Signal;
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};
use tracing::warn;
use windlass::statemachine::Backoff;

use super::process::{self, Stat};

/// How long to wait for a killed process to disappear. A process that is stuck in the kernel may
/// take longer.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// A command in its own process group. Dropping it kills the whole group at once.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    id: i32,
    /// How the leader ended. From then on its process number may be reused.
    ended: Option<ExitStatus>,
    /// Whether no process of the group is left.
    gone: bool,
}

impl Group {
    /// Starts the command as the leader of a new group.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| io::Error::other("the process has no number"))?;
        Ok(Self {
            leader,
            id,
            ended: None,
            gone: false,
        })
    }

    /// Returns the number of the group, which is also that of its leader.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Returns the pipes to and from the leader that were requested. Each is returned once.
    pub(crate) fn pipes(
        &mut self,
    ) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        let leader = &mut self.leader;
        (
            leader.stdin.take(),
            leader.stdout.take(),
            leader.stderr.take(),
        )
    }

    /// Waits until the leader has ended. Safe to drop while it waits.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = self.leader.wait().await?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Returns whether a process of the group lives.
    pub(crate) fn lives(&mut self) -> bool {
        if self.gone || !self.is_ours() {
            self.gone = true;
            return false;
        }
        let lives = self.ended.is_none() || process::group_lives(self.id);
        self.gone = !lives;
        lives
    }

    /// Returns whether the group's number is still ours. Once the leader was waited for, the system
    /// may give its number to another process, but only when the group has no member any more.
    fn is_ours(&self) -> bool {
        self.ended.is_none() || Stat::of(self.id).is_none()
    }

    fn signal(&self, signal: Signal) {
        if !self.gone
            && self.is_ours()
            && let Err(error) = process::signal_group(self.id, signal)
        {
            warn!(group = self.id, %signal, %error, "a process group could not be signalled");
        }
    }

    /// Ends the whole group: SIGTERM, and SIGKILL for what lives after the grace. Returns how the
    /// leader ended; `None` when it is stuck in the kernel.
    pub(crate) async fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        // Most commands leave no processes behind.
        if !self.lives() {
            return self.ended;
        }
        let deadline = Instant::now() + grace;
        self.signal(Signal::SIGTERM);
        // A stopped process (SIGSTOP) handles SIGTERM only when it continues.
        self.signal(Signal::SIGCONT);
        let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
        while self.lives() && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended.is_none() {
                let _ = timeout(left, self.wait()).await;
            } else {
                sleep(backoff.pause().min(left)).await;
            }
        }
        if self.lives() {
            self.signal(Signal::SIGKILL);
            let _ = timeout(AFTER_KILL, self.wait()).await;
            self.gone = true;
        }
        self.ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.lives() {
            self.signal(Signal::SIGKILL);
        }
    }
}
