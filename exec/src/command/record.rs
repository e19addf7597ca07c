//! [`Record`]: what is written down of a running command, beside the task's folder.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tracing::warn;
use windlass::Fence;

use super::{folder::Folder, process::Identity, tagged};
use crate::place::{OwnFolder, write_new_private, write_private};

/// No record is longer.
const LONGEST: u64 = 1 << 20;

/// What is written down of a running command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) fence: Fence,
    /// The leader of its group; `None` from before it starts until it has.
    #[serde(default)]
    pub(super) leader: Option<Identity>,
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
pub(super) struct Running<'a> {
    /// The fence of its claim.
    pub(super) fence: Fence,
    /// The processes that end it: the worker and its supervisor.
    pub(super) holders: &'a [Identity],
    /// How long it has between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
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
    /// Reads the last line: the line of the start is followed by one that names the process. A record that another
    /// user may have written is none: it would have that user's choice of processes ended.
    pub(super) fn read(folder: &Folder) -> Option<Self> {
        let text = match Self::text(folder) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                warn!(%error, "the record of a running command was ignored");
                return None;
            }
        };
        let lines = text.split(|byte| *byte == b'\n').rev();
        // The last one may not be whole yet.
        lines.flat_map(serde_json::from_slice).next()
    }

    fn text(folder: &Folder) -> io::Result<Vec<u8>> {
        let record = &folder.record;
        let (Some(place), Some(name)) = (record.parent(), record.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut text = Vec::new();
        let place = OwnFolder::open(place, folder.owners)?;
        place.read(name)?.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Returns the group of the command if its leader lives and is certainly the process that was written down.
    pub(super) fn group(&self, folder: &Folder) -> Option<i32> {
        let leader = self.leader.as_ref()?;
        // A number of the system, or of a process that leads no group, was never that of a command. One that names
        // another folder is the command of another task.
        let proves = leader.leads_a_group() && !tagged::is_of_another(folder, leader.pid);
        proves.then_some(leader.pid)
    }

    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Returns how long the command has between SIGTERM and SIGKILL.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.grace_ms.map(Duration::from_millis)
    }

    /// Returns whether a process that ends the command certainly lives.
    pub(super) fn is_held(&self) -> bool {
        self.holders.iter().any(Identity::lives)
    }

    /// Returns whether no process that ends the command lives any more: none of them, on this
    /// machine.
    pub(super) fn is_orphan(&self) -> bool {
        let gone = |holder: &Identity| holder.is_here() && !holder.lives();
        !self.holders.is_empty() && self.holders.iter().all(gone)
    }
}

/// The record of a command that this process starts.
#[derive(Debug)]
pub(super) struct Started<'a> {
    folder: &'a Folder,
    running: Running<'a>,
    file: fs::File,
}

/// Why a command was not written down.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// A later claim has written its command down.
    LaterClaim(Fence),
    File(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Says that a command is about to start.
///
/// # Errors
///
/// When the record is that of a later claim, or cannot be written.
pub(super) fn about_to_start<'a>(
    folder: &'a Folder,
    running: Running<'a>,
) -> Result<Started<'a>, NotWritten> {
    let line = running.record(None).line()?;
    if let Some(later) = Record::read(folder).filter(|r| r.fence > running.fence) {
        return Err(NotWritten::LaterClaim(later.fence));
    }
    // A file that is not whole yet is of a command that has not started.
    let file = match write_new_private(&folder.record, &line) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => replace(&folder.record, &line)?,
        written => written?,
    };
    Ok(Started {
        folder,
        running,
        file,
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
    pub(super) fn is(&mut self, pid: i32) -> io::Result<()> {
        let line = self.running.record(Identity::of(pid)).line()?;
        self.file.write_all(&line)
    }

    /// Says that the command has ended. The record of another claim stays: it replaced this one,
    /// which has no name since.
    pub(super) fn ended(self) {
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) {
            let _ = fs::remove_file(&self.folder.record);
        }
    }
}

/// Says that the command of this claim has ended, for a worker that is gone.
pub(super) fn ended(folder: &Folder, fence: Fence) {
    if Record::read(folder).is_some_and(|record| record.fence == fence) {
        let _ = fs::remove_file(&folder.record);
    }
}
