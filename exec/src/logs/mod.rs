//! [`Logs`]: the whole output of every attempt, in files on the machine that runs it.
//!
//! They are next to the folders of the tasks: for `sqlite:/var/lib/jobs.db` in
//! `/var/lib/jobs.db.logs/store=IDENTITY/ID@ORDER/`. A run of the command writes two plain files, `stdout` and
//! `stderr`, and an index that orders their pieces by time (`index`). A log with a limit consists of segments;
//! the oldest is deleted to make room for a new one, and a reader reports how many bytes are missing
//! (`reader`). A command that prints nothing gets no files.
//!
//! One file with both streams in frames would need no index, but it would not be plain text, which `less`, `grep` and a log
//! shipper can read without windlass. It would need segments all the same: only whole files can be deleted from the front
//! of a log with a limit.
//!
//! The files survive a kill of the worker: each piece is written as soon as it is read. They are not
//! synced, so that the end may be missing after a crash of the machine. They are deleted when the store
//! no longer has the task (`sweep`).
//!
//! | module | what |
//! |---|---|
//! | `name` | the names of the files |
//! | `index` | the lines of the index |
//! | `writer`, `recorder` | segments, the limit, a full disk; writing in the background |
//! | `reader` | reading, also while the log is written |
//! | `lines` | lines with a prefix or a time |
//! | `sweep` | deleting the logs of tasks that are gone |

mod index;
mod lines;
mod name;
mod reader;
mod recorder;
mod sweep;
#[cfg(test)]
mod tests;
mod writer;

use std::{fs, io, path::PathBuf, time::Duration};

use tokio::sync::mpsc::UnboundedSender;
use windlass::{Client, TaskContext, TaskId};

use self::name::Segment;
pub use self::{
    lines::{Lines, time},
    name::{Bytes, Run, Stream},
    reader::{Event, Reader},
    sweep::SWEEP_EVERY,
};
pub(crate) use self::{
    recorder::Recorder,
    writer::{Piece, Writer},
};
use crate::{place::Place, task_folder::task_folder};

/// How many bytes of an attempt's output are kept in files by default.
pub const LIMIT: u64 = 64 << 20;

/// How much of a command's output is kept in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    None,
    /// At most this number of bytes for each run of a command; the oldest are deleted.
    Bytes(u64),
    /// All of it.
    All,
}

/// Reports that a command of this process began, and where its output goes.
#[derive(Debug)]
pub struct Started {
    /// The task.
    pub id: TaskId,
    /// Its submit order.
    pub order: u64,
    /// The run of its command.
    pub run: Run,
}

/// The logs of the tasks of one store, on this machine.
#[derive(Debug, Clone)]
pub struct Logs {
    place: Place,
    limit: Limit,
    /// The receiver of commands that begin.
    started: Option<UnboundedSender<Started>>,
}

impl Logs {
    /// Deletes the logs of tasks that were deleted or pruned.
    pub async fn sweep(&self, client: &Client) {
        sweep::sweep(&self.place.root, client).await;
    }

    /// Sweeps at this interval, or at 100 times the duration of the last sweep if that is longer.
    /// Never returns.
    pub async fn keep_swept(&self, client: &Client, every: Duration) {
        sweep::keep_swept(&self.place.root, client, every).await;
    }

    /// Returns the logs in this folder, which need not exist.
    pub(crate) fn at(place: Place) -> Self {
        Self {
            place,
            limit: Limit::Bytes(LIMIT),
            started: None,
        }
    }

    /// Returns the logs of the store with this URL. `None` for the store in memory.
    ///
    /// # Errors
    ///
    /// When the store does not report its identity. A machine without a place for logs has no logs,
    /// which is not an error.
    pub async fn of_store(
        url: &str,
        client: &Client,
    ) -> Result<Option<Self>, windlass::store::Error> {
        let identity = client.store().registry().identity().await?;
        let place = Place::of(url, &identity, "logs").ok().flatten();
        Ok(place.map(Self::at))
    }

    /// Sets the limit of each log.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// Reports each command that begins to this receiver.
    pub fn report_to(mut self, to: UnboundedSender<Started>) -> Self {
        self.started = Some(to);
        self
    }

    fn dir(&self, id: &TaskId, order: u64) -> PathBuf {
        self.place.root.join(task_folder(id, order))
    }

    /// Begins a run of a task's command. Opens its log unless logs are off.
    pub(crate) fn begin(&self, task: &TaskContext) -> (Run, Option<Recorder>) {
        let (id, order) = (task.id(), task.order());
        let mut run = Run {
            fence: task.fence(),
            incarnation: task.incarnation(),
            attempt: task.attempt(),
            nth: 0,
        };
        let limit = match self.limit {
            Limit::None => return (run, None),
            Limit::Bytes(limit) => Some(limit),
            Limit::All => None,
        };
        // A folder that cannot be read cannot be written either.
        for earlier in self.runs(id, order).unwrap_or_default() {
            if (Run { nth: 0, ..earlier }) == (Run { nth: 0, ..run }) {
                run.nth = earlier.nth.saturating_add(1);
            }
        }
        if let Some(started) = &self.started {
            let id = id.clone();
            // The receiver ends when no one reads the output any more.
            let _ = started.send(Started { id, order, run });
        }
        let writer = Writer::new(self.place.clone(), task_folder(id, order), run, limit);
        (run, Some(Recorder::start(writer)))
    }

    /// Returns the runs of a task that have a log here, the newest last.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn runs(&self, id: &TaskId, order: u64) -> io::Result<Vec<Run>> {
        let segments = Segment::list(&self.dir(id, order))?;
        let mut runs: Vec<Run> = segments.into_iter().map(|s| s.run).collect();
        runs.dedup();
        Ok(runs)
    }

    /// Reads the log of a run.
    pub fn reader(&self, id: &TaskId, order: u64, run: Run) -> Reader {
        Reader::new(self.dir(id, order), run)
    }

    /// Deletes the oldest part of each log of a task beyond this many bytes.
    pub fn trim(&self, id: &TaskId, order: u64, limit: u64) {
        let dir = self.dir(id, order);
        let mut sum = 0;
        let mut run = None;
        for segment in Segment::list(&dir).unwrap_or_default().into_iter().rev() {
            if run.replace(segment.run) != Some(segment.run) {
                sum = 0;
            }
            sum += segment.bytes(&dir);
            if sum > limit {
                segment.remove(&dir);
            }
        }
    }

    /// Removes the folders around the logs if they are empty.
    pub fn remove_empty(&self) {
        let above = self.place.above.iter();
        for folder in std::iter::once(&self.place.root).chain(above) {
            let _ = fs::remove_dir(folder);
        }
    }
}
