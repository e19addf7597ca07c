//! [`Record`]: the record of a running command, next to the task's folder.

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

/// The largest record, in bytes.
const LONGEST: u64 = 1 << 20;

/// The record of a running command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) fence: Fence,
    /// The leader of the command's group; `None` until the command has started.
    #[serde(default)]
    pub(super) leader: Option<Identity>,
    /// The processes that end the command: the worker and its supervisor. Empty in records of
    /// versions that did not write them.
    #[serde(default)]
    holders: Vec<Identity>,
    /// How long the command has between SIGTERM and SIGKILL, in milliseconds.
    #[serde(default)]
    grace_ms: Option<u64>,
}

/// The record of a command that has not started yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running<'a> {
    /// The fence of the claim.
    pub(super) fence: Fence,
    /// The processes that end the command: the worker and its supervisor.
    pub(super) holders: &'a [Identity],
    /// How long the command has between SIGTERM and SIGKILL.
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
    /// Reads the last line: after the start, a second line names the process. A record that another user may have
    /// written is ignored: otherwise that user could choose the processes to end.
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
        // The last line may still be incomplete.
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

    /// Returns the group of the command if its leader lives and is certainly the recorded process.
    pub(super) fn group(&self, folder: &Folder) -> Option<i32> {
        let leader = self.leader.as_ref()?;
        // A process of the system, or one that does not lead a group, was never a command. One that names another
        // folder is the command of another task.
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

    /// Returns whether the worker or the supervisor that ends the command certainly lives.
    pub(super) fn is_held(&self) -> bool {
        self.holders.iter().any(Identity::lives)
    }

    /// Returns whether the worker and the supervisor that end the command have both ended on this
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

/// Why a command could not be recorded.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// A later claim has recorded its command.
    LaterClaim(Fence),
    File(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Records that a command is about to start.
///
/// # Errors
///
/// When the record belongs to a later claim, or cannot be written.
pub(super) fn about_to_start<'a>(
    folder: &'a Folder,
    running: Running<'a>,
) -> Result<Started<'a>, NotWritten> {
    let line = running.record(None).line()?;
    if let Some(later) = Record::read(folder).filter(|r| r.fence > running.fence) {
        return Err(NotWritten::LaterClaim(later.fence));
    }
    // An incomplete file belongs to a command that has not started.
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

/// Replaces a record by a rename: readers see the old one until the new one is complete. The new
/// record need not survive a crash of the machine, because the process does not either.
fn replace(record: &Path, line: &[u8]) -> io::Result<fs::File> {
    let mut new = record.as_os_str().to_owned();
    // No folder has a name that ends like this.
    new.push("~");
    let file = write_private(Path::new(&new), line)?;
    fs::rename(new, record)?;
    Ok(file)
}

impl Started<'_> {
    /// Records the process of the command.
    pub(super) fn is(&mut self, pid: i32) -> io::Result<()> {
        let line = self.running.record(Identity::of(pid)).line()?;
        self.file.write_all(&line)
    }

    /// Records that the command has ended. If another claim has replaced the record, that one
    /// stays.
    pub(super) fn ended(self) {
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) {
            let _ = fs::remove_file(&self.folder.record);
        }
    }
}

/// Records that the command of this claim has ended, on behalf of a worker that is gone.
pub(super) fn ended(folder: &Folder, fence: Fence) {
    if Record::read(folder).is_some_and(|record| record.fence == fence) {
        let _ = fs::remove_file(&folder.record);
    }
}
