//! [`Promises`]: what was acknowledged to the workload, written down at once. The lines lie in the
//! observer's part of the recorded folder, so the trace dates each of them.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use windlass::{CommandId, Outcome, TaskId, store::Change};
use windlass_robustness::{BoxError, world::Promised};

/// One acknowledgement, or the intention to delete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "promise", rename_all = "kebab-case")]
pub enum Promise {
    /// A submit was acknowledged.
    Submitted {
        /// The task.
        task: TaskId,
    },
    /// A delete begins: from now on the task may be there or not.
    Deleting {
        /// The task.
        task: TaskId,
    },
    /// A delete was acknowledged.
    Deleted {
        /// The task.
        task: TaskId,
        /// When, in microseconds of the machine's monotonic clock.
        at: u64,
    },
    /// The sending of a command was acknowledged.
    Sent {
        /// The task.
        task: TaskId,
        /// The command.
        command: CommandId,
    },
    /// The outcome of a command was read.
    Answered {
        /// The task.
        task: TaskId,
        /// The command.
        command: CommandId,
        /// The outcome.
        outcome: Outcome,
    },
    /// The feed of changes has delivered a change.
    Seen {
        /// The change.
        change: Change,
    },
}

/// The file that promises are appended to.
#[derive(Debug)]
pub struct Promises(Mutex<File>);

impl Promises {
    /// Creates the file.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends one line.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, promise: &Promise) -> io::Result<()> {
        let mut line = serde_json::to_vec(promise)?;
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
    }
}

/// All promises, as the checkers take them.
#[derive(Debug, Default)]
pub struct Kept {
    /// Acknowledged submits, commands and deletes.
    pub promised: Promised,
    /// Commands whose outcome was read.
    pub answered: Vec<(TaskId, CommandId, Outcome)>,
    /// Changes that the feed has delivered.
    pub seen: Vec<Change>,
    /// Tasks that may be there or not, and those that were deleted.
    pub deleting: BTreeSet<TaskId>,
}

impl Kept {
    /// Reads the file. A file that is not there holds no promise.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read(path: &Path) -> Result<Self, BoxError> {
        let text = match fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut kept = Self::default();
        for line in text.lines() {
            kept.add(serde_json::from_str(line)?);
        }
        Ok(kept)
    }

    /// Adds the next promise.
    pub fn add(&mut self, promise: Promise) {
        let promised = &mut self.promised;
        match promise {
            Promise::Submitted { task } => promised.tasks.push(task),
            Promise::Deleting { task } => {
                promised.tasks.retain(|t| *t != task);
                promised.commands.retain(|(t, _)| *t != task);
                self.answered.retain(|(t, ..)| *t != task);
                self.deleting.insert(task);
            }
            Promise::Deleted { task, at } => promised.deleted.push((task, at)),
            Promise::Sent { task, command } => promised.commands.push((task, command)),
            Promise::Answered {
                task,
                command,
                outcome,
            } => self.answered.push((task, command, outcome)),
            Promise::Seen { change } => self.seen.push(change),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("promises.jsonl");
        assert!(Kept::read(&path).unwrap().promised.tasks.is_empty());
        let promises = Promises::create(&path).unwrap();
        let task = |text: &str| text.parse::<TaskId>().unwrap();
        let sent = |text: &str| Promise::Sent {
            task: task(text),
            command: "c".parse().unwrap(),
        };
        let change = Change::new(
            7,
            "2026-01-01T00:00:00Z".parse().unwrap(),
            task("a"),
            windlass::store::ChangeKind::Retried,
        );
        for promise in [
            Promise::Submitted { task: task("a") },
            Promise::Submitted { task: task("b") },
            sent("a"),
            sent("b"),
            Promise::Deleting { task: task("b") },
            Promise::Seen {
                change: change.clone(),
            },
        ] {
            promises.write(&promise).unwrap();
        }
        let kept = Kept::read(&path).unwrap();
        assert_eq!(kept.promised.tasks, [task("a")]);
        assert_eq!(kept.promised.commands, [(task("a"), "c".parse().unwrap())]);
        assert!(kept.promised.deleted.is_empty());
        assert!(kept.deleting.contains("b"));
        assert_eq!(kept.seen, [change]);
    }
}
