//! [`Logs`]: the whole output of every attempt, in files on the machine that runs it.
//!
//! They lie beside the folders of the tasks: for `sqlite:/var/lib/jobs.db` in
//! `/var/lib/jobs.db.logs/store=IDENTITY/ID@ORDER/`. A run of the command writes two plain files, `stdout` and
//! `stderr`, and an index that orders their pieces by time (`index`). A log within a limit consists
//! of segments; the oldest is deleted for a new one, and a reader reports how many bytes are missing
//! (`reader`). Nothing is made for a command that prints nothing.
//!
//! One file with both streams in frames would need no index. It would be no plain text any more, which `less`, `grep` and a
//! log shipper read without windlass, and it would need segments all the same: only whole files can be deleted from the
//! front of a log within a limit.
//!
//! The files stay when the worker is killed: each piece is written as soon as it is read. They are not
//! synced, so that the end may be missing after a crash of the machine. They are deleted when the store
//! has no such task any more (`sweep`).
//!
//! | module | what |
//! |---|---|
//! | `name` | the names of the files |
//! | `index` | the lines of the index |
//! | `writer`, `recorder` | segments, the limit, a full disk; writing in the background |
//! | `reader` | reading, also what is still written |
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

/// How much of an attempt's output is kept in files unless the options say otherwise.
pub const LIMIT: u64 = 64 << 20;

/// How much of a command's output is written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    None,
    /// At most this number of bytes for each run of a command.
    Bytes(u64),
    /// All of it.
    All,
}

/// A command of this process began, and this is where its output goes.
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
    /// Receives the commands that begin.
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

    /// Those in this folder, which need not exist.
    pub(crate) fn at(place: Place) -> Self {
        Self {
            place,
            limit: Limit::Bytes(LIMIT),
            started: None,
        }
    }

    /// Those of the store with this URL. `None` for the store in memory.
    ///
    /// # Errors
    ///
    /// When the store does not report its identity. A machine without a place for logs has none.
    pub async fn of_store(
        url: &str,
        client: &Client,
    ) -> Result<Option<Self>, windlass::store::Error> {
        let identity = client.store().registry().identity().await?;
        let place = Place::of(url, &identity, "logs").ok().flatten();
        Ok(place.map(Self::at))
    }

    /// The same, with another limit.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// The same, and each command that begins is reported.
    pub fn report_to(mut self, to: UnboundedSender<Started>) -> Self {
        self.started = Some(to);
        self
    }

    fn dir(&self, id: &TaskId, order: u64) -> PathBuf {
        self.place.root.join(task_folder(id, order))
    }

    /// Begins a run of a task's command, with its log unless none is written.
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
            // The receiver ends when its output has no reader any more.
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

    /// Deletes the oldest of each log of a task beyond this many bytes.
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
