//! What an earlier attempt has left running.
//!
//! A worker ends its commands, and when it is killed its supervisor does. What remains is that both
//! are killed at once, or that there is no supervisor. So every running command is written down beside
//! the task's folder before it starts, with the processes that end it:
//!
//! - The next attempt on the same machine ends whatever still lives before it starts its own ([`end`]).
//! - A worker that starts ends the commands whose processes have ended, whether or not their tasks run
//!   again ([`end_orphans`]).
//!
//! A process is known again by its number together with the time it started and the machine's start,
//! and, should the worker have died before it could write that down, by the variable
//! `WINDLASS_STATE_DIR` in its environment, which names the task's folder.

use std::{
    fs,
    future::Future,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    pin::pin,
    time::Duration,
};

use futures::{FutureExt, future};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::warn;
use windlass::Fence;

use super::{
    folder::Folder,
    process::{self, Identity},
    spares::Spares,
};
use crate::place::{write_new_private, write_private};

/// The variable that names the file where a command keeps its progress.
pub(crate) const STATE_DIR: &str = "WINDLASS_STATE_DIR";
/// The variable that holds the number of the claim.
pub(crate) const FENCE: &str = "WINDLASS_FENCE";

/// How long a killed group may take to be gone.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// What is written down of a running command.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    fence: Fence,
    /// The leader of its group; `None` from before it starts until it has.
    #[serde(default)]
    leader: Option<Identity>,
    /// The processes that end it: the worker and its supervisor. Empty in records of versions that
    /// did not write them down.
    #[serde(default)]
    holders: Vec<Identity>,
    /// How long it has between SIGTERM and SIGKILL, in milliseconds.
    #[serde(default)]
    grace_ms: Option<u64>,
}

/// What is written down of a command before it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<'a> {
    /// The fence of its claim.
    pub(crate) fence: Fence,
    /// The processes that end it: the worker and its supervisor.
    pub(crate) holders: &'a [Identity],
    /// How long it has between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
}

impl Running<'_> {
    fn record(self, leader: Option<Identity>) -> Record {
        Record {
            fence: self.fence,
            leader,
            holders: self.holders.to_vec(),
            grace_ms: u64::try_from(self.grace.as_millis()).ok(),
        }
    }
}

impl Record {
    /// Reads the last line: the line of the start is followed by one that names the process.
    fn read(path: &Path) -> Option<Self> {
        let text = fs::read(path).ok()?;
        let lines = text.split(|byte| *byte == b'\n').rev();
        // The last one may not be whole yet.
        lines.flat_map(serde_json::from_slice).next()
    }

    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Whether a process that ends the command certainly lives.
    fn is_held(&self) -> bool {
        self.holders.iter().any(Identity::lives)
    }

    /// Whether no process that ends the command lives any more: none of them, on this machine.
    fn is_orphan(&self) -> bool {
        let gone = |holder: &Identity| holder.is_here() && !holder.lives();
        !self.holders.is_empty() && self.holders.iter().all(gone)
    }
}

/// The record of a command that this process starts.
#[derive(Debug)]
pub(crate) struct Started<'a> {
    folder: &'a Folder,
    running: Running<'a>,
    file: fs::File,
    spares: &'a Spares,
}

/// Says that a command is about to start.
pub(crate) fn about_to_start<'a>(
    folder: &'a Folder,
    running: Running<'a>,
    spares: &'a Spares,
) -> io::Result<Started<'a>> {
    let line = running.record(None).line()?;
    // A file that is not whole yet is of a command that has not started.
    let file = match spares.begin(&folder.record, &line) {
        Some(file) => file,
        None => match write_new_private(&folder.record, &line) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => replace(&folder.record, &line)?,
            written => written?,
        },
    };
    Ok(Started {
        folder,
        running,
        file,
        spares,
    })
}

/// Replaces a record by a rename: the old one is read until the new one is whole. The new one need
/// not survive a crash of the machine: the process does not.
fn replace(record: &Path, line: &[u8]) -> io::Result<fs::File> {
    let mut new = record.as_os_str().to_owned();
    // No folder's name has this.
    new.push("~");
    let file = write_private(Path::new(&new), line)?;
    fs::rename(new, record)?;
    Ok(file)
}

impl Started<'_> {
    /// Says which process the command is.
    pub(crate) fn is(&mut self, pid: i32) -> io::Result<()> {
        let line = self.running.record(Identity::of(pid)).line()?;
        self.file.write_all(&line)
    }

    /// Says that the command has ended. The record of another claim stays: it replaced this one,
    /// which has no name since.
    pub(crate) fn ended(self) {
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) {
            self.spares.take(&self.folder.record, self.file);
        }
    }
}

/// Says that the command of this claim has ended, for a worker that is gone.
fn ended(folder: &Folder, fence: Fence) {
    if Record::read(&folder.record).is_some_and(|record| record.fence == fence) {
        let _ = fs::remove_file(&folder.record);
    }
}

/// The entry of a command's environment that names its folder.
fn state_dir(folder: &Folder) -> Vec<u8> {
    let mut entry = format!("{STATE_DIR}=").into_bytes();
    entry.extend_from_slice(folder.path.as_os_str().as_encoded_bytes());
    entry
}

/// A command whose worker and supervisor have ended.
struct Orphan {
    folder: Folder,
    fence: Fence,
    grace: Option<Duration>,
    /// Its group, and those of processes that have left it.
    groups: Vec<i32>,
}

impl Orphan {
    /// Returns the command of the folder if no process is left to end it.
    fn of(folder: Folder) -> Option<Self> {
        let record = Record::read(&folder.record).filter(Record::is_orphan)?;
        // By the fence, too: a worker may have started the next attempt just now.
        let fence = format!("{FENCE}={}", record.fence).into_bytes();
        let mut groups = process::groups_with(&[&state_dir(&folder), &fence]);
        if let Some(leader) = record.leader.filter(Identity::lives)
            && !groups.contains(&leader.pid)
        {
            groups.push(leader.pid);
        }
        Some(Self {
            folder,
            fence: record.fence,
            grace: record.grace_ms.map(Duration::from_millis),
            groups,
        })
    }

    /// Ends it; SIGKILL comes after the task's grace, or this one if it is shorter.
    async fn end(self, longest: Duration) {
        if !self.groups.is_empty() {
            let (folder, groups) = (self.folder.path.display(), &self.groups);
            warn!(%folder, fence = %self.fence, ?groups,
                "the command of a worker that was killed still runs: ending it");
        }
        let grace = self.grace.map_or(longest, |grace| grace.min(longest));
        match Leftover::of(self.groups)
            .end(grace, future::pending())
            .await
        {
            Ok(()) => ended(&self.folder, self.fence),
            Err(error) => warn!(error, "a command that was left could not be ended"),
        }
    }
}

/// Whether a process that ends the command of the folder certainly lives.
pub(crate) fn is_held(folder: &Folder) -> bool {
    Record::read(&folder.record).is_some_and(|record| record.is_held())
}

/// Ends the commands on this machine whose worker and supervisor have ended: SIGTERM, and SIGKILL
/// after the grace. What could not be ended is logged, and its record stays.
pub(crate) async fn end_orphans(folders: Vec<Folder>, grace: Duration) {
    let look = move || folders.into_iter().filter_map(Orphan::of).collect();
    let found: Vec<Orphan> = tokio::task::spawn_blocking(look).await.unwrap_or_default();
    let all = found.into_iter().map(|orphan| orphan.end(grace));
    futures::future::join_all(all).await;
}

/// The groups that an earlier attempt has left.
fn groups(folder: &Folder) -> Vec<i32> {
    // One that cannot be read is as good as one that names no process.
    let leader = Record::read(&folder.record).and_then(|record| record.leader);
    if let Some(leader) = &leader {
        if !leader.is_here() {
            return Vec::new();
        }
        if leader.lives() {
            return vec![leader.pid];
        }
    }
    let mut groups = process::groups_with(&[&state_dir(folder)]);
    if let Some(leader) = leader {
        groups.retain(|group| *group == leader.pid);
    }
    groups
}

/// Ends what an earlier attempt has left running: SIGTERM, and SIGKILL after the grace. When `hurry`
/// resolves, at most its output is left of the grace. Dropping this future sends SIGKILL at once.
///
/// # Errors
///
/// When something of it still lives.
pub(crate) async fn end(
    folder: &Folder,
    grace: Duration,
    hurry: impl Future<Output = Duration>,
) -> Result<(), String> {
    if !folder.record.exists() {
        return Ok(());
    }
    let place = folder.clone();
    // If this future is dropped meanwhile, the search drops what it finds, and so kills it.
    let leftover = tokio::task::spawn_blocking(move || Leftover::of(groups(&place)))
        .await
        .map_err(|e| format!("could not look for what an earlier attempt left: {e}"))?;
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
struct Leftover {
    groups: Vec<i32>,
}

impl Leftover {
    fn of(groups: Vec<i32>) -> Self {
        Self { groups }
    }

    fn lives(&self) -> bool {
        self.groups.iter().any(|group| process::group_lives(*group))
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let living = self.groups.iter().filter(|g| process::group_lives(**g));
        let mut failed = Ok(());
        for group in living {
            let sent = process::signal_group(*group, signal)
                .and_then(|()| process::signal_group(*group, Signal::SIGCONT));
            if let Err(e) = sent {
                failed = Err(format!(
                    "process group {group} of an earlier attempt cannot be ended: {e}"
                ));
            }
        }
        failed
    }

    /// Ends the groups: SIGTERM, and SIGKILL after the grace. When `hurry` resolves, at most its
    /// output is left of the grace.
    async fn end(
        mut self,
        grace: Duration,
        hurry: impl Future<Output = Duration>,
    ) -> Result<(), String> {
        let mut hurry = pin!(hurry.fuse());
        for (signal, wait) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, AFTER_KILL)] {
            let began = Instant::now();
            let mut wait = wait;
            let mut pause = Duration::from_millis(2);
            self.signal(signal)?;
            while self.lives() && began.elapsed() < wait {
                let left = wait.saturating_sub(began.elapsed());
                tokio::select! {
                    most = &mut hurry, if signal == Signal::SIGTERM => {
                        wait = wait.min(began.elapsed().saturating_add(most));
                    }
                    () = sleep(pause.min(left)) => {
                        pause = (pause * 2).min(Duration::from_millis(100));
                    }
                }
            }
        }
        // What has ended is not signalled again: its number may be another group's later.
        let groups = std::mem::take(&mut self.groups);
        match groups.iter().find(|g| process::group_lives(**g)) {
            Some(group) => Err(format!(
                "process group {group} of an earlier attempt was killed and is still there"
            )),
            None => Ok(()),
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Err(error) = self.signal(Signal::SIGKILL) {
            warn!(error, "a command that was left could not be killed");
        }
    }
}
