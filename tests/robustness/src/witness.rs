//! [`Journal`]: append-only files outside of the store. The observations of handlers are written
//! there at once, each with one `write`, so that they outlive the process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use windlass::{Fence, NodeName, TaskId};

use crate::{BoxError, time};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When: microseconds of the machine's monotonic clock, which all processes share.
    pub at: u64,
    /// In which process (or to which, for what the test did).
    pub pid: u32,
    /// What.
    #[serde(flatten)]
    pub said: Said,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "kebab-case")]
pub enum Said {
    /// A handler started, with this count in its data.
    Start {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
        /// What it found.
        n: u64,
    },
    /// A handler ended, in whatever way short of the death of its process.
    End {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
    },
    /// A handler is about to write this count, in a checkpoint or a message.
    Asked {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
        /// The new count.
        n: u64,
    },
    /// A checkpoint was acknowledged to a handler.
    Acked {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
        /// The count that is durable.
        n: u64,
    },
    /// A write was refused because the claim is not the live one any more.
    Fenced {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
    },
    /// The store acknowledged a claim to a node.
    Claimed {
        /// Of this task.
        task: TaskId,
        /// The claim's fence.
        fence: Fence,
        /// The lease that the claim is attached to.
        lease: u64,
    },
    /// A write of this claim is held, until the test lets it through ([`crate::zombie`]).
    Held {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
    },
    /// The process was not run by the operating system since then.
    Stalled {
        /// Since when.
        since: u64,
    },
    /// The process runs a node that takes only these tasks.
    Serves {
        /// Its node.
        node: NodeName,
        /// Their kinds; empty for all that the crash tests have.
        kinds: Vec<String>,
        /// Their value of the label [`SIDE`](crate::terms::SIDE), if the node asks for one.
        side: Option<String>,
    },
    /// A handler of [`crate::reuse`] started.
    Began {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
        /// The submit order of the task.
        order: u64,
        /// Its kind.
        kind: String,
        /// The word of its props.
        word: u64,
        /// The word and the count of the data that it found.
        found: Option<(u64, u64)>,
    },
    /// A checkpoint was acknowledged to a handler of [`crate::reuse`].
    Saved {
        /// Of this task.
        task: TaskId,
        /// On this claim.
        fence: Fence,
        /// The submit order of the task.
        order: u64,
        /// The count that is durable.
        n: u64,
    },
    /// The wall clock of the process, at the time of this line. The first such line of a run is right.
    Clock {
        /// In microseconds since 1970.
        wall: i64,
    },
    /// The test started it, as this node.
    Launched {
        /// Its node.
        node: NodeName,
    },
    /// The test killed it.
    Killed,
    /// The test stopped it, with its supervisor if it has one.
    Stopped,
    /// The test stopped the worker below a supervisor. The supervisor continues.
    WorkerStopped,
    /// The test let it continue.
    Continued,
    /// An operator ended the lease of its node, whose tasks are free from then on.
    Revoked,
    /// The test did something to the cluster under the workers.
    Shaken {
        /// What.
        how: String,
    },
}

/// The lines of all processes of a simulation, in the order of their writing.
pub type Lines = Arc<Mutex<Vec<Line>>>;

/// Records what one process sees.
#[derive(Debug)]
pub struct Journal(Sink);

/// Where the lines go.
#[derive(Debug)]
enum Sink {
    /// The file of the process.
    File(Mutex<File>),
    /// The lines of a simulation, until its process is killed.
    Kept { lines: Lines, dead: AtomicBool },
}

impl Journal {
    /// The journal of a process, in a folder.
    ///
    /// # Errors
    ///
    /// When the file cannot be made.
    pub fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(format!("{name}.jsonl"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Sink::File(Mutex::new(file))))
    }

    /// The journal of a process that is simulated.
    pub fn kept(lines: &Lines) -> Self {
        Self(Sink::Kept {
            lines: lines.clone(),
            dead: AtomicBool::new(false),
        })
    }

    /// Records nothing from now on: the process was killed.
    pub fn close(&self) {
        if let Sink::Kept { dead, .. } = &self.0 {
            dead.store(true, Ordering::Relaxed);
        }
    }

    /// Writes down what happened in this process, now.
    pub fn say(&self, said: Said) {
        self.say_of(time::pid(), said);
    }

    /// Writes down what happened to a process, now.
    #[allow(
        clippy::panic,
        reason = "a witness that cannot write must not be taken for one that saw nothing"
    )]
    pub fn say_of(&self, pid: u32, said: Said) {
        let file = match &self.0 {
            Sink::File(file) => file,
            Sink::Kept { dead, .. } if dead.load(Ordering::Relaxed) => return,
            Sink::Kept { lines, .. } => {
                let mut lines = lines.lock().unwrap_or_else(|e| e.into_inner());
                let at = time::now();
                return lines.push(Line { at, pid, said });
            }
        };
        let mut file = file.lock().unwrap_or_else(|e| e.into_inner());
        // The time is taken under the lock: the lines of a process are in order.
        let line = Line {
            at: time::now(),
            pid,
            said,
        };
        let written = serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|mut text| {
                text.push(b'\n');
                file.write_all(&text)
            });
        if let Err(e) = written {
            panic!("the witness cannot write: {e}");
        }
    }
}

/// Everything that was witnessed in a folder, in order of time.
///
/// # Errors
///
/// When a file cannot be read. The last line of a process that was killed while it wrote may be cut
/// off; any other line has to be whole.
pub fn read(folder: &Path) -> Result<Vec<Line>, BoxError> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        for line in text.split_inclusive('\n').filter(|l| l.ends_with('\n')) {
            let line = serde_json::from_str(line)
                .map_err(|e| format!("{}: {e} in {line}", path.display()))?;
            lines.push(line);
        }
    }
    lines.sort_by_key(|line: &Line| line.at);
    Ok(lines)
}

/// Records when this process did not run for a while, and so acted late. Runs in a separate thread
/// that does nothing else.
pub fn watch_stalls(journal: Arc<Journal>) {
    const TICK: Duration = Duration::from_millis(10);
    const LATE: u64 = 60_000;
    std::thread::spawn(move || {
        let mut before = time::now();
        loop {
            std::thread::sleep(TICK);
            let after = time::now();
            if after - before > LATE {
                journal.say(Said::Stalled { since: before });
            }
            before = after;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_in_order_and_a_torn_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path(), "a").unwrap();
        journal.say(Said::Stalled { since: 7 });
        journal.say_of(9, Said::Killed);
        let file = folder.path().join("b.jsonl");
        fs::write(file, "{\"at\":1,\"pid\":2,\"said\":\"killed\"}\n{\"at\":").unwrap();
        let lines = read(folder.path()).unwrap();
        let said: Vec<&Said> = lines.iter().map(|l| &l.said).collect();
        assert_eq!(
            said,
            [&Said::Killed, &Said::Stalled { since: 7 }, &Said::Killed]
        );
    }

    #[test]
    fn a_broken_line_inside_a_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.jsonl"), "{\"at\":1\n").unwrap();
        assert!(read(folder.path()).is_err());
    }
}
