//! Ends commands that an earlier attempt left running.
//!
//! A worker ends its commands. When the worker is killed, its supervisor does. Commands remain only if
//! both are killed at once, or if there is no supervisor. So every running command is recorded next to
//! the task's folder before it starts ([`Record`]), with the processes that would end it:
//!
//! - The next attempt on the same machine ends whatever still lives before it starts its own ([`end`]).
//! - A worker ends the commands whose processes have ended, when it starts and while it works, whether or not
//!   their tasks run again ([`orphans`](super::orphans)).
//!
//! A process is identified by its number, its start time and the start of the machine. If the worker
//! died before it could record them, the process is identified by the variable `WINDLASS_STATE_DIR`
//! in its environment, which names the task's folder.
//!
//! A record is trusted only if this user wrote it, in a folder of this user, and the process that it names leads
//! its group. Otherwise another user could name any process to be ended.
//!
//! A worker that stood still may have lost its claim without noticing. So an attempt never ends
//! processes of a claim with a greater fence, and reads the record again before every signal.

use std::{future::Future, pin::pin, time::Duration};

use futures::FutureExt;
use nix::sys::signal::Signal;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::warn;
use windlass::{Fence, statemachine::Backoff};

use super::{folder::Folder, process, record::Record, tagged::groups_of};

/// How long to wait for a killed group to disappear.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// Why the command of an earlier attempt did not end.
#[derive(Debug, Error)]
pub(crate) enum NotEnded {
    /// The task has, or had, a later claim: nothing was signalled after it was noticed.
    #[error("the record of the running command is that of another claim, with the fence {0}")]
    OtherClaim(Fence),
    /// Some of its processes still live.
    #[error("{0}")]
    Lives(String),
}

/// Returns the groups of an orphan: that of its leader, and those of processes that have left the
/// leader's group.
fn groups_of_orphan(folder: &Folder, record: &Record) -> Vec<i32> {
    // Matches the fence, too: a worker may have started the next attempt just now.
    let mut groups = groups_of(folder, |fence| fence == Some(record.fence));
    if let Some(group) = record.group(folder).filter(|group| !groups.contains(group)) {
        groups.push(group);
    }
    groups
}

/// Returns the group of a command whose worker or supervisor may still end it.
fn group_of_held(folder: &Folder, record: &Record) -> Vec<i32> {
    if let Some(leader) = &record.leader {
        if !leader.is_here() {
            return Vec::new();
        }
        if leader.lives() {
            return record.group(folder).into_iter().collect();
        }
    }
    let mut groups = groups_of(folder, |fence| fence.is_none_or(|f| f == record.fence));
    if let Some(leader) = &record.leader {
        groups.retain(|group| *group == leader.pid);
    }
    groups
}

/// Returns whether a process that ends the command of the folder certainly lives.
pub(crate) fn is_held(folder: &Folder) -> bool {
    Record::read(folder).is_some_and(|record| record.is_held())
}

/// On whose behalf leftovers are ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnBehalfOf {
    /// The attempt of this claim, which starts its own command next.
    Claim(Fence),
    /// No attempt: the task has ended.
    Nobody,
}

impl OnBehalfOf {
    fn is_before(self, fence: Fence) -> bool {
        matches!(self, Self::Claim(own) if own < fence)
    }
}

/// Ends what an earlier attempt left running: SIGTERM, and SIGKILL after the grace. When `hurry`
/// resolves, its output bounds the rest of the grace. Dropping this future sends SIGKILL at once.
///
/// # Errors
///
/// When some of the processes still live, and when a later claim has a command on this machine,
/// which is not touched.
pub(crate) async fn end(
    folder: &Folder,
    whose: OnBehalfOf,
    grace: Duration,
    hurry: impl Future<Output = Duration>,
) -> Result<(), NotEnded> {
    if !folder.record.exists() {
        return Ok(());
    }
    let place = folder.clone();
    // When this future is dropped during the search, the search drops its result, which kills the
    // groups.
    let leftover = tokio::task::spawn_blocking(move || Leftover::find(&place, whose))
        .await
        .map_err(|e| {
            NotEnded::Lives(format!(
                "could not look for what an earlier attempt left: {e}"
            ))
        })??;
    for group in &leftover.groups {
        warn!(
            group,
            "the command of an earlier attempt still runs: ending it"
        );
    }
    leftover.end(grace, hurry).await
}

/// Groups that an earlier attempt has left. Dropping it sends SIGKILL to those that live.
#[derive(Debug)]
pub(super) struct Leftover {
    groups: Vec<i32>,
    /// The folder with the record that names the command.
    folder: Folder,
    /// The fence of the command; `None` for a record that cannot be read.
    of: Option<Fence>,
}

impl Leftover {
    /// Returns the live processes of the command of an orphan's record.
    pub(super) fn of_orphan(folder: &Folder, record: &Record) -> Self {
        Self {
            groups: groups_of_orphan(folder, record),
            folder: folder.clone(),
            of: Some(record.fence),
        }
    }

    /// Returns the groups that were found.
    pub(super) fn groups(&self) -> &[i32] {
        &self.groups
    }

    /// Looks for processes that an earlier attempt left.
    pub(super) fn find(folder: &Folder, whose: OnBehalfOf) -> Result<Self, NotEnded> {
        let found = Record::read(folder);
        let groups = match &found {
            Some(record) if whose.is_before(record.fence) => {
                return Err(NotEnded::OtherClaim(record.fence));
            }
            Some(record) if record.is_orphan() => groups_of_orphan(folder, record),
            Some(record) => group_of_held(folder, record),
            // Treated like a record that names no process.
            None => groups_of(folder, |fence| fence.is_none_or(|f| !whose.is_before(f))),
        };
        Ok(Self {
            groups,
            folder: folder.clone(),
            of: found.map(|record| record.fence),
        })
    }

    /// Returns whether the groups may be signalled: the record is still the one in which they were
    /// found. If the record is gone, another process has ended the groups, and their numbers may
    /// have been reused.
    fn is_current(&self) -> Result<bool, NotEnded> {
        let now = Record::read(&self.folder).map(|record| record.fence);
        match now {
            Some(other) if now != self.of => Err(NotEnded::OtherClaim(other)),
            _ => Ok(now == self.of),
        }
    }

    /// Takes the groups out, so that they are no longer signalled.
    pub(super) fn take_groups(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.groups)
    }

    fn lives(&self) -> bool {
        self.groups.iter().any(|group| process::group_lives(*group))
    }

    fn signal(&self, signal: Signal) -> Result<(), NotEnded> {
        let living = self.groups.iter().filter(|g| process::group_lives(**g));
        let mut failed = Ok(());
        for group in living {
            if !self.is_current()? {
                break;
            }
            let sent = process::signal_group(*group, signal)
                .and_then(|()| process::signal_group(*group, Signal::SIGCONT));
            if let Err(e) = sent {
                failed = Err(NotEnded::Lives(format!(
                    "process group {group} of an earlier attempt cannot be ended: {e}"
                )));
            }
        }
        failed
    }

    /// Ends the groups: SIGTERM, and SIGKILL after the grace. When `hurry` resolves, its output
    /// bounds the rest of the grace.
    pub(super) async fn end(
        mut self,
        grace: Duration,
        hurry: impl Future<Output = Duration>,
    ) -> Result<(), NotEnded> {
        let mut hurry = pin!(hurry.fuse());
        for (signal, wait) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, AFTER_KILL)] {
            let began = Instant::now();
            let mut wait = wait;
            let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
            self.signal(signal)?;
            while self.lives() && began.elapsed() < wait && self.is_current()? {
                let left = wait.saturating_sub(began.elapsed());
                let pause = backoff.pause().min(left);
                tokio::select! {
                    most = &mut hurry, if signal == Signal::SIGTERM => {
                        wait = wait.min(began.elapsed().saturating_add(most));
                    }
                    () = sleep(pause) => {}
                }
            }
        }
        let is_current = self.is_current()?;
        // Groups that have ended are not signalled again: their numbers may be reused.
        let groups = self.take_groups();
        match groups.iter().find(|g| process::group_lives(**g)) {
            Some(group) if is_current => Err(NotEnded::Lives(format!(
                "process group {group} of an earlier attempt was killed and is still there"
            ))),
            _ => Ok(()),
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Err(error) = self.signal(Signal::SIGKILL) {
            warn!(%error, "a command that an earlier worker left could not be killed");
        }
    }
}
